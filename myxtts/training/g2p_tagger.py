"""The letter tagger (`myxtts.text.g2p_model`) in TensorFlow, and its batches of labeled texts.

Texts are grouped by length into a few static shapes, so the step is compiled once per shape. Convolutions are matrix products of
shifted copies, which also run where TensorFlow has no gradient of a dilated convolution (docs/training.md).

Its labels come from words and sentences with their phonemes (`Aligner`): every letter gets a chunk of zero to four phonemes, in
order. Chunk probabilities per letter are estimated by hard expectation-maximization, as in many-to-many alignment (Jiampojamarn
et al. 2007), with one letter per chunk.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from myxtts.text.g2p_model import EPSILON, KERNEL_SIZE, LetterTagger

IGNORED = -1
"""A label that does not enter the loss."""
LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384)
"""Static lengths; longer texts are cut."""
_WARMUP_FRACTION, _FINAL_RATE_FRACTION = 0.05, 0.02


@dataclass(frozen=True)
class TaggerSettings:
    """Size of the network and how it is trained."""

    channels: int = 128
    dilations: tuple[int, ...] = (1, 2, 4, 8, 4, 2, 1)
    """The receptive field is 44 letters to each side: about eight words."""
    epochs: float = 6.0
    letters_per_batch: int = 4096
    learning_rate: float = 2e-3
    dropout: float = 0.1
    ema_decay: float = 0.998
    weight_decay: float = 0.01
    end_weight: float = 3.0
    """Weight of the end label's loss; there is one end label for about four letters."""
    seed: int = 0

    def rate(self, step: int, total_steps: int) -> float:
        """Learning rate of the step after `step` steps: a linear warm-up, then linear to a fraction of the peak."""
        warmup = min(1.0, (step + 1) / (_WARMUP_FRACTION * total_steps + 1))
        left = 1 - step / total_steps
        return self.learning_rate * warmup * (_FINAL_RATE_FRACTION + (1 - _FINAL_RATE_FRACTION) * left)


@dataclass(frozen=True)
class Labeled:
    """One text: arrays of its length.

    Attributes:
        rows: of the embedding.
        marks: diacritics, (length, marks) bool, or None.
        tags: index of the tag of each letter, or IGNORED.
        ends: 1 or 0 at the last letter of a word (an ezafe follows or not), IGNORED elsewhere.
        weight: of its loss.
    """

    rows: np.ndarray
    tags: np.ndarray
    ends: np.ndarray
    marks: np.ndarray | None = None
    weight: float = 1.0


def initial_weights(settings: TaggerSettings, num_letters: int, num_tags: int, num_marks: int) -> dict[str, np.ndarray]:
    """Random weights by the names that `LetterTagger` uses."""
    generator = np.random.default_rng(settings.seed)
    channels = settings.channels

    def normal(rows: int, columns: int, scale: float) -> np.ndarray:
        return (generator.standard_normal((rows, columns)) * scale).astype(np.float32)

    weights = {"embedding": normal(num_letters + 1, channels, 0.5)}
    if num_marks:
        weights["marks"] = normal(num_marks, channels, 0.5)
    for block in range(len(settings.dilations)):
        fan_in = KERNEL_SIZE * channels
        weights[f"norm_{block}"] = np.ones(channels, np.float32)
        weights[f"kernel_{block}"] = normal(fan_in, 2 * channels, fan_in**-0.5)
        weights[f"bias_{block}"] = np.zeros(2 * channels, np.float32)
    weights["norm_out"] = np.ones(channels, np.float32)
    weights["tag_kernel"] = normal(channels, num_tags, channels**-0.5)
    weights["tag_bias"] = np.zeros(num_tags, np.float32)
    weights["end_kernel"] = normal(channels, 1, channels**-0.5)
    weights["end_bias"] = np.zeros(1, np.float32)
    return weights


