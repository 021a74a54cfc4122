"""Failures of a run, explained: too little memory, a lost worker, or a number that is not finite (`enable_eager_debug`).

TensorFlow's own check of every operation cannot be used for the last: the alignment works with minus infinity on purpose.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from myxtts.batch import BatchShape
from myxtts.errors import TrainingError
from myxtts.training.distributed import LOST_WORKER_ERRORS, Cluster, lost_worker

_TENSOR = re.compile(r"allocating tensor with shape\[([\d,]*)\] and type (\w+)")
_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8, "bool": 1}


@dataclass(frozen=True)
class FailureContext:
    """What a message about a failure mentions."""

    step: int = 0
    shape: BatchShape | None = None
    """None while the network is being built."""
    clips_per_batch: float | None = None
    batches_per_step: int = 1
    parameters: int = 0


@contextlib.contextmanager
def explained_failures(context: Callable[[], FailureContext], cluster: Cluster | None) -> Iterator[None]:
    """Within it, failures with a known cause become `TrainingError`s. `context` is called only after a failure."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise TrainingError(memory_advice(context(), str(error))) from error
    except LOST_WORKER_ERRORS as error:
        explained = None if cluster is None else lost_worker(cluster, error, context().step)
        if explained is None:
            raise
        raise explained from error


def memory_advice(context: FailureContext, message: str) -> str:
    """One line: how much memory was requested, for which batches, and how to need less."""
    requested = ""
    if found := _TENSOR.search(message):
        elements = 1
        for size in filter(None, found[1].split(",")):
            elements *= int(size)
        requested = f" for a tensor of {elements * _BYTES.get(found[2], 4) / 2**20:,.0f} MiB"
    if context.shape is None:
        return f"Out of memory{requested} while the network was built. Try --model-size tiny."
    advice = "Try --max-mel-frames lower or --model-size tiny"
    if context.clips_per_batch is not None and context.clips_per_batch >= 2:
        half = max(1, round(context.clips_per_batch / 2))
        advice = (
            f"Try --batch-size {half} --grad-accum {2 * context.batches_per_step} (the same number of clips per step), or "
            "--batch-size auto --auto-tune, which measures what fits"
        )
    return (
        f"Out of memory{requested} at step {context.step}: batches of {context.shape}, {context.parameters:,} parameters. "
        f"{advice}."
    )


def check_layers(model: keras.layers.Layer) -> None:
    """Make every layer of the network check its output."""
    for layer in layers_of(model):
        layer.call = _checked(layer)


def check_gradients(names: Sequence[str], gradients: Sequence[Any], terms: Mapping[str, Any]) -> None:
    """After a backward pass: the terms of the loss first, then the gradient of each weight."""
    if not all(map(is_finite, terms.values())):
        listed = ", ".join(f"{name} {float(value):g}" for name, value in terms.items())
        raise TrainingError(f"The losses are not finite: {listed}. Try a lower --lr.")
    wrong = [name for name, gradient in zip(names, gradients, strict=True) if not is_finite(gradient)]
    if wrong:
        raise TrainingError(
            f"The gradient of {len(wrong)} weights is not finite, such as {wrong[0]}. Try a lower --lr, or mixed_precision: off."
        )


def is_finite(values) -> bool:
    """Whether a tensor (or a sparse gradient) holds no NaN and no infinity."""
    tensor = tf.convert_to_tensor(values)
    return not tensor.dtype.is_floating or bool(tf.reduce_all(tf.math.is_finite(tensor)))


def layers_of(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """All layers within a layer, however deep; without itself."""
    for inner in layer._layers:  # Keras has no public list of the layers of a layer
        yield inner
        yield from layers_of(inner)


def _checked(layer: keras.layers.Layer):
    call = layer.call

    def checked_call(*arguments, **named):
        output = call(*arguments, **named)
        for part in tf.nest.flatten(output):
            if isinstance(part, tf.Tensor) and not is_finite(part):
                fed = [value for value in tf.nest.flatten((arguments, named)) if isinstance(value, tf.Tensor)]
                source = (
                    "its inputs are finite, so look there first"
                    if all(map(is_finite, fed))
                    else "its inputs are not finite either"
                )
                raise TrainingError(f"The output of layer {layer.path} is not finite; {source}.")
        return output

    return checked_call
