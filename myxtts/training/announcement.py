"""The first lines of a run: the configuration in the promised words, and what follows from it on this corpus and machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from myxtts.data.plan import plan_kind
from myxtts.models.convolution import DESCRIPTIONS
from myxtts.runtime.device import instruction_set

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
        "Plan": f"{plan.kind}, shapes {len(plan.shapes)} (first {plan.shapes[0]}), {plan.useful_share():.0%} useful frames, "
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
