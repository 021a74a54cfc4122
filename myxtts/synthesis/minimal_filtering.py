"""The convolutions of a voice's decoder with a third fewer multiplications, rewritten while the voice is loaded.

Minimal filtering F(2, 3) (Winograd, 1980; Lavin & Gray, 2016): the outputs of a convolution of three taps at t and
t + dilation need the inputs d0 … d3, which are `dilation` apart. Four matrix products give both, instead of six:

    y0 = (d0 - d2) k0 + m1 + m2        m1 = (d1 + d2) (k0 + k1 + k2) / 2
    y1 = (d3 - d1) k2 + m1 - m2        m2 = (d2 - d1) (k0 - k1 + k2) / 2

The files of voices keep the plain form: weights are read back exactly, and other programs load what they always did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from myxtts.synthesis.onnx_file import TO_THE_END

TAPS = 3
_OPERANDS = {"Add": 2, "MatMul": 2, "Concat": TAPS, "Reshape": 2, "Slice": 4, "Pad": 2}
"""Operators of a convolution and the number of their inputs."""
_INSIDE = {"Add": ("MatMul",), "MatMul": ("Concat", "Reshape"), "Concat": ("Slice",), "Slice": ("Pad",)}
"""Operators whose results they take."""


class _Convolution(NamedTuple):
    """A convolution as `myxtts.export.graph` writes it: shifted copies side by side, times one matrix, plus a bias."""

    values: str
    """(rows, channels)."""
    dilation: int
    kernel: np.ndarray
    """float32 (3, channels, filters)."""
    bias: str
    output: str


def use_minimal_filtering(model: ModelProto) -> None:
    """Rewrite, in place, the convolutions of three taps inside the loops of a checked model.

    Every convolution of a loop has as many rows as the value that the loop carries. What is written differently is left alone.
    """
    graph, nodes = model.graph, []
    weights = _weights(graph)
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Loop" and len(node.input) == 3 and attribute.name == "body":
                convolutions = {each.output: each for each in _convolutions(attribute.g, weights)}
                if convolutions:
                    nodes += _rewrite_body(graph, attribute.g, convolutions, carried=node.input[2])
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _weights(graph: GraphProto) -> dict[str, TensorProto]:
    """Initializers by name, and by the name that they have after a Cast."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Cast" and len(node.input) == len(node.output) == 1 and node.input[0] in weights:
            weights[node.output[0]] = weights[node.input[0]]
    return weights


def _convolutions(body: GraphProto, weights: Mapping[str, TensorProto]) -> Iterator[_Convolution]:
    producers = {name: node for node in body.node for name in node.output}
    for node in body.node:
        if node.op_type != "Add" or len(node.input) != 2:
            continue
        match _expression(node, producers, weights):
            case (
                ("Add", ("MatMul", ("Concat", ("Slice", ("Pad", str(values), [int(dilation), *_]) as padded, *_), *_)
                as stacked, ("Reshape", str(name), shape)), str(bias))
            ):  # fmt: skip
                kernel = weights.get(name)
                is_convolution = (
                    kernel is not None
                    and kernel.data_type in (TensorProto.FLOAT16, TensorProto.FLOAT)
                    and len(kernel.dims) == 3
                    and kernel.dims[0] == TAPS
                    and min(dilation, *kernel.dims) > 0
                    and shape == [TAPS * kernel.dims[1], kernel.dims[2]]
                    and padded == ("Pad", values, [dilation, 0, dilation, 0])
                    and stacked == ("Concat", *(("Slice", padded, *_limits(tap, dilation)) for tap in range(TAPS)))
                )
                if kernel is not None and is_convolution:
                    array = numpy_helper.to_array(kernel).astype(np.float32)
                    yield _Convolution(values, dilation, array, bias, node.output[0])


def _limits(tap: int, dilation: int) -> tuple[list[int], list[int], list[int]]:
    """Start, end and axis of a tap's part of the padded values."""
    return [tap * dilation], [(tap + 1 - TAPS) * dilation or TO_THE_END], [0]


def _expression(node: NodeProto, producers: Mapping[str, NodeProto], weights: Mapping[str, TensorProto]) -> tuple:
    """A node as (operator, operand, …): integers of constants, expressions of what may be inside, otherwise names."""
    operands = []
    for name in node.input:
        inner, weight = producers.get(name), weights.get(name)
        is_known = inner is not None and inner.op_type in _INSIDE.get(node.op_type, ())
        if inner is not None and is_known and _is_plain(inner):
            operands.append(_expression(inner, producers, weights))
        elif weight is not None and weight.data_type == TensorProto.INT64:
            operands.append(numpy_helper.to_array(weight).tolist())
        else:
            operands.append(name)
    return (node.op_type, *operands)


