"""Prints the Python to make the environment with: this one, or where it is too new for the pinned
packages, one of an older release of the machine's distribution.

That comes as the simulator does: from the machine's own apt sources, without root, into the cache.
Its packages are those of python.toml. It is unpacked into a folder and finds its libraries there by
a run path, so that neither it nor an environment made with it needs any variable, and programs that
it starts see none of these libraries. Needs no package of PyPI, as it runs before any is installed.
"""

import hashlib
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from platform import freedesktop_os_release

sys.path.insert(0, str(Path(__file__).parents[1]))
from check_machine import NEWEST

from tuner.errors import HvxtuneError, ToolchainError
from tuner.machine.debian import PrivateApt
from tuner.paths import cached

PINS = Path(__file__).with_name("python.toml")
_TRIPLET = "x86_64-linux-gnu"  # no other machine is accepted
_RUN_PATH = f"$ORIGIN/../lib/{_TRIPLET}:$ORIGIN/../../lib/{_TRIPLET}"
_NEEDS = "bz2, ctypes, curses, ensurepip, lzma, readline, sqlite3, ssl, uuid, venv, zlib"
"""Modules whose libraries, or which, come in packages of their own."""


@dataclass(frozen=True)
class Pinned:
    """The Python ``python`` of a distribution's ``release``: the SHA-256 of each package, empty
    where apt's check is all."""

    release: str
    python: str
    packages: Mapping[str, str]


def fetched(pins: Mapping[str, Pinned], home: Path) -> Path:
    """The Python of this machine's distribution in ``home``, which is fetched if it is missing.

    Raises ``ToolchainError`` if it cannot be had here, or is not the one that is pinned.
    """
    distribution = freedesktop_os_release().get("ID", "")
    pinned = pins.get(distribution)
    if pinned is None:
        raise ToolchainError(
            f"no Python for {distribution or 'this system'} is pinned",
            accepted=", ".join(pins),
            next_step="install Python 3.11 to 3.13 and run: make setup PYTHON=python3.13",
        )
    digest = hashlib.sha256(repr(astuple(pinned)).encode()).hexdigest()
    place, program = home / f"{pinned.python}-{digest[:12]}", Path("usr/bin", pinned.python)
    if not (place / program).exists():
        with tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as folder:
            root = Path(folder, "root")
            root.mkdir()
            _unpack(_packages(pinned, Path(folder)), root)
            _fit(root, program, place)
            try:
                root.rename(place)
            except OSError:  # another process was faster
                if not (place / program).exists():
                    raise
    return place / program


def _packages(pinned: Pinned, folder: Path) -> list[Path]:
    release, digests = pinned.release, pinned.packages
    _tell("fetching the package lists of this machine's sources")
    own = PrivateApt(folder / "own")
    own.update()
    # As it was published: what is newer, in its other pockets, has other digests from day to day.
    lines = [line for line in own.sources_of_release(release) if f" {release} " in line]
    older = PrivateApt(folder / "older", lines) if lines else own
    if lines:
        _tell(f"fetching the package lists of {release}")
        older.update()
    _tell(f"fetching {pinned.python} of {release} and its libraries (14 MB)")
    files = older.fetch(*digests)
    for file, (name, digest) in zip(files, digests.items(), strict=True):
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest and found != digest:
            raise ToolchainError(
                f"{file.name} came with another SHA-256 than that of {name} in {PINS.name}: "
                f"{found}",
                accepted=digest,
                next_step="install Python 3.11 to 3.13 and run: make setup PYTHON=python3.13",
            )
    return files


def _unpack(packages: list[Path], root: Path) -> None:
    for package in packages:
        _run(["dpkg-deb", "--extract", str(package), str(root)])


def _fit(root: Path, program: Path, place: Path) -> None:
    """Makes what lies in ``root`` work there, and later in ``place``."""
    # Of the two kinds of run path, this one serves the libraries of extension modules, too.
    patch = ["--force-rpath", "--set-rpath", _RUN_PATH]
    _run([str(root / "usr/bin/patchelf"), *patch, str(root / program)])
    for built in root.glob("usr/lib/python3*/_sysconfigdata_*.py"):  # where ensurepip finds pip
        wheels = "'WHEEL_PKG_DIR': '{}/usr/share/python-wheels/'"
        text = built.read_text(encoding="utf-8")
        built.write_text(text.replace(wheels.format(""), wheels.format(place)), encoding="utf-8")
    _run([str(root / program), "-c", f"import {_NEEDS}"])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        raise ToolchainError(f"{Path(command[0]).name} failed: {said}")


def _tell(step: str) -> None:
    print(f"{step} ...", file=sys.stderr, flush=True)


def main() -> None:
    if sys.version_info[:2] <= NEWEST:
        print(sys.executable)
        return
    _tell(
        "Python %d.%d is newer than the pinned packages; set-up gets one of its own"
        % sys.version_info[:2]
    )
    tables = tomllib.loads(PINS.read_text(encoding="utf-8"))
    try:
        print(fetched({name: Pinned(**one) for name, one in tables.items()}, cached("python")))
    except HvxtuneError as error:
        sys.exit(f"hvxtune set-up: {error}")


if __name__ == "__main__":
    main()
