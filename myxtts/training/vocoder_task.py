"""The training of a vocoder as a `task.Task`: its crops and steps, validation, checkpoints, copies of clips, vocoder.onnx."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.files import LARGEST_INT16, write_audio
from myxtts.batches.crops import CropBatch, CropFeed, CropTable
from myxtts.cache.clip_table import Cache
from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict, parse_config
from myxtts.export.vocoder_graph import vocoder_model
from myxtts.models.spec import VocoderSpec
from myxtts.models.vocoder_losses import Losses
from myxtts.runtime.compilation import RetraceWatch
from myxtts.runtime.safe_files import write_atomically
from myxtts.synthesis.vocoder import NeuralVocoder, open_vocoder_file
from myxtts.training.checkpoint import (
    Checkpoint,
    keep_newest,
    mark_best,
    save_checkpoint,
)
from myxtts.training.hardware import Hardware
from myxtts.training.run_log import Logbook
from myxtts.training.state import RunHistory, restore_checkpoint
from myxtts.training.task import SavedCheckpoint, StepFacts
from myxtts.training.vocoder_steps import VocoderSteps

VOCODER_NAME = "vocoder.onnx"
VALIDATION_BATCHES = 8
"""Crops of the held-out clips, spread evenly: 16 crops of 0.58 s each are 74 s of speech. Chosen; not measured."""
SAMPLED_CLIPS = 4
"""Clips that are copied for listening."""


@dataclass
class VocoderTask:
    """One vocoder in training. Made by `vocoder_trainer`."""

    config: XTTSConfig
    hardware: Hardware
    cache: Cache
    feed: CropFeed
    validation: CropTable | None
    steps: VocoderSteps
    watch: RetraceWatch
    total_steps: int
    history: RunHistory = field(default_factory=RunHistory)
    step: int = 0
    has_evaluation: bool = False

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return Path(self.config.vocoder.checkpoint_dir)

    @property
    def can_validate(self) -> bool:
        """Whether a held-out clip is long enough."""
        return self.validation is not None

    # --- learning ---------------------------------------------------------------------------------------------------

    def next_batches(self) -> list[CropBatch]:
        """The batch of the next step."""
        return [on_device(next(self.feed))]

    def learn(self, batches: Sequence[CropBatch]) -> tf.Tensor:
        """Start one step on the device; returns `vocoder_steps.METRICS`."""
        metrics = self.steps.learn(batches[0], self.step)
        self.step += 1
        return metrics

    def describe(self, batches: Sequence[CropBatch]) -> StepFacts:
        """What the log records; steps with and without discriminators are compared separately."""
        is_adversarial = self.steps.schedule.is_adversarial(self.step - 1)
        return StepFacts([batches[0].clips], int(np.prod(batches[0].pitch.shape)), group=int(is_adversarial))

    def check_retracing(self, batches: Sequence[CropBatch]) -> None:
        """Report what the last step traced or compiled again."""
        self.watch.observe(self.step, self.steps.step_name(self.step - 1), batches[0])

    def confirm_stop(self, is_wanted: bool, finished: np.ndarray | None) -> bool:
        """One process decides alone."""
        return is_wanted

    # --- validation ---------------------------------------------------------------------------------------------------

    def validate(self, on_batch: Callable[[int], None] = lambda batches: None) -> dict[str, float]:
        """Mean spectral losses over crops of the held-out clips, with the EMA of the weights."""
        if self.validation is None:
            return {"loss": float("nan")}
        start = self.steps.schedule.adversarial_start
        if self.step > start >= self.history.best_step:  # losses of the two phases cannot be compared
            self.history.best_loss, self.history.validations_without_improvement = None, 0
        sums = np.zeros(len(Losses._fields))
        with self.steps.state.with_ema_weights():
            for number in range(VALIDATION_BATCHES):
                batch = self.validation.spread(number, VALIDATION_BATCHES, self.config.vocoder.batch_size)
                sums += self.steps.validate(on_device(batch)).numpy()
                on_batch(number + 1)
        losses = Losses(*(sums / VALIDATION_BATCHES).tolist())
        return {"loss": self.steps.total(losses), **losses._asdict()}

    def lower_learning_rate(self) -> str | None:
        """The schedule alone decides."""
        return None

    # --- checkpoints and the vocoder ----------------------------------------------------------------------------------

    def save(self) -> SavedCheckpoint:
        """Write a checkpoint and remove old ones."""
        state = self.steps.state
        arrays = {"weights": state.flat_weights(), **state.vectors()}
        scalars = {name: variable.numpy().item() for name, variable in state.scalars().items()}
        for name, own in self.steps.discriminators.items():
            arrays |= {f"{name}/weights": own.flat_weights()}
            arrays |= {f"{name}/{vector}": values for vector, values in own.vectors().items()}
            scalars[f"{name}/updates"] = own.updates.numpy().item()
        checkpoint = Checkpoint(
            step=self.step,
            position=(0, self.step),
            arrays=arrays,
            weight_names=state.names,
            weight_shapes=[list(shape) for shape in state.layout.shapes],
            scalars=scalars,
            config=config_to_dict(self.config),
            corpus={"vocoder": self.steps.spec.to_dict(), "license": self.cache.license},
            progress=self.history.to_dict(),
            plan_fingerprint=self.cache.content_id,
            hardware=self.hardware.facts(),
        )
        path = save_checkpoint(self.folder, checkpoint)
        keep_newest(self.folder, self.config.training.keep_checkpoints)
        return SavedCheckpoint(path, checkpoint)

    def mark_best(self, saved: SavedCheckpoint) -> None:
        """Keep a checkpoint as best/."""
        mark_best(self.folder, saved.path)

    def evaluate(self, saved: SavedCheckpoint) -> dict[str, float]:
        """Nothing while training; `vocoder_trainer.train_vocoder` rates the last samples."""
        return {}

    def draw(self, log: Logbook) -> None:
        """There are no pictures."""

    def sample(self, saved: SavedCheckpoint, log: Logbook | None) -> list[Path]:
        """Write vocoder.onnx and the copies of some held-out clips."""
        vocoder = open_vocoder_file(export_vocoder(saved.checkpoint, self.folder / VOCODER_NAME), self.cache.mel, 1)
        written = []
        for clip in self.sampled_clips():
            copied = copy_clip(vocoder, self.cache, clip)[0]
            name = "".join(letter if letter.isalnum() else "-" for letter in self.cache.ids[clip])
            path = self.folder / "samples" / f"step-{saved.checkpoint.step:08d}-{name}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_audio(path, copied, self.cache.mel.sample_rate)
            written.append(path)
            if log is not None:
                log.audio(f"copy/{self.cache.ids[clip]}", saved.checkpoint.step, copied, self.cache.mel.sample_rate)
        return written

    def sampled_clips(self) -> list[int]:
        """Held-out clips, spread evenly; clips of the training where none is held out."""
        clips = (self.validation or self.feed.table).clips
        return clips[np.linspace(0, len(clips) - 1, min(SAMPLED_CLIPS, len(clips))).astype(int)].tolist()

    def restore(self, saved: Checkpoint) -> None:
        """Continue where a checkpoint was taken."""
        restore_checkpoint(self.steps.state, saved)
        for name, own in self.steps.discriminators.items():
            if f"{name}/weights" not in saved.arrays:  # the run had no adversarial phase so far
                continue
            own.assign_weights(saved.arrays[f"{name}/weights"])
            own.restore_vectors({vector: saved.arrays[f"{name}/{vector}"] for vector in own.vectors()})
            own.updates.assign(np.int64(saved.scalars[f"{name}/updates"]))
        self.step, self.history = saved.step, RunHistory.restored(saved.progress)


def export_vocoder(checkpoint: Checkpoint, path: Path) -> Path:
    """Write the EMA weights of a checkpoint as an ONNX file, with the noise at the level of `vocoder.noise_db`."""
    noise_db = parse_config(checkpoint.config).vocoder.noise_db
    spec = replace(VocoderSpec.from_dict(checkpoint.corpus["vocoder"]), noise_gain=noise_db * math.log(10) / 20)
    model = vocoder_model(spec, checkpoint.named_weights(prefers_ema=True))
    write_atomically(path, model.SerializeToString(deterministic=True))
    return path


def copy_clip(vocoder: NeuralVocoder, cache: Cache, clip: int) -> tuple[np.ndarray, np.ndarray]:
    """A clip from its mel, and the recording itself, both float32 and equally long."""
    copied = vocoder(cache.clip_frames(clip))
    recorded = cache.clip_samples(clip).astype(np.float32) / LARGEST_INT16
    length = min(len(copied), len(recorded))
    return copied[:length], recorded[:length]


def on_device(batch: CropBatch) -> CropBatch:
    """The arrays of a batch as tensors."""
    arrays: Any = (tf.convert_to_tensor(array) for array in batch)
    return CropBatch(*arrays)
