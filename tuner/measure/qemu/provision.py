"""Fetches a qemu-hexagon where the machine has none that loads plugins.

``python -m tuner.measure.qemu.provision`` is a step of ``make setup``. It changes nothing outside
the state directory and needs no root; done once, it is quick to find that nothing is to do.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tuner.errors import HvxtuneError, StoreError, ToolchainError
from tuner.measure.qemu.debian import PrivateApt, unpack
from tuner.measure.qemu.simulator import (
    PROGRAM,
    QEMU_VARIABLE,
    Simulator,
    command_of,
    find_simulator,
    probe,
)
from tuner.paths import writable

_PACKAGE = "qemu-user"


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
    _say("fetching the package lists")
    apt = PrivateApt(scratch)
    apt.update()
    versions = apt.versions(_PACKAGE)
    if not versions:
        raise ToolchainError(
            f"this machine's apt sources offer no package {_PACKAGE}",
            next_step=f"add a source that does, or set {QEMU_VARIABLE} to a {PROGRAM} with plugins",
        )
    failures = []
    for version in versions:
        _say(f"fetching {_PACKAGE} {version} and its libraries")
        folder = scratch / "unpacked"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        unpack(apt.download(_PACKAGE, version), PROGRAM, folder)
        try:
            found = probe(command_of(folder / PROGRAM))
        except ToolchainError as error:
            failures.append(
                error.message.replace(str(folder / PROGRAM), f"that of version {version}")
            )
            _say(f"{_PACKAGE} {version} does not serve")
            continue
        place = home / version.replace(":", "_").replace("/", "_")
        shutil.rmtree(place, ignore_errors=True)
        os.replace(folder, place)
        _say(f"unpacked {found.version} in {place}")
        return
    raise ToolchainError(
        f"no {_PACKAGE} of this machine's apt sources serves: {'; '.join(failures)}",
        accepted="a build with plugins, such as version 7.2 of Debian 12",
        next_step=f"set {QEMU_VARIABLE} to such a build of {PROGRAM}",
    )


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
