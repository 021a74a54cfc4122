"""The network as a whole: it learns, every weight is reached, and its layers can be saved."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.models import decoder, layers, speaker_encoder, text_encoder
from myxtts.models.layout import RowLayout
from myxtts.models.randomness import ClipRandomness, NoRandomness
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import XTTS
from tests.models.clips import lay_out, make_clips, tiny_model

SIZES_IN_MILLIONS = {"tiny": (3.0, 4.0), "small": (9.0, 11.5), "normal": (18.0, 23.0), "big": (54.0, 66.0)}


@pytest.mark.parametrize(("size", "bounds"), SIZES_IN_MILLIONS.items())
@pytest.mark.parametrize("num_speakers", [1, 4])
def test_each_size_has_the_promised_number_of_parameters(size, bounds, num_speakers):
    spec = ModelSpec.from_config(
        ModelConfig(size=size), num_symbols=90, num_languages=5, num_speakers=num_speakers, n_mels=80
    )
    model = XTTS(spec)
    model.build()
    millions = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables) / 1e6
    assert bounds[0] <= millions <= bounds[1]


def total(model, batch, step=0):
    losses, _ = model.clip_losses(batch, ClipRandomness(1, step, batch.clips))
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


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
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


def row_layout():
    return RowLayout(tf.constant([[0, 9]]), tf.constant([[7, 5]]), 16)


def attention_context():
    return layers.attention_context(row_layout(), 4)


LAYERS = {
    "norm": (layers.FrameNorm(), (1, 16, 8), {}),
    "convolution": (layers.MaskedConv1D(6, dilation=2), (1, 16, 8), {"keep": tf.ones((1, 16, 1))}),
    "convolution of what is masked already": (layers.MaskedConv1D(6), (1, 16, 8), {}),
    "attention": (layers.ClipAttention(2), (1, 16, 8), {"context": attention_context()}),
    "text block": (
        text_encoder.TextBlock(2, 0.1),
        (1, 16, 8),
        {"context": attention_context(), "layout": row_layout(), "randomness": NoRandomness()},
    ),
    "durations": (
        text_encoder.DurationPredictor(8, 0.1),
        (1, 16, 8),
        {"layout": row_layout(), "randomness": NoRandomness()},
    ),
    "speaker": (speaker_encoder.SpeakerEncoder(8), (1, 16, 8), {}),
    "flow block": (
        decoder.FlowBlock(2, 0.1),
        (1, 16, 8),
        {
            "condition": tf.ones((1, 2, decoder.TIME_CHANNELS)),
            "layout": row_layout(),
            "randomness": NoRandomness(),
        },
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_survives_a_config_round_trip_and_one_gradient_step(name):
    layer, shape, arguments = LAYERS[name]
    restored = type(layer).from_config(layer.get_config())
    assert restored.get_config() == layer.get_config()
    values = tf.random.stateless_normal(shape, (1, 2))
    restored.build(shape)

    def call():
        condition = [arguments["condition"]] if "condition" in arguments else []
        rest = {key: value for key, value in arguments.items() if key != "condition"}
        return restored(values, *condition, **rest)

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(call()))
    gradients = tape.gradient(loss, [variable.value for variable in restored.trainable_variables])
    assert all(gradient is not None for gradient in gradients)
    graph = tf.function(call)
    np.testing.assert_allclose(graph().numpy(), call().numpy(), atol=1e-5)
    graph()
    assert graph.experimental_get_tracing_count() == 1


def test_a_spec_survives_json_and_the_network_its_config():
    model = tiny_model()
    assert ModelSpec.from_dict(model.spec.to_dict()) == model.spec
    assert XTTS.from_config(model.get_config()).spec == model.spec


def test_the_compiled_silu_and_its_gradient_are_those_of_tensorflow():
    values, bias = tf.random.stateless_normal((2, 5, 3), (1, 2)), tf.constant([0.5, -1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch((values, bias))
        found = layers.biased_silu(values, bias)
        expected = tf.nn.silu(values + bias)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for source in (values, bias):
        np.testing.assert_allclose(tape.gradient(found, source), tape.gradient(expected, source), atol=1e-5)
