"""The HTTP application: routes, guards, metrics, what starts and ends with it, and the page of `/docs`.

    pool, problems = open_voices([Path("my-voice")])
    app = create_app(pool, Settings())

`app.state.engine` speaks, `app.state.settings` are the limits. `/docs` shows every route and field of the OpenAPI document as
plain HTML, without scripts or files from elsewhere. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.middleware.cors import CORSMiddleware

from myxtts import __version__
from myxtts.errors import MyXTTSError
from myxtts.serving.api_errors import ERROR_RESPONSES, LOG, add_error_handlers
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
DOCS_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
section { border-top: 1px solid #8886; padding: 0.5rem 0 1rem; }
h3 { font: 600 1.05rem ui-monospace, monospace; overflow-wrap: anywhere; }
.method { display: inline-block; min-width: 4.5rem; color: light-dark(#0a6640, #6fcf97); }
.table { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 0.925rem; }
th, td { text-align: start; vertical-align: top; padding: 0.3rem 0.75rem 0.3rem 0; border-bottom: 1px solid #8883; }
code { font-family: ui-monospace, monospace; }
"""


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
        return HTMLResponse(docs_page(app.openapi()), headers={"Content-Security-Policy": DOCS_POLICY})

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


def docs_page(document: Mapping[str, Any]) -> str:
    """The HTML of an OpenAPI document."""
    info = document["info"]
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = next(iter(operation.get("tags", ())), "other")
            groups.setdefault(tag, []).append(_operation(path, method, operation, document))
    body = "".join(f"<h2>{escape(tag)}</h2>{''.join(sections)}" for tag, sections in groups.items())
    title = f"{escape(info['title'])} {escape(info['version'])}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{_text(info.get('description', ''))}</p>"
        f'<p>The same for programs: <a href="/openapi.json">openapi.json</a>.</p>{body}</body></html>'
    )


def _operation(path: str, method: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    rows = [
        _row(each["name"], _resolved(each["schema"], document), document, each.get("required", False), each["in"])
        for each in operation.get("parameters", ())
    ]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        body = _resolved(content["schema"], document)
        required = body.get("required", ())
        where = "form" if "form" in kind else "body"
        rows += [
            _row(name, schema, document, name in required, where) for name, schema in body.get("properties", {}).items()
        ]
    columns = "".join(f'<th scope="col">{name}</th>' for name in ("field", "in", "type", "default", "meaning"))
    table = f'<div class="table"><table><tr>{columns}</tr>{"".join(rows)}</table></div>' if rows else ""
    return (
        f'<section><h3><span class="method">{method.upper()}</span>{escape(path)}</h3>'
        f"<p>{_text(operation.get('description', ''))}</p>{table}{_answers(operation)}</section>"
    )


def _answers(operation: Mapping[str, Any]) -> str:
    lines = []
    for status, answer in operation.get("responses", {}).items():
        kinds = ", ".join(answer.get("content", ()))
        description = answer.get("description", "")
        lines.append(f"<li><code>{escape(status)}</code> {_text(description)} <code>{escape(kinds)}</code></li>")
    return f"<ul>{''.join(lines)}</ul>"


def _row(name: str, schema: Mapping[str, Any], document: Mapping[str, Any], is_required: bool, where: str) -> str:
    default = "required" if is_required else json.dumps(schema["default"]) if "default" in schema else ""
    cells = (_type(schema, document), default)
    shown = "".join(f"<td><code>{escape(cell)}</code></td>" for cell in cells)
    return (
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{escape(where)}</td>{shown}'
        f"<td>{_text(schema.get('description', ''))}</td></tr>"
    )


def _type(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """The type of a field with its limits, such as `number 0.25…4`."""
    schema = _resolved(schema, document)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each, document) for each in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'], document)}"
    if "contentMediaType" in schema or schema.get("format") == "binary":
        return "file"
    limits = [schema.get("minimum"), schema.get("maximum")]
    limited = (
        " {}…{}".format(*("" if each is None else f"{each:g}" for each in limits)) if limits != [None, None] else ""
    )
    return f"{schema.get('type', 'any')}{limited}"


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the one that it refers to."""
    if "$ref" not in schema:
        return schema
    found: Any = document
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found


def _text(text: str) -> str:
    """Escaped text with `code` between backticks."""
    return "".join(_marked(text))


def _marked(text: str) -> Iterator[str]:
    for index, part in enumerate(escape(text, quote=False).split("`")):
        yield f"<code>{part}</code>" if index % 2 else part
