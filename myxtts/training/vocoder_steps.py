"""The compiled steps of the vocoder: spectral losses, then discriminators as well. One signature; nothing waits for the host.

An adversarial step trains one spectrum and one period discriminator, in turn, and passes their gradient with respect to the
samples on to the generator. The generator's gradient is compiled by XLA on every device where XLA is allowed: it is made of
matrix products and small operations between them. A loss or gradient that is not finite, and a batch without clips, change
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from myxtts.audio.files import LARGEST_INT16
from myxtts.batches.crops import CropBatch
from myxtts.config.config import VocoderConfig
from myxtts.models.spec import VocoderSpec
from myxtts.models.vocoder import Vocoder
from myxtts.models.vocoder_losses import (
    PERIODS,
    SPECTRUM_RESOLUTIONS,
    Losses,
    PeriodDiscriminator,
    SpectrumDiscriminator,
    copy_synthesis,
    spectral_losses,
    within_band,
)
from myxtts.training.optimization import UpdateRule, decay_mask, update_state
from myxtts.training.state import TrainState
from myxtts.training.steps import VALIDATION_STEP

METRICS = (
    "loss", "mel", "magnitude", "relative", "pitch", "pitch_errors", "discriminator", "adversarial", "features",
    "gradient_norm", "learning_rate", "skipped", "frames", "loss_scale",
)  # fmt: skip
HIGHEST_GAINED_PEAK = 0.98
"""The random gain never raises a sample above this. Chosen; not measured."""
SPECTRAL_BETAS, ADVERSARIAL_BETAS = (0.9, 0.98), (0.8, 0.99)
"""Adam's; the second pair is HiFi-GAN's. Chosen, not measured."""
NEW_STEPS, ADAPTATION_STEPS = 20_000, 1_500
SPECTRAL_RATE, ADAPTATION_RATE, ADVERSARIAL_RATE = 1e-3, 2e-4, 2e-4


@dataclass(frozen=True)
class Schedule:
    """Steps and peak learning rates of a run."""

    steps: int
    adversarial_start: int
    """At `steps` or later: never."""
    learning_rate: float
    adversarial_learning_rate: float
    warmup_steps: int
    final_fraction: float

    @classmethod
    def from_config(cls, config: VocoderConfig) -> Schedule:
        """What is null follows from whether the run adapts a vocoder."""
        is_new = config.init_from is None
        steps = config.max_steps or (NEW_STEPS if is_new else ADAPTATION_STEPS)
        start = config.adversarial_start
        return cls(
            steps=steps,
            adversarial_start=steps if start is None else start,
            learning_rate=config.learning_rate or (SPECTRAL_RATE if is_new else ADAPTATION_RATE),
            adversarial_learning_rate=config.adversarial_learning_rate or ADVERSARIAL_RATE,
            warmup_steps=config.warmup_steps,
            final_fraction=config.final_rate_fraction,
        )

    @property
    def has_adversarial_phase(self) -> bool:
        return self.adversarial_start < self.steps

    def is_adversarial(self, step: int) -> bool:
        """Whether the step after `step` steps has discriminators."""
        return step >= self.adversarial_start

    def rate(self, step: int) -> float:
        """Learning rate of the step after `step` steps: in each phase a linear warm-up, then a half cosine."""
        start, end, peak = 0, min(self.adversarial_start, self.steps), self.learning_rate
        if self.is_adversarial(step):
            start, end, peak = self.adversarial_start, self.steps, self.adversarial_learning_rate
        warmup = min(self.warmup_steps, (end - start) // 2)
        if step - start < warmup:
            return peak * (step - start + 1) / warmup
        done = min(1.0, (step - start - warmup) / max(end - start - warmup, 1))
        fraction = self.final_fraction + (1 - self.final_fraction) * 0.5 * (1 + np.cos(np.pi * done))
        return float(peak * fraction)


class VocoderSteps:
    """The steps that train a generator and its discriminators. Made by `build_vocoder_steps`; nothing is traced yet."""

    def __init__(
        self,
        state: TrainState,
        discriminators: Mapping[str, TrainState],
        config: VocoderConfig,
        seed: int,
        *,
        graph_mode: bool,
        uses_xla: bool,
    ):
        """`uses_xla`: compile the generator's part of a step."""
        self.vocoder: Vocoder = state.model
        self.spec, self.config, self.schedule = self.vocoder.spec, config, Schedule.from_config(config)
        self.state, self.discriminators = state, discriminators
        self._seed = seed
        self._is_decayed = decay_mask(self.state)
        self._discriminator_masks = {name: decay_mask(state) for name, state in self.discriminators.items()}
        decay, memory = config.weight_decay, config.ema_decay
        self._spectral_rule = UpdateRule(SPECTRAL_BETAS, config.clip_norm, decay, memory)
        self._adversarial_rule = UpdateRule(ADVERSARIAL_BETAS, config.adversarial_clip_norm, decay, memory)
        self._discriminator_rule = UpdateRule(ADVERSARIAL_BETAS, config.discriminator_clip_norm, decay)
        self._graph_mode = graph_mode
        self._compiled = graph_mode and uses_xla
        self._gradient = self._traced(self._spectral_gradient, jit_compile=self._compiled)
        self._judged_gradient = self._traced(self._adversarial_gradient, jit_compile=self._compiled)
        self._generate = self._traced(self._generated, jit_compile=self._compiled)
        self.functions: dict[str, Any] = {"train_step": self._traced(self._train_step)}
        """Every traced step by name."""
        if self.discriminators:
            for turn in range(len(PERIODS)):
                self.functions[f"adversarial_step {turn}"] = self._traced(self._adversarial_step_of(turn))
        self.functions["validation_step"] = self._traced(self._validation_step)

    def _traced(self, body: Callable, jit_compile: bool = False) -> Any:
        return tf.function(body, jit_compile=jit_compile, autograph=False) if self._graph_mode else body

    # --- steps ----------------------------------------------------------------------------------------------------

    def step_name(self, step: int) -> str:
        """The function that the step after `step` steps runs."""
        return f"adversarial_step {step % len(PERIODS)}" if self.schedule.is_adversarial(step) else "train_step"

    def learn(self, batch: CropBatch, step: int, name: str | None = None) -> tf.Tensor:
        """One step after `step` steps; returns `METRICS`. `name`: the function, for the warm-up."""
        rate = tf.constant(self.schedule.rate(step), tf.float32)
        return self.functions[name or self.step_name(step)](batch, tf.constant(step, tf.int32), rate)

    def validate(self, batch: CropBatch) -> tf.Tensor:
        """The spectral losses of a batch, with the current weights: `Losses` in their order."""
        return self.functions["validation_step"](batch)

    def warm_up(self, batch: CropBatch) -> None:
        """Trace and run every function once on a batch without clips, which leaves the state as it is."""
        for name in self.functions:
            if name == "validation_step":
                self.validate(batch).numpy()
            else:
                self.learn(batch, 0, name).numpy()

    def total(self, losses: Any) -> Any:
        """The weighted sum of `Losses`."""
        config = self.config
        return (
            config.mel_weight * losses.mel
            + config.magnitude_weight * losses.magnitude
            + config.relative_weight * losses.relative
            + config.pitch_weight * losses.pitch
        )

    # --- in the graph -----------------------------------------------------------------------------------------------

    def _train_step(self, batch: CropBatch, step: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        crops, noise = self._inputs(batch, step)
        gradient, terms = self._gradient(crops, batch.bandwidths, batch.pitch, noise)
        return self._applied(batch, gradient, terms, tf.zeros(3), rate, self._spectral_rule, tf.constant(True))

    def _adversarial_step_of(self, turn: int) -> Callable[..., tf.Tensor]:
        names = (f"spectrum_{SPECTRUM_RESOLUTIONS[turn][0]}", f"period_{PERIODS[turn]}")

        def adversarial_step(batch: CropBatch, step: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
            crops, noise = self._inputs(batch, step)
            made, target = self._generate(crops, batch.bandwidths, noise)
            has_clips = tf.reduce_any(batch.clips >= 0)
            judgments = [self._judged(name, made, target, has_clips) for name in names]
            sample_gradient = tf.add_n([gradient for gradient, _, _ in judgments])
            is_finite = tf.reduce_all([is_good for _, _, is_good in judgments])
            gradient, terms = self._judged_gradient(crops, batch.bandwidths, batch.pitch, noise, sample_gradient)
            scores = tf.add_n([numbers for _, numbers, _ in judgments])
            return self._applied(batch, gradient, terms, scores, rate, self._adversarial_rule, is_finite)

        return adversarial_step

    def _validation_step(self, batch: CropBatch) -> tf.Tensor:
        crops, noise = self._inputs(batch, tf.constant(VALIDATION_STEP, tf.int32))
        made = copy_synthesis(self.vocoder, *crops, noise)
        return tf.stack(spectral_losses(made, self.spec.mel, batch.bandwidths, batch.pitch, self.config.repulsion))

    def _inputs(self, batch: CropBatch, step: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], tf.Tensor]:
        """Samples with their gain and the deviations of their mels, and the phases of two noises for each crop.

        The noises are a function of (seed, step).
        """
        samples = tf.cast(batch.samples, tf.float32) / LARGEST_INT16
        peak = tf.maximum(tf.reduce_max(tf.abs(samples), axis=1), 1e-3)
        gains = tf.minimum(batch.gains, tf.maximum(HIGHEST_GAINED_PEAK / peak, 1.0))
        shape = (2 * batch.pitch.shape[0], batch.pitch.shape[1], self.spec.bins)
        noise = tf.random.stateless_uniform(shape, tf.stack([tf.constant(self._seed, tf.int32), step]))
        return (samples * gains[:, tf.newaxis], tf.cast(batch.deviations, tf.float32)), noise

    def _spectral_gradient(self, crops: tuple[Any, Any], bandwidths, pitch, noise) -> tuple[tf.Tensor, tf.Tensor]:
        """Flat gradient of the spectral losses, and `Losses`."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.state.weights)
            made = copy_synthesis(self.vocoder, *crops, noise)
            losses = spectral_losses(made, self.spec.mel, bandwidths, pitch, self.config.repulsion)
            objective = self.total(losses)
        return self._flat(tape.gradient(objective, self.state.weights)), tf.stack(losses)

    def _adversarial_gradient(
        self, crops: tuple[Any, Any], bandwidths, pitch, noise, sample_gradient
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The same with `sample_gradient`, that of the discriminators for the samples that `within_band` gives them."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.state.weights)
            made = copy_synthesis(self.vocoder, *crops, noise)
            losses = spectral_losses(made, self.spec.mel, bandwidths, pitch, self.config.repulsion)
            judged, _ = within_band(made, bandwidths, self.spec.mel)
            objective = self.config.spectral_factor * self.total(losses) + tf.reduce_sum(judged * sample_gradient)
        return self._flat(tape.gradient(objective, self.state.weights)), tf.stack(losses)

    def _flat(self, gradients) -> tf.Tensor:
        return self.state.layout.join(gradients)

    def _generated(self, crops: tuple[Any, Any], bandwidths, noise) -> tuple[tf.Tensor, tf.Tensor]:
        first = noise[: bandwidths.shape[0]]
        return within_band(copy_synthesis(self.vocoder, *crops, first), bandwidths, self.spec.mel)

    def _judged(self, name: str, made: Any, target: Any, has_clips: Any) -> tuple[Any, Any, Any]:
        """Train one discriminator by the hinge loss; returns its gradient with respect to `made`, its losses, all finite.

        Both gradients are of one forward pass, so the discriminator that judges is the one before its update.
        """
        state, config = self.discriminators[name], self.config
        with tf.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
            tape.watch([*state.weights, made])
            scores, maps = state.model(tf.concat([target, made], axis=0))
            of_target, of_made = tf.split(scores, 2)
            loss = tf.reduce_mean(tf.nn.relu(1 - of_target)) + tf.reduce_mean(tf.nn.relu(1 + of_made))
            adversarial = -tf.reduce_mean(of_made)
            pairs = [tf.split(each, 2) for each in maps]
            distances = [
                tf.reduce_mean(tf.abs(wanted - found)) / (tf.reduce_mean(tf.abs(wanted)) + 1e-3)
                for wanted, found in pairs
            ]
            features = tf.add_n(distances) / len(distances)
            objective = config.adversarial_weight * adversarial + config.feature_weight * features
        gradient = state.layout.join(tape.gradient(loss, state.weights))
        sample_gradient = tape.gradient(objective, made)
        is_finite = tf.math.is_finite(tf.reduce_sum(gradient)) & tf.math.is_finite(loss)
        rate = tf.constant(config.discriminator_learning_rate, tf.float32)
        mask = self._discriminator_masks[name]
        update_state(state, gradient, mask, is_finite & has_clips, self._discriminator_rule, rate)
        return sample_gradient, tf.stack([loss, adversarial, features]), is_finite

    def _applied(self, batch, gradient, terms, scores, rate, rule: UpdateRule, is_good: tf.Tensor) -> tf.Tensor:
        norm = tf.sqrt(2 * tf.nn.l2_loss(gradient))
        loss = self.total(Losses(*tf.unstack(terms)))
        is_finite = tf.math.is_finite(norm) & tf.math.is_finite(loss) & is_good
        has_clips = tf.reduce_any(batch.clips >= 0)
        update_state(self.state, gradient, self._is_decayed, is_finite & has_clips, rule, rate)
        self.state.step.assign_add(tf.cast(has_clips, tf.int64))
        skipped = tf.cast(has_clips & ~is_finite, tf.float32)
        frames = tf.cast(has_clips, tf.float32) * float(np.prod(batch.pitch.shape))
        return tf.concat([[loss], terms, scores, [norm, rate, skipped, frames, 1.0]], axis=0)


def build_vocoder_steps(
    spec: VocoderSpec, config: VocoderConfig, seed: int, *, graph_mode: bool, uses_xla: bool
) -> VocoderSteps:
    """A vocoder with new weights, its discriminators if the schedule has them, and their steps."""
    keras.utils.set_random_seed(seed)  # process-wide: the initializers draw from it
    vocoder = Vocoder(spec, name="vocoder")
    vocoder.build()
    state = TrainState(vocoder, keeps_ema=True)
    discriminators: dict[str, TrainState] = {}
    if Schedule.from_config(config).has_adversarial_phase:
        models = {f"spectrum_{n_fft}": SpectrumDiscriminator(n_fft, hop) for n_fft, hop in SPECTRUM_RESOLUTIONS}
        models |= {f"period_{period}": PeriodDiscriminator(period) for period in PERIODS}
        for name, model in models.items():
            model.build()
            discriminators[name] = TrainState(model, keeps_ema=False)
    return VocoderSteps(state, discriminators, config, seed, graph_mode=graph_mode, uses_xla=uses_xla)
