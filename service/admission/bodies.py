"""Bodies: their largest size, how those that nobody waits for end, and answers to HEAD,
which have none. All plain ASGI: a request without a body pays for a look at its headers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http_errors import HttpError
from service.problem_details import UnreadBodyError, response_of

BODY_LIMIT_BYTES = 1 << 20
"""Of requests other than uploads."""


def _too_large(limit_bytes: int) -> HttpError:
    """The answer. It closes the connection: what follows on it is still the body."""
    return HttpError(
        413,
        f"the body has more than {limit_bytes} bytes",
        accepted=f"at most {limit_bytes} bytes",
        next_step="send less in one request",
        headers={"Connection": "close"},
    )


class BodyLimit:
    """Refuses bodies beyond :data:`BODY_LIMIT_BYTES`, or what ``uploads`` says for a path: at
    once by their stated length, else while they are read."""

    def __init__(self, app: ASGIApp, uploads: Mapping[str, int]) -> None:
        self._app = app
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        limit_bytes = self._uploads.get(scope["path"], BODY_LIMIT_BYTES)
        said = HTTPConnection(scope).headers.get("content-length", "")
        if said.isdecimal() and (len(said) > 18 or int(said) > limit_bytes):
            await response_of(_too_large(limit_bytes), scope["path"])(scope, receive, send)
            return
        await self._app(scope, _counting(receive, limit_bytes), send)


def _counting(receive: Receive, limit_bytes: int) -> Receive:
    seen = 0

    async def counting() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit_bytes:
            raise UnreadBodyError(_too_large(limit_bytes))
        return message

    return counting


LINGER_S = 2.0
LINGER_BYTES = 1 << 18
"""How much more of the body is taken after such an answer, and for how long: a connection closed
while a client still sends is reset, and the client may lose the answer (RFC 9112, section 9.6)."""


class UnreadBodies:
    """Closes connections whose request was answered before its body had come; around everything
    that may refuse. Otherwise the server would go on reading, and throwing away, whatever a refused
    caller cares to send, as the next request can only begin behind it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (says := _says_of_body(scope)):
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send, waits_for_continue=b"expect" in says)
        await self._app(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request with a body, and its answer."""

    def __init__(self, receive: Receive, send: Send, *, waits_for_continue: bool) -> None:
        self._receive = receive
        self._send = send
        self._waits_for_continue = waits_for_continue
        self._has_come = False
        self._lingers = False

    async def receive(self) -> Message:
        """As of ASGI."""
        message = await self._receive()
        self._has_come = self._has_come or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """As of ASGI."""
        if message["type"] == "http.response.start" and not self._has_come:
            given = message.get("headers", ())
            headers = [one for one in given if one[0].lower() != b"connection"]
            headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
            # The client must know where the answer ends; one that waits for "100 Continue" has
            # not begun to send.
            has_length = any(name.lower() == b"content-length" for name, _ in headers)
            self._lingers = has_length and not self._waits_for_continue
        elif self._lingers and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _linger(self) -> None:
        left = LINGER_BYTES
        try:
            async with asyncio.timeout(LINGER_S):
                while left > 0:
                    message = await self._receive()
                    if not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))
        except TimeoutError:
            return


def _says_of_body(scope: Scope) -> set[bytes]:
    """The headers by which the request announces a body; empty for an empty body."""
    found = {
        name
        for name, value in scope["headers"]
        if name in (b"content-length", b"transfer-encoding", b"expect") and value != b"0"
    }
    return found if found - {b"expect"} else set()


class HeadRequests:
    """Lets routes answer HEAD as GET, and ends the answer with its head (RFC 9110, section 9.3.2).
    Middleware outside of it still sees HEAD, as the server does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}
        has_ended = False

        async def head_only(message: Message) -> None:
            nonlocal has_ended
            if has_ended:
                raise OSError("the answer to HEAD has ended")  # as if the client had gone
            await send(message)
            if message["type"] == "http.response.start":
                has_ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        try:
            await self._app(as_get, receive, head_only)
        except (ClientDisconnect, OSError):
            if not has_ended:
                raise
        finally:
            if "route" in as_get:  # what its time is counted under
                scope["route"] = as_get["route"]
