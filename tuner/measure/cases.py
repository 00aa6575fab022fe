"""Verification cases: inputs that find wrong code, with the reference's outputs.

The first case is timed, on buffers as a caller that keeps the contract and nothing more usually has
them. The others try all that the contract leaves open beside the inputs: strides, addresses, a
smaller and a much larger shape, and the content of uninitialised memory.

That is one of two patterns, the poison, the second the complement of the first: whatever bit a
candidate reads that is not initialised differs between two runs on the same inputs. No byte of
either is 0, so nothing reads as zero by chance, and bytes depend on their place, so that no two of
them cancel out.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.errors import DeviceError, InternalError, UserError
from tuner.kernels import Kernel, find_kernel
from tuner.kernels.kernel import Array
from tuner.kernels.shapes import LARGE_BYTES, MOST_WORK, SMALLER, bytes_of, is_too_much
from tuner.problem.buffers import BufferLayout, BufferSpec, ScalarSpec, layout_of, other_layout_of
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.tolerance import Tolerance
from tuner.records.candidate import Problem

CASES_VERSION = "4"
"""Raise it when other inputs or layouts are chosen: part of the toolchain fingerprint."""


@dataclass(frozen=True)
class Argument:
    """One buffer of a case: what it is, how it lies in memory, and its elements.

    ``elements`` has the shape of ``spec``: an input's values, or what the output must become, in
    every bit unless there is a ``tolerance``.
    """

    spec: BufferSpec
    layout: BufferLayout
    elements: Array
    tolerance: Tolerance | None = None


@dataclass(frozen=True)
class Case:
    """One call of the candidate. ``name`` says for people what is special about the inputs.
    ``scalars`` are passed between inputs and outputs. ``poison`` is the pattern in memory and
    registers. Of a ``watched`` case every access is checked, where the measurer can see them, as of
    the first; such cases are small and follow the first. One that ``may_refuse`` may be answered
    with an error instead of outputs."""

    name: str
    arguments: tuple[Argument, ...]
    scalars: tuple[ScalarSpec, ...] = ()
    poison: int = 0
    watched: bool = False
    may_refuse: bool = False

    def told(self, argument: Argument) -> str:
        """For messages about ``argument``: the case, and how the buffer lies in it."""
        dense = tuple(prod(argument.spec.shape[at + 1 :]) for at in range(len(argument.spec.shape)))
        layout = argument.layout
        strides = f", strides {' '.join(map(str, layout.strides))}" * (layout.strides != dense)
        offset = layout.host_offset_bytes
        off = f", {offset} bytes off alignment" * bool(offset)
        return f"{self.name}{strides}{off}, poison {'AB'[self.poison]}"


def _described(argument: Argument) -> str:
    # What is loose tells in the layout: digests from before anything was stay as they are.
    spec = argument.spec
    named = ", ".join(f"{name}={getattr(spec, name)!r}" for name in spec._fields if name != "loose")
    near = "" if argument.tolerance is None else f" {argument.tolerance!r}"
    return f"BufferSpec({named}) {argument.layout}{near}"


@dataclass(frozen=True)
class CaseSet:
    """All cases of a problem; the first is the one that is timed."""

    cases: tuple[Case, ...]

    @property
    def watched(self) -> int:
        """How many of the first cases are watched."""
        return 1 + sum(case.watched for case in self.cases)

    @cached_property
    def digest(self) -> str:
        """Names inputs, expected outputs and layouts: part of what decides a measurement."""
        content = hashlib.sha256()
        for case in self.cases:
            for scalar in case.scalars:
                content.update(f"{case.name} {scalar}".encode())
            for argument in case.arguments:
                content.update(f"{case.name} {_described(argument)}".encode())
                content.update(np.ascontiguousarray(argument.elements).data)
        return content.hexdigest()


def cases_of(problem: Problem) -> CaseSet:
    """The verification cases of ``problem``, the same in every process.

    Random values over the whole range first (that call is timed). Then, under a contract that
    leaves the shape open, random values in a smaller and in a much larger shape; a mix of the
    extremes of each dtype, all at the maximum, all zero, the kernel's own edge inputs; random
    values in the kernel's other shapes. All but the first lie otherwise than the first, as the
    contract allows; with loose buffers the first call comes again where they lie well. Large
    problems keep the first two of the shape itself.
    """
    workload = problem.workload
    kernel = find_kernel(workload.kernel)
    if kernel.version != workload.version:
        raise InternalError(f"{workload.label} is version {workload.version}, not {kernel.version}")
    # Seeded by the problem: independent of the order in which problems come up. And by no more of
    # it than people name: a comment in the kernel's file changes nothing that is measured.
    named_problem = replace(problem, workload=replace(workload, kernel=kernel.known_as, source=""))
    rng = np.random.default_rng(int(named_problem.digest[:16], 16))
    params = dict(workload.params)
    specs, scalars = kernel.buffers(params), kernel.scalars(params)
    is_large = sum(spec.payload_bytes for spec in specs) > LARGE_BYTES
    named = _inputs(kernel, params, rng, is_large=is_large)
    outputs = kernel.references(params, [inputs for _, inputs in named])
    first, *others = (
        case_of(name, specs, [*inputs, *made], problem.contract, problem.target, scalars)
        for (name, inputs), made in zip(named, outputs, strict=True)
    )
    if any(spec.loose for spec in specs) and not is_large:
        # Aligned addresses are any addresses too, and code may tell them apart when it runs.
        tight = [spec._replace(loose=0) for spec in specs]
        elements = [argument.elements for argument in first.arguments]
        name = "random values, no buffer loose"
        others.append(case_of(name, tight, elements, problem.contract, problem.target, scalars))
    shapes = kernel.other_shapes(problem)
    others += [
        replace(_shaped("shape", kernel, other, rng, problem), may_refuse=kernel.refuses_shapes)
        for other in shapes
    ]
    varied = [
        _varied(case, number, problem, lies_otherwise=not is_large)
        for number, case in enumerate(others)
    ]
    cases = (replace(first, poison=1), *_watched_shapes(kernel, problem, rng), *varied)
    tolerances = kernel.tolerances()
    return CaseSet(tuple(_tolerant(case, tolerances) for case in cases) if tolerances else cases)


def far_cases_of(problem: Problem) -> CaseSet:
    """Cases beyond what 16 bits count, of :meth:`tuner.kernels.Kernel.far_shapes`: elements, rows
    and columns, as far as the contract leaves them open; none under ``static``. Much more work
    than :func:`cases_of`: for code that is about to become a job's best."""
    kernel = find_kernel(problem.workload.kernel)
    rng = np.random.default_rng(_SEED)
    cases = []
    for number, params in enumerate(far_shapes_of(problem)):
        case = replace(_shaped("far shape", kernel, params, rng, problem), may_refuse=True)
        cases.append(_tolerant(_varied(case, number, problem), kernel.tolerances()))
    return CaseSet(tuple(cases))


