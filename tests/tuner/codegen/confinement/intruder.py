"""Confines itself to a role, then tries what nobody in that role may: a program of its own.

``python -m tests.tuner.codegen.confinement.intruder ROLE USER VICTIM`` in an empty folder beside
``outside``, which holds the file ``old``; VICTIM is a process that is not its parent. It prints
what the confinement is and, for each attempt, the error number, or 0 where the kernel did it.
Attempts that would do harm if let through are made with arguments that the kernel refuses itself,
but with another error than a filter's.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from tuner.codegen.confinement import ROLES, Limits, Program, confine

LIMITS = Limits(memory_bytes=1 << 28, cpu_s=20, file_bytes=1 << 16)
_HERE, _PRIVATE_KEY = -100, 0  # AT_FDCWD, IPC_PRIVATE
_OUT = "../outside/"
_OLD, _NEW = b"../outside/old", b"../outside/new"
_NOWHERE = 1
"""No address: EFAULT from the kernel."""
_INVALID = -1

_libc = ctypes.CDLL(None, use_errno=True)
_page = ctypes.create_string_buffer(4096)

_TABLE = """
mmap=9 mprotect=10 ioctl=16 shmget=29 socket=41 connect=42 socketpair=53 clone=56 fork=57
execve=59 kill=62 fcntl=72 truncate=76 rename=82 mkdir=83 link=86 unlink=87 symlink=88 chmod=90
chown=92 ptrace=101 setuid=105 capset=126 mknod=133 setpriority=141 prctl=157 chroot=161
settimeofday=164 mount=165 sethostname=170 setxattr=188 sched_setaffinity=203 tgkill=234
add_key=248 openat=257 unshare=272 utimensat=280 inotify_init1=294 perf_event_open=298
prlimit64=302 open_by_handle_at=304 setns=308 process_vm_writev=311 memfd_create=319 bpf=321
execveat=322 io_uring_setup=425 pidfd_open=434 openat2=437
"""
NUMBERS = {name: int(number) for name, number in (one.split("=") for one in _TABLE.split())}
"""asm/unistd_64.h"""

Attempts = dict[str, tuple[object, ...]]
"""System call and arguments by name; the call is the name's first word."""


def on_files() -> Attempts:
    times = struct.pack("<4Q", 1, 0, 1, 0)
    return {
        "chmod": (_OLD, 0o777),
        "chown": (_OLD, 1, 1),
        "setxattr": (_OLD, b"user.mine", b"x", 1, 0),
        "utimensat": (_HERE, _OLD, times, 0),
        "truncate": (_OLD, 0),
        "openat to read": (_HERE, _OLD, os.O_RDONLY),
        "openat to write": (_HERE, _OLD, os.O_WRONLY),
        "openat to make": (_HERE, _NEW, os.O_WRONLY | os.O_CREAT, 0o600),
        "openat to list": (_HERE, b"../outside", os.O_RDONLY | os.O_DIRECTORY),
        "openat of passwords": (_HERE, b"/etc/passwd", os.O_RDONLY),
        "openat of its parent": (_HERE, f"/proc/{os.getppid()}/mem".encode(), os.O_RDWR),
        "openat2": (_HERE, _OLD, struct.pack("<3Q", 0, 0, 0), 24),
        "link": (_OLD, b"mine"),
        "symlink": (_OLD, b"mine"),
        "rename": (_OLD, b"mine"),
        "unlink": (_OLD,),
        "mkdir": (_NEW, 0o700),
        "mknod of a pipe": (b"mine", 0o10600, 0),
        "open_by_handle_at": (_HERE, _page, 0),
        "inotify_init1": (0,),
    }


