"""The contract of a kernel: what a new file in this folder has to provide."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tuner.errors import UserError
from tuner.kernels.sources import source_digest
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Workload
from tuner.records.candidate import Problem
from tuner.space import Config, Directive, Space

if TYPE_CHECKING:
    import halide as hl

Array = NDArray[Any]
_CONTRACTS = tuple(Contract)
SMALLER, LARGER = "smaller", "larger"
"""Than the shape that is tuned: names of :meth:`Kernel.verified_shapes`."""
NARROW, WIDE = 37, 1031
"""Extents of the shapes that code is verified in: below the narrowest vector, above 1,024."""
OF_THE_WORK, _HALVINGS = 4, 8
"""What part of the problem's work such a shape may be, and how often extents are halved for it."""
_NOT_WHOLE = tuple(one for one in Contract if one is not Contract.EXTENT)
_ALIGNED = tuple(one for one in _NOT_WHOLE if one is not Contract.STRIDE)
"""What ``static`` implies where rows are no whole vectors."""
MAX_BUFFER_BYTES = 1 << 27
"""All buffers of a workload together: what fits the simulator's guest with room to spare."""


@dataclass(frozen=True)
class Param:
    """An integer parameter of a kernel, with its default and accepted range (inclusive).

    ``multiple`` is what it must be divisible by. ``is_extent`` tells shape parameters from
    settings such as a requantization shift. One that ``is_optional`` is no part of the workload at
    its default, so that keys do not tell a kernel that has it from one that had it not yet.
    """

    name: str
    default: int
    doc: str
    minimum: int = 1
    maximum: int = 65536
    multiple: int = 1
    is_extent: bool = True
    is_optional: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is an integer in the range."""
        return (
            isinstance(value, int)
            and self.minimum <= value <= self.maximum
            and value % self.multiple == 0
            and not isinstance(value, bool)
        )


@dataclass(frozen=True)
class WorkCounts:
    """The work of one call, for the roofline. All are counts for the whole workload.

    ``macs``: 8-bit multiply-accumulates. ``lane_ops``: bytes of vector lanes that other
    arithmetic must at least touch (an add on 100 u16 elements counts 200). ``read_bytes`` and
    ``written_bytes``: every input and output byte once. ``parallel`` is true if code may run on all
    HVX contexts at once.
    """

    macs: int
    lane_ops: int
    read_bytes: int
    written_bytes: int
    parallel: bool = False

    def bound_cycles(self, target: Target) -> dict[str, float]:
        """The least cycles one HVX context needs, or all together if ``parallel``, by resource.

        A packet has at most one vector load, one vector store and four vector operations, of
        which the multipliers do ``target.u8_macs_per_cycle`` (V66 HVX manual, packet rules).
        """
        contexts = target.hvx_contexts if self.parallel else 1
        vector = target.vector_bytes * contexts
        return {
            "multiply": self.macs / (target.u8_macs_per_cycle * contexts),
            "alu": self.lane_ops / (4 * vector),
            "load": self.read_bytes / vector,
            "store": self.written_bytes / vector,
        }

    def peak_cycles(self, target: Target) -> float:
        """Cycles at the HVX peak: the largest of :meth:`bound_cycles`."""
        return max(self.bound_cycles(target).values())


@dataclass(frozen=True)
class HalidePipeline:
    """A kernel's algorithm without any schedule.

    ``inputs`` follow the order of the kernel's input buffers; dimension 0 of each is the
    innermost (NumPy's last). ``stages`` names every Func that directives may address, the output
    included. ``scalars`` follow the order of :meth:`Kernel.scalars`; outputs beside ``output`` come
    after it.
    """

    inputs: Sequence[hl.ImageParam]
    output: hl.Func
    stages: Mapping[str, hl.Func]
    scalars: Sequence[hl.Param] = ()
    more_outputs: Sequence[hl.Func] = ()

    @property
    def outputs(self) -> tuple[hl.Func, ...]:
        """All outputs, in the order of the call."""
        return (self.output, *self.more_outputs)


def _work(counts: WorkCounts) -> int:
    return counts.macs + counts.lane_ops + counts.read_bytes + counts.written_bytes


class Kernel(ABC):
    """A named, versioned algorithm that can be tuned.

    Instances hold no state and may be used from several threads. Nothing but :meth:`pipeline`
    may import Halide. ``params`` given to the methods are checked, and complete but for optional
    ones at their defaults.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Raise it when the algorithm's results or buffers change, for people to see. Old schedules do
    not match code that changed in any way (:attr:`source`)."""
    default_is_naive: ClassVar[bool] = False
    """Whether the default config is the algorithm without any schedule. If even that is wrong, code
    and reference disagree on what the algorithm is, and nothing can be tuned."""
    summary: ClassVar[str]
    params: ClassVar[tuple[Param, ...]]

    @property
    def source(self) -> str:
        """Names the code of the kernel in its workloads; empty if :attr:`name` does."""
        return source_digest(type(self))

    @abstractmethod
    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        """The arguments in calling order: inputs, then outputs."""

    @abstractmethod
    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        """The exact outputs, in NumPy, for inputs of the shapes :meth:`buffers` gives."""

    @abstractmethod
    def work(self, params: Mapping[str, int]) -> WorkCounts:
        """Operation and byte counts of one call."""

    @abstractmethod
    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        """The algorithm in Halide, unscheduled and without promises about its buffers.

        Imports Halide; called only inside compile workers. Extents come from the buffers, not
        from ``params``, so that the code serves every shape its contract allows.
        """

    @abstractmethod
    def space(self, problem: Problem) -> Space:
        """The schedules to consider. Holds :meth:`default_config` and :meth:`textbook_config`."""

    @abstractmethod
    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        """What ``config`` (a point of :meth:`space`) does to the stages of :meth:`pipeline`."""

    @abstractmethod
    def default_config(self, problem: Problem) -> Config:
        """What a first-time user writes: vectorized at the native width, nothing else tuned."""

    @abstractmethod
    def textbook_config(self, problem: Problem) -> Config:
        """What an HVX guide recommends for this kind of kernel."""

    def scalars(self, params: Mapping[str, int]) -> tuple[ScalarSpec, ...]:
        """The arguments passed by value, between input and output buffers."""
        return ()

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Uniformly random inputs over the whole range of each dtype."""
        return [
            rng.integers(
                np.iinfo(b.dtype).min, np.iinfo(b.dtype).max, b.shape, dtype=b.dtype, endpoint=True
            )
            for b in self.buffers(params)
            if b.role == "input"
        ]

    def references(
        self, params: Mapping[str, int], calls: Sequence[Sequence[Array]]
    ) -> list[list[Array]]:
        """The outputs of :meth:`reference` for each of several calls."""
        return [self.reference(params, inputs) for inputs in calls]

    def edge_inputs(self, params: Mapping[str, int]) -> dict[str, list[Array]]:
        """Further inputs, by a name for people, that candidates are verified on."""
        return {}

    def attachment(self, problem: Problem) -> dict[str, Any] | None:
        """What a compile worker must be told of a kernel that is no code of this installation, as
        JSON; ``None`` for one that is. :func:`tuner.kernels.attached_kernel` is the inverse."""
        return None

    def llvm_arguments(self, params: Mapping[str, int]) -> tuple[str, ...]:
        """Options of Halide's LLVM that its code needs to be right, beside those for all."""
        return ()

    def other_shapes(self, problem: Problem) -> list[dict[str, int]]:
        """Further parameters the same code must be right for under a contract that is not static.

        By default one set with every extent a little larger, and as odd as the contract allows.
        """
        if problem.contract is Contract.STATIC:
            return []
        larger = dict(problem.workload.params)
        for param in self.params:
            if not param.is_extent:
                continue
            value = larger[param.name]
            larger[param.name] = value + (param.multiple if param.multiple > 1 else 1 + value % 2)
            if problem.contract is Contract.EXTENT and any(self._ragged(larger, problem.target)):
                # Some buffer's innermost extent, which is promised to be whole vectors.
                larger[param.name] = value + problem.target.vector_alignment_bytes
        return [larger]

    def verified_shapes(self, problem: Problem) -> dict[str, dict[str, int]]:
        """Beside :meth:`other_shapes`, a smaller and a much larger shape that code is verified in,
        by names for people, where the contract leaves the shape open.

        In the first all extents are below a vector, or as small as the contract allows; in the
        second outputs have rows more than twice as wide as the problem's, of more than 1,024
        elements, and fewer of them. Both are as odd as the contract allows, and cost little to
        run. Code may refuse them with an error: a tile must fit the extents.
        """
        if problem.contract is Contract.STATIC:
            return {}
        tuned = problem.workload.params
        extents = [param for param in self.params if param.is_extent]
        wide = self._widening(tuned, extents, ("input", "output"))
        kept = self._widening(tuned, extents, ("output",)) or wide
        smaller = {p.name: min(NARROW, max(tuned[p.name] - p.multiple, 0)) for p in extents}
        larger = {
            p.name: max(WIDE, 2 * tuned[p.name] + 1) if p in wide else tuned[p.name]
            for p in extents
        }
        shrinking = [p for p in extents if p not in kept]
        return {
            SMALLER: self._reshaped(problem, smaller, extents),
            LARGER: self._reshaped(problem, larger, shrinking),
        }

    def _widening(
        self, params: Mapping[str, int], extents: Sequence[Param], roles: Sequence[str]
    ) -> list[Param]:
        """Those of ``extents`` that decide the innermost extent of a promised buffer."""

        def widths(params: Mapping[str, int]) -> list[int]:
            specs = self.buffers(params)
            return [spec.shape[-1] for spec in specs if spec.promised and spec.role in roles]

        usual = widths(params)
        return [
            p for p in extents if widths({**params, p.name: params[p.name] + p.multiple}) != usual
        ]

    def _reshaped(
        self, problem: Problem, wanted: Mapping[str, int], shrinking: Sequence[Param]
    ) -> dict[str, int]:
        """The problem's parameters with extents near ``wanted``, as odd as the contract allows;
        ``shrinking`` are halved in turn until it is but a part of the problem's work."""
        tuned = problem.workload.params
        by_name = {param.name: param for param in self.params}
        odd = {name: self._odd(problem, by_name[name], near) for name, near in wanted.items()}
        found = {**tuned, **odd}
        most = _work(self.work(tuned)) // OF_THE_WORK
        for _, param in product(range(_HALVINGS), shrinking):
            if _work(self.work(found)) <= most:
                break
            found[param.name] = self._odd(problem, param, found[param.name] // 2)
        return found

    def _odd(self, problem: Problem, param: Param, near: int) -> int:
        """An extent of ``param`` near ``near``, odd in what it must be a multiple of."""
        tuned, step = problem.workload.params[param.name], param.multiple
        least, most = (bound // step * step for bound in (param.minimum + step - 1, param.maximum))
        found = min(max((near // step | 1) * step, least), most)
        odd = {**problem.workload.params, param.name: found}
        if problem.contract is Contract.EXTENT and any(self._ragged(odd, problem.target)):
            # Some buffer's innermost extent, which is promised to be whole vectors.
            vector = problem.target.vector_alignment_bytes
            vectors = max(-((tuned - near) // vector), -((tuned - least) // vector))
            found = tuned + min(vectors, (most - tuned) // vector) * vector
        return found

    def _ragged(
        self, params: Mapping[str, int], target: Target
    ) -> Iterator[tuple[BufferSpec, int]]:
        """Each buffer whose innermost extent is no whole number of vectors, and how many elements
        a vector holds; none if all keep contract ``extent``."""
        alignment = target.vector_alignment_bytes
        for spec in self.buffers(params):
            lanes = alignment // spec.element_bytes
            if spec.promised and spec.shape[-1] % lanes:
                yield spec, lanes

    def kept_contracts(self, problem: Problem) -> tuple[Contract, ...]:
        """Every contract a caller of ``problem`` keeps, weakest first, its own included.

        Code made for the same workload under any of them may be called. The promises of ``host``,
        ``stride`` and ``extent`` include the weaker ones. ``static`` has dense strides, so it
        keeps ``stride`` and ``extent`` only if rows happen to be whole vectors, of buffers that
        are loose only ``extent``: nothing is said of their strides.
        """
        contract = problem.contract
        if contract is not Contract.STATIC:
            return _CONTRACTS[: contract.level + 1]
        kept = _CONTRACTS
        for spec, _ in self._ragged(problem.workload.params, problem.target):
            if not spec.loose:
                return _ALIGNED
            kept = _NOT_WHOLE
        return kept

    def workload(self, params: Mapping[str, int] | None = None) -> Workload:
        """The workload with ``params`` over the defaults.

        Raises ``UserError`` naming the parameter, the value and what is accepted.
        """
        given = params or {}
        values: dict[str, int] = {}
        known = 0
        for param in self.params:
            name = param.name
            known += name in given
            value = given.get(name, param.default)
            if not param.accepts(value):
                raise self._refused(given)
            if value != param.default or not param.is_optional:
                values[name] = value
        if known != len(given):
            raise self._refused(given)
        total = sum([b.payload_bytes for b in self.buffers(values)])
        if total > MAX_BUFFER_BYTES:
            shape = " ".join(f"{k}={v}" for k, v in values.items())
            raise UserError(
                f"{self.name} {shape} needs {total} bytes of buffers",
                accepted=f"at most {MAX_BUFFER_BYTES} bytes in all",
                next_step="choose smaller extents",
            )
        return Workload(self.name, self.version, values, self.source)

    def _refused(self, given: Mapping[str, Any]) -> UserError:
        """What is wrong with ``given``."""
        names = [param.name for param in self.params]
        for unknown in given:
            if unknown not in names:
                near = difflib.get_close_matches(unknown, names, n=1)
                return UserError(
                    f"unknown parameter '{unknown}' of {self.name}",
                    accepted=", ".join(names),
                    next_step=f"did you mean {near[0]}?" if near else "",
                )
        param = next(p for p in self.params if not p.accepts(given.get(p.name, p.default)))
        value = given[param.name]
        if isinstance(value, bool) or not isinstance(value, int):
            return UserError(f"{param.name}={value!r} of {self.name}", accepted="an integer")
        multiple = f", multiples of {param.multiple}" if param.multiple > 1 else ""
        return UserError(
            f"{param.name}={value} of {self.name}",
            accepted=f"{param.minimum} to {param.maximum}{multiple}",
            next_step=f"try -p {param.name}={param.default}",
        )

    def problem(
        self, params: Mapping[str, int] | None, contract: Contract, target: Target
    ) -> Problem:
        """The workload under ``contract`` on ``target``.

        Raises ``UserError`` if the shape does not keep the contract (``extent`` on a width that
        is no multiple of the vector, say), naming the buffer, its extent and the multiple.
        """
        workload = self.workload(params)
        ragged = self._ragged(workload.params, target) if contract is Contract.EXTENT else ()
        for spec, lanes in ragged:
            raise UserError(
                f"{workload.label} does not keep contract 'extent': the innermost extent "
                f"of buffer {spec.name} is {spec.shape[-1]}",
                accepted=f"multiples of {lanes} elements",
                next_step="change the shape, or use --contract stride or static",
            )
        return Problem(workload, contract, target)
