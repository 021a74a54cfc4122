"""Hooks into Keras: the batches of `Model.fit`, `train_on_batch`, eager updates by optimizers, and values fetched from Keras."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

from myxtts.diagnostics.observe.hooks_python import note_fetch
from myxtts.diagnostics.observe.recording import FitStep, PyDatasetRecord, TimedEvent
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation, caller_location, code_of, location_of_code

clock = time.perf_counter


class FitHooks:
    """State of the hooks into `Model.fit`."""

    def __init__(self, watcher: Any):
        self.watcher = watcher
        self.recording = watcher.recording
        self._begin = 0.0
        self._bytes_before = 0
        self._previous_end: float | None = None
        self._epoch_began: float | None = None
        self._evaluation_batches = 0

    def watch_epoch(self, original: Any) -> Any:
        """`CallbackList.on_epoch_begin`: what lies between two epochs belongs to no step."""

        def watched(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            self._previous_end = None
            try:
                return original(callbacks, *args, **kwargs)
            finally:
                self._epoch_began = clock()

        return watched

    def watch_callbacks(self, original: Any) -> Any:
        """The other methods of `CallbackList`: time of the callbacks, Keras' own and the user's."""
        label = original.__name__

        def watched(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            start = clock()
            try:
                return original(callbacks, *args, **kwargs)
            finally:
                event = TimedEvent(start, clock(), self._fit_location(), label)
                self.recording.add(self.recording.callbacks, event)

        return watched

    def watch_evaluation_batch(self, original: Any) -> Any:
        """`on_test_batch_begin` and `on_predict_batch_begin`: counts the batches of an evaluation."""

        def watched(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            self._evaluation_batches += 1
            return original(callbacks, *args, **kwargs)

        return watched

    def _fit_location(self) -> SourceLocation:
        return self.recording.fit_locations[-1] if self.recording.fit_locations else UNKNOWN

    def watch_batch_begin(self, original: Any) -> Any:
        """`CallbackList.on_train_batch_begin`."""
        watcher = self.watcher

        def watched(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            self._begin = clock()
            if self._epoch_began is not None:
                event = TimedEvent(self._epoch_began, self._begin, self._fit_location(), "first batch")
                self.recording.add(self.recording.epoch_starts, event)
                self._epoch_began = None
            result = original(callbacks, *args, **kwargs)
            end = clock()
            self._bytes_before = watcher.count_bytes()
            watcher.own_spans.append((end, clock()))
            return result

        return watched

    def watch_batch_end(self, original: Any) -> Any:
        """`CallbackList.on_train_batch_end`."""
        watcher = self.watcher

        def watched(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            call_end = clock()
            fetched_bytes = watcher.count_bytes() - self._bytes_before
            watcher.own_spans.append((call_end, clock()))
            result = original(callbacks, *args, **kwargs)
            end = clock()
            is_first = self._previous_end is None
            begin = self._begin if self._previous_end is None else self._previous_end
            step = FitStep(begin, end, fetched_bytes, epoch_start=is_first)
            self.recording.add(self.recording.fit_steps, step)
            watcher.data.record_fit_element()
            self._previous_end = clock()
            watcher.own_spans.append((end, self._previous_end))
            watcher.count_step()
            return result

        return watched

    def watch_fit(self, original: Any) -> Any:
        """`Model.fit`: where it is called, and on which model."""

        def watched(model: Any, *args: Any, **kwargs: Any) -> Any:
            location = caller_location()
            if self.watcher.is_watched():
                self.recording.fit_locations.append(location)
                self.recording.fit_model = model
                self.recording.py_dataset = _py_dataset(args[0] if args else kwargs.get("x"), kwargs)
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
            location, batches_before = caller_location(), self._evaluation_batches
            self.watcher.data.is_evaluating = True
            self.watcher.keras_calls.append(location)
            try:
                return original(model, *args, **kwargs)
            finally:
                self.watcher.keras_calls.pop()
                self.watcher.data.is_evaluating = before
                if not before and self.watcher.on_thread():
                    self.recording.add(self.recording.evaluations, TimedEvent(start, clock(), location, label))
                    self.recording.add(self.recording.evaluation_batches, self._evaluation_batches - batches_before)

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
                    event = TimedEvent(start, clock(), location, "train_on_batch")
                    self.recording.add(self.recording.train_on_batch, event)
                    if not self.watcher.keras_calls:
                        self.watcher.count_step()

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
                note_fetch(self.watcher, start, end, label, sys._getframe(1))

        return watched


def _py_dataset(data: Any, arguments: dict[str, Any]) -> PyDatasetRecord | None:
    """The record of a PyDataset (Keras 3) or Sequence (Keras 2); None for other data."""
    names = {base.__name__ for base in type(data).__mro__}
    if not names & {"PyDataset", "Sequence"} or not hasattr(type(data), "__getitem__"):
        return None
    workers = getattr(data, "workers", None) or arguments.get("workers", 1)
    return PyDatasetRecord(type(data).__name__, location_of_code(code_of(type(data).__getitem__)), int(workers))


def install(watcher: Any, patches: Any) -> None:
    """Install the hooks into every Keras that is loaded: Keras 3 (on TensorFlow only), Keras 2, tf_keras."""
    hooks = FitHooks(watcher)
    for name in ("keras", "tf_keras"):
        package: Any = sys.modules.get(name)
        if hasattr(package, "Model"):
            if int(package.__version__.split(".")[0]) >= 3:
                watcher.recording.keras_backend = package.backend.backend()
                if watcher.recording.keras_backend == "tensorflow":
                    _install_keras_3(watcher, patches, hooks)
            else:
                _install_keras_2(watcher, patches, hooks, name)


def _install_keras_3(watcher: Any, patches: Any, hooks: FitHooks) -> None:
    from keras.src.backend.common import variables
    from keras.src.backend.tensorflow import trainer
    from keras.src.callbacks import callback_list
    from keras.src.models import model
    from keras.src.optimizers import base_optimizer
    from keras.src.trainers import trainer as base_trainer

    _install_callbacks(patches, hooks, callback_list.CallbackList)
    _install_model(patches, hooks, trainer.TensorFlowTrainer)
    patches.replace(base_trainer.Trainer, "compile", hooks.watch_compile)
    patches.replace(base_optimizer.BaseOptimizer, "apply", watcher.watch_event(watcher.recording.updates, "apply"))
    for method in ("numpy", "__array__"):
        patches.replace(variables.Variable, method, hooks.watch_value)
    for method in ("save", "save_weights", "export"):
        save = watcher.watch_outermost(watcher.recording.checkpoints, f"Model.{method}")
        patches.replace(model.Model, method, save)


def _install_keras_2(watcher: Any, patches: Any, hooks: FitHooks, name: str) -> None:
    callbacks = importlib.import_module(f"{name}.src.callbacks")
    model = importlib.import_module(f"{name}.src.engine.training").Model
    optimizer = importlib.import_module(f"{name}.src.optimizers.optimizer").Optimizer
    _install_callbacks(patches, hooks, callbacks.CallbackList)
    _install_model(patches, hooks, model)
    patches.replace(model, "compile", hooks.watch_compile)
    patches.replace(optimizer, "apply_gradients", watcher.watch_event(watcher.recording.updates, "apply_gradients"))
    for method in ("save", "save_weights", "export"):
        patches.replace(model, method, watcher.watch_outermost(watcher.recording.checkpoints, f"Model.{method}"))


def _install_callbacks(patches: Any, hooks: FitHooks, callback_list: Any) -> None:
    patches.replace(callback_list, "on_train_batch_begin", hooks.watch_batch_begin)
    patches.replace(callback_list, "on_train_batch_end", hooks.watch_batch_end)
    for method in ("on_epoch_end", "on_train_begin", "on_train_end", "on_train_batch_begin", "on_train_batch_end"):
        patches.replace(callback_list, method, hooks.watch_callbacks)
    patches.replace(callback_list, "on_epoch_begin", hooks.watch_epoch)
    for method in ("on_test_batch_begin", "on_predict_batch_begin"):
        patches.replace(callback_list, method, hooks.watch_evaluation_batch)


def _install_model(patches: Any, hooks: FitHooks, model: Any) -> None:
    patches.replace(model, "fit", hooks.watch_fit)
    patches.replace(model, "train_on_batch", hooks.watch_train_on_batch)
    patches.replace(model, "evaluate", hooks.watch_evaluation)
    patches.replace(model, "predict", hooks.watch_evaluation)
