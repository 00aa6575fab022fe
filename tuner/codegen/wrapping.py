"""C functions that are called like Halide's, around loops between buffers.

In scope of the loops are, for each buffer ``B``, a pointer ``B`` to its first element and
``B_extent_D`` and ``B_stride_D`` for its dimensions, 0 innermost (``B_stride_0`` is 1 and has no
name): constants where the contract fixes them, else what the caller gives. ``prelude.h`` has the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.kernels import Kernel
from tuner.problem.buffers import BufferSpec, ScalarSpec, layout_of, promised_strides
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem

PRELUDE = Path(__file__).with_name("prelude.h")
STORING = Path(__file__).with_name("storing.h")
"""Stores of less than a vector."""


@dataclass(frozen=True)
class _Extent:
    """An extent or a stride of a buffer: its name, where a call has it, its value, and whether the
    contract fixes it."""

    name: str
    place: str
    value: int
    is_fixed: bool
    multiple: int = 1
    """A divisor that the contract promises."""


def wrapped(
    problem: Problem,
    buffers: tuple[BufferSpec, ...],
    constants: Mapping[str, int],
    loops: str,
    functions: str = "",
    scalars: tuple[ScalarSpec, ...] = (),
) -> str:
    """A function that is called like Halide's, of ``loops`` between ``buffers``, which have names
    of C. ``constants`` and ``scalars`` are in scope of the loops, and ``functions`` before them."""
    extents = [e for spec in buffers for e in _extents(spec, problem)]
    constants = {**constants, **{e.name: e.value for e in extents if e.is_fixed}}
    passed = [f"(void *){_argument(spec)}->host" for spec in buffers]
    passed += [one.name for one in scalars]
    passed += [e.place for e in extents if not e.is_fixed]
    return "\n".join(
        [
            f"enum {{ VECTOR_BYTES = {problem.target.vector_bytes} }};",
            PRELUDE.read_text(),
            *(f"enum {{ {name} = {value} }};" for name, value in constants.items()),
            functions,
            function("kernel", problem, buffers, loops, scalars),
            f"{_signature(problem, buffers, scalars)} {{",
            *_checks(problem, buffers, extents),
            f"return kernel({', '.join(passed)});",
            "}",
            "",
        ]
    )


def function(
    name: str,
    problem: Problem,
    buffers: Sequence[BufferSpec],
    loops: str,
    scalars: tuple[ScalarSpec, ...] = (),
    *,
    is_apart: bool = False,
) -> str:
    """The function ``name`` of ``loops``, called with what :func:`arguments` has. If it
    ``is_apart``, what the contract fixes of its buffers is known to it alone."""
    extents = [e for spec in buffers for e in _extents(spec, problem)]
    given = [f"{element_type(spec)} *restrict {spec.name}" for spec in buffers]
    given += [f"const {one.dtype}_t {one.name}" for one in scalars]
    given += [f"const int {e.name}" for e in extents if not e.is_fixed]
    fixed = [f"enum {{ {e.name} = {e.value} }};" for e in extents if e.is_fixed and is_apart]
    return "\n".join(
        [
            # Inlined, it would lose some of what restrict says.
            f"static __attribute__((noinline)) int {name}({', '.join(given)}) {{",
            *fixed,
            *_assumptions(problem, buffers, extents),
            "struct held held __attribute__((cleanup(release))) = {0};",
            loops,
            "return 0;",
            "}",
        ]
    )


def arguments(problem: Problem, buffers: Sequence[BufferSpec], *scalars: str) -> list[str]:
    """Those of a :func:`function` of ``buffers``, where these have their own names."""
    extents = [e for spec in buffers for e in _extents(spec, problem)]
    named = [e.name for e in extents if not e.is_fixed]
    return [*(spec.name for spec in buffers), *scalars, *named]


def header(kernel: Kernel, problem: Problem) -> str:
    """Declares the function for C and C++; HalideRuntime.h describes its arguments."""
    return declaration(problem, kernel.buffers(problem.workload.params))


def declaration(
    problem: Problem, buffers: tuple[BufferSpec, ...], scalars: tuple[ScalarSpec, ...] = ()
) -> str:
    """The header of the function that :func:`wrapped` makes."""
    guard = f"HVXTUNE_{problem.symbol}_H"
    signature = _signature(problem, buffers, scalars)
    integers = "#include <stdint.h>\n\n" if scalars else ""
    return (
        f"#ifndef {guard}\n#define {guard}\n\n{integers}"
        f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n'
        f"struct halide_buffer_t;\n{signature};\n\n#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    )


def _signature(
    problem: Problem, buffers: tuple[BufferSpec, ...], scalars: tuple[ScalarSpec, ...]
) -> str:
    """Inputs, scalars, outputs: Halide's order."""
    pointers = [f"struct halide_buffer_t *{_argument(spec)}" for spec in buffers]
    inputs = sum(spec.role == "input" for spec in buffers)
    values = [f"{one.dtype}_t {one.name}" for one in scalars]
    arguments = [*pointers[:inputs], *values, *pointers[inputs:]]
    return f"int {problem.symbol}({', '.join(arguments)})"


