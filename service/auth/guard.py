"""Stands before all routes: without a valid token nothing is answered, and no body is read.

A route that forgot to name its scope, a path that no route serves and a request with a broken
body are refused alike. A plain ASGI wrapper, because every request pays for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from fastapi.dependencies.models import Dependant
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth.gate import find_caller
from service.auth.required import Demand
from service.problem_details import HttpError, for_strangers, response_of
from tuner.errors import HvxtuneError

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})
"""What is answered without a token."""

_POLICY_VIOLATION = 1008


class Guard:
    """Lets requests with a valid token through to ``app``; their ``state.caller`` is set."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_open(scope):
            try:
                found = await find_caller(HTTPConnection(scope))
            except HvxtuneError as error:
                await response_of(for_strangers(error), scope["path"])(scope, receive, send)
                return
            scope.setdefault("state", {})["caller"] = found
            if scope["method"] not in ("GET", "HEAD"):
                receive = _read_by_those_who_may(scope, receive)
        elif scope["type"] == "websocket":  # there are none yet, so none is let through
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        await self._app(scope, receive, send)


class _RefusedUnreadError(HTTPException):
    """The body is not for this caller to send. An ``HTTPException``, because FastAPI makes anything
    else that reading a body raises a 400."""

    def __init__(self, problem: HttpError) -> None:
        super().__init__(problem.status)
        self.problem = problem


def _read_by_those_who_may(scope: Scope, receive: Receive) -> Receive:
    """Reads a body only for callers with the scopes that the route demands: FastAPI reads it
    before it looks at what the route depends on."""
    is_checked = False

    async def reading() -> Message:
        nonlocal is_checked
        if not is_checked:
            is_checked = True
            try:
                for demand in _demands(getattr(scope.get("route"), "dependant", None)):
                    await demand(Request(scope))
            except HttpError as error:
                raise _RefusedUnreadError(error) from None
        return await receive()

    return reading


def _demands(dependant: Dependant | None) -> Iterator[Demand]:
    """What a route depends on that was made by :func:`service.auth.require`."""
    if dependant is None:
        return
    if hasattr(dependant.call, "scopes"):
        yield cast("Demand", dependant.call)
    for inner in dependant.dependencies:
        yield from _demands(inner)


def _is_open(scope: Scope) -> bool:
    """Whether nobody has to be known here; ``state.self_guarded`` has the places, pages for
    people, that tell their visitors apart by themselves. The root only leads there."""
    path: str = scope["path"]
    return path == "/" or path in OPEN_PATHS or path.startswith(scope["app"].state.self_guarded)
