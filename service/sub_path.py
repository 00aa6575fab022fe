"""A service behind a proxy that publishes it below a path of its own, such as ``/hvx``.

The proxy takes the path off, so that routes and limits are those of any service; addresses in
answers get it back from the ASGI ``root_path``.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tuner.errors import UserError

_ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def read_root_path(text: str) -> str:
    """``--root-path`` without a slash at its end; ``UserError`` for anything but a path."""
    path = text.rstrip("/")
    if not _ROOT_PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise UserError(
            f"--root-path '{text[:80]}' cannot be one",
            accepted="the path below which a proxy publishes the service, such as /hvx",
        )
    return path


def published(request: Request, path: str) -> str:
    """``path`` of this service as its clients know it."""
    return f"{request.scope.get('root_path', '')}{path}"


class SubPath:
    """Tells all within that ``root_path`` comes before the path of each request."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":  # as ASGI has it: a path includes its root
            scope["root_path"] = self._root_path
            scope["path"] = self._root_path + scope["path"]
        await self._app(scope, receive, send)
