"""Cloning over HTTP: recordings become named speakers, and nothing else is stored."""

import io
import shutil

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="the extra `serve` or `test` is not installed")

from myxtts.audio.files import write_audio
from tests.synthesis.tiny_voice import write_recording

SPEAKERS = "/v1/audio/speakers"


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> bytes:
    return write_recording(tmp_path_factory.mktemp("reference") / "a.wav").read_bytes()


def upload(client, content: bytes, name: str = "carl", **fields):
    return client.post(SPEAKERS, files={"file": ("../../x.wav", content)}, data={"name": name, **fields})


def test_a_recording_becomes_a_speaker_that_speaks_and_can_be_deleted(client, recording, tmp_path):
    answer = upload(client, recording)
    assert answer.status_code == 201
    assert answer.json() | {"created": 0} == {
        "id": "carl", "name": "carl", "voice": "duo", "created": 0, "has_recording": False
    }  # fmt: skip
    assert [path.suffix for path in (tmp_path / "speakers").iterdir()] == [".json"]
    assert [each["id"] for each in client.get(SPEAKERS).json()["speakers"]] == ["carl"]
    assert "carl" in [each["id"] for each in client.get("/v1/audio/voices").json()["voices"]]
    assert client.post("/v1/audio/speech", json={"input": "hello", "voice": "carl"}).status_code == 200
    assert client.delete(f"{SPEAKERS}/carl").json()["deleted"] is True
    assert list((tmp_path / "speakers").iterdir()) == []
    assert client.delete(f"{SPEAKERS}/carl").status_code == 404


def test_the_recording_is_kept_only_if_asked(client, recording, tmp_path):
    assert upload(client, recording, keep_recording="true").json()["has_recording"] is True
    assert sorted(path.suffix for path in (tmp_path / "speakers").iterdir()) == [".json", ".wav"]
    client.delete(f"{SPEAKERS}/carl")
    assert list((tmp_path / "speakers").iterdir()) == []


def test_a_name_is_given_once(client, recording):
    assert upload(client, recording).status_code == 201
    again = upload(client, recording)
    assert again.status_code == 400
    assert again.json()["error"]["param"] == "name"


def encoded(samples: np.ndarray, rate: int, format: str = "wav") -> bytes:
    stream = io.BytesIO()
    write_audio(stream, samples, rate, format)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be decoded"),
        (b"not audio at all" * 100, "cannot be decoded"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "cannot be decoded"),
        (encoded(np.zeros(16000), 16000), "silent"),
        (encoded(np.full(800, 0.5), 16000), "only 0.05 s"),
    ],
    ids=["empty", "text", "playlist", "silence", "short"],
)
def test_what_is_no_speech_is_refused_with_a_reason_and_without_paths(client, content, message):
    answer = upload(client, content)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert message in error["message"]
    assert "/" not in error["message"]


def test_hours_of_silence_in_a_small_file_are_decoded_only_at_their_beginning(client):
    bomb = encoded(np.zeros(24_000_000, np.float32), 8000, "flac")  # 50 minutes
    assert len(bomb) < 1_000_000
    assert "silent" in upload(client, bomb).json()["error"]["message"]


def test_a_server_without_a_folder_or_a_voice_for_it_does_not_clone(serve, client, recording, pool):
    assert upload(client, recording, voice="solo").status_code == 400
    assert upload(client, recording, voice="nobody").status_code == 404
    pool._speakers_folder = None
    assert upload(serve(), recording).json()["error"]["code"] == "cloning_off"


def test_a_speaker_that_cannot_be_stored_is_an_error_and_not_a_speaker(client, recording, tmp_path):
    shutil.rmtree(tmp_path / "speakers")
    assert upload(client, recording).status_code == 400
    assert client.get(SPEAKERS).json() == {"speakers": []}
