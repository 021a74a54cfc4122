"""Samples of the training thread's line, and what follows from processor times on a busy machine."""

import gc
import sys
import threading
import time

import pytest
import tensorflow as tf

from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.recording import LineSample, PipelineCall, Recording, prompt_samples
from myxtts.diagnostics.observe.sampler import LineSampler, MachineLoad, is_prompt
from myxtts.diagnostics.observe.source_lines import waits_inside_framework
from myxtts.diagnostics.observe.split_steps import cut_steps


@pytest.mark.parametrize(
    ("late_milliseconds", "in_python", "in_a_call"),
    [(0.05, True, True), (0.25, False, False), (0.45, True, False), (3.0, True, False)],
)
def test_sample_that_came_when_the_thread_moved_on_is_not_prompt(late_milliseconds, in_python, in_a_call):
    assert is_prompt(late_milliseconds / 1e3, is_waiting=False) == in_python
    assert is_prompt(late_milliseconds / 1e3, is_waiting=True) == in_a_call


def test_call_of_a_framework_is_distinguished_from_python():
    seen = []
    layer = tf.keras.layers.Lambda(lambda value: seen.append(waits_inside_framework(sys._getframe().f_back)) or value)
    layer(tf.ones(1))
    assert seen[-1]
    assert not waits_inside_framework(sys._getframe())
    assert not waits_inside_framework(None)


def test_late_samples_count_only_where_hardly_any_is_prompt():
    prompt = [LineSample(float(time), 0, "python") for time in range(6)]
    late = [LineSample(float(time), 1, "python", is_prompt=False) for time in range(20)]
    assert prompt_samples(prompt + late) == prompt
    assert prompt_samples(prompt[:2] + late) == prompt[:2] + late


def test_thread_of_the_sampler_collects_no_garbage():
    collecting, threshold = set(), gc.get_threshold()

    def note(phase, info):
        collecting.add(threading.current_thread().name)

    sampler = LineSampler(Recording(), threading.get_ident())
    measuring = threading.gettrace()
    threading.settrace(None)  # coverage makes objects in every thread that it traces
    try:
        sampler.start()
    finally:
        threading.settrace(measuring)
    time.sleep(0.1)
    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        time.sleep(0.3)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(note)
        sampler.stop()
    assert "diagnosis-sampler" not in collecting
    assert gc.isenabled()


def facts_of_pipeline(python_seconds: float, others: float, has_accelerator: bool = False) -> Facts:
    """100 steps of 10 ms, one second of processor time in all, so much of it in the Python of the pipeline."""
    recording = Recording(started_at=0.0, ended_at=1.0, has_accelerator=has_accelerator)
    recording.marked_steps = [(step / 100, (step + 1) / 100) for step in range(100)]
    recording.processor_samples = [(0.0, 0.0), (1.0, 1.0)]
    recording.pipeline_python = [PipelineCall(step / 100 + 0.001, python_seconds / 100) for step in range(100)]
    recording.machine_load = MachineLoad(others, 0.0, None)
    steps = cut_steps(recording)
    assert steps is not None
    return Facts(recording, steps)


def test_python_of_the_pipeline_that_needs_most_of_the_processor_is_waited_for():
    assert facts_of_pipeline(0.8, others=0.9).wait_fraction == pytest.approx(0.75, abs=0.02)
    assert facts_of_pipeline(0.4, others=0.9).wait_fraction == 0.0


def test_processor_time_of_the_sampler_is_not_the_scripts():
    recording = facts_of_pipeline(0.4, others=0.9).recording
    recording.sampler_spans = [(step / 100 + 0.002, step / 100 + 0.004) for step in range(100)]
    assert Facts(recording, cut_steps(recording)).wait_fraction == pytest.approx(0.0)  # 0.4 s each
    recording.sampler_spans = [(step / 100 + 0.002, step / 100 + 0.006) for step in range(100)]
    assert Facts(recording, cut_steps(recording)).wait_fraction == pytest.approx(0.5, abs=0.02)


def test_processor_times_say_nothing_on_a_free_machine_or_with_an_accelerator():
    assert facts_of_pipeline(0.8, others=0.0).wait_fraction == 0.0
    assert facts_of_pipeline(0.8, others=0.9, has_accelerator=True).wait_fraction == 0.0
