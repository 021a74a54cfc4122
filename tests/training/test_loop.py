"""The training loop: any task, its events and intervals, and what ends a run before its last step."""

import json
import threading
from types import SimpleNamespace

import pytest
import tensorflow as tf

from myxtts.errors import EvaluationError, TrainingError
from myxtts.runtime.compilation import RetraceWatch
from myxtts.runtime.status import read_status
from myxtts.runtime.timers import StageTimers, StepClock
from myxtts.training.checkpoint import checkpoints_in, load_checkpoint
from myxtts.training.loop import (
    FEWEST_DRAWN_STEPS,
    BackgroundEvaluation,
    EvaluationOutcome,
    Loop,
    LoopSettings,
    StopReason,
    take_steps,
)
from myxtts.training.run_recorder import Recorded, open_recorder
from myxtts.training.state import RunHistory
from myxtts.training.task import SavedCheckpoint, StepFacts
from myxtts.training.trainer import XTTSTrainer
from tests.training.small_runs import quiet_display, small_config, text_of


class CountingTask:
    """A task without a network: its loss falls with every step, and it records what the loop asks of it."""

    can_validate = True

    def __init__(self, folder, total_steps=6, has_evaluation=False, fails_at=None):
        self.folder, self.total_steps, self.has_evaluation, self._fails_at = (
            folder,
            total_steps,
            has_evaluation,
            fails_at,
        )
        self.step, self.history, self.calls, self.stops_at = 0, RunHistory(), [], None

    def next_batches(self):
        for thread in threading.enumerate():
            if thread.name == "evaluation":  # so that its result is picked up at a known step
                thread.join()
        return [self.step]

    def learn(self, batches):
        if self.step == self._fails_at:
            raise TrainingError("no more")
        self.step += 1
        return tf.constant([1.0 / self.step, 0.0, 10.0, 1.0])

    def describe(self, batches):
        return StepFacts(clips=[tf.constant([0])], frames=20, group=0)

    def check_retracing(self, batches):
        self.calls.append(("check", self.step))

    def confirm_stop(self, is_wanted, finished):
        return is_wanted or self.step == self.stops_at

    def validate(self, on_batch):
        self.calls.append(("validate", self.step))
        return {"loss": 1.0 / self.step}

    def lower_learning_rate(self):
        return None

    def save(self):
        self.calls.append(("save", self.step))
        return SavedCheckpoint(self.folder / f"step-{self.step}", SimpleNamespace(step=self.step))

    def mark_best(self, saved):
        self.calls.append(("best", saved.path.name))

    def evaluate(self, saved):
        self.calls.append(("evaluate", self.step))
        return {"cer": 0.5}

    def draw(self, log):
        self.calls.append(("draw", self.step))

    def sample(self, saved, log):
        self.calls.append(("sample", saved.path.name))
        return []


def settings(**changes):
    never = dict.fromkeys(
        ("validation_interval", "checkpoint_interval", "sample_interval", "evaluation_interval"), 1000
    )
    return LoopSettings(**{"log_interval": 2, "early_stopping_patience": None, "max_minutes": None} | never | changes)


def run_loop(task, display=None, **changes):
    display, clock = display or quiet_display(), StepClock()
    names = ("loss", "skipped", "frames", "loss_scale")
    run = Recorded(names, ["a clip"], 10, display, clock, RetraceWatch(), task.history)
    with open_recorder(task.folder, None, run) as recorder:
        return Loop(task, settings(**changes), recorder, display, clock, StageTimers()).run()


def test_the_loop_trains_any_task_and_leaves_its_last_state(tmp_path):
    task = CountingTask(tmp_path)
    result = run_loop(task)
    assert result.reason == StopReason.FINISHED
    assert [call for call in task.calls if call[0] != "check"] == [
        ("validate", 6), ("save", 6), ("best", "step-6"), ("sample", "step-6"),
    ]  # fmt: skip
    assert [step for name, step in task.calls if name == "check"] == [1, 2, 3, 4, 5, 6]
    train = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in train if entry["kind"] == "train"] == [2, 4, 6]
    assert read_status(tmp_path).state == "finished"


def test_events_come_at_their_intervals_and_the_evaluation_chooses_the_best(tmp_path):
    task = CountingTask(tmp_path, has_evaluation=True)
    run_loop(task, validation_interval=2, evaluation_interval=3, sample_interval=4)
    assert [call for call in task.calls if call[0] in ("validate", "evaluate", "best", "draw")] == [
        ("validate", 2), ("evaluate", 3), ("best", "step-3"), ("validate", 4), ("draw", 4), ("validate", 6), ("evaluate", 6),
    ]  # fmt: skip


def test_a_run_that_is_not_a_trial_ends_with_a_picture(tmp_path):
    task = CountingTask(tmp_path, total_steps=FEWEST_DRAWN_STEPS)
    run_loop(task)
    assert task.calls[-2:] == [("draw", task.step), ("sample", f"step-{task.step}")]


def test_a_stop_that_other_workers_want_ends_the_loop_as_a_signal(tmp_path):
    task = CountingTask(tmp_path)
    task.stops_at = 3
    result = run_loop(task)
    assert (result.reason, task.step) == (StopReason.SIGNAL, 3)
    assert ("validate", 3) not in task.calls  # a signal leaves no time for it


def test_a_step_that_fails_leaves_a_checkpoint_of_the_last_good_one(tmp_path):
    task = CountingTask(tmp_path, fails_at=3)
    with pytest.raises(TrainingError, match="no more"):
        run_loop(task)
    assert task.calls[-1] == ("save", 3)
    assert read_status(tmp_path).state == "failed"


