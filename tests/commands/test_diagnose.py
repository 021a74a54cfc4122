"""`myxtts diagnose run` and `monitor`: where reports go, and which exit code a caller gets."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from myxtts.cli import EXIT_USER_ERROR, main
from myxtts.commands.config_flags import ONLY_WHOLE_RUNS
from myxtts.commands.diagnose import _summary_to_json
from myxtts.runtime.timers import summarize
from tests.commands.command_line import failure_of


@pytest.fixture
def observed_script(monkeypatch):
    """A script run that found a problem; the script itself exited with 3."""
    run = SimpleNamespace(
        outcome="exited",
        script_exit_code=3,
        explanation="The script exited.",
        report=None,
        text="the report\n",
        exit_code=1,
    )
    monkeypatch.setattr("myxtts.diagnostics.observe.script.run_script", lambda *_, **__: run)


@pytest.mark.usefixtures("observed_script")
@pytest.mark.parametrize(
    ("words", "code"), [([], 1), (["--exit-code", "script"], 3), (["--exit-code", "diagnosis"], 1)]
)
def test_the_exit_code_is_that_of_the_diagnosis_or_of_the_script(words, code, capsys):
    assert main(["diagnose", "run", *words, "train.py"]) == code
    assert capsys.readouterr().out == "\nThe script exited. Its exit code: 3.\n\nthe report\n"


@pytest.mark.usefixtures("observed_script")
def test_json_on_standard_output_is_alone_there(capsys):
    assert main(["diagnose", "run", "--json", "-", "train.py"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["script_exit_code"] == 3
    assert "the report" in printed.err


@pytest.mark.usefixtures("observed_script")
def test_a_report_is_written_whole_or_not_at_all(tmp_path, capsys):
    path = tmp_path / "report.json"
    assert main(["diagnose", "run", "--json", str(path), "train.py"]) == 1
    assert json.loads(path.read_text(encoding="utf-8"))["script"] == "train.py"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]
    assert main(["diagnose", "run", "--json", str(tmp_path / "no" / "report.json"), "train.py"]) == EXIT_USER_ERROR
    assert "The report cannot be written" in capsys.readouterr().err


def test_ctrl_c_ends_the_monitor_and_keeps_its_log(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("myxtts.diagnostics.monitor.readings", interrupted)
    log = tmp_path / "log.csv"
    assert main(["monitor", "--log-file", str(log)]) == 0
    assert f"Logged to {log}" in capsys.readouterr().out
    assert log.exists()


def test_an_interval_of_zero_is_rejected(capsys):
    main(["monitor", "--interval", "0", "--duration", "1"])
    assert "The interval must be more than 0 seconds" in capsys.readouterr().err


def test_a_missing_script_is_one_line(capsys):
    assert "nowhere.py" in failure_of(capsys, "diagnose", "run", "nowhere.py")


def test_the_fractions_of_the_step_time_keep_their_keys_in_json():
    summary = summarize(np.full((4, 3), 0.1))
    content = _summary_to_json(summary)
    assert {"wait_share", "host_share", "device_share"} < set(content)
    assert content["wait_share"] == summary.wait_fraction


@pytest.mark.parametrize("command", [["diagnose", "retracing"], ["benchmark"]])
@pytest.mark.parametrize("flag", ONLY_WHOLE_RUNS)
def test_a_trial_has_no_flags_without_an_effect(command, flag, capsys):
    with pytest.raises(SystemExit):
        main([*command, flag, "1"])
    assert f"unrecognized arguments: {flag}" in capsys.readouterr().err
