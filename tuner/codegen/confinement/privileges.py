"""Who a confined process is: where it was started as root, a user that owns nothing else.

Each process becomes a user of its own, so that processes can be counted by user, and none meets
another's. A program in folders that are closed to this user is reached by the one capability to
read everything, kept only where landlock says what may be read.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterable
from pathlib import Path

_FIRST_USER = 0x70000000
"""Plus the process's id: from a range that systemd's page on user ids lists as unused."""
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

_libc = ctypes.CDLL(None, use_errno=True)


def has(*capabilities: int) -> bool:
    """Whether all of them are in effect."""
    sets = ctypes.create_string_buffer(24)
    if _libc.capget(struct.pack("<Ii", _VERSION_3, 0), sets) != 0:
        return False
    effective: int = struct.unpack_from("<I", sets)[0]
    return all(effective >> number & 1 for number in capabilities)


def reachable(paths: Iterable[Path]) -> bool:
    """Whether a user that owns nothing gets through to all ``paths`` that there are."""
    folders = {folder for path in paths if path.exists() for folder in path.resolve().parents}
    return all(folder.stat().st_mode & _OTHERS_SEARCH for folder in folders)


def runnable(program: Path) -> bool:
    """Whether a user that owns nothing may run ``program``, once there."""
    return program.stat().st_mode & _OTHERS_RUN == _OTHERS_RUN


def change_user(folder: Path, *, keep_reading: bool) -> bool | None:
    """Becomes another user, of no group, who owns ``folder`` and the files in it; with
    ``keep_reading`` the capability to read everything stays, also for the programs it becomes.

    Returns whether the user is this process's own; ``None`` if there is none to become.
    """
    try:
        os.setgroups([])
    except PermissionError:  # denied to a user namespace
        return None
    own = _FIRST_USER + os.getpid()
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
