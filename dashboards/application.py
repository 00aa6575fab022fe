"""The pages as an application of their own, mounted into the service, and ``/docs``.

Its own, because everything about it is for browsers: errors are pages, callers come by a session
cookie, and every answer carries headers that keep foreign scripts and frames out.

``/docs`` shows the routes by Swagger UI. Its script and style are served from here: a page that
loads them from elsewhere tells that host who reads it, and runs whatever it sends with the reader's
token at hand.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboards.explaining import Explanations
from dashboards.kept import Kept
from dashboards.session import LOGIN, LoginNeeded, SignedCookies, viewer_of
from dashboards.templating import compile_templates, render
from service.http_errors import HttpError, for_strangers, status_of
from service.sub_path import published
from tuner.errors import HvxtuneError, InternalError

ROOT = "/ui"
STATIC = Path(__file__).parent / "static"

PAGES: tuple[str, ...] = (
    "dashboards.pages.login",
    "dashboards.pages.annotating",
    "dashboards.pages.jobs",
    "dashboards.pages.submit",
    "dashboards.pages.kernels",
    "dashboards.pages.job",
    "dashboards.pages.network",
    "dashboards.pages.analysis",
    "dashboards.pages.trial",
    "dashboards.pages.code",
    "dashboards.pages.schedules",
    "dashboards.pages.compare",
    "dashboards.pages.farm",
)
"""Modules with a ``router``; one line adds a page."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

_GO_ON = "choose a page above, or open a job from the list of jobs"

_log = logging.getLogger("hvxtune.pages")


def add_pages(service: FastAPI) -> None:
    """Mounts the pages under ``/ui``, where the bare address leads."""
    pages = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    pages.state = service.state
    pages.state.signed_cookies = SignedCookies()
    pages.state.explanations = Explanations()
    pages.state.kept = Kept()
    _show_errors(pages)
    for name in PAGES:
        pages.include_router(import_module(name).router)
    pages.mount("/static", StaticFiles(directory=STATIC), name="static")
    # Around all of it, so that the answer to an unexpected fault has them too.
    service.mount(ROOT, SecurityHeaders(pages), name="pages")
    service.state.self_guarded = (*service.state.self_guarded, f"{ROOT}/")
    service.state.preparations = (*service.state.preparations, compile_templates)

    add_api_docs(service, ROOT, SECURITY_HEADERS)

    # People type the address that `hvxtune serve` prints, or the one in the documentation.
    @service.get("/", include_in_schema=False)
    @service.get(ROOT, include_in_schema=False)
    async def front(request: Request) -> RedirectResponse:
        return RedirectResponse(published(request, f"{ROOT}/jobs"), 303)

    @pages.get("/")
    async def first_page(request: Request) -> RedirectResponse:
        return RedirectResponse(published(request, "/jobs"), 303)


class SecurityHeaders:
    """Adds :data:`SECURITY_HEADERS` to every answer; caches keep no pages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                # Revalidated by ETag: an upgrade must not leave old scripts with new pages.
                static = scope["path"].removeprefix(scope["root_path"]).startswith("/static/")
                headers.setdefault("Cache-Control", "no-cache" if static else "no-store")
            await send(message)

        await self._app(scope, receive, guarded)


def _show_errors(pages: FastAPI) -> None:
    """Makes every error a page, or a part of one for a request for a part."""

    @pages.exception_handler(LoginNeeded)
    async def login(request: Request, needed: LoginNeeded) -> Response:
        place = needed.login_place(request)
        if request.headers.get("HX-Request"):
            return Response(status_code=204, headers={"HX-Redirect": place})
        answer = RedirectResponse(place, 303)
        answer.delete_cookie(LOGIN.cookie, path=ROOT)
        return answer

    @pages.exception_handler(HvxtuneError)
    async def ours(request: Request, error: HvxtuneError) -> Response:
        if not hasattr(request.state, "viewer"):
            return await _error_page(request, for_strangers(error))
        if status_of(error) >= 500:
            _log.error("%s %s: %s", request.method, request.url.path, error)
        return await _error_page(request, error)

    @pages.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = str(first["loc"][-1])
        return await _error_page(request, HttpError(422, f"{where}: {first['msg']}"))

    @pages.exception_handler(HTTPException)
    async def by_framework(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            told = HttpError(404, f"no page '{request.url.path[:80]}'", next_step=_GO_ON)
        else:
            told = HttpError(error.status_code, str(error.detail))
        return await _error_page(request, told)

    @pages.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        _log.exception("%s %s", request.method, request.url.path, exc_info=error)
        name = type(error).__name__
        return await _error_page(
            request,
            InternalError(
                f"{name} while making this page",
                next_step="report it with the log of the service",
            ),
        )


async def _error_page(request: Request, error: HvxtuneError) -> Response:
    """``error``, with the navigation for those who have logged in, on whatever page it occurred."""
    if not hasattr(request.state, "viewer"):
        with suppress(LoginNeeded, HvxtuneError):
            request.state.viewer = await run_in_threadpool(viewer_of, request)
    part = bool(request.headers.get("HX-Request"))
    status = status_of(error)
    return render(
        request,
        "error_part.html" if part else "error.html",
        # htmx leaves a part alone unless it is a success; the reader should see what is wrong.
        status=200 if part else status,
        error=error,
        code=status,
    )


PLACE = "/docs"


def add_api_docs(service: FastAPI, pages: str, headers: dict[str, str]) -> None:
    """Adds the page to ``service``. ``pages`` is where the others lie, ``headers`` what every page
    carries."""

    @service.get(PLACE, include_in_schema=False)
    def api_docs(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        page = render(
            request,
            "api_docs.html",
            root=root + pages,
            description=f"{root}{service.openapi_url}",
        )
        page.headers.update({**headers, "Cache-Control": "no-cache"})
        return page
