"""The compiled steps: one traced function for each static shape, built once and warmed up before it is needed.

A step takes a `Batch` and returns one small vector (`METRICS`); it never synchronises with the host. What it decides in the
graph: a loss or gradient that is not finite changes nothing but the counters, and a batch without clips changes nothing at all,
so that an empty batch warms a step up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import keras
import tensorflow as tf

from myxtts.batch import Batch, BatchShape
from myxtts.models.randomness import ClipRandomness
from myxtts.models.xtts import XTTS
from myxtts.training.levels import OptimizationSettings
from myxtts.training.losses import Counts, counts_of, loss_terms, total_loss
from myxtts.training.state import TrainState

METRICS = ("loss", "flow", "prior", "duration", "gradient_norm", "learning_rate", "skipped", "frames", "loss_scale")
VALIDATION_SUMS = ("flow", "prior", "duration", "frames", "symbols")
ADAM_BETAS = (0.9, 0.99)
ADAM_EPSILON = 1e-8
ALIGNMENT_PRIOR_WEIGHT = 400.0
"""Log-likelihood lost at the far corner from the diagonal while the prior is at full strength; frames differ by tens."""
LOSS_SCALE_GROWTH_STEPS = 2000
VALIDATION_STEP = -1
"""Stands for the step number in the random numbers of validation, so that every validation draws the same ones."""


@dataclass(frozen=True)
class Warmup:
    """What getting a step ready took, in seconds."""

    shape: BatchShape
    trace_seconds: float
    first_run_seconds: float


class Steps:
    """Train, accumulate and validation steps over one state; each is built on first request of its shape."""

    def __init__(
        self,
        state: TrainState,
        settings: OptimizationSettings,
        *,
        seed: int,
        strategy: tf.distribute.Strategy,
        uses_xla: bool,
        graph_mode: bool = True,
    ):
        self.state = state
        self.model: XTTS = state.model
        self.settings = settings
        self.strategy = strategy
        self.graph_mode = graph_mode
        self.functions: dict[str, Callable] = {}
        """Every traced function by name; what the counters watch."""
        self._seed = seed
        self._schedule = learning_rate_schedule(settings)
        self._decays = decay_mask(state) * settings.weight_decay
        self._gradient_of = tf.function(self._gradient, jit_compile=True) if uses_xla and graph_mode else self._gradient

    # --- what the trainer calls -----------------------------------------------------------------------------------

    def train(self, shape: BatchShape) -> Callable[[Batch], tf.Tensor]:
        """The step that learns from one batch."""
        return self._built(f"train_step {shape}", self._train, shape.signature())

    def accumulate(self, shape: BatchShape, batches: int) -> Callable[..., tf.Tensor]:
        """The step that learns from several batches as if they were one."""
        return self._built(f"accumulate_step {batches} x {shape}", self._accumulate, (shape.signature(),) * batches)

    def validate(self, shape: BatchShape) -> Callable[[Batch], tf.Tensor]:
        """The step that only measures: sums and counts (`VALIDATION_SUMS`)."""
        return self._built(f"validation_step {shape}", self._validate, shape.signature())

    def warm_up(self, function: Callable, shape: BatchShape, batches: int = 1) -> Warmup:
        """Trace and run a step once on nothing; the state stays as it is."""
        started = time.perf_counter()
        empty = self._replicated(shape.empty())
        argument = empty if batches == 1 else (empty,) * batches
        if self.graph_mode:
            function.get_concrete_function(argument)
        traced = time.perf_counter()
        function(argument).numpy()
        return Warmup(shape, traced - started, time.perf_counter() - traced)

    # --- how steps are made ---------------------------------------------------------------------------------------

    def _built(self, name: str, body: Callable, signature) -> Callable:
        if name not in self.functions:
            replicas = self.strategy.num_replicas_in_sync

            def step(batch):
                results = self.strategy.run(body, args=(batch,))
                return results if replicas == 1 else self.strategy.experimental_local_results(results)[0]

            step.__name__ = name.split()[0]
            if not self.graph_mode:
                self.functions[name] = step
            elif replicas == 1:
                self.functions[name] = tf.function(step, input_signature=[signature])
            else:  # a signature cannot describe per-replica values; the plan alone keeps their shapes closed
                self.functions[name] = tf.function(step)
        return self.functions[name]

    def _replicated(self, batch: Batch):
        replicas = self.strategy.num_replicas_in_sync
        if replicas == 1:
            return batch
        split = [tf.split(field, replicas) for field in batch]

        def of_replica(context):
            return Batch(*(parts[context.replica_id_in_sync_group] for parts in split))

        return self.strategy.experimental_distribute_values_from_function(of_replica)

    # --- bodies, run by every replica -----------------------------------------------------------------------------

    def _train(self, batch: Batch) -> tf.Tensor:
        counts = self._over_replicas(counts_of(batch))
        gradient, terms = self._gradient_of(batch, counts, self.state.step, self.state.loss_scale)
        return self._apply(gradient, terms, counts)

    def _accumulate(self, batches: tuple[Batch, ...]) -> tf.Tensor:
        stacked = Batch(*(tf.stack(fields) for fields in zip(*batches, strict=True)))
        counts = self._over_replicas(counts_of(stacked))
        gradient, terms = tf.zeros(self.state.layout.size), tf.zeros(3)
        for number in tf.range(len(batches)):
            batch = Batch(*(field[number] for field in stacked))
            part, part_terms = self._gradient_of(batch, counts, self.state.step, self.state.loss_scale)
            gradient, terms = gradient + part, terms + part_terms
        return self._apply(gradient, terms, counts)

    def _validate(self, batch: Batch) -> tf.Tensor:
        randomness = ClipRandomness(self._seed, VALIDATION_STEP, batch.clips, drops=False)
        losses, _ = self.model.losses(batch, randomness)
        sums = tf.stack([*(tf.reduce_sum(values) for values in losses), *counts_of(batch)])
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)

    def _gradient(self, batch: Batch, counts: Counts, step: tf.Tensor, loss_scale: tf.Tensor):
        """Flat gradient of this batch's part of the loss, and the part itself."""
        randomness = ClipRandomness(self._seed, step, batch.clips)
        fade = 1.0 - tf.cast(step, tf.float32) / max(self.settings.alignment_prior_steps, 1)
        prior_weight = ALIGNMENT_PRIOR_WEIGHT * tf.maximum(fade, 0.0)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.state.weights)
            losses, _ = self.model.losses(batch, randomness, prior_weight)
            terms = loss_terms(losses, counts)
            objective = total_loss(terms) * loss_scale
        gradients = tape.gradient(objective, self.state.weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return self.state.layout.join(gradients), terms

    def _over_replicas(self, counts: Counts) -> Counts:
        total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.stack(counts))
        return Counts(*tf.unstack(total))

    def _apply(self, gradient: tf.Tensor, terms: tf.Tensor, counts: Counts) -> tf.Tensor:
        """Reduce over replicas, then unscale, then clip, then update: in this order."""
        context = tf.distribute.get_replica_context()
        reduced = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.concat([gradient, terms], axis=0))
        gradient, terms = reduced[:-3] / self.state.loss_scale, reduced[-3:]
        norm = tf.norm(gradient)
        is_finite = tf.math.is_finite(norm) & tf.math.is_finite(tf.reduce_sum(terms))
        has_clips = counts.frames > 0
        rate = self._schedule(self.state.step) * self.state.rate_factor
        loss_scale = tf.identity(self.state.loss_scale)
        factor = 1.0
        if self.settings.clip_norm is not None:
            factor = tf.minimum(1.0, self.settings.clip_norm / tf.maximum(norm, 1e-12))
        context.merge_call(self._update, args=(gradient * factor, rate, is_finite & has_clips, has_clips))
        skipped = tf.cast(has_clips & ~is_finite, tf.float32)
        return tf.stack([total_loss(terms), *tf.unstack(terms), norm, rate, skipped, counts.frames, loss_scale])

    def _update(self, strategy, gradient, rate, is_usable, has_clips):
        """Once for all replicas: change every device's copy of the state in place."""
        state = self.state
        others = (state.second_moment, state.average, state.updates, state.good_steps, state.loss_scale, state.step)
        strategy.extended.update(
            state.first_moment,
            self._update_device,
            args=(others, tuple(state.weights), gradient, rate, is_usable, has_clips),
        )

    def _update_device(self, first_moment, others, weights, gradient, rate, is_usable, has_clips):
        second_moment, average, updates, good_steps, loss_scale, step = others
        usable = tf.cast(is_usable, tf.int64)
        updates.assign_add(usable)

        def apply():
            flat = self.state.layout.join([tf.convert_to_tensor(weight) for weight in weights])
            first, second, moved = adamw(
                first_moment, second_moment, flat, gradient, rate, tf.cast(updates, tf.float32), self._decays
            )
            first_moment.assign(first)
            second_moment.assign(second)
            for weight, part in zip(weights, self.state.layout.parts(moved), strict=True):
                weight.assign(part)
            if self.state.keeps_average:
                count = tf.cast(updates, tf.float32)
                decay = tf.minimum(self.settings.ema_decay, (1 + count) / (10 + count))
                average.assign(average * decay + moved * (1 - decay))
            return tf.constant(0)

        tf.cond(is_usable, apply, lambda: tf.constant(0))
        if self.state.uses_loss_scale:
            grown = good_steps + usable >= LOSS_SCALE_GROWTH_STEPS
            overflowed = has_clips & ~is_usable
            change = tf.where(overflowed, 0.5, tf.where(grown, 2.0, 1.0))
            loss_scale.assign(tf.maximum(loss_scale * change, 1.0))
            good_steps.assign(tf.where(overflowed | grown, tf.zeros_like(good_steps), good_steps + usable))
        step.assign_add(tf.cast(has_clips, tf.int64))


