"""The numbers of an optimization level. A value that the user gave always wins."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.config import TrainingConfig


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
