"""Where a run begins, what it runs on, and who chooses its best checkpoint."""

import numpy as np
import pytest

from myxtts.corpus.manifest import read_splits
from myxtts.errors import CheckpointError, ConfigError, MyXTTSError
from myxtts.synthesis.training_split import TrainingSplit
from myxtts.synthesis.voice_folder import read_description
from myxtts.training.checkpoint import load_checkpoint, newest_checkpoint
from myxtts.training.trainer import XTTSTrainer
from tests.corpus.tiny_corpus import make_corpus, write_metadata, write_tone
from tests.training.small_runs import quiet_display, small_config, text_of


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """The folder of a run of a few steps."""
    run = tmp_path_factory.mktemp("finished")
    XTTSTrainer(small_config(corpus, run, max_steps=3), display=quiet_display()).train()
    return run


def weights_of(trainer):
    return {name: variable.numpy() for name, variable in trainer.state.model.weights_by_name().items()}


def start(corpus, run, source):
    config = small_config(corpus, run, init_from=str(source))
    trainer = XTTSTrainer(config, display=quiet_display())
    trainer.close()
    return trainer


@pytest.mark.parametrize("part", ["", "voice"])
def test_a_run_starts_from_the_averaged_weights_of_a_checkpoint_or_a_voice(corpus, finished, tmp_path, part):
    trainer = start(corpus, tmp_path, finished / part)
    expected = load_checkpoint(newest_checkpoint(finished)).named_weights("average")
    assert trainer.step == 0
    assert f"Starting from {finished / part}" in text_of(trainer.display)
    for name, weights in weights_of(trainer).items():
        np.testing.assert_allclose(weights, expected[name], atol=2e-3)  # a voice has half the digits


def test_new_symbols_start_fresh_and_known_ones_keep_their_rows(finished, tmp_path):
    lines = make_corpus(tmp_path / "corpus", 12)
    write_metadata(tmp_path / "corpus", {clip: f"{text} ß" for clip, text in lines.items()})
    trainer = start(tmp_path / "corpus", tmp_path / "run", finished)
    assert "new symbols: ß" in text_of(trainer.display)
    old = load_checkpoint(newest_checkpoint(finished))
    table = "text_encoder/embedding/embeddings"
    known = old.corpus["symbols"].index("e")
    new = trainer.corpus.cache.symbols.to_list().index("e")
    np.testing.assert_array_equal(weights_of(trainer)[table][new], old.named_weights("average")[table][known])


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
    trainer = XTTSTrainer(config, display=quiet_display())
    trainer.close()
    split = TrainingSplit(**trainer.facts["training_split"])
    assert split.num_held_out_clips == len(held_out)
    assert {each.id for each in _corpus_sentences(tmp_path / "other", "en", split)} == set(held_out)
    assert not any(split.was_held_out(clip, text) for clip, text in lines.items())


@pytest.mark.parametrize("part", ["", "voice"])
def test_texts_of_the_source_of_a_run_count_as_trained_on(corpus, finished, tmp_path, part):
    make_corpus(tmp_path / "corpus", 12)
    write_metadata(tmp_path / "corpus", {f"clip{number:03d}": f"number {number} is new" for number in range(12)})
    trainer = start(tmp_path / "corpus", tmp_path / "run", finished / part)
    split = TrainingSplit(**trainer.facts["training_split"])
    first = read_splits(corpus, validation_fraction=0.2)[0].utterances[0]
    assert split.was_trained_on(first.text)
    assert split.is_complete
    assert any(split.was_trained_on(f"number {number} is new") for number in range(12))


def test_a_corpus_at_another_rate_and_in_another_language_is_prepared_for_the_source(finished, tmp_path):
    lines = make_corpus(tmp_path / "corpus", 12)
    for clip_id in lines:
        write_tone(tmp_path / "corpus" / "wavs" / f"{clip_id}.wav", rate=44100)
    config = small_config(tmp_path / "corpus", tmp_path / "run", {"language": "de"}, init_from=str(finished))
    trainer = XTTSTrainer(config, display=quiet_display())
    trainer.feed.close()
    assert trainer.corpus.cache.mel.to_dict() == load_checkpoint(newest_checkpoint(finished)).corpus["mel"]
    assert trainer.corpus.sound.startswith("recordings at 44100 Hz → voice at 16000 Hz;")
    assert f"This corpus has clips in de, and {finished} was trained on en" in text_of(trainer.display)


def test_a_source_of_another_size_or_of_nothing_is_told(corpus, finished, tmp_path):
    other = small_config(corpus, tmp_path / "run", init_from=str(tmp_path / "nothing"))
    with pytest.raises(CheckpointError, match="nothing"):
        XTTSTrainer(other, display=quiet_display())
    with pytest.raises(ConfigError, match=r"model\.text_channels: 16; bundled was trained with 144"):
        XTTSTrainer(small_config(corpus, tmp_path / "run", init_from="bundled"), display=quiet_display())


def test_the_evaluation_is_asked_at_its_interval_and_chooses_the_best_checkpoint(corpus, tmp_path):
    asked, errors = [], iter([0.5, 0.2, 0.4])

    def evaluate(voice):
        asked.append(voice)
        return {"cer": next(errors)}

    config = small_config(corpus, tmp_path, max_steps=6, evaluation_interval=2, validation_interval=1)
    display = quiet_display()
    XTTSTrainer(config, display=display, evaluate=evaluate).train()
    assert len(asked) == 3
    assert all((voice / "voice.json").is_file() for voice in asked)
    assert "Step 4: evaluation cer 0.200" in text_of(display)
    assert load_checkpoint(tmp_path / "best").step == 4


def test_a_gpu_that_is_not_there_is_told_and_the_cpu_is_taken_when_asked(corpus, tmp_path):
    with pytest.raises(MyXTTSError, match="--device auto"):
        XTTSTrainer(small_config(corpus, tmp_path / "run", device="gpu:7"), display=quiet_display())
    trainer = XTTSTrainer(small_config(corpus, tmp_path / "run", device="cpu"), display=quiet_display())
    trainer.close()
    assert "CPU" in trainer.state.weights[0].device
