"""The best-query's way past the framework.

FastAPI matches a path against all routes, reads and checks a query by its schema, resolves
dependencies and serializes an answer by its model. That takes longer than finding the schedule
does. So plain queries are answered here, behind the same gate, and everything else (errors,
misses, queries written in unusual ways, tokens without the scope) is left to the route, which
documents them all.
"""

from __future__ import annotations

from typing import ClassVar

from starlette.types import ASGIApp, Receive, Scope, Send

from service.auth import Scope as TokenScope
from service.auth.caller import caller_of
from service.schedules.answers import Answer, Answers
from tuner.errors import HvxtuneError


class FastRoute:
    """Stands before the routes and answers for one of them. Plain ASGI; within the guard."""

    path: ClassVar[str] = "/v1/schedules/best"
    """As of a route: what its requests are counted under."""

    def __init__(self, app: ASGIApp, answers: Answers) -> None:
        self._app = app
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == self.path and scope["method"] == "GET":
            answer = self._at_hand(scope)
            if answer is not None:
                scope["route"] = self
                await _send(answer, scope, send)
                return
        await self._app(scope, receive, send)

    def _at_hand(self, scope: Scope) -> Answer | None:
        caller = caller_of(scope)
        if caller is None or not caller.may(TokenScope.READ):
            return None
        try:
            return self._answers.plain(scope["query_string"], caller.owner)
        except HvxtuneError:  # the route meets it again, and says so
            return None


async def _send(answer: Answer, scope: Scope, send: Send) -> None:
    unchanged = is_known(answer.etag, scope)
    head = {
        "type": "http.response.start",
        "status": 304 if unchanged else 200,
        "headers": answer.headers(unchanged=unchanged),
    }
    await send(head)
    await send({"type": "http.response.body", "body": b"" if unchanged else answer.body})


def is_known(etag: str, scope: Scope) -> bool:
    """Whether the client said, by ``If-None-Match``, that it has the answer with ``etag``."""
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            given = [tag.strip().removeprefix("W/") for tag in value.decode("latin-1").split(",")]
            return etag in given or given == ["*"]
    return False
