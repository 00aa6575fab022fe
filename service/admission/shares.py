"""A caller's share of the threads that answer, and of the streams.

Most routes answer in threads, of which there are few. A caller gets a part of them at most; further
requests wait on the event loop, where waiting costs next to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.admission.turns import Crowd, Turns
from service.auth.caller import caller_of, client_of, network_of
from service.problem_details import response_of
from tuner.codegen.fairness import ON_BEHALF_OF, Ledger
from tuner.errors import ComeBackLaterError
from tuner.kernels import PIPELINE_PREFIX

THREADS = 26
EACH_THREADS = 8
UPLOAD_THREADS = 6
EACH_UPLOAD_THREADS = 2
"""Uploads are read in other processes, maybe for long, so waiting for them must not hold up other
requests. The framework has 40 threads; the rest look up tokens."""
MOST_REQUESTS = 512
EACH_REQUESTS = 64
"""Per caller, answered or waiting."""
MOST_STREAMS = 256
EACH_STREAMS = 32
"""Per caller; a stream may last as long as its job."""
_WINDOW_S = 60.0
_BETWEEN_BATCHES_S = 0.002

_STREAMS = "/events"
_LOOK_UPS = "/v1/schedules/best"
_BATCHES = "/v1/schedules/best:batch"


class Shares:
    """Lets requests through to ``app``, each within its caller's share. Plain ASGI, behind the
    guard; open paths pass."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._requests = Crowd("requests", MOST_REQUESTS, EACH_REQUESTS)
        self._streams = Crowd("streams of events", MOST_STREAMS, EACH_STREAMS)
        self._threads = Turns(THREADS, EACH_THREADS, Ledger(_WINDOW_S, _WINDOW_S))
        self._uploads = Turns(UPLOAD_THREADS, EACH_UPLOAD_THREADS, Ledger(_WINDOW_S, _WINDOW_S))
        self._one_batch = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = _caller(scope)
        if caller is None:
            await self._app(scope, receive, send)
            return
        ON_BEHALF_OF.set(caller)
        path: str = scope["path"]
        crowd = self._streams if path.endswith(_STREAMS) else self._requests
        try:
            async with AsyncExitStack() as inside:
                await inside.enter_async_context(crowd.enter(caller))
                if path == _BATCHES:
                    receive = self._apart(receive)
                elif path != _LOOK_UPS and crowd is not self._streams:
                    turn = _Turn(self._uploads if _reads_uploads(path) else self._threads, caller)
                    inside.callback(turn.end)
                    receive, send = await turn.around(scope, receive, send)
                await self._app(scope, receive, send)
        except ComeBackLaterError as error:
            await response_of(error, path)(scope, receive, send)

    def _apart(self, receive: Receive) -> Receive:
        """Hands out the bodies of batches one by one: reading one keeps the event loop busy for
        some milliseconds, and fifty at once for a quarter of a second."""

        async def apart() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                async with self._one_batch:
                    await asyncio.sleep(_BETWEEN_BATCHES_S)
            return message

        return apart


def _reads_uploads(path: str) -> bool:
    return path.startswith("/v1/pipelines") or PIPELINE_PREFIX in path


def _caller(scope: Scope) -> str | None:
    """The user who asks. Pages find their visitors themselves, and later: there an address counts
    as one caller."""
    if scope["type"] != "http":
        return None
    caller = caller_of(scope)
    if caller is not None:
        return caller.name
    if scope["path"].startswith(scope["app"].state.self_guarded):
        return f"visitors from {network_of(client_of(HTTPConnection(scope)))}"
    return None


class _Turn:
    """A request's place among the threads: from the end of its body to the start of its answer. A
    slow sender or reader holds none."""

    def __init__(self, threads: Turns, caller: str) -> None:
        self._threads = threads
        self._caller = caller
        self._give_back: Callable[[], None] | None = None
        self._is_over = False

    async def around(self, scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """``receive`` and ``send`` that begin and end the turn."""
        if not _has_body(scope):
            await self._begin()
            return receive, self._ending(send)

        async def beginning() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                await self._begin()
            return message

        return beginning, self._ending(send)

    def _ending(self, send: Send) -> Send:
        async def ending(message: Message) -> None:
            self.end()
            await send(message)

        return ending

    async def _begin(self) -> None:
        if self._give_back is None and not self._is_over:
            self._give_back = await self._threads.take(self._caller)

    def end(self) -> None:
        """Gives the place back."""
        self._is_over = True
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
