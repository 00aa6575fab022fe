"""The doubt about a best, over REST: of a schedule, and of a job that has ended."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from tests.service.stored import DOUBTED, problem, store_doubted, store_schedule
from tuner.search.doubt import NO_COUNTS

pytestmark = pytest.mark.sqlite


def test_a_schedule_tells_which_cost_it_hangs_on(client: TestClient, store: SqlStore) -> None:
    job = store_doubted(store)
    found = client.get(f"/v1/schedules/{job}-0/doubt").json()["doubt"]
    assert found["known"]
    assert found["hinge"]["cost"] == "l2_access"
    assert found["hinge"]["trial"] == found["robust"]["trial"] == 1
    assert (
        "trial 1 is up to 16 % faster if l2_access is above 0.2 model cycles" in found["sentence"]
    )


def test_the_best_of_a_job_that_has_ended_is_told_alike(
    client: TestClient, store: SqlStore
) -> None:
    job = store_doubted(store)
    of_job = client.get(f"/v1/jobs/{job}").json()["doubt"]
    assert of_job == client.get(f"/v1/schedules/{job}-0/doubt").json()["doubt"]


def test_trials_of_an_older_version_are_unknown(client: TestClient, store: SqlStore) -> None:
    job = store_doubted(store, counts=(DOUBTED[0], None))
    for path in (f"/v1/jobs/{job}", f"/v1/schedules/{job}-0/doubt"):
        found = client.get(path).json()["doubt"]
        assert (found["known"], found["reason"]) == (False, NO_COUNTS)
        assert found["best_share"] is None


def test_on_hardware_nothing_is_assumed(client: TestClient, store: SqlStore) -> None:
    stored = store_schedule(store, problem(m=8, n=128, k=8), 100, fidelity="hardware")
    assert client.get(f"/v1/schedules/{stored}/doubt").json() == {"doubt": None}
    assert client.get(f"/v1/jobs/{stored.partition('-')[0]}").json()["doubt"] is None


def test_a_job_that_prefers_a_robust_schedule_tells_that_one(
    client: TestClient, store: SqlStore
) -> None:
    job = store_doubted(store, prefer="robust")
    found = client.get(f"/v1/jobs/{job}").json()
    assert found["prefer"] == "robust"
    assert (found["best"]["trial"], found["best_cycles"], found["doubt"]["trial"]) == (1, 1000, 1)
    assert [one["trial"] for one in found["pareto"]] == [1]
    assert "11.1 % more cycles than the fastest" in found["doubt"]["sentence"]
