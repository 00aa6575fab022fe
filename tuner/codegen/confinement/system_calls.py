"""Allow-lists of system calls, as programs for the kernel's seccomp filter.

Everything not listed fails with EPERM, so that a library that asks for something harmless goes on
without it; ``clone3``, whose flags no filter can see, with ENOSYS, upon which libraries use
``clone``. Calls of another machine's or of the x32 interface end the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

from tuner.codegen.confinement.roles import Calls, Itself, Null, OneOf, Test, With, Without

_AUDIT_ARCH = {"x86_64": 0xC000003E}  # linux/audit.h
NUMBERS = {
    "x86_64": {
        "read": 0,
        "write": 1,
        "open": 2,
        "close": 3,
        "stat": 4,
        "fstat": 5,
        "lstat": 6,
        "poll": 7,
        "lseek": 8,
        "mmap": 9,
        "mprotect": 10,
        "munmap": 11,
        "brk": 12,
        "rt_sigaction": 13,
        "rt_sigprocmask": 14,
        "rt_sigreturn": 15,
        "ioctl": 16,
        "pread64": 17,
        "pwrite64": 18,
        "readv": 19,
        "writev": 20,
        "access": 21,
        "pipe": 22,
        "select": 23,
        "sched_yield": 24,
        "mremap": 25,
        "madvise": 28,
        "dup": 32,
        "dup2": 33,
        "pause": 34,
        "nanosleep": 35,
        "getitimer": 36,
        "alarm": 37,
        "setitimer": 38,
        "getpid": 39,
        "clone": 56,
        "fork": 57,
        "vfork": 58,
        "execve": 59,
        "exit": 60,
        "wait4": 61,
        "kill": 62,
        "uname": 63,
        "fcntl": 72,
        "flock": 73,
        "fsync": 74,
        "ftruncate": 77,
        "getcwd": 79,
        "chdir": 80,
        "fchdir": 81,
        "rename": 82,
        "mkdir": 83,
        "rmdir": 84,
        "unlink": 87,
        "readlink": 89,
        "umask": 95,
        "gettimeofday": 96,
        "getrusage": 98,
        "sysinfo": 99,
        "times": 100,
        "getuid": 102,
        "getgid": 104,
        "geteuid": 107,
        "getegid": 108,
        "getppid": 110,
        "getpgrp": 111,
        "rt_sigpending": 127,
        "rt_sigtimedwait": 128,
        "rt_sigsuspend": 130,
        "sigaltstack": 131,
        "statfs": 137,
        "fstatfs": 138,
        "sched_getparam": 143,
        "sched_getscheduler": 145,
        "prctl": 157,
        "arch_prctl": 158,
        "gettid": 186,
        "time": 201,
        "futex": 202,
        "sched_getaffinity": 204,
        "getdents64": 217,
        "set_tid_address": 218,
        "restart_syscall": 219,
        "fadvise64": 221,
        "clock_gettime": 228,
        "clock_getres": 229,
        "clock_nanosleep": 230,
        "exit_group": 231,
        "epoll_wait": 232,
        "epoll_ctl": 233,
        "tgkill": 234,
        "waitid": 247,
        "openat": 257,
        "mkdirat": 258,
        "newfstatat": 262,
        "unlinkat": 263,
        "renameat": 264,
        "readlinkat": 267,
        "faccessat": 269,
        "pselect6": 270,
        "ppoll": 271,
        "set_robust_list": 273,
        "epoll_pwait": 281,
        "fallocate": 285,
        "eventfd2": 290,
        "epoll_create1": 291,
        "dup3": 292,
        "pipe2": 293,
        "prlimit64": 302,
        "getcpu": 309,
        "renameat2": 316,
        "getrandom": 318,
        "execveat": 322,
        "membarrier": 324,
        "statx": 332,
        "rseq": 334,
        "close_range": 436,
        "faccessat2": 439,
    }
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
