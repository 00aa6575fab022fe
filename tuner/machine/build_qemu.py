"""Builds qemu-hexagon with plugins from a release tarball of QEMU that the user has fetched.

``python -m tuner.machine.build_qemu TARBALL`` needs a C compiler and a few packages, which it
names where they are missing, no root and no network. It takes one to five minutes and changes
nothing outside the state directory, where the measurer finds the program from then on. QEMU 8.1
and newer run v68, v69 and v73 code, which the packaged 7.2 does not (instructions.toml).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.errors import HvxtuneError, StoreError, ToolchainError, UserError
from tuner.machine.paths import writable
from tuner.measure.qemu.simulator import BUILT_PREFIX, PROGRAM, Simulator, command_of, probe

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


def build(tarball: Path) -> Simulator:
    """Builds QEMU from ``tarball`` and puts the program into the state directory.

    Raises ``UserError`` for a file that is no such tarball, ``ToolchainError`` for missing tools
    or a failed build, ``StoreError`` if the state directory cannot take it.
    """
    _require_tools()
    home = writable("qemu")
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
            next_step="free about 2 GiB there, or set HVXTUNE_STATE_DIR to another folder",
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
        raise UserError(f"there is no file {tarball}") from None
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
    """Builds from the tarball in ``arguments``; a one-line error and status 1 if that fails."""
    try:
        if len(arguments) != 1 or arguments[0].startswith("-"):
            raise UserError(
                f"{len(arguments)} arguments",
                accepted="one, a release tarball of QEMU",
                next_step="python -m tuner.machine.build_qemu TARBALL",
            )
        simulator = build(Path(arguments[0]).expanduser())
    except HvxtuneError as error:
        _say(str(error))
        return 1
    _say(f"built {simulator.command[-1]} ({simulator.version}); `hvxtune doctor` shows its targets")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