def far_shapes_of(problem: Problem) -> list[dict[str, int]]:
    """The parameters of :func:`far_cases_of`: of shapes whose buffers are not large, and which take
    no more work than the problem or :data:`tuner.kernels.shapes.MOST_WORK`."""
    kernel = find_kernel(problem.workload.kernel)
    shapes, found = kernel.far_shapes(problem), []
    most = max(kernel.work(problem.workload.params).total, MOST_WORK) if shapes else 0
    for shape in shapes.values():
        try:
            params = dict(kernel.workload(shape).params)
        except UserError:
            continue  # no shape of this kernel
        if bytes_of(kernel, params) <= LARGE_BYTES and not is_too_much(kernel, params, most):
            found.append(params)
    return found


def _tolerant(case: Case, tolerances: Mapping[str, Tolerance]) -> Case:
    arguments = tuple(
        replace(argument, tolerance=tolerances.get(argument.spec.name))
        for argument in case.arguments
    )
    return replace(case, arguments=arguments)


def _inputs(
    kernel: Kernel, params: dict[str, int], rng: np.random.Generator, *, is_large: bool
) -> list[tuple[str, list[Array]]]:
    """The inputs of the shape itself, by their names; those of the first are timed."""
    given = kernel.given_inputs(params)
    if given:
        return [*given.items()]
    random = kernel.inputs(params, rng)
    named = [("random values", random), ("extreme values", _extremes(random, rng))]
    if not is_large:
        named.append(("maximum values", [np.full_like(a, _limits(a.dtype).max) for a in random]))
        named.append(("zeros", [np.zeros_like(a) for a in random]))
        named += kernel.edge_inputs(params).items()
    return [(name, kernel.allowed_inputs(params, inputs)) for name, inputs in named]


