"""A service and the worker of its cluster share nothing but the network."""

from __future__ import annotations

import pytest

from tests.chaos.lab import missing
from tests.chaos.two_hosts import TRIALS, run_alone

pytestmark = pytest.mark.slow


def test_jobs_end_and_what_is_served_is_what_the_worker_made() -> None:
    if reason := missing():
        pytest.skip(reason)
    found = run_alone()
    assert found["shared"] == []
    assert found["job"]["state"] == "done", found["job"]
    assert len(found["trials"]) == TRIALS
    assert {trial["outcome"] for trial in found["trials"]} <= {"ok", "cutoff"}
    assert found["schedules"]
    for one in found["schedules"]:
        assert one["served"] == one["stored"]
        assert one["stored"] in {trial["object_digest"] for trial in found["trials"]}
