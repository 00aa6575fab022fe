"""The best-query's way past the framework.

FastAPI reads and checks a query by its schema, resolves dependencies and serializes an answer by
its model. That takes longer than finding the schedule does. So a route of this class first tries
to answer by itself, with the same gate before it, and leaves everything else (errors, misses,
queries written in unusual ways) to FastAPI, which documents both.
"""

from __future__ import annotations

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from service.auth import Scope as TokenScope
from service.auth import require
from service.schedules.answers import Answer, Answers

_check = require(TokenScope.READ)


class FastRoute(APIRoute):
    """A GET route that answers plain queries from ``app.state.answers``."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET" and await answered(scope, send):
            return
        await super().handle(scope, receive, send)


async def answered(scope: Scope, send: Send) -> bool:
    """Whether the request was answered. Raises what the gate raises, which the application
    turns into problem details."""
    await _check(Request(scope))
    answers: Answers = scope["app"].state.answers
    answer = answers.plain(scope["query_string"])
    if answer is None:
        return False
    await _send(answer, scope, send)
    return True


async def _send(answer: Answer, scope: Scope, send: Send) -> None:
    unchanged = is_known(answer.etag, scope)
    head = {
        "type": "http.response.start",
        "status": 304 if unchanged else 200,
        "headers": answer.headers[2:] if unchanged else answer.headers,
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
