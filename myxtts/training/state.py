"""The train state: the network's weights and everything that an update reads and writes.

Gradients, moments and the weight average are single flat vectors in the order of the weights. An update is then a handful of
operations on one buffer instead of 72 on each of a hundred variables; clipping is one norm, checking for NaN one reduction, and
replicas exchange one large message.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from myxtts.models.xtts import XTTS


class FlatLayout:
    """Where each weight lies in a flat vector."""

    def __init__(self, variables: Sequence[tf.Variable]):
        self.shapes = [tuple(variable.shape) for variable in variables]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.size = sum(self.sizes)

    def join(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """One flat float32 vector. Sparse gradients become dense: repeated rows are summed before any optimizer sees them."""
        return tf.concat(
            [tf.reshape(tf.cast(tf.convert_to_tensor(value), tf.float32), [-1]) for value in values], axis=0
        )

    def parts(self, flat: tf.Tensor) -> list[tf.Tensor]:
        """The inverse of `join`."""
        return [tf.reshape(part, shape) for part, shape in zip(tf.split(flat, self.sizes), self.shapes, strict=True)]


class TrainState:
    """Variables of a training run. Created under the strategy's scope; read and written as plain arrays by checkpoints."""

    def __init__(self, model: XTTS, keeps_average: bool, uses_loss_scale: bool = False):
        self.model = model
        self.weights = [variable.value for variable in model.trainable_variables]
        self.names = [variable.path.removeprefix(f"{model.name}/") for variable in model.trainable_variables]
        self.layout = FlatLayout(self.weights)
        self.keeps_average = keeps_average
        self.uses_loss_scale = uses_loss_scale
        self.first_moment = self._vector("first_moment", self.layout.size)
        self.second_moment = self._vector("second_moment", self.layout.size)
        self.average = self._vector("average", self.layout.size if keeps_average else 0)
        self.step = tf.Variable(0, trainable=False, dtype=tf.int64, name="step")
        """Steps taken, skipped ones among them: the random numbers and the schedule follow it."""
        self.updates = tf.Variable(0, trainable=False, dtype=tf.int64, name="updates")
        """Updates applied: Adam's bias correction follows it."""
        self.rate_factor = tf.Variable(1.0, trainable=False, dtype=tf.float32, name="rate_factor")
        """Lowered on a plateau."""
        self.loss_scale = tf.Variable(
            2.0**15 if uses_loss_scale else 1.0, trainable=False, dtype=tf.float32, name="loss_scale"
        )
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int64, name="good_steps")
        """Finite steps since the loss scale last changed."""
        if keeps_average:
            self.average.assign(self.layout.join(self.weights))

    @staticmethod
    def _vector(name: str, size: int) -> tf.Variable:
        return tf.Variable(tf.zeros(size), trainable=False, name=name)

    def fixed_weights(self) -> dict[str, tf.Variable]:
        """Weights of the network that are not trained (the statistics of its mels), by name."""
        trained = set(self.names)
        return {name: variable.value for name, variable in self.model.weights_by_name().items() if name not in trained}

    def scalars(self) -> dict[str, tf.Variable]:
        """The single numbers of the state by name."""
        return {
            "step": self.step,
            "updates": self.updates,
            "rate_factor": self.rate_factor,
            "loss_scale": self.loss_scale,
            "good_steps": self.good_steps,
        }

    def vectors(self) -> dict[str, np.ndarray]:
        """The flat vectors of the state as arrays, for a checkpoint."""
        vectors = {"first_moment": self.first_moment.numpy(), "second_moment": self.second_moment.numpy()}
        if self.keeps_average:
            vectors["average"] = self.average.numpy()
        return vectors

    def restore_vectors(self, vectors: dict[str, np.ndarray]) -> bool:
        """The inverse of `vectors`. False if an average is wanted that they lack: it is then that of the current weights."""
        self.first_moment.assign(vectors["first_moment"])
        self.second_moment.assign(vectors["second_moment"])
        if not self.keeps_average:
            return True
        has_average = "average" in vectors
        self.average.assign(vectors["average"] if has_average else self.layout.join(self.weights))
        return has_average

    def flat_weights(self) -> np.ndarray:
        """The current weights as one vector."""
        return self.layout.join(self.weights).numpy()

    def assign_weights(self, flat: np.ndarray) -> None:
        """Set every weight from one vector."""
        offset = 0
        for variable, size, shape in zip(self.weights, self.layout.sizes, self.layout.shapes, strict=True):
            variable.assign(flat[offset : offset + size].reshape(shape))
            offset += size

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Within it the network has the averaged weights, those that a voice gets."""
        if not self.keeps_average:
            yield
            return
        current = self.flat_weights()
        self.assign_weights(self.average.numpy())
        try:
            yield
        finally:
            self.assign_weights(current)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """At its end every variable has the value that it had before: for steps that only measure."""
        weights, vectors = self.flat_weights(), self.vectors()
        scalars = {name: variable.numpy() for name, variable in self.scalars().items()}
        try:
            yield
        finally:
            self.assign_weights(weights)
            self.restore_vectors(vectors)
            for name, variable in self.scalars().items():
                variable.assign(scalars[name])
