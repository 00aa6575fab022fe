"""Lists fit the terminal at any width, and cut nothing off."""

from __future__ import annotations

import pytest

from db import open_store
from tests.service.cli.test_batches import stored
from tests.service.stored import unfit_conductor
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, spec
from tuner.machine import doctor
from tuner.measure.farm.roster import Enrolment
from tuner.measure.finding import Finding
from tuner.records.trial import JobState, Submission

FINDINGS = [
    Finding("halide", True, "21.0.0", "compiling schedules", "pip install hvxtune"),
    Finding(
        "qemu-hexagon",
        False,
        "not on the PATH, and none was unpacked in the cache of this machine",
        "running candidates: every job that measures with the simulator, on any target",
        "run `hvxtune setup`, or set HVXTUNE_QEMU to a qemu-hexagon that loads plugins; "
        "docs/targets.md says which versions do and how to build one without being root",
    ),
]
LISTS = [
    *(
        ["kernel", "list"],
        ["kernel", "space", "gemm_u8"],
        ["kernel", "pipelines"],
        ["package", "list"],
    ),
    *(["jobs"], ["jobs", "--members"], ["show", "JOB"], ["show", "BATCH"]),
    *(["cluster", "list"], ["farm", "list"], ["farm", "kinds"]),
    *(["token", "list", "--all"], ["token", "audit"], ["doctor"], ["tool", "where"]),
]


@pytest.fixture
def lab(hvxtune, monkeypatch):
    """A database with something in every list; the ids of jobs and a batch."""
    monkeypatch.setattr(doctor, "examine", lambda: FINDINGS)
    with open_store() as store:
        job = store.create_job(
            spec(label="before the new tiling"), SPACE, TOOLCHAIN, Submission("ann", 7)
        )
        token, made = store.claim(job.id), artifact(1)
        store.commit(job.id, token, started=[pending(0)])
        store.commit(job.id, token, finished=[ok(0, made, 1_234_567)], artifacts=[made])
        store.release(job.id, token, JobState.FAILED, "the compile server of this machine ended")
        queued = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("vision-team"))
        batch = stored(store)
        unfit_conductor(store)
        roster = store.roster()
        roster.enrol(Enrolment("pixel-in-the-second-rack", "phone", "hardware", ("v68", "lab-2")))
    created = hvxtune("token", "create", "--name", "ci", "--scope", "read", "--scope", "submit")
    assert created.status == 0
    return {"JOB": job.id, "BATCH": batch.id, "QUEUED": queued.id}


def lines_of(hvxtune, command, ids) -> list[str]:
    return hvxtune(*(ids.get(word, word) for word in command)).out.splitlines()


def test_lists_fit_the_terminal_and_cut_no_id(hvxtune, lab, monkeypatch):
    columns = 60
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("service.cli.watching.time.sleep", stop)
    shown = {" ".join(command): lines_of(hvxtune, command, lab) for command in LISTS}
    assert [command for command, lines in shown.items() if not lines] == []
    # A line of one word, such as a path, cannot be broken.
    assert [
        (command, line)
        for command, lines in shown.items()
        for line in lines
        if len(line) > columns and len(line.split()) > 1
    ] == []
    assert [c for c, lines in shown.items() if "\N{HORIZONTAL ELLIPSIS}" in "".join(lines)] == []
    for command, ids in (
        ("jobs", [lab["JOB"], lab["BATCH"]]),
        ("jobs --members", [lab["JOB"], lab["QUEUED"]]),
        ("show BATCH", [lab["BATCH"]]),
    ):
        words = " ".join(shown[command]).split()
        assert [name for name in ids if name not in words] == []


def stop(_seconds: float) -> None:
    raise KeyboardInterrupt
