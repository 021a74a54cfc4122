"""Speech to text for measuring: clips in, what was heard out, in the same order.

`PocketsphinxRecogniser` is the default: its English model comes with its package. Each of its workers is a fresh Python
(`python -m myxtts.evaluation.recognizer_worker`) with one decoder that is used for many clips, because the decoder holds
Python's lock while it works. `CommandRecogniser` runs any command that takes the path of a wav file and prints a text.
Both are given 16 kHz wav files, and neither result depends on the order of the clips or on the number of workers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import myxtts
from myxtts.audio.files import resample, write_audio
from myxtts.errors import EvaluationError
from myxtts.evaluation import INSTALL_LINE
from myxtts.runtime.machine import usable_cores

RECOGNISER_RATE = 16000
"""Hz of the files that recognisers are given."""
COMMAND_SECONDS = 300
"""Longest time that a recogniser command may take for one clip."""
WORKER_MODULE = "myxtts.evaluation.recognizer_worker"


class Recogniser(Protocol):
    """Anything that hears."""

    name: str

    def recognise(
        self, clips: Sequence[np.ndarray], sample_rate: int, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """The text heard in each clip (float32 samples); `progress` is told how many clips are done."""
        ...


class PocketsphinxRecogniser:
    """CMU pocketsphinx with the US English model and the trigram language model of its package."""

    name = "pocketsphinx"

    def __init__(self, workers: int | None = None):
        if importlib.util.find_spec("pocketsphinx") is None:
            raise EvaluationError(
                "The default recogniser is not installed. Expected: the package pocketsphinx. "
                f"Run {INSTALL_LINE}, or use --recogniser-command, or leave out the metrics cer and wer."
            )
        self._workers = workers or usable_cores()

    def recognise(
        self, clips: Sequence[np.ndarray], sample_rate: int, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """The text heard in each clip; workers live as long as this call."""
        workers: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        with contextlib.ExitStack() as stack:
            for _ in range(min(self._workers, len(clips))):
                workers.put(stack.enter_context(_Worker()))

            def hear(path: Path) -> str:
                worker = workers.get()
                try:
                    return worker.hear(path)
                finally:
                    workers.put(worker)

            return _hear_all(hear, clips, sample_rate, self._workers, progress)


class CommandRecogniser:
    """A command of the user's: `{wav}` in it, or else its end, becomes the path of a 16 kHz wav file; it prints the text."""

    def __init__(self, command: str, workers: int = 1):
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise EvaluationError(f"The recogniser command cannot be read: {error}. Received: {command!r}.") from None
        if not self._words:
            raise EvaluationError(
                "The recogniser command is empty. Expected a command that takes a wav file and prints text."
            )
        if not any("{wav}" in word for word in self._words):
            self._words.append("{wav}")
        self._workers = workers
        self.name = command

    def recognise(
        self, clips: Sequence[np.ndarray], sample_rate: int, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """What the command prints for each clip."""
        return _hear_all(self._hear, clips, sample_rate, self._workers, progress)

    def _hear(self, path: Path) -> str:
        words = [word.replace("{wav}", str(path)) for word in self._words]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)
        except OSError as error:
            raise EvaluationError(f"The recogniser command cannot be started: {words[0]}: {error.strerror}.") from None
        except subprocess.TimeoutExpired:
            raise EvaluationError(f"The recogniser command took more than {COMMAND_SECONDS} s for one clip.") from None
        except subprocess.CalledProcessError as error:
            raise EvaluationError(
                f"The recogniser command ended with exit code {error.returncode}: {error.stderr.strip()[-500:]}"
            ) from None
        return " ".join(done.stdout.split())


class _Worker:
    """A process with one decoder, asked and answering in JSON lines; it ends when its input is closed."""

    def __enter__(self) -> _Worker:
        package_root = str(Path(myxtts.__file__).resolve().parent.parent)
        search_path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", WORKER_MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": search_path},
        )
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def hear(self, path: Path) -> str:
        try:
            self._process.stdin.write(json.dumps(str(path)) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self._process.wait()
            raise EvaluationError(f"The recognizer exited with code {code}; see its output above.")
        return json.loads(answer)


def _hear_all(
    hear: Callable[[Path], str],
    clips: Sequence[np.ndarray],
    sample_rate: int,
    workers: int,
    progress: Callable[[int], None] | None,
) -> list[str]:
    lock = threading.Lock()
    done = 0

    def hear_one(number: int) -> str:
        nonlocal done
        path = folder / f"{number:06d}.wav"
        write_audio(
            path, resample(np.asarray(clips[number], np.float32), sample_rate, RECOGNISER_RATE), RECOGNISER_RATE
        )
        text = hear(path)
        path.unlink()
        with lock:
            done += 1
            if progress is not None:
                progress(done)
        return text

    with _clip_folder() as folder, ThreadPoolExecutor(max(1, min(workers, len(clips)))) as pool:
        return list(pool.map(hear_one, range(len(clips))))


@contextlib.contextmanager
def _clip_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="myxtts-clips-") as folder:
        yield Path(folder)
