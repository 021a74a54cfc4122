"""Optimization levels: what they set, and what the user's values override."""

import pytest

from myxtts.config.config import TrainingConfig
from myxtts.training.optimization import LEVELS, resolve_optimization


@pytest.mark.parametrize("level", LEVELS)
def test_a_given_learning_rate_wins_over_every_level(level):
    settings = resolve_optimization(TrainingConfig(optimization_level=level, learning_rate=3e-5), "tiny", 1000)
    assert settings.learning_rate == 3e-5


def test_levels_differ_as_documented():
    found = {level: resolve_optimization(TrainingConfig(optimization_level=level), "tiny", 10_000) for level in LEVELS}
    assert found["basic"].final_rate_fraction == 1
    assert found["basic"].clip_norm is None
    assert found["basic"].ema_decay == 0
    assert found["enhanced"].warmup_steps > 0
    assert found["enhanced"].final_rate_fraction < 0.1
    assert found["plateau_breaker"].plateau_patience is not None
    assert len(set(found.values())) == len(LEVELS)


def test_larger_networks_take_smaller_steps():
    rates = [
        resolve_optimization(TrainingConfig(), size, 1000).learning_rate for size in ("tiny", "small", "normal", "big")
    ]
    assert rates == sorted(rates, reverse=True)


def test_the_warm_up_is_never_longer_than_the_schedule():
    settings = resolve_optimization(TrainingConfig(warmup_steps=50), "tiny", 10)
    assert settings.schedule_steps > settings.warmup_steps
