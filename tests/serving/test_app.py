"""A server on a real port: clients that leave, and an end that does not wait for them."""

import contextlib
import json
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` or `test` is not installed")

import uvicorn

from myxtts.serving.app import create_app
from myxtts.serving.settings import Settings
from myxtts.serving.wyoming_protocol import write_event

BOOK = "This is one sentence of a book. " * 500


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def server(pool):
    """The application and its two ports."""
    settings = Settings(port=free_port(), wyoming_port=free_port(), max_pending_characters=10**6)
    app = create_app(pool, settings)
    config = uvicorn.Config(app, port=settings.port, log_level="error", timeout_graceful_shutdown=1)
    process = uvicorn.Server(config)
    thread = threading.Thread(target=process.run, daemon=True)
    thread.start()
    wait_until(lambda: process.started and app.state.engine.is_ready)
    yield app
    process.should_exit = True
    thread.join(15)
    assert not thread.is_alive()


def wait_until(is_true, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def request_of(path: str, body: dict) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


@pytest.mark.parametrize(
    "body", [{"response_format": "pcm"}, {"stream_format": "sse"}, {"timestamps": True}], ids=["audio", "sse", "whole"]
)
def test_synthesis_stops_when_the_client_leaves(server, body):
    engine, settings = server.state.engine, server.state.settings
    with socket.create_connection(("127.0.0.1", settings.port)) as client:
        client.sendall(request_of("/v1/audio/speech", {"input": BOOK} | body))
        wait_until(lambda: engine.num_active == 1 and engine.pending_characters < len(BOOK))
    wait_until(lambda: engine.num_active == 0)
    assert engine.pending_characters == 0


def test_synthesis_stops_when_a_wyoming_client_leaves(server):
    engine, settings = server.state.engine, server.state.settings
    with socket.create_connection(("127.0.0.1", settings.wyoming_port)) as client:
        client.sendall(write_event("synthesize", {"text": BOOK}))
        assert client.recv(100)
        client.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: engine.num_active == 0)


def test_audio_of_a_long_text_begins_long_before_its_end(server):
    settings = server.state.settings
    with contextlib.closing(socket.create_connection(("127.0.0.1", settings.port))) as client:
        client.sendall(request_of("/v1/audio/speech", {"input": BOOK, "response_format": "pcm"}))
        received = b""
        while len(received) < 5000:
            received += client.recv(5000)
        assert server.state.engine.pending_characters > 0.5 * len(BOOK)


def test_the_page_of_the_interface_shows_every_route_and_loads_nothing(client):
    response = client.get("/docs")
    page = response.text
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    assert not any(tag in page for tag in ("<script", "<link", "<img", "http://", "https://", "@import"))
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            assert f'<span class="method">{method.upper()}</span>{path}</h3>' in page
    for field in ("response_format", "stream_format", "keep_recording", "noise_w_scale"):
        assert f"<code>{field}</code>" in page
    assert "number 0.25…4" in page
    assert "aac needs <code>pip install" in page
