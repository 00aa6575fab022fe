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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.codegen.requirements import reinstall
from tuner.errors import HvxtuneError
from tuner.measure.finding import Finding
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE, cached, writable

if TYPE_CHECKING:
    from tuner.problem.target import Target

LEAST_FREE_BYTES = 1 << 30
"""Free space below which a few long jobs could fill the disk with artifacts."""

_ADDR_NO_RANDOMIZE = 0x0040000  # linux/personality.h
_PERSONALITY_QUERY = 0xFFFFFFFF


def examine() -> list[Finding]:
    """Looks at every part once, those that kinds of devices need and code generators of installed
    packages included. Needs no network and changes nothing but state directory and cache, which it
    creates."""
    return [*(check() for check in _CHECKS), *_devices(), *_generators(), *_targets()]


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


def _targets() -> list[Finding]:
    """The abilities for each arch, and the commands that bring the rest; before them, whether any
    target can be tuned for here."""
    from tuner.problem.default_target import DEFAULT_TARGET
    from tuner.problem.target import TARGETS

    findings = []
    measured = []
    for arch in dict.fromkeys(target.arch for target in TARGETS.values()):
        finding, measurers = _arch(arch, [t for t in TARGETS.values() if t.arch == arch])
        findings.append(finding)
        if measurers:
            measured.append(f"{arch} ({', '.join(measurers)})")
    return [
        Finding(
            "targets",
            bool(measured),
            f"can be measured: {', '.join(measured) or 'none'}; the default is {DEFAULT_TARGET}",
            "tuning for them",
            "; ".join(dict.fromkeys(one.remedy for one in findings)),
        ),
        *findings,
    ]


def _arch(arch: str, targets: Sequence[Target]) -> tuple[Finding, list[str]]:
    """The finding of one arch, and the measurers that can run code for a target of it."""
    from tuner.codegen.halide.compilation import halide_arch
    from tuner.measure import FARM, refusals
    from tuner.measure.qemu.simulator import QEMU_VARIABLE
    from tuner.measure.qemu.sources import buildable_archs

    refused = [refusals(target) for target in targets]
    able = sorted({name for each in refused for name, error in each.items() if error is None})
    simulators = [name for name in able if name != FARM]
    of_halide = halide_arch(arch)
    simulating = (
        f"run `hvxtune setup --target {arch}`"
        if arch in buildable_archs()
        else f"no QEMU built here runs it; {QEMU_VARIABLE} may name one that does"
    )
    phone = "name one in the farm file, docs/devices.md"
    found = [
        "compile: yes" + ("" if of_halide == arch else f" (Halide's is {of_halide} code)"),
        f"simulate: {', '.join(simulators) or f'no ({simulating})'}",
        "phone: " + ("yes" if FARM in able else f"no ({phone})"),
    ]
    steps = [*([] if simulators else [simulating]), *([] if FARM in able else [f"phone: {phone}"])]
    finding = Finding(
        f"hexagon-{arch}",
        bool(able),
        "; ".join(found),
        "code for " + ", ".join(target.name for target in targets),
        "; ".join(steps) or "nothing is missing",
        required=False,
    )
    return finding, able


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
    _state_directory,
    _cache,
    _repeatable_objects,
    _confinement,
    _postgres,
)
