"""A decoder that learns to reach in few steps what its teacher reaches in many."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.randomness import ClipRandomness
from myxtts.models.xtts import TEACHER, TEACHER_STEPS
from tests.models.clips import N_MELS, lay_out, make_clips, tiny_model


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
        return model.clip_losses(batch, ClipRandomness(1, 5, batch.clips, drops=False))[0]

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
    losses, _ = model.clip_losses(batch, ClipRandomness(1, 5, batch.clips, drops=False))
    np.testing.assert_allclose(losses.flow, 0, atol=1e-9 * TEACHER_STEPS * 200)
