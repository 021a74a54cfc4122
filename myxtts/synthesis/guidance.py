"""Guidance: a decoder that follows its text more than it learned to, so that the mel is sharper.

A decoder averages over what its text leaves open, and the mel is blurred. As in P-Flow (NeurIPS 2023), the velocity of each step
is moved away from the velocity for the same text averaged over time, which knows the speaker but not what is said when: the
guidance without a classifier of diffusion models (arXiv 2207.12598), here without training for it. It costs a second evaluation
of the decoder in each step, so the graph of a voice that wants it is extended when it is loaded; the file stays as it is.
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from myxtts.errors import VoiceError

ENDING = ":averaged"
"""Of the names of tensors that belong to the text averaged over time."""
STRENGTH = "constant_guidance"
NOISY_BIAS, OUTPUT_BIAS = "decoder/noisy_projection/bias", "decoder/output_projection/bias"
"""Weights before the text is added to the point of the flow, and at the end of the decoder."""
DIFFERENT = "The decoder of the voice is not one that MyXTTS writes, so it cannot be guided. Export the voice again."


def with_guidance(model: ModelProto, strength: float) -> ModelProto:
    """A copy of a model whose decoder is guided: velocity + strength · (velocity - velocity for the averaged text).

    Args:
        model: voice.onnx, or a part of it with the decoder.
        strength: 0 changes nothing but the time.
    """
    guided = ModelProto()
    guided.CopyFrom(model)
    graph = guided.graph
    position = next((index for index, node in enumerate(graph.node) if _readers(_body_of(node), OUTPUT_BIAS)), None)
    if position is None:
        raise VoiceError(DIFFERENT)
    body = _body_of(graph.node[position])
    (result,) = _readers(body, OUTPUT_BIAS)
    (projected,) = _readers(body, NOISY_BIAS) or [result]
    (joint,) = _readers(body, projected.output[0]) or [result]  # the text is added to the projected point of the flow
    text = next((name for name in joint.input if name != projected.output[0]), "")
    if joint.op_type != "Add" or any(text in node.output for node in body.node):
        raise VoiceError(DIFFERENT)
    averaged = text + ENDING
    average = helper.make_node("ReduceMean", [text], [averaged], name=averaged, axes=[0], keepdims=1)
    graph.node.insert(position, average)
    graph.initializer.append(numpy_helper.from_array(np.array(strength, np.float32), STRENGTH))
    _guide(body, joint, [projected.output[0], averaged], result.output[0])
    return guided


def _guide(body: GraphProto, joint: NodeProto, averaged_inputs: list[str], velocity: str) -> None:
    """Repeat what depends on the text, up to the velocity, for the averaged text, and replace the velocity by the guided one."""
    repeated: dict[str, str] = {}
    nodes: list[NodeProto] = []
    for node in body.node:
        for index, name in enumerate(node.input):  # what follows the velocity reads the guided one
            if name == velocity:
                node.input[index] = f"{velocity}:guided"
        nodes.append(node)
        is_joint = node.output[0] == joint.output[0]
        if velocity not in repeated and (is_joint or repeated.keys() & set(node.input)):
            own = NodeProto()
            own.CopyFrom(node)
            own.name += ENDING
            own.input[:] = averaged_inputs if is_joint else [repeated.get(name, name) for name in node.input]
            own.output[:] = [name + ENDING for name in node.output]
            repeated |= dict(zip(node.output, own.output, strict=True))
            nodes.append(own)
        if node.output[0] == velocity:
            nodes += _moved_away(velocity, repeated[velocity])
    nodes = [_copy(node) for node in nodes]
    del body.node[:]
    body.node.extend(nodes)


def _moved_away(velocity: str, averaged: str) -> list[NodeProto]:
    steps = (
        ("Sub", [velocity, averaged], f"{velocity}:difference"),
        ("Mul", [f"{velocity}:difference", STRENGTH], f"{velocity}:push"),
        ("Add", [velocity, f"{velocity}:push"], f"{velocity}:guided"),
    )
    return [helper.make_node(operator, inputs, [output], name=output) for operator, inputs, output in steps]


def _body_of(node: NodeProto) -> GraphProto:
    """The graph inside a loop; an empty one for any other node."""
    return node.attribute[0].g if node.op_type == "Loop" else GraphProto()


def _readers(body: GraphProto, tensor: str) -> list[NodeProto]:
    return [node for node in body.node if tensor in node.input]


def _copy(node: NodeProto) -> NodeProto:
    own = NodeProto()
    own.CopyFrom(node)
    return own
