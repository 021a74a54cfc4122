"""Monotonic alignment search (Glow-TTS, arXiv 2005.11129) in the graph: which symbol each frame belongs to.

All clips of all rows are aligned at once. The score restarts at the first frame of each clip, so a packed row gives exactly the
alignments of its clips alone, and no sum is longer than a clip. The search is compiled by XLA also where nothing else is: it is
a loop of small operations over frames, 11–20x as fast on a CPU (docs/training.md).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from myxtts.models.layers import compiled_by_xla
from myxtts.models.layout import RowLayout


def alignment_scores(mel: Any, means: Any, band_mask: Any = None) -> tf.Tensor:
    """Gaussian log-likelihood of each frame under each symbol, up to a constant of the frame.

    Args:
        mel: float32 (rows, frames, n_mels), normalized.
        means: float32 (rows, symbols, n_mels), the mean that the text encoder predicts for each symbol.
        band_mask: float32 (rows, frames, n_mels), 0 for bands that do not count; None: all count.

    Returns:
        float32 (rows, frames, symbols).
    """
    if band_mask is not None:
        both = tf.concat([mel * band_mask, band_mask], axis=-1)
        return tf.matmul(both, tf.concat([means, -0.5 * means**2], axis=-1), transpose_b=True)
    return tf.matmul(mel, means, transpose_b=True) - 0.5 * tf.reduce_sum(means**2, axis=-1)[:, tf.newaxis, :]


def monotonic_alignment(
    scores: tf.Tensor, frames: RowLayout, symbols: RowLayout, prior_weight: tf.Tensor | float = 0.0
) -> tf.Tensor:
    """The best monotonic path that gives every symbol of a clip at least one frame.

    Args:
        scores: float32 (rows, frames, symbols), higher is better; only pairs of the same clip count.
        frames: layout of the frames.
        symbols: layout of the symbols; each clip has at most as many symbols as frames.
        prior_weight: penalty of a pair, times the squared distance of its relative positions (0 on the diagonal of the clip).

    Returns:
        int32 (rows, frames): symbol index of each frame; meaningless outside clips, where it must be masked.
    """
    last_frame = frames.spread_integers(frames.lengths) - 1
    is_member = frames.mask[..., 0] > 0
    return _search(
        tf.stop_gradient(scores),
        tf.convert_to_tensor(prior_weight, tf.float32),
        relative_positions(frames),
        relative_positions(symbols),
        frames.same_clip(symbols),
        is_member & (frames.positions == 0),
        is_member & (frames.positions == last_frame),
        frames.spread_integers(symbols.starts),
        frames.spread_integers(symbols.starts + symbols.lengths - 1),
    )


def path_matrix(path: tf.Tensor, frames: RowLayout, num_symbols: int) -> tf.Tensor:
    """The path int32 (rows, frames) as a 0/1 matrix (rows, frames, num_symbols), 0 outside clips."""
    return tf.one_hot(path, num_symbols) * frames.mask


def path_of_durations(durations: tf.Tensor, num_frames: int) -> tf.Tensor:
    """The 0/1 matrix (rows, num_frames, symbols) of durations int32 (rows, symbols), 0 beyond their sum."""
    ends: Any = tf.cumsum(durations, axis=1)
    frame = tf.range(num_frames)[tf.newaxis, :, tf.newaxis]
    is_inside = (frame >= (ends - durations)[:, tf.newaxis, :]) & (frame < ends[:, tf.newaxis, :])
    return tf.cast(is_inside, tf.float32)


def relative_positions(layout: RowLayout) -> tf.Tensor:
    """Each position as a fraction of its clip's length: float32 (rows, size), from 0 to 1."""
    last = tf.maximum(layout.spread_integers(layout.lengths) - 1, 1)
    return tf.cast(layout.positions, tf.float32) / tf.cast(last, tf.float32)


@compiled_by_xla
def _search(
    scores, prior_weight, frame_progress, symbol_progress, is_same_clip,
    is_first_frame, is_last_frame, first_symbol, last_symbol,
):  # fmt: skip
    """The search itself on plain tensors: int32 (rows, frames). Per-frame arguments are (rows, frames)."""
    rows, frames, symbols = scores.shape
    nothing = tf.constant(float("-inf"), tf.float32)
    from_diagonal = tf.square(frame_progress[:, :, tf.newaxis] - symbol_progress[:, tf.newaxis, :])
    scores = tf.where(is_same_clip, scores - prior_weight * from_diagonal, nothing)
    symbol_index = tf.range(symbols)[tf.newaxis, :]
    scores = tf.transpose(scores, (1, 0, 2))
    per_frame = [tf.transpose(values) for values in (is_first_frame, is_last_frame, first_symbol, last_symbol)]
    is_first_frame, is_last_frame, first_symbol, last_symbol = per_frame

    def advance(frame, best, advanced_at):
        previous = tf.concat([tf.fill((rows, 1), nothing), best[:, :-1]], axis=1)
        start = tf.where(symbol_index == first_symbol[frame][:, tf.newaxis], 0.0, nothing)
        reached = tf.where(is_first_frame[frame][:, tf.newaxis], start, tf.maximum(previous, best))
        return frame + 1, reached + scores[frame], advanced_at.write(frame, previous > best)

    advanced_at = tf.TensorArray(tf.bool, frames, element_shape=(rows, symbols))
    start = (0, tf.fill((rows, symbols), nothing), advanced_at)
    _, _, advanced_at = tf.while_loop(lambda frame, *_: frame < frames, advance, start)
    advanced_at = advanced_at.stack()

    def step_back(frame, symbol, path):
        symbol = tf.where(is_last_frame[frame], last_symbol[frame], symbol)
        has_advanced = tf.gather(advanced_at[frame], symbol, batch_dims=1)
        return frame - 1, tf.maximum(symbol - tf.cast(has_advanced, tf.int32), 0), path.write(frame, symbol)

    path = tf.TensorArray(tf.int32, frames, element_shape=(rows,))
    start = (frames - 1, tf.zeros((rows,), tf.int32), path)
    _, _, path = tf.while_loop(lambda frame, *_: frame >= 0, step_back, start)
    return tf.transpose(path.stack())
