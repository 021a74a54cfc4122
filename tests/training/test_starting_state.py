"""The weights that a run starts from: those of another voice or checkpoint, mapped by name."""

import dataclasses

import numpy as np
import pytest

from myxtts.errors import CheckpointError, ConfigError
from myxtts.models.xtts import TEACHER
from myxtts.synthesis.voice_folder import read_description, read_weights
from myxtts.training.checkpoint import load_checkpoint, newest_checkpoint
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.weight_mapping import LANGUAGE_TABLE, SYMBOL_TABLE, map_weights
from tests.corpus.tiny_corpus import make_corpus, write_metadata, write_tone
from tests.training.small_runs import quiet_display, small_config, text_of


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """The folder of a run of a few steps."""
    run = tmp_path_factory.mktemp("finished")
    XTTSTrainer(small_config(corpus, run, max_steps=3, enable_graph_mode=False), display=quiet_display()).train()
    return run


def weights_of(trainer):
    return {name: variable.numpy() for name, variable in trainer.task.state.model.weights_by_name().items()}


def start(corpus, run, source):
    config = small_config(corpus, run, init_from=str(source))
    with XTTSTrainer(config, display=quiet_display()) as trainer:
        return trainer


@pytest.mark.parametrize("part", ["", "voice"])
def test_a_run_starts_from_the_ema_weights_of_a_checkpoint_or_a_voice(corpus, finished, tmp_path, part):
    trainer = start(corpus, tmp_path, finished / part)
    expected = load_checkpoint(newest_checkpoint(finished)).named_weights(prefers_ema=True)
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
    new = trainer.task.corpus.cache.symbols.to_list().index("e")
    np.testing.assert_array_equal(weights_of(trainer)[table][new], old.named_weights(prefers_ema=True)[table][known])


def test_a_corpus_at_another_rate_and_in_another_language_is_prepared_for_the_source(finished, tmp_path):
    lines = make_corpus(tmp_path / "corpus", 12)
    for clip_id in lines:
        write_tone(tmp_path / "corpus" / "wavs" / f"{clip_id}.wav", rate=44100)
    config = small_config(tmp_path / "corpus", tmp_path / "run", {"language": "de"}, init_from=str(finished))
    with XTTSTrainer(config, display=quiet_display()) as trainer:
        pass
    assert trainer.task.corpus.cache.mel.to_dict() == load_checkpoint(newest_checkpoint(finished)).corpus["mel"]
    assert trainer.task.corpus.sound.startswith("recordings at 44100 Hz → voice at 16000 Hz;")
    assert f"This corpus has clips in de, and {finished} was trained on en" in text_of(trainer.display)


def test_a_source_that_is_missing_or_of_another_size_is_refused(corpus, finished, tmp_path):
    other = small_config(corpus, tmp_path / "run", init_from=str(tmp_path / "nothing"))
    with pytest.raises(CheckpointError, match="nothing"):
        XTTSTrainer(other, display=quiet_display()).open()
    with pytest.raises(ConfigError, match=r"model\.text_channels: 16; \w+ was trained with \d+"):
        XTTSTrainer(small_config(corpus, tmp_path / "run", init_from="bundled"), display=quiet_display()).open()


def test_a_distilled_voice_takes_few_steps_and_differs_from_its_source_in_the_decoder_alone(corpus, finished, tmp_path):
    config = small_config(corpus, tmp_path, init_from=str(finished), max_steps=2, enable_graph_mode=False)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, distill_steps=2))
    with XTTSTrainer(config, display=quiet_display()) as trainer:
        weights = weights_of(trainer)
        trainer.train()
    for name in (name for name in weights if name.startswith("decoder/")):
        np.testing.assert_array_equal(weights[name], weights[name.replace("decoder/", f"{TEACHER}/", 1)])
    assert read_description(tmp_path / "voice").defaults.steps == 2
    before, after = (read_weights(folder / "voice")[1] for folder in (finished, tmp_path))
    assert before.keys() == after.keys()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed
    assert all(name.startswith("decoder/") for name in changed)


def test_the_vector_of_the_only_speaker_becomes_a_part_of_the_language(corpus, tmp_path):
    lines = make_corpus(tmp_path / "two", 12)
    speakers = {
        clip: f"{text}|{text}|{'ann' if index % 2 else 'ben'}" for index, (clip, text) in enumerate(lines.items())
    }
    header = {"id": "text|normalized|speaker"}
    write_metadata(tmp_path / "two", header | speakers)
    several = small_config(tmp_path / "two", tmp_path / "several", max_steps=2, enable_graph_mode=False)
    XTTSTrainer(several, display=quiet_display()).train()
    source = load_checkpoint(newest_checkpoint(tmp_path / "several")).named_weights(prefers_ema=True)
    assert "unknown_speaker" in source
    found = weights_of(start(corpus, tmp_path / "one", tmp_path / "several"))
    vectors = found[LANGUAGE_TABLE] - source[LANGUAGE_TABLE]
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert np.abs(vectors[0]).max() > 0.1
    np.testing.assert_array_equal(found["text_condition/kernel"], source["text_condition/kernel"])


def test_tables_are_mapped_by_name_and_the_rest_by_shape():
    source = {
        SYMBOL_TABLE: np.arange(8.0).reshape(4, 2),
        LANGUAGE_TABLE: np.arange(4.0).reshape(2, 2),
        "same": np.ones(3),
        "other": np.ones(3),
    }
    target = {
        SYMBOL_TABLE: np.full((5, 2), -1.0),
        LANGUAGE_TABLE: np.full((3, 2), -1.0),
        "same": np.zeros(3),
        "other": np.zeros(4),
        "new": np.zeros(2),
    }
    found = map_weights(
        source, target, ["<pad>", "<blank>", "a", "b"], ["<pad>", "<blank>", "b", "c", "a"], ["en"], ["fr", "en"]
    )
    np.testing.assert_array_equal(found.weights[SYMBOL_TABLE], [[0, 1], [2, 3], [6, 7], [-1, -1], [4, 5]])
    np.testing.assert_array_equal(found.weights[LANGUAGE_TABLE], [[0, 1], [-1, -1], [2, 3]])
    np.testing.assert_array_equal(found.weights["same"], np.ones(3))
    assert found.new_symbols == ["c"]
    assert found.new_languages == ["fr"]
    assert found.kept_as_initialized == ["other", "new"]


def test_a_table_of_another_width_starts_fresh_and_is_counted():
    found = map_weights({SYMBOL_TABLE: np.ones((2, 3))}, {SYMBOL_TABLE: np.zeros((2, 4))}, "ab", "ab", ["en"], ["en"])
    np.testing.assert_array_equal(found.weights[SYMBOL_TABLE], np.zeros((2, 4)))
    assert found.kept_as_initialized == [SYMBOL_TABLE]
