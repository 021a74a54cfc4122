"""Auto-tune: what is chosen from measurements, and that a choice is remembered."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
import tensorflow as tf

from myxtts.runtime import machine
from myxtts.training import autotune, voice_task
from myxtts.training.autotune import (
    FILE_NAME,
    LoaderTrial,
    MemoryMeter,
    StepTrial,
    choose_batch_size,
    choose_loader,
    is_worth_trying_more,
    time_steps,
)
from tests.training.small_runs import text_of

GIB = 2**30


def test_the_fewest_threads_that_are_nearly_the_fastest_are_chosen():
    trials = [LoaderTrial(1, 0.010, 0.012), LoaderTrial(2, 0.0052, 0.030), LoaderTrial(4, 0.005, 0.02)]
    threads, depth, reason = choose_loader(trials)
    assert (threads, depth) == (2, 6)
    assert reason.startswith("2 loader threads (time per batch by threads: 1: 10.00 ms, 2: 5.20 ms, 4: 5.00 ms)")
    assert choose_loader([LoaderTrial(1, 0.001, 1.0)])[1] == 16
    assert choose_loader([LoaderTrial(1, 0.001, 1.0)])[2].startswith("1 loader thread (")
    assert choose_loader([LoaderTrial(1, 0.001, 0.001)])[1] == 2


def test_the_smallest_batch_that_is_nearly_the_fastest_and_fits_is_chosen():
    trials = [
        StepTrial(4, 500, GIB),
        StepTrial(8, 950, 2 * GIB),
        StepTrial(16, 1000, 4 * GIB),
        StepTrial(32, 2000, 20 * GIB),
    ]
    assert choose_batch_size(trials, 16 * GIB)[0] == 8
    assert choose_batch_size(trials, 64 * GIB)[0] == 32
    assert choose_batch_size([*trials[:2], StepTrial(16, 0, None)], 16 * GIB)[0] == 8
    assert choose_batch_size([StepTrial(4, 0, None)], GIB) == (
        4, "4 clips per batch: even that takes more than 80% of the free memory",
    )  # fmt: skip


def test_larger_batches_are_tried_while_they_gain_and_fit():
    first = StepTrial(4, 500, GIB)
    assert is_worth_trying_more([first], 16 * GIB)
    assert is_worth_trying_more([first, StepTrial(8, 900, GIB)], 16 * GIB)
    assert not is_worth_trying_more([first, StepTrial(8, 510, GIB)], 16 * GIB)
    assert not is_worth_trying_more([first, StepTrial(8, 900, 7 * GIB)], 16 * GIB)
    assert not is_worth_trying_more([first, StepTrial(8, 0, None)], 16 * GIB)


def test_tuning_measures_once_keeps_what_the_user_gave_and_is_remembered(make_trainer, corpus):
    asked = {"auto_tune_performance": True, "num_workers": "auto", "prefetch_buffer_size": 3}
    first = make_trainer(asked)
    assert first.task.config.data.prefetch_buffer_size == 3
    assert first.task.config.data.batch_size == 4
    assert isinstance(first.task.config.data.num_workers, int)
    assert "Measuring the performance of this machine" in text_of(first.display)
    assert "(time per batch by threads: 1:" in text_of(first.display)
    again = make_trainer(asked)
    assert "Performance settings as measured before" in text_of(again.display)
    assert again.task.config == first.task.config
    (file,) = corpus.rglob(FILE_NAME)
    assert [choice["batch_size"] for choice in json.loads(file.read_text()).values()] == [None]


@pytest.mark.slow
def test_the_batch_size_is_measured_when_it_is_left_to_us(make_trainer):
    trainer = make_trainer({"auto_tune_performance": True, "batch_size": "auto"})
    assert trainer.task.config.data.batch_size in (4, 8, 16, 32, 64, 128)
    assert "frames/s" in text_of(trainer.display)


def test_a_network_that_does_not_fit_the_memory_is_a_trial_that_ran_out(make_trainer, monkeypatch):
    trainer = make_trainer()

    def fails(*args, **kwargs):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(voice_task, "XTTS", fails)
    assert time_steps(trainer.task.config, trainer.task.hardware, trainer.task.corpus, 4, MemoryMeter()) == StepTrial(
        4, 0.0, None
    )


class FakeGpu:
    """A GPU whose memory a test sets: `use` takes up to a peak, and some of it stays."""

    def __init__(self, monkeypatch, held):
        self.current = self.peak = held
        monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["GPU:0"])
        monkeypatch.setattr(autotune, "free_memory_bytes", lambda: 24 * GIB)
        monkeypatch.setattr(
            tf.config.experimental, "get_memory_info", lambda name: {"current": self.current, "peak": self.peak}
        )
        monkeypatch.setattr(tf.config.experimental, "reset_memory_stats", self._reset)

    def _reset(self, name):
        self.peak = self.current

    def use(self, most, kept):
        self.peak, self.current = max(self.peak, most), kept


def test_every_trial_is_measured_from_before_the_first_and_by_its_own_peak(monkeypatch):
    gpu = FakeGpu(monkeypatch, held=1 * GIB)
    gpu.use(9 * GIB, kept=1 * GIB)  # long before the first trial
    meter = MemoryMeter()
    for most, kept, taken in ((5, 3, 4), (7, 4, 6), (6, 4, 5)):
        with meter.trial():
            gpu.use(most * GIB, kept * GIB)
        assert meter.taken_bytes == taken * GIB


def test_the_free_memory_of_a_gpu_is_that_of_the_card(monkeypatch):
    card = SimpleNamespace(memory_total_bytes=24 * GIB, memory_used_bytes=3 * GIB)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["GPU:0"])
    monkeypatch.setattr(machine, "_open_nvml", lambda nvml: (SimpleNamespace(nvmlShutdown=lambda: None), [0], None))
    monkeypatch.setattr(machine.MachineSampler, "_sample_gpu", lambda sampler, index, handle: card)
    assert autotune.free_memory_bytes() == 21 * GIB


def test_the_peak_of_a_process_is_seen_after_its_memory_was_given_back():
    meter = MemoryMeter()
    with meter.trial():
        taken = bytearray(400 * 2**20)
        taken[:: 2**12] = b"1" * len(taken[:: 2**12])  # a page counts once it was written to
        time.sleep(20 * autotune.SAMPLE_SECONDS)  # the work of a trial leaves Python to other threads
        del taken
    assert meter.taken_bytes > 300 * 2**20


def test_memory_is_measured_without_the_files_of_linux(monkeypatch):
    def refuse(path, *args, **kwargs):
        raise FileNotFoundError(path)

    monkeypatch.setattr("pathlib.Path.read_text", refuse)
    monkeypatch.setattr("pathlib.Path.write_text", refuse)
    meter = MemoryMeter()
    with meter.trial():
        pass
    assert meter.taken_bytes < 2**30
