"""Where speech goes: chunks of samples become a file, a stream of bytes, or sound from a player, in bounded memory.

A file is written under a temporary name and renamed when it is complete; after an error nothing half-written is left.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

import numpy as np
import soundfile

import myxtts
from myxtts.audio.files import FORMATS, WRITE_SAMPLES, check_rate, samples_to_pcm
from myxtts.errors import AudioError
from myxtts.runtime.console import printable, signals_deferred
from myxtts.runtime.safe_files import temporary_path

LOWEST_RATE, HIGHEST_RATE = 4000, 192_000
"""Hz of the output."""
LONGEST_TAG = 200
"""Characters of a voice's name in a tag."""
FILE_VARIABLE = "MYXTTS_WAV"
"""Environment variable that hands the path to PowerShell, which would otherwise parse it as code."""
PLAYERS: Mapping[str, tuple[str, ...]] = {
    "paplay": ("{wav}",),
    "aplay": ("-q", "{wav}"),
    "ffplay": ("-nodisp", "-autoexit", "-loglevel", "error", "{wav}"),
    "afplay": ("{wav}",),
    "powershell": (
        "-NoProfile",
        "-Command",
        f"(New-Object System.Media.SoundPlayer $env:{FILE_VARIABLE}).PlaySync()",
    ),
}
"""Programs that play a wav file, and their arguments, the preferred first: PulseAudio and PipeWire, ALSA, FFmpeg, macOS, Windows.

Nothing is linked, so speaking needs no audio library."""


def find_player() -> str:
    """The name of the first player that is installed; an `AudioError` if there is none."""
    for name in PLAYERS:
        if shutil.which(name) is not None:
            return name
    raise AudioError(
        f"No audio player is installed. Expected one of: {', '.join(PLAYERS)}. Install one (Debian, Ubuntu: "
        "`apt install alsa-utils`), or leave out --play and name a file: -o FILE.",
        "missing",
    )


def play(path: str | Path, player: str) -> None:
    """Play a wav file to its end; an `AudioError` with the player's own message if it fails."""
    path = os.path.abspath(path)
    words = [player, *(word.format(wav=path) for word in PLAYERS[player])]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, FILE_VARIABLE: path},
            check=False,
        )
    except OSError as error:
        raise AudioError(
            f"The player {player} cannot be started: {error.strerror}. Write a file instead: -o FILE.", "missing"
        ) from None
    if done.returncode:
        said = printable(" ".join(done.stderr.decode("utf-8", "replace").split()), keeps_lines=False)
        raise AudioError(
            f"The player {player} failed with exit code {done.returncode}: {said[:200] or 'no message'}. Write a file instead: "
            "-o FILE.",
            "missing",
        )


def resolve_format(path: str | Path | None, format: str | None) -> str:
    """The format that was asked for, otherwise the one of the file's name."""
    name = format or (Path(path).suffix[1:].lower() if path is not None else "wav")
    if name not in FORMATS:
        received = f"{name!r}" if name else f"a file name without an extension ({Path(path or '').name!r})"
        raise AudioError(
            f"Unknown audio format. Received: {received}. Expected one of: {', '.join(FORMATS)}; "
            "use such a file name, or give --format.",
            "not audio",
        )
    return name


def check_output_rate(sample_rate: int) -> None:
    """Raise an `AudioError` for a rate (Hz) that is no rate of audio."""
    if not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
        raise AudioError(
            f"The sample rate must lie between {LOWEST_RATE} and {HIGHEST_RATE} Hz. Received: {sample_rate}.",
            "not audio",
        )


def check_output(path: str | Path, format: str | None) -> str:
    """The format of a file that is to be written; an `AudioError` if there is no place for it."""
    name = resolve_format(path, format)
    check_place(path)
    return name


def check_places(paths: Iterable[str | Path | None]) -> None:
    """Raise an `AudioError` if one of the files that a command will write cannot be, or two are the same; None: not wanted."""
    named: set[str] = set()
    for path in paths:
        if path is None:
            continue
        check_place(path)
        if os.path.realpath(path) in named:
            raise AudioError(f"{path} is named for two different files. Give each its own name.", "missing")
        named.add(os.path.realpath(path))


def check_place(path: str | Path) -> None:
    """Raise an `AudioError` if no file can be written at `path`."""
    path = Path(path)
    try:
        os.stat(path.parent)
        is_replaceable = stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_replaceable = True  # nothing is there yet
    except OSError as error:
        raise AudioError(
            f"{str(path)!r:.80} cannot be written: {error.strerror}. Name another file.", "missing"
        ) from None
    except ValueError:
        raise AudioError(
            f"{str(path)!r:.80} is not a valid file name: it contains a NUL character. Name another file.", "missing"
        ) from None
    if not path.parent.is_dir():
        raise AudioError(f"The folder {path.parent} does not exist. Create it first.", "missing")
    if not is_replaceable:
        raise AudioError(f"{path} is not a regular file, so it cannot be replaced. Name another file.", "missing")
    if not os.access(path.parent, os.W_OK):
        raise AudioError(f"The folder {path.parent} is not writable. Name another one.", "missing")


