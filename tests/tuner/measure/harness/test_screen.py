"""Objects that are refused before they run: instructions the simulator lacks, and odd forms."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tuner import conformance
from tuner.conformance.candidates import artifact_of, scale_problem
from tuner.errors import CandidateError
from tuner.measure.harness.linking import screen
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.measure.qemu.simulator import (
    find_simulator,
    lacked_by,
)
from tuner.records.candidate import Artifact, Problem
from tuner.records.outcome import Outcome

OLD, NEW = (7, 2), (10, 0)
ALL = "-mcpu=hexagonv81+hvxv81+hvx_length128b+hvx_qfloat+hvx_ieee_fp+zreg+audio"


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_KERNELS", "scale_u8=tests.rig.scale_u8:ScaleU8")


@pytest.fixture
def problem() -> Problem:
    return scale_problem()


def assembled(folder: Path, text: str, flags: str = ALL) -> Artifact:
    source = folder / "object.S"
    source.write_text(f"  .text\n  .globl entry\nentry:\n{text}\n  {{ jumpr r31 }}\n")
    return artifact_of(source, "entry", (flags,))


def compiled(folder: Path, text: str, *flags: str) -> Artifact:
    source = folder / "object.c"
    source.write_text(text)
    return artifact_of(source, "entry", flags)


def refusal(artifact: Artifact, arch: str = "v81", release: tuple[int, int] = OLD) -> str:
    with pytest.raises(CandidateError) as caught:
        screen(artifact.object_bytes, arch, lacked_by(release))
    assert caught.value.outcome is Outcome.INFEASIBLE
    return caught.value.message


def skeleton(instruction: str) -> str:
    """What is left of an instruction without the names of registers and the values of numbers."""
    without = re.sub(r"\b([vrpq])([a-z]{1,4}|\d+(:\d+)?)(?=[.,)+ ]|$)", r"\1", instruction.lower())
    return re.sub(r"#\w+|\s", "", without)


LACKED_BY_ALL = ["v1.sf = vadd(v2.sf,v3.sf)", "v1.hf = v3:2.qf32", "v3:0.w = vrmpyz(v4.b,r3.b)"]
LACKED_BY_THE_OLD = ["v1.uh = vmpy(v2.uh,v3.uh):>>16", "jumprh r1"]
HAD_BY_ALL = [
    "v1.b = vadd(v2.b,v3.b)",
    "v1 = vmemu(r0+#1)",
    "v1.w = vadd(v2.w,v3.w,q0):carry",
    "r1 = sfadd(r2,r3)",
    "l2fetch(r0,r1)",
]


@pytest.mark.parametrize("instruction", LACKED_BY_ALL + LACKED_BY_THE_OLD)
def test_what_a_release_lacks_is_named(instruction: str, tmp_path: Path) -> None:
    artifact = assembled(tmp_path, f"  {{ {instruction} }}")
    message = refusal(artifact)
    assert "in entry, which QEMU 7.2 does not implement" in message
    shown = message.removeprefix("uses the instruction ").split(" (")[0]
    assert skeleton(shown) == skeleton(instruction)
    if instruction in LACKED_BY_ALL:
        assert "QEMU 10.0" in refusal(artifact, release=NEW)
    else:
        screen(artifact.object_bytes, "v81", lacked_by(NEW))


def test_instructions_of_every_release_pass(tmp_path: Path) -> None:
    packets = "\n".join(f"  {{ {instruction} }}" for instruction in HAD_BY_ALL)
    screen(assembled(tmp_path, packets).object_bytes, "v81", lacked_by(OLD))


# Odd forms

ENTRY = "int entry(void) { return 0; }\n"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "volatile int n; __attribute__((constructor)) void early(void) { n++; }\n",
            "to run before it is called",
        ),
        ("_Thread_local int mine = 1; int *get(void) { return &mine; }\n", "thread-local"),
        ("char huge[1 << 30];\n", "at most 67108864"),
        ("__attribute__((aligned(1 << 20))) char far = 1;\n", "an alignment of 1048576 bytes"),
    ],
)
def test_an_object_that_asks_for_more_than_to_be_run_is_refused(
    source: str, says: str, tmp_path: Path
) -> None:
    assert says in refusal(compiled(tmp_path, ENTRY + source))


def test_an_object_for_a_newer_arch_is_refused(tmp_path: Path) -> None:
    artifact = assembled(tmp_path, "  { r0 = #0 }", "-mcpu=hexagonv73")
    assert refusal(artifact, "v66", NEW) == "the object is made for v73, the target is v66"
    screen(artifact.object_bytes, "v73", lacked_by(NEW))


@pytest.mark.parametrize(
    ("text", "symbol", "says"),
    [
        ("  .globl data\n  .data\ndata: .word 0\n  .text\n", "data", "not a function"),
        (
            '  { call 1f }\n  .section .evil, "ax"\n1:\n  { jumpr r31 }\n  .text\n',
            "entry",
            "cannot be linked",
        ),
        ("  { call printf }\n", "entry", "needs printf"),
    ],
)
def test_an_object_that_does_not_fit_the_harness_is_infeasible(
    text: str, symbol: str, says: str, problem: Problem, tmp_path: Path
) -> None:
    source = tmp_path / "object.S"
    source.write_text(f"  .text\n  .globl entry\nentry:\n  {{ jumpr r31 }}\n{text}\n")
    artifact = artifact_of(source, symbol)
    with QemuMeasurer() as measurer, pytest.raises(CandidateError) as caught:
        measurer.measure(problem, artifact)
    assert caught.value.outcome is Outcome.INFEASIBLE
    assert says in caught.value.message


@pytest.mark.parametrize("arch", ["v68", "v73"])
def test_integer_code_runs_on_every_arch_the_simulator_can_run(problem: Problem, arch: str) -> None:
    if not find_simulator().runs(arch):
        pytest.skip(f"{find_simulator().version} cannot run {arch} code")
    target = replace(problem.target, arch=arch, name=f"hexagon-{arch}")
    source = Path(conformance.__file__).with_name("scale_u8.c")
    flags = (f"-DENTRY={problem.symbol}", "-DBEHAVIOUR=WELL", f"-mcpu=hexagon{arch}")
    artifact = artifact_of(source, problem.symbol, flags)
    with QemuMeasurer() as measurer:
        timed = measurer.measure(replace(problem, target=target), artifact)
    assert timed.measurement.verified