def _varied(case: Case, number: int, problem: Problem, *, lies_otherwise: bool = True) -> Case:
    """``case`` as the ``number``-th of its kind: its poison, and a layout that no other has."""
    if not lies_otherwise:
        return replace(case, poison=number % 2)
    count = len(case.arguments)
    arguments = tuple(
        replace(
            argument,
            layout=other_layout_of(
                argument.spec, problem.contract, problem.target, place + count * number
            ),
        )
        for place, argument in enumerate(case.arguments)
    )
    return replace(case, arguments=arguments, poison=number % 2)


def _watched_shapes(kernel: Kernel, problem: Problem, rng: np.random.Generator) -> Iterator[Case]:
    """The smaller one under both poisons, in two layouts; the larger one once: it is more work."""
    for kind, params in kernel.verified_shapes(problem).items():
        case = _shaped(f"{kind} shape", kernel, params, rng, problem)
        case = replace(case, watched=True, may_refuse=True)
        runs = range(PATTERNS) if kind == SMALLER else (1,)
        yield from (_varied(case, number, problem) for number in runs)


def _extremes(like: Sequence[Array], rng: np.random.Generator) -> list[Array]:
    mixed = []
    for array in like:
        bounds = np.array([_limits(array.dtype).min, _limits(array.dtype).max], array.dtype)
        if array.dtype.kind == "f":
            least = np.finfo(array.dtype).tiny
            others = [least, -least, 0.0, -0.0, np.inf, -np.inf, np.nan]
            bounds = np.concatenate([bounds, np.array(others, array.dtype)])
        mixed.append(rng.choice(bounds, array.shape))
    return mixed


def _limits(dtype: np.dtype[Any]) -> np.iinfo[Any] | np.finfo[Any]:
    """The least and the greatest finite number."""
    return np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)


def _shaped(
    kind: str, kernel: Kernel, params: dict[str, int], rng: np.random.Generator, problem: Problem
) -> Case:
    """Random values in the shape ``params``; its name tells what differs from the problem's."""
    own = problem.workload.params
    label = " ".join(f"{name}={n}" for name, n in params.items() if n != own.get(name))
    inputs = kernel.inputs(params, rng)
    outputs = kernel.reference(params, inputs)
    specs, scalars = kernel.buffers(params), kernel.scalars(params)
    elements = [*inputs, *outputs]
    return case_of(f"{kind} {label}", specs, elements, problem.contract, problem.target, scalars)


def case_of(
    name: str,
    specs: Sequence[BufferSpec],
    elements: Sequence[Array],
    contract: Contract,
    target: Target,
    scalars: tuple[ScalarSpec, ...] = (),
) -> Case:
    """A case from the elements of all buffers, laid out as a caller keeping ``contract`` would.

    Raises ``InternalError`` if an array is not of its buffer's shape and dtype.
    """
    arguments = []
    for spec, array in zip(specs, elements, strict=True):
        if array.shape != spec.shape or array.dtype != np.dtype(spec.dtype):
            raise InternalError(
                f"buffer {spec.name} is {spec.dtype}{spec.shape}, the kernel made "
                f"{array.dtype}{array.shape}"
            )
        arguments.append(Argument(spec, layout_of(spec, contract, target), array))
    return Case(name, tuple(arguments), scalars)


Bytes = NDArray[np.uint8]

PAGE_BYTES = 1 << 16
"""Hexagon Linux pages; the patterns repeat after as many."""
PATTERNS = 2
_FILE_BYTES = 1 << 24
"""Of each pattern in the file: ``POISON_BYTES`` of harness/memory_map.h."""
_SEED = 0x706F6973


@cache
def poison(number: int) -> Bytes:
    """A page of pattern 0 or 1. Not to be written to."""
    first = np.random.default_rng(_SEED).integers(1, 254, PAGE_BYTES, np.uint8, endpoint=True)
    page = ~first if number else first
    page.flags.writeable = False
    return page


@cache
def poison_descriptor() -> int:
    """A file in memory with both patterns, one behind the other, for programs to map. Made once a
    process and sealed: nobody can change it. ``DeviceError`` without memory for it."""
    descriptor = os.memfd_create("poison", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for number in range(PATTERNS):
            content = np.tile(poison(number), _FILE_BYTES // PAGE_BYTES)
            if os.pwrite(descriptor, content.data, number * _FILE_BYTES) != _FILE_BYTES:
                raise OSError
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(descriptor)
        raise DeviceError(f"no memory for {PATTERNS * _FILE_BYTES} bytes of poison") from None
    return descriptor
