"""Training of the letter tagger."""

import numpy as np
import tensorflow as tf

from myxtts.training.g2p import IGNORED, Labeled, TaggerSettings, _forward, build_tagger, initial_weights, train_tagger
from myxtts.training.g2p_persian import misread_words
from myxtts.training.g2p_persian_labels import word_examples

SETTINGS = TaggerSettings(
    channels=16, dilations=(1, 2), epochs=30, letters_per_batch=256, learning_rate=1e-2, dropout=0.0
)
ALLOWED = {"a": {"A", "E"}, "b": {"b"}, " ": {""}}
TAGS = ["", "A", "E", "b"]


def test_numpy_and_tensorflow_agree():
    weights = initial_weights(SETTINGS, 3, len(TAGS), 2)
    tagger = build_tagger("ab ", TAGS, ALLOWED, weights, SETTINGS, {})
    rows = tagger.encode("ab baab")
    marks = np.zeros((len(rows), 2), bool)
    marks[2, 1] = True
    scores, ends = tagger.run(rows, marks)
    padded = np.concatenate([rows, np.full(5, -1)]).astype(np.int32)[None]
    padded_marks = np.concatenate([marks, np.zeros((5, 2), bool)])[None]
    expected, expected_ends = _forward(weights, tf.constant(padded), tf.constant(padded_marks), SETTINGS)
    known = np.isfinite(scores)
    np.testing.assert_allclose(scores[known], expected.numpy()[0, : len(rows)][known], atol=1e-4)
    np.testing.assert_allclose(ends, expected_ends.numpy()[0, : len(rows)], atol=1e-4)


def test_a_letter_is_learned_from_its_neighbors():
    """`a` is E before b and A elsewhere; the end label is 1 after b."""
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(list("ab"), 7)) for _ in range(40)]
    rows = {letter: row for row, letter in enumerate("ab ", start=1)}

    def labels_of(text: str) -> list[str]:
        return ["b" if c == "b" else "E" if text[i + 1 : i + 2] == "b" else "A" for i, c in enumerate(text)]

    examples = [
        Labeled(
            np.array([rows[c] for c in text], np.int32),
            np.array([TAGS.index(tag) if i else IGNORED for i, tag in enumerate(labels_of(text))], np.int32),
            np.array([float(c == "b") for c in text], np.float32),
        )
        for text in texts
    ]
    lines: list[str] = []
    weights = train_tagger(lambda _: examples, initial_weights(SETTINGS, 3, 4, 0), SETTINGS, lines.append)
    tagger = build_tagger("ab ", TAGS, ALLOWED, weights, SETTINGS, {})
    scores, ends = tagger.run(tagger.encode("aabba"))
    assert [TAGS[tag] for tag in scores.argmax(axis=-1)] == ["A", "E", "b", "b", "A"]
    assert list(ends > 0) == [False, False, True, True, False]
    assert len(lines) == 30


def test_words_that_are_read_otherwise_than_taught_are_misread():
    tagger = build_tagger("ab ", TAGS, {"a": {"A"}, "b": {"b"}}, initial_weights(SETTINGS, 3, 4, 9), SETTINGS, {})
    words = word_examples({"ab": ("A", "b"), "ba": ("b", "E"), "bb": None})
    assert misread_words(tagger, words) == [1]
