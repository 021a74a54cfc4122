"""OpenAI's interface: `POST /v1/audio/speech`, the models and the voices."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Receive, Scope, Send

from myxtts import __version__
from myxtts.errors import AudioError, VoiceError, install_line
from myxtts.serving.api_errors import ApiError
from myxtts.serving.encoders import FORMATS, Encoder, is_available
from myxtts.serving.turns import Speech, SpeechEngine, Spoken
from myxtts.synthesis.bundled import guess_language
from myxtts.synthesis.options import SpeechOptions, check_expressiveness, check_language
from myxtts.synthesis.timings import Timeline

OWN_MODEL = "myxtts"
MODELS = (OWN_MODEL, "tts-1", "tts-1-hd", "gpt-4o-mini-tts")
SYNTHETIC_HEADERS = {"X-Synthetic-Speech": "true"}
"""Says that the audio was made by a machine."""
ANSWER_TYPES = (*(each.content_type for each in FORMATS.values()), "text/event-stream", "application/json")
MODEL_CREATED = 1_700_000_000


class VoiceId(BaseModel):
    """A voice as an object, the newer of OpenAI's two ways."""

    id: str = Field(max_length=400)


class SpeechBody(BaseModel):
    """The fields of OpenAI's request, and our own after them."""

    model_config = ConfigDict(strict=True)

    input: str = Field(min_length=1, description="The text; marks and SSML work.")
    model: str = Field("tts-1", max_length=200)
    voice: Annotated[str, Field(max_length=400)] | VoiceId | None = Field(
        None, description="A voice, speaker or mixture of `/v1/audio/voices`, or one of OpenAI's names."
    )
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = Field(
        "mp3", description="aac needs `pip install '.[aac]'` on the server; pcm: 16-bit samples."
    )
    speed: float = Field(1.0, ge=0.25, le=4.0, allow_inf_nan=False)
    instructions: str | None = Field(None, description="Accepted and ignored.")
    stream_format: Literal["audio", "sse"] = "audio"
    sample_rate: int | None = Field(None, description="Hz. Default: the voice's own; 24000 for pcm.")
    language: str | None = Field(None, max_length=100, description="Default: by the script of the text.")
    timestamps: bool = Field(False, description="Answer with JSON that also says when each word is spoken.")
    pause: float = Field(0.25, ge=0, le=10, allow_inf_nan=False, description="Seconds after a sentence.")
    seed: int = Field(0, ge=0, lt=2**63, description="The same seed gives the same audio.")
    steps: int | None = Field(None, ge=1, le=100)
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    expressiveness: float = Field(
        1.0, ge=0, le=3, allow_inf_nan=False, description="How far the pitch moves; only for voices that predict it."
    )


