"""Read and write audio files: any file that libsndfile reads → float32 mono samples; samples → wav, flac, ogg, mp3 or raw.

Every problem with a file is an `AudioError` whose `reason` is a short phrase, so that a report can count by reason: missing,
permission denied, not a regular file, empty file, cut off, not audio, not finite, too long.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile
import soxr

from myxtts.errors import AudioError
from myxtts.runtime.safe_files import cause_of, open_regular_file, write_atomically

FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "ogg": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "raw": ("RAW", "PCM_16"),
}
"""Format names → libsndfile's container and coding. `raw` is 16-bit little-endian samples without a header."""
MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
"""Hz: the sample rates of MPEG-1, MPEG-2 and MPEG-2.5 Layer III."""
MP3_HEADER_BYTES = 64
"""A Xing, Info or VBRI header begins within the first 36 bytes of the first frame."""
LARGEST_INT16 = 32767.0
"""The int16 of a sample of 1."""
OGG_HIGHEST_RATE = 192_000
"""Hz. Beyond 200 kHz libvorbis aborts the process."""
FLAC_HIGHEST_ODD_RATE = 65_535
"""Hz. Above it a FLAC header counts in tens of Hz."""
WRITE_SAMPLES = 1 << 15
"""Samples passed to an encoder at once: libvorbis keeps them on the stack, and a long clip would overflow it."""
UNKNOWN_FRAMES = 1 << 62
"""The length that libsndfile gives to a FLAC stream that states none, and more."""
READ_FRAMES = 4096
"""Samples of such a stream that are decoded at once."""
OGG_PAGE_BYTES = 27 + 255 + 255 * 255
"""The largest Ogg page."""
OGG_LAST_PAGE = 4
"""Flag of the page that ends a stream."""


def read_audio(
    path: str | Path, longest_seconds: float | None = None, first_seconds: float | None = None
) -> tuple[np.ndarray, int]:
    """Decode a file: float32 samples (samples,) in -1…1, channels averaged, and the sample rate in Hz.

    Args:
        path: any file that libsndfile reads.
        longest_seconds: a longer file raises an `AudioError` before it is decoded.
        first_seconds: only so much of the beginning is decoded.
    """
    with _open_audio(path) as sound:
        if sound.frames >= UNKNOWN_FRAMES:
            return _read_whole_stream(path, sound, longest_seconds, first_seconds)
        seconds = sound.frames / sound.samplerate
        if longest_seconds is not None and seconds > longest_seconds:
            raise AudioError(f"{path} is {seconds:.1f} s long; the maximum is {longest_seconds:g} s.", "too long")
        expected, rate, file_format = sound.frames, sound.samplerate, sound.format
        if first_seconds is not None:
            expected = min(expected, round(first_seconds * rate))
        try:
            samples = _read_samples(sound, expected)
        except soundfile.LibsndfileError as error:
            raise AudioError(
                f"{path} cannot be decoded to its end: {error.error_string} Copy it again.", "cut off"
            ) from None
    if len(samples) < expected and (file_format != "MP3" or _mp3_states_length(path)):
        raise AudioError(f"{path} is cut off: {len(samples)} of {expected} samples could be read.", "cut off")
    if samples.ndim == 2:
        samples = samples.mean(axis=1, dtype=np.float32)
    return samples, rate


def _read_whole_stream(
    path: str | Path, sound: soundfile.SoundFile, longest_seconds: float | None, first_seconds: float | None
) -> tuple[np.ndarray, int]:
    rate = sound.samplerate
    limits = [seconds * rate for seconds in (first_seconds, longest_seconds) if seconds is not None]
    samples = read_stream(sound, round(min(limits)) + 1 if limits else UNKNOWN_FRAMES)
    if not len(samples):
        raise AudioError(f"{path} is an audio file without samples.", "empty file")
    if longest_seconds is not None and len(samples) > longest_seconds * rate:
        raise AudioError(f"{path} is longer than the maximum of {longest_seconds:g} s.", "too long")
    return samples[: None if first_seconds is None else round(first_seconds * rate)], rate


