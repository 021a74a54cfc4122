"""Encodings are certain where the bytes prove them, and guessed only where the text is plausible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.corpus.encodings import UTF8, code_page_of, detect_encoding, encoding_label


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff")))
def test_utf8_and_byte_order_marks_are_always_recognized(text):
    assert detect_encoding(text.encode(), "fa") == UTF8
    for codec in ("utf-8-sig", "utf-16", "utf-32"):
        content = text.encode(codec)
        assert content.decode(detect_encoding(content, "en")) == text


@pytest.mark.parametrize(
    ("language", "text", "codec"),
    [
        ("fa", "سلام دنيا", "cp1256"),
        ("ru", "Привет, мир", "cp1251"),
        ("el", "Καλημέρα κόσμε", "cp1253"),
        ("he", "שלום עולם", "cp1255"),
        ("pl", "Zażółć gęślą jaźń", "cp1250"),
        ("tr", "İyi günler şoför", "cp1254"),
        ("fr", "Il était déjà là", "cp1252"),
    ],
)
def test_the_code_page_of_the_language_is_taken_where_the_text_fits(language, text, codec):
    assert code_page_of(language) == codec
    assert detect_encoding(text.encode(codec), language) == codec
    assert encoding_label(codec) == codec.replace("cp", "Windows-")


def test_utf8_with_damaged_lines_stays_utf8():
    lines = ["é".encode() for _ in range(9)] + [b"\xe9"]
    assert detect_encoding(b"\n".join(lines), "fr") == UTF8
