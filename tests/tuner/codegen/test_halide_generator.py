"""The Halide generator: right kinds of files, contained failures, repeatable bytes."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from elftools.elf.elffile import ELFFile

from tests.rig.scale_u8 import KERNELS
from tuner.codegen.halide.generator import LOADED as LOADED_BY_SERVERS
from tuner.codegen.halide.generator import TUNER, HalideGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError, ToolchainError
from tuner.kernels import EXTRA_KERNELS_VARIABLE, find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _test_kernels(monkeypatch):
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def generator():
    with HalideGenerator(1, time_limit_s=3.0) as made:
        yield made


def candidate(kernel="scale_u8", contract=Contract.STATIC, target="hexagon-v66", **knobs):
    problem = find_kernel(kernel).problem({}, contract, find_target(target))
    config = {"vectors": 1, "unroll_rows": 1, "behave": "well", **knobs}
    return Candidate(problem, find_kernel(kernel).space(problem).config(config))


def test_makes_a_hexagon_object_with_the_symbol_header_and_schedule(generator, tmp_path):
    artifact = generator.compile(candidate(), with_assembly=True)
    path = tmp_path / "object.o"
    path.write_bytes(artifact.object_bytes)
    with open(path, "rb") as file:
        elf = ELFFile(file)
        assert elf["e_machine"] == "EM_QDSP6"
        names = {s.name for s in elf.get_section_by_name(".symtab").iter_symbols()}
    assert artifact.symbol == "scale_u8_h4_n512_static"
    assert artifact.symbol in names
    assert artifact.symbol in artifact.files["header"].decode()
    assert artifact.symbol in artifact.files["assembly"].decode()
    assert "vectorized" in artifact.files["loopnest"].decode()
    schedule = artifact.files["schedule"].decode()
    assert f"apply_schedule_{artifact.symbol}" in schedule
    assert "output.split(v_x, v_xo, v_xi, 128, TailStrategy::GuardWithIf);" in schedule


@pytest.mark.parametrize(
    ("behave", "outcome", "word"),
    [
        ("abort", Outcome.COMPILER_CRASH, "SIGABRT"),
        ("hang", Outcome.TIMEOUT, "3 s"),
        ("memory", Outcome.COMPILE_ERROR, "MemoryError"),
        ("exit", Outcome.COMPILE_ERROR, "without writing"),
    ],
)
def test_a_bad_candidate_is_an_outcome_and_the_next_one_compiles(generator, behave, outcome, word):
    before = generator.compile(candidate("hostile_u8")).digest
    with pytest.raises(CandidateError) as caught:
        generator.compile(candidate("hostile_u8", behave=behave))
    assert caught.value.outcome is outcome
    assert word in caught.value.message
    assert generator.compile(candidate("hostile_u8")).digest == before


def test_what_begins_under_a_lower_limit_ends_by_it_and_the_limit_goes(generator):
    generator.limit(1.0)
    with pytest.raises(CandidateError, match="more than 1 s, many times as long as of") as caught:
        generator.compile(candidate("hostile_u8", behave="spin"))
    assert caught.value.outcome is Outcome.TIMEOUT
    assert generator.compile(candidate()).object_bytes
    generator.limit(math.inf)
    with pytest.raises(CandidateError, match=r"more than 3 s\.$"):
        generator.compile(candidate("hostile_u8", behave="spin"))


def killed_at_work(generator, times, *, child):
    """Kills the server, or the child that compiles in it, ``times`` times while it hangs; the
    thread that does it, and the ids of what it killed."""
    server, killed = generator.servers.all[0], []

    def kill():
        deadline = time.monotonic() + PATIENCE_S
        while len(killed) < times and time.monotonic() < deadline:
            for pid in compiling(server):
                victim = pid if child else server._process.pid
                if victim not in killed and (server.directory / "hangs").exists():
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    return killer, killed


def compiling(server):
    process = server._process
    with contextlib.suppress(psutil.Error, AttributeError):
        return [child.pid for child in psutil.Process(process.pid).children()]
    return []


@pytest.mark.parametrize("child", [True], ids=["compiler"])
def test_what_is_killed_from_outside_is_compiled_again(generator, child, caplog):
    for server in generator.servers.all:
        server._time_limit_s = 2.0  # how long it hangs, once nobody kills it
    first = generator.compile(candidate("hostile_u8")).digest
    killer, killed = killed_at_work(generator, 1, child=child)
    with pytest.raises(CandidateError) as caught:
        generator.compile(candidate("hostile_u8", behave="hang"))
    killer.join()
    assert len(killed) == 1
    assert caught.value.outcome is Outcome.TIMEOUT, "it hangs on the fresh server, too"
    assert "attempt 1 of 3" in caplog.text
    assert generator.compile(candidate("hostile_u8")).digest == first


def test_code_that_changed_since_the_kernel_was_loaded_is_not_compiled_under_its_name(generator):
    """A server that starts after a kernel's file was edited has other code than its client."""
    good = candidate()
    workload = replace(good.problem.workload, source="0123456789abcdef")
    with pytest.raises(ToolchainError, match="files of kernel scale_u8 changed"):
        generator.compile(replace(good, problem=replace(good.problem, workload=workload)))
    assert generator.compile(good).object_bytes


def test_close_ends_the_processes_and_removes_the_scratch(generator):
    generator.compile(candidate())
    server = generator.servers.all[0]
    pid, directory = server._process.pid, server.directory
    generator.close()
    generator.close()
    assert not directory.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


LOADED = """
import sys
from importlib import import_module
from tuner.codegen.halide import server
from tuner.kernels import load_kernels
for module in server._NEEDED:
    import_module(module)
load_kernels()
print(*(one.__file__ for name, one in sys.modules.items() if name.partition(".")[0] == "tuner"))
"""


def test_all_that_a_compile_server_loads_is_in_the_fingerprint():
    own = {name: value for name, value in os.environ.items() if name != EXTRA_KERNELS_VARIABLE}
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True)
    loaded = {Path(path).relative_to(TUNER) for path in done.stdout.split()}
    assert Path("kernels/gemm_u8.py") in loaded
    covered = {*LOADED_BY_SERVERS}
    assert [p for p in loaded if p.parts[0] not in covered and str(p) not in covered] == []
    assert all((TUNER / place).exists() for place in covered)
