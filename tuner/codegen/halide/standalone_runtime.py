"""Halide's own runtime as an object: what its objects without one leave to the program."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tuner.codegen.toolchain import NativePart, built, find_toolchain, first_diagnostic
from tuner.errors import InternalError, UserError
from tuner.problem.target import Target

_END = Path(__file__).with_name("runtime_end.c")
_FLAGS = ("-fPIC", "-g0")
"""Without debug information, which would name the folder that this is installed in."""


def write_runtime(file: Path, target: Target, *, qurt: bool) -> None:
    """Writes the runtime for ``target`` to ``file``: for bare Hexagon, or for QuRT, whose threads
    run parallel loops. ``UserError`` if the file cannot be written."""
    import halide as hl

    from tuner.codegen.halide.compilation import halide_target

    name = halide_target(target).removesuffix("-no_runtime")
    if qurt:
        name = name.replace("-noos-", "-qurt-")
    end = NativePart("runtime-end", "hexagon", (_END,), arch=target.arch, flags=_FLAGS)
    with tempfile.TemporaryDirectory(prefix="hvxtune-runtime-") as folder:
        parts = [Path(folder) / "halide.o", built(end)]
        whole = Path(folder) / "runtime.o"
        hl.compile_standalone_runtime(str(parts[0]), hl.Target(name))
        done = find_toolchain().lld(["-r", *parts, "-o", whole])
        if done.returncode:
            raise InternalError(f"the linker failed: {first_diagnostic(done.stderr)}")
        try:
            file.write_bytes(whole.read_bytes())
        except OSError as error:
            raise UserError(
                f"{file} cannot be written: {error.strerror}",
                accepted="a file in an existing folder that you can write to",
            ) from None
