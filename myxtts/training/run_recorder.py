"""The record of a running loop: step results go to the log, the status file and the display; skipped steps are judged."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf

from myxtts.errors import TrainingError
from myxtts.runtime.compilation import RetraceWatch
from myxtts.runtime.safe_files import cause_of
from myxtts.runtime.status import STATUS_FILE, StatusWriter
from myxtts.runtime.timers import StepClock
from myxtts.training.display import Display, LiveMetrics, account_rows
from myxtts.training.run_log import FailureNotices, Logbook
from myxtts.training.state import RunHistory

MAX_IDS_SHOWN = 12
"""Clips of a skipped step that are printed; the log has all. Chosen; not measured."""
NOT_LOGGED = ("skipped", "frames", "stop_requests")
"""Metrics of a step that are logged in another form, or not at all."""
RECENT_STEPS = 1000
"""`training.nonfinite_limit` counts skipped steps among so many; a long healthy run has a few. Chosen; not measured."""


@dataclass(frozen=True)
class Recorded:
    """The parts of a run that a recorder reads."""

    metric_names: Sequence[str]
    """Names of the vector that every step returns; "loss", "skipped", "frames" and "loss_scale" must be among them."""
    clip_ids: Sequence[str]
    """Names of the clips, for messages about skipped steps."""
    nonfinite_limit: int
    display: Display
    clock: StepClock
    watch: RetraceWatch
    history: RunHistory
    unit: str = "frames"
    """What "frames" counts, as shown next to the progress."""


def open_recorder(folder: Path, tensorboard_folder: Path | None, run: Recorded) -> RunRecorder:
    """Make the folder of a run and start its log. `tensorboard_folder` None is `folder`/tensorboard."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        status = StatusWriter(folder)
    except OSError as error:
        raise TrainingError(
            f"The folder of the run, {folder}, cannot be created: {cause_of(error)}. Choose another training.checkpoint_dir."
        ) from error
    notices = FailureNotices(run.display.line)
    logbook = Logbook(folder, tensorboard_folder or folder / "tensorboard", notices)
    logbook.start()
    return RunRecorder(folder, run, logbook, status, notices)


