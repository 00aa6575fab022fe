"""The tools that building QEMU needs and the machine lacks, from wheels and unpacked packages.

Nothing is installed: wheels go into a private virtual environment, Debian's packages into a folder
that stands in for the root directory. Whatever the machine has itself is used from there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import ToolchainError
from tuner.machine.debian import PrivateApt
from tuner.machine.steps import Steps

_PACKAGES = {
    "cc": ("gcc", "libc6-dev"),
    "pkg-config": ("pkg-config",),
    "flex": ("flex",),
    "bison": ("bison",),
}
"""Programs the build calls, and Debian's packages of them."""
_LIBRARY, _LIBRARY_PACKAGES = "glib-2.0", ("libglib2.0-dev",)
_PIP_SECONDS = 600
_WRAPPERS, _LIBRARIES = ".bin", ".libraries"


@dataclass(frozen=True)
class BuildTools:
    """How to call them: ``environment`` for the build, ``python`` for QEMU's configure.

    ``libraries`` is a folder with the shared libraries that the machine lacks, which programs
    that are built need beside them.
    """

    python: Path
    environment: Mapping[str, str]
    libraries: Path


def missing_tools() -> dict[str, tuple[str, ...]]:
    """The programs and libraries this machine lacks, with the packages that contain them."""
    missing = {name: packs for name, packs in _PACKAGES.items() if shutil.which(name) is None}
    if "pkg-config" not in missing:
        asked = subprocess.run(["pkg-config", "--exists", _LIBRARY], check=False)  # noqa: S607
        if asked.returncode == 0:
            return missing
    return {**missing, _LIBRARY: _LIBRARY_PACKAGES}


def build_tools(folder: Path, wheels: Mapping[str, str], steps: Steps) -> BuildTools:
    """All tools, those that were missing below ``folder``, where earlier ones are reused.

    ``wheels`` are requirements with their SHA-256, none if the sources bring their own. Raises
    ``ToolchainError`` for what is unavailable.
    """
    missing = missing_tools()
    root = folder / "root"
    if missing and not (root / _WRAPPERS).exists():
        shutil.rmtree(root, ignore_errors=True)
        names = sorted({name for packages in missing.values() for name in packages})
        _unpack_packages(names, list(missing), folder, root, steps)
    variables = {**os.environ, "LC_ALL": "C"}
    environment = folder / "venv"
    paths, python = [], Path(sys.executable)
    if wheels:
        if not environment.exists():
            steps.begin(f"fetching {', '.join(wheels)} from PyPI")
            _make_environment(wheels, folder / "venv.partial", environment)
        paths, python = [environment / "bin"], environment / "bin/python"
    if root.exists():
        paths = [root / _WRAPPERS, *paths, root / "usr/bin"]
        variables |= _root_variables(root)
    variables["PATH"] = ":".join([*map(str, paths), os.environ.get("PATH", os.defpath)])
    return BuildTools(python, variables, root / _LIBRARIES)


def _unpack_packages(
    names: Sequence[str], lacked: Sequence[str], folder: Path, root: Path, steps: Steps
) -> None:
    steps.begin(f"fetching {', '.join(names)}: this machine lacks {', '.join(lacked)}")
    try:
        apt = PrivateApt(folder / "apt", reached=steps.reached)
        apt.update()
        files = apt.download(*names)
    except ToolchainError as error:
        raise ToolchainError(
            f"building QEMU needs {', '.join(lacked)}: {error.message}",
            next_step=f"apt-get install {' '.join(names)}",
        ) from None
    root.mkdir()
    for file in files:
        _run(["dpkg-deb", "--extract", str(file), str(root)], f"{file.name} cannot be unpacked")
    _fit_links(root)
    _write_wrappers(root)


def _fit_links(root: Path) -> None:
    """Makes ``root`` whole: links lead into it, and to the machine's own files where it has none.

    What is installed is not downloaded, so the libraries behind some development files are the
    machine's; so is the C library behind the linker scripts ``libc.so`` and ``libm.so``.
    """
    for place in root.rglob("*"):
        if place.is_symlink():
            target = os.readlink(place)
            inside = root / target.lstrip("/") if target.startswith("/") else None
            if inside is not None and inside.exists():
                place.unlink()
                place.symlink_to(inside)
            elif not place.exists():
                machines = Path("/", place.relative_to(root)).parent / target
                if machines.exists():
                    place.unlink()
                    place.symlink_to(machines.resolve())
    folders = [root / part / _triplet() for part in ("lib", "usr/lib")]
    for script in (file for folder in folders for file in folder.glob("lib*.so")):
        if script.is_symlink() or script.stat().st_size > 4096:
            continue
        for name in re.findall(r"/[\w./+-]+", script.read_text(errors="replace")):
            there = root / name.lstrip("/")
            if not there.exists() and Path(name).exists():
                there.parent.mkdir(parents=True, exist_ok=True)
                there.symlink_to(name)
    _collect_libraries(folders, root / _LIBRARIES)


