"""The best-query's way past the framework: nobody can tell it from the route."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from service.admission.lookups import Lookups
from service.auth import Caller, Scope
from tests.service.stored import problem, store_schedule
from tests.service.test_best import ASKED, SHAPE, URL, best


@pytest.mark.parametrize("way", [pytest.param("plain", marks=pytest.mark.sqlite), "by the schema"])
def test_both_ways_to_an_answer_give_the_same(
    client: TestClient, store: SqlStore, way: str, monkeypatch: pytest.MonkeyPatch, app: FastAPI
) -> None:
    store_schedule(store, problem(**SHAPE), 1000)
    client.headers["X-Request-ID"] = "one"
    first = client.get(URL, params=ASKED)
    if way == "by the schema":
        monkeypatch.setattr(app.state.answers, "plain", lambda *_: None)
    else:
        monkeypatch.setattr(Lookups, "answer", lambda *_: pytest.fail("not plain"))
    again = client.get(URL, params=ASKED)
    assert again.content == first.content
    assert again.headers == first.headers
    unchanged = client.get(URL, params=ASKED, headers={"If-None-Match": first.headers["ETag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert unchanged.headers["ETag"] == first.headers["ETag"]


@pytest.mark.parametrize("way", ["plain", "by the schema"])
def test_both_ways_are_counted_under_the_route(
    client: TestClient, store: SqlStore, way: str, monkeypatch: pytest.MonkeyPatch, app: FastAPI
) -> None:
    store_schedule(store, problem(**SHAPE), 1000)
    if way == "by the schema":
        monkeypatch.setattr(app.state.answers, "plain", lambda *_: None)
    best(client)
    counted = f'hvxtune_request_seconds_count{{method="GET",route="{URL}",status="200"}} 1.0'
    assert counted in client.get("/metrics").text


def test_who_may_not_read_gets_no_answer_that_is_at_hand(
    client: TestClient, store: SqlStore, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_schedule(store, problem(**SHAPE), 1000)
    best(client)
    submitter = Caller("1", "ci", frozenset({Scope.SUBMIT}))
    monkeypatch.setattr(app.state.gate, "caller_at_hand", lambda connection: submitter)
    refused = client.get(URL, params=ASKED)
    assert refused.status_code == 403
    assert "read" in refused.json()["accepted"]
