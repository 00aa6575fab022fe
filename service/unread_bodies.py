"""An answer that does not wait for the request's body closes the connection.

Otherwise the server would go on reading, and throwing away, whatever a refused caller cares to
send, as the next request can only begin behind it.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINGER_S = 2.0
LINGER_BYTES = 1 << 18
"""After such an answer so much more of the body is taken, and no longer: a connection closed while
a client still sends is reset, and the client may lose the answer (RFC 9112, section 9.6)."""


class UnreadBodies:
    """Closes connections whose request was answered before its body had come. Plain ASGI, around
    everything that may refuse; requests without a body pay for a look at their headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (says := _says_of_body(scope)):
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send, waits_for_leave=b"expect" in says)
        await self._app(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request with a body, and its answer."""

    def __init__(self, receive: Receive, send: Send, *, waits_for_leave: bool) -> None:
        self._receive = receive
        self._send = send
        self._waits_for_leave = waits_for_leave
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
            self._lingers = has_length and not self._waits_for_leave
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
    """The headers by which the request announces a body; none for an empty one."""
    found = {
        name
        for name, value in scope["headers"]
        if name in (b"content-length", b"transfer-encoding", b"expect") and value != b"0"
    }
    return found if found - {b"expect"} else set()
