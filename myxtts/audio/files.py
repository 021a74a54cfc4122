"""Audio files in and out: any file that libsndfile reads → float32 mono samples; samples → wav, flac, ogg, mp3 or raw.

Whatever is wrong with a file is an `AudioError` whose `reason` is one of `REASONS`, so that a report can count by reason.
Files are written beside their place and renamed: a reader sees the old file or the whole new one.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile
import soxr

from myxtts.config.config import DataConfig
from myxtts.errors import AudioError
from myxtts.runtime.files import open_regular_file

REASONS = (
    "missing", "permission denied", "not a regular file", "empty file", "cut off", "not audio", "silent", "not finite",
    "too short", "too long",
)  # fmt: skip
FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "ogg": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "raw": ("RAW", "PCM_16"),
}
"""Format names → libsndfile's container and coding. `raw` is 16-bit little-endian samples without a header."""
MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
OGG_HIGHEST_RATE = 192_000
"""Hz. Beyond 200 kHz libvorbis ends the process instead of refusing."""
FLAC_HIGHEST_ODD_RATE = 65_535
"""Hz. Above it a FLAC header counts in tens of Hz."""
WRITE_SAMPLES = 1 << 15
"""Samples handed to an encoder at once: libvorbis keeps them on the stack, and a long clip would overflow it."""
OGG_PAGE_BYTES = 27 + 255 + 255 * 255
"""The largest Ogg page."""
OGG_LAST_PAGE = 4
"""Flag of the page that ends a stream."""
SILENT_PEAK = 1e-3
"""Clips whose loudest sample is below this (-60 dB of full scale) hold no speech."""
BLOCK_SECONDS = 0.01
"""Length of the blocks whose loudness is compared."""
MARGIN_SECONDS = 0.03
"""Kept around the loud part when silence is cut: soft consonants begin below the threshold."""
SPOKEN_DB = 30.0
"""Blocks at most this far below the loudest one count as spoken when the level is measured."""
HIGHEST_PEAK = 0.99
"""Levelling never raises a sample above this."""
MP3_TOLERANCE = 2 * 1152
"""Samples that an MP3 file may have fewer than announced: two frames. Without a header frame the length is an estimate; all clips
of Common Voice have 270 or 852 samples fewer."""
UNREAD_FACTOR = 2.0
"""Files longer than this many times `max_seconds` are set aside without being decoded."""


def read_audio(
    path: str | Path, longest_seconds: float | None = None, first_seconds: float | None = None
) -> tuple[np.ndarray, int]:
    """All samples of a file, channels averaged: float32 (samples,) in -1…1, and its sample rate in Hz.

    A file that is longer than `longest_seconds` is refused before it is decoded; only `first_seconds` of it are decoded.
    """
    with _open_audio(path) as sound:
        seconds = sound.frames / sound.samplerate
        if longest_seconds is not None and seconds > longest_seconds:
            raise AudioError(f"{path} is {seconds:.1f} s long; at most {longest_seconds:g} s are read.", "too long")
        expected, rate, file_format = sound.frames, sound.samplerate, sound.format
        if first_seconds is not None:
            expected = min(expected, round(first_seconds * rate))
        try:
            samples = _read_samples(sound, expected)
        except soundfile.LibsndfileError as error:
            raise AudioError(f"{path} breaks off: {error.error_string}", "cut off") from None
    if len(samples) < expected - (MP3_TOLERANCE if file_format == "MP3" else 0):
        raise AudioError(f"{path} is cut off: {len(samples)} of {expected} samples could be read.", "cut off")
    if samples.ndim == 2:
        samples = samples.mean(axis=1, dtype=np.float32)
    return samples, rate


def _read_samples(sound: soundfile.SoundFile, count: int) -> np.ndarray:
    """The first samples as float32. NumPy converts those of 16 bits to the same numbers in a third of libsndfile's time."""
    if sound.subtype == "PCM_16":
        return sound.read(count, dtype="int16") * np.float32(1 / 32768)
    samples = sound.read(count, dtype="float32")
    if not np.isfinite(samples).all():
        raise AudioError(f"{sound.name} holds samples that are not finite numbers (NaN or infinity).", "not finite")
    return samples


