"""The best-query: the right schedule, never a stale or an invalid one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import text
from starlette.testclient import TestClient

from db.schedules.validation import outside_space
from db.sql_store import SqlStore
from service.auth import Caller, Scope
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tests.service.stored import a_config, problem, store_schedule
from tuner.conformance.records import TOOLCHAIN
from tuner.records.candidate import Problem
from tuner.space import Config

URL = "/v1/schedules/best"
ASKED = {"kernel": "gemm_u8", "param": "m=64,n=128,k=128"}
SHAPE = {"m": 64, "n": 128, "k": 128}


def best(client: TestClient, **changes: Any) -> dict[str, Any]:
    answer = client.get(URL, params={**ASKED, **changes})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_an_exact_answer_says_what_it_is(client: TestClient, store: SqlStore) -> None:
    stored = store_schedule(store, problem(**SHAPE), 1000)
    found = best(client)
    assert found["id"] == stored
    assert found["match"] == "exact"
    assert (found["distance"], found["confidence"]) == (None, None)
    assert (found["kernel"], found["params"], found["target"]) == ("gemm_u8", SHAPE, "hexagon-v66")
    assert found["asked"] == {"params": SHAPE, "contract": "static"}
    assert (found["cycles"], found["fidelity"], found["cache"]) == (1000, "model", "warm")
    assert found["toolchain"] == TOOLCHAIN
    assert found["symbol"] == "gemm_u8_m64_n128_k128_static"
    for link in found["links"].values():
        if not link.endswith("assembly"):  # this one has none
            assert client.get(link).status_code == 200, link


def test_a_product_with_b_packed_is_never_mixed_up_with_the_plain_one(
    client: TestClient, store: SqlStore
) -> None:
    """Their buffers differ: code for one reads the other's as if it were its own."""
    nearest = "true"
    asked = {"plain": ASKED, "packed": {**ASKED, "kernel": "gemm_u8_packed"}}
    stored = {"plain": store_schedule(store, problem(**SHAPE), 10)}
    missed = client.get(URL, params={**asked["packed"], "allow_nearest": nearest})
    assert missed.status_code == 404
    stored["packed"] = store_schedule(store, problem("gemm_u8_packed", **SHAPE), 20)
    for form, query in asked.items():
        found = best(client, **query, allow_nearest=nearest)
        assert (found["id"], found["match"]) == (stored[form], "exact")
        assert found["kernel"] == query["kernel"]
    store_schedule(store, problem(**SHAPE), 5)
    assert best(client, **asked["packed"], allow_nearest=nearest)["id"] == stored["packed"]


def test_a_faster_schedule_is_answered_as_soon_as_it_is_committed(
    client: TestClient, store: SqlStore
) -> None:
    of = problem(**SHAPE)
    store_schedule(store, of, 1000)
    tag = client.get(URL, params=ASKED).headers["ETag"]
    for cycles in (900, 800, 700):
        newer = store_schedule(store, of, cycles)
        answer = client.get(URL, params=ASKED, headers={"If-None-Match": tag})
        assert answer.status_code == 200
        assert answer.json()["id"] == newer
        tag = answer.headers["ETag"]


def test_a_static_shape_with_ragged_rows_keeps_no_promise_about_strides(
    client: TestClient, store: SqlStore
) -> None:
    ragged = {"m": 64, "n": 100, "k": 128}
    params = "m=64,n=100,k=128"
    store_schedule(store, problem(contract="stride", **ragged), 500)
    assert client.get(URL, params={**ASKED, "param": params}).status_code == 404
    host = store_schedule(store, problem(contract="host", **ragged), 900)
    assert best(client, param=params)["id"] == host
    assert best(client, param=params, contract="stride")["cycles"] == 500


def overwrite_config(store: SqlStore, schedule: str, config: str) -> None:
    """As a slip of somebody with a SQL shell would."""
    with store.writing() as session:
        session.execute(
            text("UPDATE schedules SET config = :config WHERE public_id = :id"),
            {"config": config, "id": schedule},
        )


def test_a_config_whose_digest_differs_is_quarantined_and_the_next_best_served(
    client: TestClient, store: SqlStore
) -> None:
    good = store_schedule(store, problem(contract="none", **SHAPE), 1000)
    bad = store_schedule(store, problem(**SHAPE), 100)
    assert best(client)["id"] == bad
    other = a_config(problem(**SHAPE), 77).json
    overwrite_config(store, bad, other)
    assert best(client)["id"] == good
    [listed] = client.get("/v1/schedules", params={"quarantined": "true"}).json()["items"]
    assert listed["id"] == bad
    assert "digest" in listed["quarantined"]["reason"]
    assert best(client)["id"] == good


def test_a_lost_folder_of_artifacts_quarantines_nothing(
    client: TestClient, store: SqlStore, tmp_path: Path
) -> None:
    stored = store_schedule(store, problem(**SHAPE), 100)
    folder = tmp_path / "state" / "artifacts"
    folder.rename(tmp_path / "away")
    lost = client.get(URL, params=ASKED)
    assert lost.status_code == 503
    assert "mount it" in lost.json()["next_step"]
    (tmp_path / "away").rename(folder)
    assert best(client)["id"] == stored


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"kernel": "gemm"}, "gemm_u8"),
        ({"param": "m=64,q=1"}, "unknown parameter 'q'"),
        ({"param": "m=64,m=64"}, "twice"),
        ({"min_fidelity": "best"}, "min_fidelity"),
        ({"on_miss": "cry"}, "on_miss"),
        ({"shape": "1"}, "shape"),
        ({"contract": "extent", "param": "n=100"}, "does not keep contract"),
    ],
)
def test_a_wrong_query_is_told_what_is_wrong(
    client: TestClient, changes: dict[str, str], part: str
) -> None:
    answer = client.get(URL, params={**ASKED, **changes})
    assert answer.status_code == 422
    problem_given = answer.json()
    told = "".join(problem_given[part] for part in ("detail", "accepted", "next_step"))
    assert part in told


