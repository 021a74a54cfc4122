"""From a checkpoint to a voice: the name of its license, and the vectors of its speakers."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from myxtts.corpus.manifest import read_notices
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import CheckpointError
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import bundled_voice, license_file, read_description
from myxtts.training.checkpoint import load_checkpoint
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.voices import export_voice, licence_name, reference_clips, speaker_vectors
from tests.corpus.tiny_corpus import make_corpus
from tests.models.clips import N_MELS, tiny_model
from tests.training.small_runs import quiet_display, small_config

PACKAGE = "Files: *\nLicense: CC-BY-SA-3.0\n\nFiles: ru-*\nLicense: CC-BY-3.0\n\nLicense: CC-BY-SA-3.0\n THE WORK ...\n"


@pytest.mark.parametrize(
    ("licence", "attribution", "name"),
    [
        ("", "", ""),
        ("  MIT\n", "", "MIT"),
        ("MIT License\n\nPermission is hereby granted ...", "", "MIT License"),
        (PACKAGE, "`en`: Allison Smith, CC-BY-SA-3.0", "CC-BY-SA-3.0"),
        (PACKAGE, "`ru`: Maxim, CC-BY-3.0.", "CC-BY-3.0"),
        (PACKAGE, "", "CC-BY-SA-3.0, CC-BY-3.0"),
        ("a" * 1000 + "\nmore", "", "a" * 200),
    ],
)
def test_a_licence_is_known_by_its_name(licence, attribution, name):
    assert licence_name(licence, attribution) == name


def test_the_bundled_voice_has_the_terms_of_its_corpus_in_short_and_in_full():
    corpus: Path = bundled_corpus()
    licence, attribution = read_notices(corpus)
    description = read_description(bundled_voice())
    assert description.licence == licence_name(licence, attribution) == "CC-BY-SA-3.0"
    assert description.attribution == attribution
    assert license_file(bundled_voice()).read_text(encoding="utf-8") == licence


def test_the_longest_clips_of_each_speaker_are_its_references():
    speakers = np.array([1, 0, 1, 1, 0] + [1] * 9)
    frames = np.array([10, 20, 30, 5, 40] + [25] * 9)
    assert reference_clips(speakers, frames).tolist() == [4, 1, 2, 5, 6, 7, 8, 9, 10, 11]


def test_speaker_vectors_are_means_over_batches_of_references():
    count, frames = 300, 20
    random = np.random.default_rng(0)
    mels = random.normal(size=(count, frames, N_MELS)).astype(np.float32)
    cache = SimpleNamespace(
        speakers=tuple("abcdefghijklmnopqrst"),
        speaker_numbers=np.arange(count) % 19,  # the last speaker has no clip
        frame_counts=np.full(count, frames),
        mel=SimpleNamespace(n_mels=N_MELS),
        clip_frames=lambda clip: mels[clip],
    )
    model, calls = tiny_model(num_speakers=20), []
    encode = model.speaker_vectors
    model.speaker_vectors = lambda references: calls.append(len(references)) or encode(references)
    found = speaker_vectors(model, cache, np.arange(count), frames)
    assert calls == [64, 64, 64]  # 19 speakers with 8 references each
    chosen = np.flatnonzero(np.arange(count) % 19 == 3)[:8]
    np.testing.assert_allclose(found[3], encode(tf.constant(mels[chosen])).numpy().mean(axis=0), atol=1e-5)
    assert (found[19] == 0).all()


@pytest.fixture
def two_speakers(tmp_path):
    folder = tmp_path / "corpus"
    lines = make_corpus(folder, 12)
    rows = [f"{clip}|{text}|{'ab'[number % 2]}\n" for number, (clip, text) in enumerate(lines.items())]
    (folder / "metadata.csv").write_text("id|text|speaker\n" + "".join(rows))
    return folder


def test_speaker_vectors_are_computed_at_export_and_not_at_checkpoints(two_speakers, tmp_path, monkeypatch):
    with XTTSTrainer(small_config(two_speakers, tmp_path / "run"), display=quiet_display()) as trainer:
        monkeypatch.setattr(trainer.state.model, "speaker_vectors", None)
        checkpoint = load_checkpoint(trainer.save())
    assert "speaker_vectors" not in checkpoint.arrays
    at_hand = Voice.load(export_voice(checkpoint, tmp_path / "one", corpus=trainer.corpus))
    again = Voice.load(
        export_voice(checkpoint, tmp_path / "two")
    )  # as `myxtts voice export` does: the corpus is opened
    assert at_hand.speakers == ("a", "b")
    assert not np.allclose(at_hand._speaker_vectors[0], at_hand._speaker_vectors[1])
    np.testing.assert_array_equal(at_hand._speaker_vectors, again._speaker_vectors)
    two_speakers.rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=r"A voice of 2 speakers needs the recordings .*copy the voice/ folder"):
        export_voice(checkpoint, tmp_path / "three")
