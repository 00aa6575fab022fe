"""Artifacts whose files were lost or damaged: named, and whole again once they come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from db.exchange import export_schedules, import_schedules
from db.sql_store import SqlStore
from tests.service.stored import problem, store_schedule
from tuner.conformance.records import TOOLCHAIN
from tuner.keeping.best import lookup_of
from tuner.records.trial import JobSpec, JobState

BEST = "/v1/schedules/best"
SHAPE = {"m": 64, "n": 128, "k": 128}
ASKED = {"kernel": "gemm_u8", "param": "m=64,n=128,k=128"}


def delete(file: Path) -> None:
    file.unlink()


def change(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


@pytest.fixture
def stored(store: SqlStore) -> str:
    return store_schedule(store, problem(**SHAPE), 1000)


@pytest.fixture
def file(stored: str, tmp_path: Path) -> Path:
    """What the stored schedule's artifact lies in."""
    [found] = (tmp_path / "state" / "artifacts").glob("??/*.zip")
    return found


def assert_named(client: TestClient, stored: str) -> None:
    refused = client.get(f"/v1/schedules/{stored}/object")
    assert refused.status_code == 409
    assert "file" in refused.json()["detail"]
    missed = client.get(BEST, params=ASKED)
    assert missed.status_code == 404
    [aside] = missed.json()["quarantined"]
    assert aside["id"] == stored
    assert aside["reason"].startswith("the file of its artifact")


def assert_served(client: TestClient, stored: str) -> None:
    assert client.get(BEST, params=ASKED).json()["id"] == stored
    assert client.get(f"/v1/schedules/{stored}/object").status_code == 200


@pytest.mark.parametrize("damage", [delete, change])
def test_an_import_of_the_same_schedule_brings_its_file_back(
    damage: Callable[[Path], None],
    client: TestClient,
    store: SqlStore,
    stored: str,
    file: Path,
    tmp_path: Path,
) -> None:
    export_schedules(store, tmp_path / "schedules.zip")
    damage(file)
    assert_named(client, stored)
    assert import_schedules(store, tmp_path / "schedules.zip").stored == 1
    assert_served(client, stored)


def test_so_does_measuring_it_again(
    client: TestClient, store: SqlStore, stored: str, file: Path
) -> None:
    of = problem(**SHAPE)
    best = store.best(lookup_of(of))
    assert best is not None
    artifact = store.artifact(best.artifact_digest)
    [trial] = store.trials(str(best.provenance["job"]))
    delete(file)
    assert_named(client, stored)
    job = store.create_job(JobSpec(problem=of), store.space(str(best.provenance["job"])), TOOLCHAIN)
    token = store.claim(job.id)
    again = type(best)(**{**vars(best), "provenance": {**best.provenance, "job": job.id}})
    store.commit(job.id, token, finished=[trial], artifacts=[artifact], schedule=again)
    store.release(job.id, token, JobState.DONE)
    assert_served(client, f"{job.id}-0")


def test_what_was_quarantined_for_itself_stays_so(
    client: TestClient, store: SqlStore, stored: str, tmp_path: Path
) -> None:
    export_schedules(store, tmp_path / "schedules.zip")
    client.post(f"/v1/schedules/{stored}/quarantine", json={"reason": "wrong on a phone"})
    assert import_schedules(store, tmp_path / "schedules.zip").stored == 0
    [aside] = client.get(BEST, params=ASKED).json()["quarantined"]
    assert aside == {"id": stored, "reason": "wrong on a phone"}
