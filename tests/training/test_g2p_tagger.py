"""Letters and their phonemes."""

from hypothesis import given
from hypothesis import strategies as st

from myxtts.training.g2p_tagger import LONGEST_CHUNK, Aligner, count_chunks


def test_chunks_are_learned_from_pairs():
    aligner = Aligner({"x": "ks", "a": "A"})
    pairs = [("axa", "AksA"), ("ax", "Aks"), ("xa", "ksA"), ("bab", "bAb"), ("abba", "AbA")]
    aligner.fit(pairs)
    assert aligner.align("xax", "ksAks") == ["ks", "A", "ks"]


@given(st.text("abx", min_size=1, max_size=12), st.text("ABks", max_size=30))
def test_chunks_always_make_up_the_phonemes(letters, phonemes):
    chunks = Aligner().align(letters, phonemes)
    if chunks is None:
        assert len(phonemes) > LONGEST_CHUNK * len(letters) or abs(len(phonemes) - len(letters)) > 3
    else:
        assert "".join(chunks) == phonemes
        assert len(chunks) == len(letters)


def test_chunks_are_counted_by_letter():
    counts = count_chunks([("ab", ["A", "b"]), ("a", ["A"])])
    assert counts["a"] == {"A": 2}
    assert counts["b"] == {"b": 1}
