"""Becomes a simulator that is contained: ``python -m ... FOLDER SECONDS BYTES COMMAND...``.

Runs in the new process, before the simulator is there: limits, files changed in FOLDER only, no
network, an empty environment. A candidate can ask the simulator for files of this machine
(semihosting): what stands in its way are these, and that objects with system calls of their own
are refused before (:mod:`tuner.measure.android.shared_object`).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

from tuner.codegen.confinement import confine

MOST_FILE_BYTES = 1 << 30
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def main(arguments: list[str]) -> None:
    """Never returns."""
    folder, seconds, memory_bytes, *command = arguments
    for limit, most in (
        (resource.RLIMIT_CPU, int(seconds)),
        (resource.RLIMIT_AS, int(memory_bytes)),
        (resource.RLIMIT_FSIZE, MOST_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    _end_with_parent()
    confine(Path(folder), may_start_programs=True)
    os.execve(command[0], command, {})  # noqa: S606 - no shell


def _end_with_parent() -> None:
    """Kills this process, whatever it has become, when the thread that started it is gone."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        sys.exit("whoever started this is gone")


if __name__ == "__main__":
    main(sys.argv[1:])
