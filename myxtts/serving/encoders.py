"""Samples to bytes in the formats of OpenAI's interface, chunk by chunk: mp3, opus, aac, flac, wav and pcm.

Compressed formats are made by FFmpeg's libraries (PyAV), wav and pcm by NumPy. An answer begins before its end is known, so a
wav header states no length. MP3 has a constant bit rate and neither a Xing header nor tags: answers can be concatenated.
"""

from __future__ import annotations

import io
import struct
from typing import NamedTuple, cast

import av
import numpy as np
from av.audio.stream import AudioStream

from myxtts.audio.files import resample
from myxtts.errors import AudioError

PCM_RATE = 24_000
"""Hz of raw samples at OpenAI; clients assume it."""
UNKNOWN_LENGTH = 0xFFFFFFFF
MPEG_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
LOWEST_RATE, HIGHEST_RATE = 8000, 48_000


class AudioFormat(NamedTuple):
    """One of OpenAI's formats."""

    content_type: str
    container: str | None
    """FFmpeg's muxer; None: no library is needed."""
    codec: str
    bit_rate: int | None
    rates: tuple[int, ...] | None
    """Sample rates in Hz that it has; None: any."""


FORMATS = {
    "mp3": AudioFormat("audio/mpeg", "mp3", "libmp3lame", 64_000, MPEG_RATES),
    "opus": AudioFormat("audio/ogg", "ogg", "libopus", 32_000, OPUS_RATES),
    "aac": AudioFormat("audio/aac", "adts", "aac", 64_000, MPEG_RATES),
    "flac": AudioFormat("audio/flac", "flac", "flac", None, None),
    "wav": AudioFormat("audio/wav", None, "", None, None),
    "pcm": AudioFormat("audio/pcm", None, "", None, None),
}
MUXER_OPTIONS = {
    "mp3": {"write_xing": "0", "id3v2_version": "0"},
    # A page per packet would cost 27 bytes each; a page of 200 ms is soon enough for a stream.
    "ogg": {"page_duration": "200000"},
}


def output_rate(format: str, voice_rate: int, sample_rate: int | None) -> int:
    """The rate of an answer in Hz: the one asked for, or the voice's own or next higher one that the format has."""
    rates = FORMATS[format].rates
    if sample_rate is None:
        if format == "pcm":
            return PCM_RATE
        if rates is None or voice_rate in rates:
            return voice_rate
        return min((rate for rate in rates if rate > voice_rate), default=max(rates))
    if rates is not None and sample_rate not in rates:
        expected = ", ".join(map(str, rates))
        raise AudioError(f"{format} has no sample rate of {sample_rate} Hz. It has: {expected}.", "not audio")
    if not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
        raise AudioError(
            f"The sample rate must lie between {LOWEST_RATE} and {HIGHEST_RATE} Hz. Received: {sample_rate}.",
            "not audio",
        )
    return sample_rate


def samples_to_pcm(samples: np.ndarray) -> bytes:
    """Float samples in -1…1 as 16-bit little-endian bytes; louder ones are clipped."""
    return (np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes()


def wav_header(sample_rate: int, num_bytes: int | None = None) -> bytes:
    """The 44 bytes before 16-bit mono samples; None: their length is not known yet."""
    data = UNKNOWN_LENGTH if num_bytes is None else num_bytes
    riff = UNKNOWN_LENGTH if num_bytes is None else num_bytes + 36
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + form + struct.pack("<4sI", b"data", data)


class Encoder:
    """Takes chunks of samples at `voice_rate` and returns bytes as soon as there are some."""

    def __init__(self, format: str, voice_rate: int, sample_rate: int | None = None):
        self.format = format
        self.sample_rate = output_rate(format, voice_rate, sample_rate)
        self._voice_rate = voice_rate
        self._is_started = False
        self._compressor: _Compressor | None = None

    def add(self, samples: np.ndarray) -> bytes:
        """Encode more samples (samples,)."""
        samples = resample(samples, self._voice_rate, self.sample_rate)
        start, self._is_started = not self._is_started, True
        if FORMATS[self.format].container is None:
            header = wav_header(self.sample_rate) if start and self.format == "wav" else b""
            return header + samples_to_pcm(samples)
        if self._compressor is None:
            self._compressor = _Compressor(FORMATS[self.format], self.sample_rate)
        return self._compressor.add(samples)

    def finish(self) -> bytes:
        """The last bytes."""
        return b"" if self._compressor is None else self._compressor.finish()


class _Compressor:
    """An encoder and muxer of FFmpeg that write into memory."""

    def __init__(self, format: AudioFormat, sample_rate: int):
        self._sink = _Sink()
        self._container = av.open(
            self._sink, "w", format=format.container, options=MUXER_OPTIONS.get(format.container or "", {})
        )
        self._stream = cast(AudioStream, self._container.add_stream(format.codec, rate=sample_rate, layout="mono"))
        if format.bit_rate is not None:
            self._stream.bit_rate = format.bit_rate
        self._sample_rate = sample_rate
        self._position = 0

    def add(self, samples: np.ndarray) -> bytes:
        frame = av.AudioFrame.from_ndarray(_integers(samples), format="s16", layout="mono")
        frame.sample_rate = self._sample_rate
        frame.pts = self._position
        self._position += len(samples)
        self._container.mux(self._stream.encode(frame))
        return self._sink.take()

    def finish(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.take()


def _integers(samples: np.ndarray) -> np.ndarray:
    return np.frombuffer(samples_to_pcm(samples), "<i2")[np.newaxis]


class _Sink(io.RawIOBase):
    """What a muxer writes, until it is taken. It cannot seek, so no header is rewritten."""

    def __init__(self):
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, data, /) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        content, self._parts = b"".join(self._parts), []
        return content
