"""Brings a qemu-hexagon that loads plugins onto this machine: fetched, or built.

:func:`provision`, which ``hvxtune setup`` calls, fetches one where the machine has none; done once,
it is quick to find that nothing is to do. :func:`build` builds one from a release tarball of QEMU:
8.1 and newer run v68, v69 and v73 code, which the packaged 7.2 does not (instructions.toml).
Building needs a C compiler and a few packages, which it names where they are missing, no network,
and one to five minutes. Neither needs root, nor changes anything outside the cache, where the
measurer finds the program from then on. A program appears there whole or not at all; what was
downloaded before an interruption is not downloaded again.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tuner.errors import StoreError, ToolchainError, UserError
from tuner.machine.debian import PrivateApt, unpack
from tuner.measure.qemu.simulator import (
    BUILT_PREFIX,
    NEEDED,
    PROGRAM,
    QEMU_VARIABLE,
    Simulator,
    command_of,
    find_simulator,
    probe,
)
from tuner.paths import cached

OPTIONS = (
    "--target-list=hexagon-linux-user",
    "--enable-plugins",
    "--without-default-features",
    "--disable-system",
    "--disable-docs",
    "--disable-install-blobs",
    "--disable-download",
)
"""For QEMU's configure: the one program, plugins, and nothing that would need the network."""

_TOOLS = {
    "cc": "build-essential",
    "ninja": "ninja-build",
    "pkg-config": "pkg-config",
    "flex": "flex",
    "bison": "bison",
}
"""Programs the build calls, and Debian's packages of them."""
_LIBRARY, _LIBRARY_PACKAGE = "glib-2.0", "libglib2.0-dev"
_BUILD_SECONDS = 3600
_PACKAGE = "qemu-user"
_SCRATCH, _BUILDING = ".fetching", ".building-"
"""Folders of work that is not done: packages and their lists, which are kept for the next try, and
a build."""
_RELEASE_WITH_PLUGINS = {"debian": "bookworm", "ubuntu": "jammy"}
"""The newest release of each distribution whose package loads plugins: QEMU 7.2 and 6.2. Later
packages were built without (seen in Ubuntu's 8.2 and in Debian's 10.0 and 11.1)."""


class Steps(Protocol):
    """Is told what is being done."""

    def begin(self, step: str) -> None:
        """``step`` begins; the one before has ended."""

    def reached(self, percent: float) -> None:
        """That much of the step's download is done. Called from another thread."""


def provision(steps: Steps) -> Simulator:
    """A simulator that works: an installed one, or one fetched now.

    Raises ``ToolchainError`` if neither is available, naming what was found and what is needed.
    """
    found = _usable()
    if found is not None:
        return found
    home = cached("qemu")
    with _alone_in(home, steps):
        found = _usable()  # another process may have fetched it meanwhile
        if found is not None:
            return found
        try:
            _fetch(home / _SCRATCH, home, steps)
        except OSError as error:
            raise StoreError(
                f"cannot unpack {_PACKAGE} in {home}: {error.strerror}",
                next_step="free space or permissions there",
            ) from None
        shutil.rmtree(home / _SCRATCH, ignore_errors=True)
    find_simulator.cache_clear()
    return find_simulator()


def _usable() -> Simulator | None:
    try:
        return find_simulator()
    except ToolchainError:
        if os.environ.get(QEMU_VARIABLE):  # the user chose it: fetching another would not help
            raise
        return None


