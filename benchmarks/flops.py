"""Multiply-adds of a traced function: matrix products and convolutions counted from the static shapes of its graph."""

from __future__ import annotations

import math

import tensorflow as tf

BACKWARD_PER_FORWARD = 2


def forward_flops(function: tf.types.experimental.ConcreteFunction) -> int:
    """Two for each multiply-add. (The alignment search is a called function; it multiplies nothing.)"""
    return sum(_flops(operation) for operation in function.graph.get_operations())


def training_flops(function: tf.types.experimental.ConcreteFunction) -> int:
    """Forward and backward together, the backward pass counted as twice the forward one."""
    return (1 + BACKWARD_PER_FORWARD) * forward_flops(function)


def _flops(operation: tf.Operation) -> int:
    if operation.type in ("MatMul", "BatchMatMulV2", "BatchMatMulV3"):
        left = operation.inputs[0].shape.as_list()
        transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
        inner = left[-2] if transposed else left[-1]
        return 2 * inner * math.prod(operation.outputs[0].shape.as_list())
    if operation.type == "Conv2D":
        height, width, channels, _ = operation.inputs[1].shape.as_list()
        return 2 * height * width * channels * math.prod(operation.outputs[0].shape.as_list())
    return 0
