"""Symbols of the texts of a corpus, in worker processes: utterances in, symbols or the reason why there are none out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from myxtts.cache.worker import PHONEMIZER_FAILED
from myxtts.corpus.utterance import Utterance
from myxtts.errors import TextError
from myxtts.runtime.workers import Progress, WorkerPool

TEXTS_AT_ONCE = 64
STAGE = "phonemizing texts"


@dataclass(frozen=True)
class Failure:
    """Why a clip cannot be used."""

    reason: str
    detail: str
    is_transient: bool = False
    """It says nothing about the clip: the next run tries again."""

    @classmethod
    def from_head(cls, head: Mapping[str, Any]) -> Failure:
        """Of a worker's result that has `rejected`."""
        return cls(head["rejected"], head["detail"], head.get("transient", False))


NOTHING_TO_SPEAK = Failure("empty text", "nothing in the text can be spoken")


@dataclass(frozen=True)
class ClipTexts:
    """By number of the utterance."""

    symbols: dict[int, str] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)


def phonemize_texts(
    utterances: Sequence[Utterance], numbers: Sequence[int], pool: WorkerPool, progress: Progress
) -> ClipTexts:
    """Symbols of the texts of the utterances with these numbers. A phonemizer that cannot start raises a `TextError`."""
    by_language: dict[str, list[int]] = {}
    for number in numbers:
        by_language.setdefault(utterances[number].language, []).append(number)
    groups = [
        members[start : start + TEXTS_AT_ONCE]
        for members in by_language.values()
        for start in range(0, len(members), TEXTS_AT_ONCE)
    ]
    found = ClipTexts()
    crashed = _phonemize_groups(utterances, groups, found, pool, progress)
    # one text crashed the worker of its whole group: one by one, only that text is rejected
    alone = [[number] for group, _ in crashed for number in group]
    for (number,), failure in _phonemize_groups(utterances, alone, found, pool, progress):
        found.failures[number] = failure
    for failure in found.failures.values():
        if failure.reason == PHONEMIZER_FAILED:
            raise TextError(failure.detail)
    return found


def more_tokens_than_frames(num_tokens: int, num_frames: int) -> Failure | None:
    """Each token, and the blank before, between and after them, needs a frame of its own."""
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
        {"language": utterances[members[0]].language, "texts": [utterances[number].text for number in members]}
        for members in groups
    ]
    failed = []
    for place, head, _ in pool.run("text", jobs, 1, STAGE, progress):
        if "rejected" in head:
            failed.append((groups[place], Failure.from_head(head)))
            continue
        for number, result in zip(groups[place], head["texts"], strict=True):
            if "rejected" in result:
                found.failures[number] = Failure.from_head(result)
            else:
                found.symbols[number] = result["spelled"]
    return failed
