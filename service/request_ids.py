"""One name for a request, from its answer over logs and the audit to the job it submitted.

A client or a proxy may choose it (``X-Request-ID``); else the service does. It travels in a
context variable, so all code that runs for the request, in its task or its threads, finds it. A
conductor works under the id of the request that submitted the job.
"""

from __future__ import annotations

import logging
import re
import secrets
from contextvars import ContextVar
from typing import TYPE_CHECKING

from service.token_text import PREFIX, RedactingFormatter

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-ID"
NONE = "-"
"""In logs, outside of requests."""

_HEADER = HEADER.lower().encode()
_ACCEPTED = re.compile(rb"[A-Za-z0-9._:+/=@-]{1,100}")
_current: ContextVar[str] = ContextVar("request_id", default="")


def current_request_id() -> str:
    """The id of the current request; empty outside of requests."""
    return _current.get()


def work_for(request_id: str) -> None:
    """Makes ``request_id`` the current request of this thread or task."""
    _current.set(request_id)


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
        _current.set(request_id)
        header = (_HEADER, request_id.encode())

        async def naming(message: Message) -> None:
            if message["type"] == "http.response.start":
                # A copy: a kept answer may bring the very list that the next one gets.
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        await self._app(scope, receive, naming)


def _given(scope: Scope) -> str | None:
    """The client's name for the request; ``None`` without one, or for an unacceptable one: too
    long, with blanks that would break log lines, or a token."""
    for name, value in scope["headers"]:
        if name == _HEADER:
            text: bytes = value
            if _ACCEPTED.fullmatch(text) and PREFIX.encode() not in text.lower():
                return text.decode()
            return None
    return None


class NamesRequests(logging.Filter):
    """Gives every log record a ``request_id``."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record pass."""
        record.request_id = current_request_id() or NONE
        return True


def log_to_stderr() -> None:
    """Sends this process's log to standard error, with request ids and without tokens."""
    handler = logging.StreamHandler()
    handler.addFilter(NamesRequests())
    handler.setFormatter(
        RedactingFormatter(
            "%(asctime)s %(process)d %(levelname)s %(name)s [%(request_id)s]: %(message)s"
        )
    )
    logging.basicConfig(handlers=[handler], force=True)
    for name in ("hvxtune", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.INFO)
