"""Finding a simulator and fetching one, with stand-ins for QEMU and for apt."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuner.machine.silent import Silent
from tuner.errors import ToolchainError
from tuner.machine.provision import provision
from tuner.measure.qemu.simulator import QEMU_VARIABLE, find_simulator
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE, cached


@pytest.fixture(autouse=True)
def fresh_search() -> Iterator[None]:
    find_simulator.cache_clear()
    yield
    find_simulator.cache_clear()


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without simulator: programs are only those in the returned folder."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("dpkg-deb", "tar", "sh", "rm"):
        found = shutil.which(name)
        if found:
            (programs / name).symlink_to(found)
    monkeypatch.delenv(QEMU_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    return programs


def put_program(place: Path, text: str) -> Path:
    place.write_text(text)
    place.chmod(0o755)
    return place


def put_apt(programs: Path, *, deb: Path | None, says: str = "") -> Path:
    """A stand-in for apt that offers one package file. Returns the log of its calls."""
    log = programs / "apt.log"
    script = f"""#!{sys.executable}
import pathlib, shutil, sys
with open({str(log)!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if "policy" in sys.argv:
    print("  Candidate: {"1:7.2-stand-in" if deb else "(none)"}")
if "install" in sys.argv:
    sys.stderr.write({says!r})
    if not {says!r}:
        number = next(a.partition("=")[2] for a in sys.argv if a.startswith("-oAPT::Status-Fd="))
        with open(int(number), "w") as status:
            status.write("dlstatus:1:12.5:Retrieving file 1 of 2\\npmstatus:qemu:9:no download\\n")
            status.write("dlstatus:2:100:Retrieving file 2 of 2\\n")
        folder = [a.partition("=")[2] for a in sys.argv if a.startswith("-oDir::Cache::archives=")]
        shutil.copy({str(deb)!r}, pathlib.Path(folder[0]) / "qemu-user_7.2_amd64.deb")
sys.exit(100 if {says!r} else 0)
"""
    put_program(programs / "apt-get", script)
    put_program(programs / "apt-cache", script)
    return log


def make_deb(folder: Path, files: dict[str, Path]) -> Path:
    """A package with ``files``, installed name to content."""
    root = folder / "package"
    for name, content in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(content, place)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(
        "Package: qemu-user\nVersion: 7.2\nArchitecture: amd64\nMaintainer: nobody\n"
        "Description: stand-in\n"
    )
    deb = folder / "stand-in.deb"
    subprocess.run(["dpkg-deb", "-Znone", "--build", root, deb], check=True, capture_output=True)
    return deb


needs_dpkg = pytest.mark.skipif(
    shutil.which("dpkg-deb") is None, reason="needs dpkg-deb (Debian or Ubuntu)"
)


def test_a_simulator_the_user_chose_is_never_replaced(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = put_apt(bare_machine, deb=None)
    monkeypatch.setenv(QEMU_VARIABLE, "/bin/true")
    with pytest.raises(ToolchainError, match="/bin/true"):
        provision(Silent())
    assert not log.exists()


@needs_dpkg
@pytest.mark.slow
def test_a_fetched_simulator_is_unpacked_once_and_found_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path(find_simulator().command[-1])
    files = {"usr/bin/qemu-hexagon": real, "usr/bin/qemu-arm": Path("/bin/true")}
    files |= {f"usr/lib/here/{path.name}": path for path in real.parent.glob("lib*.so*")}
    deb = make_deb(tmp_path, files)
    programs = tmp_path / "bin"
    programs.mkdir()
    log = put_apt(programs, deb=deb)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.delenv(QEMU_VARIABLE, raising=False)
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/native").symlink_to(cached("native"))  # the plugin takes long to build
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    find_simulator.cache_clear()
    interrupted = tmp_path / "cache/qemu/.fetching-before/simulator"
    interrupted.mkdir(parents=True)
    (interrupted / "qemu-hexagon").touch()

    steps = Silent()
    found = provision(steps)
    assert "fetching qemu-user 1:7.2-stand-in and its libraries" in steps.begun
    assert steps.percents == [12.5, 100.0]
    assert found.command[-1] == str(tmp_path / "cache/qemu/1_7.2-stand-in/qemu-hexagon")
    assert not list((tmp_path / "cache/qemu").glob(".fetching*"))
    assert not (tmp_path / "cache/qemu/1_7.2-stand-in/qemu-arm").exists()
    calls = log.read_text()
    find_simulator.cache_clear()
    assert provision(Silent()) == found
    assert log.read_text() == calls
