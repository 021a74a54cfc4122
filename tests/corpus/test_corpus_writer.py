"""A written corpus is read back, and held-out sentences are spread over the lengths."""

import pytest

from myxtts.corpus.corpus_writer import MetadataLine, choose_held_out, finish_corpus, write_split
from myxtts.corpus.manifest import read_manifest
from myxtts.errors import CorpusError


def line(clip_id, text="one two three four", seconds=1.0, speaker="anna", language="en"):
    return MetadataLine(clip_id, text, text, speaker, language, seconds)


def test_written_lines_are_read_back(tmp_path):
    lines = [line("a", "A | pipe"), line("b", "Due", language="it", speaker="bo", seconds=2.0)]
    for each in lines:
        (tmp_path / f"{each.id}.wav").touch()
    summary = finish_corpus(tmp_path, lines, [], ["a notice"])
    assert (summary.clips, summary.seconds, summary.clips_by_language) == (2, 3.0, {"en": 1, "it": 1})
    assert (summary.speakers, summary.notices) == (("anna", "bo"), ("a notice",))
    assert [(each.id, each.text, each.speaker, each.language) for each in read_manifest(tmp_path).utterances] == [
        ("a", "A   pipe", "anna", "en"),
        ("b", "Due", "bo", "it"),
    ]


def test_held_out_sentences_are_long_unique_and_spread_over_the_lengths():
    lines = [line(f"c{number}", f"this is sentence number {number}", seconds=number) for number in range(12)]
    lines += [line("short", "two words"), line("twin1", "the same four words"), line("twin2", "The same, four words!")]
    assert choose_held_out(lines, 3) == {"c2", "c6", "c10"}
    with pytest.raises(CorpusError, match="only 12 are long enough and unique"):
        choose_held_out(lines, 13)


def test_a_written_split_is_the_split_of_the_corpus(tmp_path):
    lines = [line(f"c{number}", f"this is sentence number {number}") for number in range(4)]
    for each in lines:
        (tmp_path / f"{each.id}.wav").touch()
    write_split(tmp_path, lines, held_out=1)
    assert len(read_manifest(tmp_path, split="train").utterances) == 3
    assert len(read_manifest(tmp_path, split="validation").utterances) == 1
