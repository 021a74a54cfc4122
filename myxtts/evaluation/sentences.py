"""What a voice is measured on: utterances of a corpus, or a list of texts, in; sentences out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.data.manifest import Utterance
from myxtts.errors import EvaluationError


@dataclass(frozen=True)
class Sentence:
    """A sentence to be spoken, and where it was recorded, if it was."""

    id: str
    text: str
    language: str = "en"
    speaker: str = ""
    recording: Path | None = None


def sentences_of(utterances: Sequence[Utterance]) -> tuple[Sentence, ...]:
    """The sentences of a corpus, with their recordings."""
    return tuple(Sentence(each.id, each.text, each.language, each.speaker, each.path) for each in utterances)


def read_sentences(path: str | Path, language: str = "en") -> tuple[Sentence, ...]:
    """One sentence a line, without recordings; empty lines and lines that begin with # are passed over."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationError(
            f"The list of sentences cannot be read: {path}: {error}. Expected a UTF-8 text file."
        ) from None
    texts = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not texts:
        raise EvaluationError(f"The list of sentences is empty: {path}. Expected one sentence a line.")
    return tuple(Sentence(f"{number:03d}", text, language) for number, text in enumerate(texts, start=1))