def _is_plain(node: NodeProto) -> bool:
    """Whether a node has the operands and attributes of a convolution's."""
    attributes = [(each.name, each.i) for each in node.attribute]
    return len(node.input) == _OPERANDS[node.op_type] and attributes == (
        [("axis", -1)] if node.op_type == "Concat" else []
    )


class _Nodes:
    """Nodes in the order of their computation. Their constants become initializers of `graph`."""

    def __init__(self, graph: GraphProto, prefix: str):
        """`prefix` of the names of all tensors."""
        self.nodes: list[NodeProto] = []
        self._graph = graph
        self._names = (f"{prefix}_{index}" for index in count())

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes) -> str:
        """Append a node with one output; returns its name."""
        output = output or next(self._names)
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def halves(self, values: str) -> tuple[str, str]:
        """The first and the second half of the columns."""
        names = next(self._names), next(self._names)
        self.nodes.append(helper.make_node("Split", [values], names, name=names[0], axis=1))
        return names

    def integers(self, *values: int) -> str:
        """A constant int64 vector."""
        return self.constant(np.array(values, np.int64))

    def constant(self, array: np.ndarray) -> str:
        """A constant array."""
        name = next(self._names)
        self._graph.initializer.append(numpy_helper.from_array(array, name))
        return name


def _rewrite_body(
    graph: GraphProto, body: GraphProto, convolutions: Mapping[str, _Convolution], carried: str
) -> list[NodeProto]:
    """Rewrite the body of a loop; returns nodes that compute, before the loop, what every step needs."""
    before, inside = _Nodes(graph, f"{carried}/filtering"), _Nodes(graph, f"{carried}/filtering_step")
    zero, one = before.integers(0), before.integers(1)
    rows = before.add("Slice", before.add("Shape", carried), zero, one, zero)
    pads = {}
    for dilation in sorted({each.dilation for each in convolutions.values()}):
        missing = before.add("Mod", before.add("Neg", rows), before.integers(2 * dilation))
        after = before.add("Add", missing, before.integers(dilation))
        pads[dilation] = before.add("Concat", before.integers(dilation, 0), after, zero, axis=0)
    for node in body.node:
        convolution = convolutions.get(node.output[0]) if node.output else None
        if convolution is None:
            inside.nodes.append(node)
        else:
            _add_convolution(inside, convolution, rows, pads[convolution.dilation])
    live = _live(inside.nodes, {output.name for output in body.output})
    del body.node[:]
    body.node.extend(live)
    return before.nodes


def _add_convolution(nodes: _Nodes, convolution: _Convolution, rows: str, pads: str) -> None:
    """The formula at the top. `pads` puts zeros around the values, so that their rows are pairs of `dilation` rows each."""
    values, dilation, kernel, bias, output = convolution
    channels, filters = kernel.shape[1:]
    zero, one, to_the_end = nodes.integers(0), nodes.integers(1), nodes.integers(TO_THE_END)
    pairs = nodes.add("Reshape", nodes.add("Pad", values, pads), nodes.integers(-1, 2 * dilation * channels))
    d0, d1 = nodes.halves(nodes.add("Slice", pairs, zero, nodes.integers(-1), zero))
    d2, d3 = nodes.halves(nodes.add("Slice", pairs, one, to_the_end, zero))

    def rows_of(operator: str, first: str, second: str) -> str:
        return nodes.add("Reshape", nodes.add(operator, first, second), nodes.integers(-1, channels))

    first, middle, last = kernel
    m1 = nodes.add("Gemm", rows_of("Add", d1, d2), nodes.constant((first + middle + last) / 2), bias)
    m2 = nodes.add("MatMul", rows_of("Sub", d2, d1), nodes.constant((first - middle + last) / 2))
    y0 = nodes.add("Gemm", rows_of("Sub", d0, d2), nodes.constant(first), nodes.add("Add", m1, m2))
    y1 = nodes.add("Gemm", rows_of("Sub", d3, d1), nodes.constant(last), nodes.add("Sub", m1, m2))
    wide = nodes.integers(-1, dilation * filters)
    joined = nodes.add("Concat", nodes.add("Reshape", y0, wide), nodes.add("Reshape", y1, wide), axis=1)
    every_row = nodes.add("Reshape", joined, nodes.integers(-1, filters))
    nodes.add("Slice", every_row, zero, rows, zero, output=output)


def _live(nodes: Sequence[NodeProto], outputs: set[str]) -> list[NodeProto]:
    """The nodes that the outputs need, in the same order."""
    needed, live = set(outputs), []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            live.append(node)
            needed.update(node.input)
    return live[::-1]
