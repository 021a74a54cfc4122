"""Symbols and their ids."""

import json
import random
import subprocess
import sys
from collections import Counter

import pytest

from myxtts.batch import BLANK_TOKEN
from myxtts.errors import TextError
from myxtts.text import g2p, phonemes, tokenizer
from myxtts.text.lexicon import Lexicon
from myxtts.text.tokenizer import (
    FrontEnd,
    SymbolTable,
    Tokenizer,
    build_front_end,
    letters_notices,
    resolve_kind,
    text_symbols_of,
)
from tests.espeak import needs_espeak

GRAPHEMES = FrontEnd("graphemes")
KINDS = [
    "graphemes",
    pytest.param(
        "phonemes",
        marks=needs_espeak,
    ),
]


def test_the_first_tokens_are_padding_and_blank():
    table = SymbolTable()
    assert table.id_of["<pad>"] == 0
    assert table.id_of["<blank>"] == BLANK_TOKEN


def test_new_symbols_are_appended_and_old_ids_stay():
    table = SymbolTable().extended_with("cab")
    wider = table.extended_with(["z", "a", "é"])
    assert wider.symbols[: len(table)] == table.symbols
    assert wider.symbols[len(table) :] == ("z", "é")
    assert table.extended_with("abc") == table


def test_emoji_and_digits_never_become_symbols():
    assert SymbolTable().extended_with("😀7\ue000") == SymbolTable()


def test_a_table_survives_json():
    table = SymbolTable().extended_with("aʃˈː\u0323²\u200cس")
    assert SymbolTable.from_list(json.loads(json.dumps(table.to_list()))) == table


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        "abc",
        {},
        [],
        ["a", "b"],
        ["<blank>", "<pad>"],
        ["<pad>", "<blank>", "a", "a"],
        ["<pad>", "<blank>", 3],
        ["<pad>", "<blank>", ""],
        ["<pad>", "<blank>", "ab"],
        ["<pad>", "<blank>", "¹²"],
        ["<pad>", "<blank>", "😀"],
        ["<pad>", "<blank>", ["a"]],
    ],
)
def test_a_table_of_garbage_is_refused(garbage):
    with pytest.raises(TextError):
        SymbolTable.from_list(garbage)


@pytest.mark.parametrize(
    ("language", "text", "symbols"),
    [
        ("en", "Hello, World!", "hello, world!"),
        ("en", "It's 5%.", "it's five percent."),
        ("en", "twenty-one/two", "twenty one two"),
        ("en", "U.S.A.", "u s a."),
        ("en", "hi 😀!", "hi😀!"),
        ("tr", "Istanbul İzmir", "ıstanbul izmir"),
        ("fa", "كتاب، می\u200cخواهم؟", "کتاب, می\u200cخواهم?"),
        ("zh", "你好，世界。", "你好, 世界."),
        ("hi", "नमस्ते।", "नमस्ते."),
    ],
)
def test_graphemes_are_single_lower_case_symbols(language, text, symbols):
    assert GRAPHEMES.symbols_of([text], language) == [list(symbols)]


def test_a_combining_mark_is_a_symbol_after_its_letter():
    assert GRAPHEMES.symbols_of(["q\u0303a"], "en") == [["q", "\u0303", "a"]]


def test_unknown_symbols_are_counted_and_left_out():
    table = SymbolTable().extended_with("helo")
    encoded = Tokenizer(table, GRAPHEMES).encode("Hello zz😀!", "en")
    assert encoded.unknown == Counter({"z": 2, "😀": 1})
    assert [table.symbols[token] for token in encoded.ids] == list("hello !")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", "   ", "...", "?!—", "😀🎉", "\u200f", "\x00", "()"])
def test_a_text_without_sound_has_no_ids(kind, text):
    table = SymbolTable().extended_with("abcdefghijklmnopqrstuvwxyz")
    assert Tokenizer(table, FrontEnd(kind)).encode(text, "en").ids == []