def test_steps_report_the_metrics_of_the_step_before(tmp_path):
    clock, losses = StepClock(), []
    for taken in take_steps(CountingTask(tmp_path), clock, 3):
        losses.append(None if taken.finished is None else float(taken.finished[0]))
        clock.finish()
    assert losses == [None, 1.0, 0.5]
    assert clock.steps == 3


@pytest.fixture(scope="module")
def flat_run(corpus, tmp_path_factory):
    """A run whose validation loss is the same every time: its folder, its text and its summary."""
    folder = tmp_path_factory.mktemp("flat")
    config = small_config(
        corpus,
        folder,
        optimization_level="plateau_breaker",
        learning_rate=1e-3,
        warmup_steps=0,
        enable_graph_mode=False,
        max_steps=20,
        log_interval=1,
        validation_interval=1,
        checkpoint_interval=1,
        keep_checkpoints=3,
        early_stopping_patience=5,
    )
    trainer = XTTSTrainer(config, display=quiet_display())
    trainer.task.validate = lambda on_batch: {"loss": 2.0}
    summary = trainer.train()
    return folder, text_of(trainer.display), summary


def test_validations_without_improvement_end_the_run(flat_run):
    _, _, summary = flat_run
    assert summary.reason == StopReason.PATIENCE
    assert summary.step == 6  # the first is the best, then five that are not better


def test_a_flat_validation_loss_halves_the_learning_rate(flat_run):
    folder, text, _ = flat_run
    assert "Step 4: validation is flat, learning rate x 0.5." in text
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    rates = [entry["learning_rate"] for entry in entries if entry["kind"] == "train"]
    assert rates == pytest.approx([1e-3] * 4 + [5e-4] * 2)


def test_as_many_checkpoints_are_kept_as_asked_for_and_the_best(flat_run):
    folder, _, _ = flat_run
    assert [path.name for path in checkpoints_in(folder)] == ["step-00000004", "step-00000005", "step-00000006"]
    assert load_checkpoint(folder / "best").step == 1


def test_max_minutes_end_the_run_with_a_checkpoint(corpus, tmp_path):
    config = small_config(corpus, tmp_path, max_minutes=1e-6, max_steps=50, enable_graph_mode=False)
    summary = XTTSTrainer(config, display=quiet_display()).train()
    assert summary.reason == StopReason.TIME
    assert summary.step == 1
    assert load_checkpoint(summary.checkpoint).step == 1


def test_training_continues_during_an_evaluation_which_then_chooses_the_best_checkpoint(corpus, tmp_path):
    taken = threading.Event()
    asked = []

    def evaluate(voice):
        asked.append((voice / "voice.json").is_file())
        assert taken.wait(300)  # the evaluated checkpoint has been removed by then
        return {"cer": 0.2}

    config = small_config(
        corpus,
        tmp_path,
        max_steps=6,
        evaluation_interval=2,
        checkpoint_interval=1,
        keep_checkpoints=1,
        enable_graph_mode=False,
    )
    display = quiet_display()
    trainer = XTTSTrainer(config, display=display, evaluate=evaluate)
    learn = trainer.task.learn

    def learn_and_tell(batches):
        if trainer.step == 5:
            taken.set()
        return learn(batches)

    trainer.task.learn = learn_and_tell
    trainer.train()
    text = text_of(display)
    assert asked[0]
    assert "Step 4: not evaluated, because the evaluation of step-00000002 is still running." in text
    assert "Step 2: evaluation cer 0.200" in text
    assert load_checkpoint(tmp_path / "best").step == 2
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-00000006"]
    assert load_checkpoint(tmp_path / "step-00000006").progress["best_evaluation"] == 0.2


def test_a_failed_evaluation_is_reported_and_training_continues(tmp_path):
    task = CountingTask(tmp_path, has_evaluation=True)

    def evaluate(saved):
        raise EvaluationError("The recognizer is gone.")

    task.evaluate = evaluate
    display = quiet_display()
    result = run_loop(task, display, evaluation_interval=3)
    assert result.reason == StopReason.FINISHED
    assert "The evaluation of step-3 failed: The recognizer is gone. Training continues." in text_of(display)


SECONDS = 60


def test_one_runs_at_a_time_and_its_outcome_is_taken_once():
    go = threading.Event()
    evaluation = BackgroundEvaluation(lambda what: {"cer": float(go.wait(SECONDS)) * what})
    assert evaluation.take() is None
    assert evaluation.start(1)
    assert not evaluation.start(2)
    assert (evaluation.take(), evaluation.running) == (None, 1)
    go.set()
    assert evaluation.take(SECONDS) == EvaluationOutcome(1, {"cer": 1.0})
    assert (evaluation.take(), evaluation.running) == (None, None)
    assert evaluation.start(2)
    assert evaluation.take(SECONDS) == EvaluationOutcome(2, {"cer": 2.0})


@pytest.mark.parametrize(
    ("error", "failure"), [(EvaluationError("No recognizer."), "No recognizer."), (OSError(28, "full"), "disk is full")]
)
def test_expected_errors_are_outcomes(error, failure):
    def fail(what):
        raise error

    evaluation = BackgroundEvaluation(fail)
    evaluation.start("a voice")
    outcome = evaluation.take(SECONDS)
    assert outcome.metrics is None
    assert failure in outcome.failure


def test_a_mistake_in_the_program_is_raised_where_the_outcome_is_taken():
    evaluation = BackgroundEvaluation(lambda what: {}[what])
    evaluation.start("a voice")
    with pytest.raises(KeyError):
        evaluation.take(SECONDS)
