"""The letter tagger at run time."""

import numpy as np
import pytest

from myxtts.text.g2p_model import LetterTagger, _product, pack_tagger, unpack_tagger


@pytest.fixture
def tagger() -> LetterTagger:
    generator = np.random.default_rng(1)
    channels, tags = 8, ("", "a", "b")
    weights = {
        "embedding": generator.standard_normal((4, channels)),
        "marks": generator.standard_normal((2, channels)),
        "norm_out": np.ones(channels),
        "tag_kernel": generator.standard_normal((channels, 3)),
        "tag_bias": np.zeros(3),
        "end_kernel": generator.standard_normal((channels, 1)),
        "end_bias": np.zeros(1),
    }
    for block in range(2):
        weights[f"norm_{block}"] = np.ones(channels)
        weights[f"kernel_{block}"] = generator.standard_normal((5 * channels, 2 * channels)) / 6
        weights[f"bias_{block}"] = np.zeros(2 * channels)
    weights = {name: weight.astype(np.float32) for name, weight in weights.items()}
    allowed = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1]], bool)
    return LetterTagger("xyz", tags, (1, 2), allowed, weights, {"threshold": 0.5})


def test_a_letter_never_gets_a_tag_that_it_cannot_have(tagger):
    scores, ends = tagger.run(tagger.encode("xyzzy?x"))
    assert scores.shape == (7, 3)
    assert ends.shape == (7,)
    assert not np.isfinite(scores[0, 2])
    assert list(scores[2:4].argmax(axis=-1)) == [2, 2]
    assert scores[5].argmax() == 0  # an unknown letter is silent


def test_letters_outside_the_context_do_not_matter(tagger):
    near, _ = tagger.run(tagger.encode("xyzxyzx"))
    far, _ = tagger.run(tagger.encode("xyzxyzxyyyyyyyy"))
    np.testing.assert_allclose(near[0], far[0], rtol=1e-5)  # the two blocks see 2 + 4 letters to each side
    assert not np.allclose(near[3, 0], far[3, 0])


def test_texts_read_at_once_are_read_alone(tagger):
    texts = ["xyz", "y", "zzyxyxxyzzyxyzyxyzzyxzyx", "xx"]
    marks = [np.arange(2 * len(text)).reshape(-1, 2) % 3 == 0 for text in texts]
    together = tagger.run_each([tagger.encode(text) for text in texts], marks)
    for text, own, (scores, ends) in zip(texts, marks, together, strict=True):
        alone, alone_ends = tagger.run(tagger.encode(text), own)
        np.testing.assert_allclose(scores, alone, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ends, alone_ends, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(16, 8, 3), (64, 128, 256), (32, 700, 40), (16, 40_000, 2)])
def test_products_in_tiles_are_products(shape):
    rows, depth, width = shape
    generator = np.random.default_rng(2)
    left, right = (generator.standard_normal(size).astype(np.float32) for size in ((rows, depth), (depth, width)))
    np.testing.assert_allclose(_product(left, right), left @ right, rtol=1e-4, atol=1e-3)


def test_marks_change_the_scores(tagger):
    marks = np.zeros((3, 2), bool)
    plain, _ = tagger.run(tagger.encode("xyz"), marks)
    marks[1, 0] = True
    marked, _ = tagger.run(tagger.encode("xyz"), marks)
    assert not np.allclose(plain[1, 0], marked[1, 0])


def test_the_file_keeps_the_tagger_up_to_rounding(tagger):
    unpacked = unpack_tagger(pack_tagger(tagger))
    assert (unpacked.letters, unpacked.tags, unpacked.dilations) == (tagger.letters, tagger.tags, tagger.dilations)
    assert unpacked.extra == {"threshold": 0.5}
    np.testing.assert_array_equal(unpacked.allowed, tagger.allowed)
    for name, weight in tagger.weights.items():
        np.testing.assert_allclose(unpacked.weights[name], weight, atol=np.abs(weight).max() / 127)
