"""The contract of a kernel: an algorithm, and the schedules worth trying."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tuner.errors import InternalError, UserError
from tuner.kernels.shapes import extreme_shapes, far_shapes, grown_shapes
from tuner.kernels.sources import source_digest
from tuner.problem.buffers import BufferSpec, ScalarSpec, kept_contracts, require_kept
from tuner.problem.contract import Contract
from tuner.problem.objectives import DEFAULT_OBJECTIVES
from tuner.problem.target import Target
from tuner.problem.tolerance import Tolerance
from tuner.problem.workload import Param, Problem, Workload, checked_params
from tuner.program import Program, ProgramError
from tuner.program.bounds import Bounds, bounded, shapes_of
from tuner.program.interpretation import evaluated
from tuner.program.parsing import parsed
from tuner.space import Config, Directive, Space

if TYPE_CHECKING:
    import halide as hl

__all__ = [
    "Array",
    "BufferSpec",
    "HalidePipeline",
    "Kernel",
    "Param",
    "Problem",
    "ScalarSpec",
    "WorkCounts",
]
"""All that the author of a kernel imports, besides :mod:`tuner.space`."""

Array = NDArray[Any]
Values = tuple[tuple[str, int], ...]
MAX_BUFFER_BYTES = 1 << 27
"""All buffers of a workload together: what fits the simulator's guest with room to spare."""

_KEPT = 256
_UNITS, _MULTIPLIERS = 4, 2
"""Of HVX, beside those that load and store: all that a packet can use, and those that multiply."""
_OF_BYTES = {16: 4, 32: 8}
"""How many products of bytes take as long as one of 16 or 32 bits."""


@dataclass(frozen=True)
class WorkCounts:
    """The least that an algorithm does in one call, however it is scheduled: counts for the whole
    workload, for the roofline (:mod:`tuner.measure.roofline`).

    ``macs``: 8-bit multiply-accumulates; ``macs_16`` and ``macs_32`` those with operands of 16 and
    32 bits (of one by a byte counts half: such instructions make twice as many). ``lane_ops``:
    bytes of vector lanes that other arithmetic must at least touch (an add on 100 u16 elements
    counts 200). ``read_bytes`` and ``written_bytes``: every input and output byte once.
    ``permuted_bytes``: the part of ``lane_ops`` that only the permute unit does, such as look-ups.
    ``merged_bytes``: bytes of vectors made of two others each, where an algorithm brings elements
    of many vectors together, as a transpose does.
    ``parallel`` is true if code may run on all HVX contexts at once.
    """

    macs: int
    lane_ops: int
    read_bytes: int
    written_bytes: int
    permuted_bytes: int = 0
    parallel: bool = False
    macs_16: int = 0
    macs_32: int = 0
    merged_bytes: int = 0

    @property
    def total(self) -> int:
        """All counts together, to compare shapes of one kernel with each other."""
        return self.products + self.lane_ops + self.read_bytes + self.written_bytes

    @property
    def products(self) -> int:
        """All multiply-accumulates, of any width."""
        return self.macs + self.macs_16 + self.macs_32

    def hvx_cycles(self, target: Target) -> dict[str, float]:
        """The least cycles one HVX context needs, or all together if ``parallel``, by resource.

        A packet holds one load and one store of a vector, and instructions that take four units
        between them: one permutes, two multiply (``target.u8_macs_per_cycle`` products of bytes),
        all do arithmetic. A product of 16 bits takes both multipliers for 64 of them, one of 32
        bits for 32; some of a pair of vectors take two units (V66 HVX PRM, "Resource usage";
        LLVM's itineraries; the pinned assembler refuses packets with more). Loads and stores whose
        vector is used in the same packet take no unit. What scalar code may move beside that, 8
        bytes a packet, is left out.
        """
        contexts = target.hvx_contexts if self.parallel else 1
        vector = target.vector_bytes * contexts
        products = self.macs + _OF_BYTES[16] * self.macs_16 + _OF_BYTES[32] * self.macs_32
        multiply = products / (target.u8_macs_per_cycle * contexts)
        others = max(self.lane_ops, self.merged_bytes) / vector
        return {
            "multiply": multiply,
            "slots": (others + _MULTIPLIERS * multiply) / _UNITS,
            "permute": self.permuted_bytes / vector,
            "load": self.read_bytes / vector,
            "store": self.written_bytes / vector,
        }


