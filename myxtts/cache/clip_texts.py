"""Symbols of the texts of a corpus, made in worker processes; a text without any has a `Failure` with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from myxtts.cache.worker import PHONEMIZER_FAILED
from myxtts.corpus.utterance import Utterance
from myxtts.errors import TextError
from myxtts.runtime.workers import Progress, WorkerPool

TEXTS_PER_JOB = 64
STAGE = "phonemizing texts"


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


NOTHING_TO_SPEAK = Failure("empty text", "nothing in the text can be spoken")


@dataclass(frozen=True)
class ClipTexts:
    """By index of the utterance."""

    symbols: dict[int, str] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)


def phonemize_texts(
    utterances: Sequence[Utterance], clips: Sequence[int], pool: WorkerPool, progress: Progress
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
    utterances: Sequence[Utterance], groups: list[list[int]], found: ClipTexts, pool: WorkerPool, progress: Progress
) -> list[tuple[list[int], Failure]]:
    """Put the results of each group (of one language) into `found`; groups that failed as a whole are returned."""
    jobs = [
        {"language": utterances[members[0]].language, "texts": [utterances[clip].text for clip in members]}
        for members in groups
    ]
    failed = []
    for job, head, _ in pool.run("text", jobs, 1, STAGE, progress):
        if "rejected" in head:
            failed.append((groups[job], Failure.from_head(head)))
            continue
        for clip, result in zip(groups[job], head["texts"], strict=True):
            if "rejected" in result:
                found.failures[clip] = Failure.from_head(result)
            else:
                found.symbols[clip] = result["symbols"]
    return failed
