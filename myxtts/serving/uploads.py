"""Uploaded recordings to wav files, decoded in a child process with little memory and time.

    python -m myxtts.serving.uploads TARGET.wav SECONDS < RECORDING

A compressed file of a few megabytes can hold hours of silence, and decoders have bugs: the child may use a limited amount of
memory and processor time, decodes only the beginning, and reads nothing but the file. Containers that name other files
(playlists) are refused.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import BinaryIO, cast

import av
import numpy as np
from av.audio.stream import AudioStream
from av.error import FFmpegError

from myxtts.errors import AudioError
from myxtts.runtime.atomic import write_atomically
from myxtts.runtime.console import printable
from myxtts.runtime.worker_process import child_environment, module_command
from myxtts.serving.encoders import samples_to_pcm, wav_header

CHILD_MEMORY_BYTES = 1 << 30
"""Address space: the libraries alone take 400 MB of it."""
CHILD_SECONDS = 20
HIGHEST_RATE = 48_000
LOWEST_RATE = 4000
CONTAINERS = "wav,w64,aiff,caf,mp3,flac,ogg,aac,matroska,webm,mov,mp4,m4a"
CODECS = (
    "mp3,mp3float,flac,vorbis,opus,libopus,aac,alac,pcm_u8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,"
    "pcm_f32be,pcm_f64le,pcm_alaw,pcm_mulaw"
)
EXIT_REFUSED = 2
READABLE = "a wav, flac, mp3, ogg, webm or m4a recording"


async def decode_upload(recording: BinaryIO, target: Path, seconds: float) -> None:
    """Write the beginning of a recording as a 16-bit mono wav file.

    Args:
        recording: a file with a descriptor, at its start.
        target: the wav file.
        seconds: only so much is decoded.
    """
    process = await asyncio.create_subprocess_exec(
        *module_command("myxtts.serving.uploads", str(target), str(seconds)),
        stdin=recording.fileno(),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=child_environment(),
    )
    try:
        async with asyncio.timeout(2 * CHILD_SECONDS):  # processor time is limited by the child itself
            _, said = await process.communicate()
    except TimeoutError:
        raise AudioError("The recording takes too long to decode. Upload a shorter one.", "too long") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == EXIT_REFUSED:
        raise AudioError(printable(said.decode("utf-8", "replace").strip()[:300], keeps_lines=False), "not audio")
    if process.returncode:
        raise AudioError(f"The recording cannot be decoded. Expected {READABLE}.", "not audio")


def decode(recording: BinaryIO, seconds: float) -> tuple[np.ndarray, int]:
    """The beginning of a recording: float32 samples (samples,) of one channel, and their rate in Hz."""
    options = {"format_whitelist": CONTAINERS, "codec_whitelist": CODECS, "protocol_whitelist": "pipe"}
    with av.open(recording, "r", options=options) as container:
        stream = next((each for each in container.streams if isinstance(each, AudioStream)), None)
        if stream is None:
            raise AudioError("The file has no audio.", "not audio")
        rate = min(stream.rate or 0, HIGHEST_RATE)
        if rate < LOWEST_RATE:
            raise AudioError(
                f"The recording has a sample rate of {stream.rate} Hz; at least {LOWEST_RATE}.", "not audio"
            )
        resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
        parts, missing = [], round(seconds * rate)
        try:
            for frame in container.decode(stream):
                for converted in resampler.resample(frame):
                    parts.append(converted.to_ndarray()[0, :missing])
                    missing -= len(parts[-1])
                if missing <= 0:
                    break
        except FFmpegError:
            if not parts:  # a recording that breaks off is used up to there
                raise
    samples = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    return np.nan_to_num(samples, posinf=1.0, neginf=-1.0), rate


def _limit_this_process() -> None:
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no limits
        return
    for kind, most in (
        (resource.RLIMIT_AS, CHILD_MEMORY_BYTES),
        (resource.RLIMIT_CPU, CHILD_SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):  # macOS does not limit the address space
            continue


def main() -> int:
    """Decode standard input to the file that the first argument names; what is wrong is one line on standard error."""
    _limit_this_process()
    try:
        samples, rate = decode(cast(BinaryIO, sys.stdin.buffer), float(sys.argv[2]))
        content = samples_to_pcm(samples)
        write_atomically(sys.argv[1], wav_header(rate, len(content)) + content, is_durable=False)
    except AudioError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    except (FFmpegError, MemoryError, ValueError, OSError) as error:
        sys.stderr.write(f"The recording cannot be decoded ({type(error).__name__}). Expected {READABLE}.\n")
        return EXIT_REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
