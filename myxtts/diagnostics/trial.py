"""Real training steps in a temporary folder, on which the diagnoses of this trainer are based."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from rich.console import Console

from myxtts.config.config import XTTSConfig
from myxtts.errors import DiagnosisError
from myxtts.runtime.compilation import Counts, Retrace
from myxtts.runtime.timers import Stage, StepSummary, summarize
from myxtts.training.display import Display
from myxtts.training.initial_weights import settle_start
from myxtts.training.steps import learning_kind
from myxtts.training.trainer import XTTSTrainer

COLD_STEPS = 2
"""Steps after the warm-up that still fill caches of the allocator and the processor; reported separately."""


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
    config = settle_start(config)  # the network and the mels of the user's run, without its weights
    with tempfile.TemporaryDirectory(prefix="myxtts-trial-") as folder:
        training = dataclasses.replace(
            config.training, checkpoint_dir=folder, tensorboard_log_dir=None, init_from=None, on_retrace="warn"
        )
        quiet = Display(Console(file=io.StringIO(), highlight=False))
        trainer = XTTSTrainer(dataclasses.replace(config, training=training), display=quiet, starts_anew=True)
        with trainer:
            yield trainer


def run_trial(trainer: XTTSTrainer, steps: int) -> Trial:
    """Run steps as the training loop does: a batch from the feed, the compiled step, the counters."""
    if steps <= COLD_STEPS:
        raise DiagnosisError(
            f"At least {COLD_STEPS + 1} steps are needed, because the first ones are cold. Received: {steps}."
        )
    accumulated = trainer.config.training.gradient_accumulation_steps
    clock, watch, previous = trainer.clock, trainer.watch, None
    clock.begin()
    for step in range(1, steps + 1):
        batches = [next(trainer.feed) for _ in range(accumulated)]
        clock.mark(Stage.WAIT)
        metrics: tf.Tensor = trainer.steps.learn(batches)
        if previous is not None:
            previous.numpy()
        clock.mark(Stage.DEVICE)
        previous = metrics
        watch.observe_step(step, learning_kind(accumulated), batches)
        clock.finish()
    return Trial(
        stages=clock.recent(last=steps),
        cold_steps=COLD_STEPS,
        retraces=watch.retraces,
        since_warmup=watch.counts_since_warmup(),
        total=watch.counts(),
        hardware=trainer.hardware.facts(),
    )
