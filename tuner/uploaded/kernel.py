"""An uploaded pipeline with all that a kernel has: buffers, reference, space and schedules."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import asdict
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from tuner.codegen.halide.uploads import Analysis, analyse_pipeline, reference_outputs
from tuner.codegen.halide.uploads.answers import NotTunableError
from tuner.codegen.halide.uploads.contents import checked
from tuner.codegen.halide.uploads.pipelines import pipeline_of
from tuner.codegen.halide.uploads.program import declared, program_of
from tuner.codegen.halide.uploads.readers import output_bytes, outputs_in
from tuner.codegen.halide.uploads.serialized import DamagedError
from tuner.errors import UserError
from tuner.kernels import PIPELINE_PREFIX, KernelFamily
from tuner.kernels.kernel import Array, HalidePipeline, Kernel, WorkCounts
from tuner.kernels.shapes import LARGER, NARROW, OF_THE_WORK, SMALLER, WIDE
from tuner.paths import cached
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Param, Problem
from tuner.program import Program, ProgramError
from tuner.space import Config, Directive, Space
from tuner.space.derivation import (
    BufferFacts,
    PipelineFacts,
    derived_schedule,
    derived_space,
    textbook_values,
)
from tuner.uploaded import files

_KEPT_KERNELS, _KEPT_SIZES = 64, 256

_MOST_TABLE = 16
"""Rows this short are those of a small table, or the channels of pixels: they are not padded to
whole vectors, so stride and extent are not promised of them."""

_MOST_PROGRAM_BYTES = 1 << 18
"""Of a pipeline that is read as a program: a fifth of a second."""

_PARALLEL = "parallel"
"""The parameter by which a caller says that it has what parallel loops need."""

Sizes = tuple[tuple[str, int], ...]


class PipelineKernel(Kernel):
    """The pipeline in ``data``. ``analysed`` gives its analysis at sizes, by default for none.

    Its parameters are the extents of the outputs and of the dimensions of inputs that no output
    decides, the values of scalar inputs, which buffers are loose, and whether loops may be
    parallel. The reference is the pipeline itself: its definitions, evaluated in a contained
    process.
    """

    default_is_naive = True

    source = ""
    """Its name is that of its bytes."""

    def __init__(self, name: str, data: bytes, analysed: Callable[[Sizes, bool], Analysis]) -> None:
        self.name = name  # type: ignore[misc]
        self.data = data
        self._analysed = analysed
        analysis = analysed((), False)
        facts = analysis.facts
        outputs = ", ".join(buffer.name for buffer in facts.outputs)
        self.summary = f"uploaded pipeline: {outputs} of {len(facts.stages)} stages"  # type: ignore[misc]
        sizes = [
            Param(
                name=one.name,
                default=one.default,
                doc=one.doc,
                minimum=one.minimum,
                maximum=one.maximum,
                is_extent=one.is_extent,
                is_optional=one.is_optional,
            )
            for one in analysis.params
        ]
        self.parallel = _parallel({size.name for size in sizes})
        self.params = (*sizes, self.parallel)  # type: ignore[misc]

    def _sizes(self, params: Mapping[str, int]) -> Sizes:
        """Those parameters of a workload that the pipeline itself has."""
        return tuple(item for item in params.items() if item[0] != self.parallel.name)

    def _is_parallel(self, params: Mapping[str, int]) -> bool:
        return params.get(self.parallel.name, self.parallel.default) > 0

    def facts(self, params: Mapping[str, int]) -> PipelineFacts:
        """The facts at the sizes ``params``; takes the contained process the first time."""
        return self._analysed(self._sizes(params), False).facts

    def _analysis_of(self, problem: Problem) -> Analysis:
        """The analysis that is scheduled: under a contract that is not static an example."""
        is_open = problem.contract is not Contract.STATIC
        return self._analysed(self._sizes(problem.workload.params), is_open)

    def _facts_of(self, problem: Problem) -> PipelineFacts:
        """What is scheduled, with the extents of those reductions that have one in all calls."""
        facts = self._analysis_of(problem).facts
        for other in self.other_shapes(problem):
            facts = facts.varying(self._analysed(self._sizes(other), True).facts)
        return facts

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        facts = self.facts(params)
        inputs = [_spec(buffer, is_input=True) for buffer in facts.inputs]
        return (*inputs, *(_spec(buffer, is_input=False) for buffer in facts.outputs))

    def scalars(self, params: Mapping[str, int]) -> tuple[ScalarSpec, ...]:
        found = self.facts(params).scalars
        return tuple(ScalarSpec(one.name, one.dtype, one.value) for one in found)

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        return self.references(params, [inputs])[0]

    def references(
        self, params: Mapping[str, int], calls: Sequence[Sequence[Array]]
    ) -> list[list[Array]]:
        return references(self.data, self.facts(params), calls)

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Uniform over the range that is declared."""
        made = []
        for one in self.facts(params).inputs:
            least, most = _ends(one)
            made.append(rng.integers(least, most, one.extents[::-1], one.dtype, endpoint=True))
        return made

    def allowed_inputs(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        buffers = self.facts(params).inputs
        return [array.clip(*_ends(one)) for one, array in zip(buffers, inputs, strict=True)]

    def overflow(self, params: Mapping[str, int]) -> str:
        return self._analysed(self._sizes(params), False).overflow

    def edge_inputs(self, params: Mapping[str, int]) -> dict[str, list[Array]]:
        inputs = [spec for spec in self.buffers(params) if spec.role == "input"]
        lowest = [np.full(spec.shape, np.iinfo(spec.dtype).min, spec.dtype) for spec in inputs]
        ramps = [np.indices(spec.shape).sum(axis=0).astype(spec.dtype) for spec in inputs]
        return {"minimum values": lowest, "ramps": ramps}

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        """What its program asks for (:mod:`tuner.program.demands`), and every output once."""
        found = self.facts(params).demands
        return WorkCounts(
            macs=found.macs,
            macs_16=found.macs_16,
            macs_32=found.macs_32,
            lane_ops=found.lane_bytes,
            merged_bytes=found.merged_bytes,
            read_bytes=found.read_bytes,
            written_bytes=sum(
                spec.payload_bytes for spec in self.buffers(params) if spec.role == "output"
            ),
            parallel=self._is_parallel(params),
        )

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        facts = self.facts(params)
        made = pipeline_of(checked(self.data, folds=facts.folds))
        for scalar, one in zip(made.scalars, facts.scalars, strict=True):
            if one.decides:  # numbers for Halide; the code refuses any other
                scalar.set_range(one.value, one.value)
        return made

    def other_shapes(self, problem: Problem) -> list[dict[str, int]]:
        """Sizes that follow from others by themselves keep doing so."""
        given = problem.workload.params
        shapes = super().other_shapes(problem)
        return [{name: value if given[name] else 0 for name, value in s.items()} for s in shapes]

    def verified_shapes(self, problem: Problem) -> dict[str, dict[str, int]]:
        """Found by the extents of the first output alone: each size that is asked about has to be
        analysed. Sizes that the pipeline refuses are none of its shapes."""
        whole = _whole_bytes(problem)
        if whole is None:
            return {}
        given = problem.workload.params
        names = [param.name for param in self.params if param.is_extent and param.minimum > 0]
        inner, outer = names[0], names[1:]

        def inner_near(wanted: int) -> int:
            vectors = -((given[inner] - wanted) // whole)
            return max(given[inner] + vectors * whole, min(given[inner], whole))

        smaller = {name: min(given[name], NARROW) for name in outer}
        larger = {name: given[name] for name in outer}
        wide = inner_near(max(WIDE, 2 * given[inner] + 1))
        most = prod(given[name] for name in names) // OF_THE_WORK
        for name in outer:
            excess = -(-wide * prod(larger.values()) // max(most, 1))
            larger[name] = max(larger[name] // excess, 1)
        shapes = {
            SMALLER: {**given, inner: inner_near(min(given[inner], NARROW)), **smaller},
            LARGER: {**given, inner: wide, **larger},
        }
        return {kind: shape for kind, shape in shapes.items() if self._exists_at(shape)}

    def _exists_at(self, params: Mapping[str, int]) -> bool:
        try:
            self.workload(params)
        except UserError:
            return False
        return True

    def problem(
        self, params: Mapping[str, int] | None, contract: Contract, target: Target
    ) -> Problem:
        found = super().problem(params, contract, target)
        stages = () if contract is Contract.STATIC else self._facts_of(found).stages
        for stage in stages:
            # Their last vectors need a guard, on which Halide 21 fails (lanes of a Select).
            if stage.values > 1 and stage.updates and not stage.clamped:
                raise UserError(
                    f"contract '{contract}' for {self.name}: its stage {stage.name} reduces "
                    "several values at once",
                    accepted="static",
                    next_step="use contract static, or continue the input's edges",
                )
        return found

    def space(self, problem: Problem) -> Space:
        facts = self._facts_of(problem)
        parallel = self._is_parallel(problem.workload.params)
        return _space(self.name, facts, problem.target, _whole_bytes(problem), parallel)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        whole_bytes = _whole_bytes(problem)
        return derived_schedule(self._facts_of(problem), problem.target, config, whole_bytes)

    def default_config(self, problem: Problem) -> Config:
        """The pipeline as it was written, without any schedule."""
        return self.space(problem).nearest_config({"lanes": 1})

    def textbook_config(self, problem: Problem) -> Config:
        """Native vectors, line buffers for what is read several times, the rest inline."""
        values = textbook_values(self._facts_of(problem), problem.target, _whole_bytes(problem))
        return self.space(problem).nearest_config(values)

    def llvm_arguments(self, params: Mapping[str, int]) -> tuple[str, ...]:
        """No merging of loads of vectors, some of which LLVM moves past stores of what they read
        (seed 144 of tests/rig/random_pipelines.py), where any is read again. Without it textbook
        schedules of kernels take 0.92 to 1.05 of their cycles, 0.994 in the mean.

        And no software pipelining of loops that read what an iteration before wrote: LLVM moves the
        load before the store (``iir`` of the tests, right with every pass but that one)."""
        stages = self.facts(params).stages
        updates = [update for stage in stages for update in stage.updates]
        scans = any(update.scans for update in updates)
        merges = () if len(stages) == 1 and not updates else ("-hexagon-vector-combine=0",)
        return (*merges, *(("-enable-pipeliner=false",) if scans else ()))

    def program(self, params: Mapping[str, int]) -> Program:
        if isinstance(self._program, ProgramError):
            raise copy(self._program)
        facts = self.facts(params)
        scalars = [(one.value, one.value) if one.decides else one.ends for one in facts.scalars]
        return declared(self._program, [one.ends for one in facts.inputs], scalars)

    @cached_property
    def _program(self) -> Program | ProgramError:
        """Its program, whatever the sizes; an error is told each time."""
        if len(self.data) > _MOST_PROGRAM_BYTES:
            return ProgramError(f"its pipeline has more than {_MOST_PROGRAM_BYTES} bytes")
        try:
            return program_of(self.data)
        except ProgramError as error:
            return error.with_traceback(None)
        except (DamagedError, NotTunableError) as error:
            return ProgramError(str(error))

    def attachment(self, problem: Problem) -> dict[str, Any]:
        stages = [asdict(stage) for stage in self._facts_of(problem).stages]
        return {
            "pipeline": base64.b64encode(self.data).decode(),
            "analysis": {**self._analysis_of(problem).form, "stages": stages},
        }


def _parallel(sizes: Collection[str]) -> Param:
    """The parameter beside ``sizes``, whose names come first."""
    name, number = _PARALLEL, 2
    while name in sizes:
        name, number = f"{_PARALLEL}_{number}", number + 1
    doc = "1: loops may be parallel; the caller has halide_do_par_for and all HVX contexts"
    return Param(name, 0, doc, 0, 1, is_extent=False, is_optional=True)


@lru_cache(maxsize=_KEPT_SIZES)
def _space(
    name: str, facts: PipelineFacts, target: Target, whole_bytes: int | None, parallel: bool
) -> Space:
    return derived_space(name, facts, target, whole_bytes, parallel=parallel)


def _whole_bytes(problem: Problem) -> int | None:
    """A divisor of the innermost extents of outputs; ``None`` if they are known."""
    if problem.contract is Contract.STATIC:
        return None
    return problem.target.vector_alignment_bytes if problem.contract is Contract.EXTENT else 1


def _ends(buffer: BufferFacts) -> tuple[int, int]:
    """The least and the greatest value of its elements."""
    whole = np.iinfo(buffer.dtype)
    least, most = buffer.ends or (int(whole.min), int(whole.max))
    return least, most


def _spec(buffer: BufferFacts, *, is_input: bool) -> BufferSpec:
    return BufferSpec(
        name=buffer.name,
        dtype=buffer.dtype,
        shape=buffer.extents[::-1],
        role="input" if is_input else "output",
        promised=buffer.extents[0] > _MOST_TABLE,
        mins=buffer.mins[::-1] if any(buffer.mins) else (),
        loose=buffer.loose,
    )


def kernel_name(digest: str) -> str:
    """The name of the pipeline with this digest as a kernel."""
    return f"{PIPELINE_PREFIX}{digest[: files.NAMED_DIGITS]}"


def find_pipeline(name: str) -> PipelineKernel:
    """The kernel ``pipeline:DIGEST``, by 12 digits of the digest or all.

    ``UserError`` if no such pipeline is kept here, or it cannot be tuned.
    """
    return _loaded(_digest_of(name))


def _digest_of(name: str) -> str:
    digest = files.find(name.removeprefix(PIPELINE_PREFIX))
    if digest is None:
        raise files.unknown(name)
    return digest


class UploadedPipelines(KernelFamily):
    """The family of kernels called ``pipeline:DIGEST``."""

    def find(self, name: str) -> PipelineKernel:
        return find_pipeline(name)

    def attached(self, name: str, attachment: Mapping[str, Any]) -> PipelineKernel:
        return attached_pipeline(name, attachment)

    def content(self, name: str) -> bytes:
        return files.read(_digest_of(name))

    def keep(self, content: bytes) -> None:
        files.keep(content)


class _Attached(PipelineKernel):
    """A pipeline in a compile worker, for the one problem that its facts are of."""

    def _facts_of(self, problem: Problem) -> PipelineFacts:
        return self._analysis_of(problem).facts


def attached_pipeline(name: str, attachment: Mapping[str, Any]) -> PipelineKernel:
    """The kernel that made ``attachment`` (:meth:`Kernel.attachment`), for its one problem."""
    analysis = Analysis.from_dict(attachment["analysis"])
    data = base64.b64decode(attachment["pipeline"])
    return _Attached(name, data, lambda sizes, is_open: analysis)


@lru_cache(maxsize=_KEPT_KERNELS)
def _loaded(digest: str) -> PipelineKernel:
    data = files.read(digest)

    @lru_cache(maxsize=_KEPT_SIZES)
    def analysed(sizes: Sizes, is_open: bool) -> Analysis:
        return analyse_pipeline(data, dict(sizes), is_open=is_open)

    return PipelineKernel(kernel_name(digest), data, analysed)


_FOLDER = "references"
_MOST_FILES = 64
_VERSION = b"4"
"""Raise it when pipelines are interpreted differently: kept outputs are not used then."""


def references(
    data: bytes, facts: PipelineFacts, calls: Sequence[Sequence[Array]]
) -> list[list[Array]]:
    """The outputs of the pipeline ``data`` for the inputs of each call, computed once in a
    contained process and then kept in the cache."""
    key = hashlib.sha256(b"\0".join([_VERSION, data, repr(facts).encode()]))
    for call in calls:
        for array in call:
            key.update(np.ascontiguousarray(array).data)
    path = cached(_FOLDER) / key.hexdigest()
    try:
        kept = path.read_bytes()
    except FileNotFoundError:
        kept = b""
    if len(kept) != len(calls) * output_bytes(facts):
        made = reference_outputs(data, facts, calls)
        temporary = path.with_name(f".{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
        try:
            temporary.write_bytes(b"".join(array.tobytes() for call in made for array in call))
            temporary.replace(path)
        except OSError:  # a full disk: what is not kept is computed again
            temporary.unlink(missing_ok=True)
        _sweep()
        return made
    os.utime(path)
    return outputs_in(kept, facts)


def _sweep() -> None:
    """Leaves the files that were used last."""
    files = sorted(cached(_FOLDER).iterdir(), key=lambda path: -path.stat().st_mtime)
    for path in files[_MOST_FILES:]:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
