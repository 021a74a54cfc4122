"""The training of a vocoder as a `loop.Task`, and `train_vocoder`, which runs it: corpus, cache, crops, steps, vocoder.onnx."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.files import LARGEST_INT16, write_audio
from myxtts.batches.crops import CropBatch, CropFeed, CropTable, crop_table
from myxtts.cache.clip_table import Cache
from myxtts.cache.prepare import prepare_cache
from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict, parse_config
from myxtts.errors import CheckpointError, ConfigError, CorpusError
from myxtts.export.vocoder_graph import vocoder_model
from myxtts.models.spec import VocoderSpec
from myxtts.models.vocoder_losses import Losses
from myxtts.runtime.atomic import write_atomically
from myxtts.runtime.compilation import Counts, RetraceWatch
from myxtts.runtime.locks import RunLock
from myxtts.runtime.timers import StageTimers, StepClock
from myxtts.synthesis.onnx_file import read_model, weights_of
from myxtts.synthesis.vocoder import NeuralVocoder, find_vocoder, open_vocoder_file, vocoder_spec
from myxtts.training.checkpoint import (
    Checkpoint,
    keep_newest,
    load_checkpoint,
    load_newest,
    mark_best,
    newest_checkpoint,
    save_checkpoint,
)
from myxtts.training.decoded_mels import mel_deviations
from myxtts.training.display import Display
from myxtts.training.hardware import Hardware, set_up_hardware
from myxtts.training.loop import Loop, LoopResult, LoopSettings, SavedCheckpoint, StepFacts
from myxtts.training.resume import compare_configs, finish_interrupted, move_earlier_run
from myxtts.training.run_log import Logbook
from myxtts.training.run_recorder import Recorded, open_recorder
from myxtts.training.state import RunHistory
from myxtts.training.vocoder_steps import METRICS, VocoderSteps

VOCODER_NAME = "vocoder.onnx"
VALIDATION_BATCHES = 8
"""Crops of the held-out clips, spread evenly: 16 crops of 0.58 s each are 74 s of speech. Chosen; not measured."""
SAMPLED_CLIPS = 4
"""Clips that are copied for listening."""

RateCopy = Callable[[np.ndarray, np.ndarray, int], float | None]
"""Copy, recording and rate → a quality such as PESQ. The command line passes it in, so that training never imports evaluation."""


@dataclass
class VocoderTask:
    """One vocoder in training. Made by `open_task`."""

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
        """Nothing while training; `train_vocoder` rates the last samples."""
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
        state = self.steps.state
        if saved.weight_names != state.names:
            raise CheckpointError("The checkpoint belongs to another network. Use --reset-training.")
        state.assign_weights(saved.arrays["weights"])
        state.restore_vectors(saved.arrays)
        for name, variable in state.scalars().items():
            variable.assign(np.asarray(saved.scalars[name], variable.dtype.as_numpy_dtype))
        for name, own in self.steps.discriminators.items():
            if f"{name}/weights" not in saved.arrays:  # the run had no adversarial phase so far
                continue
            own.assign_weights(saved.arrays[f"{name}/weights"])
            own.restore_vectors({vector: saved.arrays[f"{name}/{vector}"] for vector in own.vectors()})
            own.updates.assign(np.int64(saved.scalars[f"{name}/updates"]))
        self.step, self.history = saved.step, RunHistory.restored(saved.progress)


@dataclass(frozen=True)
class VocoderSummary:
    """How a run ended."""

    result: LoopResult
    task: VocoderTask
    counts_after_warmup: Counts
    losses: dict[str, float]
    """Of the held-out clips at the end."""
    rated: list[float]
    """What `rate` says of each sampled clip."""

    def rows(self) -> dict[str, str]:
        """The table at the end of a run."""
        rows = {
            "Stopped": str(self.result.reason),
            "Steps": f"{self.task.step:,}, {self.result.seconds / 60:.1f} min in this run",
            **{f"Validation {name}": f"{value:.4f}" for name, value in self.losses.items()},
            "Traces after the warm-up": str(self.counts_after_warmup.traces),
            "Vocoder": str(self.task.folder / VOCODER_NAME),
            "Copies to listen to": "\n".join(str(path) for path in self.result.samples) or "–",
        }
        if self.rated:
            rows["PESQ-WB of the copies"] = f"{np.mean(self.rated):.2f} ({len(self.rated)} clips)"
        return rows


def train_vocoder(
    config: XTTSConfig, display: Display | None = None, *, reset_training: bool = False, rate: RateCopy | None = None
) -> VocoderSummary:
    """Train to the end, to a limit or to a signal; leaves a checkpoint, samples and vocoder.onnx in the folder of the run.

    Args:
        reset_training: move an earlier run out of the way instead of resuming it.
        rate: measures the copies at the end.
    """
    display, timers, clock = display or Display(), StageTimers(), StepClock()
    with contextlib.ExitStack() as stack:
        stack.enter_context(RunLock(Path(config.vocoder.checkpoint_dir)))
        task = stack.enter_context(_opened_task(config, display, reset_training))
        display.line("Compiling the steps")
        with timers.stage("compile"):
            task.steps.warm_up(on_device(task.feed.table.empty(config.vocoder.batch_size)))
        for name, function in task.steps.functions.items():
            task.watch.add(name, function)
            task.watch.expect(name, on_device(task.feed.table.empty(config.vocoder.batch_size)))
        task.watch.warmed_up()
        run = Recorded(
            METRICS, task.cache.ids, config.training.nonfinite_limit, display, clock, task.watch, task.history
        )
        tensorboard = config.training.tensorboard_log_dir
        with open_recorder(task.folder, None if tensorboard is None else Path(tensorboard), run) as recorder:
            settings = LoopSettings.from_config(config.training)
            result = Loop(task, settings, recorder, display, clock, timers).run()
        losses = task.validate() if task.can_validate else {}
        counts = task.watch.counts_since_warmup()
    return VocoderSummary(result, task, counts, losses, _rated(task, rate))


def _rated(task: VocoderTask, rate: RateCopy | None) -> list[float]:
    if rate is None or not (task.folder / VOCODER_NAME).is_file():
        return []
    vocoder = open_vocoder_file(task.folder / VOCODER_NAME, task.cache.mel)
    copies = [copy_clip(vocoder, task.cache, clip) for clip in task.sampled_clips()]
    found = [rate(copied, recorded, task.cache.mel.sample_rate) for copied, recorded in copies]
    return [value for value in found if value is not None]


@contextlib.contextmanager
def _opened_task(config: XTTSConfig, display: Display, reset_training: bool):
    """The task of a run, resumed if there is one, with its crops being gathered."""
    hardware = set_up_hardware(config.training, None, display.line)
    if hardware.replicas > 1 or hardware.cluster is not None:
        raise ConfigError("A vocoder is trained on one device. Give it one: --device gpu:0, without TF_CONFIG.")
    folder, line = Path(config.vocoder.checkpoint_dir), display.line
    if reset_training:
        move_earlier_run(folder, line)
    else:
        finish_interrupted(folder)
    saved, damaged = load_newest(folder)
    for each in damaged:
        line(each)
    with display.progress() as progress:
        cache = prepare_cache(config.data, progress=progress, announce=line, with_sound=True)
    line(cache.describe_quality())
    spec, weights = _starting_point(config, cache, saved)
    deviations = None
    if config.vocoder.mels_of is not None:
        with display.progress() as progress:
            deviations = mel_deviations(cache, config, config.vocoder.mels_of, progress, line)
    table, validation = _crop_tables(config, cache, deviations)
    steps = VocoderSteps(
        spec,
        config.vocoder,
        config.training.seed,
        graph_mode=hardware.graph_mode,
        uses_xla=hardware.xla.compiles_parts,
    )
    feed = CropFeed(table, config.training.seed, 0 if saved is None else saved.step, config.vocoder.batch_size)
    watch = RetraceWatch(on_retrace=config.training.on_retrace)
    task = VocoderTask(config, hardware, cache, feed, validation, steps, watch, steps.schedule.steps)
    if saved is not None:
        task.restore(saved)
        for change in compare_configs(saved.config, config_to_dict(config)):
            line(f"Changed since the checkpoint: {change}")
        line(f"Resuming at step {saved.step} from {folder}")
    elif weights is not None:
        steps.state.assign_weights(np.concatenate([weights[name].ravel() for name in steps.state.names]))
        steps.state.ema.assign(steps.state.flat_weights())
        line(f"Starting from {config.vocoder.init_from}")
    schedule = steps.schedule
    line(
        f"{len(table.clips)} clips for training, {0 if validation is None else len(validation.clips)} held out; "
        f"{steps.state.layout.size:,} parameters; {schedule.steps:,} steps, "
        + (
            f"with discriminators after {schedule.adversarial_start:,}"
            if schedule.has_adversarial_phase
            else "no discriminators"
        )
        + f"; {hardware.description}"
    )
    with feed:
        yield task


def _starting_point(
    config: XTTSConfig, cache: Cache, saved: Checkpoint | None
) -> tuple[VocoderSpec, dict[str, np.ndarray] | None]:
    """The dimensions of the network, and the weights of `init_from` for a new run."""
    spec = VocoderSpec(cache.mel, channels=config.vocoder.channels, blocks=config.vocoder.blocks)
    if saved is not None:
        if "vocoder" not in saved.corpus:
            raise CheckpointError(
                f"{config.vocoder.checkpoint_dir} holds a run of a voice, not of a vocoder. Choose another --checkpoint-dir."
            )
        own = VocoderSpec.from_dict(saved.corpus["vocoder"])
        if own.mel != cache.mel:
            raise CheckpointError(
                f"{config.vocoder.checkpoint_dir} holds a vocoder of other mels ({own.mel}; now {cache.mel}). Use "
                "another --checkpoint-dir, or --reset-training."
            )
        return own, None
    if config.vocoder.init_from is None:
        return spec, None
    origin, weights = read_vocoder(config.vocoder.init_from)
    if origin.mel != cache.mel:
        raise ConfigError(
            f"{config.vocoder.init_from} is a vocoder of other mels ({origin.mel}; the recordings give {cache.mel}). "
            f"Give --sample-rate {origin.mel.sample_rate}."
        )
    return origin, weights


def read_vocoder(path: str | Path) -> tuple[VocoderSpec, dict[str, np.ndarray]]:
    """Dimensions and weights of a vocoder's .onnx file (or `universal`), or of the newest checkpoint in the folder of a run."""
    path = find_vocoder(path)
    if path.is_dir():
        newest = newest_checkpoint(path)
        if newest is None:
            raise CheckpointError(
                f"No vocoder found. Received: {path}. Expected: a .onnx file, or the folder of a run."
            )
        checkpoint = load_checkpoint(newest)
        return VocoderSpec.from_dict(checkpoint.corpus["vocoder"]), checkpoint.named_weights(prefers_ema=True)
    model = read_model(path, ("mel", "noise"), ("samples",))
    return replace(vocoder_spec(model, path), noise_gain=0.0), weights_of(model)


def _crop_tables(config: XTTSConfig, cache: Cache, deviations: np.ndarray | None) -> tuple[CropTable, CropTable | None]:
    """The crops of training and of validation; None if no held-out clip is long enough."""
    settings = config.vocoder
    gains = (settings.lowest_gain_db, settings.highest_gain_db)
    table = crop_table(cache, np.flatnonzero(~cache.is_validation), settings.crop_frames, gains)
    if deviations is not None:
        table = replace(table, deviations=deviations, deviating_fraction=settings.mels_fraction)
    try:
        return table, crop_table(cache, np.flatnonzero(cache.is_validation), settings.crop_frames)
    except CorpusError:
        return table, None


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
