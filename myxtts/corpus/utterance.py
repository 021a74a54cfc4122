"""The clips of a corpus: an `Utterance` to use, or a `Rejection` with its reason, which is counted and written to a CSV file."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.errors import CorpusError
from myxtts.runtime.safe_files import cause_of, write_atomically

WRONG_SCRIPT, UNKNOWN_LANGUAGE, UNSPEAKABLE = "wrong script", "unknown language", "text cannot be spoken"
EXPLAINED_REASONS = (WRONG_SCRIPT, UNKNOWN_LANGUAGE, UNSPEAKABLE)
"""Reasons that many clips share and one flag fixes: the summary says how."""
SHOWN_EXPLANATION = 300
"""Characters of an explanation in a summary."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """One recording and what is said in it."""

    id: str
    path: Path
    """Absolute path of the recording."""
    text: str
    language: str
    speaker: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """A clip that cannot be used, and why."""

    id: str
    path: str
    reason: str
    """Short, for counting."""
    detail: str = ""
    """What exactly is wrong with this clip."""


def summarize_rejections(rejections: Sequence[Rejection]) -> str:
    """One line: how many clips were rejected, by reason, the most frequent first, and what fixes a common mistake."""
    if not rejections:
        return "nothing rejected"
    counts = Counter(each.reason for each in rejections)
    reasons = ", ".join(
        f"{reason} {count}{_explanation(reason, rejections)}"
        for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    return f"{len(rejections)} rejected: {reasons}"


def _explanation(reason: str, rejections: Sequence[Rejection]) -> str:
    """The most frequent detail of a reason that the user can fix."""
    if reason not in EXPLAINED_REASONS:
        return ""
    details = Counter(each.detail for each in rejections if each.reason == reason and each.detail)
    return f" ({details.most_common(1)[0][0][:SHOWN_EXPLANATION]})" if details else ""


def write_rejected_csv(path: str | Path, rejections: Iterable[Rejection]) -> None:
    """Write `id,path,reason,detail` lines, whole or not at all."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "path", "reason", "detail"))
    writer.writerows((each.id, each.path, each.reason, each.detail) for each in rejections)
    try:
        write_atomically(path, text.getvalue().encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise CorpusError(f"{path} cannot be written: {cause_of(error)}. Name another folder.") from None
