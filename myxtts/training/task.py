"""What the one training loop needs of what it trains: a network with its batches, steps, validation, checkpoints and samples.

There are three tasks: `voice_task.VoiceTask`, `vocoder_task.VocoderTask` and `g2p_task.TaggerTask`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from myxtts.training.checkpoint import Checkpoint
from myxtts.training.run_log import Logbook
from myxtts.training.state import RunHistory


class StepTask(Protocol):
    """What taking a step needs."""

    step: int
    """Steps taken so far; `learn` counts it up."""

    def next_batches(self) -> Sequence[Any]:
        """The batches of the next step; waits for the loader."""
        ...

    def learn(self, batches: Sequence[Any]) -> tf.Tensor:
        """Start one step on the device and return its metrics, float32 (metrics,), without waiting for them."""
        ...


@dataclass(frozen=True)
class StepFacts:
    """What the log records about the batches of one step."""

    clips: list[tf.Tensor]
    """Indices of the clips, for each part of the batches; negative where there is none."""
    frames: int
    """All frames of the batches, including padding."""
    group: int
    """Index of the batch shape, so that step times can be compared by shape."""


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint that was just written, still in memory."""

    path: Path
    checkpoint: Checkpoint

    @property
    def step(self) -> int:
        """Steps that it has learned from."""
        return self.checkpoint.step


class Task(StepTask, Protocol):
    """What the whole loop needs."""

    total_steps: int
    history: RunHistory

    @property
    def can_validate(self) -> bool:
        """Whether there are held-out clips."""
        ...

    @property
    def has_evaluation(self) -> bool:
        """Whether `evaluate` measures anything; if so, it decides which checkpoint is the best one."""
        ...

    def describe(self, batches: Sequence[Any]) -> StepFacts:
        """What the log records about these batches."""
        ...

    def check_retracing(self, batches: Sequence[Any]) -> None:
        """Report what the last step traced or compiled again."""
        ...

    def confirm_stop(self, is_wanted: bool, finished: np.ndarray | None) -> bool:
        """Whether the run stops now, given that this process wants it to: the workers of a cluster stop at the same step.

        Args:
            finished: metrics of the previous step.
        """
        ...

    def validate(self, on_batch: Callable[[int], None]) -> dict[str, float]:
        """Mean losses over the held-out clips, "loss" first; `on_batch` gets the number of batches done."""
        ...

    def lower_learning_rate(self) -> str | None:
        """Called after each validation: lower the rate on a plateau; returns a line about it."""
        ...

    def save(self) -> SavedCheckpoint | None:
        """Write a checkpoint; None on a worker that writes none."""
        ...

    def mark_best(self, saved: SavedCheckpoint) -> None:
        """Keep a checkpoint as the best one; it may have been removed meanwhile."""
        ...

    def evaluate(self, saved: SavedCheckpoint) -> dict[str, float]:
        """Measure what the checkpoint can do: metrics by name, of which "cer" (lower is better) decides.

        Called in a thread, while the training continues.
        """
        ...

    def draw(self, log: Logbook) -> None:
        """Submit pictures of the current state to the log."""
        ...

    def sample(self, saved: SavedCheckpoint, log: Logbook | None) -> list[Path]:
        """Make audible samples of a checkpoint; returns the files."""
        ...
