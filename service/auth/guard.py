"""Stands before all routes: nothing is answered and no body is read without a valid token.

A path without a route, a route that forgot to name its scope (:func:`require`) and a request with
a broken body are refused alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import cast

from fastapi import Request
from fastapi.dependencies.models import Dependant
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from service.auth.caller import Caller, Scope, caller_of
from service.auth.gate import Gate
from service.http_errors import HttpError, for_strangers
from service.problem_details import UnreadBodyError, response_of
from tuner.errors import HvxtuneError

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})
"""Paths answered without a token."""

_POLICY_VIOLATION = 1008

Demand = Callable[[Request], Awaitable[Caller]]


def require(scope: Scope, *others: Scope) -> Demand:
    """A dependency that lets only callers with ``scope``, or one of ``others``, pass: 401 without
    a valid token, 403 without the scope, 429 beyond the rate."""

    async def caller(request: Request) -> Caller:
        # The guard has found it before the body was read; an application without one asks here.
        found = caller_of(request.scope) or await _found(request)
        if not any(found.may(one) for one in (scope, *others)):
            gate: Gate = request.app.state.gate
            await run_in_threadpool(gate.note_refusal, request, found, f"scope {scope}")
            raise lacks(found, scope, *others)
        return found

    # For the test that no route lacks one.
    caller.scopes = (scope, *others)  # type: ignore[attr-defined]
    return caller


def lacks(caller: Caller, scope: Scope, *others: Scope) -> HttpError:
    """403: the token of ``caller`` has none of the scopes."""
    return HttpError(
        403,
        f"the token '{caller.name}' lacks the scope '{scope}'",
        accepted=f"a token with {' or '.join((scope, *others, Scope.ADMIN))}",
        next_step=f"ask the owner of the service: hvxtune token create --scope {scope}",
        headers={
            "WWW-Authenticate": f'Bearer realm="hvxtune", error="insufficient_scope", '
            f'scope="{scope}"'
        },
    )


async def _found(connection: HTTPConnection) -> Caller:
    """The caller of ``connection``, by the gate of its application; errors as of a gate."""
    gate: Gate = connection.app.state.gate
    found = gate.caller_at_hand(connection)
    return found if found is not None else await run_in_threadpool(gate.caller, connection)


class Guard:
    """Lets requests with a valid token through to ``app``; :func:`caller_of` gives the caller.
    Plain ASGI, because every request pays for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_open(scope):
            try:
                found = await _found(HTTPConnection(scope))
            except HvxtuneError as error:
                await response_of(for_strangers(error), scope["path"])(scope, receive, send)
                return
            scope.setdefault("state", {})["caller"] = found
            if scope["method"] not in ("GET", "HEAD"):
                receive = _checked_first(scope, receive)
        elif scope["type"] == "websocket":  # no route takes one yet
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        await self._app(scope, receive, send)


def _checked_first(scope: AsgiScope, receive: Receive) -> Receive:
    """Reads a body only for callers with the scopes that the route demands: FastAPI would read it
    before it looks at the route's dependencies."""
    is_checked = False

    async def reading() -> Message:
        nonlocal is_checked
        if not is_checked:
            is_checked = True
            try:
                for demand in _demands(getattr(scope.get("route"), "dependant", None)):
                    await demand(Request(scope))
            except HttpError as error:
                raise UnreadBodyError(error) from None
        return await receive()

    return reading


def _demands(dependant: Dependant | None) -> Iterator[Demand]:
    """The dependencies of a route that :func:`require` made."""
    if dependant is None:
        return
    if hasattr(dependant.call, "scopes"):
        yield cast("Demand", dependant.call)
    for inner in dependant.dependencies:
        yield from _demands(inner)


def _is_open(scope: AsgiScope) -> bool:
    """Whether anybody may ask. ``state.self_guarded`` holds the places, pages for people, that
    check their visitors themselves; the root only leads there."""
    path: str = scope["path"]
    own = f"{path}/".startswith(scope["app"].state.self_guarded)
    return path == "/" or path in OPEN_PATHS or own