@contextmanager
def _alone_in(home: Path, steps: Steps) -> Iterator[None]:
    """One process at a time puts programs into ``home``; folders of killed ones are removed."""
    with (home / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            steps.begin("waiting for another process that sets up this machine")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for folder in (*home.glob(".fetching-*"), *home.glob(f"{_BUILDING}*")):
            shutil.rmtree(folder, ignore_errors=True)
        yield


def _fetch(scratch: Path, home: Path, steps: Steps) -> None:
    """Takes the package of the machine's own release, else of an older one that has plugins."""
    steps.begin("fetching the package lists of this machine's sources")
    own = PrivateApt(scratch / "own", reached=steps.reached)
    own.update()
    failures = []
    complaint = _try_package(own, scratch, home, steps)
    if complaint is None:
        return
    failures.append(complaint)
    release = _RELEASE_WITH_PLUGINS.get(platform.freedesktop_os_release()["ID"], "")
    sources = own.sources_of_release(release)
    if sources:
        steps.begin(f"{complaint}; fetching the package lists of {release}")
        older = PrivateApt(scratch / "older", sources, reached=steps.reached)
        older.update()
        complaint = _try_package(older, scratch, home, steps)
        if complaint is None:
            return
        failures.append(f"{release}: {complaint}")
    raise ToolchainError(
        f"this machine's apt sources have no {PROGRAM} that serves: {'; '.join(failures)}",
        accepted=NEEDED,
        next_step=f"set {QEMU_VARIABLE} to such a build of {PROGRAM}",
    )


def _try_package(apt: PrivateApt, scratch: Path, home: Path, steps: Steps) -> str | None:
    """Unpacks what ``apt`` has into ``home`` if it serves, else says why it does not."""
    version = apt.version(_PACKAGE)
    if version is None:
        return f"there is no package {_PACKAGE}"
    steps.begin(f"fetching {_PACKAGE} {version} and its libraries")
    with tempfile.TemporaryDirectory(dir=scratch) as unpacked:
        program = Path(unpacked) / "simulator" / PROGRAM
        program.parent.mkdir()
        unpack(apt.download(_PACKAGE), [PROGRAM], program.parent)
        try:
            probe(command_of(program))
        except ToolchainError as error:
            return error.message.replace(str(program), f"{_PACKAGE} {version}")
        place = home / version.replace(":", "_").replace("/", "_")
        if not place.exists():
            os.replace(program.parent, place)
    return None


def build(tarball: Path, steps: Steps) -> Simulator:
    """Builds QEMU from ``tarball`` and puts the program into the cache.

    Raises ``UserError`` for another file, ``ToolchainError`` for missing tools
    or a failed build, ``StoreError`` if the cache cannot take it.
    """
    _require_tools()
    home = cached("qemu")
    try:
        with (
            _alone_in(home, steps),
            tempfile.TemporaryDirectory(dir=home, prefix=_BUILDING) as scratch,
        ):
            steps.begin(f"unpacking {tarball}")
            source = _unpack(tarball, Path(scratch))
            log = home / "build.log"
            program = _compile(source, Path(scratch) / "build", log, steps)
            found = probe(command_of(program))
            place = home / f"{BUILT_PREFIX}{'.'.join(map(str, found.release))}"
            place.mkdir(exist_ok=True)
            os.replace(program, place / PROGRAM)
            log.unlink()
    except OSError as error:
        raise StoreError(
            f"cannot build in {home}: {error.strerror}",
            next_step="free about 2 GiB there, or set HVXTUNE_CACHE_DIR to another folder",
        ) from None
    find_simulator.cache_clear()
    return probe(command_of(place / PROGRAM))


def _require_tools() -> None:
    missing = {tool: package for tool, package in _TOOLS.items() if shutil.which(tool) is None}
    if "pkg-config" not in missing:
        asked = subprocess.run(["pkg-config", "--exists", _LIBRARY], check=False)  # noqa: S607
        if asked.returncode:
            missing[_LIBRARY] = _LIBRARY_PACKAGE
    if missing:
        raise ToolchainError(
            f"building QEMU needs {', '.join(missing)}",
            next_step=f"apt-get install {' '.join(dict.fromkeys(missing.values()))}",
        )


def _unpack(tarball: Path, scratch: Path) -> Path:
    """The source folder of the unpacked ``tarball``."""
    try:
        with tarfile.open(tarball) as archive:
            if hasattr(tarfile, "data_filter"):  # Python 3.11.4; Debian 12 has 3.11.2
                archive.extractall(scratch / "source", filter="data")
            else:
                archive.extractall(scratch / "source", members=_inside(archive))  # noqa: S202
    except FileNotFoundError:
        raise UserError(f"no such file: {tarball}") from None
    except (tarfile.TarError, EOFError) as error:
        raise UserError(
            f"{tarball} cannot be unpacked: {error}", accepted="a release tarball of QEMU"
        ) from None
    for version in (scratch / "source").glob("*/VERSION"):
        if (version.parent / "target/hexagon").is_dir() and (version.parent / "configure").exists():
            return version.parent
    raise UserError(
        f"{tarball} holds no QEMU with a Hexagon target",
        accepted="a release tarball of QEMU 8.1 or newer",
    )


def _inside(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of ``archive``; ``TarError`` for one that would lie outside its folder."""
    for member in archive:
        if member.name.startswith("/") or ".." in Path(member.name).parts:
            raise tarfile.TarError(f"{member.name} lies outside")
        yield member


def _compile(source: Path, folder: Path, log: Path, steps: Steps) -> Path:
    """The program built from ``source``; what the tools say goes to ``log``."""
    folder.mkdir()
    version = (source / "VERSION").read_text().strip()
    log.write_bytes(b"")
    configure = [str(source / "configure"), f"--python={sys.executable}", *OPTIONS]
    steps.begin(f"configuring QEMU {version}")
    _run(configure, folder, log)
    steps.begin(f"compiling {PROGRAM} (one to five minutes)")
    _run(["ninja", PROGRAM], folder, log)
    return folder / PROGRAM


def _run(command: Sequence[str], folder: Path, log: Path) -> None:
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_BUILD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ToolchainError(f"{command[0]} took longer than {_BUILD_SECONDS} s") from None
    if done.returncode:
        lines = log.read_text(errors="replace").splitlines()
        errors = [line.strip() for line in lines if re.search(r"\berror: ", line, re.IGNORECASE)]
        reason = errors[0] if errors else lines[-1] if lines else "it says nothing"
        raise ToolchainError(
            f"{Path(command[0]).name} failed: {reason[:300]}", next_step=f"see {log}"
        )
