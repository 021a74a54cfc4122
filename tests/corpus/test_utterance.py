"""Rejections are counted on one line, and written as CSV."""

import csv
import os

import pytest

from myxtts.corpus.utterance import WRONG_SCRIPT, Rejection, summarize_rejections, write_rejected_csv
from myxtts.errors import CorpusError


def test_rejections_are_written_as_csv(tmp_path):
    rejections = [Rejection("a", "wavs/a.wav", "silent", 'said "nothing", twice'), Rejection("ب", "", "empty text")]
    write_rejected_csv(tmp_path / "rejected.csv", rejections)
    with open(tmp_path / "rejected.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["reason"], row["detail"]) for row in rows] == [
        ("a", "silent", 'said "nothing", twice'),
        ("ب", "empty text", ""),
    ]
    assert os.listdir(tmp_path) == ["rejected.csv"]


def test_rejections_are_summarized_on_one_line_by_reason():
    rejections = [Rejection(str(number), "", reason) for number, reason in enumerate(["silent", "missing", "silent"])]
    assert summarize_rejections(rejections) == "3 rejected: silent 2, missing 1"
    assert summarize_rejections([]) == "nothing rejected"


def test_a_reason_that_one_flag_fixes_is_explained_once():
    rejections = [Rejection(str(number), "", WRONG_SCRIPT, "give --language fa") for number in range(3)]
    assert summarize_rejections(rejections) == "3 rejected: wrong script 3 (give --language fa)"


def test_a_list_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(CorpusError, match="cannot be written"):
        write_rejected_csv(tmp_path / "gone" / "rejected.csv", [])
