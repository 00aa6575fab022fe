"""How large a request's body may be: known before it is read, or found while it is."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.problem_details import HttpError, response_of

BODY_LIMIT_BYTES = 1 << 20
"""Of requests that are no uploads."""


class BodyTooLargeError(HTTPException):
    """More came than is accepted. An ``HTTPException``, because FastAPI makes anything else that
    reading a body raises a 400."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(413)
        self.limit_bytes = limit_bytes

    @property
    def problem(self) -> HttpError:
        """The answer. It closes the connection: what follows on it is still the body."""
        return HttpError(
            413,
            f"the body has more than {self.limit_bytes} bytes",
            accepted=f"at most {self.limit_bytes} bytes",
            next_step="send less in one request",
            headers={"Connection": "close"},
        )


class BodyLimit:
    """Refuses bodies beyond :data:`BODY_LIMIT_BYTES`, or what ``uploads`` says for a path.

    Plain ASGI: requests without a body pay for one look at a header.
    """

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
            problem = BodyTooLargeError(limit_bytes).problem
            await response_of(problem, scope["path"])(scope, receive, send)
            return
        await self._app(scope, _counting(receive, limit_bytes), send)


def _counting(receive: Receive, limit_bytes: int) -> Receive:
    seen = 0

    async def counting() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit_bytes:
            raise BodyTooLargeError(limit_bytes)
        return message

    return counting
