"""Log in with a token, and log out."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from dashboards.session import (
    CSRF_FIELD,
    LOGIN,
    SESSION_COOKIE,
    Viewer,
    begin,
    caller_with,
    end,
    let_in,
    require_csrf,
    signed_cookies_of,
    viewer_of,
)
from dashboards.templating import render
from db.sql_store import SqlStore
from service.auth.audit import record
from service.http_errors import HttpError

router = APIRouter()

HOW_TO_ENTER = "paste a whole token below; one begins with hvx_ (hvxtune token create makes one)"


@router.get("/login")
def show(request: Request, next: str = "") -> Response:  # noqa: A002  # its name in addresses
    """The form."""
    return _form(request, next)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Begins a session if the token is valid."""
    fields = await request.form(max_files=0, max_fields=8)
    sent = signed_cookies_of(request).read(request, LOGIN)
    require_csrf(str((sent or {}).get("csrf", secrets.token_hex())), fields.get(CSRF_FIELD))
    token = str(fields.get("token", "")).strip()
    place = str(fields.get("next", ""))
    try:
        caller = await run_in_threadpool(caller_with, request, token)
    except HttpError as error:
        return _form(request, place, _for_people(error, token), status=error.status)
    answer = RedirectResponse(_own_place(request, place), 303)
    let_in(request, answer, await run_in_threadpool(begin, request, caller))
    answer.delete_cookie(LOGIN.cookie, path=request.scope.get("root_path", "") or "/")
    return answer


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """Ends the session of this browser for good, whatever its token's scopes."""
    fields = await request.form(max_files=0, max_fields=8)
    viewer = await run_in_threadpool(viewer_of, request)
    require_csrf(viewer.csrf, fields.get(CSRF_FIELD))
    await run_in_threadpool(_end, request, viewer)
    root = request.scope.get("root_path", "")
    answer = RedirectResponse(f"{root}/login", 303)
    answer.delete_cookie(SESSION_COOKIE, path=root or "/")
    return answer


def _for_people(error: HttpError, token: str) -> HttpError:
    """``error`` for a form: the gate's words are for those who send headers."""
    if not token:
        return HttpError(error.status, "no token was entered", next_step=HOW_TO_ENTER)
    next_step = HOW_TO_ENTER if "Authorization" in error.next_step else error.next_step
    return HttpError(error.status, error.message, next_step=next_step)


def _end(request: Request, viewer: Viewer) -> None:
    store: SqlStore = request.app.state.store
    with store.transaction():
        end(request)
        record(store, viewer.caller, "session.end", viewer.caller.token_id, request=request)


def _form(
    request: Request, place: str, error: HttpError | None = None, status: int = 200
) -> Response:
    csrf = secrets.token_urlsafe(24)
    answer = render(
        request, "login.html", status=status, login_csrf=csrf, next_place=place, error=error
    )
    signed_cookies_of(request).write(request, answer, LOGIN, {"csrf": csrf})
    return answer


def _own_place(request: Request, asked: str) -> str:
    """The page after the login: one of ours, whatever the address said."""
    root = request.scope.get("root_path", "")
    plain = all(" " <= mark < "\x7f" for mark in asked) and "\\" not in asked
    return asked if plain and asked.startswith(f"{root}/") else f"{root}/jobs"
