"""Convolutions inside a loop give the same values after they are rewritten, and nothing else is rewritten."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from myxtts.export.graph import Graph
from myxtts.synthesis.engine import Session
from myxtts.synthesis.minimal_filtering import use_minimal_filtering

CHANNELS = 6


def looped_convolution(dilation: int, taps: int = 3) -> ModelProto:
    """A model that applies the same convolution `steps` times to `values` (rows, channels)."""
    generator = np.random.default_rng(dilation)
    weights = {
        "layer/kernel": generator.normal(0, 0.3, (taps, CHANNELS, CHANNELS)),
        "layer/bias": generator.normal(size=CHANNELS),
    }
    graph = Graph(weights)
    convolved = graph.loop(
        "steps", "values", ("rows", CHANNELS), lambda _, value: graph.linear_convolution(value, "layer", dilation)
    )
    graph.node("Identity", convolved, name="convolved")
    values = (TensorProto.FLOAT, ("rows", CHANNELS))
    return graph.model("loop", {"values": values, "steps": (TensorProto.INT64, ())}, {"convolved": values}, {})


def body_of(model: ModelProto):
    return next(node for node in model.graph.node if node.op_type == "Loop").attribute[0].g


def copied(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


@pytest.mark.parametrize("dilation", [1, 2, 4])
def test_convolutions_of_any_number_of_rows_keep_their_values(dilation):
    plain = looped_convolution(dilation)
    rewritten = copied(plain)
    use_minimal_filtering(rewritten)
    sessions = Session(plain), Session(rewritten)
    for rows in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33):
        values = np.random.default_rng(rows).normal(size=(rows, CHANNELS)).astype(np.float32)
        given = {"values": values, "steps": np.int64(3)}
        expected, found = (session.run(("convolved",), given)[0] for session in sessions)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_pair_of_rows_takes_four_products_and_the_kernel_is_no_longer_read():
    model = looped_convolution(2)
    use_minimal_filtering(model)
    nodes = body_of(model).node
    assert sum(node.op_type in ("MatMul", "Gemm") for node in nodes) == 4
    assert not any(name.startswith("layer/kernel") for node in nodes for name in node.input)


def change_padding(body) -> None:
    pad = next(node for node in body.node if node.op_type == "Pad")
    pad.attribute.append(helper.make_attribute("mode", "edge"))


def change_order(body) -> None:
    concat = next(node for node in body.node if node.op_type == "Concat")
    concat.input[:] = list(concat.input)[::-1]


@pytest.mark.parametrize("change", [change_padding, change_order])
def test_what_only_resembles_a_convolution_is_left_alone(change):
    model = looped_convolution(2)
    change(body_of(model))
    before = model.SerializeToString(deterministic=True)
    use_minimal_filtering(model)
    assert model.SerializeToString(deterministic=True) == before


def test_convolutions_of_five_taps_are_left_alone():
    model = looped_convolution(1, taps=5)
    before = model.SerializeToString(deterministic=True)
    use_minimal_filtering(model)
    assert model.SerializeToString(deterministic=True) == before


def test_a_kernel_of_another_shape_is_left_alone():
    model = looped_convolution(1)
    kernel = next(tensor for tensor in model.graph.initializer if tensor.name == "layer/kernel")
    flat = numpy_helper.to_array(kernel).reshape(1, 3 * CHANNELS, CHANNELS)
    kernel.CopyFrom(numpy_helper.from_array(flat, kernel.name))
    before = model.SerializeToString(deterministic=True)
    use_minimal_filtering(model)
    assert model.SerializeToString(deterministic=True) == before
