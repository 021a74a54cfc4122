"""The compiled steps of the voice network: one traced function per kind and static shape, built once, warmed up before use.

A step takes a `Batch` and returns one small vector (`METRICS`); it never synchronizes with the host. In the graph, a loss or
gradient that is not finite changes nothing but the counters, and a batch without clips changes nothing at all, so that an empty
batch warms a step up.

Every mean of the loss is one sum over one count: that of all batches of an accumulated step and of all replicas, so that neither
changes what is minimized.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from myxtts.batch import Batch, BatchShape, shape_of
from myxtts.models.flow_matching import ClipLosses, clip_losses
from myxtts.models.layout import ClipRandomness
from myxtts.models.xtts import XTTS
from myxtts.training.failures import check_gradients
from myxtts.training.optimization import ADAM_BETAS, OptimizationSettings, adamw, decay_mask, learning_rate_schedule
from myxtts.training.state import TrainState

DURATION_WEIGHT = 1.0
"""As in Matcha-TTS, whose loss is the plain sum of its terms."""
COUNTS: tuple[str, ...] = ("frames", "symbols", "clips")
"""Valid frames, valid blank-expanded symbols, clips: what the sums of `ClipLosses` are divided by."""
COUNT_OF = {"flow": "frames", "prior": "frames", "duration": "symbols", "speaker": "clips", "pitch": "frames"}
"""Each term of the loss, in the order of `ClipLosses`, and its count."""
TERMS = tuple(COUNT_OF)


def counts_of(batch: Batch) -> tf.Tensor:
    """`COUNTS`, float32 (counts,): known from the lengths before anything is computed."""
    symbols = tf.where(batch.text_lengths > 0, 2 * batch.text_lengths + 1, 0)
    clips = tf.math.count_nonzero(batch.mel_lengths, dtype=tf.int32)
    return tf.cast(tf.stack([tf.reduce_sum(batch.mel_lengths), tf.reduce_sum(symbols), clips]), tf.float32)


def loss_terms(losses: ClipLosses, counts: tf.Tensor) -> tf.Tensor:
    """The part of these clips in the means, float32 (`TERMS`,)."""
    named = dict(zip(COUNTS, tf.unstack(tf.maximum(counts, 1.0)), strict=True))
    return tf.stack([tf.reduce_sum(getattr(losses, term)) / named[count] for term, count in COUNT_OF.items()])


def total_loss(terms):
    """The number that is minimized, from the means: a tensor or a sequence (`TERMS`,)."""
    return terms[0] + terms[1] + DURATION_WEIGHT * terms[2] + terms[3] + terms[4]


METRICS = ("loss", *TERMS, "gradient_norm", "learning_rate", "skipped", "frames", "loss_scale", "stop_requests")
STEP_COUNTS = len(COUNTS) + 1
"""Numbers that are summed over replicas before a step: the counts of its clips, and the workers that were asked to stop."""
VALIDATION_SUMS = (*TERMS, *COUNTS, "predicted_frames")
ALIGNMENT_PRIOR_WEIGHT = 400.0
"""Log-likelihood lost at the far corner from the diagonal while the prior is at full strength; the likelihoods of two symbols
for a frame differ by tens. Chosen; not measured."""
LOSS_SCALE_GROWTH_STEPS = 2000
"""Finite steps after which the loss scale is doubled: the default of Keras's `LossScaleOptimizer`."""
VALIDATION_STEP = -1
"""The step in the random numbers of validation, so that every validation draws the same ones."""

Gradient = tuple[tf.Tensor, tf.Tensor]
"""A flat gradient, and the terms of the loss that it belongs to."""


def learning_kind(batches: int) -> str:
    """The kind of step that learns from so many batches; followed by a shape, it is a name in `Steps.functions`."""
    return "train_step" if batches == 1 else "gradient_step"


