"""What a run writes about itself: all of it arrives, and what cannot be written is reported once and stops nothing."""

import errno
import json
import time

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from myxtts.errors import TextError, TrainingError
from myxtts.runtime import safe_files as disk
from myxtts.runtime import status as status_module
from myxtts.runtime.compilation import RetraceWatch
from myxtts.runtime.safe_files import append_whole
from myxtts.runtime.status import STATUS_FILE, read_status, read_steps
from myxtts.runtime.timers import StepClock
from myxtts.training import run_log as logbook_module
from myxtts.training import run_recorder as recorder_module
from myxtts.training.run_log import TensorBoardFile
from myxtts.training.run_recorder import RECENT_STEPS, Recorded, open_recorder
from myxtts.training.state import RunHistory
from myxtts.training.steps import METRICS
from myxtts.training.trainer import XTTSTrainer
from tests.cache.full_disk import largest_file
from tests.training.small_runs import quiet_display, small_config, text_of

CLIP_IDS = [f"clip-{number}" for number in range(20)]
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def make_recorder(tmp_path):
    made = []

    def make(nonfinite_limit=25):
        display, clock, watch, history = quiet_display(), StepClock(), RetraceWatch(), RunHistory()
        recorder = open_recorder(
            tmp_path / "run", None, Recorded(METRICS, CLIP_IDS, nonfinite_limit, display, clock, watch, history)
        )
        made.append(recorder)
        return recorder

    yield make
    for recorder in made:
        recorder.close("finished")


def shown_by(recorder):
    return text_of(recorder._run.display)


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def add_step(recorder, step, clips=(0, 1, -1), **metrics):
    """One step with a finite loss, unless stated otherwise."""
    values = {"loss": 2.0, "frames": 50.0, "loss_scale": 1.0} | metrics
    vector = tf.constant([values.get(name, 0.0) for name in METRICS])
    recorder.add(step, vector, [tf.constant([clips])], batch_frames=100)


def raises(error):
    def fail(*_, **__):
        raise error

    return fail


# --- a run's own files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished_run(corpus, tmp_path_factory):
    """Four steps with validation, pictures and spoken sentences after the second."""
    run = tmp_path_factory.mktemp("recorded") / "run"
    config = small_config(corpus, run, max_steps=4, validation_interval=2, sample_interval=2, enable_graph_mode=False)
    XTTSTrainer(config, display=quiet_display()).train()
    return run


def test_the_log_has_the_documented_metrics(finished_run):
    entries = log_of(finished_run)
    train = [entry for entry in entries if entry["kind"] == "train"]
    assert [entry["step"] for entry in train] == [2, 4]
    assert set(train[0]) == {
        "kind", "step", "loss", "flow", "prior", "duration", "speaker", "pitch", "gradient_norm", "learning_rate", "loss_scale",
        "useful_frames_per_second", "padding_share", "wait_share", "step_seconds", "skipped_steps", "scaled_down_steps",
        "retraces",
    }  # fmt: skip
    assert all(np.isfinite(value) for entry in train for name, value in entry.items() if name != "kind")
    assert train[1]["useful_frames_per_second"] > 0
    assert 0 <= train[1]["padding_share"] < 1
    validation = [entry for entry in entries if entry["kind"] == "validation"]
    assert [entry["step"] for entry in validation] == [2, 4]
    assert {"loss", "flow", "prior", "duration", "duration_scale"} <= set(validation[0])


def test_tensorboard_gets_curves_pictures_and_sound(finished_run):
    found = EventAccumulator(str(finished_run / "tensorboard")).Reload()
    first = next(entry for entry in log_of(finished_run) if entry["kind"] == "train")
    curves = {f"train/{name}" for name in first if name not in ("kind", "step")}
    assert curves <= set(found.Tags()["scalars"])
    assert [event.step for event in found.Scalars("train/loss")] == [2, 4]
    logged = [entry["loss"] for entry in log_of(finished_run) if entry["kind"] == "train"]
    assert [event.value for event in found.Scalars("train/loss")] == pytest.approx(logged, abs=1e-5)
    (picture,) = found.Images("alignment")
    pixels = tf.io.decode_png(picture.encoded_image_string).numpy()
    assert (picture.step, pixels.shape) == (2, (480, 800, 3))
    assert pixels.std() > 10
    assert "sample/en-0" in found.Tags()["audio"]
    (sound,) = found.Audio("sample/en-0")
    samples, rate = tf.audio.decode_wav(sound.encoded_audio_string)
    assert (sound.step, sound.content_type, sound.sample_rate) == (2, "audio/wav", int(rate))
    assert sound.length_frames == len(samples) > 1000


