"""Where a long text is cut."""

import random

import pytest

from myxtts.errors import TextError
from myxtts.text.sentences import split_sentences

CASES = [
    ("en", "Dr. Smith paid 3.5 dollars. He left.", ["Dr. Smith paid 3.5 dollars.", "He left."]),
    ("en", "I left at 3 p.m. on Monday. Then I met J. R. Tolkien!", ["I left at 3 p.m. on Monday.", "Then I met J. R. Tolkien!"]),
    ("en", "The U.S. Army won. I live in the U.S. It is big.", ["The U.S. Army won.", "I live in the U.S.", "It is big."]),
    ("en", "See Fig. 3. No. 5 is alive.", ["See Fig. 3.", "No. 5 is alive."]),
    ("en", "Yes... well. What?! \"Really?\" Good", ["Yes... well.", "What?!", '"Really?"', "Good"]),
    ("en", "one\n\ntwo three\nfour", ["one", "two three four"]),
    ("en", "Wait!! ... What", ["Wait!! ...", "What"]),
    ("en", "", []),
    ("en", " \n ", []),
    ("en", "...", ["..."]),
    ("de", "Das ist z. B. gut. Ja.", ["Das ist z. B. gut.", "Ja."]),
    ("fr", "M. Dupont arrive. Bien !", ["M. Dupont arrive.", "Bien !"]),
    ("fa", "سلام. حال شما چطور است؟ خوبم؛ ممنون، شما چی؟", ["سلام.", "حال شما چطور است؟", "خوبم؛ ممنون، شما چی؟"]),
    ("fa", "خوبی؟بله.", ["خوبی؟", "بله."]),
    ("fa", "۳.۵ درصد شد. بله.", ["۳.۵ درصد شد.", "بله."]),
    ("zh", "你好。我很好！你呢？好的", ["你好。", "我很好！", "你呢？", "好的"]),
    ("ja", "「はい。」と言った。", ["「はい。」", "と言った。"]),
    ("hi", "नमस्ते। ठीक है।", ["नमस्ते।", "ठीक है।"]),
]  # fmt: skip


@pytest.mark.parametrize(("language", "text", "sentences"), CASES)
def test_sentences_end_where_a_reader_ends_them(language, text, sentences):
    assert split_sentences(text, language) == sentences


def test_a_long_sentence_is_cut_at_clauses_before_words():
    text = "It begins slowly, and goes on for quite a while; then it turns, and ends."
    assert split_sentences(text, "en", 50) == [
        "It begins slowly, and goes on for quite a while;",
        "then it turns, and ends.",
    ]


def test_a_long_persian_sentence_is_cut_at_its_commas():
    text = "امروز به بازار رفتم، میوه خریدم، به خانه برگشتم، و چای نوشیدم"
    pieces = split_sentences(text, "fa", 35)
    assert len(pieces) == 2
    assert pieces[0].endswith("،")


def test_writing_without_spaces_is_cut_to_the_limit_and_never_before_a_mark():
    characters = split_sentences("字" * 95, "zh", 20)
    assert max(map(len, characters)) <= 20
    assert "".join(characters) == "字" * 95
    pieces = split_sentences("e\u0301" * 30, "en", 11)
    assert not any(piece.startswith("\u0301") for piece in pieces)


def test_no_character_is_lost_and_no_piece_is_too_long():
    draw = random.Random(3)
    for _ in range(300):
        text = "".join(draw.choices("ab .,;!?\n\"'،؛؟。，字1-…\u0301😀", k=draw.choice([3, 40, 400])))
        pieces = split_sentences(text, draw.choice(["en", "fa", "zh"]), 25)
        assert "".join("".join(pieces).split()) == "".join(text.split())
        assert all(0 < len(piece) <= 25 for piece in pieces)


@pytest.mark.parametrize("unit", ["Hello, world. ", ".", "a.", "؟", "x", "字", ". ", '"', "\n", ", "])
def test_a_megabyte_is_split(unit):
    text = unit * (1_000_000 // len(unit))
    assert all(len(piece) <= 180 for piece in split_sentences(text, "en"))


def test_a_senseless_limit_is_refused():
    with pytest.raises(TextError, match="at least 10"):
        split_sentences("text", "en", 3)
