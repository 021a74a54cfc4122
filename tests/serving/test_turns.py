"""Turns: a short request never waits for a long text, and text without a reader is not spoken."""

import asyncio
import threading

import pytest

pytest.importorskip("prometheus_client", reason="the extra `serve` or `test` is not installed")

from myxtts.errors import TextError
from myxtts.serving.settings import Settings
from myxtts.serving.turns import BusyError, SpeechEngine, TurnQueue
from myxtts.synthesis.options import SpeechOptions

BOOK = "This is one sentence of a book. " * 30


@pytest.fixture
def engine(pool):
    engine = SpeechEngine(pool, Settings(workers=1, max_requests=3, max_characters=2000, max_pending_characters=2500))
    yield engine
    engine.close()


def open_text(engine, text):
    return engine.open(text, engine.voices.loaded["solo"], SpeechOptions())


async def drain(speech, log, name):
    with speech:
        while await speech.next(lambda spoken: spoken) is not None:
            log.append(name)


def test_a_short_request_is_spoken_after_at_most_one_sentence_of_each_book(engine):
    async def run():
        log = []
        books = [asyncio.create_task(drain(open_text(engine, BOOK), log, name)) for name in ("a", "b")]
        while len(log) < 6:
            await asyncio.sleep(0.001)
        start = len(log)
        await drain(open_text(engine, "Hello."), log, "short")
        for task in books:
            task.cancel()
        await asyncio.gather(*books, return_exceptions=True)
        return log[start : log.index("short")]

    waited_for = asyncio.run(run())
    assert waited_for.count("a") <= 2
    assert waited_for.count("b") <= 2


def test_equal_requests_get_equal_turns(engine):
    async def run():
        log = []
        await asyncio.gather(*(drain(open_text(engine, BOOK[:640]), log, name) for name in ("a", "b")))
        return log

    log = asyncio.run(run())
    for end in range(len(log)):
        assert abs(log[:end].count("a") - log[:end].count("b")) <= 2


def test_speech_that_is_closed_stops_and_frees_its_characters(engine):
    async def run():
        speech = open_text(engine, BOOK)
        assert await speech.next(lambda spoken: spoken) is not None
        speech.close()
        speech.close()
        return await speech.next(lambda spoken: spoken)

    assert asyncio.run(run()) is None
    assert engine.pending_characters == 0
    assert engine.num_active == 0


def test_the_limits_refuse_what_is_too_long_or_too_much(engine):
    with pytest.raises(TextError, match="2,001 characters"):
        open_text(engine, "x" * 2001)
    with open_text(engine, "x" * 2000), pytest.raises(BusyError) as refused:
        open_text(engine, "x" * 501)
    assert 1 <= refused.value.retry_after_seconds <= 60
    speeches = [open_text(engine, "x") for _ in range(3)]
    with pytest.raises(BusyError, match="3 requests"):
        open_text(engine, "x")
    for speech in speeches:
        speech.close()
    open_text(engine, "x").close()


def test_a_canceled_turn_does_not_hold_up_the_others():
    async def run():
        turns = TurnQueue(workers=1)
        begun, go_on = threading.Event(), threading.Event()

        def hold():
            begun.set()
            go_on.wait(10)

        first = asyncio.create_task(turns.run(0.0, hold))
        await asyncio.to_thread(begun.wait, 10)
        waiting = asyncio.create_task(turns.run(0.0, lambda: "never"))
        last = asyncio.create_task(turns.run(1.0, lambda: "last"))
        await asyncio.sleep(0)
        waiting.cancel()
        first.cancel()  # it is running: its thread must end before the next turn
        await asyncio.sleep(0.01)
        assert not last.done()
        go_on.set()
        result = await asyncio.wait_for(last, 10)
        turns.close()
        return result

    assert asyncio.run(run()) == "last"
