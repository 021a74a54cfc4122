"""Layers survive a round trip through their config and ignore what is outside clips; both ways of convolving are one function."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from myxtts.models import encoder_decoder, layers, speakers
from myxtts.models.layers import MATMUL, NATIVE, convolution_path, convolve_by_matmul
from myxtts.models.layout import NoRandomness, RowLayout
from myxtts.models.spec import TIME_CHANNELS


def row_layout():
    return RowLayout(tf.constant([[0, 9]]), tf.constant([[7, 5]]), 16)


def clip_arguments():
    return {"layout": row_layout(), "randomness": NoRandomness()}


def attention_arguments():
    return {"context": layers.attention_context(row_layout(), 4)}


def flow_arguments():
    return {"condition": tf.ones((1, 2, TIME_CHANNELS)), **clip_arguments()}


LAYERS = {
    "norm": (lambda: layers.FrameNorm(), dict),
    "convolution": (lambda: layers.MaskedConv1D(6, dilation=2), lambda: {"keep": tf.ones((1, 16, 1))}),
    "convolution of masked values": (lambda: layers.MaskedConv1D(6), dict),
    "attention": (lambda: layers.ClipAttention(2), attention_arguments),
    "text block": (lambda: encoder_decoder.TextBlock(2, 0.1), lambda: attention_arguments() | clip_arguments()),
    "durations": (lambda: encoder_decoder.DurationPredictor(8, 0.1), clip_arguments),
    "speaker": (lambda: speakers.SpeakerEncoder(8), dict),
    "flow block": (lambda: encoder_decoder.FlowBlock(2, 0.1), flow_arguments),
}
SHAPE = (1, 16, 8)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_survives_a_config_round_trip_and_one_gradient_step(name):
    make_layer, make_arguments = LAYERS[name]
    layer, arguments = make_layer(), make_arguments()
    restored = type(layer).from_config(layer.get_config())
    assert restored.get_config() == layer.get_config()
    values = tf.random.stateless_normal(SHAPE, (1, 2))
    restored.build(SHAPE)

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


def test_attention_stays_within_a_clip():
    layer, layout = layers.ClipAttention(2), row_layout()
    layer.build(SHAPE)
    context = layers.attention_context(layout, 4)
    values = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    changed = values.copy()
    changed[0, 9:] += 1  # the second clip and the padding
    first, second = (layer(tf.constant(one), context=context).numpy()[0] for one in (values, changed))
    np.testing.assert_allclose(first[:7], second[:7], atol=1e-6)
    assert np.abs(first[9:14] - second[9:14]).max() > 1e-3
    assert np.isfinite(first).all()


def test_a_convolution_reads_nothing_where_keep_is_0():
    layer = layers.MaskedConv1D(4, dilation=2)
    layer.build(SHAPE)
    keep = row_layout().mask
    values = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    masked = values * keep.numpy()
    np.testing.assert_allclose(layer(values, keep=keep), layer(masked), atol=1e-6)


def test_attention_refuses_an_odd_width_per_head():
    with pytest.raises(ValueError, match="multiple of 6"):
        layers.ClipAttention(3).build((None, None, 9))


def test_the_compiled_silu_and_its_gradient_are_those_of_tensorflow():
    values, bias = tf.random.stateless_normal((2, 5, 3), (1, 2)), tf.constant([0.5, -1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch((values, bias))
        found = layers.biased_silu(values, bias)
        expected = tf.nn.silu(values + bias)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for source in (values, bias):
        np.testing.assert_allclose(tape.gradient(found, source), tape.gradient(expected, source), atol=1e-5)


def test_parts_run_as_plain_graphs_where_xla_is_not_allowed():
    @layers.compiled_by_xla
    def double(value):
        compiled.append(tf.compat.v1.get_default_graph())
        return 2 * value

    compiled = []
    layers.allow_xla(False)
    try:
        assert float(double(tf.constant(3.0))) == 6.0
    finally:
        layers.allow_xla(True)
    assert float(double(tf.constant(3.0))) == 6.0
    assert len(compiled) == 2  # one trace for each way
    double(tf.constant(4.0))
    assert len(compiled) == 2


def convolve_by_definition(values, kernel, dilation):
    taps = len(kernel)
    reach = dilation * (taps // 2)
    padded = np.pad(values, ((0, 0), (reach, reach), (0, 0)))
    size = values.shape[1]
    return sum(padded[:, tap * dilation : tap * dilation + size] @ kernel[tap] for tap in range(taps))


@settings(max_examples=15, deadline=None)
@given(taps=st.sampled_from([1, 3, 5, 7]), dilation=st.integers(1, 20), frames=st.integers(1, 30))
@example(taps=3, dilation=1, frames=17)
@example(taps=5, dilation=20, frames=17)
def test_matrix_product_is_the_convolution_and_its_gradient(taps, dilation, frames):
    random = np.random.default_rng(taps + 10 * dilation)
    values = random.normal(size=(2, frames, 3))
    kernel = random.normal(size=(taps, 3, 5))
    upstream = random.normal(size=(2, frames, 5))

    with tf.GradientTape() as tape:
        inputs = tf.constant(values), tf.constant(kernel)
        tape.watch(inputs)
        result = convolve_by_matmul(*inputs, dilation)
    of_values, of_kernel = tape.gradient(result, inputs, output_gradients=tf.constant(upstream))

    # In float64: 1e-9 is far above its rounding and far below any wrong term.
    np.testing.assert_allclose(result, convolve_by_definition(values, kernel, dilation), atol=1e-9)
    # The convolution is linear in each argument, so a gradient is the inner product with every unit vector.
    direction = random.normal(size=values.shape)
    expected = np.sum(upstream * convolve_by_definition(direction, kernel, dilation))
    np.testing.assert_allclose(np.sum(of_values * direction), expected, atol=1e-9)
    direction = random.normal(size=kernel.shape)
    expected = np.sum(upstream * convolve_by_definition(values, direction, dilation))
    np.testing.assert_allclose(np.sum(of_kernel * direction), expected, atol=1e-9)


def test_matrix_product_keeps_the_static_shape_and_takes_any_length():
    traced = tf.function(
        lambda values, kernel: convolve_by_matmul(values, kernel, 2),
        input_signature=[tf.TensorSpec((None, None, 3)), tf.TensorSpec((3, 3, 5))],
        autograph=False,
    )
    assert traced(tf.ones((2, 9, 3)), tf.ones((3, 3, 5))).shape == (2, 9, 5)
    assert traced(tf.ones((1, 4, 3)), tf.ones((3, 3, 5))).shape == (1, 4, 5)
    assert convolve_by_matmul(tf.ones((2, 9, 3)), tf.ones((3, 3, 5)), 2).shape == (2, 9, 5)


def test_path_is_native_exactly_where_tensorflow_has_the_gradient():
    values, kernel = tf.ones((1, 8, 4)), tf.ones((3, 4, 4))
    try:
        with tf.GradientTape() as tape:
            tape.watch((values, kernel))
            result = tf.nn.conv1d(values, kernel, 1, "SAME", dilations=2)
        tape.gradient(result, (values, kernel))
        has_gradient = True
    except tf.errors.InvalidArgumentError:
        has_gradient = False
    assert convolution_path() == (NATIVE if has_gradient else MATMUL)


def test_path_is_found_also_while_a_function_is_traced():
    convolution_path.cache_clear()
    paths = []

    @tf.function(autograph=False)
    def traced():
        paths.append(convolution_path())
        return tf.constant(0)

    traced()
    convolution_path.cache_clear()
    assert paths == [convolution_path()]
