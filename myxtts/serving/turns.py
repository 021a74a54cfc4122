"""The voices of a server, and the turns of its requests: one sentence at a time, the request that was served least first.

The order is start-time fair queueing (Goyal, Vin and Cheng, 1996): each request has a tag, which grows by the seconds of audio
that it received. A new request starts at the tag served last, so it is next, and no request is passed over forever.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from myxtts.errors import MyXTTSError, TextError
from myxtts.serving.settings import Settings
from myxtts.serving.voices import VoicePool
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.timings import TimedWord
from myxtts.synthesis.voice import Chunk, Voice

Result = TypeVar("Result")
WARM_UP_TEXT = "Ready."
FIRST_GUESS_SECONDS_PER_CHARACTER = 0.005
"""Assumed until something has been measured: 70 ms of speech per character at a real-time factor of 0.07."""
LONGEST_RETRY_SECONDS = 60
MEASURED_WEIGHT = 0.1
"""Weight of the newest sentence in the moving average of the speed."""
FIRST_AUDIO_SECONDS = (0.05, 0.1, 0.15, 0.25, 0.5, 1, 2, 4, 8, 16)
TOTAL_SECONDS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 60, 300)


class BusyError(MyXTTSError):
    """The server has as much to do as it accepts."""

    def __init__(self, message: str, retry_after_seconds: int):
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Spoken(NamedTuple):
    """One spoken piece, with its words if they were asked for."""

    chunk: Chunk
    words: tuple[TimedWord, ...]


class TurnQueue:
    """Runs work in threads, in the order of the tags."""

    def __init__(self, workers: int):
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="speech")
        self._free = workers
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self.current_tag = 0.0
        """Tag of the work that was started last, where a new request begins."""

    @property
    def num_waiting(self) -> int:
        """Requests that wait for their turn."""
        return sum(1 for *_, turn in self._waiting if not turn.done())

    async def run(self, tag: float, work: Callable[[], Result]) -> Result:
        """The result of `work`, called in a thread when it is the turn of `tag`.

        If the caller is canceled, work that has not begun is dropped; work that has begun ends first.
        """
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        heapq.heappush(self._waiting, (tag, next(self._order), turn))
        self._start_next()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            raise
        future: Future[Result] = self._executor.submit(work)
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._release))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """End the threads after the sentences that they are speaking."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _release(self) -> None:
        self._free += 1
        self._start_next()

    def _start_next(self) -> None:
        while self._free and self._waiting:
            tag, _, turn = heapq.heappop(self._waiting)
            if not turn.done():  # otherwise the caller has left
                self._free -= 1
                self.current_tag = max(self.current_tag, tag)
                turn.set_result(None)