def speech_routes(engine: SpeechEngine) -> APIRouter:
    """The routes of OpenAI's interface."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])

    @router.post(
        "/audio/speech",
        response_class=Response,
        responses={200: {"content": {kind: {} for kind in ANSWER_TYPES}, "description": "The audio."}},
    )
    async def create_speech(body: SpeechBody, request: Request) -> Response:
        """Speak a text. Audio is sent sentence by sentence while it is made."""
        if body.model not in MODELS:
            message = f"There is no model {body.model!r:.80}. Expected one of: {', '.join(MODELS)}."
            raise ApiError(404, message, param="model", code="model_not_found")
        speech = open_speech(engine, body)
        try:
            encoder = _open_encoder(body, speech.voice.sample_rate)
            headers = dict(SYNTHETIC_HEADERS)
            if body.instructions:
                headers["X-Ignored-Fields"] = "instructions"
            if body.stream_format == "sse":
                events = _events(speech, encoder, body)
                first = await anext(events)
                return SpeechResponse(speech, _joined(first, events), "text/event-stream", headers)
            if body.timestamps:
                with speech:
                    return JSONResponse(await _whole(request, speech, encoder), headers=headers)
            audio = _audio(speech, encoder)
            first = await anext(audio)
            content_type = FORMATS[body.response_format].content_type
            return SpeechResponse(speech, _joined(first, audio), content_type, headers)
        except BaseException:
            speech.close()
            raise

    @router.get("/models")
    async def list_models() -> dict[str, Any]:
        """The models that requests may name; all of them are the voices of this server."""
        return {"object": "list", "data": [_model(name) for name in MODELS]}

    @router.get("/models/{model}")
    async def get_model(model: str) -> dict[str, Any]:
        """One model."""
        if model not in MODELS:
            message = f"There is no model {model!r:.80}. Expected one of: {', '.join(MODELS)}."
            raise ApiError(404, message, param="model", code="model_not_found")
        return _model(model)

    @router.get("/audio/models")
    async def list_audio_models() -> dict[str, Any]:
        """The models, as Open WebUI asks for them."""
        return {"models": [{"id": name, "name": name} for name in MODELS]}

    @router.get("/audio/voices")
    async def list_voices() -> dict[str, Any]:
        """The voices that requests may name. No key is needed."""
        voices = [
            {
                "id": entry.id,
                "name": entry.id,
                "voice": entry.voice,
                "speaker": entry.speaker,
                "languages": list(entry.languages),
                "cloned": entry.is_cloned,
            }
            for entry in engine.voices.entries()
        ]
        return {"voices": voices, "aliases": engine.voices.aliases()}

    return router


def open_speech(engine: SpeechEngine, body: SpeechBody) -> Speech:
    """Accept a request; what is returned must be closed."""
    name = body.voice.id if isinstance(body.voice, VoiceId) else body.voice
    voice, speaker = engine.voices.choose(name, body.input, body.language)
    try:
        language = check_language(body.language or guess_language(body.input, voice.languages), voice.languages)
    except VoiceError as error:
        raise ApiError(400, str(error), param="language") from None
    try:
        check_expressiveness(body.expressiveness, voice.description.model_spec())
    except VoiceError as error:
        raise ApiError(400, str(error), param="expressiveness") from None
    options = SpeechOptions(
        language=language,
        speaker=speaker,
        speed=body.speed,
        pause=body.pause,
        seed=body.seed,
        steps=body.steps,
        temperature=body.temperature,
        expressiveness=body.expressiveness,
        starts_early=True,
    )
    return engine.open(body.input, voice, options, has_words=body.timestamps)


def _open_encoder(body: SpeechBody, voice_rate: int) -> Encoder:
    if not is_available(body.response_format):
        others = ", ".join(name for name in FORMATS if is_available(name))
        message = (
            f"This server cannot encode {body.response_format}: it needs PyAV, {install_line('aac')}. "
            f"Use one of: {others}."
        )
        raise ApiError(400, message, param="response_format", code="format_not_available")
    try:
        return Encoder(body.response_format, voice_rate, body.sample_rate)
    except AudioError as error:
        raise ApiError(400, str(error), param="sample_rate") from None


class SpeechResponse(StreamingResponse):
    """A streamed answer that stops the speech when it ends or the client leaves."""

    def __init__(self, speech: Speech, content: AsyncIterator[bytes], media_type: str, headers: dict[str, str]):
        super().__init__(content, media_type=media_type, headers=headers)
        self._speech = speech

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._speech:
            await super().__call__(scope, receive, send)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for content in rest:
        yield content


async def _audio(speech: Speech, encoder: Encoder) -> AsyncIterator[bytes]:
    while (content := await speech.next(lambda spoken: encoder.add(spoken.chunk.samples))) is not None:
        if content:
            yield content
    yield encoder.finish()


async def _events(speech: Speech, encoder: Encoder, body: SpeechBody) -> AsyncIterator[bytes]:
    """Server-sent events: audio, then the words of each sentence if asked for, then the end."""
    seconds, num_frames = 0.0, 0
    hop_length = speech.voice.mel.hop_length

    def encode(spoken: Spoken) -> tuple[bytes, Spoken]:
        return encoder.add(spoken.chunk.samples), spoken

    while (result := await speech.next(encode)) is not None:
        audio, spoken = result
        events = [_event("speech.audio.delta", audio=base64.b64encode(audio).decode())] if audio else []
        if body.timestamps:
            events.append(_event("speech.timestamps", start_time=round(seconds, 3), **_timings(spoken, seconds)))
        seconds += spoken.chunk.seconds
        num_frames += len(spoken.chunk.samples) // hop_length
        yield b"".join(events)
    tail = encoder.finish()
    if tail:
        yield _event("speech.audio.delta", audio=base64.b64encode(tail).decode())
    usage = {
        "input_tokens": len(body.input),
        "output_tokens": num_frames,
        "total_tokens": len(body.input) + num_frames,
    }
    yield _event("speech.audio.done", usage=usage)


def _event(kind: str, **fields: Any) -> bytes:
    return f"data: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _timings(spoken: Spoken, start: float) -> dict[str, Any]:
    chunk = spoken.chunk
    return {
        "end_time": round(start + chunk.seconds, 3),
        "text": chunk.text,
        "timestamps": [
            {"word": each.text, "start_time": round(start + each.start, 3), "end_time": round(start + each.end, 3)}
            for each in spoken.words
        ],
        "phonemes": [
            {"phoneme": each.text, "start_time": round(start + each.start, 3), "end_time": round(start + each.end, 3)}
            for each in chunk.symbols
        ],
    }


async def _whole(request: Request, speech: Speech, encoder: Encoder) -> dict[str, Any]:
    """All audio and the timeline in one object; the words have the names that Kokoro-FastAPI's clients read."""
    parts: list[bytes] = []
    timeline = Timeline()

    def encode(spoken: Spoken) -> Spoken:
        parts.append(encoder.add(spoken.chunk.samples))
        return spoken

    while (spoken := await speech.next(encode)) is not None:
        chunk = spoken.chunk
        timeline.add(chunk.text, chunk.seconds, chunk.symbols, spoken.words, speech.voice.speaks_phonemes)
        if await request.is_disconnected():
            break
    parts.append(encoder.finish())
    content = json.loads(timeline.to_json())
    return {
        "audio": base64.b64encode(b"".join(parts)).decode(),
        "audio_format": encoder.format,
        "sample_rate": encoder.sample_rate,
        "timestamps": [
            {"word": each["word"], "start_time": each["start"], "end_time": each["end"]} for each in content["words"]
        ],
        "timeline": content,
    }


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": MODEL_CREATED, "owned_by": OWN_MODEL, "version": __version__}
