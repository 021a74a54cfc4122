"""The two records of a corpus: an `Utterance` to train on, and a `Rejection` that is reported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Utterance:
    """One recording and what is said in it."""

    id: str
    path: Path
    """Absolute."""
    text: str
    language: str
    speaker: str
    samples: int | None = None
    """Known after probing or preparing."""
    frames: int | None = None
    """Mel frames; known after preparing."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A clip that cannot be used, and why."""

    id: str
    path: str
    reason: str
    """Short, for counting."""
    detail: str = ""
    """The whole story of this clip."""
