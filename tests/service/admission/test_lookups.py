"""Misses, nearest shapes and batches: apart from all other requests, and no longer than needed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from db.access.tokens import Token, add_token
from db.pipelines import KernelName, Named
from db.sql_store import SqlStore
from service.admission import looker, lookups
from service.admission.looker import Found, Looker, Question
from service.admission.lookups import NEAREST_COSTS, Lookups, ProcessLookers
from service.app import create_app
from service.auth import Quotas
from service.routers import best
from service.settings import Settings
from service.token_text import new_token_text
from tests.service.auth.conftest import bearing
from tests.service.gates import Gate, OpenGate
from tests.service.stored import problem, store_schedule
from tests.service.test_best import ASKED, SHAPE, URL
from tuner.conformance.patience import PATIENCE_S

pytestmark = pytest.mark.sqlite

BATCH = URL + ":batch"


def misses(count: int, first: int = 1, **options: Any) -> dict[str, Any]:
    shapes = [{"m": first + n, "n": 128, "k": 64} for n in range(count)]
    return {"workloads": [{"kernel": "gemm_u8", "params": shape} for shape in shapes], **options}


@dataclass(eq=False)
class HeldLookers:
    """Works on a piece when it is told to."""

    looker: Looker
    places: int = 1
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    pieces: list[int] = field(default_factory=list)
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def submit(self, questions: Sequence[Question]) -> Future[list[Found]]:
        self.pieces.append(questions[0].params["m"])
        return self.thread.submit(self._look_up, questions)

    def _look_up(self, questions: Sequence[Question]) -> list[Found]:
        assert self.go.acquire(timeout=PATIENCE_S)
        return self.looker.look_up(questions)

    def close(self) -> None:
        self.go.release(1000)
        self.thread.shutdown()
        self.looker.close()


@pytest.fixture
def held(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldLookers]:
    monkeypatch.setattr(looker, "PIECE_S", PATIENCE_S)  # pieces end by their number of items alone
    made = HeldLookers(Looker(store))
    yield made
    made.close()


@pytest.fixture
def app(store: SqlStore, held: HeldLookers) -> FastAPI:
    return create_app(store, OpenGate(), Settings(), held)


def talk(app: FastAPI) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://test", timeout=PATIENCE_S)


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not what():
            await asyncio.sleep(0.005)


@pytest.mark.sqlite  # only its single answers take no turn
def test_other_requests_are_answered_while_batches_are_under_way(
    app: FastAPI, held: HeldLookers, store: SqlStore
) -> None:
    store_schedule(store, problem(**SHAPE), 1000)

    async def run() -> None:
        async with talk(app) as client:
            # More than there are threads, of all routes together.
            batches = [
                asyncio.create_task(client.post(BATCH, json=misses(50, allow_nearest=True)))
                for _ in range(45)
            ]
            await until(lambda: held.pieces != [])
            for path in ("/healthz", "/readyz", "/v1/kernels", "/v1/schedules"):
                assert (await client.get(path)).status_code == 200, path
            assert (await client.get(URL, params=ASKED)).status_code == 200
            await until(lambda: sum(b.done() for b in batches) == 45 - lookups.EACH_UNDER_WAY)
            assert {b.result().status_code for b in batches if b.done()} == {429}
            held.go.release(1000)
            statuses = [answer.status_code for answer in await asyncio.gather(*batches)]
        assert statuses.count(200) == lookups.EACH_UNDER_WAY

    asyncio.run(run())


def test_the_work_ends_when_the_client_goes(
    app: FastAPI, held: HeldLookers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "PIECE_ITEMS", 10)
    found: Lookups = app.state.lookups

    async def run() -> None:
        gone = asyncio.Event()
        body = httpx.Request("POST", "http://test" + BATCH, json=misses(100)).read()
        said = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if said:
                return said.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        scope = {"type": "http", "method": "POST", "path": BATCH, "query_string": b""}
        asking = asyncio.create_task(app({**scope, "headers": head}, receive, send))
        held.go.release(2)
        await until(lambda: len(held.pieces) == 3)
        assert found.looked_up == 20
        gone.set()
        await asking
        assert found.under_way == 0
        held.go.release(1000)
        async with talk(app) as client:  # the place is free for the next
            assert (await client.post(BATCH, json=misses(1, first=500))).status_code == 200
        assert held.pieces == [1, 11, 21, 500]

    asyncio.run(run())


def test_callers_are_served_in_turn(
    app: FastAPI, held: HeldLookers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "PIECE_ITEMS", 10)
    found: Lookups = app.state.lookups
    questions = [
        Question(KernelName("gemm_u8"), {"m": m, "n": 128, "k": 64}, "hexagon-v66",
                 "static", "warm", "model", "robust",
                 allow_nearest=False, enqueue=False, owner="ann")
        for m in range(1, 61)
    ]  # fmt: skip

    class Quiet:
        async def receive(self) -> dict[str, str]:
            await asyncio.sleep(PATIENCE_S)
            return {"type": "http.disconnect"}

    async def run() -> None:
        def ask(caller: str, some: list[Question]) -> asyncio.Task[Any]:
            asked = found.answer(caller, some, Quiet(), lambda q: pytest.fail("no job"))  # type: ignore[arg-type]
            return asyncio.create_task(asked)

        greedy = [ask("ann", questions[:40]), ask("ann", questions[:40])]
        await until(lambda: held.pieces == [1])
        modest = ask("bob", questions[50:])
        held.go.release(2)
        await until(lambda: modest.done())
        assert not any(task.done() for task in greedy)
        held.go.release(1000)
        await asyncio.gather(*greedy)

    asyncio.run(run())


def test_an_upload_that_takes_long_to_read_stops_no_other(
    app: FastAPI, held: HeldLookers, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = threading.Event()

    def read(question: Question) -> None:
        assert reading.wait(PATIENCE_S)

    monkeypatch.setattr(best, "named", lambda store, asked, viewer: Named(KernelName(asked)))
    monkeypatch.setattr(lookups, "_analyse", read)
    held.go.release(1000)
    asked: dict[str, Any] = {"params": SHAPE}

    async def run() -> None:
        async with talk(app) as client:
            slow = {"workloads": [{"kernel": "pipeline:slow", **asked}]}
            waiting = [asyncio.create_task(client.post(BATCH, json=slow)) for _ in range(3)]
            await until(lambda: app.state.lookups.under_way == 3)
            assert (await client.post(BATCH, json=misses(3))).status_code == 200
            for path in ("/healthz", "/v1/kernels"):
                assert (await client.get(path)).status_code == 200
            assert not any(task.done() for task in waiting)
            reading.set()
            for answer in await asyncio.gather(*waiting):
                assert [item["status"] for item in answer.json()["items"]] == [422]

    asyncio.run(run())


def test_what_would_take_too_long_is_refused_before_it_is_begun(
    app: FastAPI, held: HeldLookers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "EXPECTED_S", 10 * lookups._FIRST_GUESS_S)

    async def run() -> None:
        async with talk(app) as client:
            first = asyncio.create_task(client.post(BATCH, json=misses(8)))
            await until(lambda: held.pieces != [])
            refused = await client.post(BATCH, json=misses(8))
            assert refused.status_code == 429
            assert int(refused.headers["Retry-After"]) >= 1
            assert refused.json()["kind"] == "busy"
            assert "16 workloads" in refused.json()["detail"]
            held.go.release(1000)
            await first

    asyncio.run(run())


def test_what_takes_too_long_is_given_up(
    app: FastAPI, held: HeldLookers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "PATIENCE_S", 0.1)

    async def run() -> None:
        async with talk(app) as client:
            answer = await client.post(BATCH, json=misses(2))
            assert answer.status_code == 503
            assert int(answer.headers["Retry-After"]) >= 1
            assert answer.headers["Content-Type"] == "application/problem+json"

    asyncio.run(run())


def test_workloads_count_in_the_rate_and_nearest_ones_more(store: SqlStore) -> None:
    app = create_app(store, Gate(store), Settings())
    token = new_token_text()
    quotas = Quotas(requests_per_minute=100).as_dict()
    stored = Token(token.id, "ci", token.digest, ["read"], created_at=time.time(), quotas=quotas)
    assert add_token(store, stored)

    async def run() -> None:
        async with talk(app) as client:

            async def ask(count: int, **options: Any) -> httpx.Response:
                body = misses(count, **options)
                return await client.post(BATCH, json=body, headers=bearing(token))

            assert (await ask(60)).status_code == 200
            refused = await ask(60)
            assert refused.status_code == 429
            assert refused.json()["quota"] == "requests_per_minute"
            assert int(refused.headers["Retry-After"]) >= 1
            never = await ask(100 // NEAREST_COSTS + 1, allow_nearest=True)
            assert never.status_code == 422
            assert "100" in never.json()["accepted"]
            assert (await ask(30)).status_code == 200

    asyncio.run(run())


@pytest.mark.slow
def test_processes_give_the_answers_that_a_thread_gives(store: SqlStore) -> None:
    store_schedule(store, problem(**SHAPE), 1000)
    body = misses(2, allow_nearest=True)
    body["workloads"] += [{"kernel": "gemm_u8", "params": SHAPE}, {"kernel": "nothing"}]
    processes = ProcessLookers(str(store.place.path and f"sqlite:///{store.place.path}"), None, 1)

    async def answers(app: FastAPI) -> list[Any]:
        async with talk(app) as client:
            client.headers["X-Request-ID"] = "the-same"
            single = await client.get(URL, params={"kernel": "gemm_u8", "param": "m=1,n=8,k=4"})
            assert single.status_code == 404
            return [(await client.post(BATCH, json=body)).json()["items"], single.json()]

    async def run() -> None:
        found = await answers(create_app(store, OpenGate(), Settings(), processes))
        assert found == await answers(create_app(store, OpenGate(), Settings()))
        assert [item["status"] for item in found[0]][2:] == [200, 422]

    try:
        asyncio.run(run())
    finally:
        processes.close()
