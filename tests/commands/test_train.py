"""`myxtts train`: every promised flag reaches the configuration, wins over the file, and is never silently replaced."""

import argparse

import pytest
import yaml

from myxtts.commands.train import _evaluation, add_config_flags, configure_train, overrides_of, run_config, run_train
from myxtts.config.load import config_to_dict, load_config
from myxtts.errors import ConfigError
from tests.corpus.tiny_corpus import make_corpus
from tests.training.small_runs import SMALL_NETWORK

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
    "--tensorboard-log-dir T": ("training.tensorboard_log_dir", "T"),
    "--seed 99": ("training.seed", 99),
    "--device cpu": ("training.device", "cpu"),
    "--init-from I": ("training.init_from", "I"),
    "--deterministic": ("training.deterministic", True),
    "--auto-tune": ("data.auto_tune_performance", True),
    "--plan buckets": ("data.plan", "buckets"),
    "--max-steps 11": ("training.max_steps", 11),
    "--max-minutes 2": ("training.max_minutes", 2.0),
}


def parsed(*words, configure=configure_train):
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(words)


def value_of(config, name):
    section, _, field = name.partition(".")
    return config_to_dict(config)[section][field]


@pytest.mark.parametrize("flag", PROMISED)
def test_each_flag_sets_its_field_and_nothing_else(flag):
    name, value = PROMISED[flag]
    overrides = overrides_of(parsed(*flag.split()))
    assert value_of(load_config(None, overrides), name) == value
    assert set(overrides) <= {name, "data.plan", "data.pad_to_fixed_length"}


def test_every_flag_is_in_this_table():
    parser = argparse.ArgumentParser()
    configure_train(parser)
    known = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    assert known == {flag.split()[0] for flag in PROMISED} | {"--config", "--reset-training", "--help"}


def test_evaluation_while_training_needs_no_language(monkeypatch):
    monkeypatch.setattr("myxtts.evaluation.evaluate.evaluation_callback", lambda sentences: sentences)
    assert {sentence.language for sentence in _evaluation(load_config().data)} == {"en"}


def test_without_flags_nothing_is_set():
    assert overrides_of(parsed()) == {}


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
def test_two_plans_at_once_are_refused(words):
    with pytest.raises(ConfigError, match="The flags ask for two plans"):
        overrides_of(parsed(*words))


def test_the_configuration_of_a_run_can_be_printed_and_read_back(tmp_path, capsys):
    assert run_config(parsed("--lr", "2e-4", "--model-size", "small", configure=add_config_flags)) == 0
    (tmp_path / "printed.yaml").write_text(capsys.readouterr().out)
    again = load_config(tmp_path / "printed.yaml")
    assert (again.training.learning_rate, again.model.size) == (2e-4, "small")


def test_the_command_trains_prints_the_promised_lines_and_reset_training_when_asked(tmp_path, capsys, monkeypatch):
    corpus, run = tmp_path / "corpus", tmp_path / "run"
    make_corpus(corpus, 8)
    (tmp_path / "small.yaml").write_text(
        yaml.safe_dump(
            {
                "data": {"cache_dir": str(tmp_path / "cache"), "text_symbols": "graphemes", "num_workers": 1},
                "model": SMALL_NETWORK,
                "training": {"enable_graph_mode": False, "log_interval": 1},
            }
        )
    )
    words = ["--config", str(tmp_path / "small.yaml"), "--train-data", str(corpus), "--checkpoint-dir", str(run)]
    words += ["--enable-static-shapes", "--batch-size", "2", "--max-text-length", "40", "--max-mel-frames", "80"]
    assert run_train(parsed(*words, "--max-steps", "2")) == 0
    text = capsys.readouterr().out
    for line in (
        "=== Final Training Configuration ===",
        "Static shapes (pad_to_fixed_length): True",
        "Max text length: 40",
        "Max mel frames: 80",
        "all steps are done",
    ):
        assert line in text
    assert [path.name for path in run.glob("step-*")] == ["step-00000002"]
    assert run_train(parsed(*words, "--max-steps", "1", "--reset-training")) == 0
    assert "Starting again; the earlier run was moved to" in capsys.readouterr().out
    assert [path.name for path in run.glob("step-*")] == ["step-00000001"]
    assert (run / "before-reset-1" / "step-00000002" / "state.json").is_file()


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_prepared(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"training\.checkpoint_dir cannot be written to"):
        run_train(parsed("--train-data", str(tmp_path / "no corpus"), "--checkpoint-dir", str(tmp_path / "file")))


def test_the_language_of_a_configuration_file_may_be_a_name(tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text("data:\n  language: persian\n", encoding="utf-8")
    assert run_config(parsed("--config", str(file), configure=add_config_flags)) == 0
    assert yaml.safe_load(capsys.readouterr().out)["data"]["language"] == "fa"


def test_an_unknown_language_of_a_configuration_file_is_refused(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("data:\n  language: nosuchlang\n", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"data\.language in \S+config\.yaml: Unknown language 'nosuchlang'\. Expected"
    ):
        run_config(parsed("--config", str(file), configure=add_config_flags))
