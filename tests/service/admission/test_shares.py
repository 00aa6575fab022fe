"""A caller's share of the threads and streams of a service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import HTTPConnection

from db.sql_store import SqlStore
from service.admission import shares as requests
from service.app import create_app
from service.auth import Caller, Scope
from service.settings import Settings
from tests.service.gates import OpenGate
from tests.service.job_routes import made
from tuner.codegen.fairness import ON_BEHALF_OF
from tuner.conformance.patience import PATIENCE_S

pytestmark = pytest.mark.sqlite


class NamedGate(OpenGate):
    """Lets everybody in, under the name they say."""

    def caller_at_hand(self, connection: HTTPConnection) -> Caller | None:
        name = connection.headers["x-name"]
        return Caller(name, name, frozenset(Scope))


@pytest.fixture
def app(store: SqlStore) -> FastAPI:
    made = create_app(store, NamedGate(), Settings(pages=""))
    made.state.go = threading.Event()
    made.state.working = []

    @made.get("/v1/slow")
    @made.get("/v1/slow/{name}")
    def slow(name: str = "") -> str:
        made.state.working.append(ON_BEHALF_OF.get())
        assert made.state.go.wait(PATIENCE_S)
        return ON_BEHALF_OF.get()

    return made


def talk(app: FastAPI) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://test", timeout=PATIENCE_S)


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not what():
            await asyncio.sleep(0.005)


def test_one_caller_cannot_take_all_threads(app: FastAPI) -> None:
    async def run() -> None:
        async with talk(app) as client:

            def ask(name: str, path: str = "/v1/slow") -> asyncio.Task[Any]:
                return asyncio.create_task(client.get(path, headers={"x-name": name}))

            greedy = [ask("ann") for _ in range(60)]
            await until(lambda: len(app.state.working) == requests.EACH_THREADS)
            assert (await ask("bob", "/v1/kernels")).status_code == 200
            modest = ask("bob")
            await until(lambda: "bob" in app.state.working)
            assert app.state.working.count("ann") == requests.EACH_THREADS
            app.state.go.set()
            assert (await modest).json() == "bob"  # work is done in the caller's name
            assert {answer.status_code for answer in await asyncio.gather(*greedy)} == {200}

    asyncio.run(run())


def test_who_waits_for_uploads_to_be_read_keeps_few_threads(app: FastAPI) -> None:
    async def run() -> None:
        async with talk(app) as client:

            def ask(name: str, path: str) -> asyncio.Task[Any]:
                return asyncio.create_task(client.get(path, headers={"x-name": name}))

            reading = [
                ask(name, "/v1/slow/pipeline:blur") for name in ("ann", "eve") for _ in range(20)
            ]
            await until(lambda: len(app.state.working) == 2 * requests.EACH_UPLOAD_THREADS)
            others = [ask("ann", "/v1/slow") for _ in range(requests.EACH_THREADS)]
            everybody = 2 * requests.EACH_UPLOAD_THREADS + requests.EACH_THREADS
            await until(lambda: len(app.state.working) == everybody)
            app.state.go.set()
            await asyncio.gather(*reading, *others)

    asyncio.run(run())


def test_more_requests_than_a_caller_may_have_are_refused_at_once(app: FastAPI) -> None:
    async def run() -> None:
        async with talk(app) as client:
            headers = {"x-name": "ann"}
            asked = [
                asyncio.create_task(client.get("/v1/slow", headers=headers))
                for _ in range(requests.EACH_REQUESTS + 1)
            ]
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            [refused] = [task.result() for task in done]
            assert refused.status_code == 429
            assert refused.headers["Retry-After"]
            assert refused.headers["Content-Type"] == "application/problem+json"
            app.state.go.set()
            await asyncio.gather(*asked)
            again = await client.get("/v1/slow", headers=headers)
            assert again.status_code == 200

    asyncio.run(run())


def test_a_caller_follows_so_many_jobs_at_once_and_others_theirs(
    app: FastAPI, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "EACH_STREAMS", 2)
    app = create_app(store, NamedGate(), Settings(pages=""))
    path = f"/v1/jobs/{made(store)}/events"

    async def run() -> None:
        statuses: dict[str, list[int]] = {"ann": [], "bob": []}

        async def follow(name: str) -> None:
            """An ASGI call: the client's transport waits for the end of an answer."""

            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    statuses[name].append(message["status"])

            head = [(b"x-name", name.encode())]
            scope = {"type": "http", "method": "GET", "path": path, "query_string": b""}
            await app({**scope, "headers": head}, asyncio.Event().wait, send)  # type: ignore[arg-type]

        following = [asyncio.create_task(follow("ann")) for _ in range(2)]
        await until(lambda: statuses["ann"] == [200, 200])
        await follow("ann")
        assert statuses["ann"] == [200, 200, 429]
        following.append(asyncio.create_task(follow("bob")))
        await until(lambda: statuses["bob"] == [200])
        for one in following:
            one.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    asyncio.run(run())


def test_a_body_that_is_still_coming_holds_no_thread(app: FastAPI) -> None:
    async def run() -> None:
        go_on = asyncio.Event()

        async def receive() -> Any:
            await go_on.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        head = [(b"x-name", b"ann"), (b"content-length", b"9")]
        scope = {"type": "http", "method": "POST", "path": "/v1/pipelines"}
        sending = [
            asyncio.create_task(
                app({**scope, "query_string": b"name=x", "headers": head}, receive, send)
            )
            for _ in range(requests.EACH_REQUESTS - 1)
        ]
        async with talk(app) as client:
            answer = await client.get("/v1/kernels", headers={"x-name": "ann"})
            assert answer.status_code == 200
        assert not any(task.done() for task in sending)
        go_on.set()
        await asyncio.gather(*sending, return_exceptions=True)

    asyncio.run(run())
