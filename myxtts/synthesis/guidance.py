"""Guidance: a decoder that follows its text and its speaker more than it learned to, so that the mel is sharper.

A decoder averages over what its text leaves open, and the mel is blurred. As in P-Flow (NeurIPS 2023), the velocity of each step
is moved away from the velocity for the same text averaged over time, here spoken by the mean of the named speakers: it does not
know what is said when, nor by whom. This is the guidance without a classifier of diffusion models (arXiv 2207.12598) without
training for it. It costs a second evaluation of the decoder in each step, so the graph of a voice that wants it is extended when
it is loaded; the file stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from myxtts.errors import VoiceError

ENDING = ":mean"
"""Of the names of tensors that belong to the averaged text and the mean speaker."""
STRENGTH, MEAN_SPEAKER = "constant_guidance", "constant_mean_speaker"
NOISY_BIAS, OUTPUT_BIAS = "decoder/noisy_projection/bias", "decoder/output_projection/bias"
"""Weights before the text is added to the point of the flow, and at the end of the decoder."""
FLOW_CONDITION = "flow_condition/kernel"
"""Weight that projects language plus speaker for the decoder."""


def with_guidance(model: ModelProto, strength: float, speakers: np.ndarray | None = None) -> ModelProto:
    """A copy of a model whose decoder is guided: velocity + strength · (velocity - velocity for the means).

    Args:
        model: voice.onnx, or a part of it with the decoder.
        strength: 0 changes nothing but the time.
        speakers: vectors (speakers, speaker_channels) of the named speakers; None or none of them: the text alone is averaged.
    """
    guided = ModelProto()
    guided.CopyFrom(model)
    try:
        _extend(guided.graph, strength, speakers)
    except IndexError:  # a node without the inputs, outputs or attributes of its operator
        raise _different() from None
    return guided


def _extend(graph: GraphProto, strength: float, speakers: np.ndarray | None) -> None:
    loop = _first(node for node in graph.node if any(_readers(_body_of(node), OUTPUT_BIAS)))
    body = _body_of(loop)
    velocity = _first(_readers(body, OUTPUT_BIAS)).output[0]
    point = _first(_readers(body, NOISY_BIAS)).output[0]
    text = _outer_input(body, _first(_readers(body, point)))
    means = {text: text + ENDING}
    nodes = [helper.make_node("ReduceMean", [text], [means[text]], name=means[text], axes=[0], keepdims=1)]
    graph.initializer.append(numpy_helper.from_array(np.array(strength, np.float32), STRENGTH))
    if speakers is not None and len(speakers):
        mean_speaker = speakers.mean(axis=0, keepdims=True, dtype=np.float32)
        graph.initializer.append(numpy_helper.from_array(mean_speaker, MEAN_SPEAKER))
        condition, added = _condition_of_mean_speaker(graph, body)
        means[condition] = added[-1].output[0]
        nodes += added
    _guide(body, means, velocity)
    position = next(index for index, node in enumerate(graph.node) if node.name == loop.name)
    for node in reversed(nodes):
        graph.node.insert(position, node)


def _condition_of_mean_speaker(graph: GraphProto, body: GraphProto) -> tuple[str, list[NodeProto]]:
    """The condition of language and speaker in the loop, and nodes that replace its speaker: it is linear in both."""
    projection = _first(
        node for node in graph.node if node.op_type == "MatMul" and node.input[1].startswith(FLOW_CONDITION)
    )
    joint = _first(node for node in graph.node if projection.input[0] in node.output)
    if joint.op_type != "Add":
        raise _different()
    candidates = [projection.output[0], *(node.output[0] for node in _readers(graph, projection.output[0]))]
    read = {name for node in body.node for name in node.input}
    condition = next((name for name in candidates if name in read), "")
    if not condition:
        raise _different()
    result = condition + ENDING
    steps = (
        ("Sub", [joint.input[1], MEAN_SPEAKER], f"{result}:difference"),
        ("MatMul", [f"{result}:difference", projection.input[1]], f"{result}:change"),
        ("Sub", [condition, f"{result}:change"], result),
    )
    return condition, [helper.make_node(operator, inputs, [output], name=output) for operator, inputs, output in steps]


def _guide(body: GraphProto, means: Mapping[str, str], velocity: str) -> None:
    """Repeat what depends on the averaged tensors with their means, up to the velocity, and guide the velocity."""
    repeated = dict(means)
    nodes: list[NodeProto] = []
    for node in body.node:
        if velocity in repeated:  # what follows the velocity reads the guided one
            nodes.append(_renamed(node, {velocity: f"{velocity}:guided"}))
            continue
        nodes.append(_renamed(node, {}))
        if repeated.keys() & set(node.input):
            own = _renamed(node, repeated)
            own.name += ENDING
            own.output[:] = [name + ENDING for name in node.output]
            repeated |= dict(zip(node.output, own.output, strict=True))
            nodes.append(own)
        if node.output[0] == velocity:
            nodes += _moved_away(velocity, repeated[velocity])
    del body.node[:]
    body.node.extend(nodes)


def _moved_away(velocity: str, averaged: str) -> list[NodeProto]:
    steps = (
        ("Sub", [velocity, averaged], f"{velocity}:difference"),
        ("Mul", [f"{velocity}:difference", STRENGTH], f"{velocity}:push"),
        ("Add", [velocity, f"{velocity}:push"], f"{velocity}:guided"),
    )
    return [helper.make_node(operator, inputs, [output], name=output) for operator, inputs, output in steps]


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """A copy of a node that reads other tensors."""
    own = NodeProto()
    own.CopyFrom(node)
    own.input[:] = [names.get(name, name) for name in node.input]
    return own


def _outer_input(body: GraphProto, node: NodeProto) -> str:
    """The one input of an addition that the loop does not make itself."""
    made = {name for each in body.node for name in each.output}
    outer = [name for name in node.input if name not in made]
    if node.op_type != "Add" or len(outer) != 1:
        raise _different()
    return outer[0]


def _body_of(node: NodeProto) -> GraphProto:
    """The graph inside a loop; an empty one for any other node."""
    return node.attribute[0].g if node.op_type == "Loop" else GraphProto()


def _readers(graph: GraphProto, tensor: str) -> Iterable[NodeProto]:
    return (node for node in graph.node if tensor in node.input)


def _first(nodes: Iterable[NodeProto]) -> NodeProto:
    """The first of the nodes; an error if there is none."""
    found = next(iter(nodes), None)
    if found is None:
        raise _different()
    return found


def _different() -> VoiceError:
    return VoiceError(
        "The decoder of the voice is not one that MyXTTS writes, so it cannot be guided. Export the voice again."
    )