def probe_audio(path: str | Path) -> tuple[int, int]:
    """Number of samples (of each channel) and sample rate in Hz, without decoding the file."""
    with _open_audio(path) as sound:
        return sound.frames, sound.samplerate


@contextmanager
def _open_audio(path: str | Path) -> Iterator[soundfile.SoundFile]:
    """The opened file, found whole as far as its headers tell; libsndfile's errors become ours, also those of reading."""
    _check_whole(path)
    try:
        with soundfile.SoundFile(os.fspath(path)) as sound:
            if sound.frames == 0:
                raise AudioError(f"{path} is an audio file without a single sample.", "empty file")
            yield sound
    except soundfile.LibsndfileError as error:
        raise AudioError(f"{path} is not an audio file that can be read: {error.error_string}", "not audio") from None


def _check_whole(path: str | Path) -> None:
    """Raise for files that are missing, empty, or shorter than their headers say (libsndfile takes those as they are)."""
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
                is_whole = True  # FLAC and MP3 say how many samples to expect, or cannot be told
    except FileNotFoundError:
        raise AudioError(f"{path} does not exist.", "missing") from None
    except OSError as error:
        raise AudioError(f"{str(path)!r:.200} cannot be read: {error.strerror}.", _unreadable(path, error)) from None
    if not is_whole:
        raise AudioError(f"{path} is cut off: it ends before the length that its header states.", "cut off")


def _unreadable(path: str | Path, error: OSError) -> str:
    """The reason of `REASONS` for a file that cannot be opened or read."""
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
    return True  # no data at all: libsndfile says what it is


def _ogg_is_whole(file: BinaryIO, size: int) -> bool:
    file.seek(max(0, size - OGG_PAGE_BYTES))
    tail = file.read()
    page = tail.rfind(b"OggS")
    if page < 0 or page + 27 > len(tail):
        return False
    segments = tail[page + 27 : page + 27 + tail[page + 26]]
    ends = page + 27 + tail[page + 26] + sum(segments)
    return bool(tail[page + 5] & OGG_LAST_PAGE) and ends <= len(tail)


def resample(samples: np.ndarray, from_rate: int, to_rate: int) -> np.ndarray:
    """Samples at another rate (Hz), band-limited by soxr's high-quality filter."""
    if from_rate == to_rate:
        return samples
    return soxr.resample(samples, from_rate, to_rate, quality="HQ").astype(np.float32, copy=False)


def load_clip(path: str | Path, config: DataConfig, sample_rate: int) -> np.ndarray:
    """The clip as it is learnt from, at `sample_rate` Hz; lengths are judged after silence was cut."""
    samples, file_rate = read_audio(path, UNREAD_FACTOR * config.max_seconds)
    peak = float(max(samples.max(), -samples.min()))
    if peak < SILENT_PEAK:
        raise AudioError(f"{path} is silent: its loudest sample is {peak:.1g} of full scale.", "silent")
    samples = resample(samples, file_rate, sample_rate)
    if config.trim_silence_db is not None:
        samples = trim_silence(samples, sample_rate, config.trim_silence_db)
    if config.loudness_db is not None:
        samples = level_loudness(samples, sample_rate, config.loudness_db)
    seconds = len(samples) / sample_rate
    if seconds > config.max_seconds:
        raise AudioError(f"{path} is {seconds:.1f} s long; data.max_seconds is {config.max_seconds:g}.", "too long")
    if seconds < config.min_seconds:
        raise AudioError(
            f"{path} is only {seconds:.2f} s long; data.min_seconds is {config.min_seconds:g}.", "too short"
        )
    return np.ascontiguousarray(samples)


def trim_silence(samples: np.ndarray, sample_rate: int, db: float) -> np.ndarray:
    """The part from the first to the last block that is at most `db` below the loudest block, with a margin of 30 ms."""
    block, energies = _block_energies(samples, sample_rate)
    loud = np.flatnonzero(energies > energies.max() * 10 ** (-db / 10))
    if len(loud) == 0:
        return samples
    margin = int(MARGIN_SECONDS * sample_rate)
    return samples[max(0, loud[0] * block - margin) : (loud[-1] + 1) * block + margin]


