"""The studio: the pages of `myxtts studio`, which act on this machine, and the routes of Record, Train and Measure.

`add_studio` puts it on the application of `myxtts serve`, behind the same guard. A name in a request is looked up in what was
found in the workspace, or must match a pattern for new names; it is never used as a path.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import APIRouter, FastAPI, File, Form, Response, UploadFile
from fastapi.responses import FileResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope, Send

from myxtts.audio.files import read_audio
from myxtts.corpus.manifest import read_manifest
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import AudioError, CorpusError, EvaluationError, MyXTTSError, TrainingError
from myxtts.models.spec import SIZES
from myxtts.runtime.status import ALIGNMENT_FILE
from myxtts.serving import recorder
from myxtts.serving.recorder import Prompt, RecordedCorpus
from myxtts.serving.runs import (
    OUTPUT_NAME,
    Launch,
    RunReader,
    TrainingWish,
    describe_run,
    end_process,
    find_runs,
    last_line,
    launch,
    read_launch,
    resume_training,
    sample_file,
    start_training,
)
from myxtts.serving.studio_speech import Compare, StudioVoices, speech_studio_routes

PAGE_FOLDER = Path(__file__).parent / "page"
PAGE_POLICY = (
    "default-src 'self'; connect-src 'self'; img-src 'self' data:; media-src 'self' blob: data:; style-src 'self'; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; sandbox"
"""An evaluation page has everything inside; nothing in it is executed."""
BUNDLED = "bundled"
SHOWN_PROMPTS = 6
SHOWN_RECORDINGS = 200
RECORDING_WORDS = (4, 14)
"""Words of the recording that a run is compared with."""
MISHEARD = 0.5
"""Character error above which a take was probably read wrongly. Small recognizers get a third of an easy text wrong."""


class Heard(NamedTuple):
    """What a recognizer understood."""

    text: str
    character_error: float


Hear = Callable[[np.ndarray, int, str, str], Heard | None]
"""Samples, rate, expected text, language → what was recognized; None where no recognizer knows the language."""


class Judges(NamedTuple):
    """What the studio measures with, where the packages are installed; the command passes it in."""

    hear: Hear | None = None
    compare: Compare | None = None
    metrics: tuple[str, ...] = ()
    """Metrics of `myxtts evaluate` whose packages are installed; none: it names what is missing."""


class NewCorpus(BaseModel):
    """A corpus to record."""

    name: Annotated[str, Field(max_length=60)]
    language: Literal["en", "fa"]
    speaker: Annotated[str, Field(max_length=60)] = ""


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
    corpus: Annotated[str, Field(max_length=300)] = BUNDLED
    sentences: Annotated[int, Field(ge=1, le=1000)] = 10


class Take(NamedTuple):
    """A take that was checked and is not kept yet."""

    prompt: Prompt
    samples: np.ndarray
    sample_rate: int


class Workspace:
    """What the studio finds and makes in a folder: corpora/, runs/, speakers/, evaluations/, lexicon-*.tsv."""

    def __init__(self, folder: Path, voices: Mapping[str, Path], corpora: Sequence[Path] = ()):
        """
        Args:
            folder: where everything is found and made.
            voices: the folders of the server's voices by name.
            corpora: folders of recordings elsewhere that can be trained on.
        """
        self.folder, self.voices = folder, dict(voices)
        self.corpora_folder, self.runs_folder = folder / "corpora", folder / "runs"
        self.evaluations_folder, self.speakers_folder = folder / "evaluations", folder / "speakers"
        self._other_corpora = corpora
        self._open: dict[str, RecordedCorpus] = {}
        self._takes: dict[str, Take] = {}
        self._lock = threading.Lock()

    # --- corpora ------------------------------------------------------------------------------------------------------

    def recorded(self, name: str) -> RecordedCorpus:
        """A corpus of the recorder by its name."""
        recorder.check_folder_name("corpus", name)
        with self._lock:
            if name not in self._open:
                if not (self.corpora_folder / name / recorder.SETTINGS_NAME).is_file():
                    raise CorpusError(f"There is no recorded corpus {name!r:.60}.")
                self._open[name] = recorder.open_corpus(self.corpora_folder / name)
            return self._open[name]

    def recorded_names(self) -> list[str]:
        """The corpora of the recorder."""
        found = self.corpora_folder.glob(f"*/{recorder.SETTINGS_NAME}")
        return sorted(path.parent.name for path in found if recorder.NAME_PATTERN.fullmatch(path.parent.name))

    def training_corpora(self) -> dict[str, Path | None]:
        """Everything that can be trained on: name → folder, None for the bundled corpus."""
        found = {path.parent.name: path.parent for path in sorted(self.corpora_folder.glob("*/metadata.csv"))}
        return {BUNDLED: None, **found, **{str(path): path for path in self._other_corpora}}

    def training_corpus(self, name: str) -> Path | None:
        """The folder of a corpus that `training_corpora` lists."""
        listed = self.training_corpora()
        if name not in listed:
            raise CorpusError(f"There is no corpus {name!r:.60}. Expected one of: {', '.join(listed)}.")
        return listed[name]

    def put_take(self, name: str, take: Take) -> None:
        self._takes[name] = take

    def take(self, name: str) -> Take:
        """The take that waits to be kept."""
        take = self._takes.get(name)
        if take is None:
            raise CorpusError("There is no take to keep. Record the sentence again.")
        return take

    def drop_take(self, name: str) -> None:
        self._takes.pop(name, None)

    # --- runs and evaluations -----------------------------------------------------------------------------------------

    def run(self, name: str) -> Path:
        """The folder of a run that was found in the workspace."""
        found = find_runs(self.folder)
        if name not in found:
            raise TrainingError(f"There is no run {name!r:.60} in the workspace.")
        return found[name]

    def evaluation(self, name: str) -> Path:
        """The folder of an evaluation."""
        recorder.check_folder_name("evaluation", name)
        if not (self.evaluations_folder / name).is_dir():
            raise EvaluationError(f"There is no evaluation {name!r:.60}.")
        return self.evaluations_folder / name


def add_studio(app: FastAPI, workspace: Workspace, judges: Judges) -> None:
    """Add the pages and routes of the studio to a server's application."""
    voices = StudioVoices(app.state.engine, workspace.folder, workspace.voices, judges.compare)
    app.include_router(speech_studio_routes(voices))
    app.include_router(_record_routes(workspace, judges.hear))
    app.include_router(_train_routes(workspace, voices))
    app.include_router(_measure_routes(workspace, voices, judges.metrics))

    @app.get("/", include_in_schema=False)
    def root() -> RedirectResponse:
        return RedirectResponse("/studio/")

    app.mount("/studio", _Page(directory=PAGE_FOLDER, html=True))