def read_stream(sound: soundfile.SoundFile, count: int) -> np.ndarray:
    """Up to `count` samples float32 (samples,) of a FLAC stream that states no length, channels averaged.

    soundfile seeks after it has read, which fails at the end of such a stream; what was read until then is kept.
    """
    parts: list[np.ndarray] = []
    num_frames = READ_FRAMES
    while num_frames == READ_FRAMES and len(parts) * READ_FRAMES < count:
        part = np.full((READ_FRAMES, sound.channels), np.nan, np.float32)  # FLAC has no NaN
        try:
            num_frames = len(sound.read(out=part))
        except soundfile.LibsndfileError:
            num_frames = int(np.isfinite(part[:, 0]).sum())
        parts.append(part[:num_frames].mean(axis=1, dtype=np.float32))
    return np.concatenate([*parts, np.zeros(0, np.float32)])[:count]


def _read_samples(sound: soundfile.SoundFile, count: int) -> np.ndarray:
    """The first samples as float32. NumPy converts 16-bit samples to the same values in a third of libsndfile's time."""
    if sound.subtype == "PCM_16":
        return sound.read(count, dtype="int16") * np.float32(1 / 32768)
    samples = sound.read(count, dtype="float32")
    if not np.isfinite(samples).all():
        raise AudioError(f"{sound.name} contains samples that are not finite (NaN or infinity).", "not finite")
    return samples


def probe_audio(path: str | Path) -> tuple[int, int]:
    """Number of samples (of each channel) and sample rate in Hz, without decoding the file if it states its length."""
    with _open_audio(path) as sound:
        if sound.frames >= UNKNOWN_FRAMES:
            return len(read_stream(sound, UNKNOWN_FRAMES)), sound.samplerate
        return sound.frames, sound.samplerate


@contextmanager
def _open_audio(path: str | Path) -> Iterator[soundfile.SoundFile]:
    """Open a file that is complete as far as its headers say; libsndfile's errors become ours, also those of reading."""
    _check_whole(path)
    try:
        with soundfile.SoundFile(os.fspath(path)) as sound:
            if sound.frames == 0:
                raise AudioError(f"{path} is an audio file without samples.", "empty file")
            yield sound
    except soundfile.LibsndfileError as error:
        raise AudioError(
            f"{path} cannot be read as audio ({error.error_string.rstrip('.')}). Expected: WAV, FLAC, Ogg, Opus or MP3.",
            "not audio",
        ) from None
    except UnicodeEncodeError:
        raise AudioError(f"The name of {path} is not UTF-8. Rename it.", "invalid UTF-8") from None


def _check_whole(path: str | Path) -> None:
    """Raise for files that are missing, empty, or shorter than their headers say (libsndfile accepts the last kind)."""
    try:
        with open_regular_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(12)
            if not start:
                raise AudioError(f"{path} is an empty file.", "empty file")
            if start[:4] == b"RIFF" and start[8:] == b"WAVE":
                is_whole = _wav_is_whole(file, size)
            elif start[:4] == b"OggS":
                is_whole = _ogg_is_whole(file, size)
            else:
                is_whole = True  # FLAC and MP3: the decoder finds a missing end, or nothing does
    except FileNotFoundError:
        raise AudioError(f"{path} does not exist.", "missing") from None
    except OSError as error:
        raise AudioError(f"{str(path)!r:.200} cannot be read: {error.strerror}.", _unreadable(path, error)) from None
    if not is_whole:
        raise AudioError(f"{path} is cut off: it ends before the length that its header states.", "cut off")


def _unreadable(path: str | Path, error: OSError) -> str:
    """The reason of an `AudioError` for a file that cannot be opened or read."""
    if isinstance(error, PermissionError):
        return "permission denied"
    return "not a regular file" if os.path.exists(path) and not os.path.isfile(path) else "missing"


def _wav_is_whole(file: BinaryIO, size: int) -> bool:
    position = 12
    while position + 8 <= size:
        file.seek(position)
        name, length = struct.unpack("<4sI", file.read(8))
        if name == b"data":
            is_unknown = length in (0, 0xFFFFFFFF)  # written to a pipe: the length was never filled in
            return is_unknown or position + 8 + length <= size
        position += 8 + length + length % 2
    return True  # no data chunk: libsndfile reports what is wrong


def _ogg_is_whole(file: BinaryIO, size: int) -> bool:
    file.seek(max(0, size - OGG_PAGE_BYTES))
    tail = file.read()
    page = tail.rfind(b"OggS")
    if page < 0 or page + 27 > len(tail):
        return False
    segments = tail[page + 27 : page + 27 + tail[page + 26]]
    ends = page + 27 + tail[page + 26] + sum(segments)
    return bool(tail[page + 5] & OGG_LAST_PAGE) and ends <= len(tail)


