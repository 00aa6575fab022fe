"""Shapes that code is verified in where the contract leaves the shape open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol

from tuner.errors import UserError
from tuner.problem.buffers import BufferSpec, ragged
from tuner.problem.contract import Contract
from tuner.problem.workload import Param, Problem

SMALLER, LARGER = "smaller", "larger"
"""Than the shape that is tuned: names of :meth:`tuner.kernels.Kernel.verified_shapes`."""
NARROW, WIDE = 37, 1031
"""Extents of these shapes: below the narrowest vector, above 1,024."""
OF_THE_WORK, _HALVINGS = 4, 8
"""Such a shape takes a quarter of the problem's work; extents are halved eight times at most."""
FAR, _FAR_PRODUCT = (1 << 16) + 1, 1 << 19
"""An extent that no 16 bits count, and the product of the extents of such a shape, at most, unless
the problem's own is larger."""
LARGE_BYTES, MOST_WORK = 1 << 25, 1 << 28
"""More bytes of buffers take too long to verify in many ways, more operations time out: where loops
of a reduction follow an extent of the output, they grow with its square."""


class Work(Protocol):
    """The operations of one call."""

    @property
    def total(self) -> int: ...


class Shaped(Protocol):
    """What a kernel (:class:`tuner.kernels.kernel.Kernel`) says about its shapes."""

    @property
    def params(self) -> tuple[Param, ...]: ...
    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]: ...
    def work(self, params: Mapping[str, int]) -> Work: ...


def bytes_of(kernel: Shaped, params: Mapping[str, int]) -> int:
    """Of all buffers."""
    return sum(spec.payload_bytes for spec in kernel.buffers(params))


def is_too_much(kernel: Shaped, params: Mapping[str, int], most_work: int) -> bool:
    """Whether a shape takes more operations than ``most_work``, or the kernel refuses it."""
    try:
        return kernel.work(params).total > most_work
    except UserError:
        return True


def grown_shapes(kernel: Shaped, problem: Problem) -> list[dict[str, int]]:
    """One set of parameters with every extent a little larger, and as odd as the contract allows;
    none under ``static``."""
    if problem.contract is Contract.STATIC:
        return []
    larger = dict(problem.workload.params)
    for param in kernel.params:
        if not param.is_extent:
            continue
        value = larger[param.name]
        larger[param.name] = value + (param.multiple if param.multiple > 1 else 1 + value % 2)
        if not _keeps_extent(kernel, problem, larger):
            larger[param.name] = value + problem.target.vector_alignment_bytes
    return [larger]


def extreme_shapes(kernel: Shaped, problem: Problem) -> dict[str, dict[str, int]]:
    """A smaller and a much larger shape, by name; none under ``static``.

    In the first all extents are below a vector, or as small as the contract allows; in the second
    outputs have rows more than twice as wide as the problem's, of more than 1,024 elements, and
    fewer of them. Both are as odd as the contract allows, and cost little to run.
    """
    if problem.contract is Contract.STATIC:
        return {}
    return _Reshaping(kernel, problem).extremes()


def far_shapes(kernel: Shaped, problem: Problem) -> dict[str, dict[str, int]]:
    """For each extent, by its name, a shape in which it is beyond what 16 bits count, or as near
    as the kernel allows; none under ``static``. The others are halved in turn, so that it costs
    little to run."""
    if problem.contract is Contract.STATIC:
        return {}
    return _Reshaping(kernel, problem).far()


def _keeps_extent(kernel: Shaped, problem: Problem, params: Mapping[str, int]) -> bool:
    """Whether innermost extents are whole vectors, where the contract promises that."""
    is_promised = problem.contract is Contract.EXTENT
    return not is_promised or not any(ragged(kernel.buffers(params), problem.target))


@dataclass(frozen=True)
class _Reshaping:
    kernel: Shaped
    problem: Problem

    def extremes(self) -> dict[str, dict[str, int]]:
        tuned = self.problem.workload.params
        extents = [param for param in self.kernel.params if param.is_extent]
        wide = self._widening(extents, ("input", "output"))
        kept = self._widening(extents, ("output",)) or wide
        smaller = {p.name: min(NARROW, max(tuned[p.name] - p.multiple, 0)) for p in extents}
        larger = {
            p.name: max(WIDE, 2 * tuned[p.name] + 1) if p in wide else tuned[p.name]
            for p in extents
        }
        return {
            SMALLER: self._near(smaller, shrinking=extents),
            LARGER: self._near(larger, shrinking=[p for p in extents if p not in kept]),
        }

    def far(self) -> dict[str, dict[str, int]]:
        tuned = self.problem.workload.params
        extents = [p for p in self.kernel.params if p.is_extent and tuned[p.name] > 0]
        most = max(prod(tuned[p.name] for p in extents), _FAR_PRODUCT)
        shapes = {}
        for far in extents:
            found = {**tuned, far.name: max(self._odd(far, FAR), tuned[far.name])}
            for _ in range(_HALVINGS):
                for other in extents:
                    if other is not far and prod(found[p.name] for p in extents) > most:
                        found[other.name] = self._odd(other, found[other.name] // 2)
            if found[far.name] > tuned[far.name]:
                shapes[far.name] = found
        return shapes

    def _widening(self, extents: Sequence[Param], roles: Sequence[str]) -> list[Param]:
        """Those of ``extents`` that decide the innermost extent of a promised buffer."""
        params = self.problem.workload.params

        def widths(params: Mapping[str, int]) -> list[int]:
            specs = self.kernel.buffers(params)
            return [spec.shape[-1] for spec in specs if spec.promised and spec.role in roles]

        usual = widths(params)
        return [
            p for p in extents if widths({**params, p.name: params[p.name] + p.multiple}) != usual
        ]

    def _near(self, wanted: Mapping[str, int], shrinking: Sequence[Param]) -> dict[str, int]:
        """The problem's parameters with extents near ``wanted``; ``shrinking`` are halved in turn
        until the shape is a small part of the problem's work."""
        tuned = self.problem.workload.params
        by_name = {param.name: param for param in self.kernel.params}
        found = {**tuned, **{name: self._odd(by_name[name], at) for name, at in wanted.items()}}
        most = self.kernel.work(tuned).total // OF_THE_WORK
        for _, param in product(range(_HALVINGS), shrinking):
            if not is_too_much(self.kernel, found, most):
                break
            found[param.name] = self._odd(param, found[param.name] // 2)
        most = max(bytes_of(self.kernel, tuned), LARGE_BYTES)
        for _, name in product(range(_HALVINGS), wanted):
            if bytes_of(self.kernel, found) <= most:
                break
            found[name] = self._odd(by_name[name], found[name] // 2)
        return found

    def _odd(self, param: Param, near: int) -> int:
        """An extent of ``param`` near ``near``, odd in what it must be a multiple of, or whole
        vectors away from the tuned one where those are promised."""
        tuned, step = self.problem.workload.params[param.name], param.multiple
        least, most = (bound // step * step for bound in (param.minimum + step - 1, param.maximum))
        found = min(max((near // step | 1) * step, least), most)
        odd = {**self.problem.workload.params, param.name: found}
        if not _keeps_extent(self.kernel, self.problem, odd):
            vector = self.problem.target.vector_alignment_bytes
            vectors = max(-((tuned - near) // vector), -((tuned - least) // vector))
            found = tuned + min(vectors, (most - tuned) // vector) * vector
        return found
