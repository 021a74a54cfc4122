"""Piper's interface."""

import io
import wave

import pytest

pytest.importorskip("httpx2", reason="the extra `serve` or `test` is not installed")


def test_a_text_becomes_a_whole_wav_file_and_info_describes_it(client):
    response = client.post("/synthesize", json={"text": "hello there", "voice": "duo", "speaker": "ben"})
    assert response.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(response.content)) as file:
        seconds = file.getnframes() / file.getframerate()
    info = client.get("/info").json()
    assert info["voice"] == {"name": "solo", "language": "en", "num_speakers": 1}
    assert info["last"]["text"] == "hello there"
    assert sum(each["seconds"] for each in info["last"]["alignments"]) == pytest.approx(seconds, abs=0.3)
    assert list(client.get("/voices").json()) == ["solo", "duo"]
    assert client.get("/voices").json()["duo"]["speaker_id_map"] == {"anna": 0, "ben": 1}


def test_scales_and_speakers_mean_what_they_mean_for_piper(client):
    def spoken(**fields) -> bytes:
        return client.post("/synthesize", json={"text": "hello there", "voice": "duo", **fields}).content

    assert len(spoken(length_scale=2.0)) > 1.4 * len(spoken())
    assert spoken(speaker_id=1) == spoken(speaker="ben") != spoken(speaker_id=0)
    assert spoken(noise_scale=0.0) != spoken(noise_scale=1.0)


@pytest.mark.parametrize(
    "change", [{"text": ""}, {"voice": "x"}, {"speaker_id": 9}, {"speaker": "x"}, {"length_scale": 0}]
)
def test_mistakes_are_explained(client, change):
    response = client.post("/synthesize", json={"text": "hello", "voice": "duo"} | change)
    assert response.status_code == 400
    assert response.json()["error"]["message"]