class TaggerNetwork(keras.layers.Layer):
    """The network of `LetterTagger` in TensorFlow; its weights have the same names."""

    def __init__(self, weights: Mapping[str, np.ndarray], settings: TaggerSettings):
        super().__init__(name="tagger")
        self._settings = settings
        self._arrays = {name: self.add_weight(name=name, shape=array.shape) for name, array in weights.items()}
        for name, array in weights.items():
            self._arrays[name].assign(array)

    def call(self, rows, marks, seed=None):
        """Tag scores (batch, length, tags) and end scores (batch, length).

        Args:
            rows: of the embedding, int32 (batch, length); negative outside a text.
            marks: bool (batch, length, marks).
            seed: of dropout, int32 (2,); None for none.
        """
        arrays = {name: variable.value for name, variable in self._arrays.items()}
        hidden = tf.gather(arrays["embedding"], tf.maximum(rows, 0))
        if "marks" in arrays:
            hidden += tf.cast(marks, tf.float32) @ arrays["marks"]
        inside = tf.cast(rows >= 0, tf.float32)[..., tf.newaxis]
        hidden = self._dropped(hidden * inside, seed, 0)
        length = rows.shape[1]
        for block, dilation in enumerate(self._settings.dilations):
            normalized = _layer_norm(hidden, arrays[f"norm_{block}"]) * inside
            reach = KERNEL_SIZE // 2 * dilation
            padded = tf.pad(normalized, [[0, 0], [reach, reach], [0, 0]])
            shifted = tf.concat([padded[:, tap * dilation : tap * dilation + length] for tap in range(KERNEL_SIZE)], -1)
            value, gate = tf.split(shifted @ arrays[f"kernel_{block}"] + arrays[f"bias_{block}"], 2, -1)
            hidden += self._dropped(value * tf.sigmoid(gate), seed, block + 1)
        hidden = _layer_norm(hidden, arrays["norm_out"])
        tag_scores = hidden @ arrays["tag_kernel"] + arrays["tag_bias"]
        return tag_scores, (hidden @ arrays["end_kernel"] + arrays["end_bias"])[..., 0]

    def _dropped(self, hidden, seed, place: int):
        if seed is None or not self._settings.dropout:
            return hidden
        own = seed + tf.constant([0, place << 24], tf.int32)
        return tf.nn.experimental.stateless_dropout(hidden, self._settings.dropout, own)


def _layer_norm(hidden, scale):
    mean, variance = tf.nn.moments(hidden, -1, keepdims=True)
    return (hidden - mean) * tf.math.rsqrt(variance + EPSILON) * scale


def build_tagger(
    letters: str,
    tags: Sequence[str],
    allowed: Mapping[str, set[str]],
    weights: Mapping[str, np.ndarray],
    settings: TaggerSettings,
    extra: Mapping[str, Any],
) -> LetterTagger:
    """The tagger for run time. `allowed`: letter → its tags; a letter without any may have the empty tag only."""
    table = np.zeros((len(letters) + 1, len(tags)), bool)
    for row, letter in enumerate(letters, start=1):
        for tag in allowed.get(letter, {""}):
            table[row, tags.index(tag)] = True
    table[0, tags.index("")] = True
    return LetterTagger(letters, tuple(tags), settings.dilations, table, dict(weights), dict(extra))


class LetterBatch(NamedTuple):
    """Padded texts, (batch, length) except `marks`, (batch, length, marks), and `weight`, (batch,). Rows outside are -1."""

    rows: Any
    marks: Any
    tags: Any
    ends: Any
    weight: Any


def batches_of(
    examples: Sequence[Labeled], letters_per_batch: int, generator: np.random.Generator
) -> list[tuple[int, list[Labeled]]]:
    """(length, texts) of every batch, in random order; `pad` makes the arrays."""
    groups: dict[int, list[Labeled]] = {}
    for example in examples:
        length = next((each for each in LENGTHS if each >= len(example.rows)), LENGTHS[-1])
        groups.setdefault(length, []).append(example)
    plans = []
    for length, members in groups.items():
        size = max(1, letters_per_batch // length)
        order = generator.permutation(len(members))
        plans += [(length, [members[i] for i in order[s : s + size]]) for s in range(0, len(members), size)]
    return [plans[index] for index in generator.permutation(len(plans))]


def pad(length: int, size: int, members: Sequence[Labeled], num_marks: int) -> LetterBatch:
    """Tensors of a batch; places without a text are empty."""
    rows = np.full((size, length), -1, np.int32)
    marks = np.zeros((size, length, num_marks), bool)
    tags = np.full((size, length), IGNORED, np.int32)
    ends = np.full((size, length), IGNORED, np.float32)
    weight = np.zeros(size, np.float32)
    for index, member in enumerate(members):
        cut = min(length, len(member.rows))
        rows[index, :cut] = member.rows[:cut]
        tags[index, :cut] = member.tags[:cut]
        ends[index, :cut] = member.ends[:cut]
        if member.marks is not None:
            marks[index, :cut] = member.marks[:cut]
        weight[index] = member.weight
    return LetterBatch(*map(tf.constant, (rows, marks, tags, ends, weight)))


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
