"""The sentences that a voice is measured on: from a corpus or a text file, and whether the voice was trained on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.config.config import DEFAULT_LANGUAGE
from myxtts.corpus.utterance import Utterance
from myxtts.errors import EvaluationError
from myxtts.runtime.safe_files import read_regular_file
from myxtts.synthesis.score_card import ScoreCard
from myxtts.synthesis.training_split import TrainingSplit

LARGEST_LIST_BYTES = 16 << 20


@dataclass(frozen=True)
class Sentence:
    """A sentence to be spoken, and its recording, if there is one."""

    id: str
    text: str
    language: str = DEFAULT_LANGUAGE
    speaker: str = ""
    recording: Path | None = None


def sentences_of(utterances: Sequence[Utterance]) -> tuple[Sentence, ...]:
    """The sentences of a corpus, with their recordings."""
    return tuple(Sentence(each.id, each.text, each.language, each.speaker, each.path) for each in utterances)


def sentences_of_card(card: ScoreCard, language: str | None = None) -> tuple[Sentence, ...]:
    """The sentences that a score card was measured on, without their recordings; of one language, if it is given."""
    return tuple(
        Sentence(each.id, each.text, each.language, each.speaker)
        for each in card.texts
        if language is None or each.language == language
    )


def read_sentences(path: str | Path, language: str = DEFAULT_LANGUAGE) -> tuple[Sentence, ...]:
    """One sentence per line, without recordings; empty lines and lines that begin with # are skipped."""
    try:
        lines = read_regular_file(path, LARGEST_LIST_BYTES).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise EvaluationError(
            f"The list of sentences {path} cannot be read: {error.strerror}. Name another file."
        ) from None
    except UnicodeDecodeError as error:
        raise EvaluationError(
            f"The list of sentences {path} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
        ) from None
    texts = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not texts:
        raise EvaluationError(f"The list of sentences is empty: {path}. Expected one sentence per line.")
    return tuple(Sentence(f"{index:03d}", text, language) for index, text in enumerate(texts, start=1))


def held_out_sentences(
    everything: Sequence[Sentence], own_split: Sequence[Sentence], split: TrainingSplit | None
) -> tuple[Sentence, ...]:
    """The clips of a corpus that training held out; in another corpus, the held-out clips of its own split."""
    recorded = [each for each in everything if split is not None and split.was_held_out(each.id, each.text)]
    return tuple(recorded or own_split)


def trained_sentences(sentences: Sequence[Sentence], split: TrainingSplit | None) -> tuple[str, ...] | None:
    """Ids of the sentences that the voice was trained on; None if that is not recorded."""
    if split is None:
        return None
    return tuple(each.id for each in sentences if split.was_trained_on(each.text))


def training_notice(sentences: Sequence[Sentence], split: TrainingSplit | None) -> str:
    """One line about sentences that the voice was trained on, empty if there are none; raises if there are no others.

    Held-out clips may share their text with training clips (several speakers read the same): that is reported, not an error.
    """
    trained = trained_sentences(sentences, split)
    if split is None or trained is None:
        return (
            "This voice does not record what it was trained on (it was exported by MyXTTS 0.1.0): whether it was "
            "trained on these sentences is unknown."
        )
    if len(trained) == len(sentences) and not any(split.was_held_out(each.id, each.text) for each in sentences):
        raise EvaluationError(
            f"The voice was trained on all of these {len(sentences)} sentences, so they do not show how well it speaks. "
            "Try other --data, or `--sentences everyday`."
        )
    if trained:
        first = next(each.text for each in sentences if each.id == trained[0])
        return f"The voice was trained on the text of {len(trained)} of these {len(sentences)} sentences, such as {first!r:.60}."
    if not split.is_complete:
        return "This voice records only part of what it was trained on: whether it was trained on the other sentences is unknown."
    return ""
