"""What a person sees of a run: the configuration at the start, its progress, one table at the end."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from myxtts.batches.plan import plan_kind
from myxtts.config.config import XTTSConfig
from myxtts.models.convolution import DESCRIPTIONS
from myxtts.runtime.compilation import Counts
from myxtts.runtime.machine import instruction_set
from myxtts.runtime.progress import BarProgress, LineProgress, open_progress
from myxtts.runtime.timers import StepSummary
from myxtts.training.progress import StopReason

# MERGED: SIGINT and SIGTERM as a request to stop: the loop ends after the current step, and the run is saved.

STOPPING = "Stopping after this step and saving. Press Ctrl-C again to quit now without saving."


class StopOnSignal:
    """Within it the first signal sets `is_requested`; a second one interrupts at once."""

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        """`tell` gets a line at once when the first signal comes."""
        self.is_requested = False
        self._tell = tell
        self._previous: dict[int, object] = {}
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._teller: threading.Thread | None = None

    def __enter__(self) -> StopOnSignal:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals only there
            if self._tell is not None:
                self._teller = threading.Thread(target=self._pass_on, name="stop-on-signal", daemon=True)
                self._teller.start()
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._teller is not None:
            self._lines.put(None)
            self._teller.join()

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
        # The signal may have come in the middle of a line: another thread prints this one. Only this queue is made for handlers.
        self._lines.put(STOPPING)

    def _pass_on(self) -> None:
        while (line := self._lines.get()) is not None:
            self._tell(line)


STATIC_SHAPES_NOTE = "✅ ENABLED - This prevents tf.function retracing and stabilizes GPU utilization"


@dataclass(frozen=True)
class Figures:
    """The live figures of a run."""

    loss: float
    useful_frames_per_second: float
    wait_share: float

    def __str__(self) -> str:
        return f"loss {self.loss:.3f} | {self.useful_frames_per_second:,.0f} useful frames/s | waiting {self.wait_share:.1%}"


class Display:
    """Prints to one console; the rest of the trainer prints nothing.

    On a terminal the progress is a bar. Elsewhere (nohup, Docker, `tee`) it is one line every ten seconds.
    """

    def __init__(self, console: Console | None = None):
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._task = None
        self._lines: LineProgress | None = None
        self._total_steps = 0
        self._figures = ""

    def line(self, text: str) -> None:
        """One line, above the progress bar if there is one."""
        self.console.print(text, markup=False)

    def configuration(self, config: XTTSConfig, facts: Mapping[str, str], is_fixed: bool, max_mel_frames: int) -> None:
        """The promised lines, and what follows from the configuration on this corpus."""
        self.line("=== Final Training Configuration ===")
        self.line(f"Static shapes (pad_to_fixed_length): {is_fixed}")
        if is_fixed:
            self.line(STATIC_SHAPES_NOTE)
        self.line(f"Max text length: {config.data.max_text_length}")
        self.line(f"Max mel frames: {max_mel_frames}")
        for name, value in facts.items():
            self.line(f"{name}: {value}")

    def progress(self) -> AbstractContextManager[BarProgress | LineProgress]:
        """Progress of what comes before the training: `with display.progress() as progress: progress(stage, done, total)`."""
        return open_progress(self.console)

    @contextmanager
    def training(self, total_steps: int, first_step: int) -> Iterator[None]:
        """Show the progress of the loop."""
        self._total_steps, self._figures = total_steps, ""
        if not self.console.is_interactive:
            self._lines = LineProgress(self.line)
            self.advance(first_step)
            try:
                yield
            finally:
                self._lines = None
            return
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            refresh_per_second=2,
        )
        try:
            with self._bar:
                self._task = self._bar.add_task("training", total=total_steps, completed=first_step, figures="")
                yield
        finally:
            self._bar = None

    def advance(self, step: int) -> None:
        """Report the steps that are done; cheap."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)
        elif self._lines is not None:
            self._lines("training", step, self._total_steps, self._figures)

    def validating(self, batches: int) -> None:
        """Report the batches of a validation that are done: on a terminal the bar stands still meanwhile."""
        if self._lines is not None:
            self._lines("validating", batches, None)

    def figures(self, figures: Figures) -> None:
        """Renew the figures of the progress."""
        self._figures = str(figures)
        if self._bar is not None:
            self._bar.update(self._task, figures=self._figures)

    def table(self, title: str, rows: Mapping[str, str]) -> None:
        """Two columns; a value that is too wide for the console, such as a path, is wrapped, never cut."""
        table = Table(title=title, show_header=False, title_justify="left")
        table.add_column()
        table.add_column(overflow="fold")
        for name, value in rows.items():
            table.add_row(name, value)
        self.console.print(table)


# MERGED: The first lines of a run: the configuration in the promised words, and what follows from it on this corpus and machine.

if TYPE_CHECKING:
    from myxtts.training.trainer import XTTSTrainer


