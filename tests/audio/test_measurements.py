"""The true bandwidth and the noise of a recording are found whatever the rate of its file."""

import numpy as np
import pytest
import soxr

from myxtts.audio.files import read_audio
from myxtts.audio.measurements import estimate_bandwidth, estimate_snr
from myxtts.corpus.corpus import bundled_corpus


@pytest.fixture(scope="module")
def speech():
    files = sorted((bundled_corpus() / "wavs").iterdir())
    return read_audio(max(files[:40], key=lambda file: file.stat().st_size))


def test_speech_at_16_khz_has_a_bandwidth_of_8_khz(speech):
    assert estimate_bandwidth(*speech) == pytest.approx(8000, abs=400)


@pytest.mark.parametrize("band_rate", [8000, 12_000])
def test_a_narrow_recording_in_a_wide_file_is_found(speech, band_rate):
    samples, rate = speech
    wide = soxr.resample(soxr.resample(samples, rate, band_rate), band_rate, 48_000)
    assert estimate_bandwidth(wide, 48_000) == pytest.approx(band_rate / 2, rel=0.08)


def test_a_clip_that_is_too_short_to_tell_counts_as_wide():
    assert estimate_bandwidth(np.zeros(1000, np.float32), 24_000) == 12_000


def test_noise_lowers_the_ratio_of_speech_to_pauses(speech):
    samples, rate = speech
    noise = np.random.default_rng(0).normal(0, 0.02, len(samples)).astype(np.float32)
    assert estimate_snr(samples + noise, rate) < estimate_snr(samples, rate) - 10
    assert estimate_snr(np.zeros(10, np.float32), rate) == 0.0
