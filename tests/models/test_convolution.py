"""Both ways of convolving are the same function, with the same gradient."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models import convolution
from myxtts.models.convolution import MATMUL, NATIVE, convolution_path, convolve_by_matmul


def convolve_by_definition(values, kernel, dilation):
    taps = len(kernel)
    reach = dilation * (taps // 2)
    padded = np.pad(values, ((0, 0), (reach, reach), (0, 0)))
    size = values.shape[1]
    return sum(padded[:, tap * dilation : tap * dilation + size] @ kernel[tap] for tap in range(taps))


@pytest.mark.parametrize("dilation", [1, 2, 4, 20])
@pytest.mark.parametrize("taps", [1, 3, 5])
def test_matrix_product_is_the_convolution_and_its_gradient(taps, dilation):
    random = np.random.default_rng(taps + 10 * dilation)
    values = random.normal(size=(2, 17, 3))
    kernel = random.normal(size=(taps, 3, 5))
    upstream = random.normal(size=(2, 17, 5))

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
        paths.append(convolution.convolution_path())
        return tf.constant(0)

    traced()
    convolution_path.cache_clear()
    assert paths == [convolution.convolution_path()]
