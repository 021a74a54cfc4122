"""The network as a whole: it learns, every weight is reached, eager, graph, XLA and mixed precision agree."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.flow_matching import clip_losses
from myxtts.models.layout import ClipRandomness
from myxtts.models.xtts import XTTS
from myxtts.runtime.machine import Bfloat16, bfloat16_support
from tests.models.clips import lay_out, make_clips, tiny_model

needs_bfloat16 = pytest.mark.skipif(
    bfloat16_support() is Bfloat16.ABORTS, reason="TensorFlow 2.21 aborts the process with bfloat16 on this CPU"
)


def total(model, batch, step=0):
    losses, _ = clip_losses(model, batch, ClipRandomness(1, step, batch.clips))
    return tf.add_n([tf.reduce_sum(term) for term in losses])


@pytest.mark.parametrize("num_speakers", [1, 2])
def test_gradients_reach_every_weight(num_speakers):
    model = tiny_model(num_speakers, dropout=0.4)
    batch = lay_out([make_clips(8)], 90, 500, 8, has_references=num_speakers > 1)
    with tf.GradientTape() as tape:
        loss = total(model, batch)
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert gradient is not None, variable.path
        assert np.abs(tf.convert_to_tensor(gradient).numpy()).max() > 0, variable.path


def test_one_batch_can_be_overfitted():
    model = XTTS(tiny_model().spec)
    model.build()
    batch = lay_out([make_clips(4)], 50, 260, 4)
    optimizer = keras.optimizers.Adam(1e-2)
    optimizer.build(model.trainable_variables)

    @tf.function
    def learn(step):
        with tf.GradientTape() as tape:
            loss = total(model, batch, step)
        variables = [variable.value for variable in model.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), model.trainable_variables, strict=True))
        return loss

    losses = [float(learn(tf.constant(step, tf.int64))) for step in range(300)]
    assert np.mean(losses[-20:]) < 0.35 * np.mean(losses[:3])


@pytest.mark.parametrize("policy", [pytest.param("mixed_bfloat16", marks=needs_bfloat16), "mixed_float16"])
def test_mixed_precision_gives_nearly_the_same_losses(policy):
    batch = lay_out([make_clips(3)], 50, 200, 3)
    exact, mixed = float(total(tiny_model(), batch)), float(total(tiny_model(dtype=policy), batch))
    assert mixed == pytest.approx(exact, rel=0.1)


def test_eager_and_graph_agree():
    model, batch = tiny_model(), lay_out([make_clips(3)], 50, 200, 3)
    graph = tf.function(lambda: total(model, batch))
    assert float(graph()) == pytest.approx(float(total(model, batch)), rel=1e-4)


def test_the_whole_loss_and_gradient_compile_by_xla():
    model, batch = tiny_model(), lay_out([make_clips(3)], 50, 200, 3)
    compiled = tf.function(lambda: total(model, batch), jit_compile=True)
    assert float(compiled()) == pytest.approx(float(total(model, batch)), rel=1e-4)


def test_the_network_survives_its_config():
    model = tiny_model()
    assert XTTS.from_config(model.get_config()).spec == model.spec


def test_weights_are_named_by_their_path_below_the_network():
    names = tiny_model().weights_by_name()
    assert {"mel_mean", "mel_deviation", "unknown_speaker", "decoder/block_0/widen/kernel"} <= names.keys()
    assert "text_encoder/block_1/attention/qkv/kernel" in names


def test_normalization_is_undone():
    model = tiny_model()
    model.mel_mean.assign(np.linspace(-3, 1, model.spec.n_mels))
    model.mel_deviation.assign(np.linspace(0.5, 2, model.spec.n_mels))
    mel = np.random.default_rng(0).normal(size=(2, 5, model.spec.n_mels)).astype(np.float32)
    np.testing.assert_allclose(model.denormalize(model.normalize(mel)), mel, atol=1e-5)


def test_a_network_of_one_speaker_takes_no_reference():
    with pytest.raises(ValueError, match="no speaker encoder"):
        tiny_model(num_speakers=1).speaker_vectors(tf.zeros((1, 16, 20)))