class _Page(StaticFiles):
    """The files of the page. They are small and local: the browser asks each time whether they have changed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message):
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (b"content-security-policy", PAGE_POLICY.encode()),
                    (b"cache-control", b"no-cache"),
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                ]
            await send(message)

        await super().__call__(scope, receive, send_with_headers)


def _router() -> APIRouter:
    return APIRouter(prefix="/studio/api", include_in_schema=False)


def _record_routes(workspace: Workspace, hear: Hear | None) -> APIRouter:
    router = _router()

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
    """Samples and rate of the wav that the page made; an `AudioError` that names no temporary file."""
    with tempfile.TemporaryDirectory(prefix="myxtts-take-") as folder:
        path = Path(folder) / "take.wav"
        path.write_bytes(content)
        try:
            return read_audio(path, recorder.LONGEST_SECONDS)
        except AudioError as error:
            raise AudioError(str(error).replace(str(path), "The take"), error.reason) from None


def _corpus_summary(corpus: RecordedCorpus) -> dict[str, Any]:
    progress = asdict(corpus.progress())
    return {"name": corpus.folder.name, "language": corpus.language, "speaker": corpus.speaker, "progress": progress}


def _train_routes(workspace: Workspace, voices: StudioVoices) -> APIRouter:
    router, reader = _router(), RunReader()

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
        raise TrainingError("The recordings of this run are not known: it was started elsewhere.")
    folder = workspace.training_corpus(launched.corpus) or bundled_corpus()
    clips = read_manifest(folder, "en", "validation").utterances or read_manifest(folder, "en", "all").utterances
    fewest, most = RECORDING_WORDS
    return next((clip for clip in clips if fewest <= len(clip.text.split()) <= most), clips[0])


def _measure_routes(workspace: Workspace, voices: StudioVoices, metrics: tuple[str, ...]) -> APIRouter:
    router = _router()

    @router.get("/evaluations")
    def list_evaluations() -> dict[str, Any]:
        found = [path for path in workspace.evaluations_folder.glob("*") if (path / "launch.json").is_file()]
        found.sort(key=lambda path: (path / "launch.json").stat().st_mtime, reverse=True)
        return {"evaluations": [_describe_evaluation(folder) for folder in found]}

    @router.post("/evaluations")
    def start_evaluation(body: NewEvaluation) -> dict[str, Any]:
        voice_folder = voices.folder(body.voice)
        corpus = workspace.training_corpus(body.corpus)
        folder = _new_folder(workspace.evaluations_folder, body.voice)
        words = ["evaluate", str(voice_folder)]
        if corpus is not None:
            words += ["--data", str(corpus)]
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
