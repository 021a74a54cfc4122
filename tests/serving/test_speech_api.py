"""OpenAI's interface: what clients send and expect."""

import base64
import io
import itertools
import json
import subprocess
import sys
import time
import wave

import pytest

pytest.importorskip("httpx2", reason="the extra `serve` or `test` is not installed")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from myxtts.errors import VoiceError
from myxtts.serving.encoders import FORMATS
from tests.pyav import WITHOUT_PYAV

SPEECH = "/v1/audio/speech"


def error_of(response) -> dict:
    """The error of an answer; fails unless it has OpenAI's shape."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def events_of(response) -> list[dict]:
    return [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line]


def test_the_default_is_mp3_marked_as_synthetic(client):
    response = client.post(SPEECH, json={"model": "tts-1", "input": "hello there", "voice": "alloy"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "audio/mpeg"
    assert response.headers["x-synthetic-speech"] == "true"
    assert response.content[0] == 0xFF


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_every_format_has_its_content_type(client, format):
    if format == "aac":
        pytest.importorskip("av", reason=WITHOUT_PYAV)
    response = client.post(SPEECH, json={"input": "hello", "response_format": format})
    assert response.headers["content-type"] == FORMATS[format].content_type
    assert len(response.content) > 100


def test_expressiveness_of_a_voice_without_pitch_is_one_clear_error(client):
    response = client.post(SPEECH, json={"input": "hello", "expressiveness": 1.5})
    assert response.status_code == 400
    assert error_of(response)["param"] == "expressiveness"


def test_speed_and_speaker_change_the_audio_and_the_seed_repeats_it(client):
    def spoken(**fields) -> bytes:
        return client.post(SPEECH, json={"input": "hello there", "response_format": "pcm", **fields}).content

    assert spoken() == spoken(voice="solo")
    assert len(spoken(speed=0.5)) > 1.4 * len(spoken())
    assert spoken(voice="duo/anna") != spoken(voice={"id": "duo/ben"})
    assert spoken(seed=1) != spoken(seed=2)


def test_ignored_instructions_are_reported(client):
    response = client.post(SPEECH, json={"input": "hello", "instructions": "speak slowly"})
    assert response.headers["x-ignored-fields"] == "instructions"


def test_events_carry_the_same_audio_and_end_with_the_usage(client):
    body = {"input": "hello there. and you?", "response_format": "pcm"}
    whole = client.post(SPEECH, json=body).content
    response = client.post(SPEECH, json=body | {"stream_format": "sse", "timestamps": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_of(response)
    audio = b"".join(base64.b64decode(each["audio"]) for each in events if each["type"] == "speech.audio.delta")
    assert audio == whole
    assert events[-1]["type"] == "speech.audio.done"
    assert events[-1]["usage"]["total_tokens"] == sum(list(events[-1]["usage"].values())[:2])
    words = [word for each in events if each["type"] == "speech.timestamps" for word in each["timestamps"]]
    assert [each["word"] for each in words] == ["hello", "there.", "and", "you?"]
    assert all(first["end_time"] <= second["start_time"] for first, second in itertools.pairwise(words))


def test_timestamps_are_an_object_with_audio_and_words(client):
    body = {"input": "hello there", "timestamps": True, "response_format": "wav"}
    answer = client.post(SPEECH, json=body).json()
    assert [each["word"] for each in answer["timestamps"]] == ["hello", "there"]
    assert answer["timeline"]["seconds"] >= answer["timestamps"][-1]["end_time"]
    with wave.open(io.BytesIO(base64.b64decode(answer["audio"]))) as file:
        assert file.getframerate() == answer["sample_rate"] == 8000


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"input": ""}, 400, "input"),
        ({"input": "☃"}, 400, "input"),
        ({"input": "<speak>x"}, 400, "input"),
        ({"input": None}, 400, "input"),
        ({"speed": 9}, 400, "speed"),
        ({"speed": True}, 400, "speed"),
        ({"response_format": "midi"}, 400, "response_format"),
        ({"voice": "nobody"}, 400, "voice"),
        ({"language": "xx"}, 400, "language"),
        ({"model": "gpt-5"}, 404, "model"),
        ({"sample_rate": 5}, 400, "sample_rate"),
    ],
)
def test_mistakes_are_answered_in_openais_shape(client, change, status, param):
    response = client.post(SPEECH, json={"input": "hello"} | change)
    assert response.status_code == status
    error = error_of(response)
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert client.app.state.engine.num_active == 0


def test_a_format_whose_package_is_missing_is_an_error_that_says_what_to_do(client, monkeypatch):
    monkeypatch.setattr("myxtts.serving.speech_api.is_available", lambda name: name != "aac")
    error = error_of(client.post(SPEECH, json={"input": "hello", "response_format": "aac"}))
    assert (error["param"], error["code"]) == ("response_format", "format_not_available")
    assert "pip install '.[aac]'" in error["message"]
    assert client.app.state.engine.num_active == 0


def test_wrong_paths_methods_and_json_have_the_same_shape(client):
    assert error_of(client.get("/nowhere"))["code"] == "not_found"
    response = client.put("/v1/audio/speakers")
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == {"GET", "POST"}
    assert (
        "not valid JSON"
        in error_of(client.post(SPEECH, content=b"{", headers={"content-type": "application/json"}))["message"]
    )


def test_too_much_is_refused_with_the_time_to_wait(serve):
    client = serve(max_requests=1, max_characters=50)
    engine = client.app.state.engine
    assert client.post(SPEECH, json={"input": "x" * 51}).status_code == 400
    engine.num_active = 1
    response = client.post(SPEECH, json={"input": "hello"})
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1
    assert error_of(response)["type"] == "rate_limit_error"
    engine.num_active = 0
    assert client.post(SPEECH, json={"input": "hello"}).status_code == 200


def test_models_and_voices_have_the_shapes_that_clients_read(client):
    models = client.get("/v1/models").json()
    assert models["object"] == "list"
    assert {"myxtts", "tts-1"} <= {each["id"] for each in models["data"]}
    assert client.get("/v1/models/tts-1").json()["object"] == "model"
    assert client.get("/v1/models/x").status_code == 404
    voices = client.get("/v1/audio/voices").json()["voices"]
    assert [each["id"] for each in voices] == ["solo", "duo", "duo/anna", "duo/ben"]
    assert all(each["name"] for each in voices)


def readiness_of(client):
    """The answer of /ready when the warm-up has ended."""
    deadline = time.monotonic() + 60
    while (ready := client.get("/ready")).json()["status"] == "warming up" and time.monotonic() < deadline:
        time.sleep(0.05)
    return ready


def test_a_voice_that_cannot_be_warmed_up_is_named_by_ready(serve, monkeypatch):
    def fail(*_, **__):
        raise VoiceError("The voice solo is damaged.")

    monkeypatch.setattr("myxtts.synthesis.voice.Voice.say", fail)
    response = readiness_of(serve())
    assert response.status_code == 503
    assert response.json() == {"status": "failed", "message": "The voice solo is damaged."}


def test_health_readiness_metrics_and_the_schema(client):
    assert client.get("/health").json() == {"status": "ok"}
    client.post(SPEECH, json={"input": "hello"})
    metrics = client.get("/metrics").text
    assert 'tts_requests_total{interface="/v1/audio/speech",status="200"} 1.0' in metrics
    assert "tts_first_audio_seconds_count 1.0" in metrics
    assert readiness_of(client).status_code == 200
    schema = client.get("/openapi.json").json()
    assert "/v1/audio/speech" in schema["paths"]
    assert all("422" not in operation["responses"] for path in schema["paths"].values() for operation in path.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=5,
)
FIELDS = (
    "input",
    "text",
    "voice",
    "model",
    "speed",
    "response_format",
    "stream_format",
    "sample_rate",
    "seed",
    "speaker_id",
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([SPEECH, "/synthesize", "/v1/audio/speakers"]),
    body=st.binary(max_size=50)
    | st.dictionaries(st.sampled_from(FIELDS), JSON).map(lambda value: json.dumps(value).encode()),
    content_type=st.sampled_from(["application/json", "multipart/form-data; boundary=x", "text/plain", "a" * 200]),
)
def test_no_body_makes_the_server_fail(client, path, body, content_type):
    response = client.post(path, content=body, headers={"content-type": content_type})
    assert response.status_code < 500
    if response.status_code >= 400:
        error_of(response)
    assert client.app.state.engine.num_active == 0


def test_serving_does_not_import_tensorflow():
    code = (
        "import sys, myxtts.serving.app, myxtts.commands.serve; from myxtts.serving.voices import open_voices; open_voices([]); "
        "sys.exit(any(name.split('.')[0] in ('tensorflow', 'keras') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
