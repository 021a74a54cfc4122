"""Training of the letter tagger."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from myxtts.errors import CheckpointError, TrainingError
from myxtts.training import g2p_task
from myxtts.training.checkpoint import load_checkpoint, newest_checkpoint
from myxtts.training.display import Display
from myxtts.training.g2p_persian import misread_words
from myxtts.training.g2p_persian_labels import word_examples
from myxtts.training.g2p_tagger import IGNORED, Labeled, TaggerNetwork, TaggerSettings, build_tagger, initial_weights
from myxtts.training.g2p_task import FixedTexts, TaggerData, TaggerRun, TaggerTask, train_tagger

SETTINGS = TaggerSettings(
    channels=16, dilations=(1, 2), epochs=60, letters_per_batch=256, learning_rate=1e-2, dropout=0.0
)
ALLOWED = {"a": {"A", "E"}, "b": {"b"}, " ": {""}}
TAGS = ["", "A", "E", "b"]
ROWS = {letter: row for row, letter in enumerate("ab ", start=1)}


def labels_of(text: str) -> list[str]:
    """`a` is E before b and A elsewhere."""
    return ["b" if c == "b" else "E" if text[i + 1 : i + 2] == "b" else "A" for i, c in enumerate(text)]


def labeled(text: str) -> Labeled:
    """The first letter has no label; the end label is 1 after b."""
    return Labeled(
        np.array([ROWS[c] for c in text], np.int32),
        np.array([TAGS.index(tag) if i else IGNORED for i, tag in enumerate(labels_of(text))], np.int32),
        np.array([float(c == "b") for c in text], np.float32),
    )


class MisreadTexts(FixedTexts):
    """Repeats the first text if the tagger was asked, so that the epochs differ by what it found."""

    def draw(self, generator, misread):
        return [*self.examples, *(self.examples[index] for index in misread)]

    def find_misread(self, tagger):
        return np.array([0, 2], np.int32)


def data_of(settings: TaggerSettings) -> TaggerData:
    generator = np.random.default_rng(0)
    texts = [labeled("".join(generator.choice(list("ab"), size))) for size in (7, 20) * 20]
    weights = initial_weights(settings, 3, 4, 0)
    return TaggerData(
        MisreadTexts(texts), texts[:4], 0, weights, lambda each: build_tagger("ab ", TAGS, ALLOWED, each, settings, {})
    )


def run_of(folder, settings: TaggerSettings, **named) -> TaggerRun:
    return TaggerRun(folder, settings, Display(Console(quiet=True)), **named)


def test_numpy_and_tensorflow_agree():
    weights = initial_weights(SETTINGS, 3, len(TAGS), 2)
    tagger = build_tagger("ab ", TAGS, ALLOWED, weights, SETTINGS, {})
    rows = tagger.encode("ab baab")
    marks = np.zeros((len(rows), 2), bool)
    marks[2, 1] = True
    scores, ends = tagger.run(rows, marks)
    padded = np.concatenate([rows, np.full(5, -1)]).astype(np.int32)[None]
    padded_marks = np.concatenate([marks, np.zeros((5, 2), bool)])[None]
    expected, expected_ends = TaggerNetwork(weights, SETTINGS)(tf.constant(padded), tf.constant(padded_marks))
    known = np.isfinite(scores)
    np.testing.assert_allclose(scores[known], expected.numpy()[0, : len(rows)][known], atol=1e-4)
    np.testing.assert_allclose(ends, expected_ends.numpy()[0, : len(rows)], atol=1e-4)


def test_a_letter_is_learned_from_its_neighbors(tmp_path):
    tagger = train_tagger(data_of(SETTINGS), run_of(tmp_path, SETTINGS))
    scores, ends = tagger.run(tagger.encode("aabba"))
    assert [TAGS[tag] for tag in scores.argmax(axis=-1)] == ["A", "E", "b", "b", "A"]
    assert list(ends > 0) == [False, False, True, True, False]


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(tmp_path):
    settings = TaggerSettings(channels=8, dilations=(1, 2), epochs=5, letters_per_batch=256, dropout=0.2)
    whole = train_tagger(data_of(settings), run_of(tmp_path / "whole", settings))

    class StopsEarly(TaggerTask):
        def confirm_stop(self, is_wanted, finished):
            return self.position[0] == 2 and self.position[1] == 1  # after the misread texts were found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(g2p_task, "TaggerTask", StopsEarly)
        with pytest.raises(TrainingError, match="run the same command again"):
            train_tagger(data_of(settings), run_of(tmp_path / "parts", settings))
    saved = load_checkpoint(newest_checkpoint(tmp_path / "parts"))
    assert saved.arrays["misread"].tolist() == [0, 2]
    resumed = train_tagger(data_of(settings), run_of(tmp_path / "parts", settings))
    for name, weight in whole.weights.items():
        np.testing.assert_allclose(resumed.weights[name], weight, atol=1e-6, err_msg=name)


def test_a_step_that_is_not_finite_changes_nothing(tmp_path):
    settings = TaggerSettings(channels=8, dilations=(1,), epochs=2, letters_per_batch=256)
    data = data_of(settings)
    broken = dataclasses.replace(labeled("ab" * 30), weight=float("nan"))
    data = dataclasses.replace(data, texts=FixedTexts([*data.held_out, broken]))
    tagger = train_tagger(data, run_of(tmp_path, settings))
    assert load_checkpoint(newest_checkpoint(tmp_path)).progress["skipped_steps"] == 2
    assert all(np.isfinite(weight).all() for weight in tagger.weights.values())


def test_a_run_with_other_settings_is_not_resumed(tmp_path):
    settings = TaggerSettings(channels=8, dilations=(1,), epochs=1, letters_per_batch=256)
    train_tagger(data_of(settings), run_of(tmp_path, settings))
    other = TaggerSettings(channels=8, dilations=(1,), epochs=2, letters_per_batch=256)
    with pytest.raises(CheckpointError, match="--reset-training"):
        train_tagger(data_of(other), run_of(tmp_path, other))
    train_tagger(data_of(other), run_of(tmp_path, other, reset_training=True))


def test_no_epochs_keep_the_tagger(tmp_path):
    settings = TaggerSettings(channels=8, dilations=(1,), epochs=0)
    data = data_of(settings)
    tagger = train_tagger(data, run_of(tmp_path / "run", settings))
    assert all(np.array_equal(tagger.weights[name], weight) for name, weight in data.weights.items())
    assert not (tmp_path / "run").exists()


def test_words_that_are_read_otherwise_than_taught_are_misread():
    tagger = build_tagger("ab ", TAGS, {"a": {"A"}, "b": {"b"}}, initial_weights(SETTINGS, 3, 4, 9), SETTINGS, {})
    words = word_examples({"ab": ("A", "b"), "ba": ("b", "E"), "bb": None})
    assert misread_words(tagger, words) == [1]
