"""``/docs``: the routes for people, drawn by Swagger UI.

Its script and style are served from here: a page that loads them from elsewhere tells that host
who reads it, and runs whatever it sends with the reader's token at hand.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import Response

from dashboards.templating import render

PLACE = "/docs"


def add_api_docs(service: FastAPI, static: str, headers: dict[str, str]) -> None:
    """Adds the page to ``service``. ``static`` is where the static files lie, ``headers`` what
    every page carries."""

    @service.get(PLACE, include_in_schema=False)
    def api_docs(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        page = render(
            request,
            "api_docs.html",
            static=root + static,
            description=f"{root}{service.openapi_url}",
        )
        page.headers.update({**headers, "Cache-Control": "no-cache"})
        return page
