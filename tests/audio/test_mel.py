"""The mel in NumPy and TensorFlow agrees with librosa on real speech, and its length follows from the clip's."""

import functools
import re
from pathlib import Path

import librosa
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from myxtts.audio.files import read_audio, resample
from myxtts.audio.mel import (
    FRAMES,
    MelSpec,
    hz_to_mel,
    mel_filterbank,
    mel_numpy,
    mel_to_hz,
    num_frames,
    voice_rate,
)
from myxtts.batches.on_the_fly import mel_tensorflow
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import bundled_corpus
from myxtts.errors import AudioError, ConfigError

TOLERANCE = 1e-3
SPECS = {
    "default at 16 kHz": MelSpec(16000),
    "short window, band-limited": MelSpec(
        16000, n_fft=1024, win_length=800, hop_length=200, n_mels=64, f_min=60.0, f_max=7600.0
    ),
    "22.05 kHz": MelSpec(22050, f_max=11025.0),
    "default at 24 kHz": MelSpec.from_config(DataConfig(), 24000),
}
CLIPS = ("en_added", "en_tt-weasels", "en_letters_f")


def speech(name: str, sample_rate: int) -> np.ndarray:
    samples, file_rate = read_audio(bundled_corpus() / "wavs" / f"{name}.ogg")
    return resample(samples, file_rate, sample_rate)


@functools.cache
def weasels() -> np.ndarray:
    return speech("en_tt-weasels", 16000)


def librosa_mel(samples: np.ndarray, spec: MelSpec) -> np.ndarray:
    mel = librosa.feature.melspectrogram(
        y=samples,
        sr=spec.sample_rate,
        n_fft=spec.n_fft,
        win_length=spec.win_length,
        hop_length=spec.hop_length,
        n_mels=spec.n_mels,
        fmin=spec.f_min,
        fmax=spec.f_max,
        power=1.0,
        pad_mode="reflect",
    )
    return np.log(np.maximum(mel, spec.log_floor)).T


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
@pytest.mark.parametrize("clip", CLIPS)
def test_numpy_and_tensorflow_agree_with_librosa_on_speech(clip, spec):
    samples = speech(clip, spec.sample_rate)
    expected = librosa_mel(samples, spec)
    np.testing.assert_allclose(mel_numpy(samples, spec), expected, atol=TOLERANCE)
    np.testing.assert_allclose(mel_tensorflow(samples, spec).numpy(), expected, atol=TOLERANCE)


@pytest.mark.filterwarnings("ignore:n_fft=1024 is too large:UserWarning")
@settings(max_examples=15, deadline=None)
@given(length=st.integers(1, 2000))
@example(length=1)
@example(length=2)
@example(length=512)
@example(length=513)
def test_clips_shorter_than_a_window_agree_with_librosa(length):
    spec = MelSpec(16000)
    samples = weasels()[6000 : 6000 + length]
    expected = np.exp(librosa_mel(samples, spec))
    # As magnitudes: a quiet band next to loud ones has the rounding error of the loud ones, 1e-7 of their magnitude in float32.
    rounding = 1e-7 * expected.max()
    np.testing.assert_allclose(np.exp(mel_numpy(samples, spec)), expected, rtol=TOLERANCE, atol=rounding)
    np.testing.assert_allclose(np.exp(mel_tensorflow(samples, spec).numpy()), expected, rtol=TOLERANCE, atol=rounding)


@settings(max_examples=15, deadline=None)
@given(length=st.integers(1, 17000), n_fft=st.sampled_from([1024, 801]))
@example(length=255, n_fft=1024)
@example(length=256, n_fft=801)
@example(length=16128, n_fft=1024)
def test_the_number_of_frames_follows_from_the_number_of_samples(length, n_fft):
    spec = MelSpec(16000, n_fft=n_fft, win_length=800)
    samples = np.full(length, 0.1, np.float32)
    assert len(mel_numpy(samples, spec)) == mel_tensorflow(samples, spec).shape[0] == num_frames(length, spec)
    assert num_frames(length, spec) == 1 + length // 256


def test_tensorflow_mel_runs_in_a_dataset_with_unknown_lengths():
    spec = MelSpec(16000)
    clips = [speech(name, 16000) for name in CLIPS]
    ragged = tf.ragged.constant([clip.tolist() for clip in clips], tf.float32)
    dataset = tf.data.Dataset.from_tensor_slices(ragged).map(lambda samples: mel_tensorflow(samples, spec))
    assert dataset.element_spec.shape.as_list() == [None, 80]
    for clip, mel in zip(clips, dataset, strict=True):
        np.testing.assert_allclose(mel.numpy(), mel_numpy(clip, spec), atol=TOLERANCE)


