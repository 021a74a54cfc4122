"""Servers with tiny voices."""

import socket

import pytest


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="session")
def voices(tmp_path_factory):
    """`solo` has one speaker, `duo` has two and can clone."""
    from myxtts.synthesis.voice import Voice
    from tests.synthesis.tiny_voice import write_voice

    folder = tmp_path_factory.mktemp("served")
    solo = write_voice(folder / "solo")
    duo = write_voice(folder / "duo", ("anna", "ben"), languages=("en", "fa"))
    return {"solo": Voice.load(solo, 1), "duo": Voice.load(duo, 1)}


@pytest.fixture
def pool(voices, tmp_path):
    from myxtts.serving.voices import VoicePool

    folder = tmp_path / "speakers"
    folder.mkdir()
    return VoicePool(voices, folder)


@pytest.fixture
def serve(pool):
    """A function that starts an application with settings and returns its client."""
    from fastapi.testclient import TestClient

    from myxtts.serving.app import create_app
    from myxtts.serving.settings import Settings

    clients = []

    def start(**settings):
        client = TestClient(create_app(pool, Settings(**settings)), base_url="http://localhost")
        clients.append(client.__enter__())
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serve, tmp_path):
    return serve(speakers_folder=tmp_path / "speakers", keeps_recordings=True)
