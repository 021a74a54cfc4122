"""Requests as known programs send them: the shapes are those of their source code (docs/serving.md names the versions)."""

import asyncio
import io
import json

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra `serve` or `test` is not installed")

from myxtts.serving.settings import Settings
from myxtts.serving.turns import SpeechEngine
from myxtts.serving.wyoming import run_wyoming

SPEECH = "/v1/audio/speech"


def read_mp3(content: bytes) -> np.ndarray:
    import soundfile

    return soundfile.read(io.BytesIO(content))[0]


def test_open_webui_lists_models_and_voices_without_a_key_and_speaks_with_it(serve):
    client = serve(api_keys=("secret",))
    listed = {"accept": "*/*", "user-agent": "Python/3.11 aiohttp/3.13", "accept-encoding": "gzip, deflate, br"}
    models = client.get("/v1/audio/models", headers=listed).json()["models"]
    voices = {each["id"]: each["name"] for each in client.get("/v1/audio/voices", headers=listed).json()["voices"]}
    assert "tts-1" in [each["id"] for each in models]
    assert "solo" in voices
    headers = listed | {
        "content-type": "application/json",
        "authorization": "Bearer secret",
        "x-openwebui-user-name": "Zo%C3%AB",
        "x-openwebui-user-id": "1b2c",
        "x-openwebui-user-email": "zoe@example.org",
        "x-openwebui-user-role": "user",
    }
    body = {"input": "hello there.", "voice": "solo", "model": "tts-1", "speed": 1.1}
    response = client.post(SPEECH, content=json.dumps(body), headers=headers)
    assert response.status_code == 200
    assert response.headers["content-type"] == "audio/mpeg"
    assert len(read_mp3(response.content)) > 1000
    refused = client.post(SPEECH, content=json.dumps(body | {"voice": "nobody"}), headers=headers)
    assert "nobody" in refused.json()["error"]["message"]  # what it shows after "External: "


def test_open_webui_without_a_configured_key_sends_an_empty_one(serve):
    body = {"input": "hello", "voice": "alloy", "model": "tts-1"}
    assert serve().post(SPEECH, json=body, headers={"authorization": "Bearer "}).status_code == 200


@pytest.mark.parametrize("key", ["", "secret"])
def test_sillytavern_sends_every_field_and_an_empty_key_if_it_has_none(serve, key):
    client = serve(api_keys=(key,) if key else ())
    body = {"input": "hello *there*", "response_format": "mp3", "voice": "nova", "speed": 1, "model": "tts-1"}
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}", "user-agent": "node-fetch"}
    response = client.post(SPEECH, content=json.dumps(body), headers=headers)
    assert response.status_code == 200
    assert len(read_mp3(response.content)) > 1000


def test_librechat_concatenates_the_answers_of_a_long_text(serve):
    client = serve()
    headers = {"accept": "application/json, text/plain, */*", "user-agent": "axios/1.12.2"}  # no key, no header
    answers = [
        client.post(SPEECH, json={"input": text, "model": "tts-1", "voice": "alloy"}, headers=headers)
        for text in ("hello there. ", "and you?")
    ]
    assert [each.status_code for each in answers] == [200, 200]
    apart = [len(read_mp3(each.content)) for each in answers]
    assert len(read_mp3(b"".join(each.content for each in answers))) >= sum(apart) - 3000


