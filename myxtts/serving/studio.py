"""The studio: the pages of `myxtts studio`, which act on this machine.

`add_studio` puts them and their routes on the application of `myxtts serve`, behind the same guard.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from myxtts.serving.studio_record import Hear, record_routes
from myxtts.serving.studio_speech import speech_studio_routes
from myxtts.serving.studio_train import measure_routes, train_routes
from myxtts.serving.studio_voices import Compare, StudioVoices
from myxtts.serving.workspace import Workspace

PAGE_FOLDER = Path(__file__).parent / "page"
PAGE_POLICY = (
    "default-src 'self'; connect-src 'self'; img-src 'self' data:; media-src 'self' blob: data:; style-src 'self'; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class Judges(NamedTuple):
    """What the studio measures with, where the packages are installed; the command passes it in."""

    hear: Hear | None = None
    compare: Compare | None = None
    metrics: tuple[str, ...] = ()
    """Metrics of `myxtts evaluate` whose packages are installed; none: it names what is missing."""


def add_studio(app: FastAPI, workspace: Workspace, judges: Judges) -> None:
    """Add the pages and routes of the studio to a server's application."""
    voices = StudioVoices(app.state.engine, workspace.folder, workspace.voices, judges.compare)
    for router in (
        speech_studio_routes(voices),
        record_routes(workspace, judges.hear),
        train_routes(workspace, voices),
        measure_routes(workspace, voices, judges.metrics),
    ):
        app.include_router(router, prefix="/studio/api", include_in_schema=False)

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
