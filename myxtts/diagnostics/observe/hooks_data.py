"""Hooks into `tf.data`: where datasets are made, how long each `next()` takes, and TensorFlow's own model of the pipeline."""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any

from myxtts.diagnostics.observe.pipeline import describe_dataset
from myxtts.diagnostics.observe.recording import DatasetRecord, Fetch, IteratorRecord, TimedEvent
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation, caller_location, is_made_by_keras
from myxtts.runtime.signatures import Signature, signature_of

clock = time.perf_counter
_MODEL_AFTER = tuple(2**power for power in range(1, 30))
"""Elements after which TensorFlow's model of a pipeline is read again."""
_KEPT_DATASETS = 3
"""Datasets kept alive for measuring the loader alone; a script that makes one for each epoch must not fill the memory."""


class DataHooks:
    """State of the hooks into `tf.data`."""

    def __init__(self, watcher: Any):
        self.watcher = watcher
        self.recording = watcher.recording
        self.locations: weakref.WeakKeyDictionary[Any, SourceLocation] = weakref.WeakKeyDictionary()
        self.python_locations: weakref.WeakKeyDictionary[Any, tuple[SourceLocation, ...]] = weakref.WeakKeyDictionary()
        self.made_by_keras: weakref.WeakSet = weakref.WeakSet()
        self.is_evaluating = False
        """Keras evaluates or predicts: its iterators are not those of the training."""
        self.is_tracing_dataset = False
        """A function of a dataset is traced: what it calls runs in the pipeline, not in the step."""
        self._python_functions_seen = 0
        self._datasets: weakref.WeakKeyDictionary[Any, DatasetRecord] = weakref.WeakKeyDictionary()
        self._iterators: dict[int, tuple[weakref.ref, IteratorRecord]] = {}
        self._signatures: dict[Signature, int] = {}
        self.newest_iterator: Any = lambda: None

    def watch_function(self, original: Any) -> Any:
        """`StructuredFunctionWrapper.__init__`: the function of a map, filter or interleave is traced."""

        def watched(wrapper: Any, func: Any, transformation_name: Any, *args: Any, **kwargs: Any) -> None:
            if self.is_tracing_dataset or not self.watcher.on_thread():
                return original(wrapper, func, transformation_name, *args, **kwargs)
            self.is_tracing_dataset = True
            start = clock()
            try:
                return original(wrapper, func, transformation_name, *args, **kwargs)
            finally:
                self.is_tracing_dataset = False
                if self.watcher.executing_eagerly() and not self.is_evaluating:
                    kind = str(transformation_name).removeprefix("Dataset.").removesuffix("()")
                    event = TimedEvent(start, clock(), caller_location(), kind)
                    is_keras = is_made_by_keras(sys._getframe(1))
                    self.recording.add(
                        self.recording.epoch_starts if is_keras else self.recording.dataset_builds, event
                    )

        return watched

    def watch_dataset(self, original: Any) -> Any:
        """`DatasetV2.__init__`: records where a dataset was made and which Python functions it uses."""

        def watched(dataset: Any, *args: Any, **kwargs: Any) -> None:
            original(dataset, *args, **kwargs)
            if self.watcher.executing_eagerly():
                self.locations[dataset] = caller_location()
                if is_made_by_keras(sys._getframe(1)):
                    self.made_by_keras.add(dataset)
                new = self.recording.python_functions[self._python_functions_seen :]
                self._python_functions_seen = len(self.recording.python_functions)
                if new:
                    self.python_locations[dataset] = tuple(dict.fromkeys(event.location for event in new))

        return watched

    def watch_iterator(self, original: Any) -> Any:
        """`OwnedIterator.__init__`: an epoch over a dataset begins."""

        def watched(iterator: Any, dataset: Any = None, *args: Any, **kwargs: Any) -> None:
            entered = clock()
            original(iterator, dataset, *args, **kwargs)
            start = clock()
            if dataset is not None and self.watcher.executing_eagerly() and self.watcher.on_thread():
                self._note_iterator(iterator, dataset)
                if not self.is_evaluating:
                    event = TimedEvent(entered, start, caller_location(), "iter(dataset)")
                    self.recording.add(self.recording.epoch_starts, event)
                self.watcher.own_spans.append((start, clock()))

        return watched

    def watch_next(self, original: Any) -> Any:
        """`OwnedIterator._next_internal`: waiting for one batch, from Python."""
        watcher = self.watcher

        def watched(iterator: Any) -> Any:
            if not watcher.is_watched() or not watcher.executing_eagerly():
                return original(iterator)
            record = self._record_of(iterator)
            watcher.depth += 1
            start, signature = clock(), -1
            end = start
            try:
                batch = original(iterator)
                end = clock()
                signature = self._index_of(batch)
                return batch
            finally:
                if signature < 0:
                    end = clock()
                watcher.depth -= 1
                fetch = Fetch(start, end, record.index, signature, record.elements == 0)
                self.recording.add(self.recording.fetches, fetch)
                record.elements += signature >= 0
                if signature >= 0 and record.elements in _MODEL_AFTER:
                    self.read_model(iterator, record)
                watcher.own_spans.append((end, clock()))

        return watched

    def read_model(self, iterator: Any, record: IteratorRecord) -> None:
        """TensorFlow's model of the running pipeline, after its own rewrites, with the time spent in each stage."""
        import tensorflow as tf

        if record.dataset < 0 or not hasattr(tf.data.experimental, "get_model_proto"):  # not before TensorFlow 2.16
            return
        dataset = self.recording.datasets[record.dataset]
        if record.elements <= dataset.model_elements:
            return
        self.watcher.depth += 1
        try:
            model = tf.data.experimental.get_model_proto(iterator)
            if dataset.model is None or len(model.nodes) >= len(dataset.model.nodes):  # ended inputs drop out of it
                dataset.model, dataset.model_elements = model, record.elements
        except (tf.errors.OpError, ValueError):  # no model with autotuning off, or for a distributed iterator
            dataset.model_elements = record.elements
        finally:
            self.watcher.depth -= 1

    def record_fit_element(self) -> None:
        """Keras has taken a batch from the newest iterator, inside its graph."""
        iterator = self.newest_iterator()
        if iterator is not None:
            record = self._record_of(iterator)
            record.is_inside_graph = True
            record.elements += 1
            if record.elements in _MODEL_AFTER:
                self.read_model(iterator, record)

    def _note_iterator(self, iterator: Any, dataset: Any) -> None:
        known = self._datasets.get(dataset)
        location = caller_location()
        if known is None:
            stages = describe_dataset(dataset, self.locations, self.python_locations, self.made_by_keras)
            known = DatasetRecord(
                index=len(self.recording.datasets),
                stages=stages,
                location=location,
                cardinality=int(dataset.cardinality()),
                kept=None if self.is_evaluating else dataset,
            )
            self._datasets[dataset] = known
            self.recording.datasets.append(known)
            kept = [one for one in self.recording.datasets if one.kept is not None]
            for older in kept[:-_KEPT_DATASETS]:
                older.kept = None
        record = IteratorRecord(len(self.recording.iterators), known.index, clock(), location)
        self.recording.iterators.append(record)
        self._iterators[id(iterator)] = (weakref.ref(iterator), record)
        if not self.is_evaluating:
            self.newest_iterator = weakref.ref(iterator)

    def _record_of(self, iterator: Any) -> IteratorRecord:
        known = self._iterators.get(id(iterator))
        if known is not None and known[0]() is iterator:
            return known[1]
        record = IteratorRecord(len(self.recording.iterators), -1, clock(), UNKNOWN)
        self.recording.iterators.append(record)
        self._iterators[id(iterator)] = (weakref.ref(iterator), record)
        return record

    def _index_of(self, batch: Any) -> int:
        signature = signature_of(batch, lambda value: 0)
        index = self._signatures.get(signature)
        if index is None:
            index = self._signatures[signature] = len(self.recording.batch_signatures)
            self.recording.batch_signatures.append(signature)
        return index


def install(watcher: Any, patches: Any) -> None:
    """Install the hooks into `tf.data`."""
    from tensorflow.python.data.ops import dataset_ops, iterator_ops, structured_function

    watcher.data = hooks = DataHooks(watcher)
    patches.replace(structured_function.StructuredFunctionWrapper, "__init__", hooks.watch_function)
    patches.replace(dataset_ops.DatasetV2, "__init__", hooks.watch_dataset)
    patches.replace(iterator_ops.OwnedIterator, "__init__", hooks.watch_iterator)
    patches.replace(iterator_ops.OwnedIterator, "_next_internal", hooks.watch_next)
