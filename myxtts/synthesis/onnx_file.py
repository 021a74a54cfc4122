"""The .onnx files of a voice: read from untrusted sources and checked before ONNX Runtime sees them.

A file is one `ModelProto` with everything inside. Only operators that MyXTTS writes are accepted, no functions, no data in other
files, and every weight has exactly the bytes of its shape. So nothing in a file can run code or open another file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from myxtts.errors import VoiceError
from myxtts.runtime.console import printable
from myxtts.runtime.safe_files import check_regular_file, read_regular_file

GRAPH_FORMAT = "myxtts-graph-1"
"""Metadata entry `format` of every file; raised when names or meanings of inputs and outputs change."""
LARGEST_FILE = 1 << 30
MOST_NODES = 20_000
MOST_CONSTANT_VALUES = 4096
"""Values of one constant that is not a float: shapes, axes, slice limits."""
LARGEST_SIZE = 1 << 17
"""Largest integer constant (a size, an axis or a limit). A larger one would need gigabytes."""
TO_THE_END = np.iinfo(np.int64).max
"""The limit of slices that reach to the end."""
OPSETS = range(17, 24)
IR_VERSIONS = range(8, 14)
# fmt: off
OPERATORS = frozenset((
    "Abs", "Add", "ArgMax", "Atan", "Cast", "Clip", "Concat", "Cos", "CumSum", "Div", "Equal", "Exp", "Floor", "Gather",
    "GreaterOrEqual", "Identity", "IsNaN", "LessOrEqual", "Log", "Loop", "MatMul", "Max", "Min", "Mod", "Mul", "Neg",
    "Pad", "Pow", "Range", "Reciprocal", "ReduceMean", "ReduceSum", "Reshape", "Round", "Shape", "Sigmoid", "Sin",
    "Slice", "Softmax", "Split", "Sqrt", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
))
# fmt: on
"""What `myxtts.export` writes."""
_ATTRIBUTES = (
    AttributeProto.INT,
    AttributeProto.INTS,
    AttributeProto.FLOAT,
    AttributeProto.FLOATS,
    AttributeProto.STRING,
)
_FLOATS = (TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE)
_NUMBER_TYPES = (*_FLOATS, TensorProto.INT64, TensorProto.BOOL)


def read_model(path: Path, inputs: Collection[str], outputs: Collection[str], sha256: str | None = None) -> ModelProto:
    """Read and check a file; a missing, damaged or unexpected one is a `VoiceError`.

    Args:
        path: the file.
        inputs: names of the inputs that it must have, no more and no less.
        outputs: names of the outputs that it must have, no more and no less.
        sha256: hash of the content, if it is known.
    """
    try:
        check_regular_file(path)
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise VoiceError(f"{path} has {size:,} bytes; expected {LARGEST_FILE:,} at most.")
        content = read_regular_file(path, LARGEST_FILE)
    except OSError as error:
        raise VoiceError(
            f"{path} is missing or cannot be read ({error.strerror}). Copy the whole voice folder."
        ) from None
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise VoiceError(
            f"{path} is not the file that the voice was exported with: its hash differs. Copy the voice again, or use "
            "the version of MyXTTS that exported it."
        )
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise VoiceError(
            f"{path} is cut off, damaged or not an ONNX file. Copy the whole voice folder again, or export it again."
        ) from None
    problem = _problem_of(model, set(inputs), set(outputs))
    if problem is not None:
        raise VoiceError(
            f"{path} cannot be used: {printable(problem, keeps_lines=False):.300}. Export the voice again."
        )
    return model


def weights_of(model: ModelProto) -> dict[str, np.ndarray]:
    """The initializers of a checked model by name, float16 widened to float32; constants of the graph are left out."""
    return {
        tensor.name: numpy_helper.to_array(tensor).astype(np.float32)
        for tensor in model.graph.initializer
        if tensor.data_type in (TensorProto.FLOAT16, TensorProto.FLOAT) and not is_constant(tensor.name)
    }


def is_constant(name: str) -> bool:
    """Whether an initializer belongs to the graph and not to the network."""
    return name.startswith("constant_")


def cut_model(model: ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> ModelProto:
    """The part of a model between tensors, which become its inputs and outputs; their types are left to ONNX Runtime."""
    graph, needed, nodes = model.graph, set(outputs) - set(inputs), []
    for node in reversed(graph.node):
        if needed.intersection(node.output) and not set(inputs).intersection(node.output):
            nodes.append(node)
            needed.update(_consumed(node))
    infos = {info.name: info for info in (*graph.input, *graph.output, *graph.value_info)}
    if missing := (set(inputs) | set(outputs)) - set(infos):
        raise VoiceError(f"The graph of the voice has no tensor {min(missing)!r:.60}. Export the voice again.")
    part = helper.make_graph(
        nodes[::-1],
        graph.name,
        [infos[name] for name in inputs if name in needed],
        [infos[name] for name in outputs],
        [tensor for tensor in graph.initializer if tensor.name in needed],
    )
    return helper.make_model(part, ir_version=model.ir_version, opset_imports=model.opset_import)


def _consumed(node: NodeProto) -> set[str]:
    """Names of the tensors that a node reads, also from inside its graphs."""
    names = set(node.input)
    for attribute in node.attribute:
        for inner in attribute.g.node:
            names |= _consumed(inner)
    return names


def _problem_of(model: ModelProto, inputs: set[str], outputs: set[str]) -> str | None:
    """What is wrong with a model, or None."""
    graph = model.graph
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    if metadata.get("format") != GRAPH_FORMAT:
        return f"it has graph format {metadata.get('format')!r:.40}, and this version of MyXTTS reads {GRAPH_FORMAT!r}"
    if model.functions or model.training_info or graph.sparse_initializer:
        return "it has functions, training information or sparse weights, which MyXTTS does not write"
    opsets = [(each.domain, each.version) for each in model.opset_import]
    if len(opsets) != 1 or opsets[0][0] or opsets[0][1] not in OPSETS or model.ir_version not in IR_VERSIONS:
        return (
            f"it needs the operators {opsets!r:.80} (IR {model.ir_version}); expected opset {OPSETS[0]} to {OPSETS[-1]}"
        )
    found = ({info.name for info in graph.input}, {info.name for info in graph.output})
    if found != (inputs, outputs):
        expected = f"{sorted(inputs)} → {sorted(outputs)}"
        return f"its inputs and outputs are {sorted(found[0])} → {sorted(found[1])}; expected {expected}"
    for tensor in graph.initializer:
        if (problem := _problem_of_tensor(tensor)) is not None:
            return f"the weight {tensor.name!r:.80} {problem}"
    nodes = list(_all_nodes(graph))
    if len(nodes) > MOST_NODES:
        return f"it has {len(nodes):,} nodes; expected {MOST_NODES:,} at most"
    return next((problem for node in nodes if (problem := _problem_of_node(node)) is not None), None)


def _all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of its loops; a graph inside a loop's graph is left to `_problem_of_node`."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from attribute.g.node


def _problem_of_node(node: NodeProto) -> str | None:
    if node.domain or node.op_type not in OPERATORS:
        return f"it has the operator {node.op_type!r:.40} of {node.domain or 'ONNX'!r:.40}, which MyXTTS does not write"
    for attribute in node.attribute:
        is_body = attribute.type == AttributeProto.GRAPH and node.op_type == "Loop"
        if not is_body and attribute.type not in _ATTRIBUTES:
            return f"the attribute {attribute.name!r:.40} of {node.op_type} has an unexpected type"
        body = attribute.g
        is_nested = any(inner.op_type == "Loop" for inner in body.node)
        if body.initializer or body.sparse_initializer or is_nested:
            return "a loop has weights or loops inside"
    return None


def _problem_of_tensor(tensor: TensorProto) -> str | None:
    if tensor.data_location != TensorProto.DEFAULT or tensor.external_data:
        return "is stored in another file"
    if tensor.data_type not in _NUMBER_TYPES:
        return f"has the unexpected number type {tensor.data_type}"
    count = 1
    for size in tensor.dims:
        count *= size
    item_bytes = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
    if any(size < 0 for size in tensor.dims) or len(tensor.dims) > 4 or len(tensor.raw_data) != count * item_bytes:
        return f"has {len(tensor.raw_data):,} bytes, which do not fit its shape {list(tensor.dims)!r:.80}"
    if tensor.data_type not in _FLOATS and count > MOST_CONSTANT_VALUES:
        return "is too large for a constant"
    if tensor.data_type == TensorProto.INT64:
        values = numpy_helper.to_array(tensor)
        is_size = (values >= -LARGEST_SIZE) & (values <= LARGEST_SIZE) | (values == TO_THE_END)
        return None if is_size.all() else f"has sizes beyond {LARGEST_SIZE:,}"
    return None if np.isfinite(numpy_helper.to_array(tensor)).all() else "has values that are not finite"
