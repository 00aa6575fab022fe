"""The roles that processes with untrusted work play, and all that each may still ask of the kernel.

A role is a list of system calls, in groups that say why; whatever is not on it fails with EPERM.
A call that is harmless only with certain arguments is listed with a test of them.
"""

from __future__ import annotations

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
    """All of ``bits``, of which there is one, are set in the argument."""

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
"""Descriptors that are there. F_SETOWN and F_SETLEASE would send signals, other ioctls do all."""
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
