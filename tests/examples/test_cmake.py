"""examples/gemm by CMake: configured, built for Hexagon, run; and the ways it must not go."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from db import open_store
from tests.examples.building import (
    HVXTUNE,
    ROOT,
    Project,
    build_environment,
    gemm_checksum,
    simulate,
)
from tests.service.served import Served, served
from tuner.jobs.tuning import tune
from tuner.measure.harness.linking import open_elf
from tuner.measure.image import HEAP_BYTES
from tuner.problem.target import find_target

pytestmark = pytest.mark.slow
SHAPE = {"m": 64, "n": 128, "k": 64}
SCHEDULED = {**SHAPE, "m": 32}
"""One whose best is a schedule of Halide's."""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service that knows a schedule for the example."""
    state = tmp_path_factory.mktemp("service") / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HVXTUNE_STATE_DIR", str(state))
        with open_store() as store:
            tune("gemm_u8", SHAPE, store=store, contract="static", trials=4)
            tune("gemm_u8", SCHEDULED, store=store, generator="halide", trials=2)
    with served(state, "--conductors", "0") as running:
        yield running


@pytest.fixture
def project(service: Served, tmp_path: Path) -> Project:
    """A copy of the example beside what it needs of the repository, with a state of its own: the
    service could as well be on another machine."""
    for folder in ("cmake", "examples", "tuner/measure/harness"):
        shutil.copytree(ROOT / folder, tmp_path / "repository" / folder)
    environment = build_environment(
        tmp_path / "state",
        HVXTUNE_CACHE_DIR=str(tmp_path / "cache"),  # where fetched files are kept
        HVXTUNE_SERVER=service.url,
        HVXTUNE_TOKEN=service.token,
    )
    return Project(tmp_path / "repository/examples/gemm", tmp_path / "build", environment)


@contextmanager
def service_down(project: Project) -> Iterator[None]:
    """Nobody listens at the service's address, as far as the build can tell."""
    transport = {"HVXTUNE_SERVER": "http://127.0.0.1:9"}
    before = {name: project.environment[name] for name in transport}
    project.environment.update(transport)
    yield
    project.environment.update(before)


def edit(project: Project, old: str, new: str) -> None:
    lists = project.source / "CMakeLists.txt"
    text = lists.read_text()
    assert old in text
    lists.write_text(text.replace(old, new))


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_computes_what_numpy_does(project):
    assert "hvxtune: gemm is schedule" in good(project.configure())
    good(project.make())
    ran = simulate(project.build / "gemm_example")
    assert ran.stdout == f"wrong 0 of 8192, checksum {gemm_checksum(**SHAPE)}\n"
    assert ran.returncode == 0
    assert (project.build / "hvxtune.lock").exists()


def test_a_lock_file_takes_another_machine_to_the_same_object(project, tmp_path):
    good(project.configure())
    pinned = (project.build / "hvxtune.lock").read_bytes()
    objects = [next(project.build.rglob("gemm.o")).read_bytes()]
    shutil.rmtree(project.build)
    shutil.rmtree(tmp_path / "cache")
    project.build.mkdir()
    (project.build / "hvxtune.lock").write_bytes(pinned)
    with service_down(project):
        offline = project.configure("-DHVXTUNE_OFFLINE=ON")
        assert "is not in the cache" in " ".join(offline.stderr.split())
    good(project.configure("-DHVXTUNE_OFFLINE=OFF"))
    objects.append(next(project.build.rglob("gemm.o")).read_bytes())
    assert objects[0] == objects[1]
    assert (project.build / "hvxtune.lock").read_bytes() == pinned


def test_what_is_not_what_was_pinned_does_not_configure(project):
    good(project.configure())
    edit(project, "m=64", "m=32")
    done = project.make()  # configures anew, because the file has changed
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "is for params k=64 m=64 n=128, asked for is k=64 m=32 n=128" in said
    edit(project, "m=32", "m=64")
    lock = project.build / "hvxtune.lock"
    lines = lock.read_text().splitlines()
    changed = [f'object = "sha256:{"0" * 64}"' if "object =" in line else line for line in lines]
    lock.write_text("\n".join(changed) + "\n")
    done = project.make()
    assert done.returncode != 0
    assert "the object of the pinned schedule" in " ".join(done.stderr.split())


