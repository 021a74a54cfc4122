"""The vocoder's transforms, phases and losses, and its ONNX twin."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.export.vocoder_graph import vocoder_model
from myxtts.models.spec import VocoderSpec, pitch_classes
from myxtts.models.vocoder import Spectrum, Vocoder, inverse_stft, phase_turns, pitch_slope, stft
from myxtts.models.vocoder_losses import Made, copy_synthesis, hearing_weights, log_mel, spectral_losses, within_band
from myxtts.synthesis.vocoder import noise_phases, open_vocoder_file

MEL = MelSpec(24000, 1024, 1024, 384, 80, 0.0, 12000.0)
SPEC = VocoderSpec(MEL, channels=16, blocks=1, pitch_channels=16, pitch_blocks=1)


def tone(hertz, seconds=0.6, rate=24000):
    time = np.arange(int(seconds * rate)) / rate
    return (0.3 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


@pytest.fixture(scope="module")
def vocoder():
    tf.keras.utils.set_random_seed(3)
    built = Vocoder(SPEC, name="vocoder")
    built.build()
    for variable in built.trainable_variables:  # as float16 stores them
        variable.assign(tf.cast(tf.cast(variable.value, tf.float16), tf.float32))
    return built


@pytest.fixture(scope="module")
def weights(vocoder):
    return {each.path.removeprefix("vocoder/"): each.numpy() for each in vocoder.trainable_variables}


def test_the_inverse_transform_undoes_the_transform():
    samples = np.random.default_rng(0).normal(size=(2, 1024 + 20 * 384)).astype(np.float32)
    again = inverse_stft(*stft(samples, 1024, 384), 1024, 384)
    np.testing.assert_allclose(again, samples[:, 512 : 512 + 20 * 384], atol=2e-5)


def test_the_mel_of_a_crop_is_the_mel_of_the_cache():
    samples = np.random.default_rng(0).normal(scale=0.1, size=24000).astype(np.float32)
    first, frames = 5, 20
    crop = samples[first * 384 - 512 : (first + frames - 1) * 384 + 512]
    found = log_mel(*stft(crop[None], 1024, 384), MEL)[0]
    np.testing.assert_allclose(found, mel_numpy(samples, MEL)[first : first + frames], atol=1e-3)


def test_the_phase_of_30_seconds_is_exact():
    pitch = (180 + 60 * np.sin(np.arange(1875) / 37)).astype(np.float32)
    steps = 0.5 * (pitch[1:].astype(np.float64) + pitch[:-1]) * (384 / 24000)
    expected = np.concatenate([[0], np.cumsum(steps)])
    error = phase_turns(tf.constant(pitch[None]), 384 / 24000).numpy()[0] - (expected - np.floor(expected))
    error -= np.round(error)
    assert np.abs(error).max() < 1e-6  # 0.0001 turns at the 100th harmonic


def test_a_third_of_the_weight_of_log_magnitudes_is_below_1_khz():
    weights = hearing_weights(2048, 24000)
    low = np.arange(1025) * 24000 / 2048 < 1000
    assert weights[low].sum() / weights.sum() == pytest.approx(0.31, abs=0.01)


def test_the_onnx_graph_gives_the_samples_of_the_network(vocoder, weights, tmp_path, monkeypatch):
    samples = sum(tone(hertz) for hertz in (150, 300, 450)) + tone(3000) * np.linspace(0, 0.2, len(tone(100)))
    mel = mel_numpy(samples.astype(np.float32), MEL)
    path = tmp_path / "tiny.onnx"
    path.write_bytes(vocoder_model(SPEC, weights).SerializeToString())
    found = open_vocoder_file(path, MEL)(mel)
    phases = tf.constant(noise_phases(len(mel), SPEC.bins)[None])
    expected = vocoder.samples(tf.constant(mel[None]), phases)[0].numpy()
    assert len(found) == (len(mel) - 1) * MEL.hop_length
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    quiet = dataclasses.replace(SPEC, noise_gain=-0.7)
    path.write_bytes(vocoder_model(quiet, weights).SerializeToString())
    monkeypatch.setattr(vocoder, "spec", quiet)
    expected = vocoder.samples(tf.constant(mel[None]), phases)[0].numpy()
    np.testing.assert_allclose(open_vocoder_file(path, MEL)(mel), expected, atol=1e-3 * np.abs(expected).max())
    assert np.abs(expected - found).max() > 0.01 * np.abs(expected).max()


def made_of(samples, target):
    zeros = tf.zeros((1, 1, len(pitch_classes())))
    spectrum = Spectrum(*stft(samples, MEL.n_fft, MEL.hop_length), zeros, tf.ones((1, 1)), tf.ones((1, 1, 1)))
    return Made(spectrum, tf.concat([samples, samples], axis=0), target)


def losses_of(samples, target, bandwidth, repulsion=0.5):
    return spectral_losses(made_of(samples, target), MEL, tf.constant([bandwidth]), tf.zeros((1, 1)), repulsion)


def test_nothing_above_the_bandwidth_counts():
    low, high = tone(300)[None, :13440], tone(9000)[None, :13440]
    same = losses_of(tf.constant(low + high), tf.constant(low), 5000.0)
    other = losses_of(tf.constant(low + high), tf.constant(low), 12000.0)
    assert same.relative < 0.02 < other.relative
    judged, target = within_band(made_of(tf.constant(low + high), tf.constant(low)), tf.constant([5000.0]), MEL)
    assert np.abs(judged - target)[:, 1000:-1000].max() < 0.003
    judged, target = within_band(made_of(tf.constant(low + high), tf.constant(low)), tf.constant([12000.0]), MEL)
    assert np.abs(judged - target)[:, 1000:-1000].max() > 0.25


def test_noise_of_the_right_level_has_the_least_energy_distance():
    rng = np.random.default_rng(0)
    noise = [tf.constant(rng.normal(scale=0.1, size=(1, 13440)).astype(np.float32)) for _ in range(3)]

    def loss(gain, repulsion):
        made = made_of(noise[0] * gain, noise[2])._replace(samples=tf.concat([noise[0], noise[1]], axis=0) * gain)
        return spectral_losses(made, MEL, tf.constant([12000.0]), tf.zeros((1, 1)), repulsion).relative

    assert loss(1.0, 1.0) < min(loss(0.5, 1.0), loss(2.0, 1.0))
    assert loss(1.0, 1.0) - loss(0.85, 1.0) < loss(1.0, 0.0) - loss(0.85, 0.0)  # without it, less noise is better


def test_a_jump_of_the_pitch_has_no_slope():
    pitch = tf.constant([[100.0, 102.0, 104.0, 200.0, 200.0]])
    np.testing.assert_allclose(pitch_slope(pitch, 0.016)[0], [62.5, 125.0, 0.0, 0.0, 0.0], rtol=1e-5)


def test_the_bands_have_the_level_of_the_mel(vocoder):
    mel = mel_numpy(sum(tone(150 * n) / n for n in range(1, 20)).astype(np.float32), MEL)[None]
    spectrum = vocoder(tf.constant(mel), tf.random.uniform((2, mel.shape[1], SPEC.bins), seed=1))
    gained = mel + vocoder.gain_head(tf.zeros((1, 1, SPEC.channels)))
    found = log_mel(spectrum.real, spectrum.imaginary, MEL)
    assert np.abs(found - gained).mean() < 0.3


def test_a_crop_and_its_copy_have_the_same_length(vocoder):
    crop = tf.constant(tone(200)[None, : 1024 + 19 * 384])
    made = copy_synthesis(vocoder, crop, 0.0, tf.zeros((1, 20, SPEC.bins)))
    assert made.samples.shape == made.target.shape == (1, 19 * 384)
