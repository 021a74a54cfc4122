"""The worker processes of `prepare`: their jobs, and what the caller makes of the results.

A worker runs this module (`myxtts.runtime.workers`): JSON lines on standard input, results on standard output. The first line
is the setup: the data configuration and the front end. Kinds of jobs:
    probe   a path → samples and rate of the file
    audio   a path, a sample rate, the hash of a recording that is already prepared (or null) and whether its sound is wanted →
            the hash of the file's content and, unless it is that hash, `frames`, `bandwidth` (Hz), `snr` (dB) and `samples`;
            payload: log-mel, float32 (frames, n_mels); with the sound then samples, int16, and pitch, float32 (frames,)
    length  a path and a sample rate → frames of its log-mel
    text    a language and texts → the symbols of each text
An unusable clip has the result `rejected` (the reason) and `detail`, a `Failure` for the caller. If the cause is not the clip
(the disk, the memory, a phonemizer that cannot start), `transient` is set as well, and the pool tries it once more.
"""

from __future__ import annotations

import dataclasses
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from myxtts.audio.clips import estimate_bandwidth, estimate_snr, load_clip, track_pitch
from myxtts.audio.files import probe_audio, samples_to_pcm
from myxtts.audio.mel import MelSpec, mel_numpy, num_frames
from myxtts.cache.format import Sound
from myxtts.config.config import DataConfig
from myxtts.corpus.utterance import UNSPEAKABLE, Utterance
from myxtts.errors import AudioError, MyXTTSError, TextError
from myxtts.runtime.machine import usable_cores
from myxtts.runtime.progress import ProgressCallback
from myxtts.runtime.safe_files import open_regular_file
from myxtts.runtime.worker_process import serve_jobs
from myxtts.runtime.workers import WorkerPool
from myxtts.text.tokenizer import FrontEnd

WORKER_MODULE = "myxtts.cache.worker"
"""What each process runs: this module."""
CRASHED = {
    "rejected": "decoder crashed",
    "detail": "the process that read this clip died (it crashed, or was killed for lack of memory)",
    "transient": True,
}
"""Head of the result of a job whose worker died."""
PHONEMIZER_FAILED = "phonemizer failed"
UNFORESEEN = (ValueError, ArithmeticError, LookupError, TypeError, RuntimeError)
"""Errors of decoders that no check foresaw: the clip is rejected and reported, and the others are prepared."""
OF_THE_CONTENT = ("empty file", "cut off", "not audio")
"""Reasons that a failing disk causes as well: they count only if every byte of the file can be read."""
OF_THE_MOMENT = ("missing", "permission denied")
"""Reasons that do not follow from the recording's content."""

HASHED_BYTES = 1 << 20
"""Bytes that are read at once when a file is hashed."""
TEXTS_PER_JOB = 64
"""Texts of one language that are phonemized together. Chosen; not measured."""

JobResult = tuple[dict[str, Any], Any]
"""Head and payload (bytes-like)."""


def open_workers(config: DataConfig, front_end: FrontEnd, workers: int | None = None) -> WorkerPool:
    """The workers of a configuration, to be closed by `with`; processes are started when they are first needed."""
    setup, count = worker_setup(config, front_end), worker_count(config, workers)
    return WorkerPool(setup, count, module=WORKER_MODULE, crash_result=CRASHED)


def worker_setup(config: DataConfig, front_end: FrontEnd) -> dict[str, Any]:
    """The first message to every worker of a pool."""
    return {"data": dataclasses.asdict(config), "front_end": front_end.to_dict()}


def worker_count(config: DataConfig, workers: int | None = None) -> int:
    """Processes to use: `workers` if given, then as configured, then one for each core that this process may use."""
    if workers is not None:
        return workers
    return config.num_workers if config.num_workers != "auto" else usable_cores()


@dataclass(frozen=True)
class Failure:
    """Why a worker could not make a clip's symbols or frames."""

    reason: str
    detail: str
    is_transient: bool = False
    """It does not follow from the clip (the disk, the memory): the next run tries again."""

    @classmethod
    def from_head(cls, head: Mapping[str, Any]) -> Failure:
        """Of a worker's result that has `rejected`."""
        return cls(head["rejected"], head["detail"], "transient" in head)


