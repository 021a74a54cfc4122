"""The vocoder's transforms, phases and losses, and its ONNX twin."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.export.vocoder_graph import vocoder_model
from myxtts.models.spec import VocoderSpec, pitch_classes
from myxtts.models.stft import inverse_stft, stft
from myxtts.models.vocoder import Vocoder, phase_turns
from myxtts.models.vocoder_losses import Made, copy_synthesis, log_mel, spectral_losses, within_band
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


def test_the_onnx_graph_gives_the_samples_of_the_network(vocoder, weights, tmp_path):
    samples = sum(tone(hertz) for hertz in (150, 300, 450)) + tone(3000) * np.linspace(0, 0.2, len(tone(100)))
    mel = mel_numpy(samples.astype(np.float32), MEL)
    path = tmp_path / "tiny.onnx"
    path.write_bytes(vocoder_model(SPEC, weights).SerializeToString())
    found = open_vocoder_file(path, MEL)(mel)
    expected = vocoder.samples(tf.constant(mel[None]), tf.constant(noise_phases(len(mel), SPEC.bins)[None]))[0].numpy()
    assert len(found) == (len(mel) - 1) * MEL.hop_length
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def made_of(samples, target):
    part = stft(samples, MEL.n_fft, MEL.hop_length)
    zeros = tf.zeros((1, 1, len(pitch_classes())))
    from myxtts.models.vocoder import Spectrum

    return Made(Spectrum(*part, zeros, tf.ones((1, 1))), *stft(target, MEL.n_fft, MEL.hop_length), samples, target)


def test_nothing_above_the_bandwidth_counts():
    low, high = tone(300)[None, :13440], tone(9000)[None, :13440]
    pitch = tf.zeros((1, 1))
    same = spectral_losses(made_of(tf.constant(low + high), tf.constant(low)), MEL, tf.constant([5000.0]), pitch)
    other = spectral_losses(made_of(tf.constant(low + high), tf.constant(low)), MEL, tf.constant([12000.0]), pitch)
    assert same.convergence < 0.02 < other.convergence
    judged, target = within_band(made_of(tf.constant(low + high), tf.constant(low)), tf.constant([5000.0]), MEL)
    assert np.abs(judged - target)[:, 1000:-1000].max() < 0.003
    judged, target = within_band(made_of(tf.constant(low + high), tf.constant(low)), tf.constant([12000.0]), MEL)
    assert np.abs(judged - target)[:, 1000:-1000].max() > 0.25


def test_a_crop_and_its_copy_have_the_same_length(vocoder):
    crop = tf.constant(tone(200)[None, : 1024 + 19 * 384])
    made = copy_synthesis(vocoder, crop, tf.zeros((1, 20, SPEC.bins)))
    assert made.samples.shape == made.target.shape == (1, 19 * 384)
