"""Flags that set the configuration: each sets its field, wins over the file, and takes type and help from the field."""

import argparse
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.commands.config_flags import (
    CORPUS_FLAGS,
    FLAGS,
    SWITCHES,
    TRAINING_FLAGS,
    add_corpus_flags,
    add_training_flags,
    config_of,
    overrides_of,
)
from myxtts.commands.train import configure_train, run_config
from myxtts.config.load import config_to_dict, load_config
from myxtts.errors import ConfigError

PROMISED = {
    "--train-data D": ("data.train_data", "D"),
    "--val-data V": ("data.val_data", "V"),
    "--language Persian": ("data.language", "fa"),
    "--sample-rate 24000": ("data.sample_rate", 24000),
    "--sample-rate auto": ("data.sample_rate", "auto"),
    "--cache-dir K": ("data.cache_dir", "K"),
    "--checkpoint-dir C": ("training.checkpoint_dir", "C"),
    "--epochs 7": ("training.epochs", 7),
    "--batch-size 5": ("data.batch_size", 5),
    "--batch-size auto": ("data.batch_size", "auto"),
    "--grad-accum 3": ("training.gradient_accumulation_steps", 3),
    "--num-workers 2": ("data.num_workers", 2),
    "--prefetch-buffer-size 4": ("data.prefetch_buffer_size", 4),
    "--lr 1e-5": ("training.learning_rate", 1e-5),
    "--model-size small": ("model.size", "small"),
    "--optimization-level plateau_breaker": ("training.optimization_level", "plateau_breaker"),
    "--enable-static-shapes": ("data.pad_to_fixed_length", True),
    "--pad-to-fixed-length": ("data.pad_to_fixed_length", True),
    "--disable-static-shapes": ("data.plan", "dynamic"),
    "--max-text-length 90": ("data.max_text_length", 90),
    "--max-mel-frames 300": ("data.max_mel_frames", 300),
    "--max-mel-frames auto": ("data.max_mel_frames", "auto"),
    "--preprocessing-mode runtime": ("data.preprocessing_mode", "runtime"),
    "--disable-tf-native-loading": ("data.use_tf_native_loading", False),
    "--disable-gpu-prefetch": ("data.prefetch_to_gpu", False),
    "--disable-cpu-gpu-overlap": ("data.optimize_cpu_gpu_overlap", False),
    "--enable-eager-debug": ("training.enable_eager_debug", True),
    "--enable-evaluation": ("training.enable_evaluation", True),
    "--evaluation-interval 9": ("training.evaluation_interval", 9),
    "--evaluation-recognizer pocketsphinx": ("training.evaluation_recognizer", "pocketsphinx"),
    "--tensorboard-log-dir T": ("training.tensorboard_log_dir", "T"),
    "--seed 99": ("training.seed", 99),
    "--device cpu": ("training.device", "cpu"),
    "--init-from I": ("training.init_from", "I"),
    "--deterministic": ("training.deterministic", True),
    "--auto-tune": ("data.auto_tune_performance", True),
    "--plan buckets": ("data.plan", "buckets"),
    "--max-steps 11": ("training.max_steps", 11),
    "--max-minutes 2": ("training.max_minutes", 2.0),
    "--distill-steps 2 --init-from I": ("model.distill_steps", 2),
}


def parsed(*words, configure=configure_train):
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(words)


def value_of(config, name):
    section, _, field = name.partition(".")
    return config_to_dict(config)[section][field]


REPLACED = {"data.train_data": {"data.corpora"}, "model.distill_steps": {"training.init_from"}}
"""Other fields that a flag sets back, because they say the same in another way, or needs."""


def fields_of(flag):
    """The fields that a flag may set."""
    name, _ = PROMISED[flag]
    shapes = {"data.plan", "data.pad_to_fixed_length"}
    return {name} | REPLACED.get(name, set()) | (shapes if name in shapes else set())


def test_each_flag_sets_its_field_and_nothing_else():
    for flag, (name, value) in PROMISED.items():
        overrides = overrides_of(parsed(*flag.split()))
        assert value_of(load_config(None, overrides), name) == value, flag
        assert set(overrides) <= fields_of(flag), flag


@settings(max_examples=50, deadline=None)
@given(flags=st.lists(st.sampled_from(sorted(PROMISED)), min_size=2, max_size=8))
def test_flags_set_their_fields_in_any_company_and_order(flags):
    chosen, taken = [], set()
    for flag in flags:  # of flags for the same field, the first
        if taken.isdisjoint(fields_of(flag)):
            chosen.append(flag)
            taken |= fields_of(flag)
    overrides = overrides_of(parsed(*(word for flag in chosen for word in flag.split())))
    assert {PROMISED[flag][0]: overrides[PROMISED[flag][0]] for flag in chosen} == dict(
        PROMISED[flag] for flag in chosen
    )
    assert set(overrides) <= taken


def test_every_promised_flag_exists_and_no_other():
    parser = argparse.ArgumentParser()
    configure_train(parser)
    known = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    assert known == {flag.split()[0] for flag in PROMISED} | {"--config", "--reset-training", "--help"}