def test_make_fetches_builds_and_notices_the_lock_file(project, tmp_path):
    (tmp_path / "Makefile").write_text(
        f"HVXTUNE := {HVXTUNE.replace(';', ' ')}\n"
        f"include {ROOT / 'cmake' / 'hvxtune.mk'}\n"
        "$(eval $(call hvxtune_schedule,gemm,gemm_u8,m=64 n=128 k=64,static))\n"
        "all: $(HVXTUNE_DIR)/gemm.o $(HVXTUNE_DIR)/gemm.h\n"
    )

    def make():
        # Not as a part of the make that may run these tests: it would print folders, too.
        outer = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
        here = {name: value for name, value in os.environ.items() if name not in outer}
        environment = {**here, **project.environment}
        done = subprocess.run(
            ["make", "all"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        return good(done)

    assert "fetch gemm_u8" in make()
    assert (tmp_path / "build/hvxtune/gemm.o").read_bytes()[:4] == b"\x7fELF"
    assert "fetch" not in make()
    later = time.time() + 10.0  # beyond doubt, whatever the file system makes of short times
    os.utime(tmp_path / "hvxtune.lock", (later, later))
    assert "fetch gemm_u8" in make()


def test_a_generator_gets_its_schedule_until_its_source_changes(project):
    source = project.source / "gemm_generator.cpp"
    source.write_text("// the algorithm\n")
    lists = project.source / "CMakeLists.txt"
    lists.write_text(
        lists.read_text()
        + """
hvxtune_add_schedule(TARGET scheduled KERNEL gemm_u8 PARAMS m=32 n=128 k=64
    LOCK "${CMAKE_BINARY_DIR}/hvxtune.lock" SOURCES gemm_generator.cpp SCHEDULE)
get_target_property(folders scheduled INTERFACE_INCLUDE_DIRECTORIES)
if(NOT EXISTS "${folders}/scheduled.schedule.h")
    message(FATAL_ERROR "no schedule in ${folders}")
endif()
"""
    )
    good(project.configure())
    source.write_text("// another algorithm\n")
    refused = project.configure()
    assert refused.returncode != 0
    assert "the sources of 'scheduled' have changed" in refused.stderr
    good(project.configure("-DHVXTUNE_UPDATE=ON"))
    good(project.configure())


@pytest.mark.parametrize(
    ("named", "target"),
    [("v66", "hexagon-v66"), ("hexagon-v73", "hexagon-v73"), ("", "hexagon-v68")],
)
def test_one_setting_says_what_programs_are_made_for(tmp_path, named, target):
    """That of commands, where CMake has none of its own. A program has the target's VTCM."""
    (tmp_path / "main.c").write_text('#include "simulator.h"\nint main(void) { return 0; }\n')
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(app C)\n"
        f"find_package(HvxTune REQUIRED HINTS {ROOT}/cmake)\n"
        "hvxtune_simulated_program(app main.c)\n"
    )
    environment = build_environment(tmp_path / "state", HVXTUNE_TARGET="hexagon-v68")
    project = Project(tmp_path, tmp_path / "build", environment)
    good(project.configure(*([f"-DHVXTUNE_TARGET={named}"] if named else [])))
    good(project.make())
    elf = open_elf((tmp_path / "build/app").read_bytes())
    sizes = {one.name: one["st_size"] for one in elf.get_section_by_name(".symtab").iter_symbols()}
    assert sizes["vtcm"] == find_target(target).vtcm_bytes
    assert sizes["heap"] == HEAP_BYTES
    assert f"v{elf['e_flags'] & 0x7FFF:x}" == find_target(target).arch
