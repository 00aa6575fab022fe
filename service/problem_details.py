"""One JSON shape for every error over HTTP: problem details (RFC 9457).

Beside the RFC's ``type``, ``title``, ``status``, ``detail`` and ``instance`` there are the parts
of every hvxtune error: ``kind`` (who must act), ``accepted`` and ``next_step``.
"""

from __future__ import annotations

import difflib
import json
import logging
import math
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from service.http_errors import UNKNOWN_FIELD, HttpError, body_of, status_of
from service.request_ids import HEADER, current_request_id
from service.token_text import redact_all
from tuner.errors import ComeBackLaterError, HvxtuneError, InternalError

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger("hvxtune.service")

_MOST_FIELDS = 100
_KINDS = {500: "internal", 503: "store"}


class UnreadBodyError(HTTPException):
    """The request is refused while its body is read. An ``HTTPException``, because FastAPI turns
    every other error raised there into a 400."""

    def __init__(self, problem: HttpError) -> None:
        super().__init__(problem.status)
        self.problem = problem


class _ProblemResponse(JSONResponse):
    """In ASCII: what a sender wrote may be half a surrogate pair, which UTF-8 cannot hold."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


def response_of(error: HvxtuneError, instance: str) -> JSONResponse:
    """The whole answer."""
    headers = dict(error.headers) if isinstance(error, HttpError) else {}
    if isinstance(error, ComeBackLaterError):
        headers["Retry-After"] = str(max(1, math.ceil(error.wait_s)))
    if status_of(error) == 503:
        headers.setdefault("Retry-After", "5")
    body = redact_all(body_of(error, instance))  # what was sent is quoted, and may be a token
    return _ProblemResponse(body, status_of(error), media_type=MEDIA_TYPE, headers=headers)


def install(app: FastAPI) -> None:
    """Makes every error of ``app`` look like this."""

    @app.exception_handler(HvxtuneError)
    async def ours(request: Request, error: HvxtuneError) -> JSONResponse:
        if status_of(error) >= 500 and not isinstance(error, ComeBackLaterError):
            _log.error("%s %s: %s", request.method, request.url.path, error)
        return response_of(error, request.url.path)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        message, accepted, next_step = words_of(error, request)
        wrong = HttpError(
            422,
            message,
            accepted=accepted,
            next_step=next_step,
            errors=[
                {"field": ".".join(map(str, _place(one)))[:200], "message": one["msg"]}
                for one in error.errors()[:_MOST_FIELDS]
            ],
        )
        return response_of(wrong, request.url.path)

    @app.exception_handler(HTTPException)
    async def by_framework(request: Request, error: HTTPException) -> JSONResponse:
        plain = _in_our_words(error, request)
        plain.kind = _KINDS.get(error.status_code, "user")
        return response_of(plain, request.url.path)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.exception("%s %s", request.method, request.url.path, exc_info=error)
        ours = InternalError(
            f"{type(error).__name__} while answering {request.method} {request.url.path}",
            next_step="report it with the log of the service",
        )
        answer = response_of(ours, request.url.path)
        # The framework answers a fault outside of everything that would set these.
        answer.headers[HEADER] = current_request_id()
        answer.headers["Connection"] = "close"
        return answer


def _in_our_words(error: HTTPException, request: Request) -> HttpError:
    """The framework's refusal in our form, with what would be accepted."""
    if isinstance(error, UnreadBodyError):
        return error.problem
    status, message, accepted, headers = error.status_code, str(error.detail), "", error.headers
    match status:
        case 400 if "parsing the body" in message:  # like JSON that is wrong otherwise
            status, message, accepted = 422, "the body cannot be read", "JSON in UTF-8"
        case 404:
            message = f"no route {request.url.path[:200]}"
        case 405:
            message = f"{request.method} is not for this route"
            accepted = _allowed(request)
            headers = {"Allow": accepted}
    return HttpError(status, message, accepted=accepted, next_step="see /docs", headers=headers)


def _allowed(request: Request) -> str:
    """The methods of the requested path. The framework names those of one route only, and each
    method is a route of its own."""
    path = getattr(request.scope.get("route"), "path", "")
    operations = request.app.openapi()["paths"].get(path, {"get": None})
    methods = {method.upper() for method in operations}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def _place(error: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Where an error of Pydantic is: it places an unknown field at what it is in."""
    unknown = (error["ctx"]["name"],) if error["type"] == UNKNOWN_FIELD else ()
    return (*error["loc"], *unknown)


_SHOULD_BE = "Input should be "
_MOST_SHOWN = 80


def words_of(error: RequestValidationError, request: Request) -> tuple[str, str, str]:
    """The message, what is accepted, and the next step, for the first field that is wrong."""
    first = error.errors()[0]
    place = _place(first)
    name = ".".join(str(part) for part in place[1:]) or str(place[0])
    see = "see /docs for what each field takes"
    if first["type"] == UNKNOWN_FIELD:
        known: list[str] = first["ctx"]["known"]
        near = difflib.get_close_matches(first["ctx"]["name"], known, n=1)
        next_step = f"did you mean {near[0]}?" if near else see
        return f"{name}: no such field in this {place[0]}", ", ".join(known), next_step
    if first["type"] == "missing":
        return f"{name} is missing", "", see
    message: str = first["msg"]
    given = repr(first.get("input"))[:_MOST_SHOWN]
    if message.startswith(_SHOULD_BE):
        return f"{name} is {given}", message.removeprefix(_SHOULD_BE), see
    return f"{name}: {message} (given {given})", "", see
