"""The networks of a voice on ONNX Runtime: symbols → frames per symbol and a log-mel; references → speaker vectors.

voice.onnx is cut into two sessions, so that exactly as much noise is drawn as there are frames. `Session` runs any checked model.
What is too long to be decoded at once is cut into parts (`cut_frames`), whose sound is joined (`join_parts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
from onnx import ModelProto

from myxtts.audio.clips import HIGHEST_PEAK
from myxtts.errors import VoiceError
from myxtts.runtime.console import printable
from myxtts.synthesis.guidance import with_guidance
from myxtts.synthesis.onnx_file import cut_model, weights_of
from myxtts.synthesis.voice_folder import (
    EXPRESSIVENESS_INPUT,
    FEATURES,
    FRAMES_PER_SYMBOL,
    LONGEST_SYMBOL_SECONDS,
    MEL,
    PITCH_CONDITION,
    REFERENCES,
    SPEAKER_INPUT,
    VECTORS,
    VoiceDescription,
    read_models,
    speaker_vectors_of,
    voice_tensors,
)

ERRORS_ONLY = 3
"""ONNX Runtime's log level: it also warns about weights that only training uses."""
LONGEST_FRAMES = 4096
"""Frames that are decoded at once, about a minute; slower speech is decoded in parts."""
FADE_SECONDS = 0.008
"""Fade at each end of a part, so that joints do not click. Chosen; not measured."""


class Session:
    """A loaded model. Several threads may run it at once."""

    def __init__(self, model: ModelProto, threads: int = 1):
        """`threads` of one run. A second one hardly shortens it and adds half of its processor time (docs/synthesis.md)."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = ERRORS_ONLY
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Lengths differ from sentence to sentence: memory patterns are kept per length and would grow without end.
        options.enable_mem_pattern = False
        # Threads that spin between two operators use as much processor time as the operators themselves.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        with _explained():
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                enable_fallback=0,  # otherwise it prints errors and tries again
            )
        self._inputs = {each.name for each in self._session.get_inputs()}

    def run(self, outputs: Sequence[str], inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The named outputs; inputs that the model lacks are left out."""
        given = {name: np.asarray(array) for name, array in inputs.items() if name in self._inputs}
        with _explained():
            return [np.asarray(array) for array in self._session.run(list(outputs), given)]


@contextmanager
def _explained() -> Iterator[None]:
    """ONNX Runtime's own errors as `VoiceError`: a voice whose parts do not fit each other."""
    try:
        yield
    except Exception as error:
        # ONNX Runtime's exceptions have no base class of their own; names that are not UTF-8 are a ValueError.
        kinds = RuntimeError | MemoryError | ValueError
        is_own = type(error).__module__.startswith("onnxruntime") or isinstance(error, kinds)
        if not is_own:
            raise
        cause = printable(str(error), keeps_lines=False)
        raise VoiceError(f"The network of the voice cannot be run: {cause:.200}. Export the voice again.") from None


class Sampling(NamedTuple):
    """The inputs of the networks that are the same for all pieces of a text."""

    speaker: np.ndarray
    """Speaker vector (speaker_channels,)."""
    language: int
    duration_scale: float
    """Predicted durations are multiplied by it."""
    steps: int
    temperature: float
    decoder_speaker: np.ndarray | None = None
    """Speaker vector of the decoder; None: that of the text."""
    expressiveness: float = 1.0
    """Factor of the movements of the pitch; a voice without pitch has no use for it."""


class EncodedText(NamedTuple):
    """A text after the encoder."""

    features: np.ndarray
    """(expanded symbols, text_channels)."""
    frames: np.ndarray
    """int64 (expanded symbols,): frames of each symbol and of the blanks around them."""
    pitch_condition: np.ndarray | None = None
    """(1, PITCH_CHANNELS): speaker and language of the pitch; None for a voice without pitch."""