def test_the_status_of_a_finished_run_accounts_for_all_of_its_time(finished_run):
    account = read_status(finished_run).account
    assert {"corpus", "network", "steps_device", "validation", "checkpoint", "samples", "other"} <= set(account)
    assert all(seconds >= 0 for seconds in account.values())


def test_the_account_is_shown_and_kept(make_recorder, tmp_path):
    recorder = make_recorder()
    recorder.show_account({"steps_device": 3.0, "other": 1.0})
    recorder.close("finished")
    assert "3.0 s  75.0%" in shown_by(recorder)
    assert "whole run" in shown_by(recorder)
    assert read_status(tmp_path / "run").account == {"steps_device": 3.0, "other": 1.0}


def test_every_step_is_in_the_file_of_steps(finished_run):
    assert read_steps(finished_run)["step"].tolist() == [1, 2, 3, 4]
    assert (read_status(finished_run).state, read_status(finished_run).step) == ("finished", 4)


# --- a disk that is full ----------------------------------------------------------------------------------------------


def test_what_cannot_be_written_is_reported_once_and_training_continues(make_recorder, monkeypatch):
    recorder = make_recorder()
    for module in (logbook_module, status_module):
        monkeypatch.setattr(module, "append_whole", raises(FULL))
    monkeypatch.setattr(TensorBoardFile, "_append", raises(FULL))
    for step in (1, 2, 3):
        add_step(recorder, step)
        recorder.status.add_step(step, 0.1, 0.1, 0.1, group=0)
        recorder.flush()
        with recorder.state("validating"):
            pass
    recorder.close("finished")
    lines = shown_by(recorder).splitlines()
    assert sorted(line.split()[1] for line in lines) == ["file", "log", "status"]
    for line in lines:
        assert (
            "cannot be written: the disk is full. Training continues; it is written again when there is space." in line
        )


def test_a_run_on_a_device_that_is_always_full_continues(make_recorder, tmp_path):
    folder = tmp_path / "run"
    recorder = make_recorder()
    for name in ("log.jsonl", "steps.csv"):
        (folder / name).symlink_to("/dev/full")
    add_step(recorder, 1)
    recorder.status.add_step(1, 0.1, 0.1, 0.1, group=0)
    recorder.flush()
    recorder.close("finished")
    assert shown_by(recorder).count("the disk is full") == 2
    assert EventAccumulator(str(folder / "tensorboard")).Reload().Scalars("train/loss")


