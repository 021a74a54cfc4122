"""What is decided without TensorFlow: levels, changed configurations, patience, mapped weights."""

import dataclasses

import numpy as np
import pytest

from myxtts.audio.mel import MelSpec
from myxtts.config.config import ModelConfig, TrainingConfig, XTTSConfig
from myxtts.config.load import config_to_dict, parse_config
from myxtts.models.spec import ModelSpec
from myxtts.training.initial_weights import LANGUAGE_TABLE, SYMBOL_TABLE, map_weights
from myxtts.training.optimization import LEVELS, resolve_optimization
from myxtts.training.progress import Progress
from myxtts.training.resume import FREE_OF_SPEC, compare_configs, compare_facts


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


def test_a_changed_setting_is_named_with_both_values():
    now = parse_config({"training": {"learning_rate": 1e-5}})
    (rate,) = compare_configs(config_to_dict(XTTSConfig()), config_to_dict(now))
    assert str(rate) == "training.learning_rate: None → 1e-05"


def test_every_listed_number_of_the_network_exists():
    assert {field.name for field in dataclasses.fields(ModelSpec)} >= FREE_OF_SPEC


def facts(symbols="abc", languages=("en",), speakers=("a",), kind="graphemes", rate=16000, **model):
    spec = ModelSpec.from_config(
        ModelConfig(**model), num_symbols=len(symbols), num_languages=1, num_speakers=len(speakers), n_mels=80
    )
    return {
        "model": spec.to_dict(),
        "mel": MelSpec(rate).to_dict(),
        "front_end": {"kind": kind, "lexicon": {}},
        "symbols": list(symbols),
        "languages": list(languages),
        "speakers": list(speakers),
    }


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        ({}, {"symbols": "abd"}, ["symbols: new d, gone c"]),
        ({}, {"symbols": "abcd"}, ["symbols: new d"]),
        ({}, {"symbols": "acb"}, ["symbols: the same in another order"]),
        ({}, {"languages": ("en", "fa")}, ["languages: new fa"]),
        ({}, {"kind": "phonemes"}, ["spelling: 'graphemes' → 'phonemes'"]),
        ({}, {"rate": 22050}, ["mel.sample_rate: 16000 → 22050"]),
        ({}, {"decoder_layers": 3}, ["model.decoder_layers: 8 → 3"]),
        ({}, {"speakers": "ab"}, ["number of speakers: 1 → 2"]),
        ({"speakers": "ab"}, {"speakers": "acd"}, []),
        ({}, {"speakers": "b"}, []),
        ({}, {"dropout": 0.3, "decoder_dropout": 0.2, "condition_dropout": 0.2}, []),
    ],
)
def test_weights_fit_a_corpus_that_means_the_same_by_every_number(before, now, lines):
    assert compare_facts(facts(**before), facts(**now)) == lines


def test_a_number_that_an_earlier_version_did_not_save_is_no_difference():
    before = facts()
    del before["model"]["decoder_dilations"]
    assert compare_facts(before, facts()) == []
    assert Progress.restored({"best_step": 3, "seconds_trained": 5.0}) == Progress(best_step=3)


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


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_never_the_best(loss):
    progress = Progress()
    assert not progress.note_validation(loss, 10)
    assert progress.note_validation(0.5, 20)
    assert not progress.note_validation(loss, 30)
    assert (progress.best_loss, progress.best_step, progress.validations_without_improvement) == (0.5, 20, 1)
    assert not progress.note_evaluation(loss)
    assert progress.note_evaluation(0.3)
    assert not progress.note_evaluation(loss)


def test_a_best_loss_that_an_earlier_version_saved_as_nan_is_replaced():
    progress = Progress.restored({"best_loss": float("nan"), "best_step": 10, "best_evaluation": float("nan")})
    assert progress.note_validation(0.5, 20)
    assert progress.note_evaluation(0.5)


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


def test_a_table_of_another_width_starts_fresh_and_is_counted():
    found = map_weights({SYMBOL_TABLE: np.ones((2, 3))}, {SYMBOL_TABLE: np.zeros((2, 4))}, "ab", "ab", ["en"], ["en"])
    np.testing.assert_array_equal(found.weights[SYMBOL_TABLE], np.zeros((2, 4)))
    assert found.kept_as_initialised == [SYMBOL_TABLE]
