"""The network: its layers and weights, and from symbols to a mel. Its losses are in `myxtts.models.flow_matching`.

It belongs to the family of Matcha-TTS (arXiv 2309.03199) and P-Flow (NeurIPS 2023): a text encoder predicts the mean mel of each
symbol, monotonic alignment search (Glow-TTS, arXiv 2005.11129) finds the durations that a duration predictor learns, and a
decoder trained by conditional flow matching (arXiv 2210.02747) turns noise into a mel. The speaker vector comes from a reference:
another clip of the same speaker.

Inputs and outputs are log-mels; inside, they are normalized by the corpus's mean and deviation of each band, which are weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.batch import BLANK_TOKEN, Batch
from myxtts.models.aligner import (
    alignment_scores,
    monotonic_alignment,
    path_matrix,
    path_of_durations,
)
from myxtts.models.encoder_decoder import DurationPredictor, FlowDecoder, TextEncoder
from myxtts.models.layout import NoRandomness, RowLayout, expand_with_blanks
from myxtts.models.pitch import PitchPredictor, pitch_features
from myxtts.models.speakers import SpeakerEncoder, low_passed
from myxtts.models.spec import RECORDING_FEATURES, TIME_CHANNELS, ModelSpec

HEADS_PREFIX = "heads_"
"""Names of weights that only training uses begin with it: they are in checkpoints, not in voices."""
TEACHER = "heads_teacher"
"""The decoder that a distilled one learns from; its weights are not trained."""


class AlignedBatch(NamedTuple):
    """The text of a batch laid out along its frames."""

    symbols: RowLayout
    """Layout of the symbols with blanks between them."""
    mel: tf.Tensor
    """Normalized, 0 in empty bands and outside clips: (rows, frames, n_mels)."""
    band_mask: tf.Tensor
    """1 in the bands that a recording contains: (rows, frames, n_mels)."""
    text: tf.Tensor
    """Features of the symbols: (rows, expanded symbols, text_channels)."""
    path: tf.Tensor
    """int32 (rows, frames): index of the blank-expanded symbol of each frame."""
    durations: tf.Tensor
    """float32 (rows, expanded symbols): frames of each symbol."""
    text_of_frames: tf.Tensor
    """Features of each frame's symbol: (rows, frames, text_channels)."""
    means: tf.Tensor
    """Mean mel that the text predicts for each frame: (rows, frames, n_mels)."""


