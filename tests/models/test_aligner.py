"""Monotonic alignment: right by a plain dynamic program, on made-up scores and on real clips."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.aligner import alignment_scores, monotonic_alignment, path_matrix, path_of_durations
from myxtts.models.layout import RowLayout


def plain_alignment(scores: np.ndarray) -> np.ndarray:
    """The best monotonic path over (frames, symbols), written for the reader."""
    frames, symbols = scores.shape
    best = np.full((frames, symbols), -np.inf)
    best[0, 0] = scores[0, 0]
    for frame in range(1, frames):
        for symbol in range(symbols):
            stay = best[frame - 1, symbol]
            advance = best[frame - 1, symbol - 1] if symbol else -np.inf
            best[frame, symbol] = scores[frame, symbol] + max(stay, advance)
    path = np.zeros(frames, np.int32)
    symbol = symbols - 1
    for frame in range(frames - 1, -1, -1):
        path[frame] = symbol
        if frame and symbol and best[frame - 1, symbol - 1] > best[frame - 1, symbol]:
            symbol -= 1
    return path


def layouts(clips: list[tuple[int, int]], gap: int = 3) -> tuple[RowLayout, RowLayout]:
    """One row with clips of (frames, symbols)."""
    frames, symbols = np.array(clips).T
    frame_starts = np.concatenate([[0], np.cumsum(frames + gap)[:-1]])
    symbol_starts = np.concatenate([[0], np.cumsum(symbols + gap)[:-1]])
    return (
        RowLayout(tf.constant([frame_starts], tf.int32), tf.constant([frames], tf.int32), int((frames + gap).sum())),
        RowLayout(tf.constant([symbol_starts], tf.int32), tf.constant([symbols], tf.int32), int((symbols + gap).sum())),
    )


CLIPS = [(20, 7), (9, 9), (31, 1), (14, 5)]


def test_every_clip_of_a_row_is_aligned_as_if_it_were_alone():
    frames, symbols = layouts(CLIPS)
    scores = np.random.default_rng(0).normal(size=(1, frames.size, symbols.size)).astype(np.float32)
    path = monotonic_alignment(tf.constant(scores), frames, symbols).numpy()[0]
    for slot, (num_frames, num_symbols) in enumerate(CLIPS):
        first_frame, first_symbol = int(frames.starts[0, slot]), int(symbols.starts[0, slot])
        part = scores[0, first_frame : first_frame + num_frames, first_symbol : first_symbol + num_symbols]
        found = path[first_frame : first_frame + num_frames] - first_symbol
        np.testing.assert_array_equal(found, plain_alignment(part))


def test_a_path_is_monotonic_and_covers_every_symbol():
    frames, symbols = layouts(CLIPS)
    scores = tf.random.stateless_normal((1, frames.size, symbols.size), (1, 2))
    matrix = path_matrix(monotonic_alignment(scores, frames, symbols), frames, symbols.size).numpy()[0]
    durations = matrix.sum(axis=0)
    assert (durations[symbols.mask.numpy()[0, :, 0] > 0] >= 1).all()
    assert not durations[symbols.mask.numpy()[0, :, 0] == 0].any()
    steps = np.diff(matrix.argmax(axis=1)[frames.mask.numpy()[0, :, 0] > 0])
    assert (steps >= 0).all()


def test_large_scores_of_a_long_clip_lose_no_precision():
    frames, symbols = layouts([(700, 300)])
    scores = 50 * np.random.default_rng(3).normal(size=(1, frames.size, symbols.size)).astype(np.float32) - 1000
    path = monotonic_alignment(tf.constant(scores), frames, symbols).numpy()[0, :700]
    best = scores[0, np.arange(700), path].astype(np.float64).sum()
    plain = (
        scores[0, np.arange(700), plain_alignment(scores[0, :700, :300].astype(np.float64))].astype(np.float64).sum()
    )
    assert best == pytest.approx(plain, rel=1e-6)


def test_real_speech_is_aligned_as_by_the_plain_program(bundled_cache):
    clips = np.flatnonzero(bundled_cache.frame_counts < 250)[:3]
    for clip in clips:
        mel = np.array(bundled_cache.clip_frames(clip))
        num_symbols = 2 * int(bundled_cache.token_counts[clip]) + 1
        places = np.linspace(0, len(mel) - 1, num_symbols).astype(int)
        means = (mel[places] + np.random.default_rng(0).normal(size=(num_symbols, mel.shape[1])) * 0.3).astype(
            np.float32
        )
        scores = alignment_scores(tf.constant(mel[np.newaxis]), tf.constant(means[np.newaxis]))
        frames, symbols = layouts([(len(mel), num_symbols)], gap=0)
        path = monotonic_alignment(scores, frames, symbols).numpy()[0]
        np.testing.assert_array_equal(path, plain_alignment(scores.numpy()[0]))


def test_scores_are_gaussian_up_to_a_constant_of_the_frame():
    random = np.random.default_rng(0)
    mel, means = random.normal(size=(1, 5, 4)).astype(np.float32), random.normal(size=(1, 3, 4)).astype(np.float32)
    full = -0.5 * np.square(mel[0, :, None] - means[0, None]).sum(-1)
    difference = full - alignment_scores(tf.constant(mel), tf.constant(means)).numpy()[0]
    np.testing.assert_allclose(difference, difference[:, :1].repeat(3, axis=1), atol=1e-5)


def test_durations_unfold_to_a_path():
    matrix = path_of_durations(tf.constant([[2, 0, 3, 1]]), 8).numpy()[0]
    np.testing.assert_array_equal(matrix.argmax(axis=1)[:6], [0, 0, 2, 2, 2, 3])
    assert not matrix[6:].any()
    assert matrix.sum() == 6
