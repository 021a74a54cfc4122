"""A Wyoming server, for Home Assistant: describe, synthesize, and text that streams in at any boundary."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from myxtts.audio.files import samples_to_pcm
from myxtts.errors import MyXTTSError, TextError
from myxtts.serving.api_errors import LOG
from myxtts.serving.turns import SpeechEngine
from myxtts.serving.voices import Chosen
from myxtts.serving.wyoming_protocol import (
    LONGEST_LINE,
    Event,
    ProtocolError,
    announced,
    read_event,
    service_info,
    write_event,
)
from myxtts.synthesis.bundled import guess_language
from myxtts.synthesis.options import SpeechOptions
from myxtts.text.languages import match_language
from myxtts.text.sentences import split_sentences

IDLE_SECONDS = 600.0
"""A connection without an event for so long is closed."""
CLOSING_SECONDS = 2.0
"""Time that connections have to finish when the server ends."""
CHUNK_BYTES = 8192
"""Size of one audio-chunk: 0.17 s at 24 kHz."""
MOST_HELD_CHARACTERS = 2000
"""Longest streamed text that waits for the end of a sentence; longer text is spoken up to its last space."""
QUEUED_TEXTS = 8
"""Sentences that wait to be spoken; then no more text is read from the connection."""
_SENTENCE_END = re.compile(r"(?:[.!?…؟۔।]+[\"'”’»)\]]*|\n)\s+(?=\S)|(?<=[。！？])(?=\S)")


class SentenceBuffer:
    """Collects pieces of text and gives back whole sentences as soon as it is certain that they are whole."""

    def __init__(self, language: str):
        self._language = language
        self._text = ""

    def add(self, text: str) -> str:
        """The whole sentences after this piece of text, together; empty: none yet."""
        self._text += text
        ends = [match.end() for match in _SENTENCE_END.finditer(self._text)]
        for end in reversed(ends):
            if self._is_boundary(end):
                return self._take(end)
        if len(self._text) > MOST_HELD_CHARACTERS:
            return self._take(self._text.rfind(" ") + 1 or len(self._text))
        return ""

    def finish(self) -> str:
        """What is left."""
        return self._take(len(self._text))

    def _take(self, end: int) -> str:
        taken, self._text = self._text[:end], self._text[end:]
        return taken.strip()

    def _is_boundary(self, end: int) -> bool:
        """Whether the text cut here has the same sentences as the whole; `Dr. Smith` has not."""
        before, after = self._text[:end], self._text[end:]
        whole = split_sentences(self._text, self._language, MOST_HELD_CHARACTERS)
        parts = [
            piece for part in (before, after) for piece in split_sentences(part, self._language, MOST_HELD_CHARACTERS)
        ]
        return parts == whole


class WyomingServer:
    """Serves the connections of one port."""

    def __init__(self, engine: SpeechEngine):
        self._engine = engine
        self._num_connections = 0
        self._open: dict[asyncio.Task[Any] | None, asyncio.StreamWriter] = {}

    async def close(self) -> None:
        """End the connections that are open."""
        for writer in self._open.values():
            writer.close()
        tasks = {task for task in self._open if task is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_SECONDS)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first event to its end."""
        if self._num_connections >= self._engine.settings.max_connections:
            writer.write(
                write_event(
                    "error",
                    {"text": "The server has reached its limit of connections. Try again later.", "code": "busy"},
                )
            )
            writer.close()
            return
        self._num_connections += 1
        self._open[asyncio.current_task()] = writer
        connection = _Connection(self._engine, writer)
        try:
            while True:
                async with asyncio.timeout(IDLE_SECONDS):
                    event = await read_event(reader)
                if event is None:
                    break
                await connection.answer(event)
        except ProtocolError as error:
            with suppress(OSError, TimeoutError):
                await connection.send("error", {"text": str(error), "code": "protocol-error"})
        except (OSError, TimeoutError):
            LOG.debug("A Wyoming connection ended.")
        finally:
            self._num_connections -= 1
            del self._open[asyncio.current_task()]
            await connection.close()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