@keras.saving.register_keras_serializable("myxtts")
class XTTS(keras.layers.Layer):
    """Text encoder, aligner, duration predictor and flow-matching decoder.

    Args:
        spec: the dimensions, or the dictionary of `ModelSpec.to_dict`.
        name: first part of the weights' paths, which are their names in checkpoints and voices; keep the default.
    """

    def __init__(self, spec: ModelSpec | dict, name: str = "xtts", **kwargs):
        super().__init__(name=name, **kwargs)
        self.spec = ModelSpec.from_dict(spec) if isinstance(spec, dict) else spec
        policy = self.dtype_policy
        self.text_encoder = TextEncoder(
            self.spec.num_symbols,
            self.spec.text_channels,
            self.spec.text_layers,
            self.spec.text_heads,
            self.spec.dropout,
            dtype=policy,
            name="text_encoder",
        )
        self.duration_predictor = DurationPredictor(
            self.spec.text_channels, self.spec.dropout, dtype=policy, name="duration_predictor"
        )
        self.mean_projection = keras.layers.Dense(self.spec.n_mels, dtype="float32", name="mean_projection")
        self.decoder = FlowDecoder(
            self.spec.n_mels,
            self.spec.decoder_channels,
            self.spec.decoder_layers,
            self.spec.decoder_dilations,
            self.spec.decoder_dropout,
            dtype=policy,
            name="decoder",
        )
        self.teacher = None
        if self.spec.distill_steps is not None:
            self.teacher = FlowDecoder.from_config(self.decoder.get_config() | {"name": TEACHER, "dropout": 0.0})
        # One more row than there are languages: row 0 is the unknown language.
        self.language_embedding = keras.layers.Embedding(
            self.spec.num_languages + 1, self.spec.speaker_channels, name="language_embedding"
        )
        self.text_condition = keras.layers.Dense(
            self.spec.text_channels, use_bias=False, dtype="float32", name="text_condition"
        )
        self.flow_condition = keras.layers.Dense(TIME_CHANNELS, use_bias=False, dtype="float32", name="flow_condition")
        self.recording_condition = None
        if self.spec.recording_condition:
            self.recording_condition = keras.layers.Dense(
                TIME_CHANNELS, use_bias=False, kernel_initializer="zeros", dtype="float32", name="recording_condition"
            )
        self.pitch_predictor = None
        if self.spec.pitch:
            self.pitch_predictor = PitchPredictor(dtype=policy, name="pitch_predictor")
            self.pitch_condition = keras.layers.Dense(
                self.pitch_predictor.channels, use_bias=False, dtype="float32", name="pitch_condition"
            )
            # Zeros: a network that starts from one without pitch begins with what that one does.
            self.pitch_projection = keras.layers.Dense(
                self.spec.decoder_channels,
                use_bias=False,
                kernel_initializer="zeros",
                dtype=policy,
                name="pitch_projection",
            )
        self.speaker_encoder = None
        if self.spec.has_speakers:
            self.speaker_encoder = SpeakerEncoder(self.spec.speaker_channels, dtype=policy, name="speaker_encoder")
        self.speaker_classifier = self.language_classifier = None
        if self.spec.has_speakers and self.spec.speaker_loss:
            self.speaker_classifier = keras.layers.Dense(
                self.spec.num_speakers, dtype="float32", name="heads_speaker_classifier"
            )
        if self.spec.has_speakers and self.spec.language_adversary:
            self.language_hidden = keras.layers.Dense(
                TIME_CHANNELS, activation="silu", dtype="float32", name="heads_language_hidden"
            )
            self.language_classifier = keras.layers.Dense(
                self.spec.num_languages, dtype="float32", name="heads_language_classifier"
            )

    def build(self, input_shape=None):
        """Create every weight; nothing is created later, inside a traced function."""
        del input_shape
        spec = self.spec
        band = (spec.n_mels,)
        self.mel_mean = self.add_weight(name="mel_mean", shape=band, initializer="zeros", trainable=False)
        self.mel_deviation = self.add_weight(name="mel_deviation", shape=band, initializer="ones", trainable=False)
        self.text_encoder.build((None, None))
        self.duration_predictor.build((None, None, spec.text_channels))
        self.mean_projection.build((None, None, spec.text_channels))
        self.decoder.build((None, None, spec.text_channels + spec.n_mels))
        if self.teacher is not None:
            self.teacher.build((None, None, spec.text_channels + spec.n_mels))
        self.language_embedding.build((None, None))
        condition = (None, None, spec.speaker_channels)
        self.text_condition.build(condition)
        self.flow_condition.build(condition)
        if self.recording_condition is not None:
            self.recording_condition.build((None, None, RECORDING_FEATURES))
        if self.pitch_predictor is not None:
            self.pitch_predictor.build((None, None, spec.text_channels))
            self.pitch_condition.build(condition)
            self.pitch_projection.build((None, None, spec.n_mels + 2))
        if self.speaker_encoder is not None:
            self.speaker_encoder.build((None, None, spec.n_mels))
            self.unknown_speaker = self.add_weight(
                name="unknown_speaker", shape=(spec.speaker_channels,), initializer="zeros"
            )
        if self.speaker_classifier is not None:
            self.speaker_classifier.build(condition)
        if self.language_classifier is not None:
            self.language_hidden.build(condition)
            self.language_classifier.build((None, None, TIME_CHANNELS))
        super().build(None)
        if self.teacher is not None:
            for name, variable in self.weights_by_name().items():
                variable.trainable = name.startswith("decoder/")

    def get_config(self):
        return super().get_config() | {"spec": self.spec.to_dict()}

    def weights_by_name(self) -> dict[str, keras.Variable]:
        """Every weight, including the band statistics, by its path below the network ("decoder/block_0/widen/kernel")."""
        return {variable.path.removeprefix(f"{self.name}/"): variable for variable in self.variables}

    def align(self, batch: Batch, frames: RowLayout, condition, randomness, prior_weight) -> AlignedBatch:
        """The text of a batch, and which of its symbols each frame belongs to."""
        tokens, symbols = expand_with_blanks(batch.tokens, batch.token_starts, batch.text_lengths, BLANK_TOKEN)
        # 1 for the bands that a clip's recording contains; above them, and outside clips, nothing is compared.
        band_mask = frames.spread(tf.cast(tf.range(self.spec.n_mels) < batch.bands[..., tf.newaxis], tf.float32))
        mel = self.normalize(batch.mel) * band_mask
        text = self.text_encoder(
            tokens, symbols.spread(self.text_condition(condition)), layout=symbols, randomness=randomness
        )
        scores = alignment_scores(tf.stop_gradient(mel), tf.stop_gradient(self.mean_projection(text)), band_mask)
        path = monotonic_alignment(scores, frames, symbols, prior_weight)
        matrix = path_matrix(path, frames, symbols.size)
        text_of_frames = tf.matmul(tf.cast(matrix, text.dtype), text)
        return AlignedBatch(
            symbols=symbols,
            mel=mel,
            band_mask=band_mask,
            text=text,
            path=path,
            durations=tf.reduce_sum(matrix, axis=1),
            text_of_frames=text_of_frames,
            means=self.mean_projection(text_of_frames),
        )

    def predict_pitch(self, text_of_frames, condition, frames: RowLayout) -> tuple[tf.Tensor, tf.Tensor]:
        """Standardized pitch and logit of voicing of every frame, float32 (rows, frames) each.

        Args:
            text_of_frames: (rows, frames, text_channels).
            condition: (rows, slots, speaker_channels), speaker and language.
            frames: layout of the frames.
        """
        if self.pitch_predictor is None:
            raise ValueError("This network was built without pitch. Set model.pitch.")
        return self.pitch_predictor(text_of_frames, frames.spread(self.pitch_condition(condition)), layout=frames)

    def project_text(
        self, text_of_frames, means, pitch=None, voiced=None, decoder: FlowDecoder | None = None
    ) -> tf.Tensor:
        """The decoder's input that is the same at every flow time: (rows, frames, decoder_channels).

        Args:
            text_of_frames: (rows, frames, text_channels), features of each frame's symbol.
            means: (rows, frames, n_mels), predicted mean mel of each frame.
            pitch: (rows, frames), standardized; only for a network with pitch.
            voiced: (rows, frames), 1 in voiced frames.
            decoder: whose input it is; None: the network's own.
        """
        both = tf.concat([text_of_frames, tf.cast(means, text_of_frames.dtype)], axis=-1)
        projected = (decoder or self.decoder).project_text(both)
        if self.pitch_predictor is None:
            return projected
        features = pitch_features(pitch, voiced, self.spec)
        return projected + self.pitch_projection(tf.cast(features, projected.dtype))

    def velocity(self, projected, noisy, time, condition, frames: RowLayout, randomness, recording=None):
        """The decoder's velocity (rows, frames, n_mels).

        Args:
            projected: result of `project_text`.
            noisy: (rows, frames, n_mels), the point of the flow.
            time: (rows, slots), flow time in [0, 1].
            condition: (rows, slots, speaker_channels), speaker and language.
            frames: layout of the frames.
            randomness: source of the dropout.
            recording: (rows, slots, RECORDING_FEATURES); None: wide and clean.
        """
        flow_condition = self.flow_condition(condition)
        if self.recording_condition is not None and recording is not None:
            flow_condition += self.recording_condition(recording)
        return self.decoder(projected, noisy, time, flow_condition, layout=frames, randomness=randomness)

    def normalize(self, mel: tf.Tensor) -> tf.Tensor:
        """A log-mel (..., n_mels) with zero mean and unit deviation in each band."""
        return (mel - self.mel_mean) / self.mel_deviation

    def denormalize(self, mel: tf.Tensor) -> tf.Tensor:
        """The inverse of `normalize`."""
        return mel * self.mel_deviation + self.mel_mean

    def condition(self, batch: Batch, randomness) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Speaker and language of every slot (rows, slots, speaker_channels), hidden for a fraction of the clips.

        The second result is the speaker vectors alone, None for a network of one speaker.
        """
        is_hidden = randomness.hides("language", self.spec.condition_dropout)
        condition = self.language_embedding(tf.where(is_hidden, 0, batch.languages + 1))
        if self.speaker_encoder is None:
            return condition, None
        rows, slots, reference_frames, n_mels = batch.references.shape
        references = tf.reshape(batch.references, (rows * slots, reference_frames, n_mels))
        references = low_passed(references, randomness, self.spec)
        vectors = tf.reshape(self.speaker_vectors(references), (rows, slots, -1))
        is_hidden = randomness.hides("speaker", self.spec.condition_dropout)[..., tf.newaxis]
        return condition + tf.where(is_hidden, tf.cast(self.unknown_speaker, tf.float32), vectors), vectors

    def recording_features(self, batch: Batch, randomness) -> tf.Tensor | None:
        """What is wrong with each recording (rows, slots, RECORDING_FEATURES): all 0 for a wide and clean one.

        Missing bandwidth, noise, and whether both are hidden. A voice is synthesized with zeros, so that nothing is added.
        """
        if self.recording_condition is None:
            return None
        missing = 1 - tf.cast(batch.bands, tf.float32) / self.spec.n_mels
        is_hidden: Any = randomness.hides("recording", self.spec.condition_dropout)
        known = tf.stack([missing, batch.noise, tf.zeros_like(missing)], axis=-1)
        return tf.where(is_hidden[..., tf.newaxis], tf.constant([0.0, 0.0, 1.0]), known)

    def speaker_vectors(self, references: tf.Tensor) -> tf.Tensor:
        """Speaker vectors float32 (clips, speaker_channels) of log-mel references (clips, frames, n_mels)."""
        if self.speaker_encoder is None:
            raise ValueError(
                "This network was built for one speaker, so it has no speaker encoder and cannot use references."
            )
        return tf.cast(self.speaker_encoder(self.normalize(references)), tf.float32)

    def encode(self, tokens, text_lengths, speaker_vectors, languages):
        """Encode texts, one per row.

        Args:
            tokens: int32 (rows, T), without blanks.
            text_lengths: int32 (rows,).
            speaker_vectors: (rows, speaker_channels), or None for a network of one speaker.
            languages: int32 (rows,).

        Returns:
            Text features (rows, 2T + 1, channels) and log durations (rows, 2T + 1) of the blank-expanded symbols.
        """
        expanded, symbols = _one_text_per_row(tokens, text_lengths)
        condition = self._given_condition(speaker_vectors, languages)
        spread = symbols.spread(self.text_condition(condition))
        text = self.text_encoder(expanded, spread, layout=symbols, randomness=NoRandomness())
        return text, self.duration_predictor(text, layout=symbols, randomness=NoRandomness())

    def decode(
        self,
        encoded,
        durations,
        noise,
        speaker_vectors,
        languages,
        num_steps,
        temperature,
        expressiveness=1.0,
        guidance=0.0,
        mean_speaker=None,
    ):
        """Integrate the flow by Euler's method from noise to log-mels.

        Args:
            encoded: text features (rows, symbols, channels).
            durations: int32 (rows, symbols), frames of each symbol.
            noise: float32 (rows, frames, n_mels), standard normal; its frames are those of the result.
            speaker_vectors: (rows, speaker_channels), or None for a network of one speaker.
            languages: int32 (rows,).
            num_steps: integer scalar, number of Euler steps; a tensor does not cause a new trace.
            temperature: scalar factor of the noise; a tensor does not cause a new trace.
            expressiveness: scalar factor of the movements of the predicted pitch around its mean.
            guidance: Python number; how far each step is moved away from the one for the text averaged over time, spoken
                by the mean speaker (`synthesis.guidance`).
            mean_speaker: (speaker_channels,), for guidance; None for a network of one speaker.

        Returns:
            float32 (rows, frames, n_mels), 0 beyond the end of each text.
        """
        rows, num_frames, _ = noise.shape
        lengths = tf.reduce_sum(durations, axis=1, keepdims=True)
        frames = RowLayout(tf.zeros((rows, 1), tf.int32), lengths, num_frames)
        text_of_frames = tf.matmul(tf.cast(path_of_durations(durations, num_frames), encoded.dtype), encoded)
        means = self.mean_projection(text_of_frames)
        given = self._given_condition(speaker_vectors, languages)
        pitch = voiced = None
        if self.pitch_predictor is not None:
            pitch, voicing = self.predict_pitch(text_of_frames, given, frames)
            voiced = tf.cast(voicing >= 0, tf.float32) * frames.mask[..., 0]
            count = tf.maximum(tf.reduce_sum(voiced, axis=1, keepdims=True), 1.0)
            mean = tf.reduce_sum(voiced * pitch, axis=1, keepdims=True) / count
            pitch = mean + expressiveness * (pitch - mean)
        projected = self.project_text(text_of_frames, means, pitch, voiced)
        condition = self.flow_condition(given)

        def velocity_of(text, condition, mel, time):
            return self.decoder(text, mel, time, condition, layout=frames, randomness=NoRandomness())

        def guided_velocity(mel, time):
            velocity = velocity_of(projected, condition, mel, time)
            if not guidance:
                return velocity
            total = tf.reduce_sum(projected * frames.mask, axis=1, keepdims=True)
            averaged = tf.zeros_like(projected) + total / tf.cast(tf.expand_dims(lengths, -1), total.dtype)
            of_mean = condition
            if mean_speaker is not None:
                of_mean = self.flow_condition(self._given_condition(mean_speaker[tf.newaxis], languages))
            return velocity + guidance * (velocity - velocity_of(averaged, of_mean, mel, time))

        num_steps = tf.convert_to_tensor(num_steps)
        step_size = 1.0 / tf.cast(num_steps, tf.float32)

        def move(step, mel):
            time = tf.fill((rows, 1), tf.cast(step, tf.float32) * step_size)
            return step + 1, mel + step_size * guided_velocity(mel, time)

        start = (tf.zeros_like(num_steps), noise * temperature * frames.mask)
        _, mel = tf.while_loop(lambda step, _: step < num_steps, move, start)
        return self.denormalize(mel) * frames.mask

    def _given_condition(self, speaker_vectors, languages):
        condition = self.language_embedding(languages + 1)[:, tf.newaxis]
        if self.speaker_encoder is None:
            return condition
        return condition + speaker_vectors[:, tf.newaxis]


def _one_text_per_row(tokens: tf.Tensor, text_lengths: tf.Tensor) -> tuple[tf.Tensor, RowLayout]:
    starts = tf.zeros_like(text_lengths)[:, tf.newaxis]
    return expand_with_blanks(tokens, starts, text_lengths[:, tf.newaxis], BLANK_TOKEN)
