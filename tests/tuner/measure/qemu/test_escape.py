"""Hostile candidates: each ends in its named outcome, and the machine is as it was."""

from __future__ import annotations

import os
import platform
import resource
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tuner.codegen.toolchain import built
from tuner.conformance.candidates import artifact_of, scale_artifact, scale_problem
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError
from tuner.measure.cases import poison_descriptor
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.measure.qemu.simulator import PLUGIN, find_simulator
from tuner.records.candidate import Artifact, Problem
from tuner.records.outcome import Outcome

SOURCES = Path(__file__).parents[1] / "sources"
WINDOW_BEGIN, WINDOW_END = 0x10000, 0x10004
HARNESS_STACK, TABLES, REPORT, CASE = 0xE8000000, 0x20000000, 0x20010000, 0x30000000

SYSTEM_CALLS = {"openat": 56, "socket": 198, "clone3": 435}
"""By number of the generic table Hexagon uses (Linux, asm-generic/unistd.h)."""


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_KERNELS", "scale_u8=tests.rig.scale_u8:ScaleU8")


@pytest.fixture
def measurer() -> Iterator[QemuMeasurer]:
    with QemuMeasurer(timeout_s=PATIENCE_S) as measurer:
        yield measurer


@pytest.fixture
def hasty_measurer() -> Iterator[QemuMeasurer]:
    """For candidates that never end."""
    with QemuMeasurer(timeout_s=2) as measurer:
        yield measurer


@pytest.fixture
def problem() -> Problem:
    return scale_problem()


LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


@dataclass(frozen=True)
class Host:
    """What a candidate that got out could have changed: of this process, and of the machine."""

    children: list[psutil.Process]
    descriptors: int
    handlers: list[Any]
    limits: list[tuple[int, int]]
    identity: tuple[int, int, str]
    files: dict[Path, tuple[int, int]]
    """Mode and time of change of everything in the folders that matter."""
    shared_memory: set[str]
    """Without what other tests use at the same time."""
    mounts: str
    name: str

    @classmethod
    def now(cls, *folders: Path) -> Host:
        itself = psutil.Process()
        found = [path for folder in folders for path in (folder, *folder.rglob("*"))]
        shared = set(os.listdir("/dev/shm"))  # noqa: S108
        return cls(
            children=itself.children(recursive=True),
            descriptors=itself.num_fds(),
            handlers=[signal.getsignal(s) for s in signal.valid_signals()],
            limits=[resource.getrlimit(n) for n in LIMITS],
            identity=(os.getuid(), os.getgid(), os.getcwd()),
            files={path: (path.lstat().st_mode, path.lstat().st_mtime_ns) for path in found},
            shared_memory={n for n in shared if "candidate" in n or "image" in n},
            mounts=Path("/proc/self/mounts").read_text(),
            name=platform.node(),
        )


