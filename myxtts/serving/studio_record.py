"""The routes of the studio's Record: sentences to read, takes, and the corpus that they become."""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import APIRouter, File, Form, UploadFile
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from myxtts.errors import AudioError
from myxtts.serving import recorder
from myxtts.serving.recorder import RecordedCorpus
from myxtts.serving.workspace import Take, Workspace

SHOWN_PROMPTS = 6
SHOWN_RECORDINGS = 200
MISHEARD = 0.5
"""Character error above which a take was probably read wrongly. Small recognizers get a third of an easy text wrong."""


class Heard(NamedTuple):
    """What a recognizer understood."""

    text: str
    character_error: float


Hear = Callable[[np.ndarray, int, str, str], Heard | None]
"""Samples, rate, expected text, language → what was recognized; None where no recognizer has the language."""


class NewCorpus(BaseModel):
    """A corpus to record."""

    name: Annotated[str, Field(max_length=60)]
    language: Literal["en", "fa"]
    speaker: Annotated[str, Field(max_length=60)] = ""


def record_routes(workspace: Workspace, hear: Hear | None) -> APIRouter:
    """The routes of Record."""
    router = APIRouter()

    @router.get("/corpora")
    def list_corpora() -> dict[str, Any]:
        listed = [_corpus_summary(workspace.recorded(name)) for name in workspace.recorded_names()]
        return {"corpora": listed, "trainable": list(workspace.training_corpora())}

    @router.post("/corpora")
    def create_corpus(body: NewCorpus) -> dict[str, Any]:
        corpus = recorder.create_corpus(workspace.corpora_folder, body.name, body.language, body.speaker)
        return _corpus_summary(corpus)

    @router.get("/corpora/{name}")
    def corpus_state(name: str) -> dict[str, Any]:
        corpus = workspace.recorded(name)
        kept = corpus.kept()[-SHOWN_RECORDINGS:]
        prompts = corpus.next_prompts(SHOWN_PROMPTS)
        return _corpus_summary(corpus) | {
            "prompts": [{"id": each.id, "text": each.text} for each in prompts],
            "kept": [{"id": each.id, "text": each.text, "seconds": round(each.seconds, 1)} for each in reversed(kept)],
            "can_hear": hear is not None and corpus.language == "en",
        }

    @router.post("/corpora/{name}/take")
    def check_take(name: str, prompt: Annotated[str, Form()], file: Annotated[UploadFile, File()]) -> dict[str, Any]:
        """Check a take at once; it is kept only when the user says so."""
        corpus, sentence = workspace.recorded(name), recorder.prompt_of(prompt)
        samples, rate = _read_take(file.file.read())
        report = recorder.check_take(samples, rate, sentence.sounds)
        workspace.put_take(corpus.folder.name, Take(sentence, samples, rate))
        return report._asdict()

    @router.post("/corpora/{name}/take/hear")
    def hear_take(name: str) -> dict[str, Any]:
        """What the recognizer understands; slower than the other checks."""
        take = workspace.take(name)
        heard = None
        if hear is not None:
            heard = hear(take.samples, take.sample_rate, take.prompt.text, take.prompt.language)
        if heard is None:
            return {"heard": None, "is_misread": False}
        return {"heard": heard.text, "is_misread": heard.character_error > MISHEARD}

    @router.post("/corpora/{name}/take/keep")
    def keep_take(name: str) -> dict[str, Any]:
        corpus, take = workspace.recorded(name), workspace.take(name)
        corpus.keep(take.prompt, take.samples, take.sample_rate)
        workspace.drop_take(name)
        return corpus_state(name)

    @router.get("/corpora/{name}/recordings/{prompt}")
    def recording(name: str, prompt: str) -> FileResponse:
        return FileResponse(workspace.recorded(name).recording(prompt), media_type="audio/wav")

    @router.delete("/corpora/{name}/recordings/{prompt}")
    def remove_recording(name: str, prompt: str) -> dict[str, Any]:
        workspace.recorded(name).remove(prompt)
        return corpus_state(name)

    return router


def _read_take(content: bytes) -> tuple[np.ndarray, int]:
    """Samples and rate of the wav that the page made: one channel, 16 bits."""
    try:
        with wave.open(io.BytesIO(content)) as sound:
            form, rate, count = (sound.getnchannels(), sound.getsampwidth()), sound.getframerate(), sound.getnframes()
            data = sound.readframes(count)
    except (wave.Error, EOFError, struct.error) as error:
        raise AudioError(f"The take is not a wav file: {error}. Record the sentence again.", "not audio") from None
    if form != (1, 2) or not rate:
        raise AudioError(f"The take must have one channel of 16-bit samples. Received: {form}.", "not audio")
    seconds = len(data) / (2 * rate)
    if not data or seconds > recorder.LONGEST_SECONDS:
        raise AudioError(
            f"The take is {seconds:.1f} s long. Expected at most {recorder.LONGEST_SECONDS:g} s of sound.", "too long"
        )
    return np.frombuffer(data[: len(data) // 2 * 2], "<i2") * np.float32(1 / 32768), rate


def _corpus_summary(corpus: RecordedCorpus) -> dict[str, Any]:
    progress = asdict(corpus.progress())
    return {"name": corpus.folder.name, "language": corpus.language, "speaker": corpus.speaker, "progress": progress}
