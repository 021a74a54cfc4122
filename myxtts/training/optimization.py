"""The optimization of a run: the numbers of its level, AdamW on flat vectors in the graph, and the schedule of the learning rate.

A value that the user gave takes precedence over the level's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.models.layers import compiled_by_xla
from myxtts.training.state import TrainState


@dataclass(frozen=True)
class OptimizationSettings:
    """Every number of the optimization, resolved."""

    learning_rate: float
    warmup_steps: int
    schedule_steps: int
    final_rate_fraction: float
    """Learning rate at the end of the schedule, as a fraction of the peak; 1 is a constant rate."""
    weight_decay: float
    clip_norm: float | None
    ema_decay: float
    """Decay of the exponential moving average of the weights; 0 keeps none."""
    plateau_patience: int | None
    """Validations without improvement after which the rate is lowered; None never lowers it."""
    plateau_factor: float
    alignment_prior_steps: int
    """Steps over which the prior that pulls alignments to the diagonal fades to nothing."""


PEAK_RATES = {"tiny": 1e-3, "small": 7e-4, "normal": 5e-4, "big": 3e-4}
"""Peak learning rate by model size: wider networks take smaller steps. Chosen; not measured."""
PLATEAU_FACTOR = 0.5
"""The learning rate is halved on a plateau. Chosen; not measured."""
ALIGNMENT_PRIOR_STEPS = 2000
"""Chosen; not measured."""

LEVELS = {
    "basic": {
        "rate_factor": 0.3,
        "warmup_steps": 0,
        "final_rate_fraction": 1.0,
        "weight_decay": 0.0,
        "clip_norm": None,
        "ema_decay": 0.0,
        "plateau_patience": None,
    },
    "enhanced": {
        "rate_factor": 1.0,
        "warmup_steps": 500,
        "final_rate_fraction": 0.02,
        "weight_decay": 0.01,
        "clip_norm": 1.0,
        "ema_decay": 0.999,
        "plateau_patience": None,
    },
    "experimental": {
        "rate_factor": 2.0,
        "warmup_steps": 1000,
        "final_rate_fraction": 0.01,
        "weight_decay": 0.05,
        "clip_norm": 0.5,
        "ema_decay": 0.9995,
        "plateau_patience": None,
    },
    "plateau_breaker": {
        "rate_factor": 1.0,
        "warmup_steps": 500,
        "final_rate_fraction": 1.0,
        "weight_decay": 0.01,
        "clip_norm": 1.0,
        "ema_decay": 0.999,
        "plateau_patience": 3,
    },
}
"""What `training.optimization_level` means; docs/training.md has the same table. Chosen; the levels were not compared by
measurement."""


def resolve_optimization(config: TrainingConfig, model_size: str, total_steps: int) -> OptimizationSettings:
    """The settings of a run of `total_steps` steps."""
    level = LEVELS[config.optimization_level]

    def given_or(value, default):
        return default if value is None else value

    warmup = given_or(config.warmup_steps, min(level["warmup_steps"], total_steps // 10))
    return OptimizationSettings(
        learning_rate=given_or(config.learning_rate, PEAK_RATES[model_size] * level["rate_factor"]),
        warmup_steps=warmup,
        schedule_steps=max(given_or(config.schedule_steps, total_steps), warmup + 1),
        final_rate_fraction=level["final_rate_fraction"],
        weight_decay=given_or(config.weight_decay, level["weight_decay"]),
        clip_norm=given_or(config.clip_norm, level["clip_norm"]),
        ema_decay=given_or(config.ema_decay, level["ema_decay"]),
        plateau_patience=level["plateau_patience"],
        plateau_factor=PLATEAU_FACTOR,
        alignment_prior_steps=ALIGNMENT_PRIOR_STEPS,
    )


ADAM_BETAS = (0.9, 0.99)
"""Adam's defaults are (0.9, 0.999). 0.99, as VITS and HiFi-GAN use it, forgets faster; chosen, not measured here."""
ADAM_EPSILON = 1e-8
"""Adam's default."""


@dataclass(frozen=True)
class UpdateRule:
    """The constants of an AdamW update."""

    betas: tuple[float, float]
    clip_norm: float
    """Largest norm of the whole gradient."""
    weight_decay: float
    ema_decay: float = 0.0

    @functools.cached_property
    def update(self) -> Callable[..., list[tf.Tensor]]:
        """`adamw` with these decay rates of the moments."""
        return adamw_of(self.betas)


def adamw_of(betas: tuple[float, float]) -> Callable[..., list[tf.Tensor]]:
    """`adamw` with other decay rates of the moments; build it once."""
    return compiled_by_xla(functools.partial(_adamw, betas))


def _adamw(betas, old, gradient, is_decayed, is_usable, numbers):
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
    beta1, beta2 = betas
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


adamw = adamw_of(ADAM_BETAS)


def update_state(
    state: TrainState,
    gradient: tf.Tensor,
    is_decayed: tf.Tensor,
    is_usable: tf.Tensor,
    rule: UpdateRule,
    rate: tf.Tensor,
) -> None:
    """Change the weights, moments and EMA of a state on one device; nothing if not `is_usable`.

    Args:
        gradient: flat, float32 (parameters,), not yet clipped.
        is_decayed: of `decay_mask`.
        rate: learning rate.
    """
    norm = tf.sqrt(2 * tf.nn.l2_loss(gradient))
    state.updates.assign_add(tf.cast(is_usable, tf.int64))
    count = tf.maximum(tf.cast(state.updates, tf.float32), 1.0)
    vectors = [state.first_moment, state.second_moment, *([state.ema] if state.keeps_ema else [])]
    old = (state.layout.join(state.weights), *(tf.convert_to_tensor(vector) for vector in vectors))
    numbers = {
        "factor": tf.minimum(1.0, rule.clip_norm / tf.maximum(norm, 1e-12)),
        "rate": rate,
        "decay": rule.weight_decay,
        "first_correction": 1 / (1 - tf.pow(rule.betas[0], count)),
        "second_correction": 1 / (1 - tf.pow(rule.betas[1], count)),
        "memory": tf.minimum(rule.ema_decay, (1 + count) / (10 + count)),
    }
    tensors = {name: tf.convert_to_tensor(value, tf.float32) for name, value in numbers.items()}
    moved, *new = rule.update(old, gradient, is_decayed, is_usable, tensors)
    for vector, value in zip(vectors, new, strict=True):
        vector.assign(value)
    for weight, part in zip(state.weights, state.layout.parts(moved), strict=True):
        weight.assign(part)


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
