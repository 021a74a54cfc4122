"""The train state: the network's weights and everything that an update reads and writes; to a checkpoint and back.

Gradients, moments and the EMA of the weights are single flat vectors in the order of the weights. An update is then a handful of
operations on one buffer instead of 72 on each of a hundred variables; clipping is one norm, checking for NaN one reduction, and
replicas exchange one large message. Counters and best results of a run are in `RunHistory`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from myxtts.batches.order import Position
from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict
from myxtts.errors import CheckpointError
from myxtts.runtime.progress import ignore_line
from myxtts.training.checkpoint import Checkpoint


@dataclass
class RunHistory:
    """Counters and best results, updated by every validation and evaluation."""

    best_loss: float | None = None
    best_step: int = 0
    validations_without_improvement: int = 0
    validations_on_plateau: int = 0
    best_evaluation: float | None = None
    skipped_steps: int = 0
    duration_scale: float = 1.0
    """Frames of the held-out recordings over those predicted for them; durations are learned as logarithms, which biases them."""

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> RunHistory:
        """From a checkpoint; counters that only an earlier version had are ignored."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    def note_validation(self, loss: float, step: int) -> bool:
        """Record a validation loss; true if it is the best so far. A loss that is not finite never is."""
        if _is_better(loss, self.best_loss):
            self.best_loss, self.best_step = loss, step
            self.validations_without_improvement = self.validations_on_plateau = 0
            return True
        self.validations_without_improvement += 1
        self.validations_on_plateau += 1
        return False

    def note_evaluation(self, error: float) -> bool:
        """Record an evaluation (lower is better); true if it is the best so far."""
        if _is_better(error, self.best_evaluation):
            self.best_evaluation = error
            return True
        return False

    def is_out_of_patience(self, patience: int | None) -> bool:
        """Whether the run should end early."""
        return patience is not None and self.validations_without_improvement >= patience

    def takes_plateau(self, patience: int | None) -> bool:
        """Whether the learning rate must be lowered now; if so, counting starts again."""
        if patience is None or self.validations_on_plateau < patience:
            return False
        self.validations_on_plateau = 0
        return True


def _is_better(value: float, best: float | None) -> bool:
    """Lower is better. A best that is not finite may come from a checkpoint of 0.1.0."""
    return math.isfinite(value) and (best is None or not math.isfinite(best) or value < best)


FIRST_LOSS_SCALE = 2.0**15
"""The default of Keras's `LossScaleOptimizer`."""


class FlatLayout:
    """Shapes and sizes of the weights, in their order in a flat vector."""

    def __init__(self, variables: Sequence[tf.Variable]):
        self.shapes = [tuple(size for size in variable.shape if size is not None) for variable in variables]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.size = sum(self.sizes)

    def join(self, values: Sequence[Any]) -> tf.Tensor:
        """One flat float32 vector. Sparse gradients become dense: repeated rows are summed before any optimizer sees them."""
        return tf.concat(
            [tf.reshape(tf.cast(tf.convert_to_tensor(value), tf.float32), [-1]) for value in values], axis=0
        )

    def parts(self, flat: tf.Tensor) -> list[tf.Tensor]:
        """The inverse of `join`."""
        return [tf.reshape(part, shape) for part, shape in zip(tf.split(flat, self.sizes), self.shapes, strict=True)]


