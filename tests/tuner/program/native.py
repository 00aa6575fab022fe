"""Plain C of programs, compiled for this machine and called."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tuner.program.bounds import bounded
from tuner.program.loops import Program, Scalar
from tuner.program.plain_c import c_name, plain_c

COMPILER = ["cc"] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
OPTIONS = [
    "-std=c11",
    "-O1",
    "-fPIC",
    "-Wall",
    "-Werror",
    "-Wno-unused",
    "-Wno-tautological-compare",
]
CHECKED = "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero"
HANDLERS = (
    *("add_overflow", "sub_overflow", "mul_overflow", "negate_overflow"),
    *("divrem_overflow", "shift_out_of_bounds"),
)
"""What code that is CHECKED calls; defined here, since not every machine has libubsan."""
COUNTED = "int undefined;\n" + "".join(
    f"void __ubsan_handle_{name}(void) {{ ++undefined; }}\n" for name in HANDLERS
)


def compiled(*arguments: str) -> None:
    command = [*COMPILER, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def called(
    program: Program,
    sizes: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    scalars: Mapping[str, int],
    folder: Path,
) -> dict[str, np.ndarray]:
    """What the C of ``program`` makes of its arguments, none of it by what C leaves undefined."""
    source, handlers = folder / "program.c", folder / "handlers.c"
    source.write_text(plain_c(program, sizes))
    handlers.write_text(COUNTED)
    library = folder / "program.so"
    compiled(*OPTIONS, CHECKED, "-c", "-o", f"{folder}/program.o", str(source))
    compiled(
        "-fPIC", "-fno-builtin", "-shared", "-o", str(library), f"{folder}/program.o", str(handlers)
    )
    outputs, boxes = {}, bounded(program, sizes).boxes
    for name in program.outputs:
        stage = program.stage_of(name)
        shape = [one.high - one.low + 1 for one in boxes[stage.name]]
        outputs[name] = np.zeros(shape, stage.types[stage.arrays.index(name)].dtype)
    arguments = [
        getattr(ctypes, f"c_{one.type.dtype.name}")(scalars[one.name])
        if isinstance(one, Scalar)
        else np.ascontiguousarray(inputs[one.name]).ctypes.data_as(ctypes.c_void_p)
        for one in program.arguments
    ]
    pointers = [one.ctypes.data_as(ctypes.c_void_p) for one in outputs.values()]
    made = ctypes.CDLL(str(library))
    assert made[c_name(program.name)](*arguments, *pointers) == 0
    assert ctypes.c_int.in_dll(made, "undefined").value == 0
    return outputs
