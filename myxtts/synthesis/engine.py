"""The compiled part of a voice: one traced function per static shape, made when first needed, counted, safe to share.

In: padded arrays. Out: text features and durations; mels and samples; speaker vectors. All shapes are static, all signatures
fixed, so nothing can be traced twice.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSpec
from myxtts.errors import VoiceError
from myxtts.models.griffin_lim import GriffinLim, GriffinLimSettings
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import XTTS
from myxtts.runtime.compilation import Counts, RetraceWatch
from myxtts.synthesis.options import check_can_clone

# MERGED: What is decided about lengths: static shapes, durations, noise, joins. Numbers in, numbers out; no TensorFlow.
#
# Every text is rounded up to one of a few token shapes and every mel to one of a few frame shapes, so that a thousand different
# sentences need a handful of compiled functions. Rounding changes nothing: the noise of a frame does not depend on the shape.

TOKEN_SHAPES = (48, 96, 192, 384)
"""Symbols of one text. The encoder is a small part of the work: few shapes, generous steps."""
FRAME_SHAPES = (96, 160, 256, 384, 576, 832, 1216)
"""Frames of one text. Steps of about 1.5: a fifth of the decoder's work is padding, and seven functions are compiled."""
LONGEST_SYMBOL_SECONDS = 1.5
"""No symbol lasts longer, whatever an untrained network predicts."""
FADE_SECONDS = 0.008
HIGHEST_PEAK = 0.99


