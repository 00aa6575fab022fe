"""What a candidate is verified on: inputs that find wrong code, with the reference's outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tuner.buffers import BufferLayout, BufferSpec, ScalarSpec, layout_of
from tuner.candidate import Problem
from tuner.contract import Contract
from tuner.errors import InternalError
from tuner.kernels import Kernel, find_kernel
from tuner.kernels.kernel import Array
from tuner.target import Target

CASES_VERSION = "3"
"""Raise it when other inputs or layouts are chosen: part of the toolchain fingerprint."""
LARGE_BYTES = 1 << 25
"""Problems with more bytes of buffers than this are verified on two cases instead of all."""


@dataclass(frozen=True)
class Argument:
    """One buffer of a case: what it is, how it lies in memory, and its elements.

    ``elements`` has the shape of ``spec``: an input's values, or what the output must become.
    """

    spec: BufferSpec
    layout: BufferLayout
    elements: Array


@dataclass(frozen=True)
class Case:
    """One call of the candidate. ``name`` says for people what is special about the inputs.
    ``scalars`` are passed between inputs and outputs."""

    name: str
    arguments: tuple[Argument, ...]
    scalars: tuple[ScalarSpec, ...] = ()


def _described(argument: Argument) -> str:
    # What is loose tells in the layout: digests from before anything was stay as they are.
    spec = argument.spec
    named = ", ".join(f"{name}={getattr(spec, name)!r}" for name in spec._fields if name != "loose")
    return f"BufferSpec({named}) {argument.layout}"


@dataclass(frozen=True)
class CaseSet:
    """All cases of a problem; the first is the one that is timed."""

    cases: tuple[Case, ...]

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

    Random values over the whole range first (that call is timed), then a mix of the extremes of
    each dtype, all at the maximum, all zero; under a contract that leaves the shape open also
    random values in the kernel's other shapes, and with loose buffers the first call again where
    they lie as the contract says. Large problems keep the first two.
    """
    workload = problem.workload
    kernel = find_kernel(workload.kernel)
    if kernel.version != workload.version:
        raise InternalError(f"{workload.label} is version {workload.version}, not {kernel.version}")
    # Seeded by the problem: independent of the order in which problems come up. And by no more of
    # it than people name: a comment in the kernel's file changes nothing that is measured.
    named_problem = replace(problem, workload=replace(workload, source=""))
    rng = np.random.default_rng(int(named_problem.digest[:16], 16))
    params = dict(workload.params)
    random = kernel.inputs(params, rng)
    named = [("random values", random), ("extreme values", _extremes(random, rng))]
    is_large = sum(spec.payload_bytes for spec in kernel.buffers(params)) > LARGE_BYTES
    if not is_large:
        named.append(("maximum values", [np.full_like(a, np.iinfo(a.dtype).max) for a in random]))
        named.append(("zeros", [np.zeros_like(a) for a in random]))
        named += kernel.edge_inputs(params).items()
    outputs = kernel.references(params, [inputs for _, inputs in named])
    specs, scalars = kernel.buffers(params), kernel.scalars(params)
    cases = [
        case_of(name, specs, [*inputs, *made], problem.contract, problem.target, scalars)
        for (name, inputs), made in zip(named, outputs, strict=True)
    ]
    if any(spec.loose for spec in specs) and not is_large:
        # Aligned addresses are any addresses too, and code may tell them apart when it runs.
        tight = [spec._replace(loose=0) for spec in specs]
        elements = [argument.elements for argument in cases[0].arguments]
        name = "random values, no buffer loose"
        cases.append(case_of(name, tight, elements, problem.contract, problem.target, scalars))
    for other in kernel.other_shapes(problem):
        label = " ".join(f"{name}={value}" for name, value in other.items())
        cases.append(_case(f"shape {label}", kernel, other, kernel.inputs(other, rng), problem))
    return CaseSet(tuple(cases))


def _extremes(like: Sequence[Array], rng: np.random.Generator) -> list[Array]:
    mixed = []
    for array in like:
        bounds = np.array([np.iinfo(array.dtype).min, np.iinfo(array.dtype).max], array.dtype)
        mixed.append(rng.choice(bounds, array.shape))
    return mixed


def _case(
    name: str, kernel: Kernel, params: dict[str, int], inputs: Sequence[Array], problem: Problem
) -> Case:
    outputs = kernel.reference(params, inputs)
    specs, scalars = kernel.buffers(params), kernel.scalars(params)
    return case_of(name, specs, [*inputs, *outputs], problem.contract, problem.target, scalars)


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
