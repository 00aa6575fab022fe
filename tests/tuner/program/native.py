"""Plain C of programs, compiled for this machine and called."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from random import Random

import numpy as np

from tuner.codegen.programs import Fitted
from tuner.problem.buffers import BufferSpec, ScalarSpec, layout_of, other_layout_of
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.problem.workload import Problem, Workload
from tuner.program.bounds import bounded
from tuner.program.loops import Program
from tuner.space import Config

HAS_CC = shutil.which("cc") is not None
COMPILER = ["cc"] if HAS_CC else [sys.executable, "-m", "ziglang", "cc"]
OPTIONS = [
    "-std=gnu11",
    "-O1",
    "-fPIC",
    "-Wall",
    *(["-Werror"] if HAS_CC else []),  # others warn of other things
    "-Wno-unused",
    "-D__builtin_assume(promise)=",  # clang's alone
    "-Wno-tautological-compare",
]
CHECKED = "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero"
HANDLERS = (
    *("add_overflow", "sub_overflow", "mul_overflow", "negate_overflow"),
    *("divrem_overflow", "shift_out_of_bounds"),
)
"""What code that is CHECKED calls; defined here, since not every machine has libubsan."""
AROUND = (
    "#include <stdlib.h>\nint undefined;\n"
    "void *halide_malloc(void *context, unsigned bytes) {\n"
    "    return aligned_alloc(128, (bytes + 127u) / 128u * 128u);\n}\n"
    "void halide_free(void *context, void *memory) { free(memory); }\n"
    + "".join(f"void __ubsan_handle_{name}(void) {{ ++undefined; }}\n" for name in HANDLERS)
)
TARGET = find_target("hexagon-v66")


class RefusedError(Exception):
    """A call returned an error."""


class Dimension(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("min", "extent", "stride", "flags")]


class Buffer(ctypes.Structure):
    """``halide_buffer_t``, as ``prelude.h`` has it."""

    _fields_ = [
        *(("device", ctypes.c_uint64), ("interface", ctypes.c_void_p), ("host", ctypes.c_void_p)),
        *(("flags", ctypes.c_uint64), ("type", ctypes.c_uint32), ("dimensions", ctypes.c_int32)),
        *(("dim", ctypes.POINTER(Dimension)), ("padding", ctypes.c_void_p)),
    ]


def compiled(*arguments: str) -> None:
    command = [*COMPILER, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def specs_of(program: Program, sizes: Mapping[str, int], loose: int = 0) -> list[BufferSpec]:
    """The buffers of a caller that has what the program reads and stores, and no more."""
    boxes, specs = bounded(program, sizes).boxes, []
    kinds = {one.name: one.type for one in program.inputs}
    for name in program.outputs:
        stage = program.stage_of(name)
        kinds[name] = stage.types[stage.arrays.index(name)]
    for name, kind in kinds.items():
        is_output = name in program.outputs
        box = boxes[program.stage_of(name).name if is_output else name]
        shape = tuple(max(0, one.high - one.low + 1) for one in box)
        specs.append(
            BufferSpec(
                name,
                kind.dtype.name,
                shape,
                "output" if is_output else "input",
                promised=shape[-1] % TARGET.vector_alignment_bytes == 0,
                mins=() if is_output else tuple(one.low for one in box),
                loose=min(loose, len(box)),
            )
        )
    return specs


def called(
    program: Program,
    sizes: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    scalars: Mapping[str, int],
    folder: Path,
    choices: Random | None = None,
    loose: int = 0,
    contract: Contract = Contract.STATIC,
    usual: Mapping[str, int] | None = None,
    fewer: int = 0,
    *,
    is_dense: bool = False,
) -> dict[str, np.ndarray]:
    """What the C of ``program`` makes of its arguments, none of it by what C leaves undefined. Its
    knobs are as ``choices`` say, or have their first; ``loose`` buffers lie as a caller likes. It
    is compiled under ``contract``, for the ``usual`` sizes where those of a call are open. Rows
    lie densely if ``is_dense``, and inputs end ``fewer`` elements before what is read;
    ``RefusedError`` if the code refuses the call."""
    given = [
        ScalarSpec(one.name, one.type.dtype.name, scalars[one.name]) for one in program.scalars
    ]
    specs = specs_of(program, sizes, loose)
    known = specs_of(program, usual or sizes, loose)
    specs = [one._replace(promised=own.promised) for one, own in zip(specs, known, strict=True)]
    fitted = Fitted(program, known, given, is_open=contract is not Contract.STATIC)
    problem = Problem(Workload("drawn", 1, {}), contract, TARGET)
    chosen = choices.choice if choices is not None else itemgetter(0)
    config = Config({knob.name: chosen(knob.choices) for knob in fitted.knobs})
    source, around = folder / "program.c", folder / "around.c"
    source.write_text(fitted.source(problem, config))
    around.write_text(AROUND)
    library = folder / "program.so"
    compiled(*OPTIONS, CHECKED, "-c", "-o", f"{folder}/program.o", str(source))
    linked = (f"{folder}/program.o", str(around))
    compiled("-O1", "-fPIC", "-fno-builtin", "-shared", "-o", str(library), *linked)
    arrays = [
        _laid_out(spec, contract, None if is_dense else number, inputs.get(spec.name))
        for number, spec in enumerate(specs)
    ]
    buffers = [_buffer(spec, array) for spec, array in zip(specs, arrays, strict=True)]
    count = len(program.inputs)
    values = [
        getattr(ctypes, f"c_{one.type.dtype.name}")(scalars[one.name]) for one in program.scalars
    ]
    pointers = [ctypes.byref(one) for one in buffers]
    made = ctypes.CDLL(str(library))
    for one in buffers[:count]:
        one.dim[0].extent -= fewer
    if made[problem.symbol](*pointers[:count], *values, *pointers[count:]):
        raise RefusedError
    assert ctypes.c_int.in_dll(made, "undefined").value == 0
    return {
        spec.name: array.copy()
        for spec, array in zip(specs, arrays, strict=True)
        if spec.role == "output"
    }


def _laid_out(
    spec: BufferSpec, contract: Contract, number: int | None, values: np.ndarray | None
) -> np.ndarray:
    """An array as a caller may have it who keeps ``contract``, with ``values`` in it; of a
    ``number`` padded."""
    layout = layout_of(spec, contract, TARGET)
    if number is not None:
        layout = other_layout_of(spec, contract, TARGET, number)
    size, most = spec.element_bytes, TARGET.vector_alignment_bytes
    memory = np.zeros(layout.span_bytes + layout.host_offset_bytes + 2 * most, np.uint8)
    start = -memory.ctypes.data % most + layout.host_offset_bytes
    shape, strides = spec.shape, tuple(size * stride for stride in layout.strides)
    found: np.ndarray = np.ndarray(shape, spec.dtype, memory, start, strides)
    if values is not None:
        found[...] = values
    return found


def _buffer(spec: BufferSpec, array: np.ndarray) -> Buffer:
    mins = spec.mins or (0,) * len(spec.shape)
    strides: Sequence[int] = [stride // spec.element_bytes for stride in array.strides]
    places = list(zip(mins, spec.shape, strides, strict=True))[::-1]
    dimensions = (Dimension * len(places))(*(Dimension(*place, 0) for place in places))
    return Buffer(host=array.ctypes.data, dimensions=len(places), dim=dimensions)
