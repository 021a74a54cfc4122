"""Failures of a run that a user can mend, told as one message: memory that does not suffice, a worker that is gone.

In: what TensorFlow raised. Out: a `TrainingError` with the numbers and what to do; anything else goes on as it was.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import keras
import tensorflow as tf

from myxtts.batch import BatchShape
from myxtts.batches.plan import Plan
from myxtts.errors import TrainingError
from myxtts.training.distributed import LOST_WORKER_ERRORS, Cluster, lost_worker

# MERGED: `enable_eager_debug`: eager steps that stop at the first number that is not finite, and name where it came from.
#
# TensorFlow's own check of every operation cannot be used: the alignment works with minus infinity on purpose.


def check_layers(model: keras.layers.Layer) -> None:
    """From now on every layer of the network checks what it gives out."""
    for layer in layers_of(model):
        layer.call = _checked(layer)


def check_gradients(names: Sequence[str], gradients: Sequence[tf.Tensor], terms: tf.Tensor) -> None:
    """After a backward pass: losses first, then the gradient of each weight."""
    if not is_finite(terms):
        raise TrainingError(f"The losses are not finite: flow, prior, duration = {terms.numpy().tolist()}.")
    wrong = [name for name, gradient in zip(names, gradients, strict=True) if not is_finite(gradient)]
    if wrong:
        raise TrainingError(
            f"The gradient of {len(wrong)} weights is not finite, first of {wrong[0]}. Try a lower --lr, or mixed_precision: off."
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
                source = "its inputs are finite" if all(map(is_finite, fed)) else "its inputs are not finite either"
                raise TrainingError(f"The output of layer {layer.path} is not finite; {source}.")
        return output

    return checked_call


_TENSOR = re.compile(r"allocating tensor with shape\[([\d,]*)\] and type (\w+)")
_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8, "bool": 1}


@dataclass
class Place:
    """Where a run is: what a message about its failure mentions. The trainer keeps it up to date."""

    step: int = 0
    shape: BatchShape | None = None
    clips_a_step: float | None = None
    batches_a_step: int = 1
    parameters: int = 0

    def fill_in(self, step: int, plan: Plan, parameters: int, batches_a_step: int) -> None:
        """Once all of it is known."""
        self.step, self.shape, self.clips_a_step = step, plan.shapes[0], plan.mean_clips_per_batch()
        self.parameters, self.batches_a_step = parameters, batches_a_step


@contextlib.contextmanager
def explained_failures(place: Place, cluster: Cluster | None) -> Iterator[None]:
    """Within it, failures that have a known cause become `TrainingError`s."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise TrainingError(memory_advice(place, str(error))) from error
    except LOST_WORKER_ERRORS as error:
        explained = None if cluster is None else lost_worker(cluster, error, place.step)
        if explained is None:
            raise
        raise explained from error


def memory_advice(place: Place, message: str) -> str:
    """One line: how much was asked for, by which batches, and what asks for less."""
    asked = ""
    if found := _TENSOR.search(message):
        elements = 1
        for size in filter(None, found[1].split(",")):
            elements *= int(size)
        asked = f" for a tensor of {elements * _BYTES.get(found[2], 4) / 2**20:,.0f} MiB"
    if place.shape is None:
        return f"Out of memory{asked} while the network was built ({place.parameters:,} parameters). Try --model-size tiny."
    advice = "Try --max-mel-frames lower or --model-size tiny"
    if place.clips_a_step is not None and place.clips_a_step >= 2:
        half = max(1, round(place.clips_a_step / 2))
        advice = (
            f"Try --batch-size {half} --grad-accum {2 * place.batches_a_step} (as many clips a step), or "
            "--batch-size auto --auto-tune, which measures what fits"
        )
    return f"Out of memory{asked} at step {place.step}: batches of {place.shape}, {place.parameters:,} parameters. {advice}."
