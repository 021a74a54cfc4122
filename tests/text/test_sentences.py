"""Where a long text is cut."""

import random
from pathlib import Path

import pytest

from benchmarks.text_cases import misplaced_sentences
from myxtts.errors import TextError
from myxtts.text.sentences import TextPiece, cut_first_clause, split_sentences


def texts_of(pieces: list[TextPiece]) -> list[str]:
    return [piece.text for piece in pieces]


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
    assert texts_of(split_sentences(text, language)) == sentences


ENGLISH_DOTS = [
    # Words that look like abbreviations end a sentence unless their number follows.
    ("She said no. He left at once.", ["She said no.", "He left at once."]),
    ("It rained in Mar. We left on Apr. 5.", ["It rained in Mar.", "We left on Apr. 5."]),
    ("See fig. 3, Fig. A and Vol. IV. Good.", ["See fig. 3, Fig. A and Vol. IV.", "Good."]),
    ("Call tel. +44 20, ext. 5. Ask for No. 5.", ["Call tel. +44 20, ext. 5.", "Ask for No. 5."]),
    # A title, street or initial ends a sentence before a word that is hardly ever a name, and only there.
    ("5 Main St. It is nice.", ["5 Main St.", "It is nice."]),
    ("I met the rep. She is kind.", ["I met the rep.", "She is kind."]),
    ("Plan B. Then we go.", ["Plan B.", "Then we go."]),
    ("I am in the U.S. I'm fine.", ["I am in the U.S.", "I'm fine."]),
    ("St. Peter, Gen. Lee and Dr. Smith met J. R. Tolkien.", ["St. Peter, Gen. Lee and Dr. Smith met J. R. Tolkien."]),
    ("I read A. A. Milne. Good.", ["I read A. A. Milne.", "Good."]),
    ("Some cities, e.g. The Hague.", ["Some cities, e.g. The Hague."]),
    ("I like this app. A new one came. See App. C.", ["I like this app.", "A new one came.", "See App. C."]),
    # A repeated word, or a mark apart from the one before it, continues what was left unfinished.
    ("I... I don't know. He left . . . The end.", ["I... I don't know.", "He left . . .", "The end."]),
    # What cannot be decided from the words stays together: a pause too few is heard less than a name torn apart.
    ("5 Main St. John lives there.", ["5 Main St. John lives there."]),
    ("5 Oak Dr. It is nice.", ["5 Oak Dr. It is nice."]),  # Dr. He, Dr. An and Dr. So are people
    ("He said no. 5 people left.", ["He said no. 5 people left."]),
]


@pytest.mark.parametrize(("text", "sentences"), ENGLISH_DOTS)
def test_an_english_dot_ends_a_sentence_by_the_words_around_it(text, sentences):
    assert texts_of(split_sentences(text, "en")) == sentences


HARD_CASES_WRONG = {"en": 2, "fa": 1}
"""Of 200. A headline after `U.K.`, a question answered in small letters and a sentence that ends in a smiley."""


@pytest.mark.parametrize("language", ["en", "fa"])
def test_hard_cases_are_split_right(language):
    wrong = misplaced_sentences(Path(__file__).parent / "sentences" / f"{language}.txt", language)
    assert len(wrong) <= HARD_CASES_WRONG[language], wrong


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("ko", "네. 좋아요.", ["네.", "좋아요."]),
        ("de", "Siehe Nr. 5 usw. bis 7.", ["Siehe Nr. 5 usw. bis 7."]),
        ("en", "First\n- one\n- two", ["First", "- one", "- two"]),
        ("en", "It ended in 2020. 2021 was better.", ["It ended in 2020.", "2021 was better."]),
    ],
)
def test_rules_of_one_language_leave_the_others_alone(language, text, sentences):
    assert texts_of(split_sentences(text, language)) == sentences


def test_only_the_last_piece_of_a_long_sentence_ends_it():
    pieces = split_sentences("A heading\n\nIt begins slowly, goes on; then it turns, and ends. Short one", "en", 30)
    assert pieces == [
        ("A heading", True),
        ("It begins slowly, goes on;", False),
        ("then it turns, and ends.", True),
        ("Short one", True),
    ]


def test_a_long_sentence_is_cut_at_clauses_before_words():
    text = "It begins slowly, and goes on for quite a while; then it turns, and ends."
    assert texts_of(split_sentences(text, "en", 50)) == [
        "It begins slowly, and goes on for quite a while;",
        "then it turns, and ends.",
    ]


def test_a_long_persian_sentence_is_cut_at_its_commas():
    text = "امروز به بازار رفتم، میوه خریدم، به خانه برگشتم، و چای نوشیدم"
    pieces = texts_of(split_sentences(text, "fa", 35))
    assert len(pieces) == 2
    assert pieces[0].endswith("،")


def test_writing_without_spaces_is_cut_to_the_limit_and_never_before_a_mark():
    characters = texts_of(split_sentences("字" * 95, "zh", 20))
    assert max(map(len, characters)) <= 20
    assert "".join(characters) == "字" * 95
    pieces = texts_of(split_sentences("e\u0301" * 30, "en", 11))
    assert not any(piece.startswith("\u0301") for piece in pieces)


def test_no_character_is_lost_and_no_piece_is_too_long():
    draw = random.Random(3)
    for _ in range(300):
        text = "".join(draw.choices("ab .,;!?\n\"'،؛؟。，字1-…\u0301😀", k=draw.choice([3, 40, 400])))
        pieces = texts_of(split_sentences(text, draw.choice(["en", "fa", "zh"]), 25))
        assert "".join("".join(pieces).split()) == "".join(text.split())
        assert all(0 < len(piece) <= 25 for piece in pieces)


@pytest.mark.parametrize("unit", ["Hello, world. ", ".", "a.", "؟", "x", "字", ". ", '"', "\n", ", "])
def test_a_megabyte_is_split(unit):
    text = unit * (1_000_000 // len(unit))
    assert all(len(piece) <= 180 for piece in texts_of(split_sentences(text, "en")))


def test_a_senseless_limit_is_refused():
    with pytest.raises(TextError, match="at least 10"):
        split_sentences("text", "en", 3)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "The train was late again, so we waited on the platform.",
            ["The train was late again,", "so we waited on the platform."],
        ),
        ("Yes, we waited for it on the platform all day.", ["Yes, we waited for it on the platform all day."]),
        ("We waited on the platform all day, too.", ["We waited on the platform all day, too."]),
        ("We waited on the platform for the train.", ["We waited on the platform for the train."]),
    ],
)
def test_the_first_clause_is_cut_off_if_both_parts_are_long_enough(text, parts):
    pieces = cut_first_clause(TextPiece(text, True))
    assert [piece.text for piece in pieces] == parts
    assert [piece.ends_sentence for piece in pieces] == [False] * (len(parts) - 1) + [True]