def announce_run(trainer: XTTSTrainer) -> None:
    """Show what is going to happen."""
    plan, cache, settings = trainer.corpus.plan, trainer.corpus.cache, trainer.settings
    held_out = len(trainer.corpus.validation_plan.clips) if trainer.corpus.validation_plan else 0
    facts = {
        "Device": trainer.hardware.description,
        "XLA": _compiled_parts(trainer),
        "Convolution": f"{DESCRIPTIONS[trainer.hardware.convolution]}, {instruction_set()}",
        "Precision": trainer.hardware.dtype_policy,
        "Corpus": f"{len(plan.clips)} clips for training, {held_out} held out, {trainer.corpus.set_aside}; "
        f"speakers {len(cache.speakers)}, languages {len(cache.languages)}, {cache.front_end_kind}",
        "Sound": trainer.corpus.sound,
        "Plan": f"{plan.kind}, shapes {len(plan.shapes)} (first {plan.shapes[0]}), {plan.useful_fraction():.0%} useful frames, "
        f"{plan.mean_clips_per_batch():.1f} clips a batch",
        "Network": f"{trainer.config.model.size}, {trainer.state.layout.size:,} parameters",
        "Optimisation": f"{trainer.config.training.optimization_level}, learning rate {settings.learning_rate:g}, "
        f"{settings.warmup_steps} steps of warm-up, average {settings.ema_decay:g}",
        "Steps": f"{trainer.total_steps:,}, batches a step {trainer.config.training.gradient_accumulation_steps}",
    }
    if not plan.is_static:
        facts["Cost of the plan"] = (
            "a batch of a new size is compiled anew, in the middle of the run; --plan packed has one size"
        )
    trainer.display.configuration(
        trainer.config, facts, plan_kind(trainer.config.data) == "fixed", trainer.corpus.max_mel_frames
    )


def _compiled_parts(trainer: XTTSTrainer) -> str:
    if trainer.hardware.uses_xla:
        return "all of the step"
    if trainer.hardware.xla_note:
        return f"off: {trainer.hardware.xla_note}"
    is_off = trainer.config.training.enable_xla_compilation is False or not trainer.hardware.graph_mode
    return "off" if is_off else "alignment, gradients of SiLU, update"


# MERGED: The table at the end of a run: what was measured, and where things are.

if TYPE_CHECKING:
    from myxtts.training.trainer import XTTSTrainer


@dataclass(frozen=True)
class RunSummary:
    """Figures of one process's part of a run."""

    reason: StopReason
    step: int
    seconds: float
    loss: float | None
    best_validation: float | None
    useful_frames_per_second: float
    padding_share: float
    steps: StepSummary
    counts: Counts
    counts_after_warmup: Counts
    compile_seconds: float
    skipped_steps: int
    """Of the whole training: loss or gradient was not finite."""
    scaled_down_steps: int
    """The gradient overflowed and the loss scale fell."""
    logging_share: float
    checkpoint: Path | None
    samples: list[Path]
    """Wavs of the fixed sentences."""

    def rows(self) -> dict[str, str]:
        """For the table."""
        after = self.counts_after_warmup
        compilations = "not countable here" if after.compilations is None else str(after.compilations)
        return {
            "Stopped": str(self.reason),
            "Steps": f"{self.step:,} in all, {self.steps.steps:,} in this run, {self.seconds / 60:.1f} min",
            "Loss": "–" if self.loss is None else f"{self.loss:.4f}",
            "Best validation loss": "–" if self.best_validation is None else f"{self.best_validation:.4f}",
            "Useful frames/s": f"{self.useful_frames_per_second:,.0f}",
            "Padding": f"{self.padding_share:.1%} of the frames",
            "Waiting for data": f"{self.steps.wait_share:.2%} of the time",
            "Skipped steps": f"{self.skipped_steps:,}"
            + (f", and {self.scaled_down_steps:,} that lowered the loss scale" if self.scaled_down_steps else ""),
            "Step time": f"{self.steps.mean_seconds:.3f} s ± {self.steps.std_seconds:.3f} s "
            f"(robust spread {self.steps.step_cv:.1%})",
            "Traces": f"{self.counts.traces}, after the warm-up {after.traces}",
            "XLA compilations after the warm-up": compilations,
            "Time to compile": f"{self.compile_seconds:.1f} s",
            "Logging": f"{self.logging_share:.2%} of the time",
            "Checkpoint": str(self.checkpoint or "written by the chief"),
            "Speech to listen to": "\n".join(str(path) for path in self.samples) or "–",
        }


def summarize_run(
    trainer: XTTSTrainer, reason: StopReason, checkpoint: Path | None, samples: list[Path], seconds: float
) -> RunSummary:
    """The figures of a trainer whose loop has ended."""
    recorder, steps = trainer.recorder, trainer.clock.summary()
    return RunSummary(
        reason=reason,
        step=trainer.step,
        seconds=seconds,
        loss=recorder.last_metrics.get("loss"),
        best_validation=trainer.progress.best_loss,
        useful_frames_per_second=recorder.useful_frames / max(trainer.clock.total_seconds, 1e-9),
        padding_share=1 - trainer.corpus.plan.useful_fraction(epochs=1),
        steps=steps,
        counts=trainer.watch.counts(),
        counts_after_warmup=trainer.watch.counts_since_warmup(),
        compile_seconds=trainer.timers.seconds("compile"),
        skipped_steps=trainer.progress.skipped_steps,
        scaled_down_steps=recorder.scaled_down_steps,
        logging_share=recorder.seconds / max(trainer.clock.total_seconds, 1e-9),
        checkpoint=checkpoint,
        samples=samples,
    )