@pytest.mark.parametrize("configure", [add_training_flags, add_corpus_flags])
def test_without_flags_nothing_is_set(configure):
    assert overrides_of(parsed(configure=configure)) == {}


def test_every_flag_belongs_to_a_command():
    assert {*CORPUS_FLAGS, *TRAINING_FLAGS} == set(FLAGS)


def test_a_corpus_flag_sets_the_field_of_its_name():
    values = {"--text-symbols": "graphemes", "--language": "de", "--min-seconds": "0.5", "--sample-rate": "16000"}
    for flag in CORPUS_FLAGS:
        word = values.get(flag, "64.0" if flag == "--max-seconds" else "64")
        config = config_of(parsed("FOLDER", flag, word, configure=add_corpus_flags))
        assert str(value_of(config, FLAGS[flag])) == word, flag
        assert config.data.train_data == "FOLDER"


@pytest.mark.parametrize(
    "words", [("--sample-rate", "fast"), ("--epochs", "1.5"), ("--plan", "none"), ("--language", "xx-no")]
)
def test_a_value_of_the_wrong_type_is_rejected_when_it_is_parsed(words, capsys):
    with pytest.raises(SystemExit):
        parsed(*words)
    assert f"argument {words[0]}: " in capsys.readouterr().err


def test_the_help_of_a_flag_is_that_of_its_field_with_its_default(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    help_text = " ".join(capsys.readouterr().out.split())
    for line in (
        "--epochs EPOCHS number of times that every training clip is used (default: 500)",
        "--num-workers NUM_WORKERS threads of the loader and processes of `prepare` (default: one per core)",
        "--train-data TRAIN_DATA [TRAIN_DATA ...] folder of recordings with metadata.csv (default: the bundled English prompts)",
        "--lr LR peak learning rate (default: by optimization_level and model size)",
    ):
        assert line in help_text


def test_several_folders_are_corpora_that_replace_those_of_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("data: {corpora: [old], balance: 0.5}\n")
    several = load_config(file, overrides_of(parsed("--train-data", "a", "b"))).data
    assert ([corpus.folder for corpus in several.corpora], several.train_data, several.balance) == (
        ["a", "b"],
        None,
        0.5,
    )
    one = load_config(file, overrides_of(parsed("--train-data", "a"))).data
    assert (one.corpora, one.train_data) == ((), "a")


def test_the_language_of_a_corpus_may_be_a_name(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("data: {corpora: [{folder: a, language: Persian}]}\n")
    assert config_of(parsed("--config", str(file))).data.corpora[0].language == "fa"


def test_a_switch_sets_a_boolean_that_is_not_the_default():
    for field, value, _ in SWITCHES.values():
        assert value_of(load_config(), field) is not value


def test_flags_win_over_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("data: {plan: packed, batch_size: 8}\ntraining: {learning_rate: 3e-4, optimization_level: basic}\n")
    config = load_config(file, overrides_of(parsed("--enable-static-shapes", "--lr", "1e-5")))
    assert (config.data.plan, config.data.pad_to_fixed_length, config.data.batch_size) == ("fixed", True, 8)
    assert (config.training.learning_rate, config.training.optimization_level) == (1e-5, "basic")
    file.write_text("data: {pad_to_fixed_length: true}\n")
    assert not load_config(file, overrides_of(parsed("--plan", "buckets"))).data.pad_to_fixed_length


@pytest.mark.parametrize(
    "words", [("--plan", "packed", "--enable-static-shapes"), ("--plan", "fixed", "--disable-static-shapes")]
)
def test_two_plans_at_once_are_rejected(words):
    with pytest.raises(ConfigError, match="The flags select two plans"):
        overrides_of(parsed(*words))


def test_the_configuration_of_a_run_can_be_printed_and_read_back(tmp_path, capsys):
    assert run_config(parsed("--lr", "2e-4", "--model-size", "small", configure=add_training_flags)) == 0
    (tmp_path / "printed.yaml").write_text(capsys.readouterr().out)
    again = load_config(tmp_path / "printed.yaml")
    assert (again.training.learning_rate, again.model.size) == (2e-4, "small")


def test_the_language_of_a_configuration_file_may_be_a_name(tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text("data:\n  language: persian\n", encoding="utf-8")
    assert run_config(parsed("--config", str(file), configure=add_training_flags)) == 0
    assert yaml.safe_load(capsys.readouterr().out)["data"]["language"] == "fa"


def test_an_unknown_language_of_a_configuration_file_is_rejected(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("data:\n  language: nosuchlang\n", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"data\.language in \S+config\.yaml: Unknown language 'nosuchlang'\. Expected"
    ):
        run_config(parsed("--config", str(file), configure=add_training_flags))


def test_the_page_on_configuration_explains_every_flag_of_a_training():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert [flag for flag in (*TRAINING_FLAGS, *SWITCHES) if f"`{flag}" not in page] == []
