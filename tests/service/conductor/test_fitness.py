"""What makes a conductor unfit, and that it claims nothing then. Nothing is compiled."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from sqlalchemy import text, update

from db.jobs.claims import lease_s
from db.jobs.conductors import conductors
from db.schema import SCHEMA_VERSION
from db.service_models import ConductorRow
from db.sql_store import SqlStore
from service.conductor.conductor import Conductor
from service.conductor.fitness import TOLERANCES_PER_LEASE, Fitness
from tests.service.conductor.test_conductor import Work, conducting, is_in, submitted
from tuner.conformance.patience import until
from tuner.errors import StoreError
from tuner.machine.fitness import Abilities, Examined, Lack
from tuner.paths import STATE_DIR_VARIABLE
from tuner.records.trial import JobState


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Artifacts lie where no other test puts any."""
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))


ABLE = Examined(Abilities(("qemu",)))


class Tools:
    """What is found on the machine: everything, until told otherwise."""

    def __init__(self) -> None:
        self.found = ABLE

    def __call__(self) -> Examined:
        return self.found


def test_one_that_reaches_all_is_listed_as_fit(store: SqlStore) -> None:
    fitness = Fitness(store, slots=3, tools=Tools())
    assert not fitness.fit
    fitness.check()
    assert fitness.fit
    [listed] = conductors(store)
    assert (listed.fit, listed.reason, listed.slots) == (True, "", 3)
    assert listed.abilities == ABLE.abilities
    assert listed.artifacts == store.files.storage.place
    assert listed.owner.is_this_process
    fitness.leave()
    assert conductors(store) == []


def test_a_clock_that_is_wrong_is_a_reason(store: SqlStore) -> None:
    ahead_s = 3600.0
    found = Fitness(store, tools=Tools(), clock=lambda: time.time() + ahead_s).check()
    assert [lack.part for lack in found.lacks] == ["clock"]
    assert "ahead of" in found.reason
    assert f"accepted: {lease_s() / TOLERANCES_PER_LEASE:g} s" in found.reason
    assert found.clock_offset_s == pytest.approx(ahead_s, abs=60.0)


def test_so_is_a_schema_that_another_version_made(store: SqlStore) -> None:
    fitness = Fitness(store, tools=Tools())
    fitness.check()
    with store.writing() as session:
        session.execute(text("UPDATE schema_version SET version = '0999'"))
    assert [lack.part for lack in fitness.check().lacks] == ["schema"]
    assert "0999" in fitness.check().reason


def test_nothing_is_claimed_from_the_moment_of_an_upgrade(store: SqlStore) -> None:
    """Not even before the next examination; what is held is written on."""
    held, waiting = submitted(store), submitted(store)
    token = store.claim(held)
    with store.writing() as session:
        session.execute(text("UPDATE schema_version SET version = '0999'"))
    told = f"the database is at schema 0999, this hvxtune knows {SCHEMA_VERSION}"
    with pytest.raises(StoreError, match=told):
        store.queue().take_next()
    with pytest.raises(StoreError, match=told):
        store.claim(waiting)
    with pytest.raises(StoreError, match=told):
        store.prove_writable()
    assert store.job(waiting).state is JobState.QUEUED
    store.release(held, token, JobState.QUEUED)
    assert store.job(held).state is JobState.QUEUED


def test_so_are_artifacts_that_cannot_be_written(store: SqlStore) -> None:
    store.mark_artifacts()
    storage = store.files.storage
    [mark] = [one.key for one in storage.files()]
    data = storage._get(mark)
    assert data is not None
    storage.delete(mark)
    fitness = Fitness(store, tools=Tools())
    assert [lack.part for lack in fitness.check().lacks] == ["artifacts"]
    storage.write(mark, data)
    assert fitness.check().fit


def test_an_unfit_one_claims_nothing_until_it_is_fit_and_tells_each_change_once(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hvxtune.conductor")
    tools, work = Tools(), Work()
    tools.found = Examined(Abilities(), (Lack("compilers", "halide missing"),))
    fitness = Fitness(store, tools=tools)
    job_id = submitted(store)
    work.finish.add(job_id)
    for _ in range(3):
        fitness.check()
    with conducting(Conductor(store, run=work, fitness=fitness)):
        time.sleep(0.6)  # it looks every quarter of a second
        assert work.begun == []
        assert store.job(job_id).state is JobState.QUEUED
        tools.found = ABLE
        fitness.check()
        until(is_in(store, job_id, JobState.DONE))
    told = [record.message for record in caplog.records if "fit" in record.message]
    assert told[0] == "unfit, takes up no job: compilers: halide missing"
    assert len([line for line in told if line.startswith("unfit")]) == 1
    assert any(line.startswith("fit to run jobs with qemu") for line in told)


def test_a_fit_one_leaves_jobs_that_it_cannot_measure(store: SqlStore) -> None:
    tools, work = Tools(), Work()
    tools.found = Examined(Abilities(("hexagon-sim",)))
    fitness = Fitness(store, tools=tools)
    fitness.check()
    job_id = submitted(store)
    with conducting(Conductor(store, run=work, fitness=fitness)):
        time.sleep(0.6)
        assert work.begun == []
        tools.found = ABLE
        fitness.check()
        until(lambda: work.begun == [job_id])


def test_one_that_is_silent_for_a_lease_is_gone(store: SqlStore) -> None:
    Fitness(store, tools=Tools()).check()
    with store.writing() as session:
        session.execute(update(ConductorRow).values(host="lab7"))  # out of sight
    assert len(conductors(store)) == 1
    with store.writing() as session:
        session.execute(update(ConductorRow).values(expires_at=time.time() - 1.0))
    assert conductors(store) == []


def test_one_of_this_machine_that_was_killed_is_gone_at_once(store: SqlStore) -> None:
    Fitness(store, tools=Tools()).check()
    with store.writing() as session:
        session.execute(update(ConductorRow).values(pid=2**22 + 1))
    assert conductors(store) == []


@pytest.mark.parametrize(
    ("job", "lacks"),
    [
        (("qemu",), ""),
        (("hexagon-sim",), "hexagon-sim"),
        (("farm", "pixel"), ""),
        (("farm", "pixel, v69"), "a device with the tags pixel, v69"),
        (("qemu", "", "galaxy"), "a device with the tags galaxy"),
    ],
)
def test_what_a_job_lacks_is_named(job: tuple[str, ...], lacks: str) -> None:
    able = Abilities(("qemu", "farm"), (("pixel", "v66"), ("v69",)))
    assert able.lacking(*job) == lacks
