"""``kill -9`` of the service at seeded points while jobs run: no trial is lost, none is doubled,
every job ends, no process stays behind, and a submission that was cut off is repeated safely."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest
from sqlalchemy import Select, func, select

from db import open_store
from db.models import JobRow, TrialRow
from db.sql_store import SqlStore
from tests.service.served import Served, served
from tuner.conformance import patience
from tuner.conformance.patience import PATIENCE_S
from tuner.paths import STATE_DIR_VARIABLE
from tuner.records.trial import JobState, Trial

TRIALS = 25
OPEN_JOBS = 3


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with nothing in it."""
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(folder))
    return folder


def until(reached: Callable[[], bool], service: Served) -> None:
    def reached_by_the_living() -> bool:
        assert service.process.poll() is None, service.log.read_text()
        return reached()

    patience.until(reached_by_the_living, look_every_s=0.05)


@dataclass
class Campaign:
    """What was asked of the service so far, and what it must not forget."""

    store: SqlStore
    points: random.Random
    requests: int = 0
    rows: dict[tuple[str, int], Trial] = field(default_factory=dict)

    def submit(self, service: Served) -> None:
        """A job more; maybe sent twice, as after an answer that did not come."""
        self.requests += 1
        body = {
            "kernel": "scale_u8",
            "budget": {"trials": TRIALS},
            "seed": self.requests,
            "workers": self.points.choice([1, 2]),
            "sampler": self.points.choice(["tpe", "random"]),
        }
        headers = {
            "Authorization": f"Bearer {service.token}",
            "Idempotency-Key": f"job-{self.requests}",
        }
        for _ in range(self.points.choice([1, 2])):
            answer = httpx.post(
                f"{service.url}/v1/jobs", json=body, headers=headers, timeout=PATIENCE_S
            )
            assert answer.status_code == 201, answer.text

    def jobs(self) -> list[str]:
        return [job.id for job in self.store.jobs(limit=1000)]

    def open_jobs(self) -> int:
        return self._count(select(func.count()).where(JobRow.state.in_(("queued", "running"))))

    def finished(self) -> int:
        return self._count(select(func.count()).where(TrialRow.outcome.is_not(None)))

    def _count(self, wanted: Select[int]) -> int:
        with self.store.reading() as session:
            return session.scalars(wanted).one()

    def check_rows(self) -> None:
        """Everything that was there is there, as it was."""
        now = {(job, t.number): t for job in self.jobs() for t in self.store.trials(job)}
        assert now.items() >= self.rows.items(), "a committed trial was lost or changed"
        self.rows = now

    def check_end(self) -> None:
        jobs = self.store.jobs(limit=1000)
        assert len(jobs) == self.requests, "a repeated submission made another job"
        assert {job.state for job in jobs} == {JobState.DONE}
        for job in jobs:
            trials = self.store.trials(job.id)
            assert [t.number for t in trials] == list(range(TRIALS))
            assert len({t.config for t in trials}) == TRIALS
            assert self.store.pending(job.id) == []
            events = self.store.events(job.id, limit=10_000)
            assert [e.sequence for e in events] == list(range(1, len(events) + 1))
            told = [e.data["number"] for e in events if e.kind == "trial"]
            assert sorted(told) == list(range(TRIALS)), "each trial is told once"


def kill(service: Served) -> None:
    """The service itself, as by the kernel; what it started must follow by itself."""
    family = psutil.Process(service.process.pid).children(recursive=True)
    service.process.kill()
    service.process.wait()
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert not alive, f"left behind: {[process.cmdline() for process in alive]}"


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(2, marks=pytest.mark.slow),
        pytest.param(200, marks=pytest.mark.nightly),
    ],
)
def test_kills_lose_and_repeat_nothing_and_every_job_ends(state: Path, kills: int) -> None:
    options = ["--slots", "2"]
    with open_store() as store:
        campaign = Campaign(store, random.Random(kills))
        for _ in range(kills):
            with served(state, *options) as service:
                while campaign.open_jobs() < OPEN_JOBS:
                    campaign.submit(service)
                # Some kills hit the start, before any trial; the others come while trials go on.
                wanted = campaign.finished() + campaign.points.choice([0, 1, 3, 8])
                wanted = min(wanted, campaign.requests * TRIALS)  # all there will be
                until(lambda wanted=wanted: campaign.finished() >= wanted, service)
                time.sleep(campaign.points.uniform(0.0, 0.4))
                kill(service)
            campaign.check_rows()
        with served(state, *options) as service:
            until(lambda: campaign.open_jobs() == 0, service)
            assert service.end() == 0
        campaign.check_rows()
        campaign.check_end()