class TrainState:
    """Variables of a training run. Created under the strategy's scope; read and written as plain arrays by checkpoints."""

    def __init__(self, model: keras.Model | keras.layers.Layer, keeps_ema: bool, uses_loss_scale: bool = False):
        """
        Args:
            model: a built network.
            keeps_ema: keep an exponential moving average of the weights, which is what a voice gets.
            uses_loss_scale: scale the loss, for float16.
        """
        self.model = model
        self.weights = [variable.value for variable in model.trainable_variables]
        self.names = [variable.path.removeprefix(f"{model.name}/") for variable in model.trainable_variables]
        self.layout = FlatLayout(self.weights)
        self.keeps_ema = keeps_ema
        self.uses_loss_scale = uses_loss_scale
        self.first_moment = self._vector("first_moment", self.layout.size)
        self.second_moment = self._vector("second_moment", self.layout.size)
        self.ema = self._vector("ema", self.layout.size if keeps_ema else 0)
        self.step = self._scalar("step", 0, tf.int64)
        """Steps taken, including skipped ones: the random numbers and the schedule follow it."""
        self.updates = self._scalar("updates", 0, tf.int64)
        """Updates applied: Adam's bias correction follows it."""
        self.rate_factor = self._scalar("rate_factor", 1.0, tf.float32)
        """Lowered on a plateau."""
        self.loss_scale = self._scalar("loss_scale", FIRST_LOSS_SCALE if uses_loss_scale else 1.0, tf.float32)
        self.good_steps = self._scalar("good_steps", 0, tf.int64)
        """Finite steps since the loss scale last changed."""
        if keeps_ema:
            self.ema.assign(self.layout.join(self.weights))

    @staticmethod
    def _scalar(name: str, value: float, dtype: tf.DType) -> tf.Variable:
        return tf.Variable(tf.constant(value, dtype), trainable=False, name=name)

    @staticmethod
    def _vector(name: str, size: int) -> tf.Variable:
        return tf.Variable(tf.zeros(size), trainable=False, name=name)

    def fixed_weights(self) -> dict[str, tf.Variable]:
        """Weights of the network that are not trained (the statistics of its mels), by name."""
        prefix = f"{self.model.name}/"
        return {variable.path.removeprefix(prefix): variable.value for variable in self.model.non_trainable_variables}

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
        """The flat vectors of the state as arrays, by their names in a checkpoint (where "average" is the EMA)."""
        vectors = {"first_moment": self.first_moment.numpy(), "second_moment": self.second_moment.numpy()}
        if self.keeps_ema:
            vectors["average"] = self.ema.numpy()
        return vectors

    def restore_vectors(self, vectors: dict[str, np.ndarray]) -> bool:
        """The inverse of `vectors`. False if they lack the EMA that this state keeps: it then starts from the current weights."""
        self.first_moment.assign(vectors["first_moment"])
        self.second_moment.assign(vectors["second_moment"])
        if not self.keeps_ema:
            return True
        has_ema = "average" in vectors
        self.ema.assign(vectors["average"] if has_ema else self.layout.join(self.weights))
        return has_ema

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
    def with_ema_weights(self) -> Iterator[None]:
        """Within it the network has the EMA of its weights, those that a voice gets."""
        if not self.keeps_ema:
            yield
            return
        current = self.flat_weights()
        self.assign_weights(self.ema.numpy())
        try:
            yield
        finally:
            self.assign_weights(current)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restore every variable at the end of the block: for steps that only measure."""
        weights, vectors = self.flat_weights(), self.vectors()
        scalars = {name: variable.numpy() for name, variable in self.scalars().items()}
        try:
            yield
        finally:
            self.assign_weights(weights)
            self.restore_vectors(vectors)
            for name, variable in self.scalars().items():
                variable.assign(scalars[name])


def to_checkpoint(
    state: TrainState,
    config: XTTSConfig,
    facts: Mapping[str, Any],
    history: RunHistory,
    position: Position,
    plan_fingerprint: str,
    hardware: Mapping[str, str],
) -> Checkpoint:
    """Everything that a run needs to resume from here; `facts` are those of `corpus_facts`."""
    fixed = {f"fixed/{name}": value.numpy() for name, value in state.fixed_weights().items()}
    return Checkpoint(
        step=int(state.step.numpy()),
        position=position,
        arrays={"weights": state.flat_weights(), **state.vectors(), **fixed},
        weight_names=state.names,
        weight_shapes=[list(shape) for shape in state.layout.shapes],
        scalars={name: variable.numpy().item() for name, variable in state.scalars().items()},
        config=config_to_dict(config),
        corpus=dict(facts),
        progress=history.to_dict(),
        plan_fingerprint=plan_fingerprint,
        hardware=dict(hardware),
    )


def restore_checkpoint(state: TrainState, saved: Checkpoint, announce: Callable[[str], None] = ignore_line) -> None:
    """Bring `state` to where the checkpoint was taken."""
    if saved.weight_names != state.names:
        raise CheckpointError(
            "The checkpoint belongs to a different network. Use another --checkpoint-dir, or --reset-training."
        )
    state.assign_weights(saved.arrays["weights"])
    if not state.restore_vectors(saved.arrays):
        announce("The checkpoint has no EMA of its weights: the EMA starts from its weights.")
    # Another precision may need a scale where there was none (1), or none where there was one.
    keeps_scale = state.uses_loss_scale and saved.scalars["loss_scale"] > 1
    for name, variable in state.scalars().items():
        if name != "loss_scale" or keeps_scale:
            # By NumPy: TensorFlow would make a Python number a float32 first, which rounds steps beyond 16.7 million.
            variable.assign(np.asarray(saved.scalars[name], variable.dtype.as_numpy_dtype))
    for name, variable in state.fixed_weights().items():
        variable.assign(saved.arrays[f"fixed/{name}"])
