"""``kill -9`` of conductors whose store is a PostgreSQL server: nothing is lost or doubled."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest

from db import open_store
from db.place import URL_VARIABLE
from db.sql_store import SqlStore
from tests.db.postgres_server import NEEDS_POSTGRES, databases
from tests.rig.scale_u8 import KERNELS
from tests.service.conductor.test_process import (
    COMMAND,
    assert_whole,
    started,
    submitted,
)
from tuner.conformance.patience import PATIENCE_S, until
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.records.trial import JobState, Trial

pytestmark = [pytest.mark.slow, *NEEDS_POSTGRES]

KILLS = 5
TRIALS = 60  # of two jobs: far more than are done between the kills


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """A new database on a server, which processes started by the test find too."""
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    with databases() as new_database:
        monkeypatch.setenv(URL_VARIABLE, new_database())
        with closing(open_store()) as opened:
            yield opened


def test_killed_conductors_lose_and_repeat_nothing_and_every_job_ends(store: SqlStore) -> None:
    points = random.Random(7)
    ids = [submitted(store, TRIALS, user, seed=seed) for seed, user in enumerate(("ann", "bob"))]

    def finished() -> int:
        return sum(store.summary(job_id).finished for job_id in ids)

    kept: dict[tuple[str, int], Trial] = {}
    for _ in range(KILLS):
        with started([*COMMAND, "--slots", "2"]) as conductor:
            wanted = finished() + points.choice([1, 3, 6])
            until(lambda wanted=wanted: finished() >= wanted)
            time.sleep(points.uniform(0.0, 0.3))
            family = psutil.Process(conductor.pid).children(recursive=True)
            conductor.kill()
            conductor.wait()
            assert psutil.wait_procs(family, timeout=PATIENCE_S)[1] == [], "left behind"
        now = {(job_id, t.number): t for job_id in ids for t in store.trials(job_id)}
        assert now.items() >= kept.items(), "a committed trial was lost or changed"
        kept = now
    assert finished() < len(ids) * TRIALS, "the kills came too late to show anything"
    with started([*COMMAND, "--slots", "2"]):
        until(lambda: all(store.job(job_id).state.ended for job_id in ids))
    for job_id in ids:
        assert store.job(job_id).state is JobState.DONE
        assert_whole(store, job_id, TRIALS)
        told = [e.data["number"] for e in store.events(job_id) if e.kind == "trial"]
        assert sorted(told) == list(range(TRIALS)), "each trial is told once"
