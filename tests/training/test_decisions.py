"""What is decided without TensorFlow: levels, changed configurations, patience, mapped weights."""

import numpy as np
import pytest

from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.config.load import config_to_dict, parse_config
from myxtts.training.levels import LEVELS, resolve_optimization
from myxtts.training.progress import Progress
from myxtts.training.resume import NEW_ORDER, REFUSED, compare_configs
from myxtts.training.transfer import LANGUAGE_TABLE, SYMBOL_TABLE, map_weights


@pytest.mark.parametrize("level", LEVELS)
def test_a_given_learning_rate_wins_over_every_level(level):
    settings = resolve_optimization(TrainingConfig(optimization_level=level, learning_rate=3e-5), "tiny", 1000)
    assert settings.learning_rate == 3e-5


def test_levels_differ_as_documented():
    found = {level: resolve_optimization(TrainingConfig(optimization_level=level), "tiny", 10_000) for level in LEVELS}
    assert found["basic"].final_rate_share == 1
    assert found["basic"].clip_norm is None
    assert found["basic"].ema_decay == 0
    assert found["enhanced"].warmup_steps > 0
    assert found["enhanced"].final_rate_share < 0.1
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


def changed(section, **fields):
    return compare_configs(config_to_dict(XTTSConfig()), config_to_dict(parse_config({section: fields})))


def test_a_changed_network_is_refused_on_resume():
    assert [change.name for change in changed("model", size="small").refused] == ["model.size"]
    assert [change.name for change in changed("data", n_mels=40).refused] == ["data.n_mels"]


def test_a_changed_batch_starts_a_new_pass_and_a_changed_rate_does_not():
    assert [change.name for change in changed("data", batch_size=4).new_order] == ["data.batch_size"]
    assert [str(change) for change in changed("training", learning_rate=1e-5).allowed] == [
        "training.learning_rate: None → 1e-05"
    ]


def test_every_listed_setting_exists():
    sections = config_to_dict(XTTSConfig())
    for table in (REFUSED, NEW_ORDER):
        for section, names in table.items():
            assert names is None or names <= set(sections[section])


def test_patience_and_plateau_count_validations_without_improvement():
    progress = Progress()
    assert progress.note_validation(1.0, 10)
    assert not progress.note_validation(1.1, 20)
    assert not progress.is_out_of_patience(2)
    assert not progress.note_validation(1.0, 30)
    assert progress.is_out_of_patience(2)
    assert progress.takes_plateau(2)
    assert not progress.takes_plateau(2)
    assert progress.note_validation(0.9, 40)
    assert not progress.is_out_of_patience(1)
    assert Progress.restored(progress.to_dict()) == progress


def test_tables_are_mapped_by_name_and_the_rest_by_shape():
    source = {
        SYMBOL_TABLE: np.arange(8.0).reshape(4, 2),
        LANGUAGE_TABLE: np.arange(4.0).reshape(2, 2),
        "same": np.ones(3),
        "other": np.ones(3),
    }
    target = {
        SYMBOL_TABLE: np.full((5, 2), -1.0),
        LANGUAGE_TABLE: np.full((3, 2), -1.0),
        "same": np.zeros(3),
        "other": np.zeros(4),
        "new": np.zeros(2),
    }
    found = map_weights(
        source, target, ["<pad>", "<blank>", "a", "b"], ["<pad>", "<blank>", "b", "c", "a"], ["en"], ["fr", "en"]
    )
    np.testing.assert_array_equal(found.weights[SYMBOL_TABLE], [[0, 1], [2, 3], [6, 7], [-1, -1], [4, 5]])
    np.testing.assert_array_equal(found.weights[LANGUAGE_TABLE], [[0, 1], [-1, -1], [2, 3]])
    np.testing.assert_array_equal(found.weights["same"], np.ones(3))
    assert found.new_symbols == ["c"]
    assert found.new_languages == ["fr"]
    assert found.kept_as_initialised == ["other", "new"]
