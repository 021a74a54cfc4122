"""Speech recognizers for measuring: clips in, the recognized texts out, in the same order.

`open_recognizer` takes a name as in `--recognizer`:

    moonshine       English; default if moonshine-voice is installed
    whisper:FOLDER  any language; a faster-whisper model folder
    pocketsphinx    English; default otherwise
    command:…       any command that takes wav files and prints texts

Every recognizer gets 16 kHz wav files, and no text depends on the order of the clips or on the number of worker processes.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from myxtts.audio.files import resample, write_audio
from myxtts.errors import EvaluationError
from myxtts.evaluation.metrics import INSTALL_LINE, has_package
from myxtts.runtime.machine import usable_cores
from myxtts.runtime.workers import WorkerPool

RECOGNIZER_RATE = 16000
"""Hz of the files that recognizers get."""
COMMAND_SECONDS = 300
"""Longest time that a command may take for one clip."""
CLIPS_PER_COMMAND = 32
"""Clips that a command with `{wavs}` gets at once: it loads its model once for all of them, and progress is still shown."""
WORKER_MODULE = "myxtts.evaluation.recognizer_worker"
WHISPER_FILES = ("model.bin", "config.json", "tokenizer.json")
WHISPER_INSTALL_LINE = "`pip install '.[whisper]'` in the project folder"
ENGLISH = frozenset({"en"})
EXPECTED = "moonshine, whisper:FOLDER, pocketsphinx, or command:COMMAND"
OTHER_LANGUAGES = (
    f"Try --recognizer whisper:FOLDER with a multilingual faster-whisper model ({WHISPER_INSTALL_LINE}), or leave out the "
    "metrics cer and wer."
)


class Recognizer(Protocol):
    """Turns clips into texts."""

    name: str
    """As reports show it."""
    languages: frozenset[str] | None
    """Codes of the languages that it recognizes; None: any."""

    def recognize(
        self,
        clips: Sequence[np.ndarray],
        sample_rate: int,
        languages: Sequence[str],
        progress: Callable[[int], None] | None = None,
    ) -> list[str]:
        """The text of each clip, float32 (samples,), in its language; `progress` gets the number of clips that are done."""
        ...


def open_recognizer(name: str | None, languages: Collection[str]) -> Recognizer:
    """The recognizer of a name as in `--recognizer`, or the default for these languages if None.

    Raises an `EvaluationError` if it is not installed, or does not know one of the languages: it would return wrong texts.
    """
    needed = sorted({_base_language(language) for language in languages})
    if name is None:
        name = _default_name(needed)
    kind, _, argument = name.partition(":")
    if name == "moonshine":
        recognizer = _moonshine()
    elif name == "pocketsphinx":
        recognizer = _pocketsphinx()
    elif kind == "whisper" and argument:
        recognizer = _whisper(Path(argument))
    elif kind == "command":
        recognizer = CommandRecognizer(argument)
    else:
        raise EvaluationError(f"Unknown recognizer. Received: {name!r}. Expected: {EXPECTED}.")
    foreign = [
        language for language in needed if recognizer.languages is not None and language not in recognizer.languages
    ]
    if foreign:
        raise EvaluationError(
            f"The recognizer {name} supports only: {', '.join(sorted(recognizer.languages or ()))}. Received sentences in: "
            f"{', '.join(foreign)}. {OTHER_LANGUAGES}"
        )
    return recognizer


def _default_name(languages: Sequence[str]) -> str:
    foreign = [language for language in languages if language not in ENGLISH]
    if foreign:
        raise EvaluationError(f"There is no default recognizer for: {', '.join(foreign)}. {OTHER_LANGUAGES}")
    return "moonshine" if has_package("moonshine_voice") or not has_package("pocketsphinx") else "pocketsphinx"


def _moonshine() -> WorkerRecognizer:
    _check_installed("moonshine", "moonshine-voice", INSTALL_LINE)
    return WorkerRecognizer("moonshine", "moonshine", ENGLISH)


def _pocketsphinx() -> WorkerRecognizer:
    _check_installed("pocketsphinx", "pocketsphinx", INSTALL_LINE)
    return WorkerRecognizer("pocketsphinx", "pocketsphinx", ENGLISH, processes=usable_cores())


def _whisper(folder: Path) -> WorkerRecognizer:
    missing = [name for name in WHISPER_FILES if not (folder / name).is_file()]
    if missing:
        raise EvaluationError(
            f"{folder} is not a faster-whisper model: {', '.join(missing)} missing. Expected a Whisper model in CTranslate2's "
            "format."
        )
    _check_installed("whisper", "faster-whisper", WHISPER_INSTALL_LINE)
    return WorkerRecognizer("whisper", f"whisper:{folder.resolve().name}", None, model=str(folder.resolve()))


def _check_installed(recognizer: str, package: str, install_line: str) -> None:
    if not has_package(package.replace("-", "_")):
        raise EvaluationError(
            f"The recognizer {recognizer} is not installed. Expected: the package {package}. Run {install_line}, choose another "
            f"one with --recognizer ({EXPECTED}), or leave out the metrics cer and wer."
        )


class WorkerRecognizer:
    """A recognizer of `myxtts.evaluation.recognizer_worker`, in worker processes that live as long as one call."""

    def __init__(self, engine: str, name: str, languages: frozenset[str] | None, model: str = "", processes: int = 1):
        self.name, self.languages = name, languages
        self._setup = {"engine": engine, "model": model}
        self.processes = processes
        """More than one only for engines that use one thread each."""

    def recognize(
        self,
        clips: Sequence[np.ndarray],
        sample_rate: int,
        languages: Sequence[str],
        progress: Callable[[int], None] | None = None,
    ) -> list[str]:
        """The text of each clip; see `Recognizer`."""
        texts = [""] * len(clips)
        with (
            _wav_files(clips, sample_rate) as paths,
            WorkerPool(self._setup, self.processes, module=WORKER_MODULE, crash_result={}) as pool,
        ):
            items = [[str(path), _base_language(language)] for path, language in zip(paths, languages, strict=True)]
            for done, (index, head, _) in enumerate(pool.run("transcribe", items, chunk=1), start=1):
                if "text" not in head:
                    raise EvaluationError(
                        f"The recognizer {self.name} ended with exit code {head['exit_code']}: {head['stderr']}"
                    )
                texts[index] = head["text"]
                if progress is not None:
                    progress(done)
        return texts


class CommandRecognizer:
    """A user's command, started without a shell, that prints what it recognizes in 16 kHz wav files.

    `{wav}` in the command becomes the path of one file, and everything that it prints is the text. `{wavs}`, as a word of its
    own, becomes many paths, and the command prints one line per file. Without either, one path is added at the end.
    """

    languages: frozenset[str] | None = None

    def __init__(self, command: str):
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise EvaluationError(f"The recognizer command cannot be parsed: {error}. Received: {command!r}.") from None
        if not self._words:
            raise EvaluationError(
                "The recognizer command is empty. Expected a command that takes a wav file and prints text."
            )
        self._takes_many = "{wavs}" in self._words
        if not self._takes_many and not any("{wav}" in word for word in self._words):
            self._words.append("{wav}")
        self.name = command

    def recognize(
        self,
        clips: Sequence[np.ndarray],
        sample_rate: int,
        languages: Sequence[str],
        progress: Callable[[int], None] | None = None,
    ) -> list[str]:
        """The text that the command prints for each clip; see `Recognizer`."""
        size = CLIPS_PER_COMMAND if self._takes_many else 1
        texts: list[str] = []
        with _wav_files(clips, sample_rate) as paths:
            for start in range(0, len(paths), size):
                texts += self._run(paths[start : start + size])
                if progress is not None:
                    progress(len(texts))
        return texts

    def _run(self, paths: Sequence[Path]) -> list[str]:
        words = []
        for word in self._words:
            words += map(str, paths) if word == "{wavs}" else [word.replace("{wav}", str(paths[0]))]
        seconds = COMMAND_SECONDS * len(paths)
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=True)
        except OSError as error:
            raise EvaluationError(f"The recognizer command cannot be started: {words[0]}: {error.strerror}.") from None
        except subprocess.TimeoutExpired:
            raise EvaluationError(f"The recognizer command timed out after {seconds} s ({len(paths)} clips).") from None
        except subprocess.CalledProcessError as error:
            raise EvaluationError(
                f"The recognizer command failed with exit code {error.returncode}: {error.stderr.strip()[-500:]}"
            ) from None
        if not self._takes_many:
            return [" ".join(done.stdout.split())]
        lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
        if len(lines) != len(paths):
            raise EvaluationError(
                f"The recognizer command printed {len(lines)} lines for {len(paths)} files. Expected one line per file of "
                "{wavs}, empty where nothing is recognized."
            )
        return lines


@contextlib.contextmanager
def _wav_files(clips: Sequence[np.ndarray], sample_rate: int) -> Iterator[list[Path]]:
    """Temporary files with the clips, as recognizers get them."""
    with tempfile.TemporaryDirectory(prefix="myxtts-clips-") as folder:
        paths = [Path(folder, f"{index:06d}.wav") for index in range(len(clips))]
        for path, clip in zip(paths, clips, strict=True):
            samples = resample(np.asarray(clip, np.float32), sample_rate, RECOGNIZER_RATE)
            write_audio(path, samples, RECOGNIZER_RATE)
        yield paths


def _base_language(language: str) -> str:
    """`en` of `en-us`."""
    return language.split("-")[0]
