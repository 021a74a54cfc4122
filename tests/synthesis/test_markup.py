"""Marks in a text: pauses, phonemes, and SSML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.errors import TextError
from myxtts.synthesis.markup import Break, Paragraph, SpokenText, Style, parse_markup


def test_a_text_without_marks_is_one_part():
    assert parse_markup("Hello [there] [pause] [x]. a < b") == [SpokenText("Hello [there] [pause] [x]. a < b")]


def test_pauses_and_phonemes_are_found_in_plain_text():
    assert parse_markup("One[pause:0.5s]two [pause:300ms] [[ həˈloʊ ]], three") == [
        SpokenText("One"),
        Break(0.5),
        SpokenText("two "),
        Break(0.3),
        SpokenText("həˈloʊ", is_phonemes=True),
        SpokenText(", three"),
    ]


def test_ssml_is_read_with_its_pauses_rates_languages_and_speakers():
    text = """<speak version="1.1" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="en-US">
    <p><s>One<break time="250ms"/>two.</s><s>Three <break strength="strong"/></s></p>
    <prosody rate="50%">slow <prosody rate="+20%">less</prosody></prosody>
    <voice name="ben"><lang xml:lang="fr">oui</lang></voice> <sub alias="World Wide Web">WWW</sub>
    <phoneme alphabet="ipa" ph="təˈmɑːtəʊ">tomato</phoneme> <say-as interpret-as="characters">a b1</say-as>
    <amazon:effect xmlns:amazon="x" name="whispered">psst</amazon:effect><desc>unheard</desc></speak>"""
    parts = parse_markup(text)
    spoken = [(part.text.strip(), part.style) for part in parts if isinstance(part, SpokenText)]
    assert spoken == [
        ("One", Style()),
        ("two.", Style()),
        ("Three", Style()),
        ("slow", Style(speed=0.5)),
        ("less", Style(speed=0.6)),
        ("oui", Style(speaker="ben", language="fr")),
        ("World Wide Web", Style()),
        ("təˈmɑːtəʊ", Style()),
        ("a, b, 1", Style()),
        ("psst", Style()),
    ]
    assert [part.seconds for part in parts if isinstance(part, Break)] == [0.25, 0.8]
    assert parts.count(Paragraph()) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<speak>Hello", "not well-formed SSML"),
        ("<speak><b></speak>", "not well-formed SSML"),
        ('<?xml version="1.0"?><!DOCTYPE speak><speak>a</speak>', "document type"),
        ('<speak><break time="long"/></speak>', "has no valid time"),
        ('<speak><break time="61s"/></speak>', "lasts 60 s at most"),
        ("[pause:61s]", "lasts 60 s at most"),
        ("[pause:99999s]", r"lasts 60 s at most. Received: \[pause:99999s\]"),
        ("[pause:2min]", r"\[pause:2min\] has no valid time"),
        ("[pause:-1s]", "has no valid time"),
        ('<speak><prosody rate="quickly">a</prosody></speak>', "is not a valid rate"),
        ('<speak><!DOCTYPE a [<!ENTITY b "c">]>&b;</speak>', "document type"),
        ("<speak>" + "<b>" * 5000 + "</b>" * 5000 + "</speak>", "nested too deeply|not well-formed"),
    ],
)
def test_broken_marks_raise_with_the_reason(text, message):
    with pytest.raises(TextError, match=message):
        parse_markup(text)


def test_times_are_written_in_seconds_or_milliseconds():
    times = ("0.5s", ".5s", " 500 ms ", "500MS")
    assert [parse_markup(f"[pause:{time}]") for time in times] == [[Break(0.5)]] * len(times)


def test_an_xml_declaration_may_come_before_ssml():
    text = '<speak>Hi <break time="2s"/> there</speak>'
    assert parse_markup(f'<?xml version="1.0" encoding="UTF-16"?>\n{text}') == parse_markup(text)


@given(st.text(alphabet='<>/="speakbrtime[]:0.5s &;', max_size=60))
def test_any_text_gives_parts_or_our_own_error(text):
    for written in (text, f"<speak>{text}</speak>"):
        try:
            parts = parse_markup(written)
        except TextError:
            continue
        assert all(isinstance(part, SpokenText | Break | Paragraph) for part in parts)
