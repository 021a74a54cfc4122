"""Empty bands teach nothing, bandwidth and noise are conditions, and few steps are learned from a teacher that takes many."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.flow_matching import TEACHER_STEPS, clip_losses, decoded_again
from myxtts.models.layout import ClipRandomness
from myxtts.models.xtts import TEACHER
from tests.models.clips import N_MELS, batch_of, lay_out, losses_of, make_clips, tiny_model

CONTAINED = N_MELS // 2


def test_what_is_in_empty_bands_changes_neither_losses_nor_alignment():
    model, batch = tiny_model(), batch_of(make_clips(3), [CONTAINED, N_MELS, CONTAINED])
    first = int(batch.mel_lengths[0, 0])
    changed = batch.mel.numpy()
    changed[0, :first, CONTAINED:] = -9.0
    losses, alignment = losses_of(model, batch)
    other_losses, other_alignment = losses_of(model, batch._replace(mel=tf.constant(changed)))
    for one, other in zip(losses, other_losses, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    np.testing.assert_array_equal(alignment.path.numpy(), other_alignment.path.numpy())


def test_empty_bands_give_the_output_no_gradient():
    model, batch = tiny_model(), batch_of(make_clips(2), [CONTAINED, CONTAINED])
    bias = model.decoder.output_projection.bias
    with tf.GradientTape() as tape:
        losses, _ = losses_of(model, batch)
        loss = tf.reduce_sum(losses.flow)
    gradient = tape.gradient(loss, bias.value).numpy()
    assert (gradient[CONTAINED:] == 0).all()
    assert (gradient[:CONTAINED] != 0).all()


def test_a_wide_and_clean_recording_adds_nothing_and_others_do():
    model = tiny_model(recording_condition=True)
    plain = tiny_model()
    weights = model.weights_by_name()
    for name, variable in plain.weights_by_name().items():
        variable.assign(weights[name])
    batch = batch_of(make_clips(2), [N_MELS, N_MELS])
    clean, reference = losses_of(model, batch)[0].flow.numpy(), losses_of(plain, batch)[0].flow.numpy()
    np.testing.assert_allclose(clean, reference, rtol=1e-6)
    noisy = losses_of(model, batch._replace(noise=tf.ones((1, 2))))[0].flow.numpy()
    assert (np.abs(noisy - clean) > 1e-4).all()


def test_mels_that_are_decoded_again_belong_to_their_frames_and_keep_empty_bands():
    model, clips = tiny_model(), make_clips(2)
    batch = lay_out([clips], 50, 200, 2)
    batch = batch._replace(bands=tf.constant([[N_MELS, N_MELS // 2]], tf.int32))
    found = decoded_again(model, batch, ClipRandomness(1, 0, batch.clips, drops=False), 2).numpy()[0]
    assert found.shape == batch.mel.shape[1:]
    first, length = int(batch.frame_starts[0, 1]), int(batch.mel_lengths[0, 1])
    recorded = batch.mel.numpy()[0, first : first + length]
    np.testing.assert_array_equal(found[first : first + length, N_MELS // 2 :], recorded[:, N_MELS // 2 :])
    assert np.abs(found[first : first + length, : N_MELS // 2] - recorded[:, : N_MELS // 2]).max() > 1e-3
    assert not found[first + length :].any()


@pytest.fixture
def model():
    """A network to be distilled to two steps, whose decoder and teacher start with the same random weights."""
    model = tiny_model(distill_steps=2)
    random = np.random.default_rng(0)
    weights = model.weights_by_name()
    for name, variable in weights.items():
        if name.startswith("decoder/"):
            value = (variable.numpy() + random.normal(size=variable.shape) * 0.05).astype(np.float32)
            variable.assign(value)
            weights[name.replace("decoder/", f"{TEACHER}/", 1)].assign(value)
    return model


@pytest.fixture
def batch():
    return lay_out([make_clips(2)], 50, 200, 2)


def test_only_the_decoder_is_trained(model):
    names = {name for name, variable in model.weights_by_name().items() if variable.trainable}
    assert names == {name for name in model.weights_by_name() if name.startswith("decoder/")}


def test_the_distance_to_the_teacher_falls_and_no_other_loss_is_taken(model, batch):
    def losses():
        return clip_losses(model, batch, ClipRandomness(1, 5, batch.clips, drops=False))[0]

    before = losses()
    weights = [variable.value for variable in model.trainable_variables]
    for _ in range(30):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(losses().flow)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            if gradient is not None:
                weight.assign_sub(1e-4 * gradient)
    assert float(tf.reduce_sum(losses().flow)) < 0.8 * float(tf.reduce_sum(before.flow))
    assert not np.any([before.prior, before.duration, before.speaker])


def test_one_step_of_a_decoder_that_is_its_own_teacher_misses_nothing_where_the_flow_is_straight(batch):
    model = tiny_model(distill_steps=1)
    constant = np.linspace(-1, 1, N_MELS).astype(np.float32)
    for decoder in (model.decoder, model.teacher):
        decoder.output_projection.kernel.assign(np.zeros(decoder.output_projection.kernel.shape))
        decoder.output_projection.bias.assign(constant)
    losses, _ = clip_losses(model, batch, ClipRandomness(1, 5, batch.clips, drops=False))
    np.testing.assert_allclose(losses.flow, 0, atol=1e-9 * TEACHER_STEPS * 200)
