"""Failures of a run that a user can fix, as one message: too little memory, a worker that was lost."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tensorflow as tf

from myxtts.batch import BatchShape
from myxtts.errors import TrainingError
from myxtts.training.distributed import LOST_WORKER_ERRORS, Cluster, lost_worker

_TENSOR = re.compile(r"allocating tensor with shape\[([\d,]*)\] and type (\w+)")
_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8, "bool": 1}


@dataclass(frozen=True)
class FailureContext:
    """What a message about a failure mentions."""

    step: int = 0
    shape: BatchShape | None = None
    """None while the network is being built."""
    clips_per_batch: float | None = None
    batches_per_step: int = 1
    parameters: int = 0


@contextlib.contextmanager
def explained_failures(context: Callable[[], FailureContext], cluster: Cluster | None) -> Iterator[None]:
    """Within it, failures with a known cause become `TrainingError`s. `context` is called only after a failure."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise TrainingError(memory_advice(context(), str(error))) from error
    except LOST_WORKER_ERRORS as error:
        explained = None if cluster is None else lost_worker(cluster, error, context().step)
        if explained is None:
            raise
        raise explained from error


def memory_advice(context: FailureContext, message: str) -> str:
    """One line: how much memory was requested, for which batches, and how to need less."""
    requested = ""
    if found := _TENSOR.search(message):
        elements = 1
        for size in filter(None, found[1].split(",")):
            elements *= int(size)
        requested = f" for a tensor of {elements * _BYTES.get(found[2], 4) / 2**20:,.0f} MiB"
    if context.shape is None:
        return f"Out of memory{requested} while the network was built. Try --model-size tiny."
    advice = "Try --max-mel-frames lower or --model-size tiny"
    if context.clips_per_batch is not None and context.clips_per_batch >= 2:
        half = max(1, round(context.clips_per_batch / 2))
        advice = (
            f"Try --batch-size {half} --grad-accum {2 * context.batches_per_step} (as many clips per step), or "
            "--batch-size auto --auto-tune, which measures what fits"
        )
    return (
        f"Out of memory{requested} at step {context.step}: batches of {context.shape}, {context.parameters:,} parameters. "
        f"{advice}."
    )