class Metrics:
    """What a server counts, in Prometheus' text format."""

    def __init__(self):
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tts_requests", "Requests by interface and status.", ("interface", "status"), registry=self._registry
        )
        self.first_audio_seconds = Histogram(
            "tts_first_audio_seconds",
            "From a text to its first audio.",
            buckets=FIRST_AUDIO_SECONDS,
            registry=self._registry,
        )
        self.total_seconds = Histogram(
            "tts_speech_seconds", "From a text to its last audio.", buckets=TOTAL_SECONDS, registry=self._registry
        )
        self.audio_seconds = Counter("tts_audio_seconds", "Seconds of audio produced.", registry=self._registry)
        self.synthesis_seconds = Counter(
            "tts_synthesis_seconds",
            "Seconds spent on it; divided by tts_audio_seconds_total: the real-time factor.",
            registry=self._registry,
        )
        self.characters = Counter("tts_characters", "Characters spoken.", registry=self._registry)
        self.refused = Counter("tts_refused", "Texts refused because the server was busy.", registry=self._registry)

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """A gauge that is read when the metrics are."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def count_request(self, interface: str, status: int | str) -> None:
        """Count an answered request."""
        self._requests.labels(interface, str(status)).inc()

    def to_text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)


class SpeechEngine:
    """Speaks the texts of all requests with the voices of a pool."""

    def __init__(self, voices: VoicePool, settings: Settings):
        self.voices = voices
        self.settings = settings
        self.turns = TurnQueue(settings.workers)
        self.metrics = Metrics()
        self.is_ready = False
        self.warm_up_error: str | None = None
        self.num_active = 0
        self.pending_characters = 0
        self._seconds_per_character = FIRST_GUESS_SECONDS_PER_CHARACTER
        self.metrics.watch("tts_queue_depth", "Requests that wait for their turn.", lambda: self.turns.num_waiting)
        self.metrics.watch("tts_active_requests", "Texts that are being spoken.", lambda: self.num_active)

    async def warm_up(self) -> None:
        """Speak a word with every voice: the first sentence of a process takes longer than others."""
        for voice in self.voices.loaded.values():
            await self.run_now(lambda voice=voice: list(voice.say(_speakable(voice))))
        self.is_ready = True

    async def run_now(self, work: Callable[[], Result]) -> Result:
        """The result of other work (cloning), done in the next turn."""
        return await self.turns.run(self.turns.current_tag, work)

    def open(self, text: str, voice: Voice, options: SpeechOptions, *, has_words: bool = False) -> Speech:
        """Accept a text, or raise a `TextError` (too long) or a `BusyError`. What is returned must be closed."""
        limits = self.settings
        if len(text) > limits.max_characters:
            raise TextError(
                f"The text has {len(text):,} characters; this server speaks at most {limits.max_characters:,} at once. "
                "Split it into parts."
            )
        is_full = self.num_active >= limits.max_requests
        if is_full or self.pending_characters + len(text) > limits.max_pending_characters:
            self.metrics.refused.inc()
            what = f"{self.num_active} requests with {self.pending_characters:,} characters"
            raise BusyError(f"The server is speaking {what}, its limit. Try again later.", self.retry_after_seconds())
        return Speech(self, text, voice, options, has_words)

    def retry_after_seconds(self) -> int:
        """When the shortest of equally long requests will be done, in whole seconds."""
        seconds = self.pending_characters * self._seconds_per_character / max(1, self.num_active)
        return min(LONGEST_RETRY_SECONDS, max(1, round(seconds)))

    def count(self, chunk: Chunk, seconds: float) -> None:
        """Count a chunk that took `seconds` to make."""
        self.metrics.audio_seconds.inc(chunk.seconds)
        self.metrics.synthesis_seconds.inc(seconds)
        self.metrics.characters.inc(len(chunk.text))
        if chunk.text:
            difference = seconds / len(chunk.text) - self._seconds_per_character
            self._seconds_per_character += MEASURED_WEIGHT * difference

    def close(self) -> None:
        """End the threads."""
        self.turns.close()


class Speech:
    """One text that is being spoken, sentence by sentence. It counts against the limits until `close`."""

    def __init__(self, engine: SpeechEngine, text: str, voice: Voice, options: SpeechOptions, has_words: bool):
        self.voice = voice
        self.text = text
        self._engine = engine
        self._options = options
        self._has_words = has_words
        self._chunks: Iterator[Chunk] | None = None
        self._tag = 0.0
        self._opened = time.perf_counter()
        self._has_audio = False
        self._remaining_characters = len(text)
        self._is_open = True
        engine.num_active += 1
        engine.pending_characters += len(text)

    async def next(self, convert: Callable[[Spoken], Result]) -> Result | None:
        """The next sentence, converted in the same thread (encoded, for example); None at the end.

        The first call raises what is wrong with the text or the options.
        """
        tag = max(self._tag, self._engine.turns.current_tag)
        result = await self._engine.turns.run(tag, lambda: self._speak(convert))
        if result is None:
            self._engine.metrics.total_seconds.observe(time.perf_counter() - self._opened)
            return None
        converted, chunk, seconds = result
        if not self._has_audio:
            self._has_audio = True
            self._engine.metrics.first_audio_seconds.observe(time.perf_counter() - self._opened)
        self._tag = tag + chunk.seconds
        self._engine.count(chunk, seconds)
        self._count_down(len(chunk.text))
        return converted

    def close(self) -> None:
        """Stop speaking; may be called twice."""
        if self._is_open:
            self._is_open = False
            self._count_down(self._remaining_characters)
            self._engine.num_active -= 1

    def __enter__(self) -> Speech:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _speak(self, convert: Callable[[Spoken], Result]) -> tuple[Result, Chunk, float] | None:
        started = time.perf_counter()
        if not self._is_open:  # the client left while this waited for a thread
            return None
        if self._chunks is None:
            self._chunks = self.voice.say(self.text, self._options)
        chunk = next(self._chunks, None)
        if chunk is None:
            return None
        words = tuple(self.voice.words_of(chunk)) if self._has_words else ()
        return convert(Spoken(chunk, words)), chunk, time.perf_counter() - started

    def _count_down(self, characters: int) -> None:
        characters = min(characters, self._remaining_characters)
        self._remaining_characters -= characters
        self._engine.pending_characters -= characters


def _speakable(voice: Voice) -> str:
    """A short text that the voice can speak: its own letters if it does not have ours."""
    names = voice.description.symbols
    letters = [symbol for symbol in names if symbol.isalpha() and len(symbol) == 1]
    return WARM_UP_TEXT if voice.speaks_phonemes or "a" in letters else "".join(letters[:5])
