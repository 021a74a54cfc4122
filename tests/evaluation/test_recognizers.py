"""Recognisers: pocketsphinx in its own processes, and any command."""

import sys

import numpy as np
import pytest

from myxtts.audio.files import read_audio
from myxtts.corpus.manifest import read_manifest
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import EvaluationError
from myxtts.evaluation.metrics import count_errors, sum_errors
from myxtts.evaluation.recognizers import CommandRecogniser, PocketsphinxRecogniser
from tests.evaluation.made_up_voice import RATE, tone

TELL_LENGTH = "import sys, soundfile; s, r = soundfile.read(sys.argv[-1]); print(r, 'Hz', round(len(s) / r, 1), 's')"


@pytest.fixture
def tell_length(tmp_path):
    """A recogniser command that hears only how long a file is."""
    script = tmp_path / "hear it.py"
    script.write_text(TELL_LENGTH, encoding="utf-8")
    return f"'{sys.executable}' '{script}'"


def test_a_command_gets_16_khz_files_and_answers_in_order(tell_length):
    heard = CommandRecogniser(tell_length, workers=2).recognise([tone(0, 0.5), tone(0, 1.0)], RATE * 2)
    assert heard == ["16000 Hz 0.2 s", "16000 Hz 0.5 s"]


def test_the_place_of_the_file_in_a_command_can_be_chosen(tell_length):
    assert CommandRecogniser(tell_length + " --file {wav}").recognise([tone(0, 1.0)], RATE) == ["16000 Hz 1.0 s"]


def test_progress_counts_clips(tell_length):
    told = []
    CommandRecogniser(tell_length).recognise([tone(0)] * 2, RATE, told.append)
    assert told == [1, 2]


@pytest.mark.parametrize(
    "command", ["", "no-such-recogniser", "'unclosed", f"'{sys.executable}' -c 'raise SystemExit(3)'"]
)
def test_a_command_that_fails_is_explained(command):
    with pytest.raises(EvaluationError, match="recogniser command"):
        CommandRecogniser(command).recognise([tone(0)], RATE)


def test_pocketsphinx_understands_recordings_alike_in_any_order_and_number_of_processes():
    pytest.importorskip("pocketsphinx")
    utterances = read_manifest(bundled_corpus(), split="validation").utterances[:4]
    clips = [read_audio(each.path)[0] for each in utterances]
    clips.append(np.zeros(RATE, np.float32))
    heard = PocketsphinxRecogniser(workers=2).recognise(clips, RATE)
    assert heard[-1] == ""
    errors = sum_errors(count_errors(each.text, text, "en") for each, text in zip(utterances, heard, strict=False))
    assert errors.character_error < 0.3
    assert PocketsphinxRecogniser(workers=1).recognise(clips[::-1], RATE) == heard[::-1]


def test_a_missing_pocketsphinx_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        EvaluationError, match=r"the package pocketsphinx.*`pip install '\.\[evaluate\]'` in the project folder"
    ):
        PocketsphinxRecogniser()


def test_the_recognizer_starts_one_process_per_usable_core(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("psutil.Process.cpu_affinity", lambda process: [3, 5, 7], raising=False)
    assert PocketsphinxRecogniser()._workers == 3


def test_a_recognizer_process_that_dies_is_named_with_its_exit_code(monkeypatch, capfd):
    pytest.importorskip("pocketsphinx")
    monkeypatch.setattr("myxtts.evaluation.recognizers.WORKER_MODULE", "myxtts.no_such_module")
    with pytest.raises(EvaluationError, match=r"^The recognizer exited with code 1; see its output above\.$"):
        PocketsphinxRecogniser(workers=1).recognise([tone(0)], RATE)
    assert "no_such_module" in capfd.readouterr().err
