"""The losses of the network: conditional flow matching, alignment, durations and speakers, and distillation of the decoder.

A point of the flow lies between noise (time 0) and the mel of a clip (time 1); the decoder learns the velocity that leads from
one to the other (conditional flow matching, arXiv 2210.02747, as in Matcha-TTS, arXiv 2309.03199).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from myxtts.batch import Batch
from myxtts.models.layout import NoRandomness, RowLayout
from myxtts.models.pitch import pitch_errors, standardized_pitch
from myxtts.models.speakers import with_virtual_speakers
from myxtts.models.xtts import XTTS, AlignedBatch

SIGMA_MIN = 1e-4
"""Standard deviation of the noise that remains at flow time 1, as in Matcha-TTS."""
TEACHER_STEPS = 5
"""Steps of the teacher for one of the student: 10 for a student of 2, as many as a voice takes by default."""
DISTILLED_TEMPERATURES = (0.3, 0.8)
"""Sizes of the noise that a distilled decoder learns to start from, around the 0.4 that a voice takes. Chosen; not measured."""
DECODED_TIMES = (0.3, 0.7)
"""Flow times from which `decoded_again` continues: before, mels follow the recording less. Chosen; not measured."""
LARGEST_LOG_DURATION = 7.0
"""About a thousand frames; a larger prediction is limited to this before it is summed."""


class ClipLosses(NamedTuple):
    """Sums for each clip, float32 (rows, slots), 0 for an empty slot; any number of batches can be combined into one mean."""

    flow: tf.Tensor
    """Squared error of the velocity, mean over bands, summed over frames."""
    prior: tf.Tensor
    """Half the squared error of the mean mel predicted from the text (prior loss), mean over bands, summed over frames."""
    duration: tf.Tensor
    """Squared error of the log durations, summed over symbols, blanks included."""
    speaker: tf.Tensor
    """Weighted cross entropies of the speaker and the language by the speaker vector; 0 without `speaker_loss` and
    `language_adversary`."""
    pitch: tf.Tensor
    """Squared error of the pitch of voiced frames and cross entropy of voicing, summed over frames; 0 without `pitch`."""


class Alignment(NamedTuple):
    """Result of the alignment search, for images and checks."""

    path: tf.Tensor
    """int32 (rows, frames): index of the blank-expanded symbol of each frame."""
    durations: tf.Tensor
    """float32 (rows, expanded symbols): frames of each symbol."""
    predicted_frames: tf.Tensor
    """float32 (rows, slots): frames of each clip by the duration predictor."""


def clip_losses(
    network: XTTS, batch: Batch, randomness, prior_weight: tf.Tensor | float = 0.0
) -> tuple[ClipLosses, Alignment]:
    """The losses of every clip of a batch.

    Args:
        network: to be trained.
        batch: the clips.
        randomness: a `ClipRandomness` of the batch.
        prior_weight: penalty of alignments far from the diagonal, for the first steps (`monotonic_alignment`).
    """
    frames = RowLayout(batch.frame_starts, batch.mel_lengths, batch.mel.shape[1])
    batch, is_virtual = with_virtual_speakers(batch, frames, randomness, network.spec)
    condition, vectors = network.condition(batch, randomness)
    aligned = network.align(batch, frames, condition, randomness, prior_weight)
    symbols, mel, band_mask = aligned.symbols, aligned.mel, aligned.band_mask

    log_durations = network.duration_predictor(tf.stop_gradient(aligned.text), layout=symbols, randomness=randomness)
    duration_errors = tf.square(log_durations - tf.math.log(tf.maximum(aligned.durations, 1.0)))
    predicted = symbols.per_clip_sum(tf.exp(tf.clip_by_value(log_durations, 0.0, LARGEST_LOG_DURATION)))
    alignment = Alignment(aligned.path, aligned.durations, predicted)
    if network.teacher is not None:
        return _distillation_losses(network, batch, aligned, condition, frames, randomness), alignment
    prior_errors = 0.5 * tf.reduce_mean(band_mask * tf.square(mel - aligned.means), axis=-1)

    time = randomness.uniform_per_clip("time")
    noisy, noise = _point_of_flow(aligned, time, frames, randomness)
    target = mel - (1 - SIGMA_MIN) * noise
    recording = network.recording_features(batch, randomness)
    projected = network.project_text(aligned.text_of_frames, aligned.means, *_recorded_pitch(network, batch))
    velocity = network.velocity(projected, noisy, time, condition, frames, randomness, recording)
    flow_errors = tf.reduce_mean(band_mask * tf.square(velocity - target), axis=-1)

    losses = ClipLosses(
        flow=frames.per_clip_sum(flow_errors),
        prior=frames.per_clip_sum(prior_errors),
        duration=symbols.per_clip_sum(duration_errors),
        speaker=_speaker_errors(network, batch, vectors, is_virtual),
        pitch=_pitch_losses(network, batch, aligned, condition, frames),
    )
    return losses, alignment


def decoded_again(network: XTTS, batch: Batch, randomness, steps: int) -> tf.Tensor:
    """The log-mels of a batch as the decoder makes them, frame by frame aligned with the recordings.

    Each clip is noised to a random flow time in `DECODED_TIMES`, and the decoder completes it in `steps` steps.

    Args:
        network: whose decoder is meant.
        batch: the clips.
        randomness: a `ClipRandomness` of the batch that drops nothing.
        steps: of the decoder.

    Returns:
        float32 (rows, frames, n_mels), 0 outside clips; as recorded in the bands that a recording does not contain.
    """
    frames = RowLayout(batch.frame_starts, batch.mel_lengths, batch.mel.shape[1])
    condition, _ = network.condition(batch, randomness)
    aligned = network.align(batch, frames, condition, randomness, 0.0)
    earliest, latest = DECODED_TIMES
    start = earliest + (latest - earliest) * randomness.uniform_per_clip("time")
    mel, _ = _point_of_flow(aligned, start, frames, randomness)
    recording = network.recording_features(batch, randomness)
    projected = network.project_text(aligned.text_of_frames, aligned.means, *_recorded_pitch(network, batch))
    step_size = (1 - start) / steps
    for step in range(steps):
        time = start + step * step_size
        velocity = network.velocity(projected, mel, time, condition, frames, randomness, recording)
        mel += frames.spread(step_size[..., tf.newaxis]) * velocity
    return tf.where(aligned.band_mask > 0, network.denormalize(mel), batch.mel) * frames.mask


def _recorded_pitch(network: XTTS, batch: Batch) -> tuple[Any, Any]:
    """Standardized pitch of the recordings and where it is voiced, (rows, frames) each; None for a network without pitch."""
    if network.pitch_predictor is None:
        return None, None
    return standardized_pitch(batch.pitch), tf.cast(batch.pitch > 0, tf.float32)


def _pitch_losses(network: XTTS, batch: Batch, aligned: AlignedBatch, condition, frames: RowLayout) -> tf.Tensor:
    """`ClipLosses.pitch` (rows, slots). The text encoder does not learn from it; the speaker vector does."""
    if network.pitch_predictor is None:
        return tf.zeros_like(frames.lengths, tf.float32)
    predicted = network.predict_pitch(tf.stop_gradient(aligned.text_of_frames), condition, frames)
    return frames.per_clip_sum(pitch_errors(predicted, batch.pitch))


def _point_of_flow(aligned: AlignedBatch, time, frames: RowLayout, randomness) -> tuple[tf.Tensor, tf.Tensor]:
    """The point of the flow at a time (rows, slots) of every clip, and the noise that the flow starts from."""
    noise = randomness.normal("flow", frames, aligned.mel.shape[-1])
    time_of_frames = frames.spread(time[..., tf.newaxis])
    # In empty bands the end of the flow is its noise: the decoder is never given them as data.
    end = aligned.mel + (1 - aligned.band_mask) * noise
    return ((1 - (1 - SIGMA_MIN) * time_of_frames) * noise + time_of_frames * end) * frames.mask, noise


def _distillation_losses(
    network: XTTS, batch: Batch, aligned: AlignedBatch, condition, frames: RowLayout, randomness
) -> ClipLosses:
    """How far the decoder's few steps are from the teacher's many, as squared errors of the velocity.

    Each step of the student starts where its own last one ended and aims at the teacher's point at the end of the step
    (progressive distillation, Salimans and Ho, arXiv 2202.00512, to the last number of steps at once). Only the decoder is
    trained. Both are conditioned on a wide and clean recording, as a voice is.
    """
    teacher, steps = network.teacher, network.spec.distill_steps
    if teacher is None or steps is None:
        raise ValueError("This network has no teacher, because its spec has no distill_steps. Set model.distill_steps.")
    inputs = aligned.text_of_frames, aligned.means, *_recorded_pitch(network, batch)
    flow_condition = network.flow_condition(condition)
    lowest, highest = DISTILLED_TEMPERATURES
    temperature = lowest + (highest - lowest) * randomness.uniform_per_clip("time")
    start = randomness.normal("flow", frames, network.spec.n_mels) * frames.spread(temperature[..., tf.newaxis])

    def moved(decoder, projected, point, number: int, count: int):
        time = tf.fill(tf.shape(temperature), number / count)
        velocity = decoder(projected, point, time, flow_condition, layout=frames, randomness=NoRandomness())
        return velocity, point + velocity / count

    guide = point = start
    guiding, projected = network.project_text(*inputs, decoder=teacher), network.project_text(*inputs)
    errors = tf.zeros(frames.mask.shape[:2])
    for number in range(steps):
        for part in range(TEACHER_STEPS):
            _, guide = moved(teacher, guiding, guide, number * TEACHER_STEPS + part, steps * TEACHER_STEPS)
        target = tf.stop_gradient((guide - point) * steps)
        velocity, point = moved(network.decoder, projected, tf.stop_gradient(point), number, steps)
        errors += tf.reduce_mean(tf.square(velocity - target), axis=-1) / steps
    nothing = tf.zeros_like(temperature)
    flow = frames.per_clip_sum(errors)
    return ClipLosses(flow=flow, prior=nothing, duration=nothing, speaker=nothing, pitch=nothing)


def _speaker_errors(network: XTTS, batch: Batch, vectors: Any, is_virtual: Any) -> tf.Tensor:
    """`ClipLosses.speaker` (rows, slots); `vectors` is None for one speaker, `is_virtual` without virtual speakers."""
    is_clip = tf.cast(batch.mel_lengths > 0, tf.float32)
    errors = tf.zeros_like(is_clip)
    if vectors is None:
        return errors
    if network.speaker_classifier is not None:
        logits = network.speaker_classifier(vectors)
        of_speaker = tf.nn.sparse_softmax_cross_entropy_with_logits(batch.speakers, logits)
        is_real = is_clip if is_virtual is None else is_clip * tf.cast(~is_virtual, tf.float32)
        errors += network.spec.speaker_loss * is_real * of_speaker
    if network.language_classifier is not None:
        # The value of the vector with its gradient reversed (domain-adversarial training, arXiv 1505.07818).
        reversed_gradient = 2 * tf.stop_gradient(vectors) - vectors
        logits = network.language_classifier(network.language_hidden(reversed_gradient))
        of_language = tf.nn.sparse_softmax_cross_entropy_with_logits(batch.languages, logits)
        errors += network.spec.language_adversary * is_clip * of_language
    return errors
