"""Which jobs go on after an upgrade: those whose objects and cycles come out as before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.rig.scale_u8 import KERNELS
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tests.tuner.search.test_loop import PROBLEM, SPACE
from tuner.errors import ToolchainError, UserError
from tuner.executor.cluster import tasks
from tuner.jobs import tuning
from tuner.jobs.tuning import require_same_tools
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.measure.qemu import measurer as qemu
from tuner.records.trial import Job, JobSpec

HERE = tuning._toolchain(StandInGenerator(), StandInMeasurer())


def job_of(toolchain: dict[str, str]) -> Job:
    return MemoryStore().create_job(JobSpec(problem=PROBLEM, trials=1), SPACE, toolchain)


def check(job: Job) -> None:
    require_same_tools(job, SPACE, StandInGenerator(), StandInMeasurer())


def test_a_job_of_another_release_with_the_same_tools_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = job_of(HERE)
    monkeypatch.setattr(tuning, "version", lambda package: "99.0")
    check(job)
    check(job_of({part: text for part, text in HERE.items() if part != "hvxtune"}))


@pytest.mark.parametrize("part", sorted({*HERE, "more"} - {"hvxtune"}))
def test_a_job_of_any_other_tool_does_not(part: str) -> None:
    with pytest.raises(UserError, match=f"began with {part} of another time, here it is") as caught:
        check(job_of({**HERE, part: "of another time"}))
    assert "start a new job" in caught.value.next_step


def test_rules_that_make_other_cycles_are_another_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are code here, unlike the plugin and the parameters: only a digest tells of a change."""
    folder = Path(qemu.__file__).parent
    for name in qemu._RULES:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    monkeypatch.setattr(qemu, "__file__", str(tmp_path / "measurer.py"))
    digest = qemu._rules_digest.__wrapped__
    before = digest()
    cycles = tmp_path / "cycles.py"
    cycles.write_text("# a comment\n" + cycles.read_text())
    assert digest() == before == qemu.QemuMeasurer().fingerprint()["timing rules"]
    cycles.write_text(cycles.read_text() + "\nEXTRA = 1\n")
    assert digest() != before


def test_a_job_on_other_code_of_its_kernel_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither here, nor on a worker with another installation."""
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    store, source = MemoryStore(), PROBLEM.workload.source
    was = replace(PROBLEM, workload=replace(PROBLEM.workload, source="0" * 16))
    job = store.create_job(JobSpec(problem=was, trials=1), SPACE, HERE)
    told = f"began with code of scale_u8 0000000000000000, here it is {source}: its cycles"
    with pytest.raises(UserError, match=told):
        tuning.run(job.id, store)
    with pytest.raises(ToolchainError, match=f"the code of scale_u8 is {source} on this worker"):
        tasks._require_same_code(was)
    tasks._require_same_code(PROBLEM)
