"""A request that outlasts a shutdown gets an answer, and the log a line."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from tests.service.live import live
from tuner.conformance.patience import PATIENCE_S

pytestmark = pytest.mark.sqlite


@pytest.fixture
def app(app: FastAPI) -> FastAPI:
    reached = threading.Event()
    app.state.reached = reached

    @app.get("/waits")
    async def waits() -> None:
        reached.set()
        await asyncio.Event().wait()

    @app.get("/streams")
    async def streams() -> StreamingResponse:
        async def parts() -> Iterator[str]:
            yield "first"
            reached.set()
            await asyncio.Event().wait()

        return StreamingResponse(parts())

    app.state.self_guarded = ("/waits", "/streams")
    return app


def answers_of(app: FastAPI, path: str) -> list[httpx.Response | httpx.HTTPError]:
    """What a client gets for a request that is under way as the server stops."""
    answers: list[httpx.Response | httpx.HTTPError] = []

    def ask(address: str) -> None:
        try:
            answers.append(httpx.get(address + path, timeout=PATIENCE_S))
        except httpx.HTTPError as error:
            answers.append(error)

    with live(app) as address:
        client = threading.Thread(target=ask, args=(address,))
        client.start()
        assert app.state.reached.wait(PATIENCE_S)
    client.join(PATIENCE_S)
    return answers


def test_a_request_that_is_not_answered_yet(app: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        [answer] = answers_of(app, "/waits")
    assert isinstance(answer, httpx.Response)
    assert answer.status_code == 503
    assert answer.json()["next_step"] == "send it again once the service runs"
    assert answer.headers["Retry-After"]
    assert answer.headers["X-Request-ID"]
    assert "GET /waits was cut off: the service is stopping" in caplog.messages
    assert not any(record.exc_info for record in caplog.records)


def test_an_answer_that_has_begun_ends(app: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        [answer] = answers_of(app, "/streams")
    assert isinstance(answer, httpx.RemoteProtocolError)
    assert "GET /streams was cut off: the service is stopping" in caplog.messages
    assert not any(record.exc_info for record in caplog.records)