NOTHING_TO_SPEAK = Failure("empty text", "the text has nothing that can be spoken")


@dataclass(frozen=True)
class ClipTexts:
    """By index of the utterance."""

    symbols: dict[int, str] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)


def phonemize_texts(
    utterances: Sequence[Utterance], clips: Sequence[int], pool: WorkerPool, progress: ProgressCallback
) -> ClipTexts:
    """Symbols of the texts of the utterances at these indices. A phonemizer that cannot start raises a `TextError`."""
    by_language: dict[str, list[int]] = {}
    for clip in clips:
        by_language.setdefault(utterances[clip].language, []).append(clip)
    groups = [
        members[start : start + TEXTS_PER_JOB]
        for members in by_language.values()
        for start in range(0, len(members), TEXTS_PER_JOB)
    ]
    found = ClipTexts()
    crashed = _phonemize_groups(utterances, groups, found, pool, progress)
    # one text crashed the worker of its whole group: one by one, only that text is rejected
    alone = [[clip] for group, _ in crashed for clip in group]
    for (clip,), failure in _phonemize_groups(utterances, alone, found, pool, progress):
        found.failures[clip] = failure
    for failure in found.failures.values():
        if failure.reason == PHONEMIZER_FAILED:
            raise TextError(failure.detail)
    return found


def more_tokens_than_frames(num_tokens: int, num_frames: int) -> Failure | None:
    """The failure of a clip that is too short for its text: each token, and the blanks between them, need one frame each."""
    needed = 2 * num_tokens + 1
    if needed <= num_frames:
        return None
    detail = f"{num_tokens} symbols with blanks need {needed} frames, the recording has {num_frames}"
    return Failure("more tokens than frames", detail)


def _phonemize_groups(
    utterances: Sequence[Utterance],
    groups: list[list[int]],
    found: ClipTexts,
    pool: WorkerPool,
    progress: ProgressCallback,
) -> list[tuple[list[int], Failure]]:
    """Put the results of each group (of one language) into `found`; groups that failed as a whole are returned."""
    jobs = [
        {"language": utterances[members[0]].language, "texts": [utterances[clip].text for clip in members]}
        for members in groups
    ]
    failed = []
    for job, head, _ in pool.run("text", jobs, 1, "phonemizing texts", progress):
        if "rejected" in head:
            failed.append((groups[job], Failure.from_head(head)))
            continue
        for clip, result in zip(groups[job], head["texts"], strict=True):
            if "rejected" in result:
                found.failures[clip] = Failure.from_head(result)
            else:
                found.symbols[clip] = result["symbols"]
    return failed


class PreparedAudio(NamedTuple):
    """What a worker made of a recording."""

    frames: np.ndarray
    bandwidth: float
    snr: float
    sound: Sound | None


def prepared_audio(head: Mapping[str, Any], payload: Any, n_mels: int, with_sound: bool) -> PreparedAudio:
    """The parts of the result of an `audio` job."""
    frames = np.frombuffer(payload, "<f4", head["frames"] * n_mels).reshape(-1, n_mels)
    sound = None
    if with_sound:
        samples = np.frombuffer(payload, "<i2", head["samples"], frames.nbytes)
        sound = Sound(samples, np.frombuffer(payload, "<f4", head["frames"], frames.nbytes + samples.nbytes))
    return PreparedAudio(frames, head["bandwidth"], head["snr"], sound)


def hash_file(path: str | Path) -> str:
    """32 hexadecimal digits of a file's content: CRC-32 and size.

    They show whether a touched file has changed, and are no protection against forgery. SHA-256 took a tenth of the time of
    `prepare`.
    """
    crc, size = 0, 0
    with open_regular_file(path) as file:
        while piece := file.read(HASHED_BYTES):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
    return f"{crc:08x}{size:024x}"


def _has_hash(path: str, content_hash: str) -> bool:
    try:
        return hash_file(path) == content_hash
    except OSError:
        return False  # decoding it gives the reason