@dataclass(frozen=True)
class HalidePipeline:
    """A kernel's algorithm without any schedule.

    ``inputs`` follow the order of the kernel's input buffers; dimension 0 of each is the
    innermost (NumPy's last). ``stages`` names every Func that directives may address, the output
    included. ``scalars`` follow the order of :meth:`Kernel.scalars`; outputs besides ``output``
    come after it. Where it was written of an author's, ``order`` has the names of all Funcs of that
    one, as ``get_func`` numbers them, and ``reductions`` those of its reduction variables.
    """

    inputs: Sequence[hl.ImageParam]
    output: hl.Func
    stages: Mapping[str, hl.Func]
    scalars: Sequence[hl.Param] = ()
    more_outputs: Sequence[hl.Func] = ()
    order: Sequence[str] = ()
    reductions: frozenset[str] = frozenset()

    @property
    def outputs(self) -> tuple[hl.Func, ...]:
        """All outputs, in the order of the call."""
        return (self.output, *self.more_outputs)


class Kernel(ABC):
    """A named, versioned algorithm that can be tuned.

    An author writes :attr:`name`, :attr:`summary`, :attr:`params` and :attr:`text`, the algorithm,
    and inherits :class:`tuner.kernels.derived.DerivedKernel`. One who schedules by hand writes
    :meth:`pipeline` in Halide, too, and :meth:`space` with :meth:`schedule`. All other methods have
    defaults to override where they do not fit.

    Instances hold no state, are made without arguments and may be used from several threads.
    Methods are deterministic and, except for :meth:`reference` and :meth:`pipeline`, cheap; only
    :meth:`pipeline` may import Halide. ``params`` given to them are checked, and complete except
    for optional ones at their defaults. ``UserError`` says that a request is wrong; any other
    error is a defect of the kernel.

    :class:`tuner.conformance.kernels.KernelConformance` is the suite that each kernel must pass.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Raise it when the algorithm's results or buffers change, for people to see. Old schedules do
    not match code that changed (:attr:`source`)."""
    default_is_naive: ClassVar[bool] = False
    """Whether the default config is the algorithm without any schedule. If even that is wrong, code
    and reference disagree on what the algorithm is, and nothing can be tuned."""
    refuses_shapes: ClassVar[bool] = False
    """Whether code of some configs may answer a call in another shape with an error, under a
    contract that leaves the shape open."""
    objectives: ClassVar[tuple[str, ...]] = DEFAULT_OBJECTIVES
    """Those of jobs that name none, as far as the device counts them."""
    generator: ClassVar[str] = ""
    """The code generator that alone makes code of it; empty for all that can."""
    summary: ClassVar[str]
    params: ClassVar[tuple[Param, ...]]
    text: ClassVar[str] = ""
    """The algorithm as the text of a program (:mod:`tuner.program`): extents are its sizes, and
    other parameters numbers, by their names."""
    unpromised: ClassVar[tuple[str, ...]] = ()
    """Inputs, such as small tables, to which no promise about strides and extents applies."""

    @property
    def source(self) -> str:
        """Names the code of the kernel in its workloads; empty if :attr:`name` does."""
        return source_digest(type(self))

    @property
    def known_as(self) -> str:
        """The name that people know it by, whatever its code: the inputs it is verified on follow
        from it."""
        return self.name

    # What an author writes

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
        """The directives of ``config`` (a point of :meth:`space`) for the stages of
        :meth:`pipeline`."""

    # What has a default

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        """The arguments in calling order: inputs, then outputs. By default those of
        :attr:`text`."""
        return _specs(type(self), tuple(params.items()))

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        """The exact outputs, in NumPy, for inputs of the shapes :meth:`buffers` gives: what is
        right. By default those of :meth:`program`, interpreted."""
        program, specs = self.program(params), self.buffers(params)
        given = dict(zip((one.name for one in program.inputs), inputs, strict=True))
        outputs = [spec.shape for spec in specs if spec.role == "output"]
        shapes = {name: array.shape for name, array in given.items()}
        shapes |= dict(zip(program.outputs, outputs, strict=True))
        names = (own.name for own in program.scalars)
        scalars = {n: one.value for n, one in zip(names, self.scalars(params), strict=True)}
        bounds = _bounded(program, tuple(program.sizes_at(shapes).items()))
        return list(evaluated(bounds, given, scalars).values())

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        """Operation and byte counts of one call: what any implementation must do.

        By default it touches every byte of the buffers once, and computes each of the output.
        """
        counts = self.counts(params)
        return replace(counts, lane_ops=counts.written_bytes)

    def counts(
        self,
        params: Mapping[str, int],
        *,
        macs: int = 0,
        lane_ops: int = 0,
        permuted_bytes: int = 0,
    ) -> WorkCounts:
        """These counts, and every byte of the buffers once."""
        specs = self.buffers(params)
        written = sum(spec.payload_bytes for spec in specs if spec.role == "output")
        read = sum(spec.payload_bytes for spec in specs) - written
        return WorkCounts(macs, lane_ops, read, written, permuted_bytes)

    def default_config(self, problem: Problem) -> Config:
        """The schedule a first-time user writes: vectorized at the native width, nothing else
        tuned. By default the first choice of every knob."""
        return self.space(problem).nearest_config({})

    def textbook_config(self, problem: Problem) -> Config:
        """The schedule an HVX guide recommends for this kind of kernel. By default
        :meth:`default_config`."""
        return self.default_config(problem)

    def tolerances(self) -> Mapping[str, Tolerance]:
        """How near outputs of floats must come to the reference, by name. Those that are not named,
        and all of integers, must equal it in every bit."""
        return {}

    def scalars(self, params: Mapping[str, int]) -> tuple[ScalarSpec, ...]:
        """The arguments passed by value, between input and output buffers."""
        return ()

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Random inputs: integers uniform over the whole range of their dtype, floats normal."""
        return [_random(spec, rng) for spec in self.buffers(params) if spec.role == "input"]

    def allowed_inputs(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        """``inputs`` of any values, as near as callers may come to them: by default themselves."""
        return list(inputs)

    def overflow(self, params: Mapping[str, int]) -> str:
        """Where inputs of any values that :meth:`allowed_inputs` gives overflow in a way that makes
        results undefined, and parameters that exclude it; empty by default: nowhere."""
        return ""

    def references(
        self, params: Mapping[str, int], calls: Sequence[Sequence[Array]]
    ) -> list[list[Array]]:
        """The outputs of :meth:`reference` for each of several calls."""
        return [self.reference(params, inputs) for inputs in calls]

    def given_inputs(self, params: Mapping[str, int]) -> dict[str, list[Array]]:
        """The only inputs that there is a reference for, by a name for people; empty where any
        have one, as by default."""
        return {}

    def edge_inputs(self, params: Mapping[str, int]) -> dict[str, list[Array]]:
        """Further inputs, by a name for people, that candidates are verified on."""
        return {}

    def attachment(self, problem: Problem) -> dict[str, Any] | None:
        """JSON that a compile worker needs to make this kernel, besides its name; ``None`` if
        nothing. :func:`tuner.kernels.attached_kernel` is the inverse."""
        return None

    def attached(self, attachment: Mapping[str, Any]) -> Kernel:
        """This kernel in a compile worker, made with its :meth:`attachment`."""
        raise InternalError(f"kernel {self.name} has no attachments")

    def llvm_arguments(self, params: Mapping[str, int]) -> tuple[str, ...]:
        """Options that Halide's LLVM needs for right code, besides those for all kernels."""
        return ()

    def other_shapes(self, problem: Problem) -> list[dict[str, int]]:
        """Further parameters the same code must be right for under a contract that is not static:
        by default :func:`tuner.kernels.shapes.grown_shapes`."""
        return grown_shapes(self, problem)

    def verified_shapes(self, problem: Problem) -> dict[str, dict[str, int]]:
        """Besides :meth:`other_shapes`, shapes by name that code is verified in, where the contract
        leaves the shape open: by default :func:`tuner.kernels.shapes.extreme_shapes`. Code may
        refuse them with an error: a tile must fit the extents."""
        return extreme_shapes(self, problem)

    def far_shapes(self, problem: Problem) -> dict[str, dict[str, int]]:
        """Shapes by name that only code which is fast enough to be a job's best is verified in, and
        may refuse: by default :func:`tuner.kernels.shapes.far_shapes`. Those that :meth:`workload`
        refuses are left out."""
        return far_shapes(self, problem)

    def program(self, params: Mapping[str, int]) -> Program:
        """Its loops (:mod:`tuner.program`), with the inputs, scalars and outputs of
        :meth:`buffers` and :meth:`scalars` in their order: plain C is written of it. By default
        what :attr:`text` says; ``ProgramError`` if there is none.
        """
        numbers = (p.name for p in self.params if not p.is_extent)
        return _parsed(self.text, tuple((name, params[name]) for name in numbers))

    # What follows from it

    def workload(self, params: Mapping[str, int] | None = None) -> Workload:
        """The workload with ``params`` over the defaults.

        Raises ``UserError`` naming the parameter, the value and what is accepted.
        """
        values = checked_params(self.name, self.params, params or {})
        total = sum([b.payload_bytes for b in self.buffers(values)])
        if total > MAX_BUFFER_BYTES:
            shape = " ".join(f"{k}={v}" for k, v in values.items())
            raise UserError(
                f"{self.name} {shape} needs {total} bytes of buffers",
                accepted=f"at most {MAX_BUFFER_BYTES} bytes in all",
                next_step="choose smaller extents",
            )
        return Workload(self.name, self.version, values, self.source)

    def problem(
        self, params: Mapping[str, int] | None, contract: Contract, target: Target
    ) -> Problem:
        """The workload under ``contract`` on ``target``.

        Raises ``UserError`` if the shape does not keep the contract (``extent`` on a width that
        is not a multiple of the vector, say), naming the buffer, its extent and the multiple.
        """
        workload = self.workload(params)
        if contract is Contract.EXTENT:
            require_kept(workload.label, self.buffers(workload.params), target)
        return Problem(workload, contract, target)

    def kept_contracts(self, problem: Problem) -> tuple[Contract, ...]:
        """Every contract a caller of ``problem`` keeps, weakest first, its own included: code made
        for the same workload under any of them may be called."""
        buffers = self.buffers(problem.workload.params)
        return kept_contracts(buffers, problem.contract, problem.target)


