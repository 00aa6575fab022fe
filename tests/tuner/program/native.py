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
from tuner.program.plain_c import plain_c

COMPILER = ["cc"] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]


def called(
    program: Program,
    sizes: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    scalars: Mapping[str, int],
    folder: Path,
) -> dict[str, np.ndarray]:
    """What the C of ``program`` makes of its arguments."""
    source = folder / "program.c"
    source.write_text(plain_c(program, sizes))
    library = folder / "program.so"
    options = ["-std=c11", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", "-Wno-unused"]
    done = subprocess.run(
        [*COMPILER, *options, "-o", str(library), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:3000]
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
    assert ctypes.CDLL(str(library))[program.name](*arguments, *pointers) == 0
    return outputs
