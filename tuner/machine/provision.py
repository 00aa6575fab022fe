"""Fetches a qemu-hexagon where the machine has none that loads plugins.

``python -m tuner.machine.provision`` is a step of ``make setup``. It changes nothing outside
the state directory and needs no root; done once, it is quick to find that nothing is to do.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path

from tuner.errors import HvxtuneError, StoreError, ToolchainError
from tuner.machine.debian import PrivateApt, unpack
from tuner.machine.paths import writable
from tuner.measure.qemu.simulator import (
    NEEDED,
    PROGRAM,
    QEMU_VARIABLE,
    Simulator,
    command_of,
    find_simulator,
    probe,
)

_PACKAGE = "qemu-user"
_RELEASE_WITH_PLUGINS = {"debian": "bookworm", "ubuntu": "jammy"}
"""The newest release of each distribution whose package loads plugins: QEMU 7.2 and 6.2. Later
packages were built without (seen in Ubuntu's 8.2 and in Debian's 10.0 and 11.1)."""


def provision() -> Simulator:
    """A simulator that works: the one there is, or one fetched now.

    Raises ``ToolchainError`` if none can be had, naming what was found and what is needed.
    """
    try:
        return find_simulator()
    except ToolchainError:
        if os.environ.get(QEMU_VARIABLE):  # the user chose it: fetching another would not help
            raise
    home = writable("qemu")
    with tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as scratch:
        try:
            _fetch(Path(scratch), home)
        except OSError as error:
            raise StoreError(
                f"cannot unpack {_PACKAGE} in {home}: {error.strerror}",
                next_step="free space or permissions there",
            ) from None
    find_simulator.cache_clear()
    return find_simulator()


def _fetch(scratch: Path, home: Path) -> None:
    """Takes the package of the machine's own release, else of an older one that has plugins."""
    _say("fetching the package lists of this machine's sources")
    own = PrivateApt(scratch / "own")
    own.update()
    failures = []
    complaint = _try_package(own, scratch, home)
    if complaint is None:
        return
    failures.append(complaint)
    release = _RELEASE_WITH_PLUGINS.get(platform.freedesktop_os_release()["ID"], "")
    sources = own.sources_of_release(release)
    if sources:
        _say(f"{complaint}; fetching the package lists of {release}")
        older = PrivateApt(scratch / "older", sources)
        older.update()
        complaint = _try_package(older, scratch, home)
        if complaint is None:
            return
        failures.append(f"{release}: {complaint}")
    raise ToolchainError(
        f"this machine's apt sources have no {PROGRAM} that serves: {'; '.join(failures)}",
        accepted=NEEDED,
        next_step=f"set {QEMU_VARIABLE} to such a build of {PROGRAM}",
    )


def _try_package(apt: PrivateApt, scratch: Path, home: Path) -> str | None:
    """Unpacks what ``apt`` has into ``home`` if it serves, else says why it does not."""
    version = apt.version(_PACKAGE)
    if version is None:
        return f"there is no package {_PACKAGE}"
    _say(f"fetching {_PACKAGE} {version} and its libraries")
    with tempfile.TemporaryDirectory(dir=scratch) as unpacked:
        program = Path(unpacked) / "simulator" / PROGRAM
        program.parent.mkdir()
        unpack(apt.download(_PACKAGE), [PROGRAM], program.parent)
        try:
            found = probe(command_of(program))
        except ToolchainError as error:
            return error.message.replace(str(program), f"{_PACKAGE} {version}")
        place = home / version.replace(":", "_").replace("/", "_")
        if not place.exists():
            os.replace(program.parent, place)
    _say(f"unpacked {found.version} in {place}")
    return None


def _say(line: str) -> None:
    sys.stderr.write(f"{PROGRAM}: {line}\n")
    sys.stderr.flush()


def main() -> int:
    """Provisions and says what was found; a one-line error and status 1 if nothing was."""
    try:
        simulator = provision()
    except HvxtuneError as error:
        _say(str(error))
        return 1
    _say(f"using {simulator.command[-1]} ({simulator.version})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
