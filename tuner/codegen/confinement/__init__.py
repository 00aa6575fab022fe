"""Takes from a process with untrusted work what the work does not need.

Uploads are read by Halide, and candidates compiled, as code of those programs' own: what crafted
bytes may make of them is anybody's guess. So each such process plays a role (``roles``), an
allow-list of system calls, and is confined to it (``confine``): no privileges and a user of its
own, files by an allow-list, limits of memory, time, processes and file sizes.
"""

from tuner.codegen.confinement.confine import SYSTEM, Confinement, Limits, Program, confine
from tuner.codegen.confinement.roles import (
    COMPILER,
    PROGRAM,
    PROGRAMS,
    READER,
    ROLES,
    Role,
)

__all__ = [
    "COMPILER",
    "PROGRAM",
    "PROGRAMS",
    "READER",
    "ROLES",
    "SYSTEM",
    "Confinement",
    "Limits",
    "Program",
    "Role",
    "confine",
]