def test_a_whole_run_survives_logs_that_cannot_be_written(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(logbook_module, "append_whole", raises(FULL))
    monkeypatch.setattr(status_module, "append_whole", raises(FULL))
    monkeypatch.setattr(TensorBoardFile, "_append", raises(FULL))
    display = quiet_display()
    trainer = XTTSTrainer(small_config(corpus, tmp_path / "run", max_steps=4, enable_graph_mode=False), display=display)
    assert trainer.train().step == 4
    assert text_of(display).count("the disk is full") == 3


def test_an_append_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    append_whole(path, b"first\n", header=b"head\n")
    with largest_file(5000), pytest.raises(OSError, match="too large") as caught:
        append_whole(path, b"x" * 6000)
    assert disk.cause_of(caught.value) == "the disk is full"
    append_whole(path, b"second\n", header=b"head\n")
    assert path.read_bytes() == b"head\nfirst\nsecond\n"


def test_steps_wait_for_space_and_none_is_written_twice(make_recorder, tmp_path, monkeypatch):
    recorder = make_recorder()
    recorder.status.add_step(1, 0.1, 0.1, 0.1, group=0)
    with monkeypatch.context() as full:
        full.setattr(status_module, "append_whole", raises(FULL))
        recorder._update_status(force=True)
    recorder.status.add_step(2, 0.1, 0.1, 0.1, group=3)
    recorder._update_status(force=True)
    steps = read_steps(tmp_path / "run")
    assert steps["step"].tolist() == [1, 2]
    assert steps["group"].tolist() == [0, 3]


def test_a_status_that_does_not_fit_leaves_the_old_one(make_recorder, tmp_path):
    recorder = make_recorder()
    recorder._update_status(force=True, state="training", step=3)
    with largest_file(5000):
        recorder._update_status(force=True, step=4, figures={"loss": "9" * 6000})
    assert read_status(tmp_path / "run").step == 3
    assert not (tmp_path / "run" / f"{STATUS_FILE}.new").exists()
    assert "The status" in shown_by(recorder)
    recorder._update_status(force=True, step=5, figures={})
    assert read_status(tmp_path / "run").step == 5


def test_a_folder_that_cannot_be_made_is_explained_before_the_first_step(make_recorder, tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(
        TrainingError, match=r"cannot be created: File exists\. Choose another training\.checkpoint_dir"
    ):
        make_recorder()


@pytest.mark.parametrize("error", [FULL, TextError("No sentence for this voice.")])
def test_background_work_that_fails_is_one_line_however_often(make_recorder, error):
    recorder = make_recorder()
    for _ in range(3):
        recorder.logbook.submit(raises(error), "Spoken samples")
    recorder.close("finished")
    cause = "the disk is full." if error is FULL else "No sentence for this voice."
    assert shown_by(recorder).splitlines() == [f"Spoken samples could not be created: {cause} Training continues."]


def test_a_defect_in_background_work_surfaces_at_the_end_and_the_rest_is_written(make_recorder, tmp_path):
    recorder = make_recorder()
    recorder.logbook.submit(raises(ZeroDivisionError("ours")))
    add_step(recorder, 1)
    recorder.flush()
    with pytest.raises(ZeroDivisionError, match="ours"):
        recorder.logbook.close()
    recorder.logbook._error = None
    assert [entry["step"] for entry in log_of(tmp_path / "run")] == [1]


def test_draining_waits_for_what_was_submitted_before(make_recorder):
    recorder, done = make_recorder(), []
    recorder.logbook.submit(lambda: (time.sleep(0.2), done.append("a slow sample")))
    recorder.logbook.drain()
    assert done == ["a slow sample"]


# --- steps that were skipped ------------------------------------------------------------------------------------------


def test_a_skipped_step_is_counted_shown_and_logged_with_its_clips(make_recorder, tmp_path):
    recorder = make_recorder()
    add_step(recorder, 1)
    add_step(recorder, 2, clips=(3, 7, -1), loss=float("nan"), skipped=1.0)
    recorder.flush()
    assert "Step 2 was skipped: loss nan or its gradient is not finite. Clips: clip-3, clip-7." in shown_by(recorder)
    recorder.close("finished")
    skipped, train = log_of(tmp_path / "run")
    assert skipped == {"kind": "skipped", "step": 2, "loss": "nan", "loss_scale": 1, "clips": ["clip-3", "clip-7"]}
    assert (train["skipped_steps"], train["scaled_down_steps"], train["loss"]) == (1, 0, 2)


def test_metrics_are_shown_before_the_first_log_entry(make_recorder):
    recorder, shown = make_recorder(), []
    recorder._run.display.metrics = shown.append
    finished = np.array([{"loss": 3.0, "frames": 50.0}.get(name, 0.0) for name in METRICS])
    recorder.show_first_steps(finished)
    assert [metrics.loss for metrics in shown] == [3.0]
    add_step(recorder, 1)
    recorder.flush()
    recorder.show_first_steps(finished)
    assert [metrics.loss for metrics in shown] == [3.0, 2.0]


def test_the_limit_ends_the_run_with_advice(make_recorder):
    recorder = make_recorder(nonfinite_limit=3)
    for step in (1, 2, 3):
        add_step(recorder, step, loss=float("inf"), skipped=1.0)
    with pytest.raises(TrainingError, match=r"3 of the last 1,000 steps.*limit is 3.*lower --lr.*names the layer"):
        recorder.flush()


def test_overflows_that_the_loss_scale_answers_never_end_a_run(make_recorder, tmp_path):
    recorder = make_recorder(nonfinite_limit=3)
    for step in range(1, 50):
        add_step(recorder, step, skipped=1.0, loss_scale=2.0**15, gradient_norm=float("inf"))
        add_step(recorder, step, loss_scale=2.0**14, gradient_norm=4.0)
        recorder.flush()
    assert recorder.scaled_down_steps == 49
    assert shown_by(recorder) == ""
    recorder.close("finished")
    entries = log_of(tmp_path / "run")
    assert entries[0] == {
        "kind": "scaled_down",
        "step": 1,
        "loss": 2,
        "loss_scale": 32768,
        "clips": ["clip-0", "clip-1"],
    }
    assert (entries[1]["scaled_down_steps"], entries[1]["skipped_steps"], entries[1]["gradient_norm"]) == (1, 0, 4)


@pytest.mark.parametrize(
    "metrics", [{"loss_scale": 1.0}, {"loss": float("nan"), "loss_scale": 2.0**15}], ids=["scale at its lowest", "loss"]
)
def test_what_no_loss_scale_can_fix_counts_against_the_limit(make_recorder, metrics):
    recorder = make_recorder(nonfinite_limit=2)
    for step in (1, 2):
        add_step(recorder, step, skipped=1.0, **metrics)
    with pytest.raises(TrainingError, match="nonfinite_limit"):
        recorder.flush()


def test_skipped_steps_long_ago_do_not_count_against_the_limit(make_recorder):
    recorder = make_recorder(nonfinite_limit=2)
    recorder._run.history.skipped_steps = 100  # of the runs that this one resumes
    for step in (1, 1 + RECENT_STEPS):
        add_step(recorder, step, loss=float("nan"), skipped=1.0)
        recorder.flush()
    add_step(recorder, 1 + RECENT_STEPS + RECENT_STEPS // 2, loss=float("nan"), skipped=1.0)
    with pytest.raises(TrainingError, match="2 of the last"):
        recorder.flush()


def test_a_network_that_has_diverged_ends_its_run_with_the_clips_and_advice(corpus, tmp_path):
    display = quiet_display()
    config = small_config(corpus, tmp_path / "run", max_steps=20, nonfinite_limit=4, enable_graph_mode=False)
    trainer = XTTSTrainer(config, display=display)
    trainer.task.state.weights[0].assign(trainer.task.state.weights[0] * float("nan"))
    with pytest.raises(TrainingError, match="4 of the last 1,000 steps were skipped"):
        trainer.train()
    assert "Step 1 was skipped: loss nan" in text_of(display)
    logged = [entry for entry in log_of(tmp_path / "run") if entry["kind"] == "skipped"]
    assert [entry["step"] for entry in logged] == [1, 2, 3, 4]
    assert set(logged[0]["clips"]) <= set(trainer.task.corpus.cache.ids)
    assert logged[0]["clips"]
    assert read_status(tmp_path / "run").state == "failed"


# --- states, fractions ------------------------------------------------------------------------------------------


def test_states_are_written_while_they_last(make_recorder, tmp_path):
    recorder = make_recorder()
    add_step(recorder, 6)
    with recorder.state("validating"):
        within = read_status(tmp_path / "run")
    assert (within.state, within.step) == ("validating", 6)
    recorder._update_status(force=True)
    assert read_status(tmp_path / "run").state == "training"


def test_work_for_the_log_outside_of_it_counts_as_logging(make_recorder, monkeypatch):
    recorder = make_recorder()
    moments = iter([10.0, 12.5])
    monkeypatch.setattr(recorder_module.time, "perf_counter", lambda: next(moments))
    with recorder.counted_as_logging():
        pass
    assert recorder.seconds == 2.5


def test_a_pause_between_two_entries_does_not_change_the_speed(make_recorder, monkeypatch):
    recorder = make_recorder()
    now = 0.0
    monkeypatch.setattr(recorder_module.time, "perf_counter", lambda: now)
    recorder.resume_clock()
    for step, seconds in ((1, 1.0), (2, 1.0)):
        now += seconds
        add_step(recorder, step)
        now += 100.0  # a validation
        recorder.resume_clock()
    recorder.flush()
    assert recorder.last_metrics["useful_frames_per_second"] == 50.0
