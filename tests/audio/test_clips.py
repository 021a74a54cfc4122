"""Recordings become clips: resampled, trimmed, leveled, or rejected with a reason; bandwidth and noise are found at any rate."""

import numpy as np
import pytest
import soundfile
import soxr

from myxtts.audio.clips import estimate_bandwidth, estimate_snr, level_loudness, load_clip, trim_silence
from myxtts.audio.files import read_audio, write_audio
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import bundled_corpus
from myxtts.errors import AudioError
from tests.audio.tones import RATE, quiet, reason_of, tone


def test_silence_is_trimmed_at_both_ends_and_kept_inside():
    samples = np.concatenate([quiet(0.5), tone(0.4), quiet(0.3), tone(0.4), quiet(0.7)])
    trimmed = trim_silence(samples, RATE, 45.0)
    assert len(trimmed) / RATE == pytest.approx(0.4 + 0.3 + 0.4 + 0.06, abs=0.021)


def test_noise_at_both_ends_is_trimmed_if_it_counts_as_silence():
    samples = np.concatenate([quiet(0.6), tone(0.4), quiet(0.3), tone(0.4), quiet(0.6)])
    samples += np.random.default_rng(0).normal(0, 0.01, len(samples)).astype(np.float32)
    assert len(trim_silence(samples, RATE, 45.0)) == len(samples)  # the noise is less than 45 dB below the tone
    trimmed = trim_silence(samples, RATE, 45.0, noise_db=10.0)
    assert len(trimmed) / RATE == pytest.approx(0.4 + 0.3 + 0.4 + 0.1, abs=0.041)


def test_a_click_in_the_noise_before_speech_is_trimmed_with_it():
    samples = np.concatenate([quiet(0.6), tone(0.8)])
    samples += np.random.default_rng(0).normal(0, 0.003, len(samples)).astype(np.float32)
    samples[1600:1640] += 0.01
    assert len(trim_silence(samples, RATE, 45.0, noise_db=10.0)) / RATE == pytest.approx(0.85, abs=0.041)


@pytest.mark.parametrize("noise_db", [None, 10.0])
def test_trimming_leaves_sound_without_silence_alone(noise_db):
    np.testing.assert_array_equal(trim_silence(tone(), RATE, 45.0, noise_db), tone())
    np.testing.assert_array_equal(trim_silence(tone()[:200], RATE, 45.0, noise_db), tone()[:200])


def test_level_is_that_of_the_spoken_parts():
    samples = np.concatenate([tone(0.5, amplitude=0.02), quiet(2.0)])
    leveled = level_loudness(samples, RATE, -23.0)
    spoken = leveled[: RATE // 2]
    assert 20 * np.log10(np.sqrt(np.mean(spoken**2))) == pytest.approx(-23.0, abs=0.1)


def test_leveling_never_clips():
    samples = tone(amplitude=0.01)
    samples[5000] = 0.5
    assert np.abs(level_loudness(samples, RATE, -5.0)).max() == pytest.approx(0.99, abs=1e-3)


def test_load_clip_resamples_trims_and_levels(tmp_path):
    soundfile.write(tmp_path / "a.flac", np.concatenate([quiet(1.5), tone(1.0, 48000), quiet(1.5)]), 48000)
    samples = load_clip(tmp_path / "a.flac", DataConfig(), RATE)
    assert len(samples) / RATE == pytest.approx(1.1, abs=0.041)
    assert 20 * np.log10(np.sqrt(np.mean(samples[1000:-1000] ** 2))) == pytest.approx(-23.0, abs=0.2)


def test_load_clip_neither_trims_nor_levels_when_both_are_off(tmp_path):
    samples = np.concatenate([quiet(0.5), tone()])
    soundfile.write(tmp_path / "a.wav", samples, RATE, subtype="FLOAT")
    config = DataConfig(trim_silence_db=None, loudness_db=None)
    np.testing.assert_array_equal(load_clip(tmp_path / "a.wav", config, RATE), samples)


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (quiet(1.0), "silent"),
        (tone(amplitude=0.0005), "silent"),
        (tone(0.1), "too short"),
        (np.concatenate([quiet(2.0), tone(0.1), quiet(2.0)]), "too short"),
        (tone(3.5), "too long"),
        (tone(9.0), "too long"),
    ],
)
def test_unusable_clips_are_rejected_with_a_reason(tmp_path, samples, reason):
    write_audio(tmp_path / "a.wav", samples, RATE)
    config = DataConfig(min_seconds=0.3, max_seconds=3.0)
    assert reason_of(load_clip, tmp_path / "a.wav", config, RATE) == reason


def test_the_error_of_a_short_clip_names_its_length_and_the_minimum(tmp_path):
    write_audio(tmp_path / "a.wav", tone(0.1), RATE)
    with pytest.raises(AudioError, match=r"is only 0\.10 s long; the minimum is 0\.3 s \(data\.min_seconds\)\."):
        load_clip(tmp_path / "a.wav", DataConfig(min_seconds=0.3, trim_silence_db=None), RATE)


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


def test_a_clip_that_is_too_short_for_an_estimate_counts_as_wide():
    assert estimate_bandwidth(np.zeros(1000, np.float32), 24_000) == 12_000


@pytest.mark.parametrize("seconds", [0.33, 0.4, 1.0, 2.5, None])
@pytest.mark.parametrize("band_rate", [2000, 8000, 12_000, None])
def test_bandwidth_and_noise_are_those_of_quantiles_over_all_bins(speech, band_rate, seconds):
    samples, rate = speech
    if band_rate is not None:
        samples = soxr.resample(soxr.resample(samples, rate, band_rate), band_rate, rate)
    samples = samples[: None if seconds is None else round(seconds * rate)]
    before = samples.copy()
    assert estimate_bandwidth(samples, rate) == bandwidth_by_definition(samples, rate)
    levels = 10 * np.log10(np.mean(np.square(samples[: len(samples) // 320 * 320].reshape(-1, 320)), axis=1) + 1e-10)
    assert estimate_snr(samples, rate) == pytest.approx(np.subtract(*np.quantile(levels, (0.8, 0.1))), abs=1e-4)
    np.testing.assert_array_equal(samples, before)


def bandwidth_by_definition(samples, rate):
    """All levels at once, in float64."""
    frames = np.lib.stride_tricks.sliding_window_view(np.asarray(samples, np.float64), 2048)[::1024]
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(2048))))
    edged = np.pad(10 * np.log10(np.quantile(power, 0.95, axis=0) + 1e-12), 8, mode="symmetric")
    level, hertz = np.convolve(edged, np.full(17, 1 / 17), "valid"), np.arange(1025) * (rate / 2048)
    peak = level[(hertz > 300) & (hertz < 4000)].max()
    return hertz[np.flatnonzero(level > peak - 50)[-1]]


def test_silence_counts_as_wide():
    assert estimate_bandwidth(np.zeros(20_000, np.float32), 24_000) == 12_000


def test_samples_whose_power_is_not_finite_are_rejected():
    samples = np.random.default_rng(0).normal(0, 1e30, 20_000).astype(np.float32)
    with np.errstate(all="ignore"), pytest.raises(AudioError, match="too loud") as raised:
        estimate_bandwidth(samples, 24_000)
    assert raised.value.reason == "not finite"


def test_noise_lowers_the_ratio_of_speech_to_pauses(speech):
    samples, rate = speech
    noise = np.random.default_rng(0).normal(0, 0.02, len(samples)).astype(np.float32)
    assert estimate_snr(samples + noise, rate) < estimate_snr(samples, rate) - 10
    assert estimate_snr(np.zeros(10, np.float32), rate) == 0.0
