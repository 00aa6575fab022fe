"""One name for a request, from its answer over logs and the audit to the job it submitted.

A client or a proxy may choose it (``X-Request-ID``); else the service does. It travels in a
context variable, so all code that runs for the request, in its task or its threads, finds it. A
conductor works under the id of the request that submitted the job.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from service.token_text import PREFIX
from tuner.log_ids import REQUEST, bind, ids

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-ID"

_HEADER = HEADER.lower().encode()
_ACCEPTED = re.compile(r"[A-Za-z0-9._:+/=@-]{1,100}")


def current_request_id() -> str:
    """The id of the current request; empty outside of requests."""
    return ids().get(REQUEST, "")


def work_for(request_id: str) -> None:
    """Makes ``request_id`` the current request of this thread or task."""
    bind(**{REQUEST: request_id})


class RequestIds:
    """Names every request, and repeats the name in the answer. Plain ASGI: every request pays.

    ``asgi-correlation-id`` would do the same with two differences: it edits the answer's own list
    of headers, which here may be that of a kept answer, and it exposes the header to other origins.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _given(scope) or secrets.token_hex(8)
        # Never reset: the task ends with the request, and a fault is answered outside of here.
        work_for(request_id)
        header = (_HEADER, request_id.encode())

        async def naming(message: Message) -> None:
            if message["type"] == "http.response.start":
                # A copy: a kept answer may bring the very list that the next one gets.
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        await self._app(scope, receive, naming)


def _header_of(scope: Scope, wanted: bytes) -> str:
    """The first header called ``wanted`` (small letters); empty without one."""
    for name, value in scope["headers"]:
        if name == wanted:
            text: bytes = value
            return text.decode("latin-1")
    return ""


def _given(scope: Scope) -> str | None:
    """The client's name for the request; ``None`` without one, or for an unacceptable one: too
    long, with blanks that would break log lines, or a token."""
    text = _header_of(scope, _HEADER)
    return text if _ACCEPTED.fullmatch(text) and PREFIX not in text.lower() else None