def test_a_page_of_an_allowed_origin_may_ask_before_it_sends_its_key(serve):
    client = serve(api_keys=("secret",), allowed_origins=("https://chat.example",))
    question = {
        "origin": "https://chat.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    answer = client.options(SPEECH, headers=question)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://chat.example"
    assert "authorization" in answer.headers["access-control-allow-headers"].lower()
    assert client.options(SPEECH, headers=question | {"origin": "https://evil.example"}).status_code == 403
    headers = {"origin": "https://chat.example", "authorization": "Bearer secret"}
    spoken = client.post(SPEECH, json={"input": "hello", "voice": "alloy"}, headers=headers)
    assert spoken.headers["access-control-allow-origin"] == "https://chat.example"


class HomeAssistant:
    """The Wyoming integration of Home Assistant: what it writes, and how it reads the answers."""

    def __init__(self, port: int):
        self.port = port

    async def info(self):
        from wyoming.client import AsyncTcpClient
        from wyoming.info import Describe, Info

        async with AsyncTcpClient("127.0.0.1", self.port) as client, asyncio.timeout(1):
            await client.write_event(Describe().event())
            while True:
                event = await client.read_event()
                if Info.is_type(event.type):
                    return Info.from_event(event)

    async def whole(self, text: str, voice: str | None) -> bytes:
        """An answer that is complete before it is spoken: one event, audio until `audio-stop`."""
        from wyoming.audio import AudioChunk, AudioStop
        from wyoming.client import AsyncTcpClient
        from wyoming.tts import Synthesize, SynthesizeVoice

        audio = b""
        async with AsyncTcpClient("127.0.0.1", self.port) as client:
            chosen = SynthesizeVoice(name=voice) if voice else None
            await client.write_event(Synthesize(text=text, voice=chosen).event())
            while not AudioStop.is_type((event := await client.read_event()).type):
                if AudioChunk.is_type(event.type):
                    chunk = AudioChunk.from_event(event)
                    assert (chunk.width, chunk.channels) == (2, 1)
                    audio += chunk.audio
        return audio

    async def streamed(self, pieces: list[str], voice: str | None) -> bytes:
        """Pieces of a text while an assistant writes them; the text again for older servers; audio until `synthesize-stopped`."""
        from wyoming.audio import AudioChunk, AudioStart
        from wyoming.client import AsyncTcpClient
        from wyoming.tts import (
            Synthesize,
            SynthesizeChunk,
            SynthesizeStart,
            SynthesizeStop,
            SynthesizeStopped,
            SynthesizeVoice,
        )

        audio, starts = b"", 0
        async with AsyncTcpClient("127.0.0.1", self.port) as client:
            chosen = SynthesizeVoice(name=voice) if voice else None

            async def write() -> None:
                await client.write_event(SynthesizeStart(voice=chosen).event())
                for piece in pieces:
                    await client.write_event(SynthesizeChunk(text=piece).event())
                await client.write_event(Synthesize(text="".join(pieces), voice=chosen).event())
                await client.write_event(SynthesizeStop().event())

            writing = asyncio.create_task(write())
            while not SynthesizeStopped.is_type((event := await client.read_event()).type):
                starts += AudioStart.is_type(event.type)
                if AudioChunk.is_type(event.type):
                    audio += AudioChunk.from_event(event).audio
            await writing
        assert starts >= 1  # it makes the header of its wav out of the first one
        return audio


@pytest.mark.filterwarnings("ignore:'audioop' is deprecated:DeprecationWarning")  # of the package wyoming
@pytest.mark.parametrize("voice", [None, "duo"])
def test_home_assistant_finds_the_voices_and_speaks_whole_and_streamed_answers(pool, voice, unused_port):
    pytest.importorskip("wyoming", reason="the package wyoming is not installed")

    async def run() -> None:
        engine = SpeechEngine(pool, Settings(workers=1, wyoming_port=unused_port))
        async with run_wyoming(engine), asyncio.timeout(60):
            home = HomeAssistant(unused_port)
            (program,) = (each for each in (await home.info()).tts if each.installed)
            assert program.name == "myxtts"
            assert program.supports_synthesize_streaming
            assert {language for each in program.voices for language in each.languages} == {"en", "fa"}
            whole = await home.whole("hello there. and you?", voice)
            streamed = await home.streamed(["hello ", "there. and", " you?"], voice)
        engine.close()
        assert min(len(whole), len(streamed)) > 2000
        assert len(streamed) == pytest.approx(len(whole), rel=0.3)

    asyncio.run(run())
