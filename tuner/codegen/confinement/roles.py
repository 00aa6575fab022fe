"""The roles that processes with untrusted work play, and all that each may ask of the kernel.

A role is a list of system calls, in groups that say why; whatever is not on it fails with EPERM.
A call that is harmless only with certain arguments is listed with a test of them.

The list becomes a program for the kernel's seccomp filter (:class:`Filter`). There ``clone3``,
whose flags no filter can see, fails with ENOSYS, upon which libraries use ``clone``; others fail
with EPERM, so that a library that asks for something harmless goes on without it. Calls of another
machine's or of the x32 interface end the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OneOf:
    """The argument, 32 bits of it, is one of ``values``."""

    argument: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class Itself:
    """The argument is the id of the confined process: neither another's nor a group's."""

    argument: int


@dataclass(frozen=True)
class Null:
    """The argument is a pointer to nothing."""

    argument: int


@dataclass(frozen=True)
class Without:
    """None of ``bits`` is set in the argument."""

    argument: int
    bits: int


@dataclass(frozen=True)
class With:
    """The one bit in ``bits`` is set in the argument."""

    argument: int
    bits: int


Test = OneOf | Itself | Null | Without | With
Calls = Mapping[str, tuple[Test, ...]]
"""System calls by name, each with the tests that its arguments have to pass, all of them."""

_PROT_EXEC = 0x4
_HARMLESS_REQUESTS = (0x5401, 0x5413, 0x5450, 0x5451)
"""TCGETS and TIOCGWINSZ: whether a file is a terminal, and how wide. FIONCLEX, FIOCLEX: whether
it is closed on exec."""
_DUPLICATE, _GET_FLAGS, _SET_FLAGS, _GET_STATUS, _DUPLICATE_CLOEXEC = 0, 1, 2, 3, 1030
_NAMES_OF_THREADS, _NAMES_OF_MEMORY = 15, 0x53564D41  # PR_SET_NAME, PR_SET_VMA
_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = 0x7E020000
"""CLONE_NEW* of linux/sched.h."""
_CLONE_ELSEWHERE = 0x00008000 | 0x00002000
"""CLONE_PARENT and CLONE_PTRACE: a process that is not a child, or that somebody traces."""
_ONLY_SET_FS = (0x1002,)  # ARCH_SET_FS
_CALLER = (0,)


def _plain(*names: str) -> Calls:
    return dict.fromkeys(names, ())


_MEMORY: Calls = _plain("brk", "munmap", "mremap", "madvise")
_DATA_ONLY: Calls = {"mmap": (Without(2, _PROT_EXEC),), "mprotect": (Without(2, _PROT_EXEC),)}
"""Memory that can be executed is what was loaded before, and stays so."""
_CODE: Calls = _plain("mmap", "mprotect")
_CLOCKS: Calls = _plain(
    *("clock_gettime", "clock_getres", "gettimeofday", "time", "times", "getrusage"),
    *("nanosleep", "clock_nanosleep", "restart_syscall"),
)
_WAITING: Calls = _plain("futex", "sched_yield", "membarrier", "rseq", "set_robust_list")
_SIGNALS: Calls = {
    **_plain("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack"),
    "kill": (Itself(0),),
    "tgkill": (Itself(0),),  # abort
}
_ITSELF: Calls = {
    **_plain("getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid"),
    **_plain("getcpu", "uname", "sysinfo", "getrandom", "exit", "exit_group"),
    "sched_getaffinity": (OneOf(0, _CALLER),),
    "prctl": (OneOf(0, (_NAMES_OF_THREADS, _NAMES_OF_MEMORY)),),
}
_READS_LIMITS: Calls = {"prlimit64": (OneOf(0, _CALLER), Null(2))}
_OWN_LIMITS: Calls = {"prlimit64": (OneOf(0, _CALLER),)}
"""Below the hard limits, which only a capability raises; none is left."""
_OPEN_FILES: Calls = {
    **_plain("read", "readv", "pread64", "write", "writev", "pwrite64", "lseek", "fstat", "close"),
    **_plain("dup", "dup2", "dup3"),
    "fcntl": (OneOf(1, (_DUPLICATE, _GET_FLAGS, _SET_FLAGS, _GET_STATUS, _DUPLICATE_CLOEXEC)),),
    "ioctl": (OneOf(1, _HARMLESS_REQUESTS),),
}
"""Open descriptors. F_SETOWN and F_SETLEASE would send signals, other ioctls can do anything."""
_NAMED_FILES: Calls = _plain(
    *("open", "openat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat"),
    *("faccessat2", "readlink", "readlinkat", "getdents64", "getcwd"),
    *("mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2"),
    "ftruncate",
)
"""Landlock says which. No links, modes, owners, attributes, times or devices."""
_THREADS: Calls = {"clone": (With(0, _CLONE_THREAD),)}
_BEGINNING: Calls = {
    **_plain("execve", "execveat", "set_tid_address", "umask", "pipe2", "poll"),
    "arch_prctl": (OneOf(0, _ONLY_SET_FS),),
}
"""Becoming another program, and what its C library does first. Landlock says which program."""
_PROCESSES: Calls = {
    "clone": (Without(0, _CLONE_NAMESPACES | _CLONE_ELSEWHERE),),
    **_plain("fork", "vfork", "wait4", "waitid", "pipe", "getpgrp", "close_range"),
    **_plain("select", "pselect6", "ppoll", "epoll_create1", "epoll_ctl", "epoll_wait"),
    **_plain("epoll_pwait", "eventfd2", "rt_sigsuspend", "rt_sigtimedwait", "rt_sigpending"),
    **_plain("chdir", "fchdir", "flock", "fsync", "fallocate", "fadvise64", "statfs", "fstatfs"),
    **_plain("setitimer", "getitimer", "alarm", "pause", "sched_getparam", "sched_getscheduler"),
}
"""All in one process group, which none can leave: setsid and setpgid are not here. They end with
it."""


@dataclass(frozen=True)
class Role:
    """Which system calls are left, and what comes with them.

    ``makes_files``: works with the files of its folder. ``becomes_program``: goes on as another
    program, with the paths that this needs. ``descriptors`` and ``processes`` (with threads) are
    limits; the second holds where they can be counted apart from those of others.
    """

    name: str
    calls: Calls
    descriptors: int
    processes: int
    makes_files: bool = False
    becomes_program: bool = False
    starts_programs: bool = False


_ALONE: Calls = {
    **_MEMORY,
    **_CLOCKS,
    **_WAITING,
    **_SIGNALS,
    **_ITSELF,
    **_OPEN_FILES,
}

READER = Role(
    "reader",
    {**_ALONE, **_DATA_ONLY, **_READS_LIMITS},
    descriptors=0,  # those that are open stay open
    processes=2,
)
"""Opens uploaded bytes with Halide, or interprets them for their reference. It has its question,
its answer, memory and a clock."""

COMPILER = Role(
    "compiler",
    {**_ALONE, **_DATA_ONLY, **_READS_LIMITS, **_NAMED_FILES},
    descriptors=32,
    processes=2,
    makes_files=True,
)
"""Has Halide lower or compile, which it does into files."""

PROGRAM = Role(
    "program",
    {**_ALONE, **_CODE, **_OWN_LIMITS, **_NAMED_FILES, **_THREADS, **_BEGINNING},
    descriptors=64,
    processes=16,
    makes_files=True,
    becomes_program=True,
)
"""Becomes another compiler: one process, whose program can be started again and no other."""

PROGRAMS = Role(
    "programs",
    {**PROGRAM.calls, **_PROCESSES},
    descriptors=256,
    processes=64,
    makes_files=True,
    becomes_program=True,
    starts_programs=True,
)
"""Becomes a program that starts others, such as Qualcomm's simulator."""

