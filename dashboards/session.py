"""Who looks at a page: a session that begins with a token and lives in a signed cookie.

The cookie holds the token's id, not the token: whoever reads it cannot use it over REST, and a
token that is revoked ends its sessions at the next request. Every form carries a token of its
session (CSRF); the login form, which has no session yet, that of a short-lived cookie.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import Request
from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import HTTPConnection
from starlette.responses import Response

from service.auth.caller import Caller, Scope
from service.problem_details import HttpError
from tuner.paths import writable

if TYPE_CHECKING:
    from service.auth.gate import Gate

CSRF_FIELD = "csrf_token"
MOST_FIELDS = 64
_KEY_BYTES = 32


@dataclass(frozen=True)
class CookieKind:
    """A cookie and how long what it says is believed."""

    cookie: str
    salt: str
    lifetime_s: int


SESSION = CookieKind("hvxtune_session", "session", 12 * 3600)
LOGIN = CookieKind("hvxtune_login", "login", 3600)


@dataclass(frozen=True)
class Viewer:
    """Who looks at a page. ``csrf`` goes into every form of theirs."""

    caller: Caller
    csrf: str

    def may(self, scope: str) -> bool:
        """Whether the viewer's token has ``scope``; for templates."""
        return self.caller.may(Scope(scope))


class LoginNeeded(Exception):  # noqa: N818  # a redirect, not an error
    """There is no session, or it has ended."""

    def login_place(self, request: Request) -> str:
        """The login page, which leads back to where the viewer wanted to go."""
        root = request.scope.get("root_path", "")
        asked = request.url.path if request.method == "GET" else f"{root}/jobs"
        if request.headers.get("HX-Request"):
            asked = f"{root}/jobs"
        query = f"?{request.url.query}" if request.url.query and request.method == "GET" else ""
        return f"{root}/login?next={quote(asked + query)}"


class Sessions:
    """Signs and reads the cookies. Its key lies in the state directory, so that sessions live
    through restarts."""

    def __init__(self) -> None:
        self._key: str | None = None

    def read(self, request: HTTPConnection, kind: CookieKind) -> Mapping[str, Any] | None:
        """What the cookie says; ``None`` without one, or with one that we did not make lately."""
        value = request.cookies.get(kind.cookie)
        if value is None:
            return None
        try:
            data = self._serializer(kind).loads(value, max_age=kind.lifetime_s)
        except BadSignature:
            return None
        return data if isinstance(data, dict) else None

    def write(
        self, request: Request, answer: Response, kind: CookieKind, data: Mapping[str, str]
    ) -> None:
        """Sets the cookie on ``answer``."""
        answer.set_cookie(
            kind.cookie,
            self._serializer(kind).dumps(dict(data)),
            max_age=kind.lifetime_s,
            path=request.scope.get("root_path", "") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    def _serializer(self, kind: CookieKind) -> URLSafeTimedSerializer:
        if self._key is None:
            self._key = _stored_key()
        return URLSafeTimedSerializer(self._key, salt=f"hvxtune.{kind.salt}")


def _stored_key() -> str:
    """The signing key of this state directory, made at its first use; for its owner only."""
    path = writable("pages") / "session-key"
    fresh = secrets.token_hex(_KEY_BYTES)
    made = path.with_name(f"session-key.{secrets.token_hex(4)}")
    with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(fresh)
    try:
        os.link(made, path)  # fails if another process was first; then its key counts
    except FileExistsError:
        pass
    finally:
        made.unlink()
    return path.read_text()


def sessions_of(request: Request) -> Sessions:
    """A dependency: the sessions of the application."""
    found: Sessions = request.app.state.sessions
    return found


def caller_with(request: Request, token: str) -> Caller:
    """The caller that a REST request with ``token`` would have; ``HttpError`` 401 or 429."""
    gate: Gate = request.app.state.gate
    kept = [(k, v) for k, v in request.scope["headers"] if k != b"authorization"]
    bearer = (b"authorization", f"Bearer {token}".encode("latin-1", "replace"))
    return gate.caller(HTTPConnection({**request.scope, "headers": [*kept, bearer]}))


def begin(request: Request, answer: Response, caller: Caller) -> None:
    """Begins a session of ``caller``."""
    data = {"token": caller.token_id, "csrf": secrets.token_urlsafe(24)}
    sessions_of(request).write(request, answer, SESSION, data)


def viewer_of(request: Request) -> Viewer:
    """Who looks; :class:`LoginNeeded` if that is not known."""
    data = sessions_of(request).read(request, SESSION)
    if data is None:
        raise LoginNeeded
    gate: Gate = request.app.state.gate
    try:
        caller = gate.holder(str(data.get("token")))
    except HttpError as error:
        if error.status == 401:
            raise LoginNeeded from None
        raise
    return Viewer(caller, str(data.get("csrf")))


def viewing(scope: Scope) -> Callable[[Request], Viewer]:
    """A dependency that lets only viewers with ``scope`` pass."""

    def viewer(request: Request) -> Viewer:
        found = viewer_of(request)
        request.state.viewer = found
        request.state.caller = found.caller
        if not found.caller.may(scope):
            gate: Gate = request.app.state.gate
            gate.note_refusal(request, found.caller, f"scope {scope}")
            raise HttpError(
                403,
                f"the token '{found.caller.name}' has not the scope '{scope}'",
                accepted=f"a token with {scope} or {Scope.ADMIN}",
                next_step=f"ask the owner of the service: hvxtune token create --scope {scope}",
            )
        return found

    viewer.scope = scope  # type: ignore[attr-defined]  # for the test that no page lacks one
    return viewer


@dataclass(frozen=True)
class Form:
    """What a form sent, from a viewer who may send it."""

    viewer: Viewer
    fields: FormData

    def text(self, name: str, default: str = "") -> str:
        """A field without blanks around it."""
        value = self.fields.get(name, default)
        return value.strip() if isinstance(value, str) else default


def form_of(scope: Scope) -> Callable[..., Awaitable[Form]]:
    """A dependency: the form a viewer with ``scope`` sent. 403 without the session's token."""
    seen = viewing(scope)

    async def form(request: Request) -> Form:
        viewer = await run_in_threadpool(seen, request)
        fields = await request.form(max_files=0, max_fields=MOST_FIELDS)
        require_csrf(viewer.csrf, fields.get(CSRF_FIELD))
        return Form(viewer, fields)

    form.scope = scope  # type: ignore[attr-defined]
    return form


def require_csrf(expected: str, given: object) -> None:
    """403 unless the form came from a page of ours."""
    if not (isinstance(given, str) and hmac.compare_digest(given.encode(), expected.encode())):
        raise HttpError(
            403,
            "the form did not come from a page of this service, or its session has ended",
            next_step="open the page again and repeat it",
        )
