"""Following a job: everything once and in order, however often the client comes back."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from db.jobs import events as db_feed
from db.jobs.claims import Claims
from db.sql_store import SqlStore
from service.routers import job_events
from service.routers import job_events as job_feed
from service.routers.job_events import JobFeed
from tests.service.job_routes import commit, made, with_trials
from tuner.conformance.records import config
from tuner.records.outcome import Outcome
from tuner.records.trial import JobRequest, JobState

OK, BAD = Outcome.OK, Outcome.COMPILE_ERROR


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_feed, "POLL_S", 0.02)


def events_in(text: str) -> list[tuple[int, str, dict[str, Any]]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if line and line[0] not in ":"
        )
        if fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


def followed(client: TestClient, job_id: str, **headers: str) -> list[tuple[int, str, Any]]:
    answer = client.get(f"/v1/jobs/{job_id}/events", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    return events_in(answer.text)


def test_an_ended_job_is_told_from_its_beginning(client: TestClient, store: SqlStore) -> None:
    job_id = with_trials(store, OK, BAD, OK)
    events = followed(client, job_id)
    assert [(number, kind) for number, kind, _ in events] == [
        (1, "state"),
        (2, "state"),
        (3, "trial"),
        (4, "trial"),
        (5, "trial"),
        (6, "state"),
    ]
    states = [data["state"] for _, kind, data in events if kind == "state"]
    assert states == ["queued", "running", "done"]
    trials = [data for _, kind, data in events if kind == "trial"]
    assert [t["trial"] for t in trials] == [0, 1, 2]
    assert [t["finished"] for t in trials] == [1, 2, 3]
    assert [t["best_cycles"] for t in trials] == [1000, 1000, 998]
    assert trials[0]["config"] == config(0).as_dict()


def test_a_client_that_comes_back_misses_and_repeats_nothing(
    client: TestClient, store: SqlStore
) -> None:
    job_id = with_trials(store, OK, BAD, OK)
    everything = followed(client, job_id)
    for seen in (1, 3, 5):
        assert followed(client, job_id, **{"Last-Event-ID": str(seen)}) == everything[seen:]
    answer = client.get(f"/v1/jobs/{job_id}/events", params={"after": 4})
    assert events_in(answer.text) == everything[4:]
    for seen in (6, 999):
        answer = client.get(f"/v1/jobs/{job_id}/events", headers={"Last-Event-ID": str(seen)})
        assert answer.status_code == 204, "after the end there is nothing to come back for"


def test_a_bad_last_event_is_refused(client: TestClient, store: SqlStore) -> None:
    job = made(store)
    for seen in ("x", "-1", "1.5", "²", "9" * 21):
        headers = {"Last-Event-ID": seen.encode()}
        assert client.get(f"/v1/jobs/{job}/events", headers=headers).status_code == 422


def test_events_come_as_they_happen_to_every_follower(
    app: FastAPI, client: TestClient, store: SqlStore
) -> None:
    job_id = made(store)

    async def work() -> list[str]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as followers:
            path = f"/v1/jobs/{job_id}/events"
            following = [asyncio.create_task(followers.get(path)) for _ in range(3)]
            await asyncio.sleep(0.1)
            token = store.claim(job_id)
            for number in range(20):
                commit(store, job_id, token, number, OK)
                await asyncio.sleep(0.01)
            store.release(job_id, token, JobState.DONE)
            return [answer.text for answer in await asyncio.gather(*following)]

    heard = asyncio.run(work())
    expected = followed(client, job_id)
    assert len(expected) == 23
    assert [events_in(text) for text in heard] == [expected] * 3


def test_a_restarted_conductor_goes_on_in_the_same_stream(
    client: TestClient, store: SqlStore
) -> None:
    job_id = with_trials(store, OK, end=None)
    store.close()
    token = store.claim(job_id)
    commit(store, job_id, token, 1, OK)
    store.release(job_id, token, JobState.DONE)
    kinds = [data.get("state", data.get("trial")) for _, _, data in followed(client, job_id)]
    assert kinds == ["queued", "running", 0, "running", 1, "done"]


class Counted:
    """Counts how often the database is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        self.asked_at: list[float] = []

        def event_counts(*arguments: Any) -> Any:
            self.asked_at.append(time.monotonic())
            return db_feed.event_counts(*arguments)

        def told_after(*arguments: Any) -> Any:
            self.reads += 1
            return db_feed.told_after(*arguments)

        monkeypatch.setattr(job_feed, "event_counts", event_counts)
        monkeypatch.setattr(job_feed, "told_after", told_after)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    return Counted(monkeypatch)


async def last_number(feed: JobFeed, job_id: str, after: int) -> int:
    last = after
    async for told in feed.follow(job_id, after, 30.0):
        assert [one.event.sequence for one in told] == list(range(last + 1, last + len(told) + 1))
        last += len(told)
    return last


def test_many_followers_cost_one_poller_and_one_read_of_what_is_new(
    store: SqlStore, counted: Counted
) -> None:
    job_id = made(store)
    token = store.claim(job_id)

    async def work() -> list[int]:
        feed = JobFeed(store, lambda: False)
        followers = [asyncio.create_task(last_number(feed, job_id, 2)) for _ in range(50)]
        while job_id not in feed._channels or feed._channels[job_id].followers < 50:
            await asyncio.sleep(0.01)
        counted.asked_at.clear()
        while len(counted.asked_at) < 5:
            await asyncio.sleep(0.01)
        gaps = [after - before for before, after in itertools.pairwise(counted.asked_at)]
        assert min(gaps) > job_feed.POLL_S / 2, "one asks for all, not each follower for itself"
        assert counted.reads == 0
        for number in range(3):
            commit(store, job_id, token, number, OK)
        store.release(job_id, token, JobState.DONE)
        found = await asyncio.gather(*followers)
        assert feed._channels == {}
        return found

    assert asyncio.run(work()) == [6] * 50
    assert counted.reads <= 4


def test_a_follower_far_behind_catches_up_from_the_database(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_feed, "KEPT_EVENTS", 4)
    job_id = with_trials(store, *[OK] * 15, end=None)

    async def work() -> list[int]:
        feed = JobFeed(store, lambda: False)
        followers = [asyncio.create_task(last_number(feed, job_id, n)) for n in (0, 1, 9, 17)]
        await asyncio.sleep(0.1)
        store.request(job_id, JobRequest.CANCEL)
        token = store._part(Claims)._tokens[job_id]
        for number in range(15, 20):
            commit(store, job_id, token, number, OK)
        store.release(job_id, token, JobState.CANCELLED)
        return await asyncio.gather(*followers)

    assert asyncio.run(work()) == [23] * 4


def test_a_silent_stream_gets_comments(
    app: FastAPI, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_events, "KEEP_ALIVE_S", 0.02)
    job_id = made(store)
    follow = JobFeed.follow

    async def cancelled_after_two(*asked: Any) -> AsyncIterator[list[db_feed.Told]]:
        silences = 0
        async for batch in follow(*asked):
            yield batch
            silences += not batch
            if not batch and silences == 2:
                store.request(job_id, JobRequest.CANCEL)

    monkeypatch.setattr(JobFeed, "follow", cancelled_after_two)
    text = TestClient(app).get(f"/v1/jobs/{job_id}/events").text
    assert text.startswith(f": events of job {job_id} after 0\n\n")
    assert text.count(": ping\n\n") >= 2
    assert events_in(text)[-1][2]["state"] == "cancelled"
