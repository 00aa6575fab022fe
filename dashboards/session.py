"""The visitor of a page: a session that begins with a token and ends with the logout.

The cookie holds a secret of the session's own, which is worthless over REST. The database has its
digest and the token that began it: once the session ends there, or its token is revoked, the
cookie opens nothing, wherever it was copied to. Every form carries a token of its session (CSRF);
the login form, which has no session yet, that of a short-lived signed cookie.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import Request
from itsdangerous import BadSignature, URLSafeTimedSerializer
from pydantic import BeforeValidator
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import HTTPConnection
from starlette.responses import Response

from db.access.sessions import begin_session, end_session, token_of_session
from service.auth.audit import record
from service.auth.caller import Caller, Scope
from service.auth.guard import lacks
from service.http_errors import HttpError
from tuner.errors import UserError
from tuner.paths import for_this_user, writable

if TYPE_CHECKING:
    from db.sql_store import SqlStore
    from service.auth.gate import Gate

EMPTY_MEANS_ALL = BeforeValidator(lambda given: given or None)
"""Of a filter in an address: what a form sends where nothing was chosen."""
CSRF_FIELD = "csrf_token"
MOST_FIELDS = 64
SESSION_COOKIE = "hvxtune_session"
SESSION_LIFETIME_S = 12 * 3600
_KEY_BYTES = 32
_SECRET_BYTES = 32


@dataclass(frozen=True)
class CookieKind:
    """A signed cookie and how long it is valid."""

    cookie: str
    salt: str
    lifetime_s: int


LOGIN = CookieKind("hvxtune_login", "login", 3600)


@dataclass(frozen=True)
class Viewer:
    """The visitor of a page. ``csrf`` goes into every form of theirs."""

    caller: Caller
    csrf: str

    def may(self, scope: str) -> bool:
        """Whether the viewer's token has ``scope``; for templates."""
        return self.caller.may(Scope(scope))


class LoginNeeded(Exception):  # noqa: N818  # a redirect, not an error
    """Without a session, or after its end."""

    def login_place(self, request: Request) -> str:
        """The login page, which leads back to where the viewer wanted to go."""
        root = request.scope.get("root_path", "")
        asked = request.url.path if request.method == "GET" else f"{root}/jobs"
        if request.headers.get("HX-Request"):
            asked = f"{root}/jobs"
        query = f"?{request.url.query}" if request.url.query and request.method == "GET" else ""
        return f"{root}/login?next={quote(asked + query)}"


class SignedCookies:
    """Signs and reads cookies. The key is in the state directory, so that cookies survive
    restarts."""

    def __init__(self) -> None:
        self._key: str | None = None

    def read(self, request: HTTPConnection, kind: CookieKind) -> Mapping[str, Any] | None:
        """The content of the cookie; ``None`` without one, or with a forged or old one."""
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
        value = self._serializer(kind).dumps(dict(data))
        _set_cookie(request, answer, kind.cookie, value, kind.lifetime_s)

    def _serializer(self, kind: CookieKind) -> URLSafeTimedSerializer:
        if self._key is None:
            self._key = _stored_key()
        return URLSafeTimedSerializer(self._key, salt=f"hvxtune.{kind.salt}")


def _set_cookie(request: Request, answer: Response, name: str, value: str, lifetime_s: int) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=lifetime_s,
        path=request.scope.get("root_path", "") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def _stored_key() -> str:
    """The signing key of this state directory, made at its first use; for its owner only."""
    path = writable("pages") / "session-key"
    made = path.with_name(f"session-key.{secrets.token_hex(4)}")
    with open(made, "x", opener=for_this_user) as file:
        file.write(secrets.token_hex(_KEY_BYTES))
    try:
        os.link(made, path)  # fails if another process was first; then its key counts
    except FileExistsError:
        pass
    finally:
        made.unlink()
    return path.read_text()


def signed_cookies_of(request: Request) -> SignedCookies:
    """The signed cookies of the application."""
    found: SignedCookies = request.app.state.signed_cookies
    return found


