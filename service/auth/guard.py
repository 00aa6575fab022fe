"""Stands before all routes: without a valid token nothing is answered, and no body is read.

A route that forgot to name its scope, a path that no route serves and a request with a broken
body are refused alike. A plain ASGI wrapper, because every request pays for it.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from service.auth.gate import find_caller
from service.problem_details import response_of
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
                await response_of(error, scope["path"])(scope, receive, send)
                return
            scope.setdefault("state", {})["caller"] = found
        elif scope["type"] == "websocket":  # there are none yet, so none is let through
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        await self._app(scope, receive, send)


def _is_open(scope: Scope) -> bool:
    """Whether nobody has to be known here; ``state.self_guarded`` has the places, pages for
    people, that tell their visitors apart by themselves. The root only leads there."""
    path: str = scope["path"]
    return path == "/" or path in OPEN_PATHS or path.startswith(scope["app"].state.self_guarded)
