"""The benchmarks start as scripts and as modules, and their harness compares fairly."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cloning, harness
from myxtts.audio.clips import estimate_bandwidth, estimate_snr
from myxtts.audio.files import read_audio
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.corpus.corpus import bundled_corpus
from myxtts.text.tokenizer import FrontEnd

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


def test_a_benchmark_imports_its_neighbors_by_their_full_name():
    """`from harness import …` works in a script only, not with `python -m benchmarks.NAME`."""
    neighbors = {path.stem for path in BENCHMARKS}
    for path in BENCHMARKS:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not imported & neighbors, path


@pytest.mark.parametrize("command", [["benchmarks/loader.py"], ["-m", "benchmarks.loader"]], ids=["script", "module"])
def test_a_benchmark_starts_as_a_script_and_as_a_module(command):
    pytest.importorskip("librosa")
    done = subprocess.run([sys.executable, *command, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout[:6]) == (0, "usage:"), done.stderr


def test_the_baseline_of_prepare_does_the_same_work():
    """Mel, bandwidth and noise by librosa and NumPy are those of `prepare`."""
    pytest.importorskip("librosa")
    from benchmarks.librosa_mel import bandwidth_of, mel_of, read_samples, snr_of

    recordings = sorted((bundled_corpus() / "wavs").iterdir())[:100:10]
    for recording in recordings:
        samples, rate = read_audio(recording)
        spec = MelSpec(rate)
        np.testing.assert_array_equal(read_samples(str(recording), rate), samples)
        mel = mel_of(samples, rate, spec.n_fft, spec.hop_length, spec.n_mels, spec.log_floor)
        inside = slice(2, -2)  # at the edges librosa pads with zeros, and we reflect
        np.testing.assert_allclose(mel[inside], mel_numpy(samples, spec)[inside], atol=1e-3)
        assert bandwidth_of(samples, rate) == estimate_bandwidth(samples, rate)
        assert snr_of(samples, rate) == pytest.approx(estimate_snr(samples, rate), abs=1e-4)


def test_every_contender_runs_in_every_round_and_the_first_one_changes(monkeypatch):
    monkeypatch.setattr(harness, "wait_until_idle", lambda: 0.0)
    calls = []
    contenders = {name: lambda name=name: calls.append(name) or 1.0 for name in "abc"}
    rates = harness.interleaved(contenders, 3)
    assert calls == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert {name: len(values) for name, values in rates.items()} == {"a": 3, "b": 3, "c": 3}


def test_work_after_a_turn_lowers_the_rate_of_its_contender(monkeypatch):
    monkeypatch.setattr(harness, "wait_until_idle", lambda: 10.0)
    assert harness.interleaved({"slow": lambda: 1.0}, 1)["slow"][0] < 0.1


def test_ratios_are_taken_round_by_round():
    rates = {"ours": [2.0, 30.0, 4.0], "theirs": [1.0, 10.0, 1.0]}
    assert str(harness.ratio(rates, "ours", "theirs")) == "3 (2 – 4)"


def test_cloning_skips_languages_that_need_espeak_where_it_is_missing(monkeypatch, capsys):
    monkeypatch.setattr("myxtts.text.phonemes.is_installed", lambda: False)
    front_end = FrontEnd("phonemes", phonemizer="myxtts")
    assert cloning.speakable_languages(["en", "de", "fa"], front_end) == ["en", "fa"]
    printed = capsys.readouterr().out
    assert printed.startswith("Skipped: This voice in German (de) ")
    assert printed.count("\n") == 1


def test_results_are_written_as_one_flat_object(tmp_path):
    harness.write_json(tmp_path / "results.json", {"ratio": 1.5})
    assert json.loads((tmp_path / "results.json").read_text()) == {"ratio": 1.5}
    harness.write_json(None, {"ratio": 1.5})
