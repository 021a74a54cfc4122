"""ONNX building blocks: a graph that grows node by node, and the layers of `myxtts.models` written with it.

Values are named tensors of one text or one batch of references: (…, positions, channels). There is no padding, so there are no
masks: lengths are dynamic. Weights become initializers named by their path in the network ("decoder/block_0/widen/kernel"),
matrices in float16 with a Cast, which ONNX Runtime folds when it loads the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from myxtts.errors import VoiceError
from myxtts.models.spec import NORM_EPSILON

OPSET = 17
"""sherpa-onnx and Piper load it; newer operators are not needed."""
IR_VERSION = 9
"""That of ONNX 1.14 (2023); runtimes refuse files that are newer than they are."""
LARGEST_FLOAT16 = 6e4
"""A little below the largest float16 (65,504)."""
END = np.iinfo(np.int64).max
"""The end of a slice that goes to the last element."""
WIDENED = ":float32"
"""Ending of the name of a float16 weight after its Cast."""


class Graph:
    """A graph under construction. Every method appends nodes and returns the name of the tensor that they compute."""

    def __init__(self, weights: Mapping[str, np.ndarray]):
        """`weights` by their path in the network; only those that are used become part of the graph."""
        self._weights = weights
        self._initializers: dict[str, TensorProto] = {}
        self._constants: dict[tuple, str] = {}
        self._scopes: list[list[onnx.NodeProto]] = [[]]
        self._described: list[onnx.ValueInfoProto] = []
        self._num_tensors = 0

    # --- tensors --------------------------------------------------------------------------------------------------

    def weight(self, name: str) -> str:
        """A weight of the network as float32."""
        widened = name + WIDENED
        if name not in self._weights:
            raise VoiceError(f"The network has no weight {name!r}, which a voice needs. Use a complete checkpoint.")
        if name not in self._initializers:
            stored = stored_weight(name, self._weights[name])
            self._initializers[name] = numpy_helper.from_array(stored, name)
            if stored.dtype == np.float16:
                # In the outermost graph, also for the body of a loop: ONNX Runtime folds it there.
                self._scopes[0].append(helper.make_node("Cast", [name], [widened], name=widened, to=TensorProto.FLOAT))
        is_narrow = self._initializers[name].data_type == TensorProto.FLOAT16
        return widened if is_narrow else name

    def constant(
        self, values: float | np.floating | Sequence[float] | np.ndarray, number_type: type = np.float32
    ) -> str:
        """A constant of the graph itself; equal ones are stored once."""
        array = np.asarray(values, number_type)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = f"constant_{len(self._constants)}"
            self._initializers[self._constants[key]] = numpy_helper.from_array(array, self._constants[key])
        return self._constants[key]

    def integers(self, *values: int) -> str:
        """A constant int64 vector: shapes, axes, slice limits."""
        return self.constant(values, np.int64)

    def node(self, operator: str, *inputs: str, name: str | None = None, **attributes) -> str:
        """One node with one output, called `name` if given."""
        return self.nodes(operator, *inputs, names=(name,), **attributes)[0]

    def nodes(self, operator: str, *inputs: str, names: Sequence[str | None], **attributes) -> list[str]:
        """One node with as many outputs as there are `names`."""
        outputs = [self._fresh(operator) if name is None else name for name in names]
        self._scopes[-1].append(helper.make_node(operator, inputs, outputs, name=outputs[0], **attributes))
        return outputs

    def _fresh(self, operator: str) -> str:
        self._num_tensors += 1
        return f"{operator.lower()}_{self._num_tensors}"

    # --- layers ---------------------------------------------------------------------------------------------------

    def dense(self, values: str, layer: str, has_bias: bool = True) -> str:
        """Matrix product with `layer`/kernel, plus its bias."""
        product = self.node("MatMul", values, self.weight(f"{layer}/kernel"))
        return self.node("Add", product, self.weight(f"{layer}/bias")) if has_bias else product

    def unscaled_norm(self, values: str) -> str:
        """RMS normalization over the channels (Zhang & Sennrich, 2019), without its scale."""
        square = self.node("Pow", values, self.constant(2.0))
        mean = self.node("ReduceMean", square, axes=[-1], keepdims=1)
        deviation = self.node("Sqrt", self.node("Add", mean, self.constant(NORM_EPSILON)))
        return self.node("Div", values, deviation)

    def norm(self, values: str, layer: str) -> str:
        """`models.layers.FrameNorm`."""
        return self.node("Mul", self.unscaled_norm(values), self.weight(f"{layer}/scale"))

    def silu(self, values: str) -> str:
        """values · sigmoid(values)."""
        return self.node("Mul", values, self.node("Sigmoid", values))

    def convolution(self, values: str, layer: str, dilation: int = 1, rank: int = 2) -> str:
        """`models.layers.MaskedConv1D`: SiLU of a convolution."""
        return self.silu(self.linear_convolution(values, layer, dilation, rank))

    def linear_convolution(self, values: str, layer: str, dilation: int = 1, rank: int = 2) -> str:
        """Convolution over positions, zeros beyond both ends.

        One matrix product over shifted copies: the channels stay last, as the norms and projections around it want them.
        """
        whole_kernel = self.weight(f"{layer}/kernel")
        taps, channels, filters = self._weights[f"{layer}/kernel"].shape
        reach = dilation * (taps // 2)
        before = [0] * (rank - 2) + [reach, 0]
        padded = self.node("Pad", values, self.integers(*before, *before))
        shifted = []
        for tap in range(taps):
            start, end = tap * dilation, tap * dilation - 2 * reach
            limits = (self.integers(start), self.integers(end if end else np.iinfo(np.int64).max))
            shifted.append(self.node("Slice", padded, *limits, self.integers(rank - 2)))
        stacked = self.node("Concat", *shifted, axis=-1)
        kernel = self.node("Reshape", whole_kernel, self.integers(taps * channels, filters))
        product = self.node("MatMul", stacked, kernel)
        return self.node("Add", product, self.weight(f"{layer}/bias"))

    def row(self, table: str, index: str) -> str:
        """Row `index` (int64 scalar) of a weight (rows, channels), as (1, channels)."""
        return self.node("Unsqueeze", self.node("Gather", self.weight(table), index), self.integers(0))

    # --- structure ------------------------------------------------------------------------------------------------

    def size(self, values: str, axis: int = 0) -> str:
        """The length of an axis, int64 scalar."""
        return self.node("Gather", self.node("Shape", values), self.constant(axis, np.int64))

    def loop(self, count: str, initial: str, shape: Sequence[str | int], body: Callable[[str, str], str]) -> str:
        """`initial` (float32, of this shape) after `count` (int64 scalar) applications of `body(iteration, value)`."""
        iteration, condition, value = (self._fresh(name) for name in ("iteration", "condition", "value"))
        self._scopes.append([])
        result = body(iteration, value)
        continues = self.node("Identity", condition)
        nodes = self._scopes.pop()
        graph = helper.make_graph(
            nodes,
            "body",
            [
                helper.make_tensor_value_info(iteration, TensorProto.INT64, ()),
                helper.make_tensor_value_info(condition, TensorProto.BOOL, ()),
                helper.make_tensor_value_info(value, TensorProto.FLOAT, shape),
            ],
            [
                helper.make_tensor_value_info(continues, TensorProto.BOOL, ()),
                helper.make_tensor_value_info(result, TensorProto.FLOAT, shape),
            ],
        )
        return self.node("Loop", count, self.constant(True, np.bool_), initial, body=graph)

    def describe(self, name: str, number_type: int, shape: Sequence[str | int]) -> None:
        """State the type and shape of a tensor inside the graph, so that the graph can be cut there."""
        self._described.append(helper.make_tensor_value_info(name, number_type, shape))

    def keep(self, name: str, array: np.ndarray) -> None:
        """An initializer that no node uses: it is kept with the voice."""
        self._initializers[name] = numpy_helper.from_array(stored_weight(name, array), name)

    def embed(self, model: onnx.ModelProto, given: Mapping[str, str], prefix: str) -> dict[str, str]:
        """Add the nodes and weights of a checked model, whose inputs are `given` tensors; returns its outputs by name."""

        def renamed(name: str) -> str:
            return given.get(name) or (prefix + name if name else name)

        for tensor in model.graph.initializer:
            own = TensorProto()
            own.CopyFrom(tensor)
            own.name = prefix + tensor.name
            self._initializers[own.name] = own
        self._scopes[-1] += [_renamed_node(node, renamed) for node in model.graph.node]
        return {output.name: prefix + output.name for output in model.graph.output}

    def model(
        self,
        name: str,
        inputs: Mapping[str, tuple[int, Sequence[str | int]]],
        outputs: Mapping[str, tuple[int, Sequence[str | int]]],
        metadata: Mapping[str, str],
    ) -> onnx.ModelProto:
        """The finished model; inputs and outputs are names with number types (`TensorProto`) and shapes."""
        graph = helper.make_graph(
            self._scopes[0],
            name,
            [helper.make_tensor_value_info(each, *described) for each, described in inputs.items()],
            [helper.make_tensor_value_info(each, *described) for each, described in outputs.items()],
            list(self._initializers.values()),
            value_info=self._described,
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets, producer_name="myxtts")
        helper.set_model_props(model, dict(metadata))
        return model


def _renamed_node(node: onnx.NodeProto, renamed: Callable[[str], str]) -> onnx.NodeProto:
    """A copy of a node, and of the graphs inside it, with other names of all tensors."""
    own = onnx.NodeProto()
    own.CopyFrom(node)
    own.name = renamed(node.name)
    own.input[:] = map(renamed, node.input)
    own.output[:] = map(renamed, node.output)
    for attribute in own.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            inner = [_renamed_node(each, renamed) for each in attribute.g.node]
            del attribute.g.node[:]
            attribute.g.node.extend(inner)
            for info in (*attribute.g.input, *attribute.g.output):
                info.name = renamed(info.name)
    return own


def stored_weight(name: str, array: np.ndarray) -> np.ndarray:
    """A weight as it is written: matrices as float16 (half the size; a change of 0.05 % at most), vectors as float32."""
    array = np.asarray(array, np.float32)
    if not np.isfinite(array).all():
        raise VoiceError(f"The weight {name!r} has values that are not finite. Use an earlier checkpoint.")
    is_narrow = array.ndim >= 2 and float(np.abs(array).max(initial=0.0)) < LARGEST_FLOAT16
    return np.ascontiguousarray(array, np.float16 if is_narrow else np.float32)
