"""Which phonemes belong to which letter: the labels for training a letter tagger.

Every letter gets a chunk of zero to four phonemes, in order. Chunk probabilities per letter are estimated by hard
expectation-maximization, as in many-to-many alignment (Jiampojamarn et al. 2007), with one letter per chunk.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

LONGEST_CHUNK = 4
_BAND = 14
"""How far, in phonemes, a path may leave the diagonal in a long text."""
_UNSEEN = math.log(1e-6)

Pair = tuple[str, str]
"""Letters and phonemes, one character each."""


class Aligner:
    """Chunk scores per letter, estimated from pairs of letters and phonemes."""

    def __init__(self, hints: dict[str, str] | None = None):
        """Args: hints: letter → the phonemes that its chunk usually contains, to start from."""
        self._hints = hints or {}
        self._scores: dict[str, dict[str, float]] = {}

    def fit(self, pairs: Sequence[Pair], iterations: int = 4) -> None:
        """Estimate the chunk scores."""
        for _ in range(iterations):
            counts: dict[str, Counter[str]] = defaultdict(Counter)
            for letters, chunks in ((pair[0], self.align(*pair)) for pair in pairs):
                for letter, chunk in zip(letters, chunks or (), strict=False):
                    counts[letter][chunk] += 1
            self._scores = {letter: _log_fractions(counter) for letter, counter in counts.items()}

    def align(self, letters: str, phonemes: str) -> list[str] | None:
        """One chunk per letter, or None where no path exists."""
        size, total = len(letters), len(phonemes)
        if total > LONGEST_CHUNK * size or not size:
            return None
        slope = total / size
        best: list[dict[int, tuple[float, int]]] = [{0: (0.0, 0)}]
        for index, letter in enumerate(letters):
            reached: dict[int, tuple[float, int]] = {}
            center = (index + 1) * slope
            for start, (score, _) in best[-1].items():
                for end in range(start, min(start + LONGEST_CHUNK, total) + 1):
                    if abs(end - center) > _BAND:
                        continue
                    candidate = score + self._score(letter, phonemes[start:end])
                    if end not in reached or candidate > reached[end][0]:
                        reached[end] = (candidate, start)
            if not reached:
                return None
            best.append(reached)
        if total not in best[-1]:
            return None
        chunks, end = [], total
        for step in reversed(best[1:]):
            start = step[end][1]
            chunks.append(phonemes[start:end])
            end = start
        return chunks[::-1]

    def _score(self, letter: str, chunk: str) -> float:
        scores = self._scores.get(letter)
        if scores is not None:
            found = scores.get(chunk)
            if found is not None:
                return found
        unseen = _UNSEEN if scores is not None else 0.0
        hints = self._hints.get(letter, "")
        misses = sum(phoneme not in hints for phoneme in chunk)
        starts_well = bool(chunk) and chunk[0] in hints
        return unseen - 2.0 * misses - (0.0 if starts_well else 2.5) - 0.5 * max(0, len(chunk) - 2)


def _log_fractions(counter: Counter[str]) -> dict[str, float]:
    total = sum(counter.values())
    return {chunk: math.log(count / total) for chunk, count in counter.items()}


def count_chunks(examples: Iterable[tuple[Sequence[str], Sequence[str]]]) -> dict[str, Counter[str]]:
    """letter → how often each chunk was seen with it."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for letters, chunks in examples:
        for letter, chunk in zip(letters, chunks, strict=True):
            counts[letter][chunk] += 1
    return counts
