"""Kernels as plain C, vectorized for HVX by clang.

A kernel's loops are in ``c_forms/KERNEL.c`` beside the kernel, further forms in ``KERNEL.NAME.c``.
They are wrapped as a function that is called like Halide's. In scope of the loops are, for each
buffer ``B`` of the kernel, a pointer ``B`` to its first element and ``B_extent_D`` and
``B_stride_D`` for its dimensions, 0 innermost (``B_stride_0`` is 1 and has no name): constants
under the contract ``static``, else what the caller gives. Parameters of the kernel that are not
extents are constants by their own names. ``prelude.h`` has the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tuner.codegen import clang
from tuner.codegen.halide.servers import ServerGenerator
from tuner.codegen.toolchain import find_toolchain
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, find_kernel, kernel_names
from tuner.kernels.sources import content_of
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Knob, Space

_INPUT = "input.c"
_INTERLEAVE = Knob("c_interleave", (1, 2), "vectors of one loop side by side")
_CLANG_KNOBS = tuple(k for k in clang.KNOBS if k.name in ("llvm_unroll", "llvm_combine"))
"""The others hardly change such code: eight points a form, for searches that try C by the way."""
SWITCHES = ("-std=gnu17", "-ffreestanding", "-nostdinc", "-fno-stack-protector", "-fvectorize")
_VECTORIZE = ("-mllvm", "-hexagon-autohvx")


class CGenerator(ServerGenerator):
    """Code for kernels that have a C form (:func:`c_forms`); the space is a handful of points."""

    name = "c-autovec"

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        forms = c_forms(kernel)
        if not forms:
            raise UserError(
                f"{kernel.name} has no C form, which the generator '{cls.name}' needs",
                accepted=", ".join(n for n in kernel_names() if c_forms(find_kernel(n))),
                next_step="choose another one with --generator, such as halide",
            )
        return Space(kernel.name, _knobs(tuple(forms)))

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        """Default: the plain form with clang's defaults. Textbook: the last form."""
        space = cls.space(kernel, problem)
        plain = {knob.name: knob.choices[0] for knob in space.knobs}
        last = list(c_forms(kernel))[-1]
        return {"default": Config(plain), "textbook": Config({**plain, "c_form": last})}

    def fingerprint(self) -> Mapping[str, str]:
        return {
            "generator": self.name,
            "clang": find_toolchain().version,
            "clang switches": " ".join((*clang.BASE_SWITCHES, *SWITCHES)),
            "c forms": digest_of_forms()[:16],
        }

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem, config = candidate.problem, candidate.config
        kernel = find_kernel(problem.workload.kernel)
        loops = content_of(c_forms(kernel)[config.text("c_form")]).decode()
        source = translation_unit(kernel, problem, loops).encode()
        interleave = f"-force-vector-interleave={config.integer('c_interleave')}"
        options = [*SWITCHES, *_VECTORIZE, "-mllvm", interleave, *clang.switches(config)]
        with self.servers.one() as server:
            files = clang.compiled(
                self.servers,
                server,
                problem.target,
                (_INPUT, source),
                options,
                with_assembly=with_assembly,
            )
        # The loops as they are stand for the loop nest of a schedule.
        files |= {"header": header(kernel, problem).encode(), "loopnest": source}
        return Artifact(digest_of_bytes(files[clang.OBJECT]), problem.symbol, files)


@cache
def _knobs(forms: tuple[str, ...]) -> tuple[Knob, ...]:
    return (Knob("c_form", forms, "which of the kernel's forms"), _INTERLEAVE, *_CLANG_KNOBS)


def digest_of_forms() -> str:
    """Names the loops of all kernels and what is put around them."""
    paths = [PRELUDE, Path(__file__)]
    for name in sorted(kernel_names()):
        paths += c_forms(find_kernel(name)).values()
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in paths))


_FOLDER = "c_forms"
_PLAIN = "plain"


def c_forms(kernel: Kernel) -> dict[str, Path]:
    """The files with the loops of ``kernel`` by their names, ``plain`` first; empty without one."""
    module = sys.modules[type(kernel).__module__]
    return {} if module.__file__ is None else _found(Path(module.__file__).parent, kernel.name)


@cache
def _found(folder: Path, kernel: str) -> dict[str, Path]:
    plain = folder / _FOLDER / f"{kernel}.c"
    if not plain.is_file():
        return {}
    others = sorted(plain.parent.glob(f"{kernel}.*.c"))
    return {_PLAIN: plain, **{path.name.split(".")[1]: path for path in others}}


PRELUDE = Path(__file__).with_name("prelude.h")


@dataclass(frozen=True)
class _Extent:
    """An extent or a stride of a buffer: its name, where a call has it, and its static value."""

    name: str
    place: str
    value: int
    multiple: int = 1
    """A divisor that the contract promises."""


def translation_unit(kernel: Kernel, problem: Problem, loops: str) -> str:
    """The C of ``problem`` with the ``loops`` of one of the kernel's forms."""
    params = problem.workload.params
    constants = {p.name: params[p.name] for p in kernel.params if not p.is_extent}
    return wrapped(problem, kernel.buffers(params), constants, loops)