def test_a_miss_names_the_nearest_and_how_to_submit(client: TestClient, store: SqlStore) -> None:
    store_schedule(store, problem(m=64, n=256, k=128), 100)
    near = store_schedule(store, problem(m=72, n=128, k=128), 100)
    missed = client.get(URL, params=ASKED)
    assert missed.status_code == 404
    body = missed.json()
    assert body["nearest"][0]["id"] == near
    assert body["nearest"][0]["params"] == {"m": 72, "n": 128, "k": 128}
    assert [one["distance"] for one in body["nearest"]] == sorted(
        one["distance"] for one in body["nearest"]
    )
    assert body["nearest"][1]["distance"] == 1.0
    assert body["submit"]["kernel"] == "gemm_u8"
    assert body["submit"]["params"] == SHAPE


def test_a_miss_names_the_targets_that_have_one(client: TestClient, store: SqlStore) -> None:
    store_schedule(store, problem(**SHAPE), 100)
    missed = client.get(URL, params={**ASKED, "target": "hexagon-v68"})
    assert missed.json()["accepted"] == "targets with one: hexagon-v66"
    other = client.get(URL, params={**ASKED, "param": "m=64,n=128,k=256"})
    assert "targets" not in other.json()["accepted"]


def test_nearest_answers_only_if_allowed_and_gives_no_object_to_link(
    client: TestClient, store: SqlStore
) -> None:
    near = problem(m=72, n=128, k=128)
    config = next(
        c for c in configs(near) if not outside_space(problem(**SHAPE), c.as_dict(), "halide")
    )
    stored = store_schedule(store, near, 100, config=config)
    assert client.get(URL, params=ASKED).status_code == 404
    found = best(client, allow_nearest="true")
    assert (found["match"], found["id"]) == ("nearest", stored)
    assert found["distance"] == pytest.approx(0.1699, abs=1e-4)
    assert found["confidence"] == "high"
    assert found["params"] == {"m": 72, "n": 128, "k": 128}
    assert found["asked"]["params"] == SHAPE
    assert "object" not in found["links"]
    assert "must not be linked" in found["note"]


def configs(of: Problem) -> Iterator[Config]:
    return (a_config(of, seed) for seed in range(500))


def test_a_config_that_is_invalid_for_the_asked_shape_is_passed_over(
    client: TestClient, store: SqlStore
) -> None:
    asked, near = problem(**SHAPE), problem(m=65, n=128, k=128)
    far = problem(m=256, n=128, k=128)
    invalid = next(c for c in configs(near) if outside_space(asked, c.as_dict(), "halide"))
    valid = next(c for c in configs(asked) if not outside_space(far, c.as_dict(), "halide"))
    store_schedule(store, near, 100, config=invalid)
    farther = store_schedule(store, far, 100, config=valid)
    assert best(client, allow_nearest="true")["id"] == farther


def test_a_miss_can_submit_a_job_once(
    client: TestClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.executor.executor.find_generator", lambda name: StandInGenerator)
    monkeypatch.setattr("tuner.measure.find_measurer", lambda name: partial(StandInMeasurer, len))
    first = client.get(URL, params={**ASKED, "on_miss": "enqueue"})
    assert first.status_code == 202, first.text
    assert first.json()["reused"] is False
    job = first.json()["job"]
    assert (job["kernel"], job["params"], job["state"]) == ("gemm_u8", SHAPE, "queued")
    assert job["user"] == "test"
    again = client.get(URL, params={**ASKED, "on_miss": "enqueue"})
    assert (again.json()["job"]["job"], again.json()["reused"]) == (job["job"], True)
    assert len(store.jobs()) == 1


@pytest.mark.parametrize(
    ("fidelity", "kind"), [("hardware", "phone"), ("cycle_accurate", "hexagon-sim")]
)
def test_a_miss_at_a_higher_fidelity_is_filled_by_a_job_that_reaches_it(
    client: TestClient, store: SqlStore, fidelity: str, kind: str
) -> None:
    store_schedule(store, problem(**SHAPE), 1000)
    missed = client.get(URL, params={**ASKED, "min_fidelity": fidelity})
    assert missed.status_code == 404
    assert missed.json()["submit"]["promote_to"] == kind


def test_only_those_who_may_submit_enqueue(
    client: TestClient, store: SqlStore, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Caller("r", "reader", frozenset({Scope.READ}))
    monkeypatch.setattr(app.state.gate, "caller", lambda connection: reader)
    if hasattr(app.state.gate, "caller_at_hand"):
        monkeypatch.setattr(app.state.gate, "caller_at_hand", lambda connection: reader)
    assert client.get(URL, params={**ASKED, "on_miss": "enqueue"}).status_code == 403
    assert store.jobs() == []


def test_a_batch_answers_in_order_and_one_wrong_workload_fails_alone(
    client: TestClient, store: SqlStore
) -> None:
    stored = store_schedule(store, problem(**SHAPE), 1000)
    body = {
        "workloads": [
            {"kernel": "nothing"},
            {"kernel": "gemm_u8", "params": SHAPE},
            {"kernel": "sobel_u8"},
            {"kernel": "gemm_u8", "params": SHAPE, "contract": "none"},
        ]
    }
    items = client.post(URL + ":batch", json=body).json()["items"]
    assert [item["status"] for item in items] == [422, 200, 404, 404]
    assert items[1]["id"] == stored
    assert items[3]["submit"]["contract"] == "none"