def test_tensorflow_mel_takes_a_batch():
    spec = MelSpec(16000)
    samples = speech("en_added", 16000)
    batch = mel_tensorflow(np.stack([samples, samples[::-1]]), spec)
    np.testing.assert_allclose(batch[1].numpy(), mel_numpy(samples[::-1], spec), atol=TOLERANCE)


def test_filterbank_is_slaneys():
    spec = SPECS["short window, band-limited"]
    expected = librosa.filters.mel(sr=16000, n_fft=1024, n_mels=64, fmin=60.0, fmax=7600.0)
    np.testing.assert_allclose(mel_filterbank(spec), expected.T, atol=1e-7)


def test_mel_scale_is_inverted():
    hz = np.array([0.0, 500.0, 999.0, 1000.0, 4000.0, 8000.0])
    np.testing.assert_allclose(mel_to_hz(hz_to_mel(hz)), hz, atol=1e-9)


def test_spec_is_read_back_from_its_dict():
    spec = SPECS["short window, band-limited"]
    assert MelSpec.from_dict(spec.to_dict()) == spec


def test_spec_refuses_a_dict_with_other_names():
    with pytest.raises(ConfigError, match="hop_length"):
        MelSpec.from_dict({"sample_rate": 16000})


def test_spec_from_config_ends_at_half_the_sample_rate():
    assert MelSpec.from_config(DataConfig(), 22050).f_max == 11025.0


def test_spec_from_config_refuses_a_band_above_half_the_sample_rate():
    with pytest.raises(ConfigError, match="4000"):
        MelSpec.from_config(DataConfig(mel_f_max=7600.0), 8000)


def family(sample_rate, **changes):
    return MelSpec.from_config(DataConfig(**changes), sample_rate)


def test_sixteen_kilohertz_keep_the_mel_of_earlier_caches():
    assert family(16000) == MelSpec(16000, n_fft=1024, win_length=1024, hop_length=256, n_mels=80, f_max=8000.0)


@settings(max_examples=50, deadline=None)
@given(sample_rate=st.integers(8000, 48000))
@example(sample_rate=8000)
@example(sample_rate=11025)
@example(sample_rate=16000)
@example(sample_rate=22050)
@example(sample_rate=24000)
@example(sample_rate=44100)
@example(sample_rate=48000)
def test_frames_follow_the_rate_and_twelve_seconds_fit_the_usual_limit(sample_rate):
    spec = family(sample_rate)
    assert num_frames(12 * sample_rate, spec) <= DataConfig().max_mel_frames == 800
    assert 12.5 <= 1000 / spec.frames_per_second <= 16
    assert spec.n_fft == spec.win_length >= 2 * spec.hop_length
    assert (spec.win_length, spec.hop_length) == FRAMES.get(sample_rate, (spec.win_length, spec.hop_length))
    assert spec.f_max == sample_rate / 2


def test_the_documented_table_is_what_the_rates_give():
    page = Path(__file__).parents[2] / "docs" / "data.md"
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| ([\d.]+) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(row[0]) for row in rows} >= set(FRAMES)
    for sample_rate, n_fft, hop_length, frame_ms in rows:
        spec = family(int(sample_rate))
        assert (str(spec.n_fft), str(spec.hop_length)) == (n_fft, hop_length)
        assert f"{1000 / spec.frames_per_second:.1f}" == frame_ms


@given(narrow=st.integers(8000, 22049), wide=st.integers(22050, 192_000))
@example(narrow=22049, wide=22050)
def test_recordings_at_22_kilohertz_and_above_become_24_kilohertz(narrow, wide):
    assert (voice_rate(narrow), voice_rate(wide)) == (narrow, 24000)


def test_a_given_length_is_kept_and_the_others_follow_the_rate():
    assert family(16000, hop_length=200) == MelSpec(16000, hop_length=200)
    assert family(16000, n_fft=512) == MelSpec(16000, n_fft=512, win_length=512)
    assert family(16000, n_fft=2048) == MelSpec(16000, n_fft=2048)
    assert family(16000, win_length=2000) == MelSpec(16000, n_fft=2000, win_length=2000)


@pytest.mark.parametrize("changes", [{"hop_length": 1025}, {"win_length": 200}, {"mel_f_min": 9000.0}])
def test_a_given_length_that_does_not_fit_the_rate_is_refused(changes):
    with pytest.raises(ConfigError, match=r"16000 Hz"):
        family(16000, **changes)


def test_the_fields_of_a_spec_give_the_spec():
    spec = SPECS["short window, band-limited"]
    assert MelSpec.from_config(DataConfig(**spec.to_config()), spec.sample_rate) == spec


def test_a_clip_without_samples_is_refused():
    with pytest.raises(AudioError):
        mel_numpy(np.zeros(0, np.float32), MelSpec(16000))
