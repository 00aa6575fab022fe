"""Building a newer QEMU, with stand-ins for its sources and for the tools."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuner.machine.silent import Silent
from tuner.errors import HvxtuneError, ToolchainError, UserError
from tuner.machine.provision import build
from tuner.measure.qemu.simulator import QEMU_VARIABLE, find_simulator
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
    }


@pytest.mark.slow
def test_what_was_built_is_used_from_then_on(machine: Path, tmp_path: Path) -> None:
    killed = tmp_path / "cache/qemu/.building-before"
    killed.mkdir(parents=True)
    built = build(tarball(tmp_path, sources()), Silent())
    assert find_simulator() == built
    assert built.command[-1].startswith(str(tmp_path / "cache/qemu/built-"))
    assert not list((tmp_path / "cache/qemu").glob(".building-*"))


@pytest.mark.slow
def test_the_newest_build_is_used(machine: Path, tmp_path: Path) -> None:
    build(tarball(tmp_path, sources()), Silent())
    (built,) = (tmp_path / "cache/qemu").glob("built-*")
    for version in ("9.2", "10.1", "10.0"):
        other = tmp_path / "cache/qemu" / f"built-{version}"
        other.mkdir()
        (other / "qemu-hexagon").write_bytes((built / "qemu-hexagon").read_bytes())
        (other / "qemu-hexagon").chmod(0o755)
    assert "/built-10.1/" in find_simulator().command[-1]


def test_missing_tools_are_named_with_their_packages(
    machine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(machine))
    (machine / "bison").unlink()
    put_program(machine / "pkg-config", f"#!{sys.executable}\nraise SystemExit(1)\n")
    with pytest.raises(ToolchainError) as caught:
        build(tarball(tmp_path, sources()), Silent())
    said = str(caught.value)
    assert "building QEMU needs bison, glib-2.0" in said
    assert "apt-get install bison libglib2.0-dev" in said


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"qemu/README": "nothing"}, "holds no QEMU with a Hexagon target"),
        ({"../../outside": "x", **sources()}, "cannot be unpacked"),
        (sources("#!/bin/sh\necho ERROR: glib is too old\nexit 1\n"), "glib is too old"),
        (sources("#!/bin/sh\nkill -9 $$\n"), "configure failed"),
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
    assert {*os.listdir(tmp_path / "cache/qemu")} <= {"build.log", ".lock"}
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("content", "says"), [(None, "no such file"), (b"no archive", "cannot be unpacked")]
)
def test_a_file_that_is_no_tarball_is_refused(
    machine: Path,
    tmp_path: Path,
    content: bytes | None,
    says: str,
) -> None:
    place = tmp_path / "qemu.tar.xz"
    if content is not None:
        place.write_bytes(content)
    with pytest.raises(UserError, match=says):
        build(place, Silent())
