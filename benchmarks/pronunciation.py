"""How well a G2P pronounces sentences with known phonemes: phoneme error, words right, ezafe, homographs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class PronunciationScore:
    """Sums over sentences; rates are fractions."""

    phonemes: int = 0
    errors: int = 0
    words: int = 0
    words_right: int = 0
    homographs: int = 0
    homographs_right: int = 0
    ezafe_right: int = 0
    ezafe_missed: int = 0
    ezafe_wrong: int = 0
    wrong_words: list[tuple[str, str]] = field(default_factory=list)
    """(expected, heard) of every wrong word."""

    @property
    def phoneme_error(self) -> float:
        return self.errors / max(1, self.phonemes)

    @property
    def words_right_fraction(self) -> float:
        return self.words_right / max(1, self.words)

    @property
    def homographs_right_fraction(self) -> float:
        return self.homographs_right / max(1, self.homographs)

    @property
    def ezafe_f1(self) -> float:
        return 2 * self.ezafe_right / max(1, 2 * self.ezafe_right + self.ezafe_missed + self.ezafe_wrong)


def fold_persian(phonemes: str) -> str:
    """Phonemes as they are scored: no glottal stops, stress, length or boundaries; q = ɣ, tap = trill; affricates as one."""
    folded = phonemes.replace("tʃ", "ʧ").replace("dʒ", "ʤ").translate(str.maketrans({"ɣ": "q", "ɾ": "r", "a": "æ"}))
    return re.sub(r"[^\w]|[ːˈˌʔ0-9⁰-⁹¹²³_]", "", folded)


def score_sentence(
    score: PronunciationScore, expected: Sequence[str], heard: str, ezafe: frozenset[int], homographs: frozenset[int]
) -> None:
    """Add one sentence.

    Args:
        expected: the folded phonemes of each word, its ezafe included.
        heard: the folded phonemes of the whole sentence.
        ezafe, homographs: indices of words that have an ezafe, that are homographs.
    """
    owner = [index for index, word in enumerate(expected) for _ in word]
    heard_words, edits = _split_like("".join(expected), heard, owner, len(expected))
    score.phonemes += len(owner)
    score.errors += edits
    for index, (word, found) in enumerate(zip(expected, heard_words, strict=True)):
        score.words += 1
        score.words_right += found == word
        if found != word:
            score.wrong_words.append((word, found))
        if index in homographs:
            score.homographs += 1
            stem = word[:-1] if index in ezafe else word
            score.homographs_right += found in (word, stem, stem + "e", stem + "je", stem.removesuffix("j"))
        if index in ezafe:
            is_heard = found.endswith("je") if word.endswith("eje") else found.endswith("e")
            score.ezafe_right += is_heard
            score.ezafe_missed += not is_heard
        elif found in (word + "e", word + "je") or (found.endswith("e") and not word.endswith("e")):
            score.ezafe_wrong += 1


def _split_like(expected: str, heard: str, owner: Sequence[int], num_words: int) -> tuple[list[str], int]:
    """Cut `heard` into words by its cheapest alignment with `expected`; also the number of edits."""
    rows, columns = len(expected) + 1, len(heard) + 1
    cost = [list(range(columns))] + [[row] + [0] * (columns - 1) for row in range(1, rows)]
    for row in range(1, rows):
        above, here, letter = cost[row - 1], cost[row], expected[row - 1]
        for column in range(1, columns):
            substituted = above[column - 1] + (letter != heard[column - 1])
            here[column] = min(substituted, above[column] + 1, here[column - 1] + 1)
    words: list[list[str]] = [[] for _ in range(num_words)]
    row, column = len(expected), len(heard)
    while row or column:
        if row and column and cost[row][column] == cost[row - 1][column - 1] + (expected[row - 1] != heard[column - 1]):
            words[owner[row - 1]].append(heard[column - 1])
            row, column = row - 1, column - 1
        elif column and cost[row][column] == cost[row][column - 1] + 1:
            words[owner[max(row - 1, 0)]].append(heard[column - 1])  # an insertion belongs to the word before it
            column -= 1
        else:
            row -= 1
    return ["".join(reversed(word)) for word in words], cost[-1][-1]


def edit_distance(first: str, second: str) -> int:
    """Levenshtein's distance."""
    previous = list(range(len(second) + 1))
    for row, letter in enumerate(first, start=1):
        current = [row]
        for column, other in enumerate(second, start=1):
            current.append(min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (letter != other)))
        previous = current
    return previous[-1]
