"""One name for a request, from its answer over logs and the audit to the job it submitted.

A client or a proxy may choose it (``X-Request-ID``); else the service does. It travels in a
context variable, so whatever runs for the request, in its task or in a thread of it, finds it. A
conductor works under the id of the request that submitted the job.
"""

from __future__ import annotations

import logging
import re
import secrets
from contextvars import ContextVar
from typing import TYPE_CHECKING

from service.auth.tokens import PREFIX

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-ID"
NONE = "-"
"""Stands in logs where no request is served."""

_HEADER = HEADER.lower().encode()
_ACCEPTED = re.compile(rb"[A-Za-z0-9._:+/=@-]{1,100}")
_current: ContextVar[str] = ContextVar("request_id", default="")


def current_request_id() -> str:
    """The id of the request that is being served; empty if there is none."""
    return _current.get()


def work_for(request_id: str) -> None:
    """From now on this thread or task works for the request ``request_id``."""
    _current.set(request_id)


class RequestIds:
    """Names every request and says the name in the answer. Plain ASGI: every request pays."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _given(scope) or secrets.token_hex(8)
        # Never reset: the task ends with the request, and a fault is answered outside of here.
        _current.set(request_id)
        header = (_HEADER, request_id.encode())

        async def naming(message: Message) -> None:
            if message["type"] == "http.response.start":
                # A copy: an answer that is kept for the next who asks may bring this very list.
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        await self._app(scope, receive, naming)


def _given(scope: Scope) -> str | None:
    """What the client calls the request; ``None`` if it does not, or in a way that would not do:
    too long, with blanks that break lines of logs, or a token."""
    for name, value in scope["headers"]:
        if name == _HEADER:
            text: bytes = value
            if _ACCEPTED.fullmatch(text) and PREFIX.encode() not in text.lower():
                return text.decode()
            return None
    return None


class NamesRequests(logging.Filter):
    """Gives every record a ``request_id``; for the handler of a process."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record pass."""
        record.request_id = current_request_id() or NONE
        return True
