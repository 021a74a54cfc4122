"""Piper's HTTP interface: `POST /synthesize` answers with a wav file, `GET /voices` and `/info` describe the voices."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from myxtts.audio.files import samples_to_pcm
from myxtts.serving.api_errors import ApiError
from myxtts.serving.encoders import wav_header
from myxtts.serving.speech_api import SYNTHETIC_HEADERS
from myxtts.serving.turns import SpeechEngine, Spoken
from myxtts.synthesis.bundled import guess_language
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.speaker import Speaker
from myxtts.synthesis.voice import Voice

MOST_CLIENTS = 64
"""Clients whose last answer `/info` describes."""
MOST_WAV_SECONDS = 3600.0
"""Longest answer, which is complete before it is sent: 170 MB at 24 kHz."""


class SynthesizeBody(BaseModel):
    """The fields of Piper's request."""

    model_config = ConfigDict(strict=True)

    text: str = Field(min_length=1)
    voice: str | None = Field(None, max_length=400)
    speaker: str | None = Field(None, max_length=400, description="Name of a speaker of the voice.")
    speaker_id: int | None = Field(None, description="Index of a speaker of the voice; used instead of the name.")
    length_scale: float = Field(1.0, ge=0.25, le=4.0, allow_inf_nan=False, description="2 is half as fast.")
    noise_scale: float | None = Field(None, ge=0, le=2, allow_inf_nan=False, description="Our temperature.")
    noise_w_scale: float | None = Field(None, description="Accepted and ignored: durations have no noise here.")


def piper_routes(engine: SpeechEngine) -> APIRouter:
    """The routes of Piper's interface."""
    router = APIRouter(tags=["Piper"])
    last_answers: OrderedDict[str, dict[str, Any]] = OrderedDict()

    @router.post(
        "/synthesize",
        response_class=Response,
        responses={200: {"content": {"audio/wav": {}}, "description": "The audio."}},
    )
    async def synthesize(body: SynthesizeBody, request: Request) -> Response:
        """Speak a text."""
        voice, speaker = engine.voices.choose(body.voice, body.text)
        options = SpeechOptions(
            language=guess_language(body.text, voice.languages),
            speaker=_speaker(body, voice) or speaker,
            speed=1 / body.length_scale,
            temperature=body.noise_scale,
        )
        started = time.perf_counter()
        parts: list[bytes] = []
        alignments: list[dict[str, Any]] = []

        def collect(spoken: Spoken) -> float:
            parts.append(samples_to_pcm(spoken.chunk.samples))
            symbols = spoken.chunk.symbols
            alignments.extend({"phoneme": each.text, "seconds": round(each.end - each.start, 4)} for each in symbols)
            return spoken.chunk.seconds

        seconds = 0.0
        with engine.open(body.text, voice, options) as speech:
            while (more := await speech.next(collect)) is not None:
                seconds += more
                if seconds > MOST_WAV_SECONDS:
                    message = (
                        f"The speech lasts longer than {MOST_WAV_SECONDS:g} s. Use /v1/audio/speech, which streams."
                    )
                    raise ApiError(400, message, param="text")
                if await request.is_disconnected():
                    break
        content = b"".join(parts)
        client = request.client.host if request.client is not None else ""
        last_answers[client] = {
            "text": body.text,
            "synthesize_seconds": time.perf_counter() - started,
            "phonemes": [each["phoneme"] for each in alignments],
            "alignments": alignments,
        }
        last_answers.move_to_end(client)
        while len(last_answers) > MOST_CLIENTS:
            last_answers.popitem(last=False)
        wav = wav_header(voice.sample_rate, len(content)) + content
        return Response(wav, media_type="audio/wav", headers=SYNTHETIC_HEADERS)

    @router.get("/voices")
    async def list_voices() -> dict[str, Any]:
        """The loaded voices with the entries of Piper's descriptions that they have."""
        return {name: _description(voice) for name, voice in engine.voices.loaded.items()}

    @router.get("/info")
    async def info(request: Request) -> dict[str, Any]:
        """The default voice, and the last text spoken for this client's address, with its alignments."""
        name = engine.voices.default
        voice = engine.voices.loaded[name]
        client = request.client.host if request.client is not None else ""
        shown = {"name": name, "language": voice.languages[0], "num_speakers": max(1, len(voice.speakers))}
        return {"voice": shown, "last": last_answers.get(client)}

    return router


def _speaker(body: SynthesizeBody, voice: Voice) -> str | Speaker | None:
    if body.speaker_id is None:
        return body.speaker
    if not voice.speakers and body.speaker_id == 0:
        return None
    if not 0 <= body.speaker_id < len(voice.speakers):
        message = f"speaker_id must be below {len(voice.speakers)}. Received: {body.speaker_id}."
        raise ApiError(400, message, param="speaker_id")
    return voice.speakers[body.speaker_id]


def _description(voice: Voice) -> dict[str, Any]:
    defaults = voice.description.defaults
    return {
        "audio": {"sample_rate": voice.sample_rate},
        "language": {"code": voice.languages[0]},
        "num_speakers": max(1, len(voice.speakers)),
        "speaker_id_map": {name: index for index, name in enumerate(voice.speakers)},
        "num_symbols": len(voice.description.symbols),
        "hop_length": voice.mel.hop_length,
        "inference": {
            "noise_scale": defaults.temperature,
            "length_scale": defaults.duration_scale,
            "noise_w": 0.0,
        },
    }