def wrapped(
    problem: Problem,
    buffers: tuple[BufferSpec, ...],
    constants: Mapping[str, int],
    loops: str,
    functions: str = "",
) -> str:
    """A function that is called like Halide's, of ``loops`` between ``buffers``, which have names
    of C. ``constants`` are in scope of the loops, and ``functions`` before them."""
    extents = [e for spec in buffers for e in _extents(spec, problem)]
    static = problem.contract is Contract.STATIC
    if static:
        constants = {**constants, **{e.name: e.value for e in extents}}
    given = [] if static else [f"const int {e.name}" for e in extents]
    pointers = [f"{_c_type(spec)} *restrict {spec.name}" for spec in buffers]
    passed = [f"(void *){_argument(spec)}->host" for spec in buffers]
    passed += [] if static else [e.place for e in extents]
    return "\n".join(
        [
            f"enum {{ VECTOR_BYTES = {problem.target.vector_bytes} }};",
            PRELUDE.read_text(),
            *(f"enum {{ {name} = {value} }};" for name, value in constants.items()),
            functions,
            # Inlined, it would lose some of what restrict says.
            f"static __attribute__((noinline)) int kernel({', '.join(pointers + given)}) {{",
            *_assumptions(problem, buffers, extents),
            "struct held held __attribute__((cleanup(release))) = {0};",
            loops,
            "return 0;",
            "}",
            f"{_signature(problem, buffers)} {{",
            *_checks(problem, buffers, extents),
            f"return kernel({', '.join(passed)});",
            "}",
            "",
        ]
    )


def header(kernel: Kernel, problem: Problem) -> str:
    """Declares the function for C and C++; HalideRuntime.h describes its arguments."""
    return declaration(problem, kernel.buffers(problem.workload.params))


def declaration(problem: Problem, buffers: tuple[BufferSpec, ...]) -> str:
    """The header of the function that :func:`wrapped` makes."""
    guard = f"HVXTUNE_{problem.symbol}_H"
    signature = _signature(problem, buffers)
    return (
        f'#ifndef {guard}\n#define {guard}\n\n#ifdef __cplusplus\nextern "C" {{\n#endif\n\n'
        f"struct halide_buffer_t;\n{signature};\n\n#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    )


def _signature(problem: Problem, buffers: tuple[BufferSpec, ...]) -> str:
    arguments = ", ".join(f"struct halide_buffer_t *{_argument(spec)}" for spec in buffers)
    return f"int {problem.symbol}({arguments})"


def _argument(spec: BufferSpec) -> str:
    return f"_{spec.name}_buffer"


def _c_type(spec: BufferSpec) -> str:
    return f"{'const ' if spec.role == 'input' else ''}{spec.dtype}_t"


def _extents(spec: BufferSpec, problem: Problem) -> Iterator[_Extent]:
    strides = layout_of(spec, problem.contract, problem.target).strides
    lanes = problem.target.vector_alignment_bytes // spec.element_bytes
    level = problem.contract.level if spec.promised else 0
    for dimension, (extent, stride) in enumerate(
        zip(reversed(spec.shape), reversed(strides), strict=True)
    ):
        place = f"{_argument(spec)}->dim[{dimension}]"
        whole = dimension == 0 and level >= Contract.EXTENT.level
        name = f"{spec.name}_extent_{dimension}"
        yield _Extent(name, f"{place}.extent", extent, lanes if whole else 1)
        if dimension:
            whole = level >= Contract.STRIDE.level
            name = f"{spec.name}_stride_{dimension}"
            yield _Extent(name, f"{place}.stride", stride, lanes if whole else 1)


def _assumptions(
    problem: Problem, buffers: tuple[BufferSpec, ...], extents: list[_Extent]
) -> Iterator[str]:
    """Tells clang the promises of the contract where the loops are: it does not see callers."""
    if problem.contract is not Contract.NONE:
        for spec in buffers:
            bytes_ = problem.target.vector_alignment_bytes
            yield f"{spec.name} = __builtin_assume_aligned({spec.name}, {bytes_});"
    if problem.contract is not Contract.STATIC:
        for extent in extents:
            if extent.multiple > 1:
                yield f"__builtin_assume({extent.name} % {extent.multiple} == 0);"


def _checks(
    problem: Problem, buffers: tuple[BufferSpec, ...], extents: list[_Extent]
) -> Iterator[str]:
    """Refuses calls that break the contract, with Halide's error codes."""
    for spec in buffers:
        for dimension in range(len(spec.shape)):
            yield _refuse(f"{_argument(spec)}->dim[{dimension}].min != 0", "CONSTRAINT_VIOLATED")
        yield _refuse(f"{_argument(spec)}->dim[0].stride != 1", "CONSTRAINT_VIOLATED")
        if problem.contract is not Contract.NONE:
            mask = problem.target.vector_alignment_bytes - 1
            yield _refuse(f"(uintptr_t){_argument(spec)}->host & {mask}", "UNALIGNED_HOST")
    for extent in extents:
        if problem.contract is Contract.STATIC:
            yield _refuse(f"{extent.place} != {extent.name}", "CONSTRAINT_VIOLATED")
        elif extent.multiple > 1:
            yield _refuse(f"{extent.place} % {extent.multiple}", "CONSTRAINT_VIOLATED")


def _refuse(condition: str, code: str) -> str:
    return f"if ({condition}) return {code};"
