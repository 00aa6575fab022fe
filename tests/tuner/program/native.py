"""Plain C of programs, compiled for this machine and called."""

from __future__ import annotations

import atexit
import ctypes
import mmap
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import itemgetter
from pathlib import Path
from random import Random
from tempfile import mkdtemp

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
AROUND = """
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
int undefined;
void *halide_malloc(void *context, unsigned bytes) {  /* up to a page that nobody may touch */
    size_t room = (bytes + 127u) / 128u * 128u, pages = (room + 8191u) / 4096u * 4096u;
    uint8_t *memory = mmap(0, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 0xa5, pages);
    mprotect(memory + pages - 4096, 4096, PROT_NONE);
    return memory + pages - 4096 - room;
}
void halide_free(void *context, void *memory) {}
""" + "".join(f"void __ubsan_handle_{name}(void) {{ ++undefined; }}\n" for name in HANDLERS)
_PAGE = mmap.PAGESIZE
_NOTHING = 0  # PROT_NONE
_PADDING = 0xA5
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
        shape = tuple(max(1, one.high - one.low + 1) for one in box)  # also where none is read
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


@cache
def _around() -> Path:
    """What code calls, compiled once."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder)
    (folder / "around.c").write_text(AROUND)
    made = folder / "around.o"
    compiled("-O1", "-fPIC", "-fno-builtin", "-c", "-o", str(made), f"{folder}/around.c")
    return made


def _problem(contract: Contract) -> Problem:
    return Problem(Workload("drawn", 1, {}), contract, TARGET)


@dataclass(frozen=True)
class Coded:
    """A ``program`` as C: for its ``sizes``, or if it ``is_open`` for others as well. ``loose``
    buffers lie as a caller likes."""

    program: Program
    sizes: Mapping[str, int]
    is_open: bool = False
    loose: int = 0

    @cached_property
    def _specs(self) -> list[BufferSpec]:
        return specs_of(self.program, self.sizes, self.loose)

    @cached_property
    def _fitted(self) -> Fitted:
        given = [ScalarSpec(o.name, o.type.dtype.name, o.low) for o in self.program.scalars]
        return Fitted(self.program, self._specs, given, is_open=self.is_open)

    def begins_elsewhere(self, sizes: Mapping[str, int]) -> bool:
        """Whether buffers of other ``sizes`` do not begin where it has them."""
        others = specs_of(self.program, sizes, self.loose)
        return [one.mins for one in others] != [one.mins for one in self._specs]

    def source(self, contract: Contract, choices: Random | None = None, stages: str = "") -> str:
        """Its text under ``contract``; its knobs are as ``choices`` say, or have their first,
        except for ``stages``."""
        chosen = choices.choice if choices is not None else itemgetter(0)
        knobs = {knob.name: knob.choices for knob in self._fitted.knobs}
        config = Config(
            {
                name: stages if stages in choices else chosen(choices)
                for name, choices in knobs.items()
            }
        )
        return self._fitted.source(_problem(contract), config)

    def called(
        self,
        inputs: Mapping[str, np.ndarray],
        scalars: Mapping[str, int],
        folder: Path,
        choices: Random | None = None,
        contract: Contract = Contract.STATIC,
        sizes: Mapping[str, int] | None = None,
        fewer: int = 0,
        *,
        is_dense: bool = False,
    ) -> dict[str, np.ndarray]:
        """What it makes of its arguments, none of it by what C leaves undefined. Its knobs are as
        ``choices`` say, or have their first; it is compiled under ``contract``, and called with
        ``sizes``. Rows lie densely if ``is_dense``, and inputs end ``fewer`` elements before what
        is read; ``RefusedError`` if the code refuses the call."""
        program, known = self.program, self._specs
        specs = specs_of(program, sizes or self.sizes, self.loose)
        specs = [one._replace(promised=own.promised) for one, own in zip(specs, known, strict=True)]
        source, library = folder / "program.c", folder / "program.so"
        source.write_text(self.source(contract, choices))
        compiled(*OPTIONS, CHECKED, "-c", "-o", f"{folder}/program.o", str(source))
        # Linked without the option: what its checks call is here.
        compiled("-shared", "-o", str(library), f"{folder}/program.o", str(_around()))
        arrays = [
            _LaidOut(spec, contract, None if is_dense else number, inputs.get(spec.name))
            for number, spec in enumerate(specs)
        ]
        buffers = [_buffer(spec, one.array) for spec, one in zip(specs, arrays, strict=True)]
        count = len(program.inputs)
        values = [
            getattr(ctypes, f"c_{one.type.dtype.name}")(scalars[one.name])
            for one in program.scalars
        ]
        pointers = [ctypes.byref(one) for one in buffers]
        made = ctypes.CDLL(str(library))
        for one in buffers[:count]:
            one.dim[0].extent -= fewer
        if made[_problem(contract).symbol](*pointers[:count], *values, *pointers[count:]):
            raise RefusedError
        assert ctypes.c_int.in_dll(made, "undefined").value == 0
        for one in arrays:
            one.require_untouched()
        return {
            spec.name: one.array.copy()
            for spec, one in zip(specs, arrays, strict=True)
            if spec.role == "output"
        }


class _LaidOut:
    """An ``array`` as a caller may have it who keeps ``contract``, with ``values`` in it; of a
    ``number`` padded. Nobody may touch the page behind its last element (as near as it may end,
    where an aligned address is promised), nor the one before its memory."""

    def __init__(
        self, spec: BufferSpec, contract: Contract, number: int | None, values: np.ndarray | None
    ) -> None:
        layout = layout_of(spec, contract, TARGET)
        if number is not None:
            layout = other_layout_of(spec, contract, TARGET, number)
        size = spec.element_bytes
        steps = zip(spec.shape, layout.strides, strict=True)
        last = sum((extent - 1) * stride for extent, stride in steps)
        span = size * (1 + last)
        pages = -(-span // _PAGE) + 1
        memory = mmap.mmap(-1, (pages + 2) * _PAGE)
        self._bytes = np.frombuffer(memory, np.uint8)
        self._bytes[:] = _PADDING
        first = self._bytes.ctypes.data
        for edge in (0, (pages + 1) * _PAGE):
            assert _LIBC.mprotect(ctypes.c_void_p(first + edge), _PAGE, _NOTHING) == 0
        self._bytes = self._bytes[_PAGE:-_PAGE]
        latest = len(self._bytes) - span
        is_aligned = layout.host_offset_bytes == 0
        start = latest - (latest % TARGET.vector_alignment_bytes if is_aligned else 0)
        strides = tuple(size * stride for stride in layout.strides)
        self.array: np.ndarray = np.ndarray(spec.shape, spec.dtype, self._bytes, start, strides)
        if values is not None and values.size:
            self.array[...] = values
        self._before, self._is_input = self._bytes.copy(), values is not None
        self._start = start

    def require_untouched(self) -> None:
        """That nothing was stored but elements of outputs."""
        after = self._bytes.copy()
        if not self._is_input:
            of = np.ndarray(
                self.array.shape, self.array.dtype, after, self._start, self.array.strides
            )
            of[...] = np.frombuffer(bytes([_PADDING]) * of.itemsize, of.dtype)[0]
        assert (after == self._before).all(), "it stores beyond its outputs"


_LIBC = ctypes.CDLL(None)


def _buffer(spec: BufferSpec, array: np.ndarray) -> Buffer:
    mins = spec.mins or (0,) * len(spec.shape)
    strides: Sequence[int] = [stride // spec.element_bytes for stride in array.strides]
    places = list(zip(mins, spec.shape, strides, strict=True))[::-1]
    dimensions = (Dimension * len(places))(*(Dimension(*place, 0) for place in places))
    return Buffer(host=array.ctypes.data, dimensions=len(places), dim=dimensions)