ROLES = (READER, COMPILER, PROGRAM, PROGRAMS)


_AUDIT_ARCH = {"x86_64": 0xC000003E}  # linux/audit.h


def _numbered(text: str) -> dict[str, int]:
    """Names by their numbers: each is one more than that before, but after a number that one."""
    numbers: dict[str, int] = {}
    following = 0
    for word in text.split():
        if word.isdecimal():
            following = int(word)
        else:
            numbers[word] = following
            following += 1
    return numbers


NUMBERS = {
    "x86_64": _numbered(
        """
        0 read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction
        rt_sigprocmask rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select
        sched_yield mremap 28 madvise 32 dup dup2 pause nanosleep getitimer alarm setitimer getpid
        56 clone fork vfork execve exit wait4 kill uname 72 fcntl flock fsync 77 ftruncate
        79 getcwd chdir fchdir rename mkdir rmdir 87 unlink 89 readlink 95 umask gettimeofday
        98 getrusage sysinfo times 102 getuid 104 getgid 107 geteuid getegid 110 getppid getpgrp
        127 rt_sigpending rt_sigtimedwait 130 rt_sigsuspend sigaltstack 137 statfs fstatfs
        143 sched_getparam 145 sched_getscheduler 157 prctl arch_prctl 186 gettid 201 time futex
        204 sched_getaffinity 217 getdents64 set_tid_address restart_syscall 221 fadvise64
        228 clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill
        247 waitid 257 openat mkdirat 262 newfstatat unlinkat renameat 267 readlinkat
        269 faccessat pselect6 ppoll 273 set_robust_list 281 epoll_pwait 285 fallocate
        290 eventfd2 epoll_create1 dup3 pipe2 302 prlimit64 309 getcpu 316 renameat2 318 getrandom
        322 execveat 324 membarrier 332 statx 334 rseq 436 close_range 439 faccessat2
        """
    )
}
"""Of the calls on the roles' lists (asm/unistd_64.h). Other machines go without this layer."""
_CLONE3 = {"x86_64": 435}
_SECCOMP = {"x86_64": 317}
_X32 = 0x40000000
"""From here on the same calls come again, for the x32 interface."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000  # linux/seccomp.h
_AT_NUMBER, _AT_MACHINE, _AT_ARGUMENTS = 0, 4, 16  # struct seccomp_data
_SET_MODE_FILTER, _ALL_THREADS = 1, 1

_Instruction = tuple[int, int, int, int]

_libc = ctypes.CDLL(None, use_errno=True)


class Filter:
    """The program for ``calls``, ready to be installed: that takes one system call.

    ``None`` of :meth:`made` on machines whose numbers are not in the table.
    """

    def __init__(self, program: list[_Instruction]) -> None:
        code = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
        self._code = ctypes.create_string_buffer(code, len(code))
        address = ctypes.addressof(self._code)
        self._header = struct.pack("@HP", len(program), address)  # struct sock_fprog
        self._call = _SECCOMP[platform.machine()]

    @classmethod
    def made(cls, calls: Calls, refusal: int = errno.EPERM) -> Filter | None:
        """The filter of this process that lets ``calls`` pass; others fail with ``refusal``."""
        machine = platform.machine()
        return cls(_program(calls, machine, refusal)) if machine in _AUDIT_ARCH else None

    def install(self) -> bool:
        """Puts it around all threads of this process, for good."""
        done = _libc.syscall(self._call, _SET_MODE_FILTER, _ALL_THREADS, self._header)
        return int(done) == 0


def _program(calls: Calls, machine: str, refusal: int) -> list[_Instruction]:
    refuse = (_RETURN, 0, 0, _FAIL | refusal)
    program = [
        (_LOAD, 0, 0, _AT_MACHINE),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _AT_NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
        (_EQUAL, 0, 1, _CLONE3[machine]),
        (_RETURN, 0, 0, _FAIL | errno.ENOSYS),
    ]
    for name, tests in calls.items():
        body = [step for test in tests for step in _tested(test, refuse)]
        body.append((_RETURN, 0, 0, _ALLOW))
        program += [(_EQUAL, 0, len(body), NUMBERS[machine][name]), *body]
    return [*program, refuse]


def _tested(test: Test, refuse: _Instruction) -> list[_Instruction]:
    """Refuses unless the test is passed, else goes on behind."""
    low = (_LOAD, 0, 0, _AT_ARGUMENTS + 8 * test.argument)
    high = (_LOAD, 0, 0, _AT_ARGUMENTS + 8 * test.argument + 4)
    match test:
        case OneOf(_, values):
            steps = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
            return [low, *steps, refuse]
        case Itself():
            return [low, (_EQUAL, 1, 0, os.getpid()), refuse]
        case Null():
            return [low, (_EQUAL, 1, 0, 0), refuse, high, (_EQUAL, 1, 0, 0), refuse]
        case Without(_, bits):
            return [low, (_ANY_BIT, 0, 1, bits), refuse]
        case With(_, bits):
            return [low, (_ANY_BIT, 1, 0, bits), refuse]
