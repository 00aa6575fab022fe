"""``top`` and ``--watch``: what is at work, again and again, until Ctrl-C."""

from __future__ import annotations

import pytest

from db import open_store
from service.cli import watching
from tests.service.stored import unfit_conductor
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, spec
from tuner.measure.farm.roster import Enrolment
from tuner.records.trial import Submission


@pytest.fixture
def store(hvxtune):
    with open_store() as opened:
        yield opened


@pytest.fixture
def between(monkeypatch):
    """Lets a test act between two screens; after its last action comes Ctrl-C."""
    actions = []

    def sleep(_seconds: float) -> None:
        if not actions:
            raise KeyboardInterrupt
        actions.pop(0)()

    monkeypatch.setattr(watching.time, "sleep", sleep)
    return actions


def at_work(store, trials: int = 1):
    """A running job of this process with so many trials."""
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
    token = store.claim(job.id)
    for number in range(trials):
        commit(store, job, token, number)
    return job, token


def commit(store, job, token, number: int) -> None:
    made = artifact(number)
    store.commit(job.id, token, started=[pending(number)])
    store.commit(job.id, token, finished=[ok(number, made, 1000 - number)], artifacts=[made])


def test_a_snapshot_has_jobs_devices_and_conductors(hvxtune, store):
    job, _ = at_work(store, trials=3)
    waiting = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
    store.roster().enrol(Enrolment("pixel", "phone", "hardware"))
    unfit_conductor(store)
    now = hvxtune("job", "top", "--json").json
    assert [(one["job"], one["state"]) for one in now["jobs"]] == [
        (job.id, "running"),
        (waiting.id, "queued"),
    ]
    assert now["jobs"][0]["finished"] == 3
    assert "no conductor is fit" in now["jobs"][1]["waits"]
    assert [one["name"] for one in now["devices"]] == ["pixel"]
    assert "lab7" in {one["host"] for one in now["conductors"]}
    assert now["trials_per_minute"] == now["jobs"][0]["trials_per_minute"]


def test_top_shows_what_changes_and_ends_with_status_0(hvxtune, store, between):
    job, token = at_work(store)
    between += [
        lambda: commit(store, job, token, 1),
        lambda: store.roster().enrol(Enrolment("pixel", "phone", "hardware")),
    ]
    answer = hvxtune("job", "top")
    assert answer.status == 0
    first, second, third = answer.out.split("\n\n" + store.place.name)
    assert "1 running, 0 queued" in first
    assert "1,000" in first
    assert "999" in second
    assert "pixel" not in second
    assert "pixel" in third


@pytest.mark.parametrize("command", [["jobs"], ["cluster", "list"], ["farm", "list"]], ids=" ".join)
def test_lists_are_shown_again_when_they_change(command, hvxtune, store, between):
    def change() -> None:
        store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
        store.roster().enrol(Enrolment("pixel", "phone", "hardware"))
        unfit_conductor(store)

    between += [lambda: None, change]
    once = hvxtune(*command).out
    answer = hvxtune(*command, "--watch")
    assert answer.status == 0
    assert answer.out == f"{once}\n{hvxtune(*command).out}"
    assert once != hvxtune(*command).out
