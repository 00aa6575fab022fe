"""Brings a qemu-hexagon that loads plugins onto this machine: fetched, or built.

``python -m tuner.machine.provision``, a step of ``make setup``, fetches one where the machine has
none; done once, it is quick to find that nothing is to do. With a release tarball of QEMU as its
argument it builds that: QEMU 8.1 and newer run v68, v69 and v73 code, which the packaged 7.2 does
not (instructions.toml). Building needs a C compiler and a few packages, which it names where they
are missing, no network, and one to five minutes. Neither needs root, nor changes anything outside
the cache, where the measurer finds the program from then on.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.errors import HvxtuneError, StoreError, ToolchainError, UserError
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
_RELEASE_WITH_PLUGINS = {"debian": "bookworm", "ubuntu": "jammy"}
"""The newest release of each distribution whose package loads plugins: QEMU 7.2 and 6.2. Later
packages were built without (seen in Ubuntu's 8.2 and in Debian's 10.0 and 11.1)."""


def provision() -> Simulator:
    """A simulator that works: an installed one, or one fetched now.

    Raises ``ToolchainError`` if neither is available, naming what was found and what is needed.
    """
    try:
        return find_simulator()
    except ToolchainError:
        if os.environ.get(QEMU_VARIABLE):  # the user chose it: fetching another would not help
            raise
    home = cached("qemu")
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


def build(tarball: Path) -> Simulator:
    """Builds QEMU from ``tarball`` and puts the program into the cache.

    Raises ``UserError`` for another file, ``ToolchainError`` for missing tools
    or a failed build, ``StoreError`` if the cache cannot take it.
    """
    _require_tools()
    home = cached("qemu")
    try:
        with tempfile.TemporaryDirectory(dir=home, prefix=".building-") as scratch:
            source = _unpack(tarball, Path(scratch))
            log = home / "build.log"
            program = _compile(source, Path(scratch) / "build", log)
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
    _say(f"unpacking {tarball}")
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


def _compile(source: Path, folder: Path, log: Path) -> Path:
    """The program built from ``source``; what the tools say goes to ``log``."""
    folder.mkdir()
    version = (source / "VERSION").read_text().strip()
    log.write_bytes(b"")
    configure = [str(source / "configure"), f"--python={sys.executable}", *OPTIONS]
    _say(f"configuring QEMU {version}")
    _run(configure, folder, log)
    _say(f"compiling {PROGRAM} (one to five minutes)")
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


def _say(line: str) -> None:
    sys.stderr.write(f"{PROGRAM}: {line}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str]) -> int:
    """Provisions, or builds the tarball that ``arguments`` name, and says what is used from now on;
    a one-line error and status 1 if that fails."""
    try:
        if len(arguments) > 1 or any(one.startswith("-") for one in arguments):
            raise UserError(
                f"arguments '{' '.join(arguments)}'",
                accepted="none, or one release tarball of QEMU",
                next_step="python -m tuner.machine.provision [TARBALL]",
            )
        found = build(Path(arguments[0]).expanduser()) if arguments else provision()
    except HvxtuneError as error:
        _say(str(error))
        return 1
    _say(f"using {found.command[-1]} ({found.version}); `hvxtune doctor` shows its targets")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