class _Connection:
    """Answers the events of one connection."""

    def __init__(self, engine: SpeechEngine, writer: asyncio.StreamWriter):
        self._engine = engine
        self._writer = writer
        self._stream: _TextStream | None = None

    async def answer(self, event: Event) -> None:
        try:
            await self._answer(event)
        except MyXTTSError as error:
            self._engine.metrics.count_request("wyoming", "error")
            await self._end_stream()
            await self.send("error", {"text": str(error), "code": type(error).__name__})

    async def _answer(self, event: Event) -> None:
        if event.type == "describe":
            await self.send("info", service_info(self._engine))
        elif event.type == "ping":
            await self.send("pong", {"text": event.data.get("text")})
        elif event.type == "synthesize" and self._stream is None:
            # While a stream is open this is the same text again, for servers that do not stream.
            text = _text_of(event)
            choice = choose_voice(self._engine, event.data.get("voice"))
            audio = _Audio(self, choice.voice.sample_rate)
            await self._speak(text, choice, audio)
            await audio.stop()
            self._engine.metrics.count_request("wyoming", "ok")
        elif event.type == "synthesize-start":
            await self._end_stream()
            self._stream = _TextStream(self, event.data.get("voice"))
            self._stream.start()
        elif event.type == "synthesize-chunk" and self._stream is not None:
            await self._stream.add(_text_of(event))
        elif event.type == "synthesize-stop" and self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.finish()
            await self.send("synthesize-stopped")
            self._engine.metrics.count_request("wyoming", "ok")

    async def speak_streamed(self, text: str, voice: Any, audio: _Audio | None) -> _Audio:
        """Speak a part of a streamed text."""
        choice = choose_voice(self._engine, voice)
        audio = audio or _Audio(self, choice.voice.sample_rate)
        await self._speak(text, choice, audio)
        return audio

    async def _speak(self, text: str, choice: Chosen, audio: _Audio) -> None:
        options = SpeechOptions(
            language=guess_language(text, choice.voice.languages), speaker=choice.speaker, starts_early=True
        )
        with self._engine.open(text, choice.voice, options) as speech:
            while (content := await speech.next(lambda spoken: samples_to_pcm(spoken.chunk.samples))) is not None:
                await audio.send(content)

    async def send(self, kind: str, data: dict[str, Any] | None = None, payload: bytes = b"") -> None:
        self._writer.write(write_event(kind, data, payload))
        async with asyncio.timeout(self._engine.settings.stalled_seconds):
            await self._writer.drain()

    async def close(self) -> None:
        await self._end_stream()

    async def _end_stream(self) -> None:
        if self._stream is not None:
            await self._stream.cancel()
            self._stream = None


class _Audio:
    """The audio events of one answer."""

    def __init__(self, connection: _Connection, sample_rate: int):
        self._connection = connection
        self._format = {"rate": sample_rate, "width": 2, "channels": 1}
        self._is_started = False

    async def send(self, content: bytes) -> None:
        if not self._is_started:
            self._is_started = True
            await self._connection.send("audio-start", self._format)
        for start in range(0, len(content), CHUNK_BYTES):
            await self._connection.send("audio-chunk", self._format, content[start : start + CHUNK_BYTES])

    async def stop(self) -> None:
        if self._is_started:
            await self._connection.send("audio-stop")


class _TextStream:
    """Speaks a text while it arrives."""

    def __init__(self, connection: _Connection, voice: Any):
        self._connection = connection
        self._voice = voice
        language = voice.get("language") if isinstance(voice, dict) else None
        self._buffer = SentenceBuffer(language if isinstance(language, str) else "en")
        self._texts: asyncio.Queue[str | None] = asyncio.Queue(QUEUED_TEXTS)
        self._task: asyncio.Task[None]

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def add(self, text: str) -> None:
        await self._put(self._buffer.add(text))

    async def finish(self) -> None:
        """Speak what is left; raises what went wrong since the start."""
        try:
            await self._put(self._buffer.finish())
            await self._put_until_taken(None)
            await self._task
        finally:
            await self.cancel()

    async def cancel(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError, MyXTTSError, OSError, TimeoutError):
            await self._task

    async def _put(self, text: str) -> None:
        if any(character.isalnum() for character in text):
            await self._put_until_taken(text)

    async def _put_until_taken(self, text: str | None) -> None:
        put = asyncio.ensure_future(self._texts.put(text))
        try:
            await asyncio.wait({put, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            put.cancel()
        if self._task.done():
            self._task.result()

    async def _run(self) -> None:
        audio: _Audio | None = None
        while (text := await self._texts.get()) is not None:
            audio = await self._connection.speak_streamed(text, self._voice, audio)
        if audio is not None:
            await audio.stop()


def _text_of(event: Event) -> str:
    text = event.data.get("text")
    if not isinstance(text, str):
        raise TextError(f"{event.type} needs a text. Received: {text!r:.60}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TextError("The text has half of a surrogate pair, which is not a character. Remove it.") from None
    return text


def choose_voice(engine: SpeechEngine, wanted: Any) -> Chosen:
    """The voice of a request: by name and speaker, by language, or the default."""
    wanted = wanted if isinstance(wanted, dict) else {}
    name, speaker, language = (
        value if isinstance(value := wanted.get(key), str) else None for key in ("name", "speaker", "language")
    )
    pool = engine.voices
    if name is not None:
        return pool.choose(f"{name}/{speaker}" if speaker and name in pool.loaded else name)
    if language is not None:
        for voice in pool.loaded.values():
            if match_language(language, voice.languages) in voice.languages:
                return Chosen(voice, None)
    return pool.choose(None)


@asynccontextmanager
async def run_wyoming(engine: SpeechEngine) -> AsyncIterator[None]:
    """Serve Wyoming inside the block, if the settings have a port for it."""
    settings = engine.settings
    if settings.wyoming_port is None:
        yield
        return
    wyoming = WyomingServer(engine)
    server = await asyncio.start_server(wyoming.handle, settings.host, settings.wyoming_port, limit=LONGEST_LINE)
    try:
        async with announced(settings.host, settings.wyoming_port, is_wanted=settings.announces_wyoming):
            yield
    finally:
        server.close()
        await wyoming.close()
