"""The HTTP application: routes, guards, metrics, and what starts and ends with it.

    pool, problems = open_voices([Path("my-voice")])
    app = create_app(pool, Settings())

`app.state.engine` speaks, `app.state.settings` are the limits. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.middleware.cors import CORSMiddleware

from myxtts import __version__
from myxtts.errors import MyXTTSError
from myxtts.serving.api_errors import ERROR_RESPONSES, LOG, add_error_handlers
from myxtts.serving.docs_page import PAGE_POLICY, docs_page
from myxtts.serving.guard import Guard
from myxtts.serving.piper_api import piper_routes
from myxtts.serving.settings import Settings
from myxtts.serving.speakers_api import speaker_routes
from myxtts.serving.speech_api import speech_routes
from myxtts.serving.turns import SpeechEngine
from myxtts.serving.voices import VoicePool
from myxtts.serving.wyoming import run_wyoming

DESCRIPTION = (
    "Text-to-speech with the interfaces of OpenAI and Piper. Audio streams sentence by sentence; requests take turns. "
    "Answers with audio have the header `X-Synthetic-Speech: true`."
)


def create_app(voices: VoicePool, settings: Settings) -> FastAPI:
    """The application of one server. Its life cycle warms the voices up and runs the Wyoming server."""
    engine = SpeechEngine(voices, settings)

    @asynccontextmanager
    async def life_cycle(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.callback(engine.close)
            warming = asyncio.create_task(_warm_up(engine))
            stack.push_async_callback(_cancel, warming)
            await stack.enter_async_context(run_wyoming(engine))
            yield

    app = FastAPI(
        title="MyXTTS",
        version=__version__,
        description=DESCRIPTION,
        lifespan=life_cycle,
        responses=ERROR_RESPONSES,
        docs_url=None,  # FastAPI's page loads its scripts from the internet
        redoc_url=None,
    )
    app.state.engine = engine
    app.state.settings = settings
    add_error_handlers(app)
    for routes in (speech_routes, speaker_routes, piper_routes):
        app.include_router(routes(engine))
    _add_status_routes(app, engine)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.allowed_origins), allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(Guard, settings=settings, count_request=engine.metrics.count_request)
    return app


def _add_status_routes(app: FastAPI, engine: SpeechEngine) -> None:
    @app.get("/health", tags=["status"])
    async def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @app.get(
        "/ready",
        tags=["status"],
        responses={503: {"description": "Voices are being warmed up, or one failed."}},
    )
    async def ready() -> Response:
        """Whether the voices have been warmed up, or why not."""
        if engine.warm_up_error is not None:
            return JSONResponse({"status": "failed", "message": engine.warm_up_error}, 503)
        status = "ready" if engine.is_ready else "warming up"
        return JSONResponse({"status": status}, 200 if engine.is_ready else 503)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """Every route and field, for people."""
        return HTMLResponse(docs_page(app.openapi()), headers={"Content-Security-Policy": PAGE_POLICY})

    @app.get("/metrics", tags=["status"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """What the server counts, for Prometheus."""
        return PlainTextResponse(engine.metrics.to_text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _warm_up(engine: SpeechEngine) -> None:
    try:
        await engine.warm_up()
    except MyXTTSError as error:  # other voices may speak, so the server continues
        engine.warm_up_error = str(error)
        LOG.error("A voice could not be warmed up: %s", error)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
