"""What an optimisation level means: numbers in, numbers out. A value that the user gave always wins."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.config import TrainingConfig


@dataclass(frozen=True)
class OptimizationSettings:
    """Every number of the optimisation, resolved."""

    learning_rate: float
    warmup_steps: int
    schedule_steps: int
    final_rate_share: float
    """Learning rate at the end of the schedule, as a share of the peak; 1 is a constant rate."""
    weight_decay: float
    clip_norm: float | None
    ema_decay: float
    """0 keeps no average."""
    plateau_patience: int | None
    """Validations without improvement after which the rate is cut; None never cuts."""
    plateau_factor: float
    alignment_prior_steps: int
    """Steps over which the pull of alignments to the diagonal fades to nothing."""


PEAK_RATES = {"tiny": 1e-3, "small": 7e-4, "normal": 5e-4, "big": 3e-4}
"""Wider networks take smaller steps."""

LEVELS = {
    "basic": {
        "rate_factor": 0.3,
        "warmup_steps": 0,
        "final_rate_share": 1.0,
        "weight_decay": 0.0,
        "clip_norm": None,
        "ema_decay": 0.0,
        "plateau_patience": None,
    },
    "enhanced": {
        "rate_factor": 1.0,
        "warmup_steps": 500,
        "final_rate_share": 0.02,
        "weight_decay": 0.01,
        "clip_norm": 1.0,
        "ema_decay": 0.999,
        "plateau_patience": None,
    },
    "experimental": {
        "rate_factor": 2.0,
        "warmup_steps": 1000,
        "final_rate_share": 0.01,
        "weight_decay": 0.05,
        "clip_norm": 0.5,
        "ema_decay": 0.9995,
        "plateau_patience": None,
    },
    "plateau_breaker": {
        "rate_factor": 1.0,
        "warmup_steps": 500,
        "final_rate_share": 1.0,
        "weight_decay": 0.01,
        "clip_norm": 1.0,
        "ema_decay": 0.999,
        "plateau_patience": 3,
    },
}
"""The table of docs/training.md."""


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
        final_rate_share=level["final_rate_share"],
        weight_decay=given_or(config.weight_decay, level["weight_decay"]),
        clip_norm=given_or(config.clip_norm, level["clip_norm"]),
        ema_decay=given_or(config.ema_decay, level["ema_decay"]),
        plateau_patience=level["plateau_patience"],
        plateau_factor=0.5,
        alignment_prior_steps=2000,
    )
