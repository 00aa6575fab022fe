"""A request can be followed by its id: in its answer, the log, the audit, and its job."""

from __future__ import annotations

import logging
import re
import threading

import pytest
from starlette.testclient import TestClient

from db.access.audit import newest_entries
from db.jobs.queue import ClaimedJob
from db.sql_store import SqlStore
from service.conductor.conductor import Conductor
from service.logs import NamesRequests
from tests.service.job_routes import use_stand_ins
from tuner.records.trial import JobState
from tuner.search.stopping import StopRequest

pytestmark = pytest.mark.sqlite

JOB = {"kernel": "gemm_u8", "params": {"m": 64, "n": 128, "k": 128}, "budget": {"trials": 3}}
OURS = re.compile(r"[0-9a-f]{16}")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Filled with the lines of the log, each behind its request's id."""
    found: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(f"{record.request_id} {record.getMessage()}")

    handler = Collect()
    handler.addFilter(NamesRequests())
    caplog.set_level(logging.INFO)
    logging.getLogger().addHandler(handler)
    yield found
    logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize("path", ["/healthz", "/nowhere", "/v1/schedules/best", "/ui/login"])
def test_every_answer_says_the_id(client: TestClient, path: str) -> None:
    chosen = client.get(path, headers={"X-Request-ID": "build-17/4:a.b=@+_"})
    assert chosen.headers.get_list("X-Request-ID") == ["build-17/4:a.b=@+_"]
    ours = [client.get(path).headers["X-Request-ID"] for _ in range(2)]
    assert all(OURS.fullmatch(one) for one in ours)
    assert ours[0] != ours[1]


@pytest.mark.parametrize(
    "given",
    ["", "a b", "a" * 101, "caf\xe9", "<script>", "a\tb", 'a"b', "hvx_k3zq7a2m_" + "a" * 52],
)
def test_an_id_that_would_harm_a_log_is_not_taken(client: TestClient, given: str) -> None:
    answer = client.get("/healthz", headers={"X-Request-ID": given.encode("latin-1")})
    assert OURS.fullmatch(answer.headers["X-Request-ID"])


def test_a_job_and_the_audit_keep_it_and_its_conductor_works_under_it(
    client: TestClient,
    store: SqlStore,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str],
) -> None:
    use_stand_ins(monkeypatch)
    answer = client.post("/v1/jobs", json=JOB, headers={"X-Request-ID": "r3"})
    (made,) = answer.json()["jobs"]
    assert made["request_id"] == "r3"
    assert client.get(f"/v1/jobs/{made['job']}").json()["request_id"] == "r3"
    assert [(e.action, e.request_id) for e in newest_entries(store, 1)] == [("job.submit", "r3")]
    leave = threading.Event()

    def run(job: ClaimedJob, store: SqlStore, _stop: StopRequest) -> JobState:
        logging.getLogger("hvxtune.test").info("at work")
        leave.set()
        store.release(job.id, job.token, JobState.FAILED, "enough")
        return JobState.FAILED

    Conductor(store, run=run).run(leave)
    assert f"r3 job {made['job']} of test: taken up" in lines
    assert "r3 at work" in lines
