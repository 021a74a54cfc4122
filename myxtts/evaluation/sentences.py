"""What a voice is measured on: utterances of a corpus, or a list of texts, in; sentences out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.data.manifest import Utterance
from myxtts.errors import EvaluationError
from myxtts.runtime.files import read_regular_file

LARGEST_LIST_BYTES = 16 << 20


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
    """One sentence per line, without recordings; empty lines and lines that begin with # are skipped."""
    try:
        lines = read_regular_file(path, LARGEST_LIST_BYTES).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise EvaluationError(f"The list of sentences {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise EvaluationError(
            f"The list of sentences {path} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
        ) from None
    texts = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not texts:
        raise EvaluationError(f"The list of sentences is empty: {path}. Expected one sentence per line.")
    return tuple(Sentence(f"{number:03d}", text, language) for number, text in enumerate(texts, start=1))
