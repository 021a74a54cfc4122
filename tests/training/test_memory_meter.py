"""How the memory of a trial is measured."""

import time

import tensorflow as tf

from myxtts.training import memory_meter as memory
from myxtts.training.memory_meter import MemoryMeter

GIB = 2**30


class FakeGpu:
    """A GPU whose memory a test sets: `use` takes up to a peak, and some of it stays."""

    def __init__(self, monkeypatch, held):
        self.current = self.peak = held
        monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["GPU:0"])
        monkeypatch.setattr(memory, "free_memory_bytes", lambda: 24 * GIB)
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


def test_the_peak_of_a_process_is_seen_after_its_memory_was_given_back():
    meter = MemoryMeter()
    with meter.trial():
        taken = bytearray(400 * 2**20)
        taken[:: 2**12] = b"1" * len(taken[:: 2**12])  # a page counts once it was written to
        time.sleep(20 * memory.SAMPLE_SECONDS)  # the work of a trial leaves Python to other threads
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