def _collect_libraries(folders: Iterable[Path], place: Path) -> None:
    """Links to the shared libraries that the machine lacks: never to another C library than that
    of the machine's own dynamic linker. Some have no number behind their name, as those of `as`:
    `libbfd-2.40-system.so`."""
    place.mkdir()
    for file in (file for folder in folders for file in folder.glob("*.so*")):
        if not _is_shared_library(file):
            continue
        own = (Path(part, _triplet(), file.name) for part in ("/lib", "/usr/lib"))
        if not any(map(Path.exists, own)):
            (place / file.name).symlink_to(file)


def _is_shared_library(file: Path) -> bool:
    """Rather than a linker script, or a link to what did not come."""
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(4) == b"\x7fELF"


def _write_wrappers(root: Path) -> None:
    """``gcc`` and ``cc`` that take headers and libraries from ``root``, if they came. Their folder
    appears last: with it, ``root`` is whole."""
    compiler, partial = root / "usr/bin/gcc", root / f"{_WRAPPERS}.partial"
    partial.mkdir()
    if compiler.exists():
        # Libraries that came need some of the machine's, which the linker has to see, too.
        needed = ":".join(_library_folders(root))
        call = f'"{compiler}" "--sysroot={root}" "-Wl,-rpath-link,{needed}"'
        for name in ("cc", "gcc"):
            place = partial / name
            place.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
            place.chmod(0o755)
    partial.rename(root / _WRAPPERS)


def _root_variables(root: Path) -> dict[str, str]:
    library = root / "usr/lib" / _triplet()
    return {
        "LD_LIBRARY_PATH": str(root / _LIBRARIES),
        "LIBRARY_PATH": ":".join(_library_folders(root)),
        "PKG_CONFIG_PATH": f"{library}/pkgconfig:{root}/usr/share/pkgconfig",
        "PKG_CONFIG_SYSROOT_DIR": str(root) if (library / "pkgconfig/glib-2.0.pc").exists() else "",
        "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1",
        **({"M4": f"{root}/usr/bin/m4"} if (root / "usr/bin/m4").exists() else {}),
        **(
            {"BISON_PKGDATADIR": f"{root}/usr/share/bison"}
            if (root / "usr/share/bison").exists()
            else {}
        ),
    }


def _library_folders(root: Path) -> list[str]:
    """Those below ``root``, and the machine's, such as for its libgcc_s: the linker script
    ``libgcc_s.so`` names no folder."""
    parts = ("usr/lib", "lib")
    return [f"{place}/{part}/{_triplet()}" for place in (root, "") for part in parts]


def _make_environment(wheels: Mapping[str, str], partial: Path, place: Path) -> None:
    """A virtual environment with ``wheels``. Its programs name their own place: it is made there
    and marked as whole by its new name, to which a link leads back."""
    shutil.rmtree(partial, ignore_errors=True)
    made = partial / "environment"
    _run(
        [sys.executable, "-m", "venv", str(made)],
        "a virtual environment cannot be made",
        "install Python's venv (Debian: python3-venv)",
    )
    wanted = partial / "requirements.txt"
    lines = [f"{name} --hash=sha256:{digest}" for name, digest in wheels.items()]
    wanted.write_text("\n".join(lines) + "\n")
    pip = [str(made / "bin/python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--quiet", "--require-hashes", "--only-binary", ":all:", "--no-deps"]
    _run(
        [*pip, "install", *options, "-r", str(wanted)],
        f"pip could not install {', '.join(wheels)}",
        "check the network and pip's index",
    )
    place.symlink_to(made)


def _run(command: Sequence[str], complaint: str, next_step: str = "") -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_PIP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolchainError(f"{complaint} in {_PIP_SECONDS} s", next_step=next_step) from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        reason = (errors or lines or ["it says nothing"])[-1]
        raise ToolchainError(f"{complaint}: {reason[:300]}", next_step=next_step)


def _triplet() -> str:
    """Debian's name for this machine's libraries, such as ``x86_64-linux-gnu``."""
    return str(sysconfig.get_config_var("MULTIARCH") or f"{os.uname().machine}-linux-gnu")
