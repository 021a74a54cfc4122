"""Griffin-Lim: the sound has the mel that it was made from."""

import numpy as np
import pytest

from myxtts.audio.mel import MelSpec, mel_filterbank, mel_numpy
from myxtts.config.config import DataConfig
from myxtts.synthesis.griffin_lim import GriffinLim, GriffinLimSettings, _Bands

SPEC = MelSpec(16000)


def vowel(seconds=1.0, pitch_hz=140.0, sample_rate=16000):
    """A buzz with a gliding pitch and two resonances."""
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    phase = 2 * np.pi * np.cumsum(pitch_hz * (1 + 0.15 * np.sin(3 * time))) / sample_rate
    harmonics = [
        np.exp(-(((n * pitch_hz - 700) / 300) ** 2)) + 0.5 * np.exp(-(((n * pitch_hz - 1800) / 400) ** 2)) + 0.02
        for n in range(1, 40)
    ]
    buzz = sum(weight * np.sin(n * phase) for n, weight in enumerate(harmonics, 1))
    return (0.05 * buzz * np.sin(np.pi * time / seconds) ** 0.5).astype(np.float32)


def vocode(mel, settings=None, spec=SPEC):
    return GriffinLim(spec, settings)(mel)


def mel_distance(samples, mel, spec=SPEC):
    """Mean difference of log-mels where the mel is not silent."""
    found = mel_numpy(samples, spec)
    frames = min(len(found), len(mel))
    is_heard = mel[:frames] > mel.max() - 7
    return np.abs(found[:frames] - mel[:frames])[is_heard].mean()


def test_the_sound_has_the_mel_it_was_made_from():
    mel = mel_numpy(vowel(), SPEC)
    samples = vocode(mel)
    assert len(samples) == (len(mel) - 1) * SPEC.hop_length
    assert mel_distance(samples, mel) < 0.12


def test_it_is_nearer_to_the_mel_than_librosa_with_sixty_iterations():
    import librosa

    mel = mel_numpy(vowel(), SPEC)
    magnitude = librosa.feature.inverse.mel_to_stft(np.exp(mel.T), sr=SPEC.sample_rate, n_fft=SPEC.n_fft, power=1.0)
    theirs = librosa.griffinlim(magnitude, n_iter=60, hop_length=SPEC.hop_length, random_state=0)
    assert mel_distance(vocode(mel), mel) < mel_distance(theirs, mel)


def test_more_iterations_come_nearer():
    mel = mel_numpy(vowel(), SPEC)
    few, many = (vocode(mel, GriffinLimSettings(iterations=count)) for count in (4, 40))
    assert mel_distance(many, mel) < 0.7 * mel_distance(few, mel)


def test_a_mel_beyond_anything_real_gives_finite_sound():
    assert np.isfinite(vocode(np.full((40, SPEC.n_mels), 500.0, np.float32))).all()


def test_silence_stays_silent():
    mel = np.full((40, SPEC.n_mels), np.log(SPEC.log_floor), np.float32)
    assert np.abs(vocode(mel)).max() < 1e-4


@pytest.mark.parametrize(
    "spec",
    [
        MelSpec(22050, n_fft=1024, win_length=800, hop_length=200, n_mels=80, f_max=8000.0),
        MelSpec(8000, n_fft=512, win_length=400, hop_length=150, n_mels=40, f_min=50.0, f_max=4000.0),
        *(MelSpec.from_config(DataConfig(), rate) for rate in (8000, 24000, 44100)),
    ],
)
def test_any_mel_definition_is_vocoded(spec):
    mel = mel_numpy(vowel(1.0, sample_rate=spec.sample_rate), spec)
    samples = vocode(mel, spec=spec)
    assert len(samples) == (len(mel) - 1) * spec.hop_length
    assert mel_distance(samples, mel, spec) < 0.2


def test_a_single_frame_is_no_sound():
    assert vocode(np.zeros((1, SPEC.n_mels), np.float32)).shape == (0,)


@pytest.mark.parametrize(
    "spec", [SPEC, MelSpec.from_config(DataConfig(), 24000), MelSpec(8000, n_mels=1, f_max=4000.0)]
)
def test_sums_over_bands_are_products_with_the_filterbank(spec):
    filterbank = mel_filterbank(spec)
    magnitude = np.random.default_rng(0).random((5, len(filterbank)), np.float32)
    np.testing.assert_allclose(_Bands(filterbank).sum(magnitude), magnitude @ filterbank, rtol=1e-4, atol=1e-6)
    back = filterbank / (filterbank.sum(axis=1) + 1e-8)[:, None]
    bands = magnitude[:, : spec.n_mels]
    np.testing.assert_allclose(_Bands(filterbank).spread(bands), bands @ back.T, rtol=1e-4, atol=1e-6)
