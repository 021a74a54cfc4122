"""The pitch is shown to the decoder as the harmonics of the mel, and it is learned by a predictor without touching the text."""

import numpy as np
import tensorflow as tf

from myxtts.models.layout import ClipRandomness, RowLayout
from myxtts.models.pitch import pitch_errors, pitch_features, standardized_pitch
from myxtts.models.speakers import draw_factors, with_virtual_speakers
from myxtts.models.spec import PITCH_CENTER_HZ, mel_bands
from tests.models.clips import N_MELS, lay_out, losses_of, make_clips, tiny_model, tiny_spec
from tests.models.test_packing import assert_same, results_of

SPEC = tiny_spec(pitch=True)


def ripples_of(hertz: float) -> np.ndarray:
    spec = tiny_spec(pitch=True).__class__(**{**SPEC.to_dict(), "n_mels": 80, "f_max": 12000.0})
    pitch = standardized_pitch(tf.constant([[hertz]]))
    return pitch_features(pitch, tf.ones((1, 1)), spec).numpy()[0, 0, :80]


def test_bands_near_a_harmonic_are_raised_and_those_between_two_lowered():
    centers, _ = mel_bands(80, 0.0, 12000.0)
    ripples = ripples_of(250.0)
    for harmonic in (1, 2, 3):
        near = np.argmin(np.abs(centers - harmonic * 250.0))
        between = np.argmin(np.abs(centers - (harmonic + 0.5) * 250.0))
        assert ripples[near] > 0.5
        assert ripples[between] < -0.5


def test_bands_that_are_wider_than_the_pitch_have_no_ripple():
    _, widths = mel_bands(80, 0.0, 12000.0)
    assert np.abs(ripples_of(100.0)[widths > 150.0]).max() < 0.2


def test_unvoiced_frames_have_no_features():
    features = pitch_features(tf.constant([[0.3, -0.2]]), tf.constant([[1.0, 0.0]]), SPEC).numpy()[0]
    assert np.abs(features[0]).max() > 0
    assert not features[1].any()


def test_only_voiced_frames_count_for_the_error_of_the_pitch():
    hertz = tf.constant([[2 * PITCH_CENTER_HZ, 0.0]])
    certain = tf.constant([[30.0, -30.0]])
    right = pitch_errors((standardized_pitch(hertz) + tf.constant([[0.0, 5.0]]), certain), hertz)
    np.testing.assert_allclose(right, 0.0, atol=1e-6)
    wrong = pitch_errors((standardized_pitch(hertz) + 1.0, certain), hertz).numpy()
    np.testing.assert_allclose(wrong, [[1.0, 0.0]], atol=1e-5)


def test_a_packed_row_gives_the_losses_of_each_clip_alone():
    model, clips = tiny_model(pitch=True), make_clips(6)
    alone = {}
    for clip in clips:
        alone |= results_of(model, lay_out([[clip]], len(clip.tokens), len(clip.mel), 1, has_pitch=True))
    assert all(losses[-1] > 0 for losses, _ in alone.values())
    assert_same(results_of(model, lay_out([clips[:3], clips[3:]], 60, 200, 4, has_pitch=True)), alone)


def test_the_pitch_of_the_recording_decides_what_the_decoder_learns():
    model, clips = tiny_model(pitch=True), make_clips(2)
    batch = lay_out([clips], 50, 200, 2, has_pitch=True)
    flow = losses_of(model, batch)[0].flow.numpy()
    higher = losses_of(model, batch._replace(pitch=batch.pitch * 1.3))[0].flow.numpy()
    assert (np.abs(flow - higher) > 1e-4).all()


def test_the_text_encoder_does_not_learn_from_the_pitch_and_the_speaker_vector_does():
    model, batch = tiny_model(pitch=True), lay_out([make_clips(2)], 50, 200, 2, has_pitch=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(losses_of(model, batch)[0].pitch)
    weights = {name: variable for name, variable in model.weights_by_name().items() if variable.trainable}
    gradients = dict(zip(weights, tape.gradient(loss, [each.value for each in weights.values()]), strict=True))
    assert not any(gradients[name] is not None for name in weights if name.startswith("text_encoder/"))
    assert np.abs(gradients["speaker_encoder/output/kernel"]).max() > 0


def test_a_network_that_starts_without_pitch_decodes_as_before():
    plain, batch = tiny_model(), lay_out([make_clips(2)], 50, 200, 2, has_pitch=True)
    model = tiny_model(pitch=True)
    weights = plain.weights_by_name()
    for name, variable in model.weights_by_name().items():
        variable.assign(weights[name] if name in weights else tf.zeros_like(variable))
    np.testing.assert_allclose(losses_of(model, batch)[0].flow, losses_of(plain, batch)[0].flow, rtol=1e-6)


def test_a_virtual_speaker_has_the_pitch_of_the_shifted_clip():
    spec, batch = tiny_spec(pitch=True, virtual_speakers=1.0), lay_out([make_clips(2)], 50, 200, 2, has_pitch=True)
    randomness = ClipRandomness(1, 5, batch.clips)
    frames = RowLayout(batch.frame_starts, batch.mel_lengths, batch.mel.shape[1])
    shifted, _ = with_virtual_speakers(batch, frames, randomness, spec)
    _, factors = draw_factors(randomness, 1.0)
    start, length = int(batch.frame_starts[0, 1]), int(batch.mel_lengths[0, 1])
    expected = batch.pitch.numpy()[0, start : start + length] * float(factors[0, 1])
    np.testing.assert_allclose(shifted.pitch.numpy()[0, start : start + length], expected, rtol=1e-6)


def test_expressiveness_scales_the_movements_of_the_pitch():
    model = tiny_model(num_speakers=1, pitch=True)
    output = model.pitch_predictor.output_projection
    output.kernel.assign(output.kernel * [0.1, 0.0])  # within the pitches of voices
    output.bias.assign([0.0, 1.0])  # voiced
    encoded, _ = model.encode(tf.constant([[3, 4, 5]]), tf.constant([3]), None, tf.constant([0]))
    durations, noise = tf.constant([[2, 5, 2, 6, 2, 4, 2]]), tf.zeros((1, 23, N_MELS))
    usual, flat, lively = (
        model.decode(encoded, durations, noise, None, tf.constant([0]), 2, 0.4, factor).numpy()
        for factor in (1.0, 0.0, 2.0)
    )
    assert np.abs(usual - flat).max() > 1e-3
    assert np.abs(usual - lively).max() > 1e-3
