"""``hvxtune setup``: what it says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.machine.test_provision import put_program
from tuner.conformance.patience import PATIENCE_S, until
from tuner.machine import doctor, provision
from tuner.measure.qemu.simulator import QEMU_VARIABLE, find_simulator
from tuner.paths import CACHE_DIR_VARIABLE
from tuner.problem.default_target import TARGET_VARIABLE


def test_a_machine_with_a_simulator_is_told_which(hvxtune) -> None:
    simulator = find_simulator()
    answer = hvxtune("setup", "--json")
    expected = {"program": simulator.command[-1], "version": simulator.version}
    assert answer.json == {"simulator": expected, "default_target": "hexagon-v66"}
    assert f"using {simulator.command[-1]}" in hvxtune("setup").out


def test_a_missing_compiler_is_told_before_anything_is_fetched(hvxtune, monkeypatch) -> None:
    (part, *_) = doctor.compilers()
    lost = replace(part, present=False, found="missing", remedy="install it")
    monkeypatch.setattr(doctor, "compilers", lambda: [lost])
    assert hvxtune("setup").error_line == (
        "error: halide (making Hexagon code): missing. install it."
    )


def test_a_file_that_is_no_tarball_is_refused(hvxtune, tmp_path, monkeypatch) -> None:
    for tool in ("cc", "ninja", "flex", "bison", "pkg-config"):
        put_program(tmp_path / tool, "#!/bin/sh\nexit 0\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    answer = hvxtune("setup", "--qemu", str(tmp_path / "cc"))
    assert answer.status == 2
    assert "cannot be unpacked" in answer.err
    assert "accepted: a release tarball of QEMU" in answer.err


@pytest.fixture
def asked(monkeypatch, tmp_path) -> list[list[str]]:
    """The archs that were asked of the machine's simulator, which is said to serve for all. The
    cache is a new one, and no target is named in the environment."""
    there = find_simulator()
    asked: list[list[str]] = []

    def provide(steps, archs):
        asked.append(archs)
        return there

    monkeypatch.setattr(provision, "provision", provide)
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(TARGET_VARIABLE)
    return asked


def test_the_newest_target_becomes_the_default(hvxtune, asked, tmp_path) -> None:
    """Of the processes that begin afterwards, until another is set up."""

    def default() -> str:
        command = [sys.executable, "-m", "service.cli", "targets", "--json"]
        return json.loads(subprocess.check_output(command))["default"]

    assert default() == "hexagon-v66"
    answer = hvxtune("setup", "--target", "v73,v66")
    assert "without --target, commands mean hexagon-v73" in answer.out
    assert default() == "hexagon-v73"
    assert hvxtune("setup", "--json").json["default_target"] == "hexagon-v73"
    hvxtune("setup", "--target", "hexagon-v68-qcs6490")
    assert default() == "hexagon-v68-qcs6490"
    assert hvxtune("setup", "--target", "v66", "--json").json["default_target"] == "hexagon-v66"


def test_a_target_that_nobody_can_run_is_refused_in_one_line(hvxtune) -> None:
    answer = hvxtune("setup", "--target", "v79")
    assert answer.status == 2
    assert answer.error_line.startswith("error: no QEMU that can be built here runs v79 code.")
    assert "error: unknown target 'v74'" in hvxtune("setup", "--target", "v74").err


def test_folders_are_told_one_by_one_and_together(hvxtune, tmp_path) -> None:
    cmake = Path(hvxtune("tool", "where", "cmake").out.rstrip())
    assert (cmake / "HvxTuneConfig.cmake").is_file()
    everything = hvxtune("tool", "where", "--json").json
    assert list(everything) == ["cmake", "docs", "examples", "state", "cache"]
    assert (everything["cmake"], everything["state"]) == (str(cmake), str(tmp_path / "state"))
    assert hvxtune("tool", "where", "moon").error_line == (
        "error: folder 'moon'. accepted: cmake, docs, examples, state, cache."
    )


@pytest.mark.slow
def test_an_interrupted_setup_leaves_no_half_installed_simulator(tmp_path: Path) -> None:
    """apt hangs in its download; what it had fetched by then stays for the next time."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script = f"""#!{sys.executable}
import pathlib, sys, time
if "policy" in sys.argv:
    print("  Candidate: 1:7.2")
if "install" in sys.argv:
    folder = [a.partition("=")[2] for a in sys.argv if a.startswith("-oDir::Cache::archives=")]
    (pathlib.Path(folder[0]) / "libc6_2.36_amd64.deb").write_text("fetched")
    time.sleep({PATIENCE_S})
"""
    for name in ("apt-get", "apt-cache"):
        put_program(programs / name, script)
    put_program(programs / "dpkg-deb", "#!/bin/sh\n")
    cache = tmp_path / "cache"
    environment = {**os.environ, "PATH": str(programs), CACHE_DIR_VARIABLE: str(cache)}
    environment["HVXTUNE_STATE_DIR"] = str(tmp_path / "state")
    environment.pop(QEMU_VARIABLE, None)
    command = [sys.executable, "-m", "service.cli", "setup"]
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until(lambda: bool(list(cache.rglob("*.deb"))))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert not list(cache.glob("qemu/[!.]*"))
    assert list(cache.glob("qemu/.fetching/*/archives/*.deb"))