@pytest.mark.parametrize("kind", KINDS)
def test_many_texts_give_what_each_gives_alone(kind):
    front_end = FrontEnd(kind)
    texts = ["Hello, world!", "", "I have 5 cats.", "😀"]
    table = SymbolTable().extended_with(symbol for spelled in front_end.symbols_of(texts, "en") for symbol in spelled)
    spoken = Tokenizer(table, front_end)
    assert spoken.encode_many(texts, "en") == [spoken.encode(text, "en") for text in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_any_text_gives_ids_of_real_symbols(kind):
    draw = random.Random(5)
    front_end = FrontEnd(kind)
    pools = ["abc XYZ.,'-/_", "0123456789:$%", "سلام۱۲،؟\u200c", "😀\u200d\ufe0f🇩🇪", "世界。", "\u0301\u202e\x00[]{}<>"]
    texts = ["".join(draw.choices("".join(draw.sample(pools, 2)), k=draw.choice([1, 20, 200]))) for _ in range(80)]
    for language in ("en", "fa"):
        spelled = front_end.symbols_of(texts, language)
        table = SymbolTable().extended_with(symbol for symbols in spelled for symbol in symbols)
        for symbols, encoded in zip(spelled, Tokenizer(table, front_end).encode_many(texts, language), strict=True):
            assert all(2 <= token < len(table) for token in encoded.ids)
            assert not encoded.ids or len(encoded.ids) + encoded.unknown.total() == len(symbols)


def test_the_fingerprint_changes_with_everything_that_matters(monkeypatch):
    monkeypatch.setattr(phonemes, "espeak_version", lambda: "1.52.0")
    fronts = [
        GRAPHEMES,
        FrontEnd("phonemes"),
        FrontEnd("phonemes", Lexicon({"a": "b"})),
        FrontEnd("phonemes", Lexicon({"a": "c"})),
    ]
    prints = {front.fingerprint() for front in fronts}
    monkeypatch.setattr(phonemes, "espeak_version", lambda: "1.53.0")
    prints.add(FrontEnd("phonemes").fingerprint())
    monkeypatch.setattr(tokenizer, "NORMALIZER_VERSION", -1)
    prints |= {front.fingerprint() for front in fronts[:1]}
    monkeypatch.setattr(tokenizer, "FRONT_END_VERSION", -1)
    prints |= {front.fingerprint() for front in fronts[:1]}
    assert len(prints) == 7
    assert FrontEnd("graphemes").fingerprint() == GRAPHEMES.fingerprint()


def test_the_fingerprint_changes_with_the_reviewed_readings(monkeypatch, tmp_path):
    front_end = FrontEnd("phonemes", phonemizer="myxtts")
    before = front_end.fingerprint()
    (tmp_path / "fa_reviewed.tsv").write_text("سلام\tsælɑm\ttest\n", encoding="utf-8")
    monkeypatch.setattr(g2p, "reviewed_path", lambda code: tmp_path / "fa_reviewed.tsv")
    g2p.model_digest.cache_clear()
    try:
        assert front_end.fingerprint() != before
    finally:
        g2p.model_digest.cache_clear()


def test_a_front_end_survives_json():
    front_end = FrontEnd("phonemes", Lexicon({"GIF": "dʒˈɪf"}), "myxtts")
    assert FrontEnd.from_dict(json.loads(json.dumps(front_end.to_dict()))) == front_end


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        [],
        {},
        {"kind": "x", "lexicon": {}},
        {"kind": "graphemes", "lexicon": {"a": 1}},
        {"kind": "phonemes", "lexicon": {}, "phonemizer": ["x"]},
    ],
)
def test_a_front_end_of_garbage_is_refused(garbage):
    with pytest.raises(TextError):
        FrontEnd.from_dict(garbage)


def test_a_lexicon_without_phonemes_is_refused():
    with pytest.raises(TextError, match="read as graphemes"):
        FrontEnd("graphemes", Lexicon({"a": "b"}))


def test_auto_takes_phonemes_of_espeak_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(phonemes, "is_installed", lambda: True)
    assert build_front_end("auto", language="de") == FrontEnd("phonemes")
    monkeypatch.setattr(phonemes, "is_installed", lambda: False)
    assert build_front_end("auto", language="de") == GRAPHEMES
    with pytest.raises(TextError, match="pip install"):
        resolve_kind("phonemes", "de")
    with pytest.raises(TextError, match="auto, phonemes, espeak or graphemes"):
        resolve_kind("letters")


@pytest.mark.parametrize("language", ["en", "fa"])
def test_english_and_persian_need_no_espeak(monkeypatch, language):
    monkeypatch.setattr(phonemes, "is_installed", lambda: False)
    front_end = build_front_end("auto", language=language)
    assert front_end == FrontEnd("phonemes", phonemizer="myxtts")
    assert all(front_end.symbols_of(["Hello سلام"], language))
    with pytest.raises(TextError, match="pip install"):
        resolve_kind("espeak", language)


def test_a_saved_front_end_gives_the_setting_that_makes_it_again(monkeypatch):
    monkeypatch.setattr(phonemes, "is_installed", lambda: True)
    for text_symbols in ("phonemes", "espeak", "graphemes"):
        assert text_symbols_of(build_front_end(text_symbols).to_dict()) == text_symbols
    assert text_symbols_of({"kind": "phonemes", "lexicon": {}}) == "espeak"  # as version 0.1 saved it
    assert FrontEnd.from_dict({"kind": "phonemes", "lexicon": {}}).phonemizer == "espeak"


def test_letters_because_the_extra_is_missing_are_warned_about():
    (notice,) = letters_notices("auto", "graphemes")
    assert "letters instead of phonemes" in notice
    assert "pip install '.[phonemes]'" in notice
    assert letters_notices("graphemes", "graphemes") == ()
    assert letters_notices("auto", "phonemes") == ()


def test_text_needs_no_tensorflow():
    code = "import sys, myxtts.text.tokenizer, myxtts.text.sentences; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
