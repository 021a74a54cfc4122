"""`myxtts train`: a run from the command line, its promised lines, and mistakes that are reported early."""

import argparse
import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml

from myxtts.cli import main
from myxtts.commands.train import _evaluation, configure_train, run_train
from myxtts.config.load import load_config
from myxtts.errors import ConfigError, EvaluationError, TrainingError
from tests.corpus.tiny_corpus import make_corpus
from tests.runtime.other_process import another_training
from tests.training.small_runs import SMALL_NETWORK


def parsed(*words):
    parser = argparse.ArgumentParser()
    configure_train(parser)
    return parser.parse_args(words)


@pytest.fixture
def made(monkeypatch):
    """What evaluations of trainings are made with: sentences and the name of the recognizer."""
    given = []
    monkeypatch.setattr("myxtts.evaluation.evaluation_worker.open_evaluation", lambda *values: given.append(values))
    return given


def test_evaluation_during_training_needs_no_language(made):
    _evaluation(load_config())
    assert {sentence.language for sentence in made[0][0]} == {"en"}


def test_the_recognizer_of_the_evaluation_is_chosen(made):
    _evaluation(load_config(None, {"training.evaluation_recognizer": "command:my-recognizer --lang de"}))
    assert made[0][1] == "command:my-recognizer --lang de"


def test_an_unknown_recognizer_is_reported_before_the_training():
    with pytest.raises(EvaluationError, match="Unknown recognizer"):
        _evaluation(load_config(None, {"training.evaluation_recognizer": "wishper"}))


def test_a_recognizer_without_evaluation_is_refused(tmp_path, capsys):
    flags = ["--evaluation-recognizer", "pocketsphinx", "--checkpoint-dir", str(tmp_path / "run")]
    assert main(["train", *flags]) == 2
    assert "needs --enable-evaluation" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_prints_the_promised_lines_and_restarts_with_reset_training(tmp_path, capsys):
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
    assert run_train(parsed(*words, "--max-steps", "2", "--language", "de")) == 0
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
    text = capsys.readouterr().out
    assert "the earlier run was moved to" in text
    assert text.count("Language: de, because") == 1  # although the configuration is resolved before and in the trainer
    assert [path.name for path in run.glob("step-*")] == ["step-00000001"]
    assert (run / "before-reset-1" / "step-00000002" / "state.json").is_file()


def test_a_folder_that_cannot_be_written_is_reported_before_anything_is_prepared(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"training\.checkpoint_dir cannot be written to"):
        run_train(parsed("--train-data", str(tmp_path / "no corpus"), "--checkpoint-dir", str(tmp_path / "file")))


def test_a_second_training_in_one_folder_is_rejected_before_tensorflow_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.runtime.startup.start_tensorflow", lambda: pytest.fail("TensorFlow is imported"))
    with another_training(tmp_path / "run") as first, pytest.raises(TrainingError, match=f"process {first.pid} on"):
        run_train(parsed("--checkpoint-dir", str(tmp_path / "run")))


def test_sigterm_ends_a_training_and_the_evaluation_next_to_it(tmp_path):
    """The recognizer of the evaluation never answers: training continues meanwhile, and nothing of it is left after SIGTERM."""
    corpus, run, asked = tmp_path / "corpus", tmp_path / "run", tmp_path / "asked"
    make_corpus(corpus, 8)
    recognizer = tmp_path / "recognizer.py"
    recognizer.write_text(f"import os, time\nopen({str(asked)!r}, 'w').write(str(os.getpid()))\ntime.sleep(3600)\n")
    (tmp_path / "small.yaml").write_text(
        yaml.safe_dump(
            {
                "data": {
                    "cache_dir": str(tmp_path / "cache"),
                    "text_symbols": "graphemes",
                    "num_workers": 1,
                    "validation_share": 0.3,
                },
                "model": SMALL_NETWORK,
                "training": {
                    "enable_graph_mode": False,
                    "log_interval": 1,
                    "enable_evaluation": True,
                    "evaluation_interval": 1,
                    "evaluation_recognizer": f"command:{sys.executable} {recognizer}",
                },
            }
        )
    )
    words = ["--config", str(tmp_path / "small.yaml"), "--train-data", str(corpus), "--checkpoint-dir", str(run)]
    words += ["--batch-size", "2", "--max-text-length", "40", "--max-mel-frames", "80", "--epochs", "100000"]
    command = [sys.executable, "-m", "myxtts.cli", "train", *words]
    output = tmp_path / "output.txt"
    with output.open("w") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as process:
        try:
            deadline = time.monotonic() + 500
            while not asked.is_file() or not asked.read_text():
                assert process.poll() is None, output.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            listener = psutil.Process(int(asked.read_text()))
            before = trained_steps(run)
            while trained_steps(run) < before + 3:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=200) == 0, output.read_text()
            assert "is still running" in output.read_text()
            psutil.wait_procs([listener], timeout=30)
            assert not listener.is_running() or listener.status() == psutil.STATUS_ZOMBIE
        finally:
            process.kill()


def trained_steps(run):
    return (run / "log.jsonl").read_text().count('"kind": "train"')
