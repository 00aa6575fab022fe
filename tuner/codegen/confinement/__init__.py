"""Takes from a process with untrusted work what the work does not need.

Halide reads uploads and compiles candidates by its own code, and nobody knows what crafted bytes
may turn it into. So each such process plays a role (``roles``), an allow-list of system calls, and
is confined to it (``confine``): no privileges and a user of its own, files by an allow-list
(``landlock``), limits of memory, time, processes and file sizes. ``examine`` tells which of these
layers this machine has.
"""

from tuner.codegen.confinement.confine import (
    SYSTEM,
    Confinement,
    Limits,
    Program,
    confine,
    environment,
)
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
    "environment",
]
