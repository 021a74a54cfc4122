"""Timelines: symbols, words and visemes cover the speech, in order."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.errors import AudioError
from myxtts.synthesis.timings import (
    Timed,
    TimedWord,
    Timeline,
    check_timings_name,
    time_symbols,
    time_visemes,
    time_words,
)
from myxtts.text.tracing import SpokenWord, TracedText


@given(st.lists(st.integers(0, 20), min_size=3, max_size=41).filter(lambda frames: len(frames) % 2 and sum(frames)))
def test_symbols_follow_each_other_and_cover_the_piece(frames):
    symbols = ["a"] * (len(frames) // 2)
    timed = time_symbols(symbols, np.array(frames), seconds=2.5)
    assert len(timed) == len(symbols)
    assert (timed[0].start, timed[-1].end) == (0, pytest.approx(2.5))
    assert all(before.end == after.start for before, after in pairwise(timed))
    assert all(each.start <= each.end for each in timed)


def timed_text(text):
    return [Timed(symbol, float(index), index + 1.0) for index, symbol in enumerate(text)]


def test_written_words_last_as_long_as_their_spoken_words():
    spoken = [SpokenWord("Hi", (0, 0)), SpokenWord("twenty-three,", (1, 1)), SpokenWord("you.", (2, 2))]
    word_of = [0, 0, None, *[1] * 6, None, *[1] * 5, None, None, 2, 2, None]
    reading = TracedText(("Hi", "23,", "you."), spoken, list("hi twenti three, yu."), word_of)
    words = time_words(timed_text("hi twenti three, yu."), reading)
    assert [(word.text, word.start, word.end, word.phonemes) for word in words] == [
        ("Hi", 0, 2, "hi"),
        ("23,", 3, 15, "twenti three"),
        ("you.", 17, 19, "yu"),
    ]


def test_marks_lengthen_a_viseme_and_equal_ones_are_joined():
    assert time_visemes(timed_text("ˈpːab m")) == [
        ("PP", 1, 3),
        ("aa", 3, 4),
        ("PP", 4, 5),
        ("sil", 5, 6),
        ("PP", 6, 7),
    ]


def word(text, start, end):
    return TimedWord(text, start, end, 0, text, text)


@pytest.fixture
def timeline():
    timeline = Timeline()
    timeline.add("Hi & you.", 2.0, [Timed("p", 0, 0.5), Timed("a", 0.5, 1.5)], [word("Hi", 0, 0.5)], has_phonemes=True)
    timeline.add("", 1.0, [], [], has_phonemes=True)
    timeline.add("Bye.", 1.5, [Timed("b", 0, 1.25)], [word("Bye.", 0, 1.25)], has_phonemes=True)
    return timeline


def test_json_has_every_kind_of_entry_at_its_place_in_the_speech(timeline):
    content = json.loads(timeline.to_json())
    assert content["seconds"] == 4.5
    assert content["words"] == [{"word": "Hi", "start": 0, "end": 0.5}, {"word": "Bye.", "start": 3, "end": 4.25}]
    assert [each["viseme"] for each in content["visemes"]] == ["PP", "aa", "PP"]
    assert content["sentences"][1] == {"sentence": "Bye.", "start": 3.0, "end": 4.25}
    assert [each["phoneme"] for each in content["phonemes"]] == ["p", "a", "b"]


def test_subtitles_have_a_cue_per_sentence(timeline):
    assert timeline.to_srt() == (
        "1\n00:00:00,000 --> 00:00:01,500\nHi & you.\n\n2\n00:00:03,000 --> 00:00:04,250\nBye.\n\n"
    )
    assert timeline.to_vtt() == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHi &amp; you.\n\n00:00:03.000 --> 00:00:04.250\nBye.\n\n"
    )


def test_a_file_name_decides_the_format(timeline, tmp_path):
    timeline.save(tmp_path / "a.VTT")
    assert (tmp_path / "a.VTT").read_text().startswith("WEBVTT")
    with pytest.raises(AudioError, match=r"\.json, \.srt or \.vtt"):
        check_timings_name("a.txt")
