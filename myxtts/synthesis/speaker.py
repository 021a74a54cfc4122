"""Who speaks: reference recordings → pieces of mel for the speaker encoder, and speaker vectors kept in small JSON files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.audio.files import SILENT_PEAK, level_loudness, read_audio, resample, trim_silence
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.errors import AudioError, VoiceError
from myxtts.synthesis.voice_folder import VoiceDescription

FORMAT = "myxtts-speaker"
FORMAT_VERSION = 1
SHORTEST_SECONDS = 1.0
LONGEST_SECONDS = 3600.0
"""Longer files are refused before they are decoded."""
HEARD_SECONDS = 60.0
"""Of a long reference only its beginning is heard: a speaker is known by then."""
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Speaker:
    """A speaker of one voice, as its speaker encoder hears them."""

    vector: np.ndarray
    """float32 (speaker_channels,)."""
    voice: str
    """Identity of the voice that it belongs to (`voice_folder.voice_identity`)."""

    def save(self, path: str | Path) -> None:
        """Write the vector as JSON, whole or not at all."""
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "voice": self.voice,
            "vector": [round(float(value), 7) for value in self.vector],
        }
        path = Path(path)
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            beside.write_text(json.dumps(content) + "\n", encoding="utf-8")
            os.replace(beside, path)
        except OSError as error:
            raise VoiceError(f"The speaker {path} could not be written: {error.strerror}.") from None
        finally:
            beside.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> Speaker:
        """Read what `save` wrote; anything else is a `VoiceError`."""
        try:
            with open(path, "rb") as file:
                content = json.loads(file.read(MOST_BYTES))
        except OSError as error:
            raise VoiceError(f"The speaker {path} cannot be read: {error.strerror}.") from None
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise VoiceError(f"{path} is not a speaker. Expected a file written by `myxtts clone --save-speaker`.")
        if content.get("format_version") != FORMAT_VERSION:
            raise VoiceError(
                f"{path} has speaker format {content.get('format_version')}; this version of MyXTTS reads {FORMAT_VERSION}."
            )
        vector, voice = content.get("vector"), content.get("voice")
        is_vector = isinstance(vector, list) and all(isinstance(value, int | float) for value in vector)
        if not is_vector or not isinstance(voice, str) or not np.isfinite(np.asarray(vector, np.float32)).all():
            raise VoiceError(f"{path} is damaged: a speaker is a list of finite numbers and the name of a voice.")
        return cls(np.asarray(vector, np.float32), voice)


def reference_pieces(path: str | Path, description: VoiceDescription, mel: MelSpec) -> np.ndarray:
    """A recording as the speaker encoder learnt to hear it: log-mel (pieces, reference_frames, n_mels)."""
    samples, file_rate = read_audio(path, LONGEST_SECONDS)
    seconds = len(samples) / file_rate
    if seconds < SHORTEST_SECONDS:
        raise AudioError(
            f"{path} is {seconds:.2f} s short; a reference needs at least {SHORTEST_SECONDS:g} s of speech.",
            "too short",
        )
    peak = float(np.abs(samples).max())
    if peak < SILENT_PEAK:
        raise AudioError(f"{path} is silent: its loudest sample is {peak:.1g} of full scale.", "silent")
    samples = resample(samples, file_rate, mel.sample_rate)
    if description.trim_silence_db is not None:
        samples = trim_silence(samples, mel.sample_rate, description.trim_silence_db)
    if description.loudness_db is not None:
        samples = level_loudness(samples, mel.sample_rate, description.loudness_db)
    return cut_reference(
        mel_numpy(samples[: round(HEARD_SECONDS * mel.sample_rate)], mel), description.reference_frames
    )


def cut_reference(frames: np.ndarray, reference_frames: int) -> np.ndarray:
    """Mel (frames, n_mels) → (pieces, reference_frames, n_mels): repeated if short, evenly overlapping pieces if long."""
    if len(frames) < reference_frames:
        return frames[np.arange(reference_frames) % len(frames)][np.newaxis]
    count = -(-len(frames) // reference_frames)
    starts = np.linspace(0, len(frames) - reference_frames, count).round().astype(int)
    return np.stack([frames[start : start + reference_frames] for start in starts])