def caller_with(request: Request, token: str) -> Caller:
    """The caller that a REST request with ``token`` would have; ``HttpError`` 401 or 429."""
    gate: Gate = request.app.state.gate
    kept = [(k, v) for k, v in request.scope["headers"] if k != b"authorization"]
    bearer = (b"authorization", f"Bearer {token}".encode("latin-1", "replace"))
    return gate.caller(HTTPConnection({**request.scope, "headers": [*kept, bearer]}))


def begin(request: Request, caller: Caller) -> str:
    """Begins a session of ``caller`` and ends the one that this browser had; returns the secret for
    the cookie. Blocks."""
    store: SqlStore = request.app.state.store
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    with store.transaction():
        end(request)
        begin_session(store, _digest(secret), caller.token_id, SESSION_LIFETIME_S)
        record(store, caller, "session.begin", caller.token_id, request=request)
    return secret


def let_in(request: Request, answer: Response, secret: str) -> None:
    """Gives the browser the cookie of a session that was begun."""
    _set_cookie(request, answer, SESSION_COOKIE, secret, SESSION_LIFETIME_S)


def end(request: Request) -> None:
    """Ends the session of this browser, if it has one, for every copy of its cookie. Blocks."""
    store: SqlStore = request.app.state.store
    secret = request.cookies.get(SESSION_COOKIE)
    if secret is not None:
        end_session(store, _digest(secret))


def viewer_of(request: Request) -> Viewer:
    """The visitor; :class:`LoginNeeded` without a valid session. Blocks."""
    store: SqlStore = request.app.state.store
    secret = request.cookies.get(SESSION_COOKIE)
    token_id = None if secret is None else token_of_session(store, _digest(secret))
    if secret is None or token_id is None:
        raise LoginNeeded
    gate: Gate = request.app.state.gate
    try:
        caller = gate.holder(token_id)
    except HttpError as error:
        if error.status == 401:
            raise LoginNeeded from None
        raise
    return Viewer(caller, _digest(f"csrf {secret}"))


def _digest(secret: str) -> str:
    """Unsalted and in one step: 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def viewing(scope: Scope) -> Callable[[Request], Viewer]:
    """A dependency that lets only viewers with ``scope`` pass."""

    def viewer(request: Request) -> Viewer:
        found = viewer_of(request)
        request.state.viewer = found
        request.state.caller = found.caller
        if not found.caller.may(scope):
            gate: Gate = request.app.state.gate
            gate.note_refusal(request, found.caller, f"scope {scope}")
            raise lacks(found.caller, scope)
        return found

    viewer.scope = scope  # type: ignore[attr-defined]  # for the test that no page lacks one
    return viewer


@dataclass(frozen=True)
class Form:
    """The fields of a submitted form, from a viewer who may submit it."""

    viewer: Viewer
    fields: FormData

    def text(self, name: str, default: str = "") -> str:
        """A field without blanks around it."""
        value = self.fields.get(name, default)
        return value.strip() if isinstance(value, str) else default

    def has_file(self, name: str) -> bool:
        """Whether a file was chosen for this field."""
        value = self.fields.get(name)
        return isinstance(value, UploadFile) and bool(value.filename)

    def file(self, name: str) -> tuple[str, bytes]:
        """The name and content of a file; ``UserError`` without one. Blocks."""
        value = self.fields.get(name)
        if not isinstance(value, UploadFile) or value.filename is None or not value.filename:
            raise UserError("no file was chosen", next_step="choose one and send it again")
        return value.filename.replace("\\", "/").rpartition("/")[2][-200:], value.file.read()


def form_of(scope: Scope, files: int = 0) -> Callable[..., Awaitable[Form]]:
    """A dependency: the form a viewer with ``scope`` sent, with as many ``files`` at most. 403
    without the session's token."""
    seen = viewing(scope)

    async def form(request: Request) -> Form:
        viewer = await run_in_threadpool(seen, request)
        fields = await request.form(max_files=files, max_fields=MOST_FIELDS)
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
