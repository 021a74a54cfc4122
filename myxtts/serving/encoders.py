"""Samples to bytes in the formats of OpenAI's interface, chunk by chunk: mp3, opus, aac, flac, wav and pcm.

mp3, opus and flac are made by libsndfile, wav and pcm by NumPy, aac by FFmpeg (PyAV, the extra `aac`). An answer begins before
its end is known, so no header states a length. MP3 has a constant bit rate and neither a Xing header nor tags: answers can be
concatenated.
"""

from __future__ import annotations

import importlib.util
import os
import struct
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import numpy as np
import soundfile

from myxtts.audio.files import MP3_HEADER_BYTES, MP3_RATES, resample, samples_to_pcm
from myxtts.errors import AudioError

PCM_RATE = 24_000
"""Hz of raw samples at OpenAI; clients assume it."""
UNKNOWN_LENGTH = 0xFFFFFFFF
OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
LOWEST_RATE, HIGHEST_RATE = 8000, 48_000
MP3_KILOBITS, AAC_BITS, OPUS_BITS = 64, 64_000, 32_000
"""Bit rates: speech of one channel gains nothing above them."""
OPUS_BIT_RATES = (6000, 256_000)
"""Lowest and highest of libsndfile, per channel."""
OPUS_PAGE_MILLISECONDS = 200.0
"""libsndfile fills pages of a second, which a stream would wait for; a page per packet would cost 27 bytes for each 20 ms."""
SET_OGG_PAGE_LATENCY_MS = 0x1302
"""A command of libsndfile."""
MPEG_1_RATE = 32_000
"""Hz from which MP3 is MPEG-1, with frames of 1152 samples; below they have 576."""


class AudioFormat(NamedTuple):
    """One of OpenAI's formats."""

    content_type: str
    rates: tuple[int, ...] | None
    """Sample rates in Hz that it has; None: any."""


FORMATS = {
    "mp3": AudioFormat("audio/mpeg", MP3_RATES),
    "opus": AudioFormat("audio/ogg", OPUS_RATES),
    "aac": AudioFormat("audio/aac", MP3_RATES),
    "flac": AudioFormat("audio/flac", None),
    "wav": AudioFormat("audio/wav", None),
    "pcm": AudioFormat("audio/pcm", None),
}


def is_available(format: str) -> bool:
    """Whether the packages that a format needs are installed."""
    return format != "aac" or importlib.util.find_spec("av") is not None


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
        raise AudioError(
            f"{format} does not support a sample rate of {sample_rate} Hz. Expected: {expected}.", "not audio"
        )
    if not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
        raise AudioError(
            f"The sample rate must lie between {LOWEST_RATE} and {HIGHEST_RATE} Hz. Received: {sample_rate}.",
            "not audio",
        )
    return sample_rate


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
        self._stream: _EncodedStream | None = None

    def add(self, samples: np.ndarray) -> bytes:
        """Encode more samples (samples,)."""
        if self._stream is None:
            self._stream = _open_stream(self.format, self.sample_rate)
        return self._stream.add(resample(samples, self._voice_rate, self.sample_rate))

    def finish(self) -> bytes:
        """The last bytes."""
        return b"" if self._stream is None else self._stream.finish()


class _EncodedStream(Protocol):
    """An encoder of one format at one rate."""

    def add(self, samples: np.ndarray) -> bytes: ...

    def finish(self) -> bytes: ...


def _open_stream(format: str, sample_rate: int) -> _EncodedStream:
    if format in ("wav", "pcm"):
        return _SampleStream(wav_header(sample_rate) if format == "wav" else b"")
    return _AacStream(sample_rate) if format == "aac" else _LibsndfileStream(format, sample_rate)


class _SampleStream:
    """16-bit samples after a header."""

    def __init__(self, header: bytes):
        self._header = header

    def add(self, samples: np.ndarray) -> bytes:
        header, self._header = self._header, b""
        return header + samples_to_pcm(samples)

    def finish(self) -> bytes:
        return b""


class _LibsndfileStream:
    """mp3, opus and flac."""

    def __init__(self, format: str, sample_rate: int):
        self._sink = _Sink()
        self._sound = soundfile.SoundFile(
            cast(BinaryIO, self._sink), "w", sample_rate, 1, **_coding(format, sample_rate)
        )
        self._frame_bytes = (144 if sample_rate >= MPEG_1_RATE else 72) * 1000 * MP3_KILOBITS // sample_rate
        self._may_have_header = format == "mp3"
        if format == "opus":
            library, functions = soundfile._ffi, soundfile._snd  # soundfile has no method for commands
            latency = library.new("double *", OPUS_PAGE_MILLISECONDS)
            functions.sf_command(self._sound._file, SET_OGG_PAGE_LATENCY_MS, latency, 8)

    def add(self, samples: np.ndarray) -> bytes:
        self._sound.write(samples)
        return self._take()

    def finish(self) -> bytes:
        self._sound.close()
        return self._take()

    def _take(self) -> bytes:
        content = self._sink.take()
        if self._may_have_header and content:
            self._may_have_header = False
            if b"Info" in content[:MP3_HEADER_BYTES]:  # a first frame without sound, for the length of a file
                return content[self._frame_bytes :]
        return content


def _coding(format: str, sample_rate: int) -> dict[str, Any]:
    """The arguments of a `SoundFile`. libsndfile takes a bit rate as a number from 0 (the highest of the format) to 1."""
    if format == "flac":
        return {"format": "FLAC", "subtype": "PCM_16"}
    if format == "opus":
        lowest, highest = OPUS_BIT_RATES
        return {"format": "OGG", "subtype": "OPUS", "compression_level": (highest - OPUS_BITS) / (highest - lowest)}
    # Bit rates of MPEG-1, MPEG-2 and MPEG-2.5 audio, layer III.
    lowest, highest = (32, 320) if sample_rate >= MPEG_1_RATE else (8, 160) if sample_rate >= 16_000 else (8, 64)
    level = (highest - MP3_KILOBITS) / (highest - lowest)
    return {"format": "MP3", "subtype": "MPEG_LAYER_III", "compression_level": level, "bitrate_mode": "CONSTANT"}


class _AacStream:
    """AAC with ADTS headers, by FFmpeg."""

    def __init__(self, sample_rate: int):
        import av
        from av.audio.stream import AudioStream

        self._sink = _Sink()
        self._container = av.open(self._sink, "w", format="adts")
        self._stream = cast(AudioStream, self._container.add_stream("aac", rate=sample_rate, layout="mono"))
        self._stream.bit_rate = AAC_BITS
        self._sample_rate = sample_rate
        self._position = 0

    def add(self, samples: np.ndarray) -> bytes:
        import av

        if not len(samples):  # FFmpeg has no frames of nothing
            return b""
        integers = np.frombuffer(samples_to_pcm(samples), "<i2")[np.newaxis]
        frame = av.AudioFrame.from_ndarray(integers, format="s16", layout="mono")
        frame.sample_rate = self._sample_rate
        frame.pts = self._position
        self._position += len(samples)
        self._container.mux(self._stream.encode(frame))
        return self._sink.take()

    def finish(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.take()


class _Sink:
    """What an encoder writes, until it is taken. It is sent before the end is known, so corrections of the start are dropped."""

    def __init__(self):
        self._parts: list[bytes] = []
        self._position = self._end = 0

    def write(self, data: bytes) -> int:
        if self._position == self._end:
            self._parts.append(bytes(data))
            self._end += len(data)
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, count: int = -1) -> bytes:
        return b""

    def take(self) -> bytes:
        content, self._parts = b"".join(self._parts), []
        return content
