"""The routes of the studio's Speak and Clone: speech with words and phonemes, pronunciations, references."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, File, Form, UploadFile
from fastapi.responses import Response

from myxtts.audio.files import samples_to_pcm
from myxtts.errors import MyXTTSError
from myxtts.serving.encoders import wav_header
from myxtts.serving.speech_api import SpeechResponse
from myxtts.serving.studio_voices import CLONE_PREFIX, LexiconBody, NameBody, SpeakBody, StudioVoices
from myxtts.serving.turns import Spoken
from myxtts.synthesis.timings import TimedWord, Timeline
from myxtts.synthesis.voice import Audio


def speech_studio_routes(voices: StudioVoices) -> APIRouter:
    """The routes of Speak and Clone."""
    router = APIRouter()

    @router.get("/voices")
    def list_voices() -> dict[str, Any]:
        return {"voices": voices.describe()}

    @router.post("/speak")
    async def speak(body: SpeakBody) -> Response:
        """One JSON object per line: a sentence with audio, words and phonemes; at the end timings and subtitles."""
        voice, options = voices.speaking(body)
        speech = voices.engine.open(body.text, voice, options, has_words=True)
        try:
            lines = _spoken_lines(speech)
            first = await anext(lines)
        except BaseException:
            speech.close()
            raise

        async def everything() -> AsyncIterator[bytes]:
            yield first
            async for line in lines:
                yield line

        return SpeechResponse(speech, everything(), "application/x-ndjson", {"X-Synthetic-Speech": "true"})

    @router.get("/reading")
    def reading(text: str, voice: str | None = None, language: str | None = None) -> dict[str, Any]:
        return voices.reading(voice, language, text)

    @router.put("/lexicon")
    def correct(body: LexiconBody) -> dict[str, Any]:
        voices.correct(body)
        return {"saved": True}

    @router.post("/clones")
    async def add_clone(
        file: Annotated[UploadFile, File()], voice: Annotated[str | None, Form()] = None
    ) -> dict[str, Any]:
        clone_id, seconds = await voices.add_clone(voice or None, file)
        return {"id": clone_id, "seconds": round(seconds, 2)}

    @router.get("/clones/{clone_id}/reference")
    def reference(clone_id: str) -> Response:
        return Response(_wav(voices.clone(clone_id).recording), media_type="audio/wav")

    @router.post("/clones/{clone_id}/speech")
    async def speak_clone(clone_id: str, body: SpeakBody) -> dict[str, Any]:
        """The text in the cloned voice as a whole, and how alike the two sound."""
        clone = voices.clone(clone_id)
        wish = body.model_copy(update={"speaker": CLONE_PREFIX + clone_id, "voice": clone.voice})
        voice, options = voices.speaking(wish)
        with voices.engine.open(body.text, voice, options) as speech:
            parts = []
            while (samples := await speech.next(lambda spoken: spoken.chunk.samples)) is not None:
                parts.append(samples)
            samples = np.concatenate(parts)
            alike = await voices.engine.run_now(lambda: voices.similarity(clone, samples, voice.sample_rate))
        wav = _wav(Audio(samples, voice.sample_rate))
        return {"audio": base64.b64encode(wav).decode(), "similarity": alike}

    @router.post("/clones/{clone_id}/save")
    def save_clone(clone_id: str, body: NameBody) -> dict[str, Any]:
        clone = voices.clone(clone_id)
        voices.engine.voices.add_speaker(body.name.strip(), voices.voice(clone.voice), [clone.recording])
        return {"name": body.name.strip()}

    @router.delete("/speakers/{name}")
    def delete_speaker(name: str) -> dict[str, Any]:
        voices.engine.voices.delete_speaker(name)
        return {"deleted": True}

    return router


def _wav(audio: Audio) -> bytes:
    content = samples_to_pcm(audio.samples)
    return wav_header(audio.sample_rate, len(content)) + content


async def _spoken_lines(speech: Any) -> AsyncIterator[bytes]:
    timeline = Timeline()
    has_phonemes = speech.voice.speaks_phonemes

    def convert(spoken: Spoken) -> bytes:
        start, chunk = timeline.seconds, spoken.chunk
        timeline.add(chunk.text, chunk.seconds, chunk.symbols, spoken.words, has_phonemes)
        return _line(
            type="sentence",
            text=chunk.text,
            written=chunk.text.split(),
            start=round(start, 4),
            seconds=round(chunk.seconds, 4),
            sample_rate=chunk.sample_rate,
            words=[_word(each, start) for each in spoken.words],
            unknown="".join(chunk.unknown),
            audio=base64.b64encode(samples_to_pcm(chunk.samples)).decode(),
        )

    try:
        while (line := await speech.next(convert)) is not None:
            yield line
    except MyXTTSError as error:
        if not timeline.seconds:  # the answer has not begun: an ordinary error
            raise
        yield _line(type="error", message=str(error))
        return
    yield _line(type="done", timings=timeline.to_json(), srt=timeline.to_srt())


def _word(word: TimedWord, start: float) -> dict[str, Any]:
    return {
        "word": word.text,
        "index": word.index,
        "start": round(start + word.start, 3),
        "end": round(start + word.end, 3),
        "spoken": word.spoken,
        "phonemes": word.phonemes,
    }


def _line(**fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"