class RunRecorder:
    """Keeps the results of steps on the device until they are logged, several at a time. Made by `open_recorder`.

    As a context manager it ends with the status "finished", or "failed" after an exception.
    """

    def __init__(self, folder: Path, run: Recorded, logbook: Logbook, status: StatusWriter, notices: FailureNotices):
        self.logbook, self.status = logbook, status
        self.seconds = 0.0
        """Time that the loop spent on logging: in here, and within `counted_as_logging`."""
        self.useful_frames = 0.0
        self.scaled_down_steps = 0
        """Steps of this process whose gradient overflowed while the loss scale could still be lowered."""
        self.last_metrics: dict[str, float] = {}
        self._folder, self._run, self._notices = folder, run, notices
        self._pending: list[tuple[int, tf.Tensor, list[tf.Tensor]]] = []
        self._recently_skipped: list[int] = []
        self._batch_frames = 0
        self._seconds_of_pending = 0.0
        self._last_moment = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        self.close("finished" if error_type is None else "failed")

    def add(self, step: int, metrics: tf.Tensor, clips: list[tf.Tensor], batch_frames: int) -> None:
        """Add a step that was started; `batch_frames` counts all frames of its batches, including padding."""
        self._pending.append((step, metrics, clips))
        self._batch_frames += batch_frames
        now = time.perf_counter()
        self._seconds_of_pending += now - self._last_moment
        self._last_moment = now

    def announce_end(self, total_steps: int, deadline_unix_seconds: float | None) -> None:
        """Write to the status when the run will end: at its last step, or at its deadline if it has one."""
        self._update_status(total_steps=total_steps, deadline_unix_seconds=deadline_unix_seconds)

    def show_account(self, account: dict[str, float]) -> None:
        """Print where every second of the run went (`StageTimers.account`), and keep it in the status."""
        self._update_status(account={part: round(seconds, 3) for part, seconds in account.items()})
        self._run.display.table("Where the time went", account_rows(account))

    def flush(self) -> None:
        """Read the results since the last call and write them to log, status and display."""
        if self._pending:
            with self.counted_as_logging():
                self._flush()

    def _flush(self) -> None:
        values = tf.stack([metrics for _, metrics, _ in self._pending]).numpy()
        named = {name: values[:, column] for column, name in enumerate(self._run.metric_names)}
        step, skipped = self._pending[-1][0], named["skipped"] > 0
        self._judge_skipped(skipped, named["loss"], named["loss_scale"])
        frames = float(named["frames"].sum())
        summary = self._run.clock.summary(last=len(self._pending))
        self.useful_frames += frames
        # The metrics of skipped steps are not finite; they must not hide those of the others.
        shown = np.full(len(skipped), True) if skipped.all() else ~skipped
        entry = {name: float(np.mean(column[shown])) for name, column in named.items() if name not in NOT_LOGGED}
        entry |= {
            "useful_frames_per_second": frames / max(self._seconds_of_pending, 1e-9),
            "padding_share": 1 - frames / max(self._batch_frames, 1),
            "wait_share": summary.wait_fraction,
            "step_seconds": summary.mean_seconds,
            "skipped_steps": self._run.history.skipped_steps,
            "scaled_down_steps": self.scaled_down_steps,
            "retraces": len(self._run.watch.retraces),
        }
        self.last_metrics = entry
        self.logbook.scalars("train", step, entry)
        self._run.display.metrics(
            LiveMetrics(entry["loss"], entry["useful_frames_per_second"], summary.wait_fraction, self._run.unit)
        )
        self._write_status(step, "training", entry)
        self._pending, self._batch_frames, self._seconds_of_pending = [], 0, 0.0

    def show_first_steps(self, finished: np.ndarray) -> None:
        """Show the metrics of one step while nothing is logged yet: slow steps take minutes to the first log entry."""
        if self.last_metrics:
            return
        named, summary = dict(zip(self._run.metric_names, finished.tolist(), strict=True)), self._run.clock.summary()
        frames_per_second = named["frames"] / max(summary.mean_seconds, 1e-9)
        self._run.display.metrics(LiveMetrics(named["loss"], frames_per_second, summary.wait_fraction, self._run.unit))

    def resume_clock(self) -> None:
        """Call it after a pause (validation, a checkpoint), whose time belongs to no step."""
        self._last_moment = time.perf_counter()
        self._run.clock.begin()

    @contextlib.contextmanager
    def counted_as_logging(self) -> Iterator[None]:
        """Count the time of the block as logging: work that is only for the log, such as a picture."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started

    @contextlib.contextmanager
    def state(self, name: str) -> Iterator[None]:
        """Within it the status of the run is `name` ("validating", "saving"), written at once; afterwards "training" again."""
        newest = {"step": self._pending[-1][0]} if self._pending else {}
        self._update_status(force=True, state=name, **newest)
        try:
            yield
        finally:
            self._update_status(state="training")

    def _judge_skipped(self, skipped: np.ndarray, losses: np.ndarray, loss_scales: np.ndarray) -> None:
        """Count and log the skipped steps; too many of them that no loss scale explains end the run."""
        for index in np.flatnonzero(skipped).tolist():
            step, _, clips = self._pending[index]
            loss, loss_scale = float(losses[index]), float(loss_scales[index])
            indices = np.concatenate([np.ravel(part.numpy()) for part in clips])
            ids = [self._run.clip_ids[int(clip)] for clip in indices[indices >= 0]]
            if np.isfinite(loss) and loss_scale > 1:
                self.scaled_down_steps += 1
                self.logbook.note("scaled_down", step, loss=loss, loss_scale=loss_scale, clips=ids)
                continue
            self._run.history.skipped_steps += 1
            self._recently_skipped.append(step)
            shown = ", ".join(ids[:MAX_IDS_SHOWN]) + (
                f" and {len(ids) - MAX_IDS_SHOWN} more" if len(ids) > MAX_IDS_SHOWN else ""
            )
            self._run.display.line(
                f"Step {step} was skipped: loss {loss} or its gradient is not finite. Clips: {shown}."
            )
            self.logbook.note("skipped", step, loss=loss, loss_scale=loss_scale, clips=ids)
        newest = self._pending[-1][0]
        self._recently_skipped = [step for step in self._recently_skipped if step > newest - RECENT_STEPS]
        if len(self._recently_skipped) >= self._run.nonfinite_limit:
            raise TrainingError(
                f"{len(self._recently_skipped)} of the last {RECENT_STEPS:,} steps were skipped because loss or gradient were "
                f"not finite (training.nonfinite_limit is {self._run.nonfinite_limit}). Try a lower --lr, "
                "mixed_precision: off, or look at the clips named above; --enable-eager-debug names the layer."
            )

    def _write_status(self, step: int, state: str, metrics: dict[str, float]) -> None:
        whole, counts = self._run.clock.summary(), self._run.watch.counts()
        self._update_status(
            state=state,
            step=step,
            wait_share=whole.wait_fraction,
            host_share=whole.host_fraction,
            device_share=whole.device_fraction,
            mean_step_seconds=whole.mean_seconds,
            std_step_seconds=whole.std_seconds,
            step_cv=whole.step_cv,
            traces=counts.traces,
            compilations=counts.compilations,
            signatures=counts.signatures,
            retraces=len(self._run.watch.retraces),
            figures={name: float(f"{value:.7g}") for name, value in metrics.items()},
        )

    def _update_status(self, force: bool = False, **fields: Any) -> None:
        try:
            self.status.update(force=force, **fields)
        except OSError as error:
            self._notices.unwritten(f"The status {self._folder / STATUS_FILE}", error)

    def close(self, state: str) -> None:
        """Write the last status and the rest of the log; what cannot be written is reported, not raised."""
        self._update_status(force=True, state=state)
        self.logbook.close()