@lru_cache(maxsize=_KEPT)
def _parsed(text: str, numbers: Values) -> Program:
    if not text:
        raise ProgramError("it states no program")
    return parsed(text, dict(numbers))


@lru_cache(maxsize=_KEPT)
def _bounded(program: Program, sizes: Values) -> Bounds:
    return bounded(program, dict(sizes))


@lru_cache(maxsize=_KEPT)
def _specs(kernel: type[Kernel], params: Values) -> tuple[BufferSpec, ...]:
    """Kept, because each best-query asks for some."""
    program, unpromised = kernel().program(dict(params)), kernel.unpromised
    shapes = shapes_of(program, dict(params))
    kinds = {one.name: one.type for one in program.inputs}
    for stage in program.stages:
        kinds |= dict(zip(stage.arrays, stage.types, strict=True))

    def spec(name: str, role: Literal["input", "output"]) -> BufferSpec:
        dtype, is_promised = kinds[name].dtype.name, name not in unpromised
        return BufferSpec(name, dtype, shapes[name], role, is_promised)

    inputs = [spec(one.name, "input") for one in program.inputs]
    return (*inputs, *(spec(name, "output") for name in program.outputs))


def _random(spec: BufferSpec, rng: np.random.Generator) -> Array:
    if np.dtype(spec.dtype).kind == "f":
        return rng.standard_normal(spec.shape).astype(spec.dtype)
    bounds = np.iinfo(spec.dtype)
    return rng.integers(bounds.min, bounds.max, spec.shape, dtype=spec.dtype, endpoint=True)
