"""Wyoming: whole texts, texts in pieces, and what is no Wyoming."""

import asyncio
import contextlib
import json

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` or `test` is not installed")

from hypothesis import given
from hypothesis import strategies as st

from myxtts.serving.settings import Settings
from myxtts.serving.turns import SpeechEngine
from myxtts.serving.wyoming import SentenceBuffer, WyomingServer
from myxtts.serving.wyoming_protocol import LONGEST_LINE, Event, ProtocolError, read_event, write_event
from myxtts.text.sentences import split_sentences

TEXT = "hello there. Dr. Smith is late, and so am i. really?"


def talk(pool, sent: bytes, **settings) -> list[dict]:
    """The events that a server answers to bytes, after which the client says no more; audio as the number of its bytes."""

    async def run() -> list[dict]:
        engine = SpeechEngine(pool, Settings(workers=1, **settings))
        server = await asyncio.start_server(WyomingServer(engine).handle, "127.0.0.1", 0, limit=LONGEST_LINE)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        answers = []
        async with asyncio.timeout(30):
            while line := await reader.readline():
                header = json.loads(line)
                data = json.loads(await reader.readexactly(header.get("data_length", 0)) or b"{}")
                payload = await reader.readexactly(header.get("payload_length", 0))
                answers.append({"type": header["type"], "data": data, "bytes": len(payload)})
        writer.close()
        server.close()
        assert engine.num_active == 0
        engine.close()
        return answers

    return asyncio.run(run())


def types_of(answers: list[dict]) -> list[str]:
    """Types of events; neighbors of the same type are one."""
    types = [each["type"] for each in answers]
    return [kind for index, kind in enumerate(types) if index == 0 or kind != types[index - 1]]


def test_describe_names_the_voices_and_says_that_text_may_stream(pool):
    program = talk(pool, write_event("describe"))[0]["data"]["tts"][0]
    assert program["supports_synthesize_streaming"] is True
    assert [each["name"] for each in program["voices"]] == ["solo", "duo"]
    assert program["voices"][1]["speakers"] == [{"name": "anna"}, {"name": "ben"}]
    assert all(each["installed"] and each["languages"] for each in program["voices"])


def test_a_text_becomes_audio(pool):
    event = write_event("synthesize", {"text": TEXT, "voice": {"name": "duo", "speaker": "ben"}})
    answers = talk(pool, event + write_event("ping", {"text": "x"}))
    assert types_of(answers) == ["audio-start", "audio-chunk", "audio-stop", "pong"]
    assert answers[0]["data"] == {"rate": 8000, "width": 2, "channels": 1}


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_text_in_pieces_is_as_long_as_its_sentences(pool, size):
    pieces = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
    stream = write_event("synthesize-start", {"voice": {"name": "solo"}})
    stream += b"".join(write_event("synthesize-chunk", {"text": piece}) for piece in pieces)
    stream += write_event("synthesize", {"text": TEXT}) + write_event("synthesize-stop")
    answers = talk(pool, stream)
    assert types_of(answers) == ["audio-start", "audio-chunk", "audio-stop", "synthesize-stopped"]
    whole = talk(pool, write_event("synthesize", {"text": TEXT, "voice": {"name": "solo"}}))
    assert sum(each["bytes"] for each in answers) == pytest.approx(sum(each["bytes"] for each in whole), rel=0.3)


@given(st.text("ab .!?\n\"'Dr", max_size=80), st.integers(1, 9))
def test_the_sentences_of_a_text_in_pieces_are_those_of_the_whole(text, size):
    buffer = SentenceBuffer("en")
    parts = [buffer.add(text[start : start + size]) for start in range(0, len(text), size)] + [buffer.finish()]
    spoken = [piece.text for part in parts for piece in split_sentences(part, "en")]
    assert "".join("".join(spoken).split()) == "".join("".join(text).split())


def test_a_title_in_a_name_does_not_end_a_sentence():
    buffer = SentenceBuffer("en")
    assert [buffer.add(each) for each in ("I saw Dr.", " Smith", " today. ", "He", " was")] == [
        "", "", "", "I saw Dr. Smith today.", ""
    ]  # fmt: skip
    assert buffer.finish() == "He was"


def test_text_without_an_end_is_spoken_before_it_is_complete():
    buffer = SentenceBuffer("en")
    parts = [buffer.add("word ") for _ in range(1000)]
    assert sum(map(bool, parts)) >= 2
    assert max(map(len, parts)) <= 2100


@pytest.mark.parametrize(
    "data",
    [{}, {"text": 5}, {"text": "hello", "voice": {"name": "x"}}, {"text": ""}, {"text": "\ud800"}, {"text": "x" * 600}],
)
def test_what_cannot_be_spoken_is_answered_with_an_error_and_the_connection_stays_open(pool, data):
    stream = write_event("synthesize", data) + write_event("describe")
    assert types_of(talk(pool, stream, max_characters=500)) == ["error", "info"]


@pytest.mark.parametrize("start", [{}, {"voice": {"name": "x"}}, {"voice": 5}])
def test_a_stream_that_fails_ends_with_an_error(pool, start):
    stream = write_event("synthesize-start", start) + write_event(
        "synthesize-chunk", {"text": 5 if not start else "☃a"}
    )
    stream += write_event("synthesize-stop") + write_event("ping")
    assert types_of(talk(pool, stream))[-1] == "pong"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        b'{"type": 5}\n',
        b'{"type": "x", "data_length": -1}\n',
        b'{"type": "x", "payload_length": 1e99}\n',
        b'{"type": "x", "data_length": 999999999}\n',
        b"[" * 50_000 + b"\n",
        b"x" * 100_000,
        b'{"type": "synthesize", "data_length": 3}\n[1]',
    ],
)
def test_what_is_no_wyoming_ends_the_connection_with_an_error(pool, sent):
    assert types_of(talk(pool, sent)) == ["error"]


@given(
    st.binary(max_size=200) | st.binary(max_size=40).map(lambda tail: write_event("synthesize", {"text": "a"}) + tail)
)
def test_reading_bytes_gives_events_or_a_protocol_error(content):
    async def run() -> None:
        reader = asyncio.StreamReader(limit=LONGEST_LINE)
        reader.feed_data(content)
        reader.feed_eof()
        while (event := await read_event(reader)) is not None:
            assert isinstance(event, Event)

    with contextlib.suppress(ProtocolError):
        asyncio.run(run())


def test_more_connections_than_allowed_are_closed(pool):
    assert types_of(talk(pool, b"", max_connections=0)) == ["error"]
