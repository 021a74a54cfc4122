"""The device does not oscillate between busy and idle: batches are loaded ahead, and regular stalls are found if there are any.

`python tests/test_gpu_oscillation_fix.py` prints what was checked; pytest runs the same tests.
"""

import itertools
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder tests/ only

from tests.check_script import run_as_script
from tests.training.small_runs import small_config

CYCLIC = "HIGH VARIATION DETECTED - Cyclic pattern identified!"
STALL_EVERY, STALL_SECONDS = 8, 0.7
"""Far longer than a step of the small network, also on a busy machine."""
BATCHES = 50
"""What the documents ask users to run."""


def test_batches_are_loaded_ahead_of_the_step_that_needs_them(tone_corpus, monkeypatch, record_property):
    from myxtts.batches.on_the_fly import PythonFrames
    from myxtts.diagnostics.trainer_diagnosis import trial_trainer

    loaded, load = [], PythonFrames.rows

    def counted(self, start, limit):
        loaded.append(start)
        return load(self, start, limit)

    monkeypatch.setattr(PythonFrames, "rows", counted)
    data = {"plan": "fixed", "batch_size": 2, "prefetch_buffer_size": 3, "use_tf_native_loading": False}
    with trial_trainer(small_config(tone_corpus, tone_corpus, data)) as trainer:
        trainer.task.steps.learn([next(trainer.task.feed)])
        deadline = time.monotonic() + 60
        while len(loaded) < 2 * 4 and time.monotonic() < deadline:
            time.sleep(0.01)
    record_property("clips loaded while one batch of 2 was trained on", len(loaded))
    assert len(loaded) >= 2 * (1 + 3)


def test_a_healthy_run_has_no_regular_stalls(tone_corpus, record_property):
    from myxtts.diagnostics.trainer_diagnosis import diagnose_bottleneck

    diagnosis = diagnose_bottleneck(small_config(tone_corpus, tone_corpus), BATCHES)
    summary = diagnosis.trial.summary
    record_property("steps", f"{summary.steps} of {summary.mean_seconds:.3f} s ± {summary.std_seconds:.3f} s")
    record_property("waiting for data", f"{summary.wait_fraction:.1%} of the time")
    assert diagnosis.stalls is None
    assert CYCLIC not in "\n".join(diagnosis.lines())


def test_a_loader_that_stalls_at_regular_distances_is_named_with_its_period(tone_corpus, monkeypatch, record_property):
    from myxtts.batches.feed import Feed
    from myxtts.diagnostics.trainer_diagnosis import diagnose_bottleneck

    calls, deliver = itertools.count(), Feed.__next__

    def stalling(self):
        if next(calls) % STALL_EVERY == 0:
            time.sleep(STALL_SECONDS)
        return deliver(self)

    monkeypatch.setattr(Feed, "__next__", stalling)
    diagnosis = diagnose_bottleneck(small_config(tone_corpus, tone_corpus), BATCHES)
    (line,) = (line for line in diagnosis.lines() if CYCLIC in line)
    record_property("reported", line)
    assert f"Every {STALL_EVERY} steps one takes" in line
    assert "waiting for data" in line
    assert "Fix: " in line
    assert diagnosis.exit_code == 1


if __name__ == "__main__":
    sys.exit(run_as_script(__file__))
