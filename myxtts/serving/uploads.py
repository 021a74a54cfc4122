"""Uploaded recordings to samples, decoded in a child process with little memory and time.

    python -m myxtts.serving.uploads SECONDS < RECORDING > RECORDING.wav

A compressed file of a few megabytes can hold hours of silence, and decoders have bugs: the child may use a limited amount of
memory and processor time, decodes only the beginning, and reads nothing but the file. Nothing is written to the disk, so nothing
is left there if the server is killed. libsndfile reads wav, flac, mp3 and ogg; FFmpeg (PyAV, the extra `aac`) the rest.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
import soundfile

from myxtts.audio.files import UNKNOWN_FRAMES, read_stream, resample, samples_to_pcm
from myxtts.errors import AudioError, install_line
from myxtts.runtime.console import printable
from myxtts.runtime.worker_process import child_environment, module_command
from myxtts.serving.encoders import wav_header

if TYPE_CHECKING:
    from fastapi import UploadFile

CHILD_MEMORY_BYTES = 1 << 30
"""Address space: the libraries alone take 400 MB of it."""
CHILD_SECONDS = 20
LOWEST_RATE, KEPT_RATE, HIGHEST_RATE = 4000, 48_000, 192_000
"""Hz of a recording. More than `KEPT_RATE` says nothing about a voice and is resampled."""
LIBSNDFILE_CONTAINERS = frozenset(("WAV", "WAVEX", "RF64", "W64", "AIFF", "CAF", "AU", "FLAC", "OGG", "MP3"))
FFMPEG_CONTAINERS = "aac,matroska,webm,mov,mp4,m4a"
"""None that names other files, as playlists do."""
FFMPEG_CODECS = "aac,alac,mp3,mp3float,flac,vorbis,opus,libopus,pcm_s16le,pcm_s24le,pcm_f32le"
EXIT_REFUSED = 2
READABLE_FORMATS = "wav, flac, mp3 or ogg"


class DecodedAudio(NamedTuple):
    """float32 samples (samples,) of one channel, and their rate in Hz."""

    samples: np.ndarray
    sample_rate: int


async def decode_upload(upload: UploadFile, seconds: float) -> DecodedAudio:
    """The beginning of an uploaded recording, at most `seconds`."""
    await asyncio.to_thread(_roll_over, upload)
    process = await asyncio.create_subprocess_exec(
        *module_command("myxtts.serving.uploads", str(seconds)),
        stdin=upload.file.fileno(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=child_environment(),
    )
    try:
        async with asyncio.timeout(2 * CHILD_SECONDS):  # processor time is limited by the child itself
            content, said = await process.communicate()
    except TimeoutError:
        raise AudioError("The recording takes too long to decode. Upload a shorter one.", "too long") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == EXIT_REFUSED:
        raise AudioError(printable(said.decode("utf-8", "replace").strip()[:300], keeps_lines=False), "not audio")
    header = wav_header(1, 0)
    if process.returncode or len(content) < len(header):
        raise AudioError(f"The recording cannot be decoded. Expected {READABLE_FORMATS}.", "not audio")
    samples = np.frombuffer(content, "<i2", offset=len(header)) * np.float32(1 / 32768)
    return DecodedAudio(samples, int.from_bytes(content[24:28], "little"))


def _roll_over(upload: UploadFile) -> None:
    """Move a small upload, which is in memory, to a file without a name: a child process reads from a descriptor."""
    rollover = getattr(upload.file, "rollover", None)
    if rollover is not None:
        rollover()
    upload.file.seek(0)


def decode(recording: BinaryIO, seconds: float) -> DecodedAudio:
    """The beginning of a recording, in this process."""
    try:
        with soundfile.SoundFile(recording) as sound:
            if sound.format not in LIBSNDFILE_CONTAINERS:
                raise AudioError(f"The recording cannot be decoded. Expected {READABLE_FORMATS}.", "not audio")
            audio = _read_sound(sound, seconds)
    except soundfile.LibsndfileError:
        if importlib.util.find_spec("av") is None:
            raise AudioError(
                f"The recording cannot be decoded. Expected {READABLE_FORMATS}; for webm and m4a the server needs PyAV: "
                f"{install_line('aac')}.",
                "not audio",
            ) from None
        recording.seek(0)
        audio = _decode_with_ffmpeg(recording, seconds)
    samples = np.nan_to_num(audio.samples, posinf=1.0, neginf=-1.0)
    rate = min(audio.sample_rate, KEPT_RATE)
    return DecodedAudio(resample(samples, audio.sample_rate, rate), rate)


def _read_sound(sound: soundfile.SoundFile, seconds: float) -> DecodedAudio:
    _check_rate(sound.samplerate)
    wanted = round(seconds * sound.samplerate)
    if sound.frames < UNKNOWN_FRAMES:  # at once: soundfile seeks after each part, and a seek in MP3 is not exact
        return DecodedAudio(
            sound.read(min(wanted, sound.frames), "float32", always_2d=True).mean(axis=1), sound.samplerate
        )
    return DecodedAudio(read_stream(sound, wanted), sound.samplerate)


def _decode_with_ffmpeg(recording: BinaryIO, seconds: float) -> DecodedAudio:
    import av
    from av.audio.stream import AudioStream
    from av.error import FFmpegError

    options = {
        "format_whitelist": FFMPEG_CONTAINERS,
        "codec_whitelist": FFMPEG_CODECS,
        "protocol_whitelist": "pipe",
    }
    parts: list[np.ndarray] = []
    rate = 0
    try:
        with av.open(recording, "r", options=options) as container:
            stream = next((each for each in container.streams if isinstance(each, AudioStream)), None)
            if stream is None:
                raise AudioError("The file has no sound track. Upload a recording.", "not audio")
            rate = stream.rate or 0
            _check_rate(rate)
            resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
            missing = round(seconds * rate)
            for frame in container.decode(stream):
                for converted in resampler.resample(frame):
                    parts.append(converted.to_ndarray()[0, :missing])
                    missing -= len(parts[-1])
                if missing <= 0:
                    break
    except FFmpegError:
        if not parts:
            raise AudioError(
                "The recording cannot be decoded. Expected wav, flac, mp3, ogg, webm or m4a.", "not audio"
            ) from None
    return DecodedAudio(np.concatenate(parts) if parts else np.zeros(0, np.float32), rate)


def _check_rate(sample_rate: int) -> None:
    if not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
        raise AudioError(
            f"The recording has a sample rate of {sample_rate} Hz. Expected {LOWEST_RATE} to {HIGHEST_RATE} Hz.",
            "not audio",
        )


def _limit_this_process() -> None:
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no limits
        return
    for kind, most in (
        (resource.RLIMIT_AS, CHILD_MEMORY_BYTES),
        (resource.RLIMIT_CPU, CHILD_SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):  # macOS does not limit the address space
            continue


def main() -> int:
    """Decode standard input to standard output; what is wrong is one line on standard error."""
    _limit_this_process()
    try:
        audio = decode(sys.stdin.buffer, float(sys.argv[1]))
        content = samples_to_pcm(audio.samples)
        sys.stdout.buffer.write(wav_header(audio.sample_rate, len(content)) + content)
        sys.stdout.buffer.flush()
    except AudioError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    except (MemoryError, ValueError, OSError, RuntimeError) as error:
        sys.stderr.write(f"The recording cannot be decoded ({type(error).__name__}). Expected {READABLE_FORMATS}.\n")
        return EXIT_REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
