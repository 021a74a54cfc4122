"""What is refused before it reaches a route."""

import asyncio

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` or `test` is not installed")

from myxtts.serving.guard import Guard, host_name
from myxtts.serving.settings import Settings

SPEECH = "/v1/audio/speech"


@pytest.mark.parametrize(
    ("host", "is_served"),
    [
        ("localhost", True),
        ("LOCALHOST:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("192.168.1.5", True),
        ("speech.example.org:443", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        ("127.0.0.1.evil.example:8000", False),
        ("[::1", True),
        ("a:b:c", False),
    ],
)
def test_only_known_hosts_and_addresses_are_served(serve, host, is_served):
    client = serve(allowed_hosts=("speech.example.org",))
    response = client.get("/health", headers={"host": host})
    assert response.status_code == (200 if is_served else 403)


def test_the_name_of_a_host_is_without_its_port():
    assert [host_name(each) for each in ("A.b:80", "[::1]:80", "::1", "1.2.3.4")] == ["a.b", "::1", "::1", "1.2.3.4"]


@pytest.mark.parametrize(
    ("origin", "is_served"),
    [
        ("http://localhost", True),
        ("https://page.example", True),
        ("http://localhost:3000", False),
        ("https://evil.example", False),
        ("null", False),
        ("http://[", False),
    ],
)
def test_only_pages_of_this_server_and_allowed_ones_may_call(serve, origin, is_served):
    client = serve(allowed_origins=("https://page.example",))
    response = client.get("/health", headers={"origin": origin})
    assert response.status_code == (200 if is_served else 403)
    assert ("access-control-allow-origin" in response.headers) == (origin == "https://page.example")
    assert "access-control-allow-credentials" not in response.headers


def test_a_key_is_needed_except_for_health_and_the_lists_of_voices_and_models(serve):
    client = serve(api_keys=("first", "sécond"))
    body = {"input": "hello"}
    for header in (None, "Bearer wrong", "first", "Basic first", "Bearer "):
        headers = {} if header is None else {"authorization": header}
        response = client.post(SPEECH, json=body, headers=headers)
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"
    assert client.post(SPEECH, json=body, headers={"authorization": "Bearer first"}).status_code == 200
    assert client.post(SPEECH, json=body, headers={"authorization": "bearer sécond".encode()}).status_code == 200
    assert client.get("/metrics").status_code == 401
    for path in ("/health", "/ready", "/v1/audio/voices", "/v1/audio/models"):
        assert client.get(path).status_code in (200, 503)


def test_a_body_that_is_too_large_is_refused_with_or_without_a_stated_length(serve):
    client = serve(max_body_bytes=1000)
    large = b'{"input": "' + b"x" * 2000 + b'"}'
    stated = client.post(SPEECH, content=large, headers={"content-type": "application/json"})
    assert stated.status_code == 413
    chunked = client.post(
        SPEECH, content=iter([large[:900], large[900:]]), headers={"content-type": "application/json"}
    )
    assert chunked.status_code == 413
    assert chunked.json()["error"]["code"] == "request_too_large"


def run_guard(app, receive, **settings) -> list[dict]:
    """The messages that a guarded application sends."""
    sent: list[dict] = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"host", b"localhost")]}
    guard = Guard(app, Settings(**settings), lambda route, status: None)
    asyncio.run(guard(scope, receive, send))
    return sent


def test_a_body_that_does_not_arrive_times_out():
    async def app(scope, receive, send):
        await receive()

    async def never():
        await asyncio.sleep(60)

    sent = run_guard(app, never, body_seconds=0.05)
    assert sent[0]["status"] == 408


def test_a_client_that_does_not_read_is_left():
    failures = []

    async def app(scope, receive, send):
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        except OSError as error:
            failures.append(str(error))

    async def stalled_send(message):
        await asyncio.sleep(60)

    async def nothing():
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    guard = Guard(app, Settings(stalled_seconds=0.05), lambda route, status: None)
    asyncio.run(guard(scope, nothing, stalled_send))
    assert failures == ["The client has not read for 0.05 s."]