def on_processes(victim: int) -> Attempts:
    parent = os.getppid()
    affinity, limits = struct.pack("<Q", 1), struct.pack("<2Q", 32, 32)
    vector = struct.pack("<2Q", ctypes.addressof(_page), 8)
    wakes = signal.SIGWINCH  # ignored by default
    return {
        "kill its parent": (parent, wakes),
        "kill another": (victim, wakes),
        "kill all": (-1, 0),
        "tgkill": (victim, victim, wakes),
        "pidfd_open": (victim, 0),
        "ptrace": (0x4206, victim, 0, 0),
        "process_vm_writev": (victim, vector, 1, vector, 1, 0),
        "prlimit64 of another": (victim, resource.RLIMIT_NOFILE, limits, 0),
        "setpriority": (0, victim, 19),
        "sched_setaffinity": (victim, 8, affinity),
        "fork": (),
        "clone of a process": (signal.SIGCHLD, 0, 0, 0, 0),
        "clone into namespaces": (0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
        "execve": (b"/bin/true", struct.pack("<Q", 0), struct.pack("<Q", 0)),
        "execveat": (_HERE, b"/bin/true", struct.pack("<Q", 0), struct.pack("<Q", 0), 0),
    }


def on_the_machine() -> Attempts:
    root = struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", *[0xFFFFFFFF] * 6)
    return {
        "shmget": (_PRIVATE_KEY, 4096, 0o600),
        "add_key": (b"user", b"hvxtune", b"x", 1, -3),
        "settimeofday": (_NOWHERE, 0),
        "chroot": (b".",),
        "mount": (0, b".", 0, 1 << 18, 0),
        "unshare": (0x04000000,),
        "setns": (_INVALID, 0),
        "sethostname": (0, _INVALID),
        "bpf": (_INVALID, 0, 0),
        "perf_event_open": (_NOWHERE, 0, _INVALID, _INVALID, 0),
        "io_uring_setup": (0, 0),
        "memfd_create": (b"x", 0),
        "setuid": (0,),
        "capset": root,
        "prctl to be looked into": (4, 1, 0, 0, 0),
        "prctl to outlive its parent": (1, 0, 0, 0, 0),
        "ioctl to type": (0, 0x5412, b"x"),
        "fcntl to send signals": (0, 8, os.getppid()),
        "fcntl to watch": (0, 1026, 0),
    }


def on_the_network() -> Attempts:
    return {
        "socket here": (1, 1, 0),
        "socket abroad": (2, 1, 0),
        "socket of packets": (17, 3, 0),
        "socket of the kernel": (16, 3, 0),
        "socketpair": (1, 1, 0, _page),
        "connect": (_INVALID, _page, 16),
    }


def on_memory() -> Attempts:
    """What only roles that run no code of their own are refused."""
    here = ctypes.addressof(_page) & ~4095
    return {
        "mmap of code": (0, 4096, 5, 0x22, _INVALID, 0),
        "mprotect of code": (here, 4096, 7),
        "prlimit64 of its own": (0, resource.RLIMIT_CPU, struct.pack("<2Q", 1, 1), 0),
        "clone of a thread": (0x10000 | 0x100 | 0x800, 0, 0, 0, 0),
    }


def attempts(victim: int) -> Attempts:
    """All of them. None changes this process in a way that the others would notice."""
    return on_files() | on_processes(victim) | on_the_machine() | on_the_network() | on_memory()


def tried(number: int, arguments: tuple[object, ...]) -> int:
    """The error number, 0 if the call succeeded."""
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(number), *given)
    if result == 0 and number in (56, 57):
        os._exit(0)  # the child
    return ctypes.get_errno() if result == -1 else 0


def succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, MemoryError):
        return False
    return True


def write(place: str, data: bytes = b"x") -> None:
    with open(place, "wb", buffering=0) as file:
        file.write(data)


def state() -> dict[str, object]:
    """What it is, asked before the system calls for that are gone."""
    sets = ctypes.create_string_buffer(24)
    _libc.capget(struct.pack("<Ii", 0x20080522, 0), sets)
    names = ("AS", "CPU", "FSIZE", "NPROC", "CORE", "NOFILE")
    return {
        "process": os.getpid(),
        "user": list(os.getresuid()) + list(os.getresgid()),
        "groups": os.getgroups(),
        "capabilities": struct.unpack("<6I", sets.raw)[:2],
        "dumpable": _libc.prctl(3, 0, 0, 0, 0),
        "limits": {
            name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in names
        },
        "files": {
            "read here": succeeds(lambda: open("given", "rb").close()),
            "write here": succeeds(lambda: write("made")),
            "read outside": succeeds(lambda: open(_OUT + "old", "rb").close()),
            "list outside": succeeds(lambda: os.listdir(_OUT)),
            "write outside": succeeds(lambda: write(_OUT + "old")),
            "make outside": succeeds(lambda: write(_OUT + "new")),
            "remove outside": succeeds(lambda: os.unlink(_OUT + "old")),
            "rename outside": succeeds(lambda: os.rename(_OUT + "old", "mine")),
            "read passwords": succeeds(lambda: open("/etc/passwd", "rb").close()),
            "run a program": succeeds(lambda: os.execv("/bin/true", ["true"])),  # noqa: S606
        },
    }


def be_ordinary() -> None:
    """Goes on as a user without privileges, who owns all there is here."""
    for folder in (".", "..", _OUT):
        os.chown(folder, 65534, 65534)
        for name in os.listdir(folder):
            os.chown(Path(folder, name), 65534, 65534)
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


def main() -> None:
    name, user, victim = sys.argv[1], sys.argv[2], int(sys.argv[3])
    role = next(role for role in ROLES if role.name == name)
    if user == "ordinary" and os.geteuid() == 0:
        be_ordinary()
    program = Program(Path("/bin/sh").resolve()) if role.becomes_program else None
    plans = attempts(victim)
    if "clone" in role.calls:
        del plans["clone of a thread"]  # which would run, nowhere
    planned = {name: (NUMBERS[name.split()[0]], a) for name, a in plans.items()}
    confinement = confine(role, Path("."), LIMITS, program)
    before = state()
    layers = confinement.seal()
    made = {name: tried(number, arguments) for name, (number, arguments) in planned.items()}
    os.write(1, json.dumps({**before, "layers": layers, "attempts": made}).encode())
    os.abort()


if __name__ == "__main__":
    main()
