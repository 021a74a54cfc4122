"""The routes of the studio's Train and Measure: trainings and evaluations as processes of `myxtts`, and what they wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from myxtts.corpus.corpus import bundled_corpus, read_manifest
from myxtts.errors import EvaluationError, MyXTTSError, TrainingError
from myxtts.models.spec import SIZES
from myxtts.runtime.status import ALIGNMENT_FILE
from myxtts.serving import recorder
from myxtts.serving.processes import OUTPUT_NAME, Launch, end_process, last_line, launch, read_launch
from myxtts.serving.runs import (
    RunReader,
    TrainingWish,
    describe_run,
    find_runs,
    resume_training,
    sample_file,
    start_training,
)
from myxtts.serving.studio_voices import StudioVoices
from myxtts.serving.workspace import BUNDLED_CORPUS, Workspace

REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; sandbox"
"""An evaluation page has everything inside; nothing in it is executed."""
RECORDING_WORDS = (4, 14)
"""Words of the recording that a run is compared with."""


class NewRun(BaseModel):
    """A training to start."""

    name: Annotated[str, Field(max_length=60)]
    corpus: Annotated[str, Field(max_length=300)]
    size: Literal["tiny", "small", "normal", "big"] = "tiny"
    start: Annotated[str, Field(max_length=300)] | None = None
    """A voice; None: from nothing."""
    minutes: Annotated[float, Field(ge=0.1, le=100_000)]


class RunAction(BaseModel):
    """Something to do with a run."""

    name: Annotated[str, Field(max_length=300)]
    action: Literal["pause", "resume", "stop"]


class NewEvaluation(BaseModel):
    """A voice to measure."""

    voice: Annotated[str, Field(max_length=300)]
    corpus: Annotated[str, Field(max_length=300)] = BUNDLED_CORPUS
    sentences: Annotated[int, Field(ge=1, le=1000)] = 10


def train_routes(workspace: Workspace, voices: StudioVoices) -> APIRouter:
    """The routes of Train."""
    router, reader = APIRouter(), RunReader()

    @router.get("/runs")
    def list_runs() -> dict[str, Any]:
        runs = [{"name": name} | describe_run(folder) for name, folder in find_runs(workspace.folder).items()]
        return {"runs": runs, "sizes": list(SIZES), "corpora": list(workspace.training_corpora())}

    @router.post("/runs")
    def start_run(body: NewRun) -> dict[str, Any]:
        folder = workspace.runs_folder / recorder.check_folder_name("run", body.name)
        start = None if body.start is None else voices.folder(body.start)
        corpus = workspace.training_corpus(body.corpus)
        language = workspace.recorded(body.corpus).language if body.corpus in workspace.recorded_names() else None
        start_training(folder, TrainingWish(corpus, body.corpus, body.size, start, body.minutes, language))
        return {"name": folder.relative_to(workspace.folder).as_posix()}

    @router.get("/run")
    def run_detail(name: str) -> dict[str, Any]:
        folder = workspace.run(name)
        return {"name": name, "voice": f"{name}/voice"} | reader.detail(folder)

    @router.post("/run")
    def act(body: RunAction) -> dict[str, Any]:
        folder = workspace.run(body.name)
        if body.action == "resume":
            resume_training(folder)
        else:
            end_process(folder, body.action)
        return describe_run(folder)

    @router.get("/run/alignment")
    def alignment(name: str) -> Response:
        return _file(workspace.run(name) / ALIGNMENT_FILE, "image/png")

    @router.get("/run/sample")
    def sample(name: str, language: str, index: int, step: int) -> Response:
        found = sample_file(workspace.run(name), language, index, step)
        if found is None:
            raise TrainingError("There is no such sample. Load the page again.")
        return _file(found, "audio/wav")

    @router.get("/run/recording")
    def recording(name: str) -> dict[str, Any]:
        """A sentence of the run's corpus, to compare its recording with the voice."""
        clip = _compared_clip(workspace, name)
        return {"text": clip.text, "language": clip.language, "id": clip.id}

    @router.get("/run/recording/audio")
    def recording_audio(name: str) -> Response:
        return _file(_compared_clip(workspace, name).path, "audio/wav")

    return router