class Steps:
    """Train, accumulate, validation and alignment steps over one state; each is traced once per shape."""

    def __init__(
        self,
        state: TrainState,
        settings: OptimizationSettings,
        *,
        seed: int,
        strategy: tf.distribute.Strategy,
        uses_xla: bool,
        graph_mode: bool = True,
        checks_numbers: bool = False,
    ):
        """`checks_numbers`: raise at the first gradient that is not finite; for eager steps."""
        self.state = state
        self.model: XTTS = state.model
        self.settings = settings
        self.strategy = strategy
        self.graph_mode = graph_mode
        self._checks_numbers = checks_numbers
        self.functions: dict[str, Any] = {}
        """Every traced function by name, for the counters."""
        self.stop_request = tf.Variable(tf.zeros(()), trainable=False, name="stop_request")
        """1 when this process is asked to stop: summed over the workers with every step, so that all stop after the same one."""
        self._seed = seed
        self._schedule = learning_rate_schedule(settings)
        self._is_decayed = decay_mask(state)
        self._gradient_of = self._gradient
        if uses_xla and graph_mode:
            self._gradient_of = tf.function(self._gradient, jit_compile=True, autograph=False)

    # --- steps -----------------------------------------------------------------------------------

    def learn(self, batches: Sequence[Batch]) -> tf.Tensor:
        """One step from one batch or several; returns `METRICS`, a local tensor."""
        return self.local(self.train(batches[0]) if len(batches) == 1 else self.accumulate(batches))

    def train(self, batch: Batch) -> tf.Tensor:
        """Learn from one batch; returns `METRICS`."""
        return self._run("train_step", self.shape_of(batch), batch)

    def accumulate(self, batches: Sequence[Batch]) -> tf.Tensor:
        """Learn from several batches, of any planned shapes, as if they were one; returns `METRICS`."""
        shapes = [self.shape_of(batch) for batch in batches]
        counts = [self._run("count_step", shape, batch) for batch, shape in zip(batches, shapes, strict=True)]
        total = self._sum(counts)
        gradient = self._zeros(self.state.layout.size), self._zeros(len(TERMS))
        for batch, shape in zip(batches, shapes, strict=True):
            gradient = self._run("gradient_step", shape, batch, total, gradient)
        return self._run("apply_step", None, gradient, total)

    def validate(self, batch: Batch) -> tf.Tensor:
        """Measure without learning; returns sums and counts (`VALIDATION_SUMS`)."""
        return self._run("validation_step", self.shape_of(batch), batch)

    def align(self, batch: Batch) -> tf.Tensor:
        """The alignment of every row: int32 (rows, frames), expanded symbols."""
        return self._run("alignment_step", self.shape_of(batch), batch)

    def shape_of(self, batch: Batch) -> BatchShape:
        """The global shape of a batch, which under a strategy is one of per-replica values."""
        shape = shape_of(self.local_batch(batch))
        return dataclasses.replace(shape, rows=shape.rows * self.strategy.num_replicas_in_sync)

    def local_shape(self, shape: BatchShape) -> BatchShape:
        """The shape of one replica's part of a global batch."""
        return dataclasses.replace(shape, rows=shape.rows // self.strategy.num_replicas_in_sync)

    def local_batch(self, batch: Batch) -> Batch:
        """The part of a batch on this process's first replica."""
        return Batch(*(self.local(field) for field in batch))

    def clips_of(self, batch: Batch) -> tuple[tf.Tensor, ...]:
        """The clip indices of a batch, on each replica of this process."""
        return self.strategy.experimental_local_results(batch.clips)

    def warm_up(self, call: Callable[[Batch], tf.Tensor], shape: BatchShape) -> float:
        """Trace and run a step once on an empty batch, which leaves the state as it is; returns the seconds it took."""
        started = time.perf_counter()
        self.local(call(self.replicated(shape.empty()))).numpy()
        return time.perf_counter() - started

    # --- how steps are made ---------------------------------------------------------------------------------------

    def _run(self, kind: str, shape: BatchShape | None, *arguments):
        """Run the step of a kind and shape; the first time it is traced."""
        name = kind if shape is None else f"{kind} {shape}"
        if name not in self.functions:
            self.functions[name] = self._built(kind, shape)
            if self.graph_mode:
                # Traced before the call: TensorFlow takes five functions of one factory that trace at their first call, one per
                # bucket, for one function that is retraced, and warns about it.
                self.functions[name].get_concrete_function(*arguments)
        return self.functions[name](*arguments)

    def _built(self, kind: str, shape: BatchShape | None) -> Any:
        body = getattr(self, f"_{kind}")

        def step(*arguments):
            return self.strategy.run(body, args=arguments)

        step.__name__ = kind
        if not self.graph_mode:
            return step
        if (
            self.strategy.num_replicas_in_sync > 1
        ):  # a signature cannot describe per-replica values; the plan fixes their shapes
            return tf.function(step, autograph=False)
        gradient = tf.TensorSpec((self.state.layout.size,), tf.float32), tf.TensorSpec((len(TERMS),), tf.float32)
        counts = tf.TensorSpec((STEP_COUNTS,), tf.float32)
        more = {"gradient_step": (counts, gradient), "apply_step": (gradient, counts)}.get(kind, ())
        batch = (shape.signature(),) if shape is not None else ()
        return tf.function(step, input_signature=(*batch, *more), autograph=False)

    def replicated(self, batch: Batch) -> Batch:
        """A global batch split by rows among the replicas."""
        replicas = self.strategy.num_replicas_in_sync
        if replicas == 1:
            return batch
        split = [tf.split(field, replicas) for field in batch]

        def of_replica(context):
            return Batch(*(parts[context.replica_id_in_sync_group] for parts in split))

        return self.strategy.experimental_distribute_values_from_function(of_replica)

    def _zeros(self, size: int):
        return self.strategy.run(lambda: tf.zeros(size))

    def _sum(self, values: Sequence) -> tf.Tensor:
        return self.strategy.run(lambda *parts: tf.add_n(parts), args=tuple(values))

    def local(self, value) -> tf.Tensor:
        """This process's first replica's part of a result."""
        return self.strategy.experimental_local_results(value)[0]

    # --- bodies, run by every replica -----------------------------------------------------------------------------

    def _train_step(self, batch: Batch) -> tf.Tensor:
        counts = self._count_step(batch)
        gradient = self._gradient_of(batch, counts, self.state.step, self.state.loss_scale)
        return self._apply_step(gradient, counts)

    def _count_step(self, batch: Batch) -> tf.Tensor:
        return self._over_replicas(tf.concat([counts_of(batch), [self.stop_request]], axis=0))

    def _gradient_step(self, batch: Batch, counts: tf.Tensor, gradient: Gradient) -> Gradient:
        more = self._gradient_of(batch, counts, self.state.step, self.state.loss_scale)
        return gradient[0] + more[0], gradient[1] + more[1]

    def _validation_step(self, batch: Batch) -> tf.Tensor:
        losses, alignment = clip_losses(self.model, batch, self._fixed_randomness(batch))
        sums = [tf.reduce_sum(values) for values in losses]
        predicted = tf.reduce_sum(alignment.predicted_frames)
        return self._over_replicas(tf.concat([sums, counts_of(batch), [predicted]], axis=0))

    def _alignment_step(self, batch: Batch) -> tf.Tensor:
        _, alignment = clip_losses(self.model, batch, self._fixed_randomness(batch))
        return alignment.path

    def _fixed_randomness(self, batch: Batch) -> ClipRandomness:
        return ClipRandomness(self._seed, VALIDATION_STEP, batch.clips, drops=False)

    def _gradient(self, batch: Batch, counts: tf.Tensor, step: tf.Tensor, loss_scale: tf.Tensor) -> Gradient:
        """Flat gradient of this batch's part of the loss, and the parts of the terms."""
        randomness = ClipRandomness(self._seed, step, batch.clips, drops=self.model.teacher is None)
        fade = 1.0 - tf.cast(step, tf.float32) / max(self.settings.alignment_prior_steps, 1)
        prior_weight = ALIGNMENT_PRIOR_WEIGHT * tf.maximum(fade, 0.0)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.state.weights)
            losses, _ = clip_losses(self.model, batch, randomness, prior_weight)
            terms = loss_terms(losses, counts[: len(COUNTS)])
            objective = total_loss(terms) * loss_scale
        gradients = tape.gradient(objective, self.state.weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        if self._checks_numbers:
            check_gradients(self.state.names, gradients, dict(zip(TERMS, tf.unstack(terms), strict=True)))
        return self.state.layout.join(gradients), terms

    @staticmethod
    def _over_replicas(values):
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _apply_step(self, gradient: Gradient, counts: tf.Tensor) -> tf.Tensor:
        """Reduce over replicas, then unscale, then clip, then update: in this order."""
        context = tf.distribute.get_replica_context()
        gradient, terms = self._over_replicas(gradient)
        loss_scale = tf.identity(self.state.loss_scale)
        norm = tf.sqrt(2 * tf.nn.l2_loss(gradient)) / loss_scale
        is_finite = tf.math.is_finite(norm) & tf.math.is_finite(tf.reduce_sum(terms))
        frames = counts[0]
        has_clips = frames > 0
        rate = self._schedule(self.state.step) * self.state.rate_factor
        factor = 1 / loss_scale
        if self.settings.clip_norm is not None:
            factor *= tf.minimum(1.0, self.settings.clip_norm / tf.maximum(norm, 1e-12))
        context.merge_call(self._update, args=(gradient, factor, rate, is_finite & has_clips, has_clips))
        skipped = tf.cast(has_clips & ~is_finite, tf.float32)
        return tf.stack(
            [total_loss(terms), *tf.unstack(terms), norm, rate, skipped, frames, loss_scale, counts[len(COUNTS)]]
        )

    def _update(self, strategy, gradient, factor, rate, is_usable, has_clips):
        """Once for all replicas: change every device's copy of the state in place."""
        state = self.state
        others = (state.second_moment, state.ema, state.updates, state.good_steps, state.loss_scale, state.step)
        strategy.extended.update(
            state.first_moment,
            self._update_device,
            args=(others, tuple(state.weights), gradient, factor, rate, is_usable, has_clips),
        )

    def _update_device(self, first_moment, others, weights, gradient, factor, rate, is_usable, has_clips):
        second_moment, ema, updates, good_steps, loss_scale, step = others
        usable = tf.cast(is_usable, tf.int64)
        updates.assign_add(usable)
        # Always computed, and kept only if usable: a branch that the warm-up does not take is compiled in the middle of the run.
        flat = self.state.layout.join([tf.convert_to_tensor(weight) for weight in weights])
        count = tf.maximum(tf.cast(updates, tf.float32), 1.0)
        vectors = (first_moment, second_moment, ema) if self.state.keeps_ema else (first_moment, second_moment)
        old = (flat, *(tf.convert_to_tensor(vector) for vector in vectors))
        beta1, beta2 = ADAM_BETAS
        numbers = {
            "factor": factor,
            "rate": rate,
            "decay": self.settings.weight_decay,
            "first_correction": 1 / (1 - tf.pow(beta1, count)),
            "second_correction": 1 / (1 - tf.pow(beta2, count)),
            "memory": tf.minimum(self.settings.ema_decay, (1 + count) / (10 + count)),
        }
        numbers = {name: tf.convert_to_tensor(value, tf.float32) for name, value in numbers.items()}
        moved, *new = adamw(old, gradient, self._is_decayed, is_usable, numbers)
        for vector, value in zip(vectors, new, strict=True):
            vector.assign(value)
        for weight, part in zip(weights, self.state.layout.parts(moved), strict=True):
            weight.assign(part)
        if self.state.uses_loss_scale:
            grown = good_steps + usable >= LOSS_SCALE_GROWTH_STEPS
            overflowed = has_clips & ~is_usable
            change = tf.where(overflowed, 0.5, tf.where(grown, 2.0, 1.0))
            loss_scale.assign(tf.maximum(loss_scale * change, 1.0))
            good_steps.assign(tf.where(overflowed | grown, tf.zeros_like(good_steps), good_steps + usable))
        step.assign_add(tf.cast(has_clips, tf.int64))