def level_loudness(samples: np.ndarray, sample_rate: int, db: float) -> np.ndarray:
    """Samples scaled so that the RMS of the spoken blocks is `db` (of full scale), or as near as the peak allows."""
    _, energies = _block_energies(samples, sample_rate)
    spoken = energies[energies >= energies.max() * 10 ** (-SPOKEN_DB / 10)]
    level = float(np.sqrt(spoken.mean()))
    if level == 0.0:
        return samples
    peak = float(np.abs(samples).max())
    gain = min(10 ** (db / 20) / level, HIGHEST_PEAK / peak)
    return samples * np.float32(gain)


def _block_energies(samples: np.ndarray, sample_rate: int) -> tuple[int, np.ndarray]:
    """Samples of a block, and the mean square of each block; the last one may be short."""
    block = max(1, min(len(samples), round(BLOCK_SECONDS * sample_rate)))
    whole = len(samples) // block * block
    blocks = samples[:whole].reshape(-1, block)
    energies = np.einsum("ij,ij->i", blocks, blocks) / block
    if whole < len(samples):
        rest = samples[whole:]
        energies = np.append(energies, np.dot(rest, rest) / len(rest))
    return block, energies


def check_rate(format: str, sample_rate: int) -> None:
    """Raise an `AudioError` if a format has no such sample rate."""
    if format == "mp3" and sample_rate not in MP3_RATES:
        expected = f"MP3 has {', '.join(map(str, MP3_RATES))}; or write wav, flac or ogg."
    elif format == "ogg" and sample_rate > OGG_HIGHEST_RATE:
        expected = f"Ogg has up to {OGG_HIGHEST_RATE} Hz; or write wav or flac."
    elif format == "flac" and sample_rate > FLAC_HIGHEST_ODD_RATE and sample_rate % 10:
        expected = "FLAC has only tens of Hz there; or write wav."
    else:
        return
    raise AudioError(f"{format} has no sample rate of {sample_rate} Hz. {expected}", "not audio")


def path_beside(path: str | Path) -> Path:
    """Where a file is written before it is renamed to `path`; short, because `path` may be as long as a name can be."""
    path = Path(path)
    name_sum = zlib.crc32(path.name.encode("utf-8", "surrogatepass"))
    return path.with_name(f".{name_sum:08x}.{os.getpid()}.part")


def discard(path: Path) -> None:
    """Remove a file that was written beside its place, if it is still there."""
    with suppress(OSError):  # the reason is told by whoever could not write it
        path.unlink()


def write_audio(
    target: str | Path | BinaryIO,
    samples: np.ndarray,
    sample_rate: int,
    format: str | None = None,
    quality: float | None = None,
) -> None:
    """Write float samples (samples,) in -1…1; louder ones are clipped.

    `format` is one of `FORMATS`; by default the file's extension. `quality` (0…1, ogg and mp3) is the encoder's own if None.
    """
    is_path = isinstance(target, str | os.PathLike)
    name = format or (Path(target).suffix[1:].lower() if is_path else "")
    if name not in FORMATS:
        raise AudioError(
            f"Unknown audio format. Received: {name!r}. Expected one of: {', '.join(FORMATS)}.", "not audio"
        )
    check_rate(name, sample_rate)
    samples = np.asarray(samples, np.float32)
    if not np.isfinite(samples).all():
        raise AudioError("Samples to be written are not finite numbers (NaN or infinity).", "not finite")
    encoded = _encode(samples, sample_rate, name, quality)
    if not is_path:
        target.write(encoded)
        return
    beside = path_beside(target)
    try:
        beside.write_bytes(encoded)
        os.replace(beside, target)
    except OSError as error:
        raise AudioError(f"{target} cannot be written: {error.strerror}.", "missing") from None
    finally:
        discard(beside)


def _encode(samples: np.ndarray, sample_rate: int, name: str, quality: float | None) -> bytes:
    """The whole file in memory: headers are completed at the end, and a socket or pipe cannot seek back to them."""
    if name == "raw":
        return (np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes()
    container, coding = FORMATS[name]
    stream = io.BytesIO()
    compression = None if quality is None else 1.0 - quality
    with soundfile.SoundFile(
        stream, "w", sample_rate, 1, coding, format=container, compression_level=compression
    ) as sound:
        for start in range(0, len(samples), WRITE_SAMPLES):
            sound.write(np.clip(samples[start : start + WRITE_SAMPLES], -1, 1))
    return stream.getvalue()
