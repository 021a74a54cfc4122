"""The command line: help at once, one line for a mistake, exit codes, and scripts that only call it."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts import __version__
from myxtts.cli import COMMANDS, EXIT_INTERRUPTED, build_parser, main
from myxtts.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = {
    "train_main.py": "train",
    "gpu_monitor.py": "monitor",
    "benchmark_gpu_utilization.py": "benchmark",
    "utilities/diagnose_retracing.py": "diagnose retracing",
    "utilities/diagnose_gpu_bottleneck.py": "diagnose bottleneck",
}
LONG = "n" * 300
"""No file system takes a name of this length."""
MISTAKES = {
    f"train --checkpoint-dir {LONG}": LONG,
    f"train --init-from {LONG}": LONG,
    f"voice list {LONG}": LONG,
    f"voice export {LONG} out": LONG,
    f"export kathleen {LONG} --format piper": LONG[:200],
    "export kathleen . --format sherpa": "exists",
    f"corpus folder {LONG}": LONG[:200],
    f"prepare {LONG}": LONG[:200],
    f"advise {LONG}": LONG[:200],
    "corpus folder nowhere out": "nowhere",
    "prepare nowhere": "nowhere",
    "verify nowhere": "nowhere",
    "stats nowhere": "nowhere",
    "train --config nowhere.yaml": "nowhere.yaml",
    "train --enable-static-shapes --plan packed": "two plans",
    "config --config nowhere.yaml": "nowhere.yaml",
    "voice show nowhere": "nowhere",
    "say Hello --voice nowhere -o speech.wav": "nowhere",
    "clone nowhere.wav Hello --voice nowhere -o speech.wav": "nowhere",
    "diagnose run nowhere.py": "nowhere.py",
    "diagnose retracing --config nowhere.yaml": "nowhere.yaml",
    "diagnose bottleneck --config nowhere.yaml": "nowhere.yaml",
    "monitor --run nowhere": "nowhere",
    "benchmark --config nowhere.yaml": "nowhere.yaml",
}


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {
        name: subparser
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, subparser in action.choices.items()
    }


def every_command() -> list[list[str]]:
    """The words of each command: `say`, `voice`, `voice show`, …"""
    words = []
    for name in COMMANDS:
        parser = subcommands(build_parser(name))[name]
        words += [[name], *([name, action] for action in subcommands(parser))]
    return words


def parsed(*words: str) -> argparse.Namespace:
    return build_parser(words[0]).parse_args(words)


@pytest.mark.parametrize(
    "words",
    [
        ("r.wav", "-o", "x.wav", "Hello"),
        ("r.wav", "Hello", "-o", "x.wav"),
        ("r.wav", "--force", "Hello", "-o", "x.wav"),
        ("-o", "x.wav", "r.wav", "Hello"),
        ("r.wav", "-o", "x.wav", "--", "Hello"),
        ("-o", "x.wav", "--", "r.wav", "Hello"),
    ],
)
def test_options_of_clone_may_be_before_between_and_after_its_arguments(words):
    arguments = parsed("clone", "--reference", "more.wav", *words)
    found = (arguments.reference, arguments.text, arguments.output, arguments.more)
    assert found == ("r.wav", "Hello", "x.wav", ["more.wav"])


def test_a_text_after_two_dashes_may_begin_with_one():
    assert parsed("clone", "-o", "x.wav", "--", "r.wav", "-5").text == "-5"
    assert parsed("clone", "r.wav", "-o", "x.wav", "--", "-five").text == "-five"


def test_folders_may_be_on_both_sides_of_an_option():
    assert vars(parsed("prepare", "one", "--language", "fa", "two"))["data.train_data"] == ["one", "two"]
    assert parsed("corpus", "folder", "in", "--language", "fa", "out").out == "out"


@pytest.mark.parametrize("words", ["r.wav Hello there", "r.wav -o x.wav --loud Hello"])
def test_words_that_a_command_does_not_take_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        parsed("clone", *words.split())
    assert "unrecognized arguments: " in capsys.readouterr().err


def in_a_process_without_tensorflow(code: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run code in a child in which importing TensorFlow or Keras fails."""
    block = "import sys; sys.modules.update(tensorflow=None, keras=None)\n"
    command = [sys.executable, "-c", block + code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_every_help_answers_without_tensorflow():
    code = """
import contextlib, io, json
from myxtts.cli import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            main([*words, "--help"])
        except SystemExit as end:
            assert end.code == 0, words
    assert output.getvalue().startswith("usage: myxtts " + " ".join(words)), words
"""
    done = in_a_process_without_tensorflow(code, json.dumps([[], *every_command()]))
    assert (done.returncode, done.stderr) == (0, "")


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    first_words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert set(COMMANDS) <= set(first_words)


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"myxtts {__version__}\n"


@pytest.mark.parametrize("words", [["sing"], [], ["--no-such-flag"], ["train", "--no-such-flag"], ["voice"]])
def test_words_that_are_not_understood_are_named_with_the_usage(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    usage, *_, problem = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: myxtts ")
    assert ": error: " in problem
    assert "Traceback" not in problem


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_with_what_was_received(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = line.split()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"myxtts {words[0]}: ")
    assert error.count("\n") == 1
    assert MISTAKES[line] in error
    assert list(tmp_path.iterdir()) == []


def test_mistakes_are_reported_before_tensorflow_is_imported():
    code = "from myxtts.cli import main; sys.exit(main(sys.argv[1:]))"
    for line in (
        "train --config nowhere.yaml",
        "diagnose retracing --config nowhere.yaml",
        "say Hello --voice nowhere",
    ):
        done = in_a_process_without_tensorflow(code, *line.split())
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_training_without_tensorflow_is_one_line_that_says_what_to_install(tmp_path):
    code = "from myxtts.cli import main; sys.exit(main(sys.argv[1:]))"
    done = in_a_process_without_tensorflow(code, "train", "--checkpoint-dir", str(tmp_path / "run"))
    message = "myxtts train: This needs TensorFlow, which is not installed. Run `pip install '.[train]'` in the project folder.\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_a_voice_speaks_in_python_without_tensorflow():
    code = "import myxtts; print(myxtts.load_voice().synthesize('Hello.', steps=1).seconds > 0.3)"
    done = in_a_process_without_tensorflow(code)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("It is wrong."), 2, "myxtts config: It is wrong.\n"),
        (KeyboardInterrupt(), EXIT_INTERRUPTED, "\nmyxtts config: interrupted.\n"),
        (OSError(28, "No space left on device", "a/file"), 2, "myxtts config: a/file cannot be written: "),
        (BrokenPipeError(), 2, ""),
    ],
)
def test_exit_codes(error, code, message, monkeypatch, capsys):
    def fail(arguments):
        raise error

    monkeypatch.setattr("myxtts.commands.train.run_config", fail)
    assert main(["config"]) == code
    assert capsys.readouterr().err.startswith(message)


