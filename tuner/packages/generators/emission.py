"""Files that a Generator makes of values for its GeneratorParams, in a contained process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.codegen.confinement import SYSTEM
from tuner.codegen.halide.servers import (
    LLVM_ARGUMENTS,
    TEMPORARY_FOLDERS,
    CompileServer,
    CompileServers,
)
from tuner.codegen.toolchain import built
from tuner.packages.generators.compiler import halide_wheel

_STEM = "made"
KINDS = {
    "object": ("object", ".o"),
    "header": ("c_header", ".h"),
    "schedule": ("schedule", ".schedule.h"),
    "assembly": ("assembly", ".s"),
    "loopnest": ("conceptual_stmt", ".conceptual.stmt"),
    "pipeline": ("hlpipe", ".hlpipe"),
}
"""Kind of file to Halide's name for it, and how the file's name ends."""


@dataclass(frozen=True)
class Emission:
    """A run of the Generator ``generator`` of ``program`` for Halide's ``target``, as the
    function ``symbol``."""

    program: Path
    generator: str
    target: str
    symbol: str


def emitted(
    servers: CompileServers,
    server: CompileServer,
    emission: Emission,
    params: Mapping[str, int | str],
    kinds: Sequence[str],
) -> dict[str, bytes]:
    """The files ``kinds`` (of :data:`KINDS`), with ``params`` given and others at their defaults.

    Raises as :meth:`CompileServers.made`.
    """
    library, folders = halide_wheel() / "lib64", built(TEMPORARY_FOLDERS)
    request = {
        "program": [
            *(str(emission.program), "-g", emission.generator, "-f", emission.symbol),
            *("-n", _STEM, "-o", ".", "-e", ",".join(KINDS[kind][0] for kind in kinds)),
            f"target={emission.target}",
            *(f"{name}={value}" for name, value in params.items()),
        ],
        "reads": [*SYSTEM, str(library), str(folders)],
        "environment": {
            "LD_LIBRARY_PATH": str(library),
            "HL_LLVM_ARGS": LLVM_ARGUMENTS,
            "LD_PRELOAD": str(folders),
        },
    }
    names = {kind: _STEM + KINDS[kind][1] for kind in kinds}
    made = servers.made(server, request, names.values())
    return {kind: made[name] for kind, name in names.items()}
