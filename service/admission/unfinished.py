"""Requests that outlast a shutdown are answered: 503, come back later."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from service.http_errors import HttpError
from service.problem_details import response_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("hvxtune.service")


class UnfinishedRequests:
    """Answers requests that the server cancels because it stops. Plain ASGI.

    Without it uvicorn logs a traceback for each, and the client sees a closed connection. An answer
    that has begun cannot be taken back: that one ends where it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            path = str(scope.get("path"))
            _log.warning("%s %s was cut off: the service is stopping", scope.get("method"), path)
            if scope["type"] != "http":
                raise
            if not begun:
                error = HttpError(
                    503,
                    "the service stopped before the request was done",
                    next_step="send it again once the service runs",
                )
                await response_of(error, path)(scope, receive, send)
