"""Schedules that are set aside, what takes their place, and the way back."""

from __future__ import annotations

from starlette.testclient import TestClient

from db.sql_store import SqlStore
from tests.service.stored import a_config, problem, store_schedule
from tests.service.test_best import ASKED, SHAPE, URL, best
from tuner.space import Config


def test_a_quarantined_schedule_gives_way_to_a_slower_one(
    client: TestClient, store: SqlStore
) -> None:
    of = problem(**SHAPE)
    bad = store_schedule(store, of, 100)
    posted = client.post(f"/v1/schedules/{bad}/quarantine", json={"reason": "wrong on a phone"})
    assert posted.json()["quarantined"]["reason"] == "wrong on a phone"
    assert client.get(URL, params=ASKED).status_code == 404
    assert client.get(f"/v1/schedules/{bad}/object").status_code == 409
    slower = store_schedule(store, of, 200)
    assert best(client)["id"] == slower
    [listed] = client.get("/v1/schedules", params={"quarantined": "true"}).json()["items"]
    assert listed["id"] == bad
    assert client.get(f"/v1/schedules/{bad}/object").status_code == 409


def test_the_next_best_trial_takes_the_place_of_a_quarantined_one(
    client: TestClient, store: SqlStore
) -> None:
    of = problem(**SHAPE)
    names = [store_schedule(store, of, cycles) for cycles in (300, 200, 100)]
    while names:
        bad = names.pop()
        assert best(client)["id"] == bad
        client.post(f"/v1/schedules/{bad}/quarantine", json={"reason": "wrong on a phone"})
    missed = client.get(URL, params=ASKED)
    assert missed.status_code == 404
    assert len(missed.json()["quarantined"]) == 3


def test_one_query_passes_over_all_that_are_not_valid(client: TestClient, store: SqlStore) -> None:
    of = problem(**SHAPE)
    good = store_schedule(store, of, 300)
    outside = Config({**a_config(of, 0).as_dict(), "tile_m": 5})
    for cycles in (200, 100):
        store_schedule(store, of, cycles, config=outside)
    assert best(client)["id"] == good


def test_release_keeps_what_is_faster(client: TestClient, store: SqlStore) -> None:
    of = problem(**SHAPE)
    slow = store_schedule(store, of, 200)
    fast = store_schedule(store, of, 100)
    client.post(f"/v1/schedules/{fast}/quarantine", json={"reason": "a doubt"})
    client.post(f"/v1/schedules/{slow}/quarantine", json={"reason": "a doubt"})
    for name in (fast, slow):
        released = client.post(f"/v1/schedules/{name}/release")
        assert (released.status_code, released.json()["quarantined"]) == (200, None)
        assert best(client)["id"] == fast


def test_release_hands_out_again(client: TestClient, store: SqlStore) -> None:
    stored = store_schedule(store, problem(**SHAPE), 100)
    client.post(f"/v1/schedules/{stored}/quarantine", json={"reason": "a doubt"})
    assert client.post(f"/v1/schedules/{stored}/release").json()["quarantined"] is None
    assert best(client)["id"] == stored
