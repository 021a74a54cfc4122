"""Voices measured in a process of its own, which ends with all that it has started."""

import os
import sys
import threading
import time

import psutil
import pytest

from myxtts.errors import EvaluationError
from myxtts.evaluation.evaluation_worker import open_evaluation
from myxtts.evaluation.sentence_sets import Sentence
from myxtts.runtime.worker_process import NICENESS
from tests.synthesis.tiny_voice import write_voice

pytest.importorskip("rapidfuzz")
SENTENCES = (Sentence("one", "hello there"), Sentence("two", "good morning"))
SECONDS = 300


def test_a_voice_is_measured_and_a_broken_one_is_a_clear_error(tmp_path):
    voice = write_voice(tmp_path / "voice")
    with open_evaluation(SENTENCES, "command:sh -c 'echo hello there'") as evaluate:
        metrics = evaluate(voice)
        assert metrics["wer"] == pytest.approx(0.5)
        assert evaluate(voice) == metrics
        (voice / "voice.onnx").write_bytes(b"no model")
        with pytest.raises(EvaluationError, match=r"could not be measured: .*voice\.onnx"):
            evaluate(voice)


def test_closing_ends_the_process_and_the_recognizer_that_it_waits_for(tmp_path):
    voice, asked = write_voice(tmp_path / "voice"), tmp_path / "asked"
    script = tmp_path / "recognizer.py"
    script.write_text(
        f"import os, time\nopen({str(asked)!r}, 'w').write(f'{{os.getpid()}} {{os.nice(0)}}\\n')\ntime.sleep(3600)\n"
    )
    evaluation = open_evaluation(SENTENCES, f"command:{sys.executable} {script}")
    errors = []

    def measure():
        try:
            evaluation(voice)
        except EvaluationError as error:
            errors.append(str(error))

    thread = threading.Thread(target=measure)
    thread.start()
    deadline = time.monotonic() + SECONDS
    while not (asked.is_file() and asked.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        assert thread.is_alive(), errors
        time.sleep(0.05)
    recognizer, niceness = map(int, asked.read_text().split())
    assert niceness >= min(19, os.nice(0) + NICENESS)
    evaluation.close()
    thread.join(SECONDS)
    assert not thread.is_alive()
    psutil.wait_procs([psutil.Process(recognizer)] if psutil.pid_exists(recognizer) else [], timeout=30)
    assert not psutil.pid_exists(recognizer) or psutil.Process(recognizer).status() == psutil.STATUS_ZOMBIE
    assert len(errors) == 1


def test_a_recognizer_that_does_not_exist_is_reported_at_once():
    with pytest.raises(EvaluationError, match="Unknown recognizer"):
        open_evaluation(SENTENCES, "wishper")


def test_nothing_to_measure_on_is_reported_at_once():
    with pytest.raises(EvaluationError, match="No clip is held out"):
        open_evaluation([], "command:true")