@pytest.fixture(autouse=True)
def host_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process is left behind, no descriptor open, no file, limit, mount or signal changed."""
    home = tmp_path / "home"
    (home / "deeper").mkdir(parents=True)
    (home / "deeper/precious").write_text("as it was")
    monkeypatch.chdir(home)
    find_simulator()  # what is built once and kept is there from now on
    poison_descriptor()
    plugin = built(PLUGIN)
    before = Host.now(home, plugin, Path(find_simulator().command[-1]).parent)
    yield
    after = Host.now(home, plugin, Path(find_simulator().command[-1]).parent)
    assert after.descriptors <= before.descriptors  # garbage of earlier tests may have gone
    assert replace(after, descriptors=before.descriptors) == before
    assert (home / "deeper/precious").read_text() == "as it was"


def hostile(problem: Problem, attack: str, *definitions: str) -> Artifact:
    flags = (f"-DENTRY={problem.symbol}", f"-DATTACK={attack}", *definitions)
    return artifact_of(SOURCES / "hostile.c", problem.symbol, flags)


def outcome_of(measurer: QemuMeasurer, problem: Problem, artifact: Artifact) -> tuple[Outcome, str]:
    with pytest.raises(CandidateError) as caught:
        measurer.measure(problem, artifact)
    return caught.value.outcome, caught.value.message


@pytest.mark.parametrize("name", SYSTEM_CALLS)
def test_no_system_call_is_made(measurer: QemuMeasurer, problem: Problem, name: str) -> None:
    artifact = hostile(problem, "SYSTEM_CALL", f"-DNUMBER={SYSTEM_CALLS[name]}")
    outcome, message = outcome_of(measurer, problem, artifact)
    assert outcome is Outcome.RUN_ERROR
    assert "made the system call" in message


ENDINGS = [
    ("WRITES_TO_EVERY_DESCRIPTOR", 0, Outcome.RUN_ERROR, "system call write"),
    ("SPINS", 0, Outcome.TIMEOUT, "still ran"),
    ("WRITES_AT", WINDOW_BEGIN, Outcome.RUN_ERROR, "SIGSEGV"),
    ("WRITES_AT", TABLES, Outcome.RUN_ERROR, "SIGSEGV"),
    ("WRITES_AT", HARNESS_STACK, Outcome.RUN_ERROR, "SIGSEGV"),
    ("READS_AT", HARNESS_STACK, Outcome.RUN_ERROR, "SIGSEGV"),
    ("WRITES_AT", CASE, Outcome.WRONG_OUTPUT, "before input"),
    ("WORKS_AHEAD", 0, Outcome.RUN_ERROR, "SIGSEGV"),
    ("FREES_WHAT_IT_NEVER_HAD", 0, Outcome.RUN_ERROR, "SIGSEGV"),
    ("FILLS_ALL_MEMORY", 0, Outcome.RUN_ERROR, "SIGSEGV"),
    ("JUMPS_TO", WINDOW_BEGIN, Outcome.RUN_ERROR, "outside of its calls"),
    ("JUMPS_TO", WINDOW_END, Outcome.RUN_ERROR, "returned"),
    ("JUMPS_TO", 0xE0000000, Outcome.RUN_ERROR, ""),
    ("JUMPS_TO_DATA", 0, Outcome.RUN_ERROR, ""),
    ("CALLS_RUN_CASES", 0, Outcome.RUN_ERROR, "system call"),
    ("CALLS_A_MARK", 0, Outcome.RUN_ERROR, "outside of its calls, in hvxtune_loop_begins"),
    ("FORGES_THE_REPORT", 0, Outcome.WRONG_OUTPUT, "output[0, 0]"),
    ("PUTS_WORK_OFF", 0, Outcome.WRONG_OUTPUT, "random values"),
    ("REMEMBERS", 0, Outcome.RUN_ERROR, "keeps results between calls"),
]


@pytest.mark.parametrize(
    ("attack", "number", "expected", "says"), ENDINGS, ids=[f"{e[0]}-{e[1]:#x}" for e in ENDINGS]
)
def test_an_attack_ends_in_its_outcome(
    measurer: QemuMeasurer,
    hasty_measurer: QemuMeasurer,
    problem: Problem,
    attack: str,
    number: int,
    expected: Outcome,
    says: str,
) -> None:
    artifact = hostile(problem, attack, f"-DNUMBER={number}u")
    judge = hasty_measurer if expected is Outcome.TIMEOUT else measurer
    outcome, message = outcome_of(judge, problem, artifact)
    assert outcome is expected, message
    assert says in message


@pytest.mark.parametrize("attack", ["TALKS_TO_THE_TERMINAL", "TALKS_WITHOUT_END"])
def test_messages_cannot_do_harm(measurer: QemuMeasurer, problem: Problem, attack: str) -> None:
    outcome, message = outcome_of(measurer, problem, hostile(problem, attack))
    assert outcome is Outcome.RUN_ERROR
    assert message.isprintable()
    assert len(message) < 500


def test_the_next_candidate_is_measured_as_ever(measurer: QemuMeasurer, problem: Problem) -> None:
    good = scale_artifact(problem)
    before = measurer.measure(problem, good).measurement.cycles
    for attack in ("CLOSES_EVERY_DESCRIPTOR", "FORGES_THE_REPORT", "FILLS_ALL_MEMORY"):
        outcome_of(measurer, problem, hostile(problem, attack))
    assert measurer.measure(problem, good).measurement.cycles == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_object_is_refused_or_measured_right(
    hasty_measurer: QemuMeasurer, problem: Problem, seed: int
) -> None:
    import random

    rng = random.Random(seed)
    data = bytearray(scale_artifact(problem).object_bytes)
    for _ in range(rng.choice([1, 4, 32])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    damaged = replace(scale_artifact(problem), files={"object": bytes(data)})
    try:
        timed = hasty_measurer.measure(problem, damaged)
    except CandidateError as error:
        assert str(error).isprintable()  # noqa: PT017 - either way is right
    else:
        assert timed.measurement.verified
