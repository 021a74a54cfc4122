"""Every error of the HTTP interface in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from myxtts.errors import AudioError, MyXTTSError, TextError, VoiceError
from myxtts.serving.turns import BusyError

LOG = logging.getLogger("myxtts.serving")
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {
    401: "invalid_api_key",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
    429: "rate_limit_exceeded",
}
_PARAMETERS = {TextError: "input", VoiceError: "voice", AudioError: "file"}


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every answer that is an error."""

    error: ErrorDetail


ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "model": ErrorBody,
        "description": "What is wrong with the request, in OpenAI's shape; 429 has Retry-After.",
    }
}


class ApiError(Exception):
    """An error with its HTTP status."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None):
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def error_response(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer in OpenAI's shape; ASCII, because a message may quote any characters that were received."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    content = {"error": {"message": message, "type": kind, "param": param, "code": code or _CODES.get(status)}}
    return Response(json.dumps(content), status, headers, "application/json")


def add_error_handlers(app: FastAPI) -> None:
    """Answer every exception in OpenAI's shape."""

    @app.exception_handler(ApiError)
    async def on_api_error(_: Request, error: ApiError) -> Response:
        return error_response(error.status, str(error), param=error.param, code=error.code)

    @app.exception_handler(BusyError)
    async def on_busy(_: Request, error: BusyError) -> Response:
        return error_response(429, str(error), headers={"Retry-After": str(error.retry_after_seconds)})

    @app.exception_handler(MyXTTSError)
    async def on_own_error(_: Request, error: MyXTTSError) -> Response:
        parameter = next((name for kind, name in _PARAMETERS.items() if isinstance(error, kind)), None)
        return error_response(400, str(error), param=parameter)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(_: Request, error: RequestValidationError) -> Response:
        problem = error.errors()[0]
        places = [str(part) for part in problem["loc"] if part not in ("body", "query", "path", "header")]
        name = ".".join(places)
        if problem["type"] == "json_invalid":
            return error_response(400, f"The body is not valid JSON: {problem.get('ctx', {}).get('error', '')}.")
        received = f" Received: {problem['input']!r:.80}." if places and "input" in problem else ""
        return error_response(400, f"{name or 'The body'}: {problem['msg']}.{received}", param=name[:200] or None)

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        documented = app.openapi()["paths"].get(request.url.path)
        if error.status_code == 405 and documented:  # the router names only the methods of the first route of a path
            headers["Allow"] = ", ".join(method.upper() for method in documented)
        return error_response(error.status_code, f"{error.detail}", headers=headers)

    @app.exception_handler(Exception)
    async def on_bug(_: Request, error: Exception) -> Response:
        LOG.error("A bug in MyXTTS: %s: %s", type(error).__name__, error)
        return error_response(500, "The server failed. The reason is in its log.")
