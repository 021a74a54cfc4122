"""Training a vocoder, in order: open the corpus, cut crops, build, restore or initialize, compile, loop, save, copy clips."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from myxtts.batches.crops import CropFeed, CropTable, crop_table
from myxtts.cache.clip_table import Cache
from myxtts.cache.prepare import prepare_cache
from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict
from myxtts.errors import CheckpointError, ConfigError, CorpusError
from myxtts.models.spec import VocoderSpec
from myxtts.runtime.compilation import Counts, RetraceWatch
from myxtts.runtime.locks import RunLock
from myxtts.runtime.timers import StageTimers, StepClock
from myxtts.synthesis.onnx_file import read_model, weights_of
from myxtts.synthesis.vocoder import find_vocoder, open_vocoder_file, vocoder_spec
from myxtts.training.checkpoint import Checkpoint, finish_interrupted, load_checkpoint, load_newest, newest_checkpoint
from myxtts.training.decoded_mels import mel_deviations
from myxtts.training.display import Display
from myxtts.training.hardware import set_up_hardware
from myxtts.training.loop import Loop, LoopSettings
from myxtts.training.run_recorder import Recorded, open_recorder
from myxtts.training.starting_state import compare_configs, move_earlier_run
from myxtts.training.vocoder_steps import METRICS, build_vocoder_steps
from myxtts.training.vocoder_task import VOCODER_NAME, VocoderTask, copy_clip, on_device

RateCopy = Callable[[np.ndarray, np.ndarray, int], float | None]
"""Copy, recording and rate → a quality such as PESQ. The command line passes it in, so that training never imports evaluation."""


@dataclass(frozen=True)
class VocoderSummary:
    """How a run ended."""

    reason: str
    """Why the run stopped (`loop.StopReason`)."""
    step: int
    seconds: float
    losses: dict[str, float]
    """Losses of the held-out clips at the end."""
    counts_after_warmup: Counts
    vocoder: Path
    samples: list[Path]
    """Copies of clips."""
    rated: list[float]
    """The result of `rate` for each sampled clip."""

    def rows(self) -> dict[str, str]:
        """The table at the end of a run."""
        rows = {
            "Stopped": self.reason,
            "Steps": f"{self.step:,}, {self.seconds / 60:.1f} min in this run",
            **{f"Validation {name}": f"{value:.4f}" for name, value in self.losses.items()},
            "Traces after the warm-up": str(self.counts_after_warmup.traces),
            "Vocoder": str(self.vocoder),
            "Reconstructed clips": "\n".join(str(path) for path in self.samples) or "–",
        }
        if self.rated:
            rows["PESQ-WB of the reconstructed clips"] = f"{np.mean(self.rated):.2f} ({len(self.rated)} clips)"
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
    return VocoderSummary(
        reason=str(result.reason),
        step=task.step,
        seconds=result.seconds,
        losses=losses,
        counts_after_warmup=task.watch.counts_since_warmup(),
        vocoder=task.folder / VOCODER_NAME,
        samples=result.samples,
        rated=_rated(task, rate),
    )


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
        raise ConfigError("A vocoder is trained on one device. Choose one (--device gpu:0), and unset TF_CONFIG.")
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
    steps = build_vocoder_steps(
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
                f"{config.vocoder.checkpoint_dir} has a run of a voice, not of a vocoder. Choose another --checkpoint-dir."
            )
        own = VocoderSpec.from_dict(saved.corpus["vocoder"])
        if own.mel != cache.mel:
            raise CheckpointError(
                f"{config.vocoder.checkpoint_dir} has a vocoder with different mel settings: "
                f"{own.mel.compared_with(cache.mel, 'the recordings give')}. Use another --checkpoint-dir, or --reset-training."
            )
        return own, None
    if config.vocoder.init_from is None:
        return spec, None
    origin, weights = read_vocoder(config.vocoder.init_from)
    if origin.mel != cache.mel:
        has_same_rate = origin.mel.sample_rate == cache.mel.sample_rate
        advice = "Use its mel settings" if has_same_rate else f"Give --sample-rate {origin.mel.sample_rate}"
        raise ConfigError(
            f"{config.vocoder.init_from} is a vocoder with different mel settings: "
            f"{origin.mel.compared_with(cache.mel, 'the recordings give')}. {advice}."
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
