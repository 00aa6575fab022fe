"""Jobs that a conductor cannot run: it waits, leaves them to others, or ends them.

After a fault of this machine (no compiler, no disk) the job stays queued and is tried again
after growing delays. A job that began with other versions than are installed here may fit another
conductor: it is left alone for a while, and fails only if no other took it up in that time or is
busy with such jobs. After a fault of hvxtune itself it is tried a few times."""

from __future__ import annotations

import errno
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from db.failure import file_error
from tuner.errors import DeviceError, HvxtuneError, StoreError, ToolchainError, UserError

FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 300.0
MISFIT_WAIT_S = 600.0
"""How long a job that does not fit this machine is left to other conductors."""
_MOST_FAULTS = 4
"""Attempts at a job in which hvxtune itself goes wrong."""


@dataclass
class _Trouble:
    finished: int
    attempts: int = 0
    again_at: float = 0.0


class Troubles:
    """The jobs in trouble, and how long each is left alone. Safe from several threads."""

    def __init__(
        self, first_wait_s: float = FIRST_WAIT_S, misfit_wait_s: float = MISFIT_WAIT_S
    ) -> None:
        self._first_wait_s = first_wait_s
        self._misfit_wait_s = misfit_wait_s
        self._lock = threading.Lock()
        self._jobs: dict[str, _Trouble] = {}

    def left_alone(self) -> set[str]:
        """The jobs not to be taken up now."""
        now = time.monotonic()
        with self._lock:
            return {job_id for job_id, trouble in self._jobs.items() if trouble.again_at > now}

    def is_final(self, job_id: str, error: Exception, finished: int) -> bool:
        """Notes that the job failed by ``error``; says whether it should not be tried again.

        ``finished`` is the number of its trials so far: if it grew since the last time, some
        conductor could run it, and counting starts again.
        """
        with self._lock:
            trouble = self._jobs.get(job_id)
            if trouble is None or finished > trouble.finished:
                trouble = self._jobs[job_id] = _Trouble(finished)
            trouble.attempts += 1
            most: int | None
            if isinstance(error, UserError):
                wait_s, most = self._misfit_wait_s, 2
            else:
                wait_s = min(self._first_wait_s * 2 ** (trouble.attempts - 1), LONGEST_WAIT_S)
                most = None if is_of_this_machine(error) else _MOST_FAULTS
            trouble.again_at = time.monotonic() + wait_s
            return most is not None and trouble.attempts >= most

    def forget(self, job_id: str) -> None:
        """The job runs, or has ended."""
        with self._lock:
            self._jobs.pop(job_id, None)


def is_of_this_machine(error: Exception) -> bool:
    """Whether this machine's operator must act, and the job can go on afterwards."""
    return isinstance(_named(error), (ToolchainError, StoreError, DeviceError))


def in_words(error: Exception) -> str:
    """One line for the job's note."""
    named = _named(error)
    if isinstance(named, HvxtuneError):
        return str(named)
    return f"{type(error).__name__}: {error} (a fault of hvxtune: report it with the log)"


_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


def _named(error: Exception) -> Exception:
    """``error``, or the ``StoreError`` it stands for if it is about the disk: compilers and
    simulators write temporary files, too."""
    if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
        return file_error(error, Path(tempfile.gettempdir()))
    return error
