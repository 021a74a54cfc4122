"""Mel-cepstral distortion, alignment and duration."""

import numpy as np
import pytest

from myxtts.audio.mel import MelSpec
from myxtts.evaluation.metrics import align, measure_distortion
from tests.evaluation.made_up_voice import RATE, tone

MEL = MelSpec(RATE)


def sweep(seconds):
    """A rising tone with overtones: its spectrum changes all the time."""
    time = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(200 + 600 * time / seconds) / RATE
    return sum(0.2 / k * np.sin(k * phase) for k in (1, 2, 3)).astype(np.float32)


def test_align_finds_the_cheapest_monotonic_path():
    distances = np.array([[0.0, 5.0, 5.0], [0.0, 5.0, 5.0], [5.0, 1.0, 5.0], [5.0, 5.0, 2.0]])
    assert align(distances) == (3.0, 4)


def test_align_agrees_with_trying_every_path():
    distances = np.random.default_rng(1).random((4, 5))

    def cheapest(row, column):
        if row < 0 or column < 0:
            return np.inf
        if row == column == 0:
            return distances[0, 0]
        before = min(cheapest(row - 1, column), cheapest(row, column - 1), cheapest(row - 1, column - 1))
        return distances[row, column] + before

    assert align(distances)[0] == pytest.approx(cheapest(3, 4))


def test_a_clip_is_no_distance_from_itself_at_any_level():
    result = measure_distortion(0.5 * sweep(1.0), sweep(1.0), MEL)
    assert result.distance_sum_db / result.aligned_frames == pytest.approx(0.0, abs=0.1)
    assert result.seconds == result.recorded_seconds


def test_the_same_sounds_spoken_slower_are_nearer_than_other_sounds():
    slower = measure_distortion(sweep(1.5), sweep(1.0), MEL)
    other = measure_distortion(tone(3, 1.0), sweep(1.0), MEL)
    assert 2 * slower.distance_sum_db / slower.aligned_frames < other.distance_sum_db / other.aligned_frames
    assert slower.seconds / slower.recorded_seconds == pytest.approx(1.5, rel=0.02)


def test_silence_at_the_ends_counts_for_nothing():
    quiet = np.zeros(RATE // 2, np.float32)
    padded = measure_distortion(np.concatenate([quiet, sweep(1.0), quiet]), sweep(1.0), MEL)
    assert padded.seconds == pytest.approx(padded.recorded_seconds, abs=0.07)


def test_distortion_is_the_rms_difference_of_the_spectra_in_decibels():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.05, RATE).astype(np.float32)
    tilted = np.convolve(noise, [1.0, 0.9])[:RATE].astype(np.float32)
    result = measure_distortion(tilted, noise, MEL)
    assert 2.0 < result.distance_sum_db / result.aligned_frames < 8.0


def test_a_silent_clip_cannot_be_compared():
    assert measure_distortion(np.zeros(RATE, np.float32), sweep(1.0), MEL) is None
