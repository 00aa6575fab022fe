"""Why a job waits: the reasons, and that the first one that holds is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from db import open_store
from db.access.tokens import Token, add_token
from db.jobs.claims import Owner, this_process
from db.jobs.conductors import Conductor, renew
from db.jobs.queries import job_overview
from db.jobs.waiting import reason
from db.sql_store import SqlStore
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.machine.fitness import Abilities, Lack
from tuner.measure.farm.roster import DeviceState, Purpose
from tuner.records.trial import JobRequest, JobState, Submission

pytestmark = pytest.mark.usefixtures("database")

NO_QEMU = Lack("qemu", "this machine has no qemu-hexagon")


@pytest.fixture
def store() -> Iterator[SqlStore]:
    with closing(open_store()) as opened:
        yield opened


def submitted(store: SqlStore, user: str = "ann", **options: Any) -> str:
    return store.create_job(spec(**options), SPACE, TOOLCHAIN, Submission(user)).id


def conductor(store: SqlStore, number: int = 1, **how: Any) -> None:
    """A conductor on a machine of its own."""
    given: dict[str, Any] = {
        "owner": Owner(f"lab{number}", 4710 + number, time.time()),
        "slots": 1,
        "version": "0.2.0",
        "artifacts": "database:",
        "abilities": Abilities(("qemu",)),
    }
    renew(store, Conductor(id=f"conductor{number}", **{**given, **how}))


def test_with_conductors_that_are_unfit(store: SqlStore) -> None:
    for number in (1, 2, 3):
        conductor(store, number, lacks=(Lack("artifacts", f"not in folder {number}"),))
    assert reason(store, submitted(store)) == (
        "no conductor is fit: process 4711 on lab1: artifacts: not in folder 1; "
        "process 4712 on lab2: artifacts: not in folder 2; and 1 more"
    )


def test_with_none_that_can_measure_it(store: SqlStore) -> None:
    conductor(store, 1, abilities=Abilities(("hexagon-sim",)), without=(NO_QEMU,))
    conductor(store, 2, lacks=(Lack("clock", "an hour ahead"),))
    assert reason(store, submitted(store)) == (
        "no conductor has qemu: process 4711 on lab1: this machine has no qemu-hexagon; "
        "process 4712 on lab2: clock: an hour ahead"
    )


def test_beyond_a_quota(store: SqlStore) -> None:
    conductor(store, slots=9)
    add_token(store, Token("k3zq7a2m", "ann", "0" * 64, ["submit"], {"running_jobs": 1}))
    store.claim(submitted(store))
    assert reason(store, submitted(store)) == (
        "ann has 1 running jobs, as many as the quota allows"
    )
    assert reason(store, submitted(store, "bob")) == "a conductor takes it up in a moment"


def test_after_a_fault_of_a_machine(store: SqlStore) -> None:
    conductor(store)
    job_id = submitted(store)
    store.release(job_id, store.claim(job_id), JobState.QUEUED, "the disk is full")
    assert reason(store, job_id) == "the disk is full"
    store.release(job_id, store.claim(job_id), JobState.QUEUED, "waits: gave way to another job")
    assert reason(store, job_id) == "a conductor takes it up in a moment"


def test_paused_run_by_hand_and_ended(store: SqlStore) -> None:
    paused, by_hand, ended = submitted(store), submitted(store, ""), submitted(store)
    store.request(paused, JobRequest.PAUSE)
    store.request(ended, JobRequest.CANCEL)
    assert reason(store, paused).startswith("paused: ")
    assert "`hvxtune job resume` continues it" in reason(store, by_hand)
    assert reason(store, ended) == ""


def device(store: SqlStore, name: str, tags: tuple[str, ...], state: DeviceState) -> None:
    from db.device_models import DeviceRow

    with store.writing() as session:
        session.add(
            DeviceRow(
                name=name,
                kind="phone",
                fidelity="hardware",
                tags=[name, "phone", *tags],
                state=state,
                reason="three wrong checks",
                since=0.0,
                token=1,
                lease_holder="job x1 on lab1" if state is DeviceState.LEASED else None,
                lease_purpose=Purpose.WORK if state is DeviceState.LEASED else None,
                lease_expires_at=9e9 if state is DeviceState.LEASED else None,
                recent="",
                failed_checks=0,
                last_check_at=None,
                last_check="",
                details={},
                trials=0,
                faults=0,
                busy_s=0.0,
                minutes=[],
            )
        )


def farm_job(store: SqlStore, tags: str) -> str:
    return submitted(store, measurer="farm", on=tags)


def test_for_devices(store: SqlStore) -> None:
    conductor(store, abilities=Abilities(("farm",), (("phone", "pixel"), ("phone", "galaxy"))))
    assert (
        reason(store, farm_job(store, "nokia")) == "no conductor has a device with the tags nokia"
    )
    device(store, "p1", ("pixel",), DeviceState.QUARANTINED)
    device(store, "g1", ("galaxy",), DeviceState.LEASED)
    assert reason(store, farm_job(store, "pixel")) == (
        "no device of tag pixel is in service: p1 is quarantined (three wrong checks)"
    )
    busy = "all devices of tag galaxy are busy: g1 by job x1 on lab1"
    waiting = farm_job(store, "galaxy")
    assert reason(store, waiting) == busy
    store.claim(waiting)
    assert reason(store, waiting) == busy, "one that runs waits for them, too"
    device(store, "g2", ("galaxy",), DeviceState.READY)
    assert reason(store, waiting) == ""


def test_a_running_job_waits_for_nothing_and_summaries_tell(store: SqlStore) -> None:
    conductor(store, owner=this_process())
    running, queued = submitted(store), submitted(store, "bob")
    store.claim(running)
    assert reason(store, running) == ""
    assert store.summary(queued).waits == reason(store, queued) != ""
    assert job_overview(store, queued).summary.waits == reason(store, queued)
