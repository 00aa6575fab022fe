"""A machine without a network: ``python offline.py COMMAND...`` becomes a command that can make no
socket but local ones, nor can what it starts."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2  # linux/prctl.h, seccomp.h
_SYS_SOCKET, _AF_UNIX = 41, 1  # of x86-64, the one machine that the pinned Halide runs on
_NUMBER, _FIRST_ARGUMENT = 0, 16  # offsets in struct seccomp_data
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 13  # EACCES


def _filter() -> bytes:
    return b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (_LOAD, 0, 0, _NUMBER),
            (_JUMP_EQUAL, 0, 2, _SYS_SOCKET),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_JUMP_EQUAL, 0, 1, _AF_UNIX),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _REFUSE),
        )
    )


def main() -> None:
    code = ctypes.create_string_buffer(_filter())
    program = struct.pack("=HxxxxxxQ", len(_filter()) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    given = ctypes.create_string_buffer(program)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, given, 0, 0),
    ):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - that is its purpose


if __name__ == "__main__":
    main()