def _compared_clip(workspace: Workspace, run: str) -> Any:
    launched = read_launch(workspace.run(run))
    if launched is None or launched.corpus not in workspace.training_corpora():
        raise TrainingError(
            "The recordings of this run are unknown, because it was not started in the studio or its corpus was removed. "
            "Start a run in the studio to compare its samples with a recording."
        )
    folder = workspace.training_corpus(launched.corpus) or bundled_corpus()
    clips = read_manifest(folder, "en", "validation").utterances or read_manifest(folder, "en", "all").utterances
    fewest, most = RECORDING_WORDS
    return next((clip for clip in clips if fewest <= len(clip.text.split()) <= most), clips[0])


def measure_routes(workspace: Workspace, voices: StudioVoices, metrics: tuple[str, ...]) -> APIRouter:
    """The routes of Measure."""
    router = APIRouter()

    @router.get("/evaluations")
    def list_evaluations() -> dict[str, Any]:
        found = [path for path in workspace.evaluations_folder.glob("*") if (path / "launch.json").is_file()]
        found.sort(key=lambda path: (path / "launch.json").stat().st_mtime, reverse=True)
        return {"evaluations": [_describe_evaluation(folder) for folder in found]}

    @router.post("/evaluations")
    def start_evaluation(body: NewEvaluation) -> dict[str, Any]:
        voice_folder = voices.folder(body.voice)
        # Always named: without it the sentences are those of the voice's score card, which have no recordings.
        corpus = workspace.training_corpus(body.corpus) or bundled_corpus()
        folder = _new_folder(workspace.evaluations_folder, body.voice)
        words = ["evaluate", str(voice_folder), "--data", str(corpus)]
        words += ["--limit", str(body.sentences), "--seeds", "1"]
        if metrics:
            words += ["--metrics", *metrics]
        words += ["--html", str(folder / "page.html"), "--json", str(folder / "report.json")]
        launch(folder, Launch(tuple(words), corpus=f"{body.voice}\n{body.corpus}"))
        return {"name": folder.name}

    @router.post("/evaluations/{name}/stop")
    def stop_evaluation(name: str) -> dict[str, Any]:
        folder = workspace.evaluation(name)
        end_process(folder, "stop")
        return _describe_evaluation(folder)

    @router.get("/evaluations/{name}/page")
    def evaluation_page(name: str) -> Response:
        response = _file(workspace.evaluation(name) / "page.html", "text/html; charset=utf-8")
        response.headers["Content-Security-Policy"] = REPORT_POLICY
        return response

    return router


def _describe_evaluation(folder: Path) -> dict[str, Any]:
    launched = read_launch(folder)
    voice, _, corpus = (launched.corpus if launched is not None else "").partition("\n")
    is_running = launched is not None and launched.is_alive()
    has_page = (folder / "page.html").is_file()
    state = "running" if is_running else "finished" if has_page else "stopped"
    if launched is not None and launched.wish == "run" and state == "stopped":
        state = "failed"
    return {
        "name": folder.name,
        "voice": voice,
        "corpus": corpus,
        "state": state,
        "line": last_line(folder / OUTPUT_NAME),
        "changed_at": (folder / "launch.json").stat().st_mtime,
    }


def _new_folder(parent: Path, voice: str) -> Path:
    """A folder for a new evaluation, named after the voice."""
    stem = (
        "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in voice).strip("-")[:30] or "voice"
    )
    for number in range(1, 10_000):
        folder = parent / f"{stem}-{number}"
        if not folder.exists():
            return folder
    raise EvaluationError(f"{parent} has too many evaluations of {voice}. Delete some of them.")


def _file(path: Path, media_type: str) -> Response:
    if not path.is_file():
        raise MyXTTSError("There is no such file yet. Load the page again.")
    return FileResponse(path, media_type=media_type, headers={"Cache-Control": "no-cache"})
