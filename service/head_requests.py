"""HEAD wherever there is GET: the same head, without the body (RFC 9110, section 9.3.2)."""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """Lets routes answer HEAD as GET, and ends the answer with its head. Plain ASGI.

    What stands outside of it still sees HEAD, as the server does.
    """

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
