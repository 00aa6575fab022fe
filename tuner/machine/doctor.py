"""The parts that hvxtune needs of this machine, and the command that installs a missing one."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tuner.errors import HvxtuneError
from tuner.finding import Finding
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE, cached, writable
from tuner.requirements import reinstall

LEAST_FREE_BYTES = 1 << 30
"""Free space below which a few long jobs could fill the disk with artifacts."""

_ADDR_NO_RANDOMIZE = 0x0040000  # linux/personality.h
_PERSONALITY_QUERY = 0xFFFFFFFF


def examine() -> list[Finding]:
    """Looks at every part once, those that kinds of devices need and code generators of installed
    packages included. Needs no network and changes nothing but state directory and cache, which it
    creates."""
    return [*(check() for check in _CHECKS), *_devices(), *_generators()]


def _devices() -> Iterator[Finding]:
    from tuner.measure.device import device_kinds, find_kind

    for kind in device_kinds():
        try:
            yield from find_kind(kind).doctor()
        except HvxtuneError as error:  # of an installed package
            yield Finding(
                kind, False, error.message, "devices of this kind", error.next_step, required=False
            )


def _generators() -> Iterator[Finding]:
    """The code generators that installed packages add."""
    from tuner.codegen import REGISTRY

    for name, package in REGISTRY.added().items():
        purpose, remedy = "jobs with this code generator", f"upgrade or uninstall {package}"
        try:
            with REGISTRY.find(name)() as generator:
                generator.fingerprint()
        except HvxtuneError as error:
            step = error.next_step or remedy
            yield Finding(name, False, error.message, purpose, step, required=False)
        else:
            found = f"code generator of {package}"
            yield Finding(name, True, found, purpose, remedy, required=False)


def _python() -> Finding:
    version = platform.python_version()
    return Finding(
        "python",
        (3, 11) <= sys.version_info[:2] <= (3, 13),
        f"{version} ({sys.executable})",
        "everything; the pinned Halide has wheels for 3.11 to 3.13",
        "install hvxtune into an environment of Python 3.11 to 3.13",
    )


def _wheel(name: str, purpose: str, *, part: Callable[[Path], Path] | None = None) -> Finding:
    """A pinned package; ``part`` is a file in its folder that must be there too."""
    spec = importlib.util.find_spec(name)
    found = "missing"
    present = spec is not None and spec.origin is not None
    if spec is not None and spec.origin is not None:
        inside = part(Path(spec.origin).parent) if part else Path(spec.origin)
        present = inside.exists()
        found = f"{importlib.metadata.version(name)} ({inside})" if present else f"no {inside}"
    return Finding(name, present, found, purpose, reinstall(name))


def compilers() -> list[Finding]:
    """The parts that make code for Hexagon, whichever generator a job has."""
    return [_halide(), _zig()]


def _halide() -> Finding:
    return _wheel("halide", "making Hexagon code")


def _zig() -> Finding:
    return _wheel(
        "ziglang",
        "linking candidates, the timing plugin, all generators but halide and halide-auto",
        part=lambda folder: folder / "zig",
    )


def _runnable_targets() -> Finding:
    """Which targets can be measured here, and with what; for the others code can be compiled."""
    from tuner.measure import refusals
    from tuner.problem.target import TARGETS

    runs: dict[str, list[str]] = {}
    compiles: dict[str, list[str]] = {}
    for target in TARGETS.values():
        refused = refusals(target)
        able = [name for name, error in refused.items() if error is None]
        if able:
            runs.setdefault(", ".join(able), []).append(target.name)
        else:
            needed = [f"for {name}, {error.next_step}" for name, error in refused.items() if error]
            compiles.setdefault("; ".join(needed), []).append(target.name)
    found = [f"{names} runs {', '.join(targets)}" for names, targets in runs.items()]
    found += [f"only compiled: {', '.join(t)} ({needed})" for needed, t in compiles.items()]
    return Finding(
        "targets",
        bool(runs),
        "; ".join(found),
        "tuning for them",
        "; ".join(compiles) or "choose a target that runs here with --target",
    )


def _state_directory() -> Finding:
    return _folder("state directory", writable, "database, artifacts, tokens", STATE_DIR_VARIABLE)


def _cache() -> Finding:
    return _folder("cache", cached, "simulator, compiled parts, references", CACHE_DIR_VARIABLE)


def _folder(name: str, made: Callable[[str], Path], purpose: str, variable: str) -> Finding:
    remedy = f"free space there, or set {variable} to another folder"
    try:
        folder = made("")
        free_bytes = shutil.disk_usage(folder).free
    except (HvxtuneError, OSError) as error:
        return Finding(name, False, str(error), purpose, remedy)
    found = f"{folder}, {free_bytes / (1 << 30):.1f} GiB free"
    return Finding(name, free_bytes >= LEAST_FREE_BYTES, found, purpose, remedy)


def _repeatable_objects() -> Finding:
    libc = ctypes.CDLL(None)
    current = libc.personality(ctypes.c_ulong(_PERSONALITY_QUERY))
    allowed = libc.personality(ctypes.c_ulong(current | _ADDR_NO_RANDOMIZE)) >= 0
    libc.personality(ctypes.c_ulong(current))
    return Finding(
        "fixed addresses",
        allowed,
        "address randomization can be switched off" if allowed else "forbidden here",
        "the same candidate giving the same object, byte for byte",
        "in a container, allow the personality system call in its seccomp profile",
        required=False,
    )


def _confinement() -> Finding:
    """Has a process confine itself as those do that read uploads and compile."""
    from tuner.codegen.confinement.examine import examine_confinement

    purpose = "keeping uploads and compilers away from files, processes and the network"
    remedy = (
        "Linux 5.13 or newer with landlock and CONFIG_SECCOMP_FILTER on x86_64; in a container, "
        "allow those system calls and, for root, the capabilities to change the user and the root"
    )
    try:
        active, refused = examine_confinement()
    except (HvxtuneError, OSError, subprocess.SubprocessError) as error:
        return Finding("confinement", False, str(error), purpose, remedy, required=False)
    found = ", ".join(active) + (f"; refused here: {', '.join(refused)}" if refused else "")
    return Finding("confinement", not refused, found, purpose, remedy, required=False)


def _postgres() -> Finding:
    present = importlib.util.find_spec("psycopg") is not None
    return Finding(
        "psycopg",
        present,
        importlib.metadata.version("psycopg") if present else "missing",
        "a PostgreSQL database instead of SQLite",
        f"{os.path.relpath(sys.executable)} -m pip install 'psycopg[binary]>=3.2'",
        required=False,
    )


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _halide,
    _zig,
    _runnable_targets,
    _state_directory,
    _cache,
    _repeatable_objects,
    _confinement,
    _postgres,
)