class Engine:
    """The sessions of one voice; `load_engine` opens them. Several threads may use them at once."""

    def __init__(
        self,
        encoder: Session,
        decoder: Session,
        speaker_encoder: Session | None,
        longest_symbol: float,
        encoded: Sequence[str],
    ):
        """`longest_symbol`: frames that no symbol exceeds at `duration_scale` 1. `encoded`: tensors between the sessions."""
        self._encoder = encoder
        self._encoded = tuple(encoded)
        self._decoder = decoder
        self._speaker_encoder = speaker_encoder
        self._longest_symbol = longest_symbol

    def encode(self, ids: list[int], sampling: Sampling) -> EncodedText:
        """Token ids → features and frames per symbol."""
        found = self._encoder.run(self._encoded, {"tokens": np.array(ids), **_inputs(sampling)})
        features, frames, *of_pitch = found
        longest = self._longest_symbol * sampling.duration_scale + 1
        if frames.shape != (2 * len(ids) + 1,) or frames.min() < 0 or frames.max() > longest:
            raise VoiceError("The voice predicts impossible durations: it is damaged or diverged. Train it again.")
        return EncodedText(features, frames, *of_pitch)

    def decode(self, encoded: EncodedText, noise: np.ndarray, sampling: Sampling) -> np.ndarray:
        """An encoded text, or the part of it that `encoded.frames` has frames for, and noise → log-mel (frames, n_mels) each."""
        known = {name: value for name, value in zip(self._encoded, encoded, strict=False) if value is not None}
        given = {**known, "noise": noise, **_inputs(sampling)}
        if sampling.decoder_speaker is not None:
            given[SPEAKER_INPUT] = sampling.decoder_speaker.astype(np.float32)
        mel = self._decoder.run((MEL,), given)[0]
        if mel.shape != noise.shape:
            raise VoiceError(f"The voice produces a mel of shape {mel.shape}; expected {noise.shape}. Export it again.")
        return mel

    def speaker_vectors(self, references: np.ndarray) -> np.ndarray:
        """Log-mel references (pieces, reference_frames, n_mels) → vectors (pieces, speaker_channels)."""
        if self._speaker_encoder is None:
            raise VoiceError(
                "This voice was trained on one speaker and cannot clone. Train on several speakers for that."
            )
        return self._speaker_encoder.run((VECTORS,), {REFERENCES: references.astype(np.float32)})[0]


def load_engine(folder: Path, description: VoiceDescription, threads: int = 1) -> tuple[Engine, np.ndarray | None]:
    """Open the networks of a voice folder, and read the vectors of its named speakers (speakers, speaker_channels)."""
    model, speaker_model = read_models(folder, description)
    inputs, _ = voice_tensors(description)
    encoded = (FEATURES, FRAMES_PER_SYMBOL, *([PITCH_CONDITION] if description.model_spec().pitch else []))
    encoder = Session(cut_model(model, inputs, encoded), threads)
    vectors = None if speaker_model is None else speaker_vectors_of(weights_of(speaker_model), description)
    decoding = cut_model(model, (*inputs, *encoded), (MEL,))
    if description.defaults.guidance:
        decoding = with_guidance(decoding, description.defaults.guidance, vectors)
    decoder = Session(decoding, threads)
    of_speaker = None if speaker_model is None else Session(speaker_model, threads)
    longest = LONGEST_SYMBOL_SECONDS * description.mel_spec().frames_per_second
    return Engine(encoder, decoder, of_speaker, longest, encoded), vectors


def _inputs(sampling: Sampling) -> dict[str, np.ndarray]:
    return {
        "duration_scale": np.array(sampling.duration_scale, np.float32),
        "steps": np.array(sampling.steps, np.int64),
        "temperature": np.array(sampling.temperature, np.float32),
        "language": np.array(sampling.language, np.int64),
        SPEAKER_INPUT: sampling.speaker.astype(np.float32),
        EXPRESSIVENESS_INPUT: np.array(sampling.expressiveness, np.float32),
    }


def cut_frames(durations: np.ndarray, boundaries: np.ndarray, longest: int) -> list[np.ndarray]:
    """Frames of each symbol, int64 (symbols,), as parts of at most `longest` frames that add up to it.

    A part ends after a symbol of `boundaries`, bool (symbols,), if there is one in its second half, otherwise when it is full.
    """
    ends = np.cumsum(durations)
    total, start, parts = int(ends[-1]), 0, []
    while total - start > longest:
        possible = ends[boundaries & (ends > start + longest // 2) & (ends <= start + longest)]
        stop = int(possible[-1]) if len(possible) else start + longest
        parts.append(np.diff(np.clip(ends, start, stop), prepend=start))
        start = stop
    return [*parts, np.diff(np.clip(ends, start, total), prepend=start)]


def noise_of(seed: int, piece: int, num_frames: int, n_mels: int) -> np.ndarray:
    """Standard normal noise float32 (num_frames, n_mels) of one piece of a text.

    Drawn frame by frame from (seed, piece): a longer draw begins with the same frames.
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, piece])))
    return generator.standard_normal((num_frames, n_mels), np.float32)


def join_parts(parts: Sequence[np.ndarray], sample_rate: int, pause_seconds: float) -> np.ndarray:
    """The sound of a piece, ready to follow another: each part faded at both ends, at most full scale, then a pause."""
    pause = np.zeros(round(pause_seconds * sample_rate), np.float32)
    joined = np.concatenate([*(_faded(part, sample_rate) for part in parts), pause])
    if not np.isfinite(joined).all():
        raise VoiceError("The voice produces samples that are not finite: it is damaged or diverged. Train it again.")
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
