"""Speech recognizers for measuring: they return the text of each clip, in the same order.

`open_recognizer` takes a name as in `--recognizer`:

    moonshine       English; default if moonshine-voice is installed
    whisper:FOLDER  any language; a faster-whisper model folder
    pocketsphinx    English; default otherwise
    command:…       any command that takes wav files and prints texts

Every recognizer gets 16 kHz wav files, and no text depends on the order of the clips or on the number of worker processes.

All but commands run in worker processes (`myxtts.runtime.workers`) of this module, which keeps their native libraries (a second
ONNX Runtime, CTranslate2) apart from ours; pocketsphinx holds Python's lock while it decodes. There, every clip is brought to the
same form first (silence at the ends trimmed, one level, faint noise), and no engine keeps anything from one clip to the next. On
20 Persian clips of Common Voice this form lowered the character error of Whisper base from 75 to 38 %; on 78 English recordings
Moonshine's stayed at 0.8 %.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import soundfile

from myxtts.audio.clips import SILENT_PEAK
from myxtts.audio.files import resample, write_audio
from myxtts.errors import EvaluationError, install_line
from myxtts.evaluation.clip_metrics import comparable_clip
from myxtts.evaluation.metrics import INSTALL_LINE, has_package
from myxtts.runtime.machine import usable_cores
from myxtts.runtime.worker_process import Job, serve_jobs
from myxtts.runtime.workers import WorkerPool

RECOGNIZER_RATE = 16000
"""Hz of the files that recognizers get."""
COMMAND_SECONDS = 300
"""Longest time that a command may take for one clip."""
CLIPS_PER_COMMAND = 32
"""Clips that a command with `{wavs}` gets at once: it loads its model once for all of them, and progress is still shown."""
WORKER_MODULE = "myxtts.evaluation.recognizers"
WHISPER_FILES = ("model.bin", "config.json", "tokenizer.json")
WHISPER_INSTALL_LINE = install_line("whisper")
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
    """A recognizer of `ENGINES`, in worker processes that live as long as one call."""

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
            raise EvaluationError(
                f"The recognizer command cannot be started: {words[0]}: {error.strerror}. Check the command."
            ) from None
        except subprocess.TimeoutExpired:
            raise EvaluationError(
                f"The recognizer command timed out after {seconds} s ({len(paths)} clips). Use fewer sentences: --limit N."
            ) from None
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


PADDING_SECONDS = 0.1
"""Silence at each end of a clip. Chosen; not measured."""
NOISE_LEVEL = 3e-4
"""RMS of the noise under every clip (70 dB below full scale): a synthesized pause can be digital silence, no recorded one is."""

Transcribe = Callable[[np.ndarray, str], str]
"""Samples at 16 kHz, float32 (samples,), and a language code → text."""


def prepare_clip(samples: np.ndarray) -> np.ndarray | None:
    """A clip as every engine gets it, float32 (samples,) at 16 kHz; None if it is silent."""
    if len(samples) == 0 or float(np.abs(samples).max()) < SILENT_PEAK:
        return None
    padded = np.pad(comparable_clip(samples, RECOGNIZER_RATE), round(PADDING_SECONDS * RECOGNIZER_RATE))
    noise = np.random.default_rng(0).normal(0.0, NOISE_LEVEL, len(padded))
    return np.clip(padded + noise, -1.0, 1.0).astype(np.float32)


def load_pocketsphinx(model: str) -> Transcribe:
    """CMU pocketsphinx with the US English model of its package."""
    from pocketsphinx import Decoder

    decoder: Any = Decoder(
        samprate=RECOGNIZER_RATE,
        cmn="batch",  # the mean of the clip itself; "live", the default, carries over the mean of the clips before
        maxhmmpf=3000,  # two thirds of the time, and no difference beyond chance (docs/evaluation.md)
        loglevel="FATAL",
    )

    def transcribe(samples: np.ndarray, language: str) -> str:
        decoder.start_utt()
        decoder.process_raw((samples * 32767).astype("<i2").tobytes(), full_utt=True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        return "" if hypothesis is None else hypothesis.hypstr

    return transcribe


def load_moonshine(model: str) -> Transcribe:
    """Moonshine tiny, English (Jeffries et al., 2024), with the weights of the package moonshine-voice."""
    from moonshine_voice import ModelArch, Transcriber
    from moonshine_voice.utils import get_model_path

    # Threshold 0 switches the voice activity detector off: its state is carried from clip to clip and changes their texts.
    transcriber = Transcriber(get_model_path("tiny-en"), ModelArch.TINY, options={"vad_threshold": "0"})

    def transcribe(samples: np.ndarray, language: str) -> str:
        lines = transcriber.transcribe_without_streaming(samples.tolist(), RECOGNIZER_RATE).lines
        return " ".join(line.text.strip() for line in lines)

    return transcribe


LONGEST_REPEAT = 3
"""Longest run of Whisper's tokens that may occur twice in a text. Without a limit it repeats some texts endlessly: on 40 Persian
recordings of Common Voice the character error of Whisper base was 53.9 %, with this one 37.3 %."""


def load_whisper(model: str) -> Transcribe:
    """Whisper (Radford et al., 2022) in CTranslate2's format, from the folder `model`, by faster-whisper on the CPU."""
    from faster_whisper import WhisperModel

    network = WhisperModel(model, device="cpu", compute_type="int8", cpu_threads=usable_cores(), local_files_only=True)

    def transcribe(samples: np.ndarray, language: str) -> str:
        # Temperature 0 only: the fallback of higher temperatures samples, and is not repeatable.
        segments, _ = network.transcribe(
            samples,
            language=language,
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            no_repeat_ngram_size=LONGEST_REPEAT + 1,
        )
        return " ".join(segment.text.strip() for segment in segments)

    return transcribe


ENGINES: dict[str, Callable[[str], Transcribe]] = {
    "pocketsphinx": load_pocketsphinx,
    "moonshine": load_moonshine,
    "whisper": load_whisper,
}


def build_jobs(setup: dict[str, Any]) -> dict[str, Job]:
    """The one job, `transcribe`, of the engine that the setup names: [path, language] → `text`."""
    transcribe = ENGINES[setup["engine"]](setup["model"])

    def transcribe_file(item: list[str]) -> tuple[dict[str, Any], bytes]:
        path, language = item
        samples = prepare_clip(soundfile.read(path, dtype="float32")[0])
        return {"text": "" if samples is None else transcribe(samples, language)}, b""

    return {"transcribe": transcribe_file}


if __name__ == "__main__":
    sys.exit(serve_jobs(build_jobs))
