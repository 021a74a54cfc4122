"""The update of the weights in the graph: AdamW on flat vectors, and the schedule of its learning rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from myxtts.models.layers import compiled_by_xla
from myxtts.training.optimization import OptimizationSettings
from myxtts.training.state import TrainState

ADAM_BETAS = (0.9, 0.99)
"""Adam's defaults are (0.9, 0.999). 0.99, as VITS and HiFi-GAN use it, forgets faster; chosen, not measured here."""
ADAM_EPSILON = 1e-8
"""Adam's default."""


@compiled_by_xla
def adamw(old, gradient, is_decayed, is_usable, numbers):
    """One update by AdamW (Loshchilov and Hutter, 2019) and, where it is kept, of the EMA; all on flat vectors.

    Compiled on every device: a few passes over memory instead of twenty, fewer than in two functions.

    Args:
        old: weights, first and second moment and possibly the EMA, each float32 (parameters,).
        gradient: float32 (parameters,), not yet unscaled and clipped.
        is_decayed: bool (parameters,), see `decay_mask`.
        is_usable: bool scalar; if false, everything stays as it was.
        numbers: float32 scalars by name: `factor` unscales and clips the gradient; `rate` is the learning rate; `decay` the
            weight decay; `first_correction` and `second_correction` remove the bias of the moments; `memory` is the fraction of
            the EMA that stays.

    Returns:
        The new values of `old`, in the same order.
    """
    beta1, beta2 = ADAM_BETAS
    weights, first, second, *emas = old
    gradient *= numbers["factor"]
    first = beta1 * first + (1 - beta1) * gradient
    second = beta2 * second + (1 - beta2) * tf.square(gradient)
    direction = first * numbers["first_correction"] / (tf.sqrt(second * numbers["second_correction"]) + ADAM_EPSILON)
    moved = weights - numbers["rate"] * (direction + tf.where(is_decayed, numbers["decay"], 0.0) * weights)
    kept = tf.where(is_usable, moved, weights)  # the EMA reads it; otherwise XLA computes one buffer more
    emas = [ema * numbers["memory"] + kept * (1 - numbers["memory"]) for ema in emas]
    return [
        tf.where(is_usable, after, before) for after, before in zip((moved, first, second, *emas), old, strict=True)
    ]


def decay_mask(state: TrainState) -> tf.Tensor:
    """True for matrices and kernels, false for biases, scales and single vectors."""
    return tf.concat(
        [tf.fill([size], len(shape) > 1) for size, shape in zip(state.layout.sizes, state.layout.shapes, strict=True)],
        axis=0,
    )


def learning_rate_schedule(settings: OptimizationSettings) -> Callable[[tf.Tensor], Any]:
    """Step → learning rate, in the graph: linear warm-up, then a half cosine to the final fraction of the peak."""
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if settings.warmup_steps else settings.learning_rate,
        warmup_target=settings.learning_rate if settings.warmup_steps else None,
        warmup_steps=settings.warmup_steps,
        decay_steps=settings.schedule_steps - settings.warmup_steps,
        alpha=settings.final_rate_fraction,
    )
