"""Confines a process to its role, layer by layer. None can be undone.

A layer that the kernel or a container refuses is left out, and ``hvxtune doctor`` tells which.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.codegen.confinement import landlock, privileges
from tuner.codegen.confinement.roles import Role
from tuner.codegen.confinement.system_calls import Filter

EMPTY_ROOT, OWN_USER, NO_PRIVILEGES, LANDLOCK, LIMITS, SECCOMP = (
    "an empty root directory",
    "a user of its own",
    "no privileges",
    "landlock",
    "resource limits",
    "seccomp",
)
LAYERS_OF_ROOT = (EMPTY_ROOT, OWN_USER)
"""Those that only root can add."""
LAYERS = (*LAYERS_OF_ROOT, NO_PRIVILEGES, LANDLOCK, LIMITS, SECCOMP)
"""Around every role that does not become a program, in words for people."""
COUNTED = "a limit of processes"
"""The layer more of a role that starts programs."""

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache")
"""Shared libraries and the system's programs: most programs need them, and they are no secret."""
_PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_DEVICES = ((Path("/dev/null"), landlock.USE), (Path("/dev/urandom"), landlock.READ))
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Limits:
    """``memory_bytes`` of addresses on top of those in use, ``cpu_s`` of processor time and
    ``file_bytes`` for each file."""

    memory_bytes: int
    cpu_s: int
    file_bytes: int


@dataclass(frozen=True)
class Program:
    """The executable that a process becomes, and what else it reads or runs: files or folders."""

    path: Path
    needs: tuple[Path, ...] = ()


@dataclass
class Confinement:
    """What :func:`confine` left open. ``layers`` are those in place."""

    layers: list[str]
    _filter: Filter | None

    def seal(self) -> tuple[str, ...]:
        """The last layer: from here on all threads have their role's system calls only. To be
        called when the last of them runs, and before anything untrusted is read.

        Returns all layers.
        """
        if self._filter is not None and self._filter.install():
            self.layers.append(SECCOMP)
        return tuple(self.layers)


def confine(
    role: Role, folder: Path, limits: Limits, program: Program | None = None
) -> Confinement:
    """Confines this process, of one thread so far, to ``role``, but for the system calls, which
    :meth:`Confinement.seal` takes. Files can be made in ``folder`` only, of which this process
    becomes the owner, and the root directory too unless it becomes a ``program``.
    """
    parent = os.getppid()
    with open("/proc/self/statm") as statm:
        mapped_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    with landlock.ruleset(_files(role, folder, program)) as rules:
        layers, counted = _without_privileges(role, folder, program, landlocked=rules is not None)
        privileges.end_with(parent)
        privileges.hide_memory()
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if rules is not None and landlock.restrict(rules):
            layers.append(LANDLOCK)
    _limit(role, limits, mapped_bytes, counted=counted)
    if role.starts_programs and counted:
        layers.append(COUNTED)
    layers.append(LIMITS)
    return Confinement(layers, Filter.made(role.calls))


def _files(role: Role, folder: Path, program: Program | None) -> Sequence[tuple[Path, int]]:
    """Paths, and what may be done there and below."""
    if not role.makes_files:
        return ()
    own = (folder, landlock.WORK)
    if program is None:
        return (own,)
    return (own, *_DEVICES, *((path, landlock.RUN) for path in (program.path, *program.needs)))


def _without_privileges(
    role: Role, folder: Path, program: Program | None, *, landlocked: bool
) -> tuple[list[str], bool]:
    """The layers that came into place, and whether processes are counted apart from others'."""
    layers: list[str] = []
    if program is None and privileges.has(privileges.SYS_CHROOT):
        os.chroot(folder)
        os.chdir("/")
        folder = Path("/")
        layers.append(EMPTY_ROOT)
    counted, keep_reading = False, False
    if privileges.has(*privileges.CHANGE_USER):
        needs_reading = program is not None and not privileges.reachable(
            (folder, program.path, *program.needs)
        )
        # To read everything is only for who is held by landlock.
        may_read = landlocked and privileges.has(privileges.DAC_READ_SEARCH)
        runs = program is None or privileges.runnable(program.path)
        own = None
        if runs and (may_read or not needs_reading):
            own = privileges.change_user(folder, keep_reading=needs_reading)
        if own is not None:
            counted, keep_reading = own, needs_reading
            layers.append(OWN_USER)
    if role.starts_programs and not counted and not keep_reading:
        counted = privileges.count_apart()
    privileges.drop_capabilities(keep_reading=keep_reading)
    return [*layers, NO_PRIVILEGES], counted


def _limit(role: Role, limits: Limits, mapped_bytes: int, *, counted: bool) -> None:
    wanted = [
        (resource.RLIMIT_AS, mapped_bytes + limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NOFILE, role.descriptors),  # what is open stays open
    ]
    if counted:
        wanted.append((resource.RLIMIT_NPROC, role.processes))
    for limit, most in wanted:
        # A hard limit above the soft one: its end is then told by its signal, SIGXCPU.
        hard = most + 1 if limit == resource.RLIMIT_CPU else most
        before = resource.getrlimit(limit)[1]
        if before != resource.RLIM_INFINITY:
            hard = min(hard, before)
        resource.setrlimit(limit, (min(most, hard), hard))
