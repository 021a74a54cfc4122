"""Write a corpus in LJSpeech's layout: metadata.csv with speakers and languages, the held-out list, and rejected.csv.

A recipe puts the recordings into `wavs/` and describes each by a `MetadataLine`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.corpus.utterance import Rejection, write_rejected_csv
from myxtts.errors import CorpusError
from myxtts.runtime.safe_files import cause_of, replacing, write_atomically

HEADER = ("id", "text", "normalized", "speaker", "language")
HELD_OUT_WORDS = 4
"""Shorter sentences say little about a voice."""
HELD_OUT_SECONDS = 12.0
"""Longer clips do not fit the default max_mel_frames."""


@dataclass(frozen=True)
class MetadataLine:
    """One line of a metadata.csv."""

    id: str
    text: str
    normalized: str
    speaker: str
    language: str
    seconds: float


@dataclass(frozen=True)
class CorpusSummary:
    """What a recipe wrote."""

    folder: Path
    clips: int
    seconds: float
    clips_by_language: dict[str, int]
    speakers: tuple[str, ...]
    rejected: tuple[Rejection, ...] = field(repr=False)
    notices: tuple[str, ...] = ()
    """What was guessed about the texts, such as an encoding: one sentence each."""


def choose_held_out(lines: Sequence[MetadataLine], count: int) -> set[str]:
    """Ids of `count` sentences of at least four words, spread evenly over the lengths, whose text occurs only once."""
    spoken = [re.sub(r"\W+", " ", line.normalized).casefold().strip() for line in lines]
    candidates = [
        line
        for line, text in zip(lines, spoken, strict=True)
        if len(text.split()) >= HELD_OUT_WORDS
        and line.seconds <= HELD_OUT_SECONDS
        and not line.normalized.startswith("[")
        and spoken.count(text) == 1
    ]
    if len(candidates) < count:
        raise CorpusError(f"{count} sentences cannot be held out: only {len(candidates)} are long enough and unique.")
    candidates.sort(key=lambda line: (line.seconds, line.id))
    step = len(candidates) / count
    return {candidates[int((number + 0.5) * step)].id for number in range(count)}


def finish_corpus(
    folder: Path, lines: list[MetadataLine], rejected: list[Rejection], notices: Sequence[str] = ()
) -> CorpusSummary:
    """Write metadata.csv and rejected.csv of a new corpus."""
    write_metadata(folder / "metadata.csv", lines)
    write_rejected_csv(folder / "rejected.csv", rejected)
    languages = sorted({line.language for line in lines})
    return CorpusSummary(
        folder=folder,
        clips=len(lines),
        seconds=sum(line.seconds for line in lines),
        clips_by_language={name: sum(line.language == name for line in lines) for name in languages},
        speakers=tuple(sorted({line.speaker for line in lines})),
        rejected=tuple(rejected),
        notices=tuple(notices),
    )


def write_split(folder: Path, lines: list[MetadataLine], held_out: int) -> None:
    """Write metadata_eval.csv with `held_out` sentences and metadata_train.csv with the others."""
    chosen = choose_held_out(lines, held_out)
    write_metadata(folder / "metadata_train.csv", [line for line in lines if line.id not in chosen])
    write_metadata(folder / "metadata_eval.csv", [line for line in lines if line.id in chosen])


def write_metadata(path: Path, lines: Iterable[MetadataLine]) -> None:
    """Write one metadata file with a header."""
    rows = ["|".join(HEADER)]
    rows += [
        "|".join(cell.replace("|", " ") for cell in (line.id, line.text, line.normalized, line.speaker, line.language))
        for line in lines
    ]
    write_text(path, "\n".join(rows) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file of a corpus, whole or not at all."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise CorpusError(f"{path} cannot be written: {cause_of(error)}.") from None


def make_folder(folder: Path) -> None:
    """Make a folder and its parents; raises CorpusError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CorpusError(f"The folder {folder} cannot be created: {error.strerror}.") from None


def link_or_copy(audio: Path, target: Path, copy: bool) -> None:
    """Put a recording into a corpus: as a hard link if possible, which takes no space and does not lead out of the corpus."""
    make_folder(target.parent)
    target.unlink(missing_ok=True)
    if not copy:
        try:
            os.link(audio, target)
            return
        except OSError:
            pass  # another disk, or a file system without hard links: the copy below is the documented way
    try:
        with replacing(target) as temporary:
            shutil.copyfile(audio, temporary)
    except OSError as error:
        raise CorpusError(f"{target} cannot be written: {cause_of(error)}.") from None
