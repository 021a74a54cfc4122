"""Real training steps in a temporary folder, on which the diagnoses of this trainer are based."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from myxtts.config.config import XTTSConfig
from myxtts.errors import DiagnosisError
from myxtts.runtime.compilation import Counts, Retrace
from myxtts.runtime.timers import StepSummary, summarize
from myxtts.training.autotune import COLD_STEPS
from myxtts.training.display import Display
from myxtts.training.loop import take_steps
from myxtts.training.starting_config import resolve_starting_config
from myxtts.training.trainer import XTTSTrainer


@dataclass(frozen=True)
class Trial:
    """The measurements of a number of real steps."""

    stages: np.ndarray
    """Seconds by (step, stage), cold steps first."""
    cold_steps: int
    retraces: tuple[Retrace, ...]
    since_warmup: Counts
    total: Counts
    hardware: dict[str, str]
    """What the steps ran on (`Hardware.facts`)."""

    @property
    def steady(self) -> np.ndarray:
        """Seconds by (step, stage) without the cold steps."""
        return self.stages[self.cold_steps :]

    @property
    def hardware_line(self) -> str:
        """For people."""
        return "Ran on " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.hardware.items())

    @property
    def summary(self) -> StepSummary:
        """Metrics of the steady steps."""
        return summarize(self.steady)


@contextlib.contextmanager
def trial_trainer(config: XTTSConfig) -> Iterator[XTTSTrainer]:
    """The real trainer on a configuration, quiet, with its checkpoints in a folder that is removed afterwards."""
    config = resolve_starting_config(config)  # the network and the mels of the user's run, without its weights
    with tempfile.TemporaryDirectory(prefix="myxtts-trial-") as folder:
        training = dataclasses.replace(
            config.training, checkpoint_dir=folder, tensorboard_log_dir=None, init_from=None, on_retrace="warn"
        )
        quiet = Display(Console(file=io.StringIO(), highlight=False))
        trainer = XTTSTrainer(dataclasses.replace(config, training=training), display=quiet, reset_training=True)
        with trainer:
            yield trainer


def run_trial(trainer: XTTSTrainer, steps: int) -> Trial:
    """Take steps as the training loop takes them."""
    if steps <= COLD_STEPS:
        raise DiagnosisError(
            f"At least {COLD_STEPS + 1} steps are needed, because the first ones are cold. Received: {steps}."
        )
    task, clock = trainer.task, trainer.clock
    for taken in take_steps(task, clock, steps):
        task.check_retracing(taken.batches)
        clock.finish()
    return Trial(
        stages=clock.recent(last=steps),
        cold_steps=COLD_STEPS,
        retraces=task.watch.retraces,
        since_warmup=task.watch.counts_since_warmup(),
        total=task.watch.counts(),
        hardware=task.hardware.facts(),
    )
