"""Virtual speakers warp clips and references; classifiers act on the speaker vector."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.models.layout import ClipRandomness
from myxtts.models.speakers import low_passed, source_bands, warped, warped_bands
from tests.models.clips import N_MELS, batch_of, lay_out, losses_of, make_clips, tiny_model

CONTAINED = N_MELS // 2


def test_low_passed_references_hold_the_floor_above_a_band_of_the_upper_half():
    model = tiny_model(reference_lowpass=0.9)
    references = tf.zeros((40, 8, N_MELS))
    randomness = ClipRandomness(1, 2, tf.reshape(tf.range(40), (4, 10)))
    is_floor = low_passed(references, randomness, model.spec).numpy() < -11
    assert (~is_floor[:, :, : N_MELS // 2]).all()
    fraction = is_floor[:, 0, -1].mean()
    assert 0.7 < fraction < 1.0
    assert (np.diff(is_floor[:, 0].astype(int), axis=-1) >= 0).all()


def tone_mel(hertz, spec):
    time = np.arange(8000) / spec.sample_rate
    return mel_numpy((0.3 * np.sin(2 * np.pi * hertz * time)).astype(np.float32), spec)


@pytest.mark.parametrize("factor", [0.85, 1.0, 1.18])
def test_a_warped_tone_is_a_tone_at_the_multiplied_frequency(factor):
    spec = MelSpec(16000)
    mel = tf.constant(tone_mel(1500.0, spec)[None])
    positions = source_bands(tf.constant([factor]), spec.n_mels, spec.f_min, spec.f_max)
    result = warped(mel, tf.repeat(positions[:, tf.newaxis], mel.shape[1], axis=1)).numpy()[0]
    expected = tone_mel(1500.0 * factor, spec)
    assert abs(int(result[10].argmax()) - int(expected[10].argmax())) <= 1


def test_bands_that_are_read_from_beyond_a_recording_do_not_count():
    spec = MelSpec(16000)
    positions = source_bands(tf.constant([[1.0, 0.85, 1.18]]), spec.n_mels, spec.f_min, spec.f_max)
    same, lower, higher = warped_bands(tf.constant([[60, 80, 60]]), positions).numpy()[0]
    assert same in (59, 60)  # the last one is at the limit
    assert lower < 80
    assert higher > 60


def test_virtual_speakers_change_clips_and_their_references_only_in_training():
    model, batch = tiny_model(virtual_speakers=0.99), batch_of(make_clips(3), [N_MELS] * 3)
    plain = tiny_model()
    changed, same = losses_of(model, batch)[0].prior.numpy(), losses_of(model, batch, drops=False)[0].prior.numpy()
    expected = losses_of(plain, batch, drops=False)[0].prior.numpy()
    np.testing.assert_allclose(same, expected, rtol=1e-5)
    assert (np.abs(changed - expected) > 1e-3).any()


def test_the_classifier_pulls_speakers_apart_and_the_adversary_pushes_languages_together():
    model = tiny_model(speaker_loss=1.0)
    adversary = tiny_model(language_adversary=1.0)
    batch = batch_of(make_clips(4), [N_MELS] * 4)
    losses, _ = losses_of(model, batch)
    assert (losses.speaker.numpy() > 0).all()
    name = "speaker_encoder/output/kernel"

    def gradient_of(network):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(losses_of(network, batch)[0].speaker)
        return tape.gradient(loss, network.weights_by_name()[name].value).numpy()

    def direct_gradient(network):
        kernel = network.weights_by_name()[name].value
        with tf.GradientTape() as tape:
            vectors = network.speaker_vectors(tf.reshape(batch.references, (4, -1, N_MELS)))
            logits = network.language_classifier(network.language_hidden(vectors))
            labels = tf.reshape(batch.languages, (-1,))
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        return tape.gradient(loss, kernel).numpy()

    np.testing.assert_allclose(gradient_of(adversary), -direct_gradient(adversary), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("change", [{"recording_condition": True}, {"speaker_loss": 0.5, "language_adversary": 0.5}])
def test_gradients_reach_the_added_weights(change):
    model = tiny_model(dropout=0.4, **change)
    batch = lay_out([make_clips(8)], 90, 500, 8)._replace(noise=tf.ones((1, 8)), bands=tf.fill((1, 8), CONTAINED))
    with tf.GradientTape() as tape:
        losses, _ = losses_of(model, batch)
        loss = tf.add_n([tf.reduce_sum(term) for term in losses])
    added = [each for each in model.trainable_variables if "heads_" in each.path or "recording_condition" in each.path]
    assert added
    for variable, gradient in zip(added, tape.gradient(loss, [each.value for each in added]), strict=True):
        assert np.abs(tf.convert_to_tensor(gradient).numpy()).max() > 0, variable.path
