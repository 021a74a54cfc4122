"""Takes what the loop measures and passes it on: to the log, the status file, the progress bar. Judges skipped steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.errors import TrainingError
from myxtts.runtime.counters import RetraceWatch
from myxtts.runtime.status import StatusWriter
from myxtts.runtime.timers import StepClock
from myxtts.training.display import Display, Figures
from myxtts.training.logbook import Logbook
from myxtts.training.progress import Progress
from myxtts.training.steps import METRICS

MOST_IDS_SHOWN = 12
NOT_LOGGED = ("skipped", "frames", "stop_wishes")
"""Metrics of a step that are logged as other figures, or not at all."""


class Recorder:
    """Keeps the results of steps on the device until they are logged, a few at a time."""

    def __init__(
        self,
        config: TrainingConfig,
        display: Display,
        clock: StepClock,
        watch: RetraceWatch,
        progress: Progress,
        clip_ids: Sequence[str],
    ):
        folder = Path(config.checkpoint_dir)
        tensorboard = Path(config.tensorboard_log_dir) if config.tensorboard_log_dir else folder / "tensorboard"
        self.logbook = Logbook(folder, tensorboard)
        self.status = StatusWriter(folder)
        self.seconds = 0.0
        """Time that the loop spent in here."""
        self.useful_frames = 0.0
        self.last_metrics: dict[str, float] = {}
        self._config, self._display, self._clock, self._watch = config, display, clock, watch
        self._progress = progress
        self._clip_ids = clip_ids
        self._pending: list[tuple[int, tf.Tensor, list[tf.Tensor]]] = []
        self._batch_frames = 0
        self._last_flush = time.perf_counter()

    def add(self, step: int, metrics: tf.Tensor, clips: list[tf.Tensor], batch_frames: int) -> None:
        """One step that was dispatched; `batch_frames` counts all frames of its batches, padding too."""
        self._pending.append((step, metrics, clips))
        self._batch_frames += batch_frames

    def flush(self) -> None:
        """Read the results that have gathered and pass them on."""
        if not self._pending:
            return
        started = time.perf_counter()
        values = tf.stack([metrics for _, metrics, _ in self._pending]).numpy()
        named = {name: values[:, column] for column, name in enumerate(METRICS)}
        step = self._pending[-1][0]
        self._judge_skipped(named["skipped"] > 0)
        frames = float(named["frames"].sum())
        elapsed = started - self._last_flush
        summary = self._clock.summary(last=len(self._pending))
        self.useful_frames += frames
        entry = {name: float(np.mean(column)) for name, column in named.items() if name not in NOT_LOGGED}
        entry |= {
            "useful_frames_per_second": frames / max(elapsed, 1e-9),
            "padding_share": 1 - frames / max(self._batch_frames, 1),
            "wait_share": summary.wait_share,
            "step_seconds": summary.mean_seconds,
            "skipped_steps": self._progress.skipped_steps,
            "retraces": len(self._watch.retraces),
        }
        self.last_metrics = entry
        self.logbook.scalars("train", step, entry)
        self._display.figures(Figures(entry["loss"], entry["useful_frames_per_second"], summary.wait_share))
        self._write_status(step, "training", entry)
        self._pending, self._batch_frames = [], 0
        self._last_flush = time.perf_counter()
        self.seconds += self._last_flush - started

    def resume_clock(self) -> None:
        """After a pause (validation, a checkpoint): its time belongs to no step."""
        self._last_flush = time.perf_counter()
        self._clock.begin()

    def _judge_skipped(self, skipped: np.ndarray) -> None:
        for is_skipped, (step, metrics, clips) in zip(skipped, self._pending, strict=True):
            if not is_skipped:
                continue
            self._progress.skipped_steps += 1
            numbers = np.concatenate([np.ravel(part.numpy()) for part in clips])
            ids = [self._clip_ids[number] for number in numbers[numbers >= 0].tolist()]
            shown = ", ".join(ids[:MOST_IDS_SHOWN]) + (
                f" and {len(ids) - MOST_IDS_SHOWN} more" if len(ids) > MOST_IDS_SHOWN else ""
            )
            loss = float(metrics.numpy()[METRICS.index("loss")])
            self._display.line(f"Step {step} was skipped: loss {loss} or its gradient is not finite. Clips: {shown}.")
            self.logbook.scalars("skipped", step, {"loss": loss, "clips": len(ids)})
        if self._progress.skipped_steps >= self._config.nonfinite_limit:
            raise TrainingError(
                f"{self._progress.skipped_steps} steps were skipped because loss or gradient were not finite "
                f"(training.nonfinite_limit is {self._config.nonfinite_limit}). Try a lower --lr, mixed_precision: off, or "
                "look at the clips named above; --enable-eager-debug names the operation."
            )

    def _write_status(self, step: int, state: str, figures: dict[str, float]) -> None:
        whole, counts = self._clock.summary(), self._watch.counts()
        self.status.update(
            state=state,
            step=step,
            wait_share=whole.wait_share,
            host_share=whole.host_share,
            device_share=whole.device_share,
            mean_step_seconds=whole.mean_seconds,
            std_step_seconds=whole.std_seconds,
            step_cv=whole.step_cv,
            traces=counts.traces,
            compilations=counts.compilations,
            signatures=counts.signatures,
            retraces=len(self._watch.retraces),
            figures={name: round(value, 6) for name, value in figures.items()},
        )

    def close(self, state: str) -> None:
        """The last word of the run."""
        self.status.close(state)
        self.logbook.close()
