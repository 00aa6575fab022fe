"""``hvxtune jobs`` where several people submit."""

from __future__ import annotations

from db import open_store
from db.pipelines import keep
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.records.trial import JobRequest, Submission


def test_user_and_priority_are_shown_where_there_are_any(hvxtune) -> None:
    with open_store() as store:
        store.create_job(spec(), SPACE, TOOLCHAIN)
        assert "priority" not in hvxtune("jobs").out
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann", 7))
        store.request(job.id, JobRequest.PAUSE)
    lines = hvxtune("jobs").out.splitlines()
    assert lines[0].split()[:4] == ["job", "state", "user", "priority"]
    assert lines[2].split()[:4] == [job.id, "paused", "ann", "7"]


def test_uploads_are_shown_by_the_names_people_gave(hvxtune) -> None:
    with open_store() as store:
        job = store.create_job(
            spec(), SPACE, TOOLCHAIN, Submission("ann", owner="vision", kernel_label="crisp")
        )
        kept, _ = keep(store, b"bytes", "crisp", "ann", {}, owner="vision", private=True)
    assert f" crisp {' '.join(f'{k}={v}' for k, v in spec().problem.workload.params.items())}" in (
        hvxtune("jobs").out
    )
    assert hvxtune("show", job.id).out.startswith("crisp ")
    (row,) = hvxtune("jobs", "--json").json["jobs"]
    assert (row["display_name"], row["owner"]) == ("crisp", "vision")
    assert row["kernel"] == spec().problem.workload.kernel
    (upload,) = hvxtune("pipelines", "--json").json["pipelines"]
    assert (upload["name"], upload["owner"], upload["visibility"]) == ("crisp", "vision", "private")
    line = hvxtune("pipelines").out.splitlines()[2]
    assert line.split()[:3] == ["crisp", "vision", "private"]
    assert line.split()[-1] == kept.kernel


def test_show_says_how_it_was_searched(hvxtune) -> None:
    with open_store() as store:
        job = store.create_job(spec(generator="portfolio"), SPACE, TOOLCHAIN)
    line = next(line for line in hvxtune("show", job.id).out.splitlines() if "searched" in line)
    assert "Trials 12; Seconds 1.5" in line
    assert "Generator portfolio" in line
    assert "Objectives" not in line
