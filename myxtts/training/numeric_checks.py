"""`enable_eager_debug`: eager steps that raise at the first number that is not finite, and name its source.

TensorFlow's own check of every operation cannot be used: the alignment works with minus infinity on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from myxtts.errors import TrainingError


def check_layers(model: keras.layers.Layer) -> None:
    """From now on every layer of the network checks its output."""
    for layer in layers_of(model):
        layer.call = _checked(layer)


def check_gradients(names: Sequence[str], gradients: Sequence[Any], terms: tf.Tensor) -> None:
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
