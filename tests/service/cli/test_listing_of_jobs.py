"""``hvxtune jobs`` where several people submit."""

from __future__ import annotations

from db import open_store
from tests.tuner.sample_records import SPACE, TOOLCHAIN, spec
from tuner.trial import JobRequest, Submission


def test_user_and_priority_are_shown_where_there_are_any(hvxtune) -> None:
    with open_store() as store:
        store.create_job(spec(), SPACE, TOOLCHAIN)
        assert "priority" not in hvxtune("jobs").out
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann", 7))
        store.request(job.id, JobRequest.PAUSE)
    lines = hvxtune("jobs").out.splitlines()
    assert lines[0].split()[:4] == ["job", "state", "user", "priority"]
    assert lines[2].split()[:4] == [job.id, "paused", "ann", "7"]