def adamw(first_moment, second_moment, weights, gradient, rate, updates, decays):
    """AdamW on flat vectors: the new moments and weights."""
    beta1, beta2 = ADAM_BETAS
    first = beta1 * first_moment + (1 - beta1) * gradient
    second = beta2 * second_moment + (1 - beta2) * tf.square(gradient)
    first_unbiased = first / (1 - tf.pow(beta1, updates))
    second_unbiased = second / (1 - tf.pow(beta2, updates))
    change = first_unbiased / (tf.sqrt(second_unbiased) + ADAM_EPSILON) + decays * weights
    return first, second, weights - rate * change


def decay_mask(state: TrainState) -> tf.Tensor:
    """1 for matrices and kernels, 0 for biases, scales and single vectors."""
    return tf.concat(
        [
            tf.fill([size], float(len(shape) > 1))
            for size, shape in zip(state.layout.sizes, state.layout.shapes, strict=True)
        ],
        axis=0,
    )


def learning_rate_schedule(settings: OptimizationSettings) -> Callable[[tf.Tensor], tf.Tensor]:
    """Step → learning rate, in the graph: linear warm-up, then a half cosine to the final share."""
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if settings.warmup_steps else settings.learning_rate,
        warmup_target=settings.learning_rate if settings.warmup_steps else None,
        warmup_steps=settings.warmup_steps,
        decay_steps=settings.schedule_steps - settings.warmup_steps,
        alpha=settings.final_rate_share,
    )
