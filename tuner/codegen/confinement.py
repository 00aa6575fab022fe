"""Takes from a compiling process what compiling does not need: network, other files, processes.

Pipelines are untrusted and Halide runs them as code of its own. Both layers are of the kernel's
and can only be added to: landlock lets files be changed in one folder only, seccomp refuses the
system calls that reach other processes or the network. Where a layer cannot be had, the process
goes on without it; ``hvxtune doctor`` tells which the kernel has.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on every machine
_LANDLOCK_VERSION_FLAG = 1

_READS = 0b1100
"""LANDLOCK_ACCESS_FS_READ_FILE and READ_DIR: left free, Python imports as it goes."""
_EXECUTES = 0b1
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many rights over files each version of landlock knows; 16 from version 5 on (landlock.h)."""
_TCP = 0b11
"""Bind and connect: from version 4 on."""
_SCOPES = 0b11
"""Abstract sockets and signals to others: from version 6 on."""

_AUDIT_ARCH = {"x86_64": 0xC000003E}  # linux/audit.h
_REFUSED = {
    "x86_64": {
        "socket": 41,
        "connect": 42,
        "socketpair": 53,
        "fork": 57,
        "vfork": 58,
        "execve": 59,
        "ptrace": 101,
        "mount": 165,
        "add_key": 248,
        "keyctl": 250,
        "unshare": 272,
        "perf_event_open": 298,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "bpf": 321,
        "execveat": 322,
        "pidfd_send_signal": 424,
        "io_uring_setup": 425,
        "pidfd_open": 434,
        "pidfd_getfd": 438,
    }
}
"""System calls that fail with EPERM (asm/unistd_64.h)."""
_STARTING = ("fork", "vfork", "execve", "execveat")
_OTHERS_ONLY = {"x86_64": (62, 200, 234)}
"""kill, tkill and tgkill: allowed where the first argument is the process itself, as in abort."""
_CLONE, _CLONE3, _CLONE_THREAD = {"x86_64": 56}, {"x86_64": 435}, 0x10000
"""clone makes threads only; clone3, whose flags no filter can see, is said not to exist."""

_X32 = 0x40000000
"""From here on the same calls come again, for the x32 interface."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000  # linux/seccomp.h
_AT_NUMBER, _AT_MACHINE, _AT_FIRST_ARGUMENT = 0, 4, 16  # struct seccomp_data
_SECCOMP_MODE_FILTER, _PR_SET_SECCOMP = 2, 22

_libc = ctypes.CDLL(None, use_errno=True)


def confine(folder: Path, *, may_start_programs: bool = False) -> tuple[str, ...]:
    """Confines the calling thread and what it starts; files can be changed in ``folder`` only.

    With ``may_start_programs`` it may become another program and start more, confined alike.
    Cannot be undone. Returns the layers that came into place, of ``landlock`` and ``seccomp``.
    """
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return ()
    layers = {
        "landlock": _forbid_changes_outside(folder, may_start_programs),
        "seccomp": _forbid_system_calls(may_start_programs),
    }
    return tuple(name for name, in_place in layers.items() if in_place)


def _forbid_changes_outside(folder: Path, may_start_programs: bool) -> bool:
    version = _libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION_FLAG)
    if version < 1:
        return False
    free = _READS | (_EXECUTES if may_start_programs else 0)
    rights = ((1 << _FILE_RIGHTS.get(version, 16)) - 1) & ~free
    handled = struct.pack(
        "<3Q", rights, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0
    )
    known_bytes = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _libc.syscall(_LANDLOCK_CREATE, handled, known_bytes, 0)
    if ruleset < 0:
        return False
    try:
        added = _allow(ruleset, folder, rights)
        return added and int(_libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0)) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, folder: Path, rights: int) -> bool:
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        rule = struct.pack("<Qi", rights, place)  # struct landlock_path_beneath_attr
        return int(_libc.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0)) == 0
    finally:
        os.close(place)


def _forbid_system_calls(may_start_programs: bool) -> bool:
    machine = platform.machine()
    if machine not in _AUDIT_ARCH:
        return False
    fail, allow = _FAIL | errno.EPERM, (_RETURN, 0, 0, _ALLOW)
    program = [
        (_LOAD, 0, 0, _AT_MACHINE),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _AT_NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, fail),
    ]
    for name, number in _REFUSED[machine].items():
        if not (may_start_programs and name in _STARTING):
            program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, fail)]
    if not may_start_programs:
        program += _threads_only(machine, fail)
    program.append(allow)
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
    kept = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(program), ctypes.addressof(kept))  # struct sock_fprog
    done: int = _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0)
    return done == 0


def _threads_only(machine: str, fail: int) -> list[tuple[int, int, int, int]]:
    """Neither new processes nor signals to others."""
    program = [(_EQUAL, 0, 1, _CLONE3[machine]), (_RETURN, 0, 0, _FAIL | errno.ENOSYS)]
    program += _only_with(_CLONE[machine], (_ANY_BIT, 1, 0, _CLONE_THREAD), fail)
    for number in _OTHERS_ONLY[machine]:
        program += _only_with(number, (_EQUAL, 1, 0, os.getpid()), fail)
    return program


def _only_with(
    number: int, test: tuple[int, int, int, int], fail: int
) -> list[tuple[int, int, int, int]]:
    """Allows a call whose first argument passes ``test``, which skips one instruction."""
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _AT_FIRST_ARGUMENT),
        test,
        (_RETURN, 0, 0, fail),
        (_RETURN, 0, 0, _ALLOW),
    ]