def build_jobs(setup: dict[str, Any]) -> dict[str, Callable[[Any], JobResult]]:
    """The function of each kind of job, for the setup of `worker_setup`."""
    config = DataConfig(**setup["data"])
    front_end = FrontEnd.from_dict(setup["front_end"])

    def probe(path: str) -> JobResult:
        samples, rate = probe_audio(path)
        return {"samples": samples, "rate": rate}, b""

    def audio(item: list[Any]) -> JobResult:
        path, sample_rate, prepared_hash, with_sound = item
        if prepared_hash is not None and _has_hash(path, prepared_hash):
            return {"hash": prepared_hash}, b""
        spec = MelSpec.from_config(config, sample_rate)
        samples = load_clip(path, config, spec.sample_rate)
        mel = mel_numpy(samples, spec)
        head = {
            "hash": hash_file(path),
            "frames": len(mel),
            "samples": len(samples),
            "bandwidth": estimate_bandwidth(samples, sample_rate),
            "snr": estimate_snr(samples, sample_rate),
        }
        if not with_sound:
            return head, mel.data.cast("B")
        pcm = samples_to_pcm(samples)
        return head, b"".join((mel.tobytes(), pcm, track_pitch(samples, spec).tobytes()))

    def length(item: list[Any]) -> JobResult:
        path, sample_rate = item
        spec = MelSpec.from_config(config, sample_rate)
        return {"frames": num_frames(len(load_clip(path, config, spec.sample_rate)), spec)}, b""

    def text(item: dict[str, Any]) -> JobResult:
        texts = [_symbols_of(front_end, one, item["language"]) for one in _symbols_of_all(front_end, item)]
        return {"texts": texts} | ({"transient": True} if any("transient" in one for one in texts) else {}), b""

    return {"probe": probe, "audio": audio, "length": length, "text": text}


def _symbols_of_all(front_end: FrontEnd, item: dict[str, Any]) -> list[Any]:
    """All texts at once; one by one only if that fails, so that one bad text does not reject the others."""
    try:
        return front_end.symbols_of(item["texts"], item["language"])
    except (TextError, OSError, MemoryError, *UNFORESEEN):
        return item["texts"]


def _symbols_of(front_end: FrontEnd, symbols_or_text: list[str] | str, language: str) -> dict[str, Any]:
    if isinstance(symbols_or_text, list):
        return {"symbols": "".join(symbols_or_text)}
    try:
        return {"symbols": "".join(front_end.symbols_of([symbols_or_text], language)[0])}
    except TextError as error:
        if error.__cause__ is not None:  # espeak-ng could not start, e.g. because the temporary folder is full
            return _transient(PHONEMIZER_FAILED, str(error))
        return {"rejected": UNSPEAKABLE, "detail": str(error)}
    except (OSError, MemoryError) as error:
        return _transient(PHONEMIZER_FAILED, _described(error))
    except UNFORESEEN as error:
        return {"rejected": UNSPEAKABLE, "detail": _described(error)}


def do_job(job: Callable[[Any], JobResult], item: Any) -> JobResult:
    """The job's result, or the reason why its clip is unusable."""
    try:
        return job(item)
    except AudioError as error:
        return _rejected_audio(item if isinstance(item, str) else item[0], error), b""
    except MyXTTSError as error:
        return {"rejected": "unusable", "detail": str(error)}, b""
    except OSError as error:
        return _transient("missing", f"{item}: {error.strerror or error}"), b""
    except MemoryError:
        return _transient("decoder failed", f"{item}: not enough memory"), b""
    except UNFORESEEN as error:
        return {"rejected": "decoder failed", "detail": f"{item}: {_described(error)}"}, b""


def _rejected_audio(path: str, error: AudioError) -> dict[str, Any]:
    if error.reason in OF_THE_MOMENT:
        return _transient(error.reason, str(error))
    if error.reason in OF_THE_CONTENT:
        try:
            hash_file(path)
        except OSError as read_error:
            return _transient("missing", f"{path} cannot be read: {read_error.strerror or read_error}.")
    return {"rejected": error.reason, "detail": str(error)}


def _transient(reason: str, detail: str) -> dict[str, Any]:
    return {"rejected": reason, "detail": detail, "transient": True}


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def main() -> int:
    """Do jobs until the pool closes; returns an exit code."""
    return serve_jobs(lambda setup: {kind: partial(do_job, job) for kind, job in build_jobs(setup).items()})


if __name__ == "__main__":
    sys.exit(main())
