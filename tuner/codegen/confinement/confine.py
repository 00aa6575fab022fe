"""Confines a process to its role, layer by layer. None can be undone.

Started as root, each process becomes a user of its own that owns nothing else, so that processes
can be counted by user, and none meets another's. A program in folders that are closed to this user
is reached by the one capability to read everything, kept only where landlock says what may be read.

A layer that the kernel or a container refuses is left out, and ``hvxtune doctor`` tells which.
"""

from __future__ import annotations

import ctypes
import os
import resource
import secrets
import signal
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.codegen.confinement import landlock
from tuner.codegen.confinement.roles import Filter, Role

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
"""The additional layer of a role that starts programs."""

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache")
"""Shared libraries and the system's programs: most programs need them, and they hold no secrets."""
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
    """A process that :func:`confine` confined. ``layers`` are those in place."""

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


def environment() -> dict[str, str]:
    """The variables that a Python process is started with before it is confined. Its BLAS may start
    no threads: OpenBLAS waits for them for ever."""
    blas = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    found = {**dict.fromkeys(blas, "1"), "PYTHONHASHSEED": "0"}
    if "PYTHONPATH" in os.environ:
        found["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return found


def confine(
    role: Role, folder: Path, limits: Limits, program: Program | None = None
) -> Confinement:
    """Confines this process, of one thread so far, to ``role``, except for the system calls, which
    :meth:`Confinement.seal` takes. Files can be made in ``folder`` only, of which this process
    becomes the owner, and the root directory too unless it becomes a ``program``.
    """
    parent = os.getppid()
    with open("/proc/self/statm") as statm:
        mapped_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    with landlock.ruleset(_files(role, folder, program)) as rules:
        layers, counted = _without_privileges(role, folder, program, landlocked=rules is not None)
        end_with(parent)
        hide_memory()
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
    if program is None and has(SYS_CHROOT):
        os.chroot(folder)
        os.chdir("/")
        folder = Path("/")
        layers.append(EMPTY_ROOT)
    counted, keep_reading = False, False
    if has(*CHANGE_USER):
        needs_reading = program is not None and not reachable(
            (folder, program.path, *program.needs)
        )
        # Only a process that landlock holds may keep the right to read everything.
        may_read = landlocked and has(DAC_READ_SEARCH)
        runs = program is None or runnable(program.path)
        own = None
        if runs and (may_read or not needs_reading):
            own = change_user(folder, keep_reading=needs_reading)
        if own is not None:
            counted, keep_reading = own, needs_reading
            layers.append(OWN_USER)
    if role.starts_programs and not counted and not keep_reading:
        counted = count_apart()
    drop_capabilities(keep_reading=keep_reading)
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


_USERS = range(0x70000000 + 1, 1 << 31)
"""One of them is drawn: from a range that systemd's page on user ids lists as unused. Users are
counted on all of a machine, while containers give their processes the same few ids."""
_NOBODY = 65534
"""The overflow user of every Linux, where a container has not mapped the others."""

CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, KILL, SETGID, SETUID = 0, 1, 2, 3, 5, 6, 7
SYS_CHROOT = 18
CHANGE_USER = (CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID)
"""The capabilities (linux/capability.h) that it takes to change the user, and the parent to read
what that user leaves and to end it."""
_VERSION_3 = 0x20080522
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_CAP_AMBIENT = 1, 4, 8, 47
_AMBIENT_RAISE, _AMBIENT_CLEAR_ALL = 2, 4
_CLONE_NEWUSER = 0x10000000
_OTHERS_SEARCH, _OTHERS_RUN = 0o001, 0o005


def has(*capabilities: int) -> bool:
    """Whether all of them are in effect."""
    sets = ctypes.create_string_buffer(24)
    if _libc.capget(struct.pack("<Ii", _VERSION_3, 0), sets) != 0:
        return False
    effective: int = struct.unpack_from("<I", sets)[0]
    return all(effective >> number & 1 for number in capabilities)


def reachable(paths: Iterable[Path]) -> bool:
    """Whether a user that owns nothing reaches all ``paths`` that exist."""
    folders = {folder for path in paths if path.exists() for folder in path.resolve().parents}
    return all(folder.stat().st_mode & _OTHERS_SEARCH for folder in folders)


def runnable(program: Path) -> bool:
    """Whether a user that owns nothing may run ``program``, once there."""
    return program.stat().st_mode & _OTHERS_RUN == _OTHERS_RUN


def change_user(folder: Path, *, keep_reading: bool) -> bool | None:
    """Becomes another user, of no group, who owns ``folder`` and the files in it; with
    ``keep_reading`` the capability to read everything stays, also for the programs it becomes.

    Returns whether the user is this process's own; ``None`` without a user to become.
    """
    try:
        os.setgroups([])
    except PermissionError:  # denied to a user namespace
        return None
    own = secrets.choice(_USERS)
    for user in (own, _NOBODY):
        try:
            os.chown(folder, user, user)
        except OSError:
            continue
        for name in os.listdir(folder):
            os.chown(folder / name, user, user, follow_symlinks=False)
        _libc.prctl(_PR_SET_KEEPCAPS, int(keep_reading), 0, 0, 0)
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        return user == own
    return None


def drop_capabilities(*, keep_reading: bool = False) -> None:
    """All of them but, perhaps, that to read everything."""
    left = 1 << DAC_READ_SEARCH if keep_reading else 0
    _libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    sets = struct.pack("<6I", left, left, left, 0, 0, 0)
    if _libc.capset(struct.pack("<Ii", _VERSION_3, 0), sets) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")
    if keep_reading:
        _libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, DAC_READ_SEARCH, 0, 0)


def count_apart() -> bool:
    """From here on RLIMIT_NPROC counts this process and those that it starts, and no others of
    the user (Linux 5.14): it counts by user and namespace of users, and this is a new one."""
    return int(_libc.unshare(_CLONE_NEWUSER)) == 0


def end_with(parent: int) -> None:
    """Ends this process with ``parent``, even if that was before. A change of user cancels it."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def hide_memory() -> None:
    """Nobody else of the same user may look into this process, and it leaves no core."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
