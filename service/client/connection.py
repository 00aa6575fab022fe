"""The connection to a service: its address, the token, and requests and replies as httpx has
them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from service.client.answers import Failure, Reply, Request
from service.client.transfers import CHUNK_BYTES, opened
from service.settings import default_server
from tuner.errors import UserError

TOKEN_VARIABLE = "HVXTUNE_TOKEN"  # noqa: S105 - its name, not its value


def find_server(given: str | None) -> str:
    """The address ``given``, or the one in ``HVXTUNE_SERVER``, without a slash at its end."""
    server = given or default_server()
    accepted = "an address such as http://127.0.0.1:8100"
    if not server:
        raise UserError(
            "no service is named", accepted=accepted, next_step="use --server or HVXTUNE_SERVER"
        )
    try:
        parts = urlsplit(server)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        known = None
    if not known or parts.query or parts.fragment or parts.username:
        raise UserError(f"'{server}' is not the address of a service", accepted=accepted)
    return server.rstrip("/")


def is_loopback(server: str) -> bool:
    """Whether ``server`` is on this machine."""
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_token(server: str, given: str | None) -> str | None:
    """The token to send to ``server``: ``given``, the one in ``HVXTUNE_TOKEN``, or for a service
    on this machine the one it left in the state directory. Otherwise ``None``: none is sent."""
    token = given or os.environ.get(TOKEN_VARIABLE)
    if token:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise UserError(
                "the token has characters that no token can have",
                accepted="hvx_ID_SECRET, as `hvxtune token create` prints it",
            )
        return token
    if not is_loopback(server):
        return None
    from service.auth.local_token import local_token

    return local_token()


class Bearer(httpx.Auth):
    """Sends the token that ``find`` gives; after a 401 without one, looks for it again: a service
    leaves one at its first start, maybe after it accepted the connection.
    """

    def __init__(self, find: Callable[[], str | None]) -> None:
        self._find = find
        self._token: str | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._token is None:
            self._token = self._find()
        sent = self._set(request)
        response = yield request
        if response.status_code == 401 and not sent:
            self._token = self._find()
            if self._set(request):
                yield request

    def _set(self, request: httpx.Request) -> bool:
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return self._token is not None


class SyncUpload(httpx.SyncByteStream):
    """A file as a body, read again each time it is sent."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        with opened(self._file) as read:
            while part := read(CHUNK_BYTES):
                yield part


def arguments(request: Request, upload: httpx.SyncByteStream | None = None) -> dict[str, Any]:
    """``request`` as arguments of httpx."""
    given: dict[str, Any] = {
        "method": request.method,
        "url": request.path,
        "params": request.query or None,
        "headers": dict(request.headers),
    }
    if upload is not None:
        given["content"] = upload
    elif isinstance(request.body, bytes):
        given["content"] = request.body
    elif request.body is not None:
        given["json"] = request.body
    return given


def head_of(response: httpx.Response) -> Reply:
    """The reply without its body."""
    return reply_of(response, b"")


def reply_of(response: httpx.Response, content: bytes) -> Reply:
    """The reply as a plain value."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, content)


def is_stream(response: httpx.Response) -> bool:
    """Whether events follow."""
    kind = cast(str, response.headers.get("content-type", ""))
    return response.status_code == 200 and kind.startswith("text/event-stream")


def failure_of(error: httpx.HTTPError) -> Failure:
    """Why no reply came."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ConnectionRefusedError):
        cause = cause.__cause__ or cause.__context__
    return Failure(str(error) or type(error).__name__, refused=cause is not None)
