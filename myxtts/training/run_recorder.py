"""Takes what the loop measures and passes it on: to the log, the status file, the progress bar. Judges skipped steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.errors import TrainingError
from myxtts.runtime.atomic import cause_of
from myxtts.runtime.compilation import RetraceWatch
from myxtts.runtime.status import STATUS_FILE, StatusWriter
from myxtts.runtime.timers import StepClock
from myxtts.training.display import Display, Figures
from myxtts.training.progress import Progress
from myxtts.training.run_log import Logbook, Notices
from myxtts.training.steps import METRICS

MOST_IDS_SHOWN = 12
NOT_LOGGED = ("skipped", "frames", "stop_wishes")
"""Metrics of a step that are logged as other figures, or not at all."""
RECENT_STEPS = 1000
"""Among so many steps, `training.nonfinite_limit` may be skipped; a long healthy run has a few."""


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
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainingError(
                f"The folder of the run, {folder}, cannot be made: {cause_of(error)}. Choose another training.checkpoint_dir."
            ) from error
        self._notices = Notices(display.line)
        self.logbook = Logbook(folder, tensorboard, self._notices)
        self.status = StatusWriter(folder)
        self.seconds = 0.0
        """Time that the loop spent on logging: in here, and within `charged`."""
        self.useful_frames = 0.0
        self.scaled_down_steps = 0
        """Steps of this process whose gradient overflowed while the loss scale could still fall: the loss scale at work."""
        self.last_metrics: dict[str, float] = {}
        self._config, self._display, self._clock, self._watch = config, display, clock, watch
        self._folder, self._progress, self._clip_ids = folder, progress, clip_ids
        self._pending: list[tuple[int, tf.Tensor, list[tf.Tensor]]] = []
        self._recently_skipped: list[int] = []
        self._batch_frames = 0
        self._seconds_of_pending = 0.0
        self._last_moment = time.perf_counter()

    def add(self, step: int, metrics: tf.Tensor, clips: list[tf.Tensor], batch_frames: int) -> None:
        """One step that was dispatched; `batch_frames` counts all frames of its batches, padding too."""
        self._pending.append((step, metrics, clips))
        self._batch_frames += batch_frames
        now = time.perf_counter()
        self._seconds_of_pending += now - self._last_moment
        self._last_moment = now

    def flush(self) -> None:
        """Read the results that have gathered and pass them on."""
        if self._pending:
            with self.charged():
                self._flush()

    def _flush(self) -> None:
        values = tf.stack([metrics for _, metrics, _ in self._pending]).numpy()
        named = {name: values[:, column] for column, name in enumerate(METRICS)}
        step, skipped = self._pending[-1][0], named["skipped"] > 0
        self._judge_skipped(skipped, named["loss"], named["loss_scale"])
        frames = float(named["frames"].sum())
        summary = self._clock.summary(last=len(self._pending))
        self.useful_frames += frames
        # What a skipped step could not compute says nothing about those that learned.
        shown = np.full(len(skipped), True) if skipped.all() else ~skipped
        entry = {name: float(np.mean(column[shown])) for name, column in named.items() if name not in NOT_LOGGED}
        entry |= {
            "useful_frames_per_second": frames / max(self._seconds_of_pending, 1e-9),
            "padding_share": 1 - frames / max(self._batch_frames, 1),
            "wait_share": summary.wait_share,
            "step_seconds": summary.mean_seconds,
            "skipped_steps": self._progress.skipped_steps,
            "scaled_down_steps": self.scaled_down_steps,
            "retraces": len(self._watch.retraces),
        }
        self.last_metrics = entry
        self.logbook.scalars("train", step, entry)
        self._display.figures(Figures(entry["loss"], entry["useful_frames_per_second"], summary.wait_share))
        self._write_status(step, "training", entry)
        self._pending, self._batch_frames, self._seconds_of_pending = [], 0, 0.0

    def show_first_steps(self, finished: np.ndarray) -> None:
        """Show the metrics of one step as long as nothing was logged: slow steps take minutes to the first log entry."""
        if self.last_metrics:
            return
        named, summary = dict(zip(METRICS, finished.tolist(), strict=True)), self._clock.summary()
        frames_per_second = named["frames"] / max(summary.mean_seconds, 1e-9)
        self._display.figures(Figures(named["loss"], frames_per_second, summary.wait_share))

    def resume_clock(self) -> None:
        """After a pause (validation, a checkpoint): its time belongs to no step."""
        self._last_moment = time.perf_counter()
        self._clock.begin()

    @contextlib.contextmanager
    def charged(self) -> Iterator[None]:
        """Within it the loop does work that is only for the log (a picture): its time counts as logging."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started

    @contextlib.contextmanager
    def state(self, name: str) -> Iterator[None]:
        """Within it the status of the run is `name` ("validating", "saving"), told at once; afterwards "training" again."""
        newest = {"step": self._pending[-1][0]} if self._pending else {}
        self._update_status(force=True, state=name, **newest)
        try:
            yield
        finally:
            self._update_status(state="training")

    def _judge_skipped(self, skipped: np.ndarray, losses: np.ndarray, loss_scales: np.ndarray) -> None:
        """Count and log the steps that changed nothing; too many of them that no loss scale explains end the run."""
        for place in np.flatnonzero(skipped):
            step, _, clips = self._pending[place]
            loss, loss_scale = float(losses[place]), float(loss_scales[place])
            numbers = np.concatenate([np.ravel(part.numpy()) for part in clips])
            ids = [self._clip_ids[number] for number in numbers[numbers >= 0].tolist()]
            if np.isfinite(loss) and loss_scale > 1:
                self.scaled_down_steps += 1
                self.logbook.note("scaled_down", step, loss=loss, loss_scale=loss_scale, clips=ids)
                continue
            self._progress.skipped_steps += 1
            self._recently_skipped.append(step)
            shown = ", ".join(ids[:MOST_IDS_SHOWN]) + (
                f" and {len(ids) - MOST_IDS_SHOWN} more" if len(ids) > MOST_IDS_SHOWN else ""
            )
            self._display.line(f"Step {step} was skipped: loss {loss} or its gradient is not finite. Clips: {shown}.")
            self.logbook.note("skipped", step, loss=loss, loss_scale=loss_scale, clips=ids)
        newest = self._pending[-1][0]
        self._recently_skipped = [step for step in self._recently_skipped if step > newest - RECENT_STEPS]
        if len(self._recently_skipped) >= self._config.nonfinite_limit:
            raise TrainingError(
                f"{len(self._recently_skipped)} of the last {RECENT_STEPS:,} steps were skipped because loss or gradient were "
                f"not finite (training.nonfinite_limit is {self._config.nonfinite_limit}). Try a lower --lr, "
                "mixed_precision: off, or look at the clips named above; --enable-eager-debug names the layer."
            )

    def _write_status(self, step: int, state: str, figures: dict[str, float]) -> None:
        whole, counts = self._clock.summary(), self._watch.counts()
        self._update_status(
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
            figures={name: float(f"{value:.7g}") for name, value in figures.items()},
        )

    def _update_status(self, force: bool = False, **fields: Any) -> None:
        try:
            self.status.update(force=force, **fields)
        except OSError as error:
            self._notices.unwritten(f"The status {self._folder / STATUS_FILE}", error)

    def close(self, state: str) -> None:
        """The last word of the run. Raises nothing but a defect of ours: what could not be written was told."""
        self._update_status(force=True, state=state)
        self.logbook.close()