@contextmanager
def new_file(stem: str, format: str) -> Iterator[Path]:
    """Reserve `stem.format`, or the first of `stem-2.format`, … that does not exist; removed again if the block fails."""
    path = Path(f"{stem}.{format}")
    number = 1
    while True:
        try:
            path.open("xb").close()
            break
        except FileExistsError:
            number += 1
            path = Path(f"{stem}-{number}.{format}")
        except OSError as error:
            raise AudioError(
                f"{path.absolute()} cannot be written: {error.strerror}. Name another file: -o FILE.", "missing"
            ) from None
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def synthetic_tags(voice_name: str) -> dict[str, str]:
    """The tags of a file with synthetic speech, by the names that `soundfile` has for them."""
    name = printable(voice_name, keeps_lines=False)[:LONGEST_TAG]
    return {
        "artist": name,
        "comment": f"Synthetic speech by MyXTTS, voice {name}",
        "software": f"MyXTTS {myxtts.__version__}",
    }


class AudioFileWriter:
    """Takes chunks and leaves a whole file at `path`, or none: `with AudioFileWriter(path, 16000) as file: file.write(chunk)`.

    `tags` (`synthetic_tags`) are written where the format has them: INFO in wav, comments in flac and ogg, ID3 in mp3.
    """

    def __init__(
        self, path: str | Path, sample_rate: int, format: str | None = None, tags: Mapping[str, str] | None = None
    ):
        self.path = Path(path)
        self.sample_rate = sample_rate
        self.num_samples = 0
        name = check_output(path, format)
        check_rate(name, sample_rate)
        self._container, self._coding = FORMATS[name]
        # libsndfile writes the tags of mp3 as Latin-1 whatever they are, and raw samples have none.
        encoding = "ascii" if name == "mp3" else "utf-8"
        given = {} if tags is None or name == "raw" else tags
        self._tags = {tag: text.encode(encoding, "replace").decode(encoding) for tag, text in given.items()}
        self._temporary = temporary_path(self.path)

    def __enter__(self) -> AudioFileWriter:
        try:
            with signals_deferred():
                self._stream = _FileOfLibsndfile(open(self._temporary, "w+b"))
                self._sound = soundfile.SoundFile(
                    cast(BinaryIO, self._stream), "w", self.sample_rate, 1, self._coding, format=self._container
                )
                for tag, text in self._tags.items():
                    setattr(self._sound, tag, text)
        except OSError as error:
            raise self._failure(error) from None
        except BaseException:  # signals included: `__exit__` is not called if `__enter__` fails
            self._temporary.unlink(missing_ok=True)
            raise
        return self

    def write(self, samples: np.ndarray) -> None:
        """Append samples (samples,); louder ones than full scale are clipped."""
        with signals_deferred():
            for start in range(0, len(samples), WRITE_SAMPLES):
                self._sound.write(np.clip(samples[start : start + WRITE_SAMPLES], -1, 1))
            self._stream.flush()
        if self._stream.error is not None:
            raise self._failure(self._stream.error)
        self.num_samples += len(samples)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with signals_deferred():
            try:
                self._sound.close()
                self._stream.close()
                if kind is None and self._stream.error is not None:
                    raise self._failure(self._stream.error)
                if kind is None:
                    os.replace(self._temporary, self.path)
            except OSError as failure:
                raise self._failure(failure) from None
            finally:
                self._temporary.unlink(missing_ok=True)

    def _failure(self, error: OSError) -> AudioError:
        return AudioError(f"{self.path} cannot be written: {error.strerror}. Name another file.", "missing")


class _FileOfLibsndfile:
    """A file for libsndfile, whose callbacks cannot raise: the first error is kept, and everything after it dropped."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        self._try(lambda: self._file.write(data))
        return len(data)

    def flush(self) -> None:
        self._try(self._file.flush)

    def close(self) -> None:
        self._try(self._file.close)

    def read(self, count: int = -1) -> bytes:
        return self._file.read(count)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._try(lambda: self._file.seek(offset, whence))
        return self.tell()

    def tell(self) -> int:
        return self._file.tell()

    def _try(self, action) -> None:
        if self.error is None:
            try:
                action()
            except OSError as error:
                self.error = error


class RawWriter:
    """16-bit little-endian samples without a header, to a pipe, as soon as they come."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self.num_samples = 0

    def write(self, samples: np.ndarray) -> None:
        """Send samples on their way."""
        content = samples_to_pcm(samples)
        with _explained():
            self._stream.write(content)
            self._stream.flush()
        self.num_samples += len(samples)


@contextmanager
def open_output(
    path: str | Path | None,
    sample_rate: int,
    format: str | None,
    stream: BinaryIO,
    tags: Mapping[str, str] | None = None,
) -> Iterator[AudioFileWriter | RawWriter]:
    """A writer for `path`, or for `stream` if that is None: raw as it comes, other formats whole at the end."""
    name = resolve_format(path, format)
    if path is not None:
        with AudioFileWriter(path, sample_rate, name, tags) as writer:
            yield writer
    elif name == "raw":
        yield RawWriter(stream)
    else:
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder) / f"speech.{name}"
            with AudioFileWriter(whole, sample_rate, name, tags) as writer:
                yield writer
            with whole.open("rb") as file, _explained():
                shutil.copyfileobj(file, stream)
                stream.flush()


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of a stream as `AudioError`; a reader that left (BrokenPipeError) is for the command to take quietly."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise AudioError(f"Standard output cannot be written: {error.strerror}.", "missing") from None
