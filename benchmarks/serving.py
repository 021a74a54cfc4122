"""First audio, throughput and robustness of a server: `python benchmarks/serving.py [--json FILE]`.

Starts `myxtts serve` on a free port of this machine. Measured: the first audio byte of a 60-word text, alone and with 8 clients
at once; seconds of audio per second with 8 clients, compared with the engine called directly, in turns; and thousands of damaged
or hostile requests (bodies, headers, uploads, Wyoming frames), after which the server must still answer, without a 5xx, a
traceback, or growing memory; `--only PART` measures one of the three. Uploads are decoded only if the voice can clone. Nothing
else should run meanwhile. What is counted in symbols or in processor time (`cpu`) also means something on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.harness import interleaved, print_table, ratio, write_json
from myxtts.runtime.worker_process import child_environment, module_command
from myxtts.serving.encoders import PCM_RATE
from myxtts.serving.wyoming_protocol import write_event
from myxtts.synthesis.bundled import bundled_voice
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.voice import Voice

TEXT = (
    "The morning train was late again, so we waited on the platform and talked about the weather. A man with a red umbrella "
    "asked us for the time. Nobody knew it, because the station clock had stopped years ago. When the train came at last, it "
    "was nearly empty. We sat by the window and watched the fields until evening."
)
"""60 words."""
PARTS = ("first", "throughput", "hostile")
CLIENTS = 8
FIRST_CHUNKS = 5
START_SECONDS = 600
ANSWER_SECONDS = 120
SETTLED_FRACTION = 0.2
"""Fraction of the hostile requests after which memory is compared: caches and thread stacks are filled by then."""
HOSTILE_AT_ONCE = 16


class Server(NamedTuple):
    """A running server."""

    process: psutil.Process
    port: int
    wyoming_port: int


class Answer(NamedTuple):
    """What came back for a request."""

    status: int
    """0: the connection was closed without one."""
    first_seconds: float
    """Seconds until the first byte of the body."""
    num_bytes: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--voice", metavar="DIR", type=Path, default=bundled_voice(), help="default: the bundled voice")
    parser.add_argument("--json", metavar="FILE", help="write the metrics as one flat JSON object")
    parser.add_argument("--requests", type=int, default=20, help="requests alone, and rounds of 8 clients")
    parser.add_argument("--rounds", type=int, default=5, help="turns of server and engine")
    parser.add_argument("--hostile", type=int, default=10_000, help="hostile requests")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part only (repeatable)")
    parser.add_argument("--workers", type=int, default=2, help="of the server")
    parser.add_argument("--seed", type=int, default=0, help="of the hostile requests")
    arguments = parser.parse_args()
    parts = arguments.only or PARTS
    with tempfile.TemporaryDirectory(prefix="myxtts-benchmark-") as folder:
        log = Path(folder) / "server.log"
        metrics: dict[str, float] = {}
        with started(arguments.voice, arguments.workers, Path(folder), log) as server:
            if "first" in parts:
                metrics |= first_chunk(arguments.voice) | starting(server, arguments.requests)
            if "throughput" in parts:
                metrics |= lasting(server, arguments.voice, arguments.rounds)
            if "hostile" in parts:
                metrics |= asyncio.run(enduring(server, arguments.hostile, arguments.seed))
        metrics["tracebacks"] = float(log.read_text(encoding="utf-8", errors="replace").count("Traceback"))
    rows = [(name, f"{value:.4g}") for name, value in metrics.items()]
    print_table("serving", ("", "value"), rows)
    write_json(arguments.json, metrics)
    return 0


@contextlib.contextmanager
def started(voice: Path, workers: int, folder: Path, log: Path) -> Iterator[Server]:
    """A server that is ready."""
    port, wyoming_port = free_port(), free_port()
    flags = [f"--voice={voice}", f"--port={port}", f"--wyoming={wyoming_port}", f"--workers={workers}"]
    command = module_command("myxtts.cli", "serve", *flags, f"--speakers={folder / 'speakers'}")
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, env=child_environment())
    try:
        deadline = time.monotonic() + START_SECONDS
        while asyncio.run(status_of(port, "/ready")) != 200:
            if time.monotonic() > deadline or child.poll() is not None:
                raise SystemExit(f"The server did not start:\n{log.read_text(encoding='utf-8', errors='replace')}")
            time.sleep(0.1)
        yield Server(psutil.Process(child.pid), port, wyoming_port)
    finally:
        child.terminate()
        child.wait(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# --- requests ---------------------------------------------------------------------------------------------------------


def request_of(method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    """The bytes of a request after whose answer the connection is closed."""
    fields = {"Host": "127.0.0.1", "Connection": "close", "Content-Length": str(len(body))} | (headers or {})
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def speech_request(text: str = TEXT, **fields: object) -> bytes:
    body = json.dumps({"model": "tts-1", "input": text, "response_format": "pcm", **fields}).encode()
    return request_of("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})


async def exchange(port: int, content: bytes, *, leaves_early: bool = False) -> Answer:
    """Send bytes and read the answer to its end, or leave at its first byte."""
    started_at = time.perf_counter()
    status, first, size = 0, 0.0, 0
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(content)
                await writer.drain()
                if leaves_early:
                    await reader.read(1)
                    return Answer(0, 0.0, 0)
                head = await reader.readuntil(b"\r\n\r\n")
                status = int(head.split(b" ", 2)[1])
                while part := await reader.read(1 << 16):
                    first = first or time.perf_counter() - started_at
                    size += len(part)
            finally:
                writer.close()
    except (OSError, ValueError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return Answer(status, first, size)
    return Answer(status, first, size)


async def status_of(port: int, path: str) -> int:
    return (await exchange(port, request_of("GET", path))).status


async def at_once(port: int, count: int) -> list[Answer]:
    return list(await asyncio.gather(*(exchange(port, speech_request()) for _ in range(count))))


# --- measurements -----------------------------------------------------------------------------------------------------


def first_chunk(folder: Path) -> dict[str, float]:
    """What must be spoken before anything can be sent, and the processor time of it by one thread of the engine."""
    voice = Voice.load(folder, 1)
    options = SpeechOptions(starts_early=True)
    chunk, spent = next(voice.say(TEXT, options)), []
    for _ in range(FIRST_CHUNKS):
        started_at = time.process_time()
        next(voice.say(TEXT, options))
        spent.append(time.process_time() - started_at)
    return {
        "first_chunk_symbols": float(len(chunk.symbols)),
        "first_chunk_audio_seconds": chunk.seconds,
        "first_chunk_cpu_ms": 1000 * statistics.median(spent),
    }


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def starting(server: Server, requests: int) -> dict[str, float]:
    """Milliseconds until the first audio byte."""
    asyncio.run(at_once(server.port, 2))  # warm
    alone = [asyncio.run(at_once(server.port, 1))[0].first_seconds for _ in range(requests)]
    together = [each.first_seconds for _ in range(requests) for each in asyncio.run(at_once(server.port, CLIENTS))]
    first, eight = statistics.median(alone), statistics.median(together)
    return {
        "first_byte_alone_ms": 1000 * first,
        f"first_byte_{CLIENTS}_clients_ms": 1000 * eight,
        f"first_byte_{CLIENTS}_clients_ratio": eight / first,
    }


def lasting(server: Server, folder: Path, rounds: int) -> dict[str, float]:
    """Seconds of audio per second: the server with 8 clients, and the engine called directly."""
    voice = Voice.load(folder)
    options = SpeechOptions(starts_early=True)
    used: dict[str, list[float]] = {"engine": [], "server": []}  # processor time per second of audio

    def speak_directly() -> float:
        started_at, cpu, seconds = time.perf_counter(), time.process_time(), 0.0
        for _ in range(CLIENTS):
            seconds += sum(chunk.seconds for chunk in voice.say(TEXT, options))
        used["engine"].append((time.process_time() - cpu) / seconds)
        return seconds / (time.perf_counter() - started_at)

    def speak_over_http() -> float:
        started_at, cpu = time.perf_counter(), cpu_seconds(server.process)
        answers = asyncio.run(at_once(server.port, CLIENTS))
        seconds = sum(each.num_bytes for each in answers) / (2 * PCM_RATE)
        used["server"].append((cpu_seconds(server.process) - cpu) / seconds)
        return seconds / (time.perf_counter() - started_at)

    rates = interleaved({"engine": speak_directly, "server": speak_over_http}, rounds)
    return {
        "engine_to_server_cpu": statistics.median(used["engine"]) / statistics.median(used["server"]),
        "engine_audio_seconds_per_second": statistics.median(rates["engine"]),
        "server_audio_seconds_per_second": statistics.median(rates["server"]),
        "server_to_engine": ratio(rates, "server", "engine").median,
    }


async def enduring(server: Server, count: int, seed: int) -> dict[str, float]:
    """Hostile requests: statuses, and how much memory grew after the first fifth of them."""
    generator = random.Random(seed)
    # What is loaded at first use is not growth: the encoders, and 20 MB of names of languages.
    for fields in ({"response_format": "mp3"}, {"response_format": "opus"}, {"language": "no language"}):
        await exchange(server.port, speech_request(**fields))
    statuses: dict[int, int] = {}
    settled_after = int(count * SETTLED_FRACTION)
    settled_bytes, done = server.process.memory_info().rss, 0
    while done < count:
        batch = [hostile_exchange(server, generator) for _ in range(min(HOSTILE_AT_ONCE, count - done))]
        for status in await asyncio.gather(*batch):
            statuses[status] = statuses.get(status, 0) + 1
        before, done = done, done + len(batch)
        memory_bytes = server.process.memory_info().rss
        if before < settled_after <= done:
            settled_bytes = memory_bytes
        if 10 * before // count < 10 * done // count:
            print(f"{done} hostile requests, {memory_bytes / 1e6:.1f} MB", flush=True)
    still_answers = (await exchange(server.port, speech_request())).status == 200
    final_bytes = server.process.memory_info().rss
    return {
        "hostile_requests": float(count),
        "hostile_5xx": float(sum(number for status, number in statuses.items() if status >= 500)),
        "hostile_4xx": float(sum(number for status, number in statuses.items() if 400 <= status < 500)),
        "hostile_2xx": float(sum(number for status, number in statuses.items() if 200 <= status < 300)),
        "answers_afterwards": float(still_answers),
        "memory_mb": final_bytes / 1e6,
        "memory_growth_percent": 100 * (final_bytes / settled_bytes - 1),
    }


async def hostile_exchange(server: Server, generator: random.Random) -> int:
    """Send one hostile request; the status of its answer, 0 if there is none."""
    kind = generator.choice((bodies, headers, uploads, garbage, wyoming_frames, leaving))
    return await kind(server, generator)


def junk(generator: random.Random, most: int = 200) -> bytes:
    return generator.randbytes(generator.randrange(most))


def value(generator: random.Random, depth: int = 2) -> object:
    """Any value of JSON."""
    simple = (
        None,
        True,
        -1,
        1e308,
        10**30,
        "",
        "alloy",
        "\u0000",
        "\ud800",
        "../../etc/passwd",
        "<speak>",
        "ا" * 50,
        "🙂" * 30,
    )
    if depth and generator.random() < 0.2:
        return {str(value(generator, 0)): value(generator, depth - 1)}
    if depth and generator.random() < 0.2:
        return [value(generator, depth - 1)] * generator.randrange(4)
    return generator.choice(simple)


async def bodies(server: Server, generator: random.Random) -> int:
    fields = (
        "input",
        "text",
        "voice",
        "model",
        "speed",
        "response_format",
        "stream_format",
        "sample_rate",
        "language",
        "steps",
    )
    body = {"input": "hi", "text": "hi"} | {
        generator.choice(fields): value(generator) for _ in range(generator.randrange(1, 4))
    }
    content = json.dumps(body).encode()
    if generator.random() < 0.3:
        content = generator.choice((content[:-3], b"[" * 50_000, junk(generator), b"{" + content, b"\xff" + content))
    path = generator.choice(("/v1/audio/speech", "/synthesize", "/v1/audio/speakers", "/v1/models", "/nowhere"))
    return (await exchange(server.port, request_of("POST", path, content, {"Content-Type": "application/json"}))).status


async def headers(server: Server, generator: random.Random) -> int:
    names = (
        "Host",
        "Origin",
        "Authorization",
        "Content-Type",
        "Content-Length",
        "Transfer-Encoding",
        "Range",
        "X-A",
        "Accept",
    )
    values = (
        "evil.example",
        "null",
        "*",
        "-1",
        "9" * 30,
        "chunked",
        "bytes=0-,0-,0-",
        "a" * 5000,
        "é",
        "multipart/form-data",
    )
    extra = {generator.choice(names): generator.choice(values) for _ in range(generator.randrange(1, 4))}
    method = generator.choice(("GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD", "X"))
    path = generator.choice(
        ("/health", "/v1/audio/voices", "/metrics", "/docs", "/v1/audio/speakers/..%2f..%2fx", "/%00", "/?a=%ff")
    )
    return (await exchange(server.port, request_of(method, path, b"", extra))).status


async def uploads(server: Server, generator: random.Random) -> int:
    name = generator.choice(("carl", "../x", "", "a\x00b", "x" * 300))
    content = generator.choice(
        (b"", b"RIFF" + junk(generator, 2000), b"fLaC" + junk(generator), b"OggS" + junk(generator, 2000))
    )
    part = (
        f'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n{name}\r\n--x\r\n'
        'Content-Disposition: form-data; name="file"; filename="../a.wav"\r\n\r\n'
    )
    body = part.encode("utf-8", "replace") + content + b"\r\n--x--\r\n"
    if generator.random() < 0.5:
        body = body[: generator.randrange(len(body))]
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    return (await exchange(server.port, request_of("POST", "/v1/audio/speakers", body, kind))).status


async def garbage(server: Server, generator: random.Random) -> int:
    content = generator.choice(
        (junk(generator) + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 50, b"\x16\x03\x01" + junk(generator))
    )
    return (await exchange(server.port, content + b"\r\n\r\n", leaves_early=generator.random() < 0.5)).status


async def wyoming_frames(server: Server, generator: random.Random) -> int:
    kinds = (
        "describe",
        "synthesize",
        "synthesize-start",
        "synthesize-chunk",
        "synthesize-stop",
        "ping",
        "audio-chunk",
        "x",
    )
    parts = []
    for _ in range(generator.randrange(1, 5)):
        data = {generator.choice(("text", "voice", "x")): value(generator)}
        parts.append(write_event(generator.choice(kinds), data, junk(generator, 20)))
    if generator.random() < 0.3:
        parts.append(
            generator.choice((junk(generator), b"[]\n", b'{"type":"x","data_length":999999999}\n', b"[" * 70_000))
        )
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.wyoming_port)
        try:
            writer.write(b"".join(parts))
            writer.write_eof()
            async with asyncio.timeout(ANSWER_SECONDS):
                while await reader.read(1 << 16):
                    pass
        finally:
            writer.close()
    return 0


async def leaving(server: Server, generator: random.Random) -> int:
    """A client that leaves at the first byte, or in the middle of its own request."""
    content = speech_request(
        TEXT, stream_format=generator.choice(("audio", "sse")), timestamps=generator.random() < 0.3
    )
    if generator.random() < 0.5:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(content[: generator.randrange(len(content))])
        await writer.drain()
        writer.close()
        return 0
    return (await exchange(server.port, content, leaves_early=True)).status


if __name__ == "__main__":
    sys.exit(main())