def round_up(length: int, shapes: Sequence[int]) -> int:
    """The smallest shape that holds `length`; beyond the largest one, its next multiple."""
    for shape in shapes:
        if length <= shape:
            return shape
    return -(-length // shapes[-1]) * shapes[-1]


def cut_symbols(ids: Sequence[int], boundaries: frozenset[int], longest: int) -> list[list[int]]:
    """Ids in runs of at most `longest`, cut after a boundary (a pause, the end of a word) where there is one."""
    runs = []
    ids = list(ids)
    while len(ids) > longest:
        at = next((index + 1 for index in range(longest - 1, longest // 2, -1) if ids[index] in boundaries), longest)
        runs.append(ids[:at])
        ids = ids[at:]
    return [*runs, ids]


def cut_frames(durations: np.ndarray, boundaries: np.ndarray, longest: int) -> list[np.ndarray]:
    """Frames of each symbol, int32 (symbols,), as runs of at most `longest` frames that add up to it.

    A run ends after a symbol of `boundaries`, bool (symbols,), where there is one in its second half, else wherever it is full.
    """
    ends = np.cumsum(durations)
    total, start, runs = int(ends[-1]), 0, []
    while total - start > longest:
        possible = ends[boundaries & (ends > start + longest // 2) & (ends <= start + longest)]
        stop = int(possible[-1]) if len(possible) else start + longest
        runs.append(np.diff(np.clip(ends, start, stop), prepend=start).astype(np.int32))
        start = stop
    return [*runs, np.diff(np.clip(ends, start, total), prepend=start).astype(np.int32)]


def batches_of(lengths: Sequence[int], rows: int) -> list[list[int]]:
    """Indices in groups of at most `rows`, similar lengths together; the longest first, so that memory peaks at once."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    return [order[start : start + rows] for start in range(0, len(order), rows)]


def frames_of_symbols(
    log_durations: np.ndarray, num_symbols: int, scale: float, frames_per_second: float
) -> np.ndarray:
    """Frames of each blank-expanded symbol: float (symbols,) → int32 (symbols,), 0 beyond `num_symbols`.

    A symbol lasts at least one frame before `scale` (1 / speed) is applied. Ends are rounded, not durations: the sum is right
    whatever the speed, and a symbol may vanish only in fast speech.
    """
    longest = LONGEST_SYMBOL_SECONDS * frames_per_second
    logarithms = np.asarray(log_durations, np.float64)[:num_symbols]
    if not np.isfinite(logarithms).all():
        raise VoiceError("The voice predicts durations that are not finite: it is damaged or diverged. Train it again.")
    durations = np.exp(np.clip(logarithms, 0.0, np.log(longest))) * scale
    ends = np.floor(np.cumsum(durations) + 0.5).astype(np.int32)
    frames = np.zeros(len(log_durations), np.int32)
    frames[:num_symbols] = np.diff(ends, prepend=0)
    if frames.sum() == 0:
        frames[0] = 1
    return frames


def noise_of(seed: int, piece: int, num_frames: int, n_mels: int) -> np.ndarray:
    """Standard normal noise float32 (num_frames, n_mels) of one piece of a text.

    Drawn frame by frame from (seed, piece): a longer draw begins with the same frames, so that the shape does not matter.
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, piece])))
    return generator.standard_normal((num_frames, n_mels), np.float32)


def join_piece(parts: Sequence[np.ndarray], sample_rate: int, pause_seconds: float) -> np.ndarray:
    """A piece ready to follow another: never above full scale, each part faded at both ends, followed by a pause."""
    pause = np.zeros(round(pause_seconds * sample_rate), np.float32)
    joined = np.concatenate([*(_faded(part, sample_rate) for part in parts), pause])
    if not np.isfinite(joined).all():
        raise VoiceError("The voice gives sound that is not finite: it is damaged or diverged. Train it again.")
    peak = float(np.abs(joined).max(initial=0.0))
    return joined * np.float32(min(1.0, HIGHEST_PEAK / peak)) if peak > 0 else joined


def _faded(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    faded = samples.copy()
    fade = min(round(FADE_SECONDS * sample_rate), len(faded) // 2)
    if fade > 0:
        ramp = (0.5 - 0.5 * np.cos(np.pi * (np.arange(fade) + 0.5) / fade)).astype(np.float32)
        faded[:fade] *= ramp
        faded[-fade:] *= ramp[::-1]
    return faded


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


# MERGED: From pieces of text to mels and samples, in batches of static shape. No files, no sentences: symbols in, sound out.


class Piece(NamedTuple):
    """What is spoken in one go."""

    text: str
    ids: list[int]
    unknown: Counter
    seed: int
    number: int
    """Place in its text: with the seed, it decides the noise."""
    pause_seconds: float
    owner: int
    """Which of several texts it belongs to."""


class Sampling(NamedTuple):
    """The numbers of the sampler that are the same for all pieces of a call."""

    vector: np.ndarray
    """Speaker vector (speaker_channels,)."""
    language: int
    duration_scale: float
    """Predicted durations are multiplied by it."""
    steps: int
    temperature: float


class Rendered(NamedTuple):
    """A spoken piece: usually one part; more where it lasts longer than the largest shape."""

    mels: list[np.ndarray]
    """Log-mels (frames, n_mels)."""
    parts: list[np.ndarray]
    """Samples of each."""


class _Run(NamedTuple):
    """What is decoded in one go: a piece after the encoder, or a run of its frames."""

    piece: int
    features: np.ndarray
    durations: np.ndarray
    """0 outside the run."""
    noise: np.ndarray
    """(frames, n_mels)."""

    @property
    def frames(self) -> int:
        return len(self.noise)


class Renderer:
    """Pads, calls the engine and cuts the padding off again. `rows` pieces are spoken at once."""

    def __init__(
        self,
        engine: Engine,
        rows: int = 1,
        token_shapes: Sequence[int] = TOKEN_SHAPES,
        frame_shapes: Sequence[int] = FRAME_SHAPES,
        boundaries: Collection[int] = (),
    ):
        """`boundaries`: ids after which a piece of too many frames is best cut."""
        self.engine = engine
        self.rows = rows
        self.token_shapes = token_shapes
        self.frame_shapes = frame_shapes
        self.boundaries = np.array(sorted(boundaries), np.int32)

    def render(self, pieces: Sequence[Piece], sampling: Sampling) -> list[Rendered]:
        """The sound of each piece, made at the smallest shapes that hold it and never at a larger one than there is."""
        runs_of: dict[int, list[_Run]] = {}
        for group in batches_of([len(piece.ids) for piece in pieces], self.rows):
            runs_of |= zip(group, self._encode(pieces, group, sampling), strict=True)
        runs = [run for index in range(len(pieces)) for run in runs_of[index]]
        spoken: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for group in batches_of([run.frames for run in runs], self.rows):
            spoken |= zip(group, self._speak([runs[index] for index in group], sampling), strict=True)
        rendered = [Rendered([], []) for _ in pieces]
        for index, run in enumerate(runs):
            mel, samples = spoken[index]
            rendered[run.piece].mels.append(mel)
            rendered[run.piece].parts.append(samples)
        return rendered

    def _encode(self, pieces: Sequence[Piece], group: list[int], sampling: Sampling) -> list[list[_Run]]:
        members = [
            pieces[index] for index in group + group[:1] * (self.rows - len(group))
        ]  # empty rows repeat the first
        lengths = np.array([len(piece.ids) for piece in members], np.int32)
        tokens = np.zeros((self.rows, round_up(int(lengths.max()), self.token_shapes)), np.int32)
        for row, piece in enumerate(members):
            tokens[row, : lengths[row]] = piece.ids
        features, log_durations = self.engine.encode(tokens, lengths, *self._condition(sampling))
        scale, rate = sampling.duration_scale, self.engine.mel.frames_per_second
        return [
            self._runs(
                index,
                pieces[index],
                features[row],
                frames_of_symbols(log_durations[row], 2 * int(lengths[row]) + 1, scale, rate),
            )
            for row, index in enumerate(group)
        ]

    def _runs(self, index: int, piece: Piece, features: np.ndarray, durations: np.ndarray) -> list[_Run]:
        is_boundary = np.zeros(len(durations), bool)
        is_boundary[1 : 2 * len(piece.ids) : 2] = np.isin(piece.ids, self.boundaries)  # symbols stand between blanks
        parts = cut_frames(durations, is_boundary, self.frame_shapes[-1])
        noise = noise_of(piece.seed, piece.number, int(durations.sum()), self.engine.mel.n_mels)
        starts = np.cumsum([part.sum() for part in parts])[:-1]
        return [_Run(index, features, part, own) for part, own in zip(parts, np.split(noise, starts), strict=True)]

    def _speak(self, runs: list[_Run], sampling: Sampling) -> list[tuple[np.ndarray, np.ndarray]]:
        mel = self.engine.mel
        symbols, channels = max(len(run.durations) for run in runs), runs[0].features.shape[1]
        frames = round_up(max(run.frames for run in runs), self.frame_shapes)
        features = np.zeros((self.rows, symbols, channels), np.float32)
        durations = np.zeros((self.rows, symbols), np.int32)
        noise = np.zeros((self.rows, frames, mel.n_mels), np.float32)
        for row, run in enumerate(runs + runs[:1] * (self.rows - len(runs))):
            features[row, : len(run.durations)], durations[row, : len(run.durations)] = run.features, run.durations
            noise[row, : run.frames] = run.noise
        vectors, languages = self._condition(sampling)
        mels, samples = self.engine.speak(
            features, durations, noise, vectors, languages, sampling.steps, sampling.temperature
        )
        return [
            (mels[row, : run.frames], samples[row, : max(1, run.frames - 1) * mel.hop_length])
            for row, run in enumerate(runs)
        ]

    def _condition(self, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
        return np.tile(sampling.vector, (self.rows, 1)), np.full(self.rows, sampling.language, np.int32)