def test_a_bug_is_not_hidden(monkeypatch):
    def fail(arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("myxtts.commands.train.run_config", fail)
    with pytest.raises(ZeroDivisionError):
        main(["config"])


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_only_calls_its_command_from_any_folder(script, tmp_path):
    assert len((ROOT / script).read_text(encoding="utf-8").splitlines()) <= 30
    command = [sys.executable, str(ROOT / script), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: myxtts {SCRIPTS[script]} ")


def test_a_script_that_starts_tensorflow_prints_no_start_up_notices(tmp_path):
    command = [sys.executable, str(ROOT / "benchmark_gpu_utilization.py"), "--train-data", "nowhere", "--only", "steps"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    announced, problem = done.stderr.splitlines()
    assert announced.startswith("Compiling, ")
    assert problem.startswith("myxtts benchmark: ")


def test_watching_the_device_prints_a_reading(tmp_path):
    command = [sys.executable, str(ROOT / "gpu_monitor.py"), "--duration", "0.2", "--interval", "0.1", "--log-file"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CPU" in done.stdout
    assert len((tmp_path / "gpu_monitor.csv").read_text().splitlines()) >= 2


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of Unix closes the streams")
@pytest.mark.parametrize(
    ("closed", "words", "code", "error"),
    [
        (">&-", ["config"], 0, ""),
        ("2>&-", ["prepare", "nowhere"], 2, ""),
        ("<&-", ["say"], 2, "myxtts say: Standard input is empty. Expected text to speak.\n"),
        ("<&- >&-", ["voice", "show", "nowhere"], 2, "myxtts voice: nowhere is not a voice"),
    ],
)
def test_closed_standard_streams_are_empty(closed, words, code, error, tmp_path):
    command = ["sh", "-c", f'exec "$0" -m myxtts.cli "$@" {closed}', sys.executable, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == code
    assert (done.stdout, done.stderr[: len(error)]) == ("", error)
    assert "Traceback" not in done.stderr
