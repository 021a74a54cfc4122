"""Hooks into Keras: the batches of `Model.fit`, `train_on_batch`, eager updates by optimizers, and values fetched from Keras."""

from __future__ import annotations

import sys
import time
from typing import Any

from myxtts.diagnostics.observe.recording import FitStep, TimedEvent
from myxtts.diagnostics.observe.source_lines import caller_location

clock = time.perf_counter


class FitHooks:
    """State of the hooks into `Model.fit`."""

    def __init__(self, watcher: Any):
        self.watcher = watcher
        self.recording = watcher.recording
        self._begin = self._call_start = 0.0
        self._counts = (0, 0, 0, 0)
        self._previous_end: float | None = None

    def watch_epoch(self, original: Any) -> Any:
        """`CallbackList.on_epoch_begin`: what lies between two epochs belongs to no step."""

        def watched(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            self._previous_end = None
            return original(callbacks, *args, **kwargs)

        return watched

    def watch_batch_begin(self, original: Any) -> Any:
        """`CallbackList.on_train_batch_begin`."""
        watcher = self.watcher

        def watched(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            self._begin = clock()
            result = original(callbacks, *args, **kwargs)
            self._counts = (
                watcher.count_compilations(),
                watcher.count_compile_time(),
                watcher.count_wait_time(),
                watcher.count_bytes(),
            )
            self._call_start = clock()
            return result

        return watched

    def watch_batch_end(self, original: Any) -> Any:
        """`CallbackList.on_train_batch_end`."""
        watcher = self.watcher

        def watched(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            call_end = clock()
            compilations, compile_time, waited, fetched = self._counts
            figures = (
                watcher.count_compilations() - compilations,
                (watcher.count_compile_time() - compile_time) / 1e6,
                min((watcher.count_wait_time() - waited) / 1e6, call_end - self._call_start),
                watcher.count_bytes() - fetched,
            )
            result = original(callbacks, *args, **kwargs)
            end = clock()
            is_first = self._previous_end is None
            begin = self._begin if is_first else self._previous_end
            step = FitStep(begin, self._call_start, call_end, end, *figures, epoch_start=is_first)
            self.recording.add(self.recording.fit_steps, step)
            watcher.data.record_fit_element()
            self._previous_end = clock()
            return result

        return watched

    def watch_fit(self, original: Any) -> Any:
        """`Model.fit`: where it is called, and on which model."""

        def watched(model: Any, *args: Any, **kwargs: Any) -> Any:
            location = caller_location()
            if self.watcher.is_watched():
                self.recording.fit_locations.append(location)
                self.recording.fit_model = model
            self._previous_end = None
            self.watcher.keras_calls.append(location)
            try:
                return original(model, *args, **kwargs)
            finally:
                self.watcher.keras_calls.pop()

        return watched

    def watch_compile(self, original: Any) -> Any:
        """`Model.compile`: where it is called, and whether it asks for eager steps."""

        def watched(model: Any, *args: Any, **kwargs: Any) -> Any:
            location, now = caller_location(), clock()
            self.recording.compile_locations.append(location)
            if kwargs.get("run_eagerly"):
                self.recording.eager_switches.append(TimedEvent(now, now, location, "compile(run_eagerly=True)"))
            return original(model, *args, **kwargs)

        return watched

    def watch_evaluation(self, original: Any) -> Any:
        """`Model.evaluate` and `predict`: their batches are not those of the training."""
        label = original.__name__

        def watched(model: Any, *args: Any, **kwargs: Any) -> Any:
            start, before = clock(), self.watcher.data.is_evaluating
            location = caller_location()
            self.watcher.data.is_evaluating = True
            self.watcher.keras_calls.append(location)
            try:
                return original(model, *args, **kwargs)
            finally:
                self.watcher.keras_calls.pop()
                self.watcher.data.is_evaluating = before
                self.recording.add(self.recording.evaluations, TimedEvent(start, clock(), location, label))

        return watched

    def watch_train_on_batch(self, original: Any) -> Any:
        """`Model.train_on_batch`: one step of a hand-written loop."""

        def watched(model: Any, *args: Any, **kwargs: Any) -> Any:
            start, location = clock(), caller_location()
            self.watcher.keras_calls.append(location)
            try:
                return original(model, *args, **kwargs)
            finally:
                self.watcher.keras_calls.pop()
                if self.watcher.is_watched():
                    span = TimedEvent(start, clock(), location, "train_on_batch")
                    self.recording.add(self.recording.train_on_batch, span)

        return watched

    def watch_value(self, original: Any) -> Any:
        """`keras.Variable.numpy` and the like: a value fetched through Keras."""
        label = original.__name__

        def watched(*args: Any, **kwargs: Any) -> Any:
            if not self.watcher.is_watched():
                return original(*args, **kwargs)
            self.watcher.depth += 1
            start = clock()
            try:
                return original(*args, **kwargs)
            finally:
                end = clock()
                self.watcher.depth -= 1
                self.watcher.note_fetch(start, end, label, sys._getframe(1))

        return watched


def install(watcher: Any, replace: Any) -> None:
    """Set the hooks into Keras."""
    from keras.src.backend.common import variables
    from keras.src.backend.tensorflow import trainer
    from keras.src.callbacks import callback_list
    from keras.src.optimizers import base_optimizer
    from keras.src.trainers import trainer as base_trainer

    hooks = FitHooks(watcher)
    replace(callback_list.CallbackList, "on_epoch_begin", hooks.watch_epoch)
    replace(callback_list.CallbackList, "on_train_batch_begin", hooks.watch_batch_begin)
    replace(callback_list.CallbackList, "on_train_batch_end", hooks.watch_batch_end)
    replace(trainer.TensorFlowTrainer, "fit", hooks.watch_fit)
    replace(trainer.TensorFlowTrainer, "train_on_batch", hooks.watch_train_on_batch)
    replace(trainer.TensorFlowTrainer, "evaluate", hooks.watch_evaluation)
    replace(trainer.TensorFlowTrainer, "predict", hooks.watch_evaluation)
    replace(base_trainer.Trainer, "compile", hooks.watch_compile)
    replace(base_optimizer.BaseOptimizer, "apply", watcher.watch_span(watcher.recording.updates, "optimizer.apply"))
    for method in ("numpy", "__array__"):
        replace(variables.Variable, method, hooks.watch_value)
