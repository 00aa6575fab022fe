"""A span for every request, where this process sends traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.request_ids import header_of
from tuner.tracing import request_span

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class RequestSpans:
    """Names spans by method and route, as OpenTelemetry's conventions for HTTP do. Its package for
    ASGI would do the same under another id of the request. Plain ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method: str = scope["method"]
        with request_span(method, header_of(scope, b"traceparent")) as span:

            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            span.set_attribute("http.request.method", method)
            try:
                await self._app(scope, receive, noting)
            finally:
                route = getattr(scope.get("route"), "path", "")
                if route:
                    span.set_attribute("http.route", route)
                    span.update_name(f"{method} {route}")
