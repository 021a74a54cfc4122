"""Markup is not read aloud, and nothing that merely resembles it is lost."""

import pytest

from myxtts.text.cleanup import clean_text, strip_markup
from myxtts.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("\x1b[31mHello\x1b[0m you", "Hello you"),
        ("\x9b1mHello", "Hello"),
        ("\x1b]0;title\x07Hello", "Hello"),
        ("one\0two", "one two"),
        ("be\x07ll", "bell"),
        ("<b>Hello</b>, <i>you</i>", "Hello, you"),
        ("un<b>believ</b>able", "unbelievable"),
        ("line<br/>two", "line two"),
        ('<speak>Hi<break time="1.5s"/>there</speak>', "Hi there"),
        ("<s>One</s><s>Two</s>", "One Two"),
        ("<w>One</w><w>two</w> <token>three</token><token>four</token>", "One two three four"),
        ('One<mark name="here"/>two', "One two"),
        ('<prosody rate="slow">Go</prosody>', "Go"),
        ('<amazon:effect name="whispered">psst</amazon:effect>', "psst"),
        ('<a href="http://x.org/a.b">link</a>', "link"),
        ('<?xml version="1.0"?><speak xml:lang="en">Hey</speak>', "Hey"),
        ("<!-- a note -->Hi<style>p {}</style><script>1 < 2</script>", "Hi"),
        ("AT&amp;T &lt;b&gt; &#233;t&#xe9;", "AT&T <b> été"),
    ],
)
def test_markup_is_removed(written, spoken):
    assert clean_text(written, "en") == spoken


@pytest.mark.parametrize(
    "text",
    ["a < b", "a <b and c> d", "I <3 you", "5<6 and 7>6", "vector<int> v", "<laugh> ok", "<!-- open", "R&D; Q&A", "<b"],
)
def test_what_is_not_certainly_markup_stays(text):
    assert clean_text(text, "en") == text


def test_markup_is_gone_before_a_text_is_cut_into_sentences():
    pieces = split_sentences('<speak>One.<break time="1. 5s"/> Two.</speak>', "en")
    assert [piece.text for piece in pieces] == ["One.", "Two."]


@pytest.mark.parametrize("part", ["<b ", '<b a="', "<!--", "--><!--", "<script>", "<a b=c ", "<a-", "<", "&a", "\x1b["])
def test_a_megabyte_of_broken_markup_is_read_in_linear_time(part):
    assert len(strip_markup(part * (1_000_000 // len(part)))) <= 1_000_000
