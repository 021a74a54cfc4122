"""From texts with marks to pieces."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.errors import TextError
from myxtts.synthesis.markup import parse_markup
from myxtts.synthesis.reader import Reader, cut_symbols
from tests.synthesis.tiny_voice import describe

READER = Reader(describe().tokenizer(), 180)


def read(text, pause=0.3):
    symbols = READER.tokenizer.symbols.symbols
    pieces = READER.read(parse_markup(text), "en", pause, seed=0)
    return [("".join(symbols[each] for each in piece.ids), round(piece.pause_seconds, 3)) for piece in pieces]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two", [("one.", 0.3), ("two", 0.3)]),
        ("One[pause:1s]two", [("one", 1.0), ("two", 0.3)]),
        ("One.[pause:1s][pause:500ms] Two", [("one.", 1.5), ("two", 0.3)]),
        ("[pause:2s]One", [("", 2.0), ("one", 0.3)]),
        ("One[pause:2s]", [("one", 2.0)]),
        ("I say [[həlo]], you", [("i say hlo, you", 0.3)]),
        ("[[abc]]", [("abc", 0.3)]),
        ("One. [[ab cd]] two. Three", [("one.", 0.3), ("ab cd two.", 0.3), ("three", 0.3)]),
        ("<speak><p>One</p><p>two</p></speak>", [("one", 0.3), ("two", 0.3)]),
        ('<speak>One <prosody rate="slow">two</prosody> three</speak>', [("one", 0.1), ("two", 0.1), ("three", 0.3)]),
    ],
)
def test_marks_become_pauses_and_symbols(text, expected):
    assert read(text) == expected


def test_unknown_symbols_of_given_phonemes_are_counted():
    (piece,) = READER.read(parse_markup("Say [[həlo]]"), "en", 0.3, seed=0)
    assert piece.unknown == Counter("ə")
    assert piece.text == "Say həlo"


def test_marks_without_anything_to_speak_raise():
    with pytest.raises(TextError, match="nothing to say"):
        read("[[123]] [pause:1s]")


def test_an_early_start_speaks_the_first_clause_apart_and_nothing_else():
    text = (
        "The train was late again, so we waited on the platform. The rain was cold again, so we went inside the house."
    )
    pieces = list(READER.read(parse_markup(text), "en", 0.3, seed=0, starts_early=True))
    assert [piece.text for piece in pieces] == [
        "The train was late again,",
        "so we waited on the platform.",
        "The rain was cold again, so we went inside the house.",
    ]
    assert [round(piece.pause_seconds, 3) for piece in pieces] == [0.1, 0.3, 0.3]


def test_a_book_is_not_read_before_its_first_sentence():
    class Counting:
        calls = 0

        def __getattr__(self, name):
            return getattr(READER.tokenizer, name)

        def encode(self, text, language):
            self.calls += 1
            return READER.tokenizer.encode(text, language)

    tokenizer = Counting()
    next(Reader(tokenizer, 180).read(parse_markup("One more sentence. " * 100), "en", 0.3, seed=0))
    assert tokenizer.calls <= 2


def test_marks_have_a_place_among_the_symbols_and_do_not_break_a_sentence():
    text = """<speak><mark name="a"/>One <mark name="b"/>two, <mark name="c"/><break time="1s"/>three. <mark name="d"/><mark/>
    <s>Four</s><mark name="e"/></speak>"""
    symbols = READER.tokenizer.symbols.symbols
    pieces = list(READER.read(parse_markup(text), "en", 0.3, seed=0))
    found = [("".join(symbols[each] for each in piece.ids), piece.marks) for piece in pieces]
    assert found == [
        ("one two,", ((0, "a"), (3, "b"), (8, "c"))),
        ("three.", ()),
        ("four", ((0, "d"), (4, "e"))),
    ]


def test_marks_of_a_long_sentence_are_in_the_piece_that_they_belong_to():
    words = " ".join(["word"] * 60)
    text = f'<speak>{words} <mark name="middle"/>{words} <mark name="end"/></speak>'
    reader = Reader(READER.tokenizer, 2000)
    pieces = list(reader.read(parse_markup(text), "en", 0.3, seed=0))
    assert len(pieces) > 1
    before, places = 0, {}
    for piece in pieces:
        places |= {name: before + at for at, name in piece.marks}
        before += len(piece.ids)
    assert places == {"middle": len(words), "end": before}


def test_symbols_are_cut_after_the_last_boundary_that_fits():
    ids = [5, 5, 5, 2, 5, 5, 5, 5, 2, 5, 5]
    assert cut_symbols(ids, frozenset({2}), 10) == [[5, 5, 5, 2, 5, 5, 5, 5, 2], [5, 5]]
    assert cut_symbols([5] * 25, frozenset({2}), 10) == [[5] * 10, [5] * 10, [5] * 5]


@given(st.lists(st.integers(2, 9), min_size=1, max_size=200), st.integers(2, 50))
def test_cut_symbols_lose_nothing_and_fit(ids, longest):
    parts = cut_symbols(ids, frozenset({2}), longest)
    assert [each for part in parts for each in part] == ids
    assert all(0 < len(part) <= longest for part in parts)
