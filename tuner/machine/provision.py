"""Brings a qemu-hexagon that loads plugins onto this machine: fetched, or built.

:func:`provision`, which ``hvxtune setup`` calls, fetches one where the machine has none; done once,
it is quick to find that nothing is to do. Asked for archs that the one it finds does not run, it
builds a newer QEMU (building.py), as :func:`build` does from a tarball of the user's: 8.1 and newer
run v68, v69 and v73 code, which the packaged 7.2 does not (instructions.toml). None of it needs
root, nor changes anything outside the cache, where the measurer finds the program from then on. A
program appears there whole or not at all; what was downloaded or built before an interruption is
used again.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tuner.errors import StoreError, ToolchainError, UserError
from tuner.machine.building import build_from, fetch_source
from tuner.machine.debian import PrivateApt, unpack
from tuner.machine.steps import Steps
from tuner.measure.qemu.simulator import (
    NEEDED,
    PROGRAM,
    QEMU_VARIABLE,
    Simulator,
    command_of,
    find_simulator,
    probe,
)
from tuner.measure.qemu.sources import buildable_archs
from tuner.paths import cached

_PACKAGE = "qemu-user"
_SCRATCH = ".fetching"
"""The folder of packages and their lists, which are kept for the next try."""
_PACKAGED_ARCHS = ("v65", "v66")
"""The archs that the packages with plugins run."""
_RELEASE_WITH_PLUGINS = {"debian": "bookworm", "ubuntu": "jammy"}
"""The newest release of each distribution whose package loads plugins: QEMU 7.2 and 6.2. Later
packages were built without (seen in Ubuntu's 8.2 and in Debian's 10.0 and 11.1)."""


def provision(steps: Steps, archs: Sequence[str] = ()) -> Simulator:
    """A simulator that works, and runs ``archs``: an installed one, one fetched or built now.

    Raises ``ToolchainError`` if none is available, naming what was found and what is needed;
    ``UserError`` for an arch that no QEMU built here runs.
    """
    found = _usable()
    lacked = _lacked(found, archs)
    if found is not None and not lacked:
        return found
    _require_buildable(lacked, found)
    home = cached("qemu")
    with _alone_in(home, steps):
        find_simulator.cache_clear()
        found = _usable()  # another process may have fetched or built it meanwhile
        lacked = _lacked(found, archs)
        if found is not None and not lacked:
            return found
        try:
            if lacked:
                build_from(fetch_source(home, archs, steps), home, steps)
            else:
                _fetch(home / _SCRATCH, home, steps)
                shutil.rmtree(home / _SCRATCH, ignore_errors=True)
        except OSError as error:
            raise _no_room(home, error) from None
    find_simulator.cache_clear()
    return find_simulator()


def build(tarball: Path, steps: Steps, archs: Sequence[str] = ()) -> Simulator:
    """Builds QEMU from ``tarball`` and puts the program into the cache; raises
    ``ToolchainError`` if that does not run ``archs``.

    Raises what :func:`tuner.machine.building.build_from` does, and ``StoreError`` if the cache
    cannot take it.
    """
    home = cached("qemu")
    with _alone_in(home, steps):
        try:
            found = build_from(tarball, home, steps)
        except OSError as error:
            raise _no_room(home, error) from None
    find_simulator.cache_clear()
    lacked = _lacked(found, archs)
    if lacked:
        raise ToolchainError(
            f"{found.version} of {tarball} was built, and cannot run {', '.join(lacked)} code",
            next_step="choose a newer release of QEMU",
        )
    return found


def _lacked(found: Simulator | None, archs: Sequence[str]) -> list[str]:
    """Those of ``archs`` that ``found`` does not run. Without one, what packages run is fetched."""
    return [a for a in archs if not (found.runs(a) if found else a in _PACKAGED_ARCHS)]


def _require_buildable(archs: Sequence[str], found: Simulator | None) -> None:
    impossible = [arch for arch in archs if arch not in buildable_archs()]
    if impossible:
        raise UserError(
            f"no QEMU that can be built here runs {', '.join(impossible)} code",
            accepted=", ".join(buildable_archs()),
            next_step="code for it can be compiled, and measured on a phone (`hvxtune farm add`); "
            f"if you have a QEMU that runs it, set {QEMU_VARIABLE}",
        )
    if archs and found is not None and os.environ.get(QEMU_VARIABLE):
        raise UserError(
            f"{QEMU_VARIABLE} names {found.version}, which cannot run {', '.join(archs)} code",
            next_step=f"unset {QEMU_VARIABLE} to have a newer one built",
        )


def _no_room(home: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot make a simulator in {home}: {error.strerror}",
        next_step="free about 2 GiB there, or set HVXTUNE_CACHE_DIR to another folder",
    )


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
        for folder in (*home.glob(".fetching-*"), *home.glob(".building-*")):
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