def _argument(spec: BufferSpec) -> str:
    return f"_{spec.name}_buffer"


_C_FLOATS = {"float32": "float", "float16": "uint16_t"}
"""16-bit floats are passed by their bits: whether C has a type for them depends on the compiler."""


def element_type(spec: BufferSpec) -> str:
    """The C type of the elements of ``spec``, constant for an input."""
    name = _C_FLOATS.get(spec.dtype, f"{spec.dtype}_t")
    return f"const {name}" if spec.role == "input" else name


def _extents(spec: BufferSpec, problem: Problem) -> Iterator[_Extent]:
    strides = layout_of(spec, problem.contract, problem.target).strides
    lanes = problem.target.vector_alignment_bytes // spec.element_bytes
    level = problem.contract.level if spec.promised and not spec.loose else 0
    is_static = problem.contract is Contract.STATIC
    fixed_strides = promised_strides(spec, problem.contract)
    for dimension, (extent, stride) in enumerate(
        zip(reversed(spec.shape), reversed(strides), strict=True)
    ):
        place = f"{_argument(spec)}->dim[{dimension}]"
        whole = dimension == 0 and level >= Contract.EXTENT.level
        name = f"{spec.name}_extent_{dimension}"
        yield _Extent(name, f"{place}.extent", extent, is_static, lanes if whole else 1)
        if dimension:
            whole = level >= Contract.STRIDE.level
            name = f"{spec.name}_stride_{dimension}"
            is_fixed = is_static and dimension < fixed_strides
            yield _Extent(name, f"{place}.stride", stride, is_fixed, lanes if whole else 1)


def _assumptions(
    problem: Problem, buffers: Sequence[BufferSpec], extents: list[_Extent]
) -> Iterator[str]:
    """Tells clang the promises of the contract where the loops are: it does not see callers."""
    for spec in buffers:
        if _begins_aligned(spec, problem):
            bytes_ = problem.target.vector_alignment_bytes
            yield f"{spec.name} = __builtin_assume_aligned({spec.name}, {bytes_});"
    for extent in extents:
        if extent.multiple > 1 and not extent.is_fixed:
            yield f"__builtin_assume({extent.name} % {extent.multiple} == 0);"


def _begins_aligned(spec: BufferSpec, problem: Problem) -> bool:
    return problem.contract is not Contract.NONE and not spec.loose


def _checks(
    problem: Problem, buffers: tuple[BufferSpec, ...], extents: list[_Extent]
) -> Iterator[str]:
    """Refuses calls that break the contract, with Halide's error codes."""
    for spec in buffers:
        for dimension in range(len(spec.shape)):
            least = spec.mins[-1 - dimension] if spec.mins else 0
            place = f"{_argument(spec)}->dim[{dimension}].min"
            yield _refuse(f"{place} != {least}", "CONSTRAINT_VIOLATED")
        yield _refuse(f"{_argument(spec)}->dim[0].stride != 1", "CONSTRAINT_VIOLATED")
        if _begins_aligned(spec, problem):
            mask = problem.target.vector_alignment_bytes - 1
            yield _refuse(f"(uintptr_t){_argument(spec)}->host & {mask}", "UNALIGNED_HOST")
    for extent in extents:
        if extent.is_fixed:
            yield _refuse(f"{extent.place} != {extent.name}", "CONSTRAINT_VIOLATED")
        elif extent.multiple > 1:
            yield _refuse(f"{extent.place} % {extent.multiple}", "CONSTRAINT_VIOLATED")


def _refuse(condition: str, code: str) -> str:
    return f"if ({condition}) return {code};"
