"""Becomes a simulator that is contained: ``python -m ... PARENT FOLDER SECONDS BYTES READS
COMMAND...``, PARENT being the process that starts it.

Runs in the new process, before the simulator is there: an empty environment, and the role of a
program that starts others (:mod:`tuner.codegen.confinement`), with files made in FOLDER only and
read there, in the system's folders and below the paths READS, which colons separate. A candidate
can ask the simulator for files of this machine (semihosting): what stands in its way are these,
and that objects with system calls of their own are refused before
(:mod:`tuner.measure.dsp.shared_object`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tuner.codegen.confinement import PROGRAMS, SYSTEM, Limits, Program, confine

MOST_FILE_BYTES = 1 << 30


def main(arguments: list[str]) -> None:
    """Never returns."""
    parent, folder, seconds, memory_bytes, reads, *command = arguments
    if os.getppid() != int(parent):
        sys.exit("the process that started this has ended")
    needs = tuple(Path(path) for path in (*SYSTEM, *reads.split(":")) if path)
    program = Program(Path(command[0]), needs)
    limits = Limits(int(memory_bytes), int(seconds), MOST_FILE_BYTES)
    confine(PROGRAMS, Path(folder), limits, program).seal()
    os.execve(command[0], command, {})  # noqa: S606 - no shell


if __name__ == "__main__":
    main(sys.argv[1:])
