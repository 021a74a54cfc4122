"""Speakers of a voice: reference recordings → pieces of mel for the speaker encoder; speaker vectors in small JSON files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.clips import SILENT_PEAK, level_loudness, trim_silence
from myxtts.audio.files import probe_audio, read_audio, resample
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.errors import AudioError, VoiceError
from myxtts.runtime.safe_files import cause_of, read_regular_file, write_atomically
from myxtts.synthesis.voice_folder import VoiceDescription

FORMAT = "myxtts-speaker"
FORMAT_VERSION = 1
SHORTEST_SECONDS = 1.0
"""Shortest reference file."""
SHORTEST_SPEECH_SECONDS = 0.5
"""Shortest sound without the silence at both ends: a file of 1 s may have some silence, a click in silence has no speech."""
READ_SECONDS = 180.0
"""How much of a file is decoded: enough for a minute of speech after a silence."""
USED_SECONDS = 60.0
"""How much of a long reference is used, from its beginning: more does not change the vector much."""
MOST_BYTES = 1 << 20
LONGEST_NAME = 200
LARGEST_VALUE = 1e6
"""Far beyond any value of a speaker vector; float32 can hold it."""


@dataclass(frozen=True)
class Speaker:
    """A speaker of one voice: the output of its speaker encoder."""

    vector: np.ndarray
    """float32 (speaker_channels,)."""
    voice: str
    """Identity of the voice that it belongs to (`voice_folder.voice_identity`)."""
    name: str = ""
    """Given when it was stored; empty: none."""
    created: int = 0
    """When it was stored, in seconds since 1970; 0: not known."""
    decoder_vector: np.ndarray | None = None
    """float32 (speaker_channels,): what the decoder gets; `vector` is then for the text alone. None: `vector`."""

    def save(self, path: str | Path) -> None:
        """Write the vector as JSON, whole or not at all."""
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "voice": self.voice,
            **({"name": self.name, "created": self.created} if self.name else {}),
            # Not rounded: the saved speaker sounds exactly like the cloned one.
            "vector": [float(value) for value in self.vector],
        }
        if self.decoder_vector is not None:
            content["decoder_vector"] = [float(value) for value in self.decoder_vector]
        try:
            write_atomically(path, json.dumps(content) + "\n", is_durable=False)
        except OSError as error:
            raise VoiceError(
                f"The speaker {path} could not be written: {cause_of(error)}. Name another file."
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Speaker:
        """Read what `save` wrote; anything else is a `VoiceError`."""
        try:
            content = json.loads(read_regular_file(path, MOST_BYTES))
        except OSError as error:
            raise VoiceError(f"The speaker {path} cannot be read: {error.strerror}. Name another file.") from None
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise VoiceError(f"{path} is not a speaker. Expected a file written by `myxtts clone --save-speaker`.")
        if content.get("format_version") != FORMAT_VERSION:
            raise VoiceError(
                f"{path} has speaker format {content.get('format_version')!r:.20}; this version of MyXTTS reads "
                f"{FORMAT_VERSION}. Save the speaker again."
            )
        vector, voice = _vector_of(content.get("vector")), content.get("voice")
        decoder_vector = _vector_of(content.get("decoder_vector"))
        name, created = content.get("name", ""), content.get("created", 0)
        is_named = isinstance(name, str) and len(name) <= LONGEST_NAME and type(created) is int
        fits = decoder_vector is None or (vector is not None and decoder_vector.shape == vector.shape)
        is_decoder_damaged = "decoder_vector" in content and decoder_vector is None
        if vector is None or not fits or is_decoder_damaged or not is_named or not isinstance(voice, str):
            raise VoiceError(
                f"{path} is damaged. Expected a list of finite numbers and the name of a voice. Save the speaker again."
            )
        return cls(vector, voice, name, created, decoder_vector)


def _vector_of(values: Any) -> np.ndarray | None:
    """A list of finite numbers as float32; None for anything else."""
    if not isinstance(values, list) or not values or not all(map(_is_vector_value, values)):
        return None
    return np.asarray(values, np.float32)


def _is_vector_value(value: Any) -> bool:
    # Neither a bool nor NaN, which is not below anything.
    return type(value) in (int, float) and abs(value) <= LARGEST_VALUE


def check_reference(path: str | Path) -> None:
    """Raise an `AudioError` for a recording that is missing, unreadable or too short, without decoding it."""
    samples, sample_rate = probe_audio(path)
    _check_seconds(path, samples / sample_rate)


def _check_seconds(path: str | Path, seconds: float) -> None:
    if seconds < SHORTEST_SECONDS:
        raise AudioError(
            f"{path} is only {seconds:.2f} s long; a reference needs at least {SHORTEST_SECONDS:g} s of speech.",
            "too short",
        )


def reference_pieces(path: str | Path, description: VoiceDescription, mel: MelSpec) -> np.ndarray:
    """A recording as the speaker encoder was trained on recordings: log-mel (pieces, reference_frames, n_mels)."""
    samples, sample_rate = read_audio(path, first_seconds=READ_SECONDS)
    return sample_pieces(samples, sample_rate, str(path), description, mel)


def sample_pieces(
    samples: np.ndarray, sample_rate: int, name: str, description: VoiceDescription, mel: MelSpec
) -> np.ndarray:
    """`reference_pieces` of float32 samples (samples,); `name` is what errors call the recording."""
    _check_seconds(name, len(samples) / sample_rate)
    peak = float(np.abs(samples).max())
    if peak < SILENT_PEAK:
        where = f" in its first {READ_SECONDS:g} s" if len(samples) >= round(READ_SECONDS * sample_rate) else ""
        raise AudioError(
            f"{name} is silent{where}: its loudest sample is {peak:.1g} of full scale. Use another recording.", "silent"
        )
    samples = resample(samples, sample_rate, mel.sample_rate)
    if description.trim_silence_db is not None:
        samples = trim_silence(samples, mel.sample_rate, description.trim_silence_db, description.trim_noise_db)
    seconds = len(samples) / mel.sample_rate
    if seconds < SHORTEST_SPEECH_SECONDS:
        raise AudioError(
            f"{name} has only {seconds:.2f} s of sound without its silences; a reference needs at least "
            f"{SHORTEST_SECONDS:g} s of speech.",
            "too short",
        )
    if description.loudness_db is not None:
        samples = level_loudness(samples, mel.sample_rate, description.loudness_db)
    return cut_reference(mel_numpy(samples[: round(USED_SECONDS * mel.sample_rate)], mel), description.reference_frames)


def cut_reference(frames: np.ndarray, reference_frames: int) -> np.ndarray:
    """Mel (frames, n_mels) → (pieces, reference_frames, n_mels): repeated if short, evenly overlapping pieces if long."""
    if len(frames) < reference_frames:
        return frames[np.arange(reference_frames) % len(frames)][np.newaxis]
    count = -(-len(frames) // reference_frames)
    starts = np.linspace(0, len(frames) - reference_frames, count).round().astype(int)
    return np.stack([frames[start : start + reference_frames] for start in starts])


def emphasize(vector: np.ndarray, named: np.ndarray | None, factor: float) -> np.ndarray:
    """Speakers (…, speaker_channels) moved away from the mean of the named ones (speakers, speaker_channels); float32.

    A network that was trained on few speakers blends them; a vector moved further out gives speech more like its speaker, as
    guidance (Ho and Salimans, 2022) moves a sample beyond its condition.
    """
    center = 0.0 if named is None or not len(named) else named.mean(axis=0)
    return (center + factor * (vector - center)).astype(np.float32)
