"""The compiled part of a voice: one traced function per static shape, made when first needed, counted, safe to share.

In: padded arrays. Out: text features and durations; mels and samples; speaker vectors. All shapes are static, all signatures
fixed, so nothing can be traced twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSpec
from myxtts.models.spec import ModelSpec
from myxtts.models.vocoder import GriffinLim, GriffinLimSettings
from myxtts.models.xtts import XTTS
from myxtts.runtime.counters import Counts, RetraceWatch
from myxtts.synthesis.checks import check_can_clone
from myxtts.synthesis.shapes import FRAME_SHAPES, TOKEN_SHAPES

REFERENCE_ROWS = 8
"""Pieces of reference recordings that are looked at together."""


class Encoded(NamedTuple):
    """Text features (rows, symbols, channels) and log durations (rows, symbols) of blank-expanded symbols."""

    features: np.ndarray
    log_durations: np.ndarray


class Engine:
    """The network and the vocoder behind functions of static shape."""

    def __init__(self, spec: ModelSpec, mel: MelSpec, vocoder: GriffinLimSettings | None = None):
        self.spec = spec
        self.mel = mel
        self.model = XTTS(spec)
        self.model.build()
        self.vocoder = GriffinLim(mel, vocoder)
        self._start_empty()

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the network's weights."""
        return {name: tuple(variable.shape) for name, variable in self.model.weights_by_name().items()}

    def assign(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set every weight of the network."""
        for name, variable in self.model.weights_by_name().items():
            variable.assign(weights[name])

    @classmethod
    def of_model(cls, model: XTTS, mel: MelSpec, vocoder: GriffinLimSettings | None = None) -> Engine:
        """An engine around a network that exists, with its weights as they are at each call: samples while training."""
        engine = cls.__new__(cls)
        engine.spec, engine.mel, engine.model = model.spec, mel, model
        engine.vocoder = GriffinLim(mel, vocoder)
        engine._start_empty()
        return engine

    def _start_empty(self) -> None:
        self.watch = RetraceWatch()
        self.seconds_compiling = 0.0
        """Spent so far on tracing functions and on the first run of each."""
        self._functions: dict[tuple, Any] = {}
        self._lock = threading.RLock()

    # --- calls ----------------------------------------------------------------------------------------------------

    def encode(self, tokens: np.ndarray, lengths: np.ndarray, speakers: np.ndarray, languages: np.ndarray) -> Encoded:
        """int32 (rows, T), (rows,); float32 (rows, speaker_channels); int32 (rows,) → `Encoded` of 2T + 1 symbols."""
        function = self._encode_function(*tokens.shape)
        features, log_durations = function(tokens, lengths, speakers, languages)
        return Encoded(features.numpy(), log_durations.numpy())

    def speak(
        self,
        features: np.ndarray,
        durations: np.ndarray,
        noise: np.ndarray,
        speakers: np.ndarray,
        languages: np.ndarray,
        steps: int,
        temperature: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Features and int32 durations (rows, symbols), noise (rows, frames, n_mels) → mel and samples."""
        rows, frames, _ = noise.shape
        symbols = 2 * max(TOKEN_SHAPES[-1], (features.shape[1] - 1) // 2) + 1
        # Always as many symbols as the longest text has: the functions differ in their frames alone.
        missing = symbols - features.shape[1]
        features = np.pad(features, [(0, 0), (0, missing), (0, 0)])
        durations = np.pad(durations, [(0, 0), (0, missing)])
        function = self._speak_function(rows, symbols, frames)
        mel, samples = function(
            features, durations, noise, speakers, languages, np.int32(steps), np.float32(temperature)
        )
        return mel.numpy(), samples.numpy()

    def vocode(self, mel: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Log-mel (rows, frames, n_mels), int32 (rows,) → samples (rows, (frames - 1) * hop_length)."""
        signature = (tf.TensorSpec(mel.shape, tf.float32), tf.TensorSpec(lengths.shape, tf.int32))
        return self._function(("vocode", *mel.shape[:2]), self.vocoder, signature)(mel, lengths).numpy()

    def speaker_vectors(self, references: np.ndarray) -> np.ndarray:
        """Log-mel references (clips, reference_frames, n_mels) → vectors (clips, speaker_channels)."""
        check_can_clone(self.spec)
        count, frames, n_mels = references.shape
        padded = np.pad(references, [(0, -count % REFERENCE_ROWS), (0, 0), (0, 0)])
        signature = (tf.TensorSpec((REFERENCE_ROWS, frames, n_mels), tf.float32),)
        function = self._function(("speaker_vectors", frames), self.model.speaker_vectors, signature)
        parts = [function(part).numpy() for part in np.split(padded, len(padded) // REFERENCE_ROWS)]
        return np.concatenate(parts)[:count]

    def prepare(self, rows: int) -> None:
        """Compile the functions of all token and frame shapes."""
        for size in TOKEN_SHAPES:
            self._encode_function(rows, size)
        for frames in FRAME_SHAPES:
            self._speak_function(rows, 2 * TOKEN_SHAPES[-1] + 1, frames)

    # --- counting -------------------------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """Traces so far of all functions, by the counters that training uses."""
        with self._lock:
            return self.watch.counts()

    @property
    def function_names(self) -> list[str]:
        """Every function made so far, named by its shape."""
        with self._lock:
            return ["/".join(map(str, key)) for key in self._functions]

    def _encode_function(self, rows: int, size: int) -> Any:
        tokens, row = tf.TensorSpec((rows, size), tf.int32), tf.TensorSpec((rows,), tf.int32)
        vectors = tf.TensorSpec((rows, self.spec.speaker_channels), tf.float32)
        return self._function(("encode", rows, size), self._encode, (tokens, row, vectors, row))

    def _speak_function(self, rows: int, symbols: int, frames: int) -> Any:
        signature = (
            tf.TensorSpec((rows, symbols, self.spec.text_channels), tf.float32),
            tf.TensorSpec((rows, symbols), tf.int32),
            tf.TensorSpec((rows, frames, self.mel.n_mels), tf.float32),
            tf.TensorSpec((rows, self.spec.speaker_channels), tf.float32),
            tf.TensorSpec((rows,), tf.int32),
            tf.TensorSpec((), tf.int32),
            tf.TensorSpec((), tf.float32),
        )
        return self._function(("speak", rows, symbols, frames), self._speak, signature)

    def _function(self, key: tuple, body: Callable, signature: tuple) -> Any:
        function = self._functions.get(key)
        if function is None:
            with self._lock:
                function = self._functions.get(key)
                if function is None:
                    started = time.perf_counter()
                    function = tf.function(body, input_signature=signature, autograph=False)
                    with self.watch.compiling():
                        function.get_concrete_function()  # traced by one thread alone
                        _run_on_nothing(function, signature)
                    self.watch.add("/".join(map(str, key)), function)
                    self._functions[key] = function
                    self.seconds_compiling += time.perf_counter() - started
        return function

    def _encode(self, tokens, lengths, speakers, languages):
        speakers = speakers if self.spec.has_speakers else None
        features, log_durations = self.model.encode(tokens, lengths, speakers, languages)
        return tf.cast(features, tf.float32), tf.cast(log_durations, tf.float32)

    def _speak(self, features, durations, noise, speakers, languages, steps, temperature):
        speakers = speakers if self.spec.has_speakers else None
        mel = self.model.decode(features, durations, noise, speakers, languages, steps, temperature)
        return mel, self.vocoder(mel, tf.reduce_sum(durations, axis=1))


def _run_on_nothing(function: Any, signature: tuple) -> None:
    """Run a function for one step on zeros.

    A first run costs 0.3 s more than the next one (kernels are made, memory is found): a part of compiling, not of speech.
    """
    function(*(np.full(spec.shape, spec.shape.rank == 0, spec.dtype.as_numpy_dtype) for spec in signature))
