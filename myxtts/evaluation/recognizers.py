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
import json
import os
import queue
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Protocol, cast

import numpy as np

import myxtts
from myxtts.audio.files import resample, write_audio
from myxtts.errors import EvaluationError
from myxtts.evaluation.packages import INSTALL_LINE, is_installed
from myxtts.runtime.machine import usable_cores

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
            f"The recognizer {name} knows only: {', '.join(sorted(recognizer.languages or ()))}. Received sentences in: "
            f"{', '.join(foreign)}. {OTHER_LANGUAGES}"
        )
    return recognizer


def _default_name(languages: Sequence[str]) -> str:
    foreign = [language for language in languages if language not in ENGLISH]
    if foreign:
        raise EvaluationError(f"There is no default recognizer for: {', '.join(foreign)}. {OTHER_LANGUAGES}")
    return "moonshine" if is_installed("moonshine_voice") or not is_installed("pocketsphinx") else "pocketsphinx"


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
    if not is_installed(package.replace("-", "_")):
        raise EvaluationError(
            f"The recognizer {recognizer} is not installed. Expected: the package {package}. Run {install_line}, choose another "
            f"one with --recognizer ({EXPECTED}), or leave out the metrics cer and wer."
        )


class WorkerRecognizer:
    """A recognizer of `myxtts.evaluation.recognizer_worker`, in worker processes that live as long as one call."""

    def __init__(self, engine: str, name: str, languages: frozenset[str] | None, model: str = "", processes: int = 1):
        self.name, self.languages = name, languages
        self._engine, self._model = engine, model
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
        workers: queue.SimpleQueue[_WorkerProcess] = queue.SimpleQueue()
        processes = min(self.processes, len(clips))

        def transcribe(paths: Sequence[Path], languages: Sequence[str]) -> list[str]:
            worker = workers.get()
            try:
                return [worker.ask(path, language) for path, language in zip(paths, languages, strict=True)]
            finally:
                workers.put(worker)

        with contextlib.ExitStack() as stack:
            for _ in range(processes):
                workers.put(stack.enter_context(_WorkerProcess(self._engine, self._model)))
            return _transcribe_all(transcribe, clips, sample_rate, languages, processes, 1, progress)


class _WorkerProcess:
    """One worker process; it is started on entering and ended on leaving a `with` block."""

    def __init__(self, engine: str, model: str):
        self._words = [sys.executable, "-m", WORKER_MODULE, engine, model]

    def __enter__(self) -> _WorkerProcess:
        package_root = str(Path(myxtts.__file__).resolve().parent.parent)
        search_path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
        self._process: subprocess.Popen[str] = subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": search_path},
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()

    def ask(self, path: Path, language: str) -> str:
        """The text of one file."""
        requests, answers = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        try:
            requests.write(json.dumps([str(path), language]) + "\n")
            requests.flush()
            answer = answers.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise EvaluationError(f"The recognizer exited with code {self._process.wait()}; see its output above.")
        return json.loads(answer)


class CommandRecognizer:
    """A user's command, started without a shell, that prints what it recognizes in 16 kHz wav files.

    `{wav}` in the command becomes the path of one file, and everything that it prints is the text. `{wavs}`, as a word of its
    own, becomes many paths, and the command prints one line per file. Without either, one path is added at the end.
    """

    languages: frozenset[str] | None = None

    def __init__(self, command: str, workers: int = 1):
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
        self._workers = workers
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
        return _transcribe_all(self._run, clips, sample_rate, languages, self._workers, size, progress)

    def _run(self, paths: Sequence[Path], languages: Sequence[str]) -> list[str]:
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


def _transcribe_all(
    transcribe: Callable[[Sequence[Path], Sequence[str]], list[str]],
    clips: Sequence[np.ndarray],
    sample_rate: int,
    languages: Sequence[str],
    workers: int,
    clips_per_call: int,
    progress: Callable[[int], None] | None,
) -> list[str]:
    """Write the clips as temporary wav files, a few at a time, and call `transcribe` on them in threads."""
    lock = threading.Lock()
    done = 0

    def run(chosen: range) -> list[str]:
        nonlocal done
        paths = [folder / f"{index:06d}.wav" for index in chosen]
        for index, path in zip(chosen, paths, strict=True):
            samples = resample(np.asarray(clips[index], np.float32), sample_rate, RECOGNIZER_RATE)
            write_audio(path, samples, RECOGNIZER_RATE)
        texts = transcribe(paths, [_base_language(languages[index]) for index in chosen])
        for path in paths:
            path.unlink()
        with lock:
            done += len(paths)
            if progress is not None:
                progress(done)
        return texts

    parts = [range(start, min(start + clips_per_call, len(clips))) for start in range(0, len(clips), clips_per_call)]
    with (
        tempfile.TemporaryDirectory(prefix="myxtts-clips-") as name,
        ThreadPoolExecutor(max(1, min(workers, len(parts)))) as pool,
    ):
        folder = Path(name)
        return [text for texts in pool.map(run, parts) for text in texts]


def _base_language(language: str) -> str:
    """`en` of `en-us`."""
    return language.split("-")[0]
