"""Cloning: an uploaded recording becomes a named speaker, stored as its vector."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, UploadFile
from pydantic import BaseModel

from myxtts.errors import VoiceError
from myxtts.serving.api_errors import ApiError
from myxtts.serving.turns import SpeechEngine
from myxtts.serving.uploads import decode_upload
from myxtts.synthesis.speaker import READ_SECONDS, Speaker
from myxtts.synthesis.voice import Audio, Voice

MOST_FILES = 5


class SpeakerAnswer(BaseModel):
    """A cloned speaker."""

    id: str
    name: str
    voice: str | None
    created: int
    has_recording: bool


def speaker_routes(engine: SpeechEngine) -> APIRouter:
    """The routes of cloning."""
    router = APIRouter(prefix="/v1/audio/speakers", tags=["cloning"])
    decoding = asyncio.Semaphore(1)

    @router.post("", status_code=201)
    async def create_speaker(
        name: Annotated[str, Form(min_length=1, max_length=64, description="How requests will name the speaker.")],
        file: Annotated[list[UploadFile], File(description="Recordings of one person, at least 1 s each.")],
        voice: Annotated[
            str | None, Form(max_length=200, description="Default: the first voice that can clone.")
        ] = None,
        keep_recording: Annotated[bool, Form(description="Also store the first recording.")] = False,
    ) -> SpeakerAnswer:
        """Clone the speaker of a recording."""
        cloning_voice = _cloning_voice(engine, voice)
        try:
            engine.voices.check_new_name(name)
        except VoiceError as error:
            raise ApiError(400, str(error), param="name") from None
        if keep_recording and not engine.settings.keeps_recordings:
            message = "This server does not store recordings. Start it with --keep-recordings."
            raise ApiError(400, message, param="keep_recording")
        if not 1 <= len(file) <= MOST_FILES:
            raise ApiError(400, f"Expected 1 to {MOST_FILES} recordings. Received: {len(file)}.", param="file")
        recordings = []
        async with decoding:
            for upload in file:
                recordings.append(Audio(*await decode_upload(upload, READ_SECONDS)))
        speaker = await engine.run_now(
            lambda: engine.voices.add_speaker(name, cloning_voice, recordings, keeps_recording=keep_recording)
        )
        return _answer(engine, speaker)

    @router.get("")
    async def list_speakers() -> dict[str, list[SpeakerAnswer]]:
        """The cloned speakers."""
        names = [entry.id for entry in engine.voices.entries() if entry.is_cloned]
        return {"speakers": [_answer(engine, engine.voices.cloned(name)) for name in names]}

    @router.delete("/{name}")
    async def delete_speaker(name: str) -> dict[str, Any]:
        """Delete a cloned speaker."""
        try:
            engine.voices.delete_speaker(name)
        except VoiceError as error:
            raise ApiError(404, str(error), param="name", code="speaker_not_found") from None
        return {"id": name, "object": "speaker", "deleted": True}

    return router


def _cloning_voice(engine: SpeechEngine, name: str | None) -> Voice:
    pool = engine.voices
    if not pool.stores_speakers:
        raise ApiError(400, "This server does not store speakers. Start it with --speakers FOLDER.", code="cloning_off")
    if name is not None:
        if name not in pool.loaded:
            raise ApiError(404, f"There is no voice {name!r:.80}. There are: {', '.join(pool.loaded)}.", param="voice")
        return pool.loaded[name]
    voices = [voice for voice in pool.loaded.values() if voice.can_clone]
    if not voices:
        raise ApiError(
            400,
            "No voice of this server can clone. Start it with a voice of several speakers, such as --voice base.",
            code="cloning_off",
        )
    return voices[0]


def _answer(engine: SpeechEngine, speaker: Speaker) -> SpeakerAnswer:
    owner = next((name for name, voice in engine.voices.loaded.items() if voice.identity == speaker.voice), None)
    recording = engine.voices.recording_of(speaker.name)
    return SpeakerAnswer(
        id=speaker.name,
        name=speaker.name,
        voice=owner,
        created=speaker.created,
        has_recording=recording is not None and recording.is_file(),
    )