def _mp3_states_length(path: str | Path) -> bool:
    """Whether an MP3 file states its length in a Xing, Info or VBRI header after its ID3v2 tag.

    Without one (all of Common Voice, for example) libsndfile estimates the length from the size of the file, tags included.
    """
    with open_regular_file(path) as file:
        start = file.read(10)
        if start[:3] == b"ID3" and len(start) == 10:
            file.seek(10 + sum(byte << shift for byte, shift in zip(start[6:], (21, 14, 7, 0), strict=True)))
        else:
            file.seek(0)
        first_frame = file.read(MP3_HEADER_BYTES)
    return any(name in first_frame for name in (b"Xing", b"Info", b"VBRI"))


def resample(samples: np.ndarray, from_rate: int, to_rate: int) -> np.ndarray:
    """Samples at another rate (Hz), band-limited by soxr's high-quality filter."""
    if from_rate == to_rate:
        return samples
    return soxr.resample(samples, from_rate, to_rate, quality="HQ").astype(np.float32, copy=False)


def check_rate(format: str, sample_rate: int) -> None:
    """Raise an `AudioError` if a format has no such sample rate."""
    if format == "mp3" and sample_rate not in MP3_RATES:
        expected = f"MP3 supports {', '.join(map(str, MP3_RATES))}; or write wav, flac or ogg."
    elif format == "ogg" and sample_rate > OGG_HIGHEST_RATE:
        expected = f"Ogg supports up to {OGG_HIGHEST_RATE} Hz; or write wav or flac."
    elif format == "flac" and sample_rate > FLAC_HIGHEST_ODD_RATE and sample_rate % 10:
        expected = "Above 65535 Hz, FLAC supports multiples of 10 Hz; or write wav."
    else:
        return
    raise AudioError(f"{format} does not support a sample rate of {sample_rate} Hz. {expected}", "not audio")


def write_audio(
    target: str | Path | BinaryIO,
    samples: np.ndarray,
    sample_rate: int,
    format: str | None = None,
    quality: float | None = None,
) -> None:
    """Encode samples as a file, which appears whole or not at all, or to a stream.

    Args:
        target: a path, or a stream of bytes that need not be seekable.
        samples: float (samples,) in -1…1; louder ones are clipped.
        sample_rate: in Hz.
        format: one of `FORMATS`; None takes the file's extension.
        quality: 0…1, for ogg and mp3; None is the encoder's default.
    """
    name = format or (Path(target).suffix[1:].lower() if isinstance(target, str | os.PathLike) else "")
    if name not in FORMATS:
        raise AudioError(
            f"Unknown audio format. Received: {name!r}. Expected one of: {', '.join(FORMATS)}.", "not audio"
        )
    check_rate(name, sample_rate)
    samples = np.asarray(samples, np.float32)
    if not np.isfinite(samples).all():
        raise AudioError("The samples to write must be finite. Received: NaN or infinity.", "not finite")
    encoded = _encode(samples, sample_rate, name, quality)
    if not isinstance(target, str | os.PathLike):
        target.write(encoded)
        return
    try:
        write_atomically(target, encoded, is_durable=False)
    except OSError as error:
        raise AudioError(f"{target} cannot be written: {cause_of(error)}. Name another file.", "missing") from None


def samples_to_pcm(samples: np.ndarray) -> bytes:
    """Float samples in -1…1 as 16-bit little-endian bytes; louder ones are clipped."""
    return (np.clip(samples, -1, 1) * LARGEST_INT16).round().astype("<i2").tobytes()


def _encode(samples: np.ndarray, sample_rate: int, name: str, quality: float | None) -> bytes:
    """The whole file in memory: headers are completed at the end, and a socket or pipe cannot seek back to them."""
    if name == "raw":
        return samples_to_pcm(samples)
    container, coding = FORMATS[name]
    stream = io.BytesIO()
    compression = None if quality is None else 1.0 - quality
    with soundfile.SoundFile(
        stream, "w", sample_rate, 1, coding, format=container, compression_level=compression
    ) as sound:
        for start in range(0, len(samples), WRITE_SAMPLES):
            sound.write(np.clip(samples[start : start + WRITE_SAMPLES], -1, 1))
    return stream.getvalue()
