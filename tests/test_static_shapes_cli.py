"""The flags for static shapes, as `train_main.py` takes them: what they set, what a run prints, what it trains on.

`python tests/test_static_shapes_cli.py` prints what was checked; pytest runs the same tests.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder tests/ only

from tests.check_script import run_as_script, tensorflow_lines
from tests.training.small_runs import small_config

ROOT = Path(__file__).resolve().parents[1]


def printed_config(capsys, *flags):
    from myxtts.cli import main

    assert main(["config", *flags]) == 0
    return yaml.safe_load(capsys.readouterr().out)["data"]


@pytest.mark.parametrize("flag", ["--enable-static-shapes", "--pad-to-fixed-length"])
def test_both_flags_set_one_fixed_shape(capsys, flag, record_property):
    data = printed_config(capsys, flag)
    record_property("lengths", f"{data['max_text_length']} symbols, {data['max_mel_frames']} frames")
    assert (data["plan"], data["pad_to_fixed_length"]) == ("fixed", True)
    assert (data["max_text_length"], data["max_mel_frames"]) == (200, 800)


def test_the_lengths_of_the_fixed_shape_can_be_chosen(capsys):
    data = printed_config(capsys, "--enable-static-shapes", "--max-text-length", "120", "--max-mel-frames", "500")
    assert (data["max_text_length"], data["max_mel_frames"]) == (120, 500)


def test_shapes_that_are_not_static_must_be_asked_for(capsys):
    assert printed_config(capsys)["plan"] != "dynamic"
    assert printed_config(capsys, "--disable-static-shapes")["plan"] == "dynamic"


def test_a_flag_wins_over_the_file(capsys, tmp_path):
    (tmp_path / "config.yaml").write_text("data: {plan: dynamic}\n", encoding="utf-8")
    data = printed_config(capsys, "--config", str(tmp_path / "config.yaml"), "--enable-static-shapes")
    assert data["plan"] == "fixed"


def test_contradicting_flags_are_refused_with_one_line(capsys):
    from myxtts.cli import main

    assert main(["train", "--enable-static-shapes", "--plan", "packed"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def run_train_main(tone_corpus, run, *flags):
    from myxtts.config.load import config_to_dict

    config = config_to_dict(small_config(tone_corpus, run, max_steps=3, log_interval=1))
    run.mkdir()
    (run / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "train_main.py", "--config", str(run / "config.yaml"), *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_a_run_with_static_shapes_says_so_and_trains_on_that_shape(tone_corpus, tmp_path, record_property):
    flags = ["--enable-static-shapes", "--batch-size", "2", "--max-text-length", "40", "--max-mel-frames", "80"]
    done = run_train_main(tone_corpus, tmp_path / "run", *flags)
    assert done.returncode == 0, done.stderr
    assert tensorflow_lines(done.stderr) == []
    lines = done.stdout.splitlines()
    start = lines.index("=== Final Training Configuration ===")
    promised = lines[start + 1 : start + 5]
    record_property("printed", " | ".join(promised))
    assert promised == [
        "Static shapes (pad_to_fixed_length): True",
        "✅ ENABLED - This prevents tf.function retracing and stabilizes GPU utilization",
        "Max text length: 40",
        "Max mel frames: 80",
    ]
    (compiled,) = (line for line in lines if line.startswith("Compiled step"))
    record_property("compiled", compiled)
    assert "(2 rows x 40 tokens x 80 frames)" in compiled
    assert "RETRACING" not in done.stdout


def test_a_run_without_static_shapes_does_not_claim_them(tone_corpus, tmp_path):
    done = run_train_main(tone_corpus, tmp_path / "run", "--disable-static-shapes")
    assert done.returncode == 0, done.stderr
    assert "Static shapes (pad_to_fixed_length): False" in done.stdout
    assert "ENABLED" not in done.stdout
    assert "RETRACING detected at step" in done.stdout


if __name__ == "__main__":
    sys.exit(run_as_script(__file__))
