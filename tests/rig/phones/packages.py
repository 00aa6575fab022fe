"""The programs of the rig, as Debian built them: adbd, adb, busybox, and the simulator's QEMU.

Fetched once through the machine's own apt sources into the cache, unpacked and not
installed, each with every library it needs.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tuner.codegen.toolchain import NativePart, built, find_toolchain
from tuner.errors import ToolchainError
from tuner.machine.debian import PrivateApt, unpack
from tuner.measure.qemu.simulator import command_of, find_simulator
from tuner.paths import cache_dir

_RELEASE = "bookworm"
"""Its backports are where adbd was seen to run as a plain process (34.0.5); adb comes along."""
_PACKAGES = ("adbd", "adb", "busybox-static")
_PROGRAMS = ("adbd", "adb", "busybox")
_HERE = Path(__file__).parent
HOME = cache_dir() / "rig"
"""As it is when tests are collected: one that makes itself a new cache fetches nothing anew."""
_ARITHMETIC = _HERE.parents[2] / "tuner/measure/harness/arithmetic.c"

SHIM = NativePart(name="phone-shim", machine="host", sources=(_HERE / "shim.c",))
LOADER = NativePart(
    name="phone-loader",
    machine="hexagon",
    sources=(*sorted((_HERE / "loader").glob("*.[cS]")), _ARITHMETIC),
    headers=(_HERE / "loader/loader.h",),
    arch="v66",
    flags=("-fno-builtin",),  # else memcpy's loop would become a call of memcpy
)


@dataclass(frozen=True)
class Programs:
    """Folders and files that phones are made of; ``adb`` starts the client or server."""

    adbd: Path
    """Folder: the daemon, its libraries and its dynamic linker."""
    adb: Path
    busybox: Path
    qemu: Path
    """Folder: qemu-hexagon and its libraries."""
    loader: Path
    shim: Path


def find_programs() -> Programs:
    """Everything there is to a phone, fetched and built where it is missing.

    Raises ``ToolchainError`` where Debian's packages cannot be had.
    """
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test workers share the folder
        packages = HOME / f"{_RELEASE}-backports"
        if not packages.exists():
            _fetch(packages)
        return Programs(
            adbd=packages,
            adb=_starter(packages),
            busybox=packages / "busybox",
            qemu=_self_contained_qemu(),
            loader=linked_loader(),
            shim=built(SHIM),
        )


def _fetch(place: Path) -> None:
    if platform.freedesktop_os_release().get("ID") != "debian":
        raise ToolchainError(f"adbd comes from the packages of Debian {_RELEASE}: not at hand here")
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetching-") as name:
        scratch = Path(name)
        own = PrivateApt(scratch / "own")
        own.update()
        sources = own.sources_of_release(_RELEASE, with_backports=True)
        apt = PrivateApt(scratch / "apt", sources, prefer=f"{_RELEASE}-backports")
        apt.update()
        folder = scratch / "programs"
        folder.mkdir()
        unpack(apt.download(*_PACKAGES), _PROGRAMS, folder)
        missing = [name for name in _PROGRAMS if not (folder / name).exists()]
        if missing:
            raise ToolchainError(f"Debian's packages hold no {', '.join(missing)}")
        os.replace(folder, place)


def _starter(folder: Path) -> Path:
    """A script that becomes adb: its process id is adb's. The client cannot start a server by
    itself this way, which looks for its own program; ``adb nodaemon server`` works."""
    script = folder / "start-adb"
    line = " ".join(f"'{word}'" for word in command_of(folder / "adb"))
    text = f'#!/bin/sh\nexec {line} "$@"\n'
    if not script.exists() or script.read_text() != text:
        script.write_text(text)
        script.chmod(0o755)
    return script


def _self_contained_qemu() -> Path:
    """A copy of the simulator's QEMU beside all its libraries: phones have none of the host's."""
    simulator = find_simulator()
    program = Path(simulator.command[-1])
    place = HOME / f"qemu-{program.stat().st_mtime_ns:x}-{program.stat().st_size:x}"
    if place.exists():
        return place
    interpreter = simulator.interpreter or "/lib64/ld-linux-x86-64.so.2"
    options = simulator.command[1:-1] if len(simulator.command) > 1 else ()
    listed = subprocess.run(
        [interpreter, *options, "--list", program], capture_output=True, text=True, check=True
    ).stdout
    with tempfile.TemporaryDirectory(dir=HOME, prefix=".copying-") as name:
        copy = Path(name) / "qemu"
        copy.mkdir()
        shutil.copy(program, copy / "qemu-hexagon")
        shutil.copy(interpreter, copy / Path(interpreter).name)
        for library, path in re.findall(r"^\s*(\S+) => (/\S+) \(", listed, re.MULTILINE):
            shutil.copy(path, copy / Path(library).name)
        os.replace(copy, place)
    return place


def linked_loader() -> Path:
    """The program that loads shared objects under qemu-hexagon."""
    part = built(LOADER)
    place = HOME / part.with_suffix(".elf").name
    if not place.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        aside = place.with_suffix(f".{os.getpid()}")
        done = find_toolchain().lld(
            ["-static", "-e", "_start", "-z", "max-page-size=65536", part, "-o", aside]
        )
        assert done.returncode == 0, done.stderr
        os.replace(aside, place)
    return place
