"""From a checkpoint to a voice: the name of its license, and the vectors of its speakers."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from myxtts.corpus.corpus import license_name, read_splits
from myxtts.errors import CheckpointError
from myxtts.synthesis.bundled import bundled_voices
from myxtts.synthesis.training_split import TrainingSplit
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import license_file, read_description
from myxtts.training.checkpoint import load_checkpoint
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.voice_export import default_first, default_speakers, export_voice, reference_clips, speaker_vectors
from tests.corpus.tiny_corpus import make_corpus, write_metadata, write_tone
from tests.models.clips import N_MELS, tiny_model
from tests.training.small_runs import quiet_display, small_config

PACKAGE = "Files: *\nLicense: CC-BY-SA-3.0\n\nFiles: ru-*\nLicense: CC-BY-3.0\n\nLicense: CC-BY-SA-3.0\n THE WORK ...\n"


@pytest.mark.parametrize(
    ("terms", "attribution", "name"),
    [
        ("", "", ""),
        ("  MIT\n", "", "MIT"),
        ("SPDX-License-Identifier: CC0-1.0\n", "", "CC0-1.0"),
        ("License: SPDX-License-Identifier: CC0-1.0\n\nmore\n", "", "CC0-1.0"),
        ("MIT License\n\nPermission is hereby granted ...", "", "MIT License"),
        (PACKAGE, "`en`: Allison Smith, CC-BY-SA-3.0", "CC-BY-SA-3.0"),
        (PACKAGE, "`ru`: Maxim, CC-BY-3.0.", "CC-BY-3.0"),
        (PACKAGE, "", "CC-BY-SA-3.0, CC-BY-3.0"),
        ("a" * 1000 + "\nmore", "", "a" * 200),
    ],
)
def test_a_license_is_known_by_its_name(terms, attribution, name):
    assert license_name(terms, attribution) == name


def test_bundled_voices_have_their_terms_in_short_and_in_full():
    for folder in bundled_voices().values():
        description = read_description(folder)
        assert set(description.licence.split(", ")) <= {"CC0-1.0", "MIT", "CC-BY-3.0"}
        assert "Source: https://" in description.attribution
        assert license_file(folder) is not None


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
        monkeypatch.setattr(trainer.task.state.model, "speaker_vectors", None)
        checkpoint = load_checkpoint(trainer.task.save().path)
    assert "speaker_vectors" not in checkpoint.arrays
    exported = Voice.load(export_voice(checkpoint, tmp_path / "one", corpus=trainer.task.corpus))
    # As `myxtts voice export` does: the corpus is opened again.
    again = Voice.load(export_voice(checkpoint, tmp_path / "two", steps=4))
    assert [each.description.defaults.steps for each in (exported, again)] == [10, 4]
    assert exported.speakers == ("a", "b")
    assert not np.allclose(exported._speaker_vectors[0], exported._speaker_vectors[1])
    np.testing.assert_array_equal(exported._speaker_vectors, again._speaker_vectors)
    two_speakers.rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=r"A voice of 2 speakers needs the recordings .*copy the voice/ folder"):
        export_voice(checkpoint, tmp_path / "three")


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """The folder of a run of a few steps."""
    run = tmp_path_factory.mktemp("finished")
    XTTSTrainer(small_config(corpus, run, max_steps=3, enable_graph_mode=False), display=quiet_display()).train()
    return run


def start(corpus, run, source):
    config = small_config(corpus, run, init_from=str(source))
    with XTTSTrainer(config, display=quiet_display()) as trainer:
        return trainer


def test_a_voice_records_the_split_that_it_was_trained_with(corpus, finished):
    split = read_description(finished / "voice").training_split
    training, held_out = (manifest.utterances for manifest in read_splits(corpus, validation_fraction=0.2))
    assert len(held_out) == split.num_held_out_clips > 0
    assert all(split.was_held_out(each.id, each.text) for each in held_out)
    assert all(split.was_trained_on(each.text) for each in training)
    assert not any(split.was_held_out(each.id, each.text) for each in training)
    assert split.is_complete


def test_held_out_clips_of_another_folder_are_found_there_although_training_clips_have_their_ids(tmp_path):
    from myxtts.commands.evaluate import _corpus_sentences

    lines = make_corpus(tmp_path / "training", 12)
    make_corpus(tmp_path / "other", 14)
    held_out = {f"clip{number:03d}": f"new text {number}" for number in range(13)} | {"validation/a": "a folder"}
    write_tone(tmp_path / "other" / "wavs" / "validation" / "a.wav")
    write_metadata(tmp_path / "other", held_out)
    config = small_config(tmp_path / "training", tmp_path / "run", {"val_data": str(tmp_path / "other")})
    with XTTSTrainer(config, display=quiet_display()) as trainer:
        pass
    split = TrainingSplit(**trainer.task.facts["training_split"])
    assert split.num_held_out_clips == len(held_out)
    assert {each.id for each in _corpus_sentences(tmp_path / "other", "en", split)} == set(held_out)
    assert not any(split.was_held_out(clip, text) for clip, text in lines.items())


@pytest.mark.parametrize("part", ["", "voice"])
def test_texts_of_the_source_of_a_run_count_as_trained_on(corpus, finished, tmp_path, part):
    make_corpus(tmp_path / "corpus", 12)
    write_metadata(tmp_path / "corpus", {f"clip{number:03d}": f"number {number} is new" for number in range(12)})
    trainer = start(tmp_path / "corpus", tmp_path / "run", finished / part)
    split = TrainingSplit(**trainer.task.facts["training_split"])
    first = read_splits(corpus, validation_fraction=0.2)[0].utterances[0]
    assert split.was_trained_on(first.text)
    assert split.is_complete
    assert any(split.was_trained_on(f"number {number} is new") for number in range(12))


def test_a_language_is_spoken_by_who_speaks_it_most_and_english_is_the_first():
    table = SimpleNamespace(
        speakers=("ann", "ben", "cem"),
        languages=("de", "en"),
        speaker_numbers=np.array([0, 1, 1, 2]),
        language_numbers=np.array([0, 0, 0, 1]),
        frame_counts=np.array([150, 100, 100, 50]),
    )
    assert default_speakers(table, np.arange(4)) == {"de": "ben", "en": "cem"}
    assert default_speakers(table, np.array([0, 2])) == {"de": "ann"}
    assert default_first(["de", "en-us", "fa"]) == [1, 0, 2]
