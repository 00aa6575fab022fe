"""Building a newer QEMU, with stand-ins for its sources, the tools and apt."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.machine.silent import Silent
from tuner.errors import HvxtuneError
from tuner.machine import building
from tuner.machine.building import fetch_source
from tuner.machine.provision import build
from tuner.measure.qemu.simulator import QEMU_VARIABLE, find_simulator
from tuner.measure.qemu.sources import qemu_sources
from tuner.paths import CACHE_DIR_VARIABLE

CONFIGURE = "#!/bin/sh\necho configured with $*\n"


@pytest.fixture(autouse=True)
def fresh_search() -> Iterator[None]:
    find_simulator.cache_clear()
    yield
    find_simulator.cache_clear()


def put_program(place: Path, text: str) -> None:
    place.write_text(text)
    place.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all tools; its ninja "compiles" a program that starts the real simulator."""
    start = find_simulator().command
    find_simulator.cache_clear()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cc", "flex", "bison", "pkg-config"):
        put_program(tools / name, "#!/bin/sh\nexit 0\n")
    command = " ".join(start)
    ninja = f'#!{sys.executable}\nimport os, sys\nwith open(sys.argv[1], "w") as program:\n'
    ninja += f'    program.write("#!/bin/sh\\nexec {command} \\"$@\\"\\n")\n'
    ninja += "os.chmod(sys.argv[1], 0o755)\n"
    put_program(tools / "ninja", ninja)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(QEMU_VARIABLE, raising=False)
    return tools


def tarball(folder: Path, files: dict[str, str]) -> Path:
    place = folder / "qemu.tar.xz"
    with tarfile.open(place, "w:xz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return place


def sources(configure: str = CONFIGURE) -> dict[str, str]:
    top = "qemu-99.1"
    return {
        f"{top}/VERSION": "99.1\n",
        f"{top}/configure": configure,
        f"{top}/target/hexagon/meson.build": "",
        f"{top}/python/wheels/meson.whl": "",  # as releases have it: nothing has to be fetched
    }


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"qemu/README": "nothing"}, "holds no QEMU with a Hexagon target"),
        ({"../../outside": "x", **sources()}, "cannot be unpacked"),
        (sources("#!/bin/sh\necho ERROR: glib is too old\nexit 1\n"), "glib is too old"),
    ],
)
def test_a_build_that_fails_says_why_and_leaves_nothing(
    machine: Path,
    tmp_path: Path,
    files: dict[str, str],
    says: str,
) -> None:
    with pytest.raises(HvxtuneError, match=says):
        build(tarball(tmp_path, files), Silent())
    # What may be needed again stays in a folder that is never taken for a simulator.
    assert {*os.listdir(tmp_path / "cache/qemu")} <= {"build.log", ".lock", ".building"}
    assert not (tmp_path / "outside").exists()


class StoppedWhileCompiling(Silent):
    """Somebody presses Ctrl-C at the first progress."""

    def reached(self, percent: float) -> None:
        """Its download, or what ninja has done."""
        super().reached(percent)
        signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_a_build_goes_on_where_it_was_stopped(machine: Path, tmp_path: Path) -> None:
    """Ctrl-C comes while ninja runs: what it started ends, nothing is installed, and the next run
    does not configure again."""
    ninja, whole = machine / "ninja", (machine / "ninja").read_text()
    put_program(
        ninja,
        f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\necho '[3/4] Compiling'\nwait\n",
    )
    stopped = StoppedWhileCompiling()
    with pytest.raises(KeyboardInterrupt):
        build(tarball(tmp_path, sources()), stopped)
    assert stopped.percents == [75.0]
    assert ended(int((tmp_path / "child").read_text()))
    assert not list((tmp_path / "cache/qemu").glob("built-*"))

    put_program(ninja, whole)
    steps = Silent()
    build(tarball(tmp_path, sources()), steps)
    assert [step.split()[0] for step in steps.begun] == ["compiling"]
    assert list((tmp_path / "cache/qemu").glob("built-*"))


def ended(process: int) -> bool:
    """Whether ``process`` ends within 10 s; a zombie has."""
    for _ in range(1000):
        with suppress(OSError):
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
                continue
        return True
    return False


class Archive:
    """A stand-in for apt that serves one file for each version."""

    served: dict[str, tuple[str, bytes]] = {}  # noqa: RUF012

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def update(self) -> None:
        """Its lists are empty."""

    def source_lines(self, suites: Iterable[str]) -> list[str]:
        return [f"deb-src archive {suite} main" for suite in suites]

    def download_source(self, package: str, version: str, folder: Path) -> str | None:
        if version not in self.served:
            return f"404 Not Found ({package})"
        name, content = self.served[version]
        (folder / name).write_bytes(content)
        return None


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> type[Archive]:
    monkeypatch.setattr(building, "PrivateApt", Archive)
    monkeypatch.setattr(Archive, "served", {})
    return Archive


def test_the_next_source_is_taken_where_the_preferred_one_is_not_served(
    archive: type[Archive], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = qemu_sources()[:2]
    second = replace(second, sha256=hashlib.sha256(b"x").hexdigest())
    monkeypatch.setattr(building, "qemu_sources", lambda: (first, second))
    archive.served = {second.version: (second.file, b"x")}
    steps = Silent()
    found = fetch_source(tmp_path, ["v73"], steps)
    assert found.name == second.file
    assert [first.version in step for step in steps.begun] == [False, True, False]
    archive.served = {}
    assert fetch_source(tmp_path, ["v73"], Silent()) == found  # it is not fetched again
