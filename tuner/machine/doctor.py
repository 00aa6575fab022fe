"""What this machine has of what hvxtune needs, and the command that installs what is missing."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.errors import HvxtuneError
from tuner.machine.paths import STATE_DIR_VARIABLE, writable

LEAST_FREE_BYTES = 1 << 30
"""Free space below which a few long jobs could fill the disk with artifacts."""

_ADDR_NO_RANDOMIZE = 0x0040000  # linux/personality.h
_PERSONALITY_QUERY = 0xFFFFFFFF


@dataclass(frozen=True)
class Finding:
    """One part: whether it is there, what was found, what it is for, how to get it.

    ``required`` parts must be there to tune at all; the others add something. ``remedy`` is a
    command or a sentence that a person can follow, also filled in where the part is present.
    """

    name: str
    present: bool
    found: str
    purpose: str
    remedy: str
    required: bool = True

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def examine() -> list[Finding]:
    """Looks at every part once. Needs no network and changes nothing but the state directory,
    which it creates."""
    return [check() for check in _CHECKS]


def _python() -> Finding:
    version = platform.python_version()
    return Finding(
        "python",
        (3, 11) <= sys.version_info[:2] <= (3, 13),
        f"{version} ({sys.executable})",
        "everything; the pinned Halide has wheels for 3.11 to 3.13",
        "install Python 3.11 to 3.13, then: make clean setup PYTHON=python3.11",
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
    return Finding(name, present, found, purpose, "make clean setup")


def _halide() -> Finding:
    return _wheel("halide", "making Hexagon code")


def _zig() -> Finding:
    return _wheel(
        "ziglang",
        "linking candidates, the timing plugin, the generators halide-clang and c-autovec",
        part=lambda folder: folder / "zig",
    )


def _simulator() -> Finding:
    from tuner.measure.qemu.simulator import find_simulator

    purpose = "running, checking and timing candidates"
    try:
        simulator = find_simulator()
    except HvxtuneError as error:
        return Finding("qemu-hexagon", False, error.message, purpose, error.next_step)
    found = f"{simulator.version}, loads plugins ({simulator.command[-1]})"
    return Finding("qemu-hexagon", True, found, purpose, "make setup")


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
    purpose = "database, artifacts, simulator"
    remedy = f"free space there, or set {STATE_DIR_VARIABLE} to another folder"
    try:
        folder = writable("")
        free_bytes = shutil.disk_usage(folder).free
    except (HvxtuneError, OSError) as error:
        return Finding("state directory", False, str(error), purpose, remedy)
    found = f"{folder}, {free_bytes / (1 << 30):.1f} GiB free"
    return Finding("state directory", free_bytes >= LEAST_FREE_BYTES, found, purpose, remedy)


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


def _containment() -> Finding:
    """Runs a candidate that does nothing and asks which layers were around it."""
    purpose = "keeping candidates away from files, processes and the network"
    remedy = (
        "Linux 5.13 or newer with landlock and CONFIG_SECCOMP_FILTER; for the network, sysctl "
        "kernel.unprivileged_userns_clone=1 and, on Ubuntu, "
        "kernel.apparmor_restrict_unprivileged_userns=0"
    )
    try:
        from tuner.measure.qemu.containment import examine_containment

        containment = examine_containment()
    except HvxtuneError as error:
        return Finding("containment", False, error.message, purpose, remedy, required=False)
    refused = f"; refused here: {', '.join(containment.refused)}" if containment.refused else ""
    return Finding(
        "containment",
        not containment.refused,
        ", ".join(containment.active) + refused,
        purpose,
        remedy,
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


_GET_ADB = "install adb: on Debian and Ubuntu the package adb, else Android's SDK Platform Tools"


def _adb() -> Finding:
    from tuner.measure.android.adb import find_adb

    purpose = "measuring on phones"
    try:
        return Finding("adb", True, str(find_adb()), purpose, _GET_ADB, required=False)
    except HvxtuneError as error:
        return Finding("adb", False, error.message, purpose, _GET_ADB, required=False)


def _phone_parts() -> Finding:
    """What phones need of the SDK. They may have it already: then it need not be here."""
    from tuner.measure.android.sdk_parts import SDK_VARIABLE, SKEL, TOOL, find_sdk_parts

    parts = find_sdk_parts()
    if parts.root is None:
        found = f"{SDK_VARIABLE} is not set"
    elif parts.missing:
        found = f"{parts.root} has no {' and no '.join(parts.missing)}"
    else:
        found = f"{parts.tool}, {len(parts.skels)} skeleton libraries beside it"
    return Finding(
        "run_main_on_hexagon",
        parts.tool is not None and not parts.missing,
        found,
        "measuring on phones: pushed to a phone once, not needed here after that",
        f"install the Hexagon SDK and set {SDK_VARIABLE} to it; in it lie {TOOL} and {SKEL}",
        required=False,
    )


def _hexagon_sim() -> Finding:
    """Qualcomm's simulator in the SDK that the environment names."""
    from tuner.measure.hexagon_sim.sdk import SDK_VARIABLES, archs_of, find_parts, locate, sdk_root
    from tuner.problem.target import DEFAULT_TARGET, find_target

    root, arch = sdk_root(), find_target(DEFAULT_TARGET).arch
    archs = set() if root is None else archs_of(root)
    if root is None:
        found = f"neither {' nor '.join(SDK_VARIABLES)} is set"
    elif archs:
        parts = find_parts(root, sorted(archs)[0])
        found = f"{parts.simulator}, for {', '.join(sorted(archs))}"
    else:
        found = f"{root} has no {' and no '.join(locate(root, arch).missing())}"
    places = locate(Path("SDK"), arch).missing()
    return Finding(
        "hexagon-sim",
        bool(archs),
        found,
        "measuring on Qualcomm's simulator, without a farm file",
        f"install the Hexagon SDK and set {SDK_VARIABLES[0]} to its folder; in it lie "
        + ", ".join(places),
        required=False,
    )


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _halide,
    _zig,
    _simulator,
    _runnable_targets,
    _state_directory,
    _repeatable_objects,
    _containment,
    _confinement,
    _adb,
    _phone_parts,
    _hexagon_sim,
    _postgres,
)
