"""Training of a letter tagger (`myxtts.text.letter_tagger`) in TensorFlow: labeled texts in, the tagger for run time out.

Texts are grouped by length into a few static shapes, so the step is compiled once per shape. Convolutions are matrix products of
shifted copies, which also run where TensorFlow has no gradient of a dilated convolution (docs/training.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.text.letter_tagger import EPSILON, KERNEL_SIZE, LetterTagger

Report = Callable[[str], None]
"""Receives one line about the progress."""
IGNORED = -1
"""A label that does not enter the loss."""
_LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384)
"""Static lengths; longer texts are cut."""


@dataclass(frozen=True)
class TaggerSettings:
    """Size of the network and how it is trained."""

    channels: int = 128
    dilations: tuple[int, ...] = (1, 2, 4, 8, 4, 2, 1)
    """Sees 44 letters to each side: about eight words."""
    epochs: float = 6.0
    letters_per_batch: int = 4096
    learning_rate: float = 2e-3
    dropout: float = 0.1
    ema_decay: float = 0.998
    weight_decay: float = 0.01
    end_weight: float = 3.0
    """Of the end label's loss; there is one end label for about four letters."""
    seed: int = 0


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


def train_tagger(
    draw_epoch: Callable[[np.random.Generator], Sequence[Labeled]],
    weights: Mapping[str, np.ndarray],
    settings: TaggerSettings,
    report: Report,
    on_epoch: Callable[[dict[str, np.ndarray]], None] | None = None,
) -> dict[str, np.ndarray]:
    """Train from `weights` and return the exponential moving average of the weights.

    Args:
        draw_epoch: the labeled texts of one epoch, from a random generator (so that augmentation may differ).
        on_epoch: receives the averaged weights after each epoch.
    """
    generator = np.random.default_rng(settings.seed)
    variables = {name: tf.Variable(tf.constant(value), name=name) for name, value in weights.items()}
    average = {name: tf.Variable(tf.constant(value), trainable=False) for name, value in weights.items()}
    optimizer = tf.keras.optimizers.AdamW(0.0, weight_decay=settings.weight_decay, global_clipnorm=1.0)
    optimizer.build(list(variables.values()))
    has_marks = "marks" in weights

    @tf.function(jit_compile=False, reduce_retracing=False)
    def step(rows, marks, tags, ends, sample_weight, decay):
        with tf.GradientTape() as tape:
            tag_scores, end_scores = _forward(variables, rows, marks if has_marks else None, settings)
            loss = _loss(tag_scores, end_scores, tags, ends, sample_weight, settings.end_weight)
        gradients = tape.gradient(loss, list(variables.values()))
        optimizer.apply_gradients(zip(gradients, variables.values(), strict=True))
        for name, variable in variables.items():
            average[name].assign(decay * average[name] + (1.0 - decay) * variable)
        return loss

    total_steps, done = None, 0
    for epoch in range(int(np.ceil(settings.epochs))):
        batches = list(_batches(draw_epoch(generator), settings.letters_per_batch, generator))
        total_steps = total_steps or max(1, int(settings.epochs * len(batches)))
        started, losses = time.perf_counter(), []
        for batch in batches:
            if done >= total_steps:
                break
            fraction = done / total_steps
            warmup = min(1.0, (done + 1) / (0.05 * total_steps + 1))
            optimizer.learning_rate.assign(settings.learning_rate * warmup * (0.02 + 0.98 * (1 - fraction)))
            decay = min(settings.ema_decay, (1 + done) / (10 + done))
            rows, marks, tags, ends, weight = batch
            losses.append(step(rows, marks, tags, ends, weight, tf.constant(decay, tf.float32)))
            done += 1
        seconds = time.perf_counter() - started
        report(f"epoch {epoch + 1}: loss {np.mean([float(loss) for loss in losses]):.4f}, {seconds:.0f} s")
        if on_epoch is not None:
            on_epoch({name: variable.numpy() for name, variable in average.items()})
    return {name: variable.numpy() for name, variable in average.items()}


def _forward(variables: Mapping[str, Any], rows, marks, settings: TaggerSettings):
    hidden = tf.gather(variables["embedding"], tf.maximum(rows, 0))
    if marks is not None:
        hidden += tf.cast(marks, tf.float32) @ variables["marks"]
    inside = tf.cast(rows >= 0, tf.float32)[..., tf.newaxis]
    hidden = tf.nn.dropout(hidden * inside, settings.dropout)
    length = rows.shape[1]
    for block, dilation in enumerate(settings.dilations):
        normalized = _layer_norm(hidden, variables[f"norm_{block}"]) * inside
        reach = KERNEL_SIZE // 2 * dilation
        padded = tf.pad(normalized, [[0, 0], [reach, reach], [0, 0]])
        shifted = tf.concat([padded[:, tap * dilation : tap * dilation + length] for tap in range(KERNEL_SIZE)], -1)
        value, gate = tf.split(shifted @ variables[f"kernel_{block}"] + variables[f"bias_{block}"], 2, -1)
        hidden += tf.nn.dropout(value * tf.sigmoid(gate), settings.dropout)
    hidden = _layer_norm(hidden, variables["norm_out"])
    tag_scores = hidden @ variables["tag_kernel"] + variables["tag_bias"]
    return tag_scores, (hidden @ variables["end_kernel"] + variables["end_bias"])[..., 0]


def _layer_norm(hidden, scale):
    mean, variance = tf.nn.moments(hidden, -1, keepdims=True)
    return (hidden - mean) * tf.math.rsqrt(variance + EPSILON) * scale


def _loss(tag_scores, end_scores, tags, ends, sample_weight, end_weight: float):
    tag_mask = tf.cast(tags >= 0, tf.float32) * sample_weight[:, tf.newaxis]
    tag_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(tags, 0), tag_scores) * tag_mask
    end_mask = tf.cast(ends >= 0.0, tf.float32) * sample_weight[:, tf.newaxis]
    end_loss = tf.nn.sigmoid_cross_entropy_with_logits(tf.maximum(ends, 0.0), end_scores) * end_mask
    size = tf.reduce_sum(tag_mask) + 1.0
    return (tf.reduce_sum(tag_loss) + end_weight * tf.reduce_sum(end_loss)) / size


def _batches(examples: Sequence[Labeled], letters_per_batch: int, generator: np.random.Generator):
    """Padded batches of static shapes in random order. Rows outside a text are -1."""
    groups: dict[int, list[Labeled]] = {}
    for example in examples:
        length = next((each for each in _LENGTHS if each >= len(example.rows)), _LENGTHS[-1])
        groups.setdefault(length, []).append(example)
    plans = []
    for length, members in groups.items():
        size = max(1, letters_per_batch // length)
        order = generator.permutation(len(members))
        plans += [(length, size, [members[i] for i in order[s : s + size]]) for s in range(0, len(members), size)]
    for index in generator.permutation(len(plans)):
        yield _pad(*plans[index])


def _pad(length: int, size: int, members: Sequence[Labeled]):
    num_marks = members[0].marks.shape[1] if members[0].marks is not None else 0
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
    return tuple(map(tf.constant, (rows, marks, tags, ends, weight)))


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
