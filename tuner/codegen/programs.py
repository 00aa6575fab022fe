"""Programs as C for a problem: what :class:`tuner.codegen.c_autovec.CGenerator` writes of kernels
that state one (:meth:`Kernel.program`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property, lru_cache

from tuner.codegen.wrapping import arguments, function, wrapped
from tuner.kernels import Kernel
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.contract import Contract
from tuner.program.bounds import Bounds, bounded
from tuner.program.expressions import Constant, ProgramError, require
from tuner.program.flattening import flattened
from tuner.program.inlining import inlined, is_copy, is_part, is_small
from tuner.program.loops import Program
from tuner.program.normal import normalized
from tuner.program.plain_c import (
    FEW,
    Order,
    PlainC,
    c_name,
    channels_apart,
    has_rows_of_sums,
    plain_c,
    turns,
)
from tuner.program.spans import Opened, opened
from tuner.records.candidate import Problem
from tuner.space import Config, Knob

LOOPS = "c_loops"
_LOOPS_DOC = (
    "where arrays are turned or interleaved, the inner loops: along rows, along columns, in "
    "squares, channel by channel"
)
SQUARES = {"8x8": 8, "16x16": 16}
_SUMS = Knob(
    "c_sums", ("rows", "written"), "a reduction's loops: around that along a row, or innermost"
)
_STAGES = "c_stages"
_STAGES_DOC = (
    "stages before the last: in memory, or where they are read, or all in memory and in normal form"
)
_KEPT = 64
_MOST_EXTENT = 1 << 15
"""Along an axis, of what a caller chooses: so that places in an image fit 32 bits."""
_TIMES_THE_USUAL = 4
"""It may be so much more than the workload's where that is more, as of rows of one dimension."""


class Fitted:
    """A ``program`` for buffers that are ``specs``: inputs and outputs in its order; if it
    ``is_open``, for those of other sizes as well, else dense axes of elements are one.

    ``ProgramError`` if it may read or store beyond them, or is too long for C.
    """

    def __init__(
        self,
        program: Program,
        specs: Sequence[BufferSpec],
        scalars: Sequence[ScalarSpec],
        *,
        is_open: bool = False,
    ) -> None:
        self._is_open = is_open
        self._values = {
            own.name: one.value for one, own in zip(scalars, program.scalars, strict=True)
        }
        small = is_small(program)
        self._whole = inlined(program, lambda one: is_part(one) and small(one))
        program = inlined(program, lambda one: is_copy(one) and small(one))
        specs, self._given = tuple(specs), tuple(specs)
        if not is_open and not any(spec.loose or any(spec.mins) for spec in specs):
            program, specs = _flat(program, specs)
            self._whole = program if specs != self._given else self._whole
        self.program = program
        self.scalars = tuple(
            one._replace(name=c_name(own.name))
            for one, own in zip(scalars, program.scalars, strict=True)
        )
        """Those of the problem, by names in C."""
        inputs = [spec for spec in specs if spec.role == "input"]
        outputs = [spec for spec in specs if spec.role == "output"]
        self._inputs = {one.name: spec for one, spec in zip(program.inputs, inputs, strict=True)}
        self._outputs = dict(zip(program.outputs, outputs, strict=True))
        for name, spec in self._outputs.items():
            require(not any(spec.mins), f"its output {name} begins at {spec.mins}, not at 0")
        shapes = {name: spec.shape for name, spec in (self._inputs | self._outputs).items()}
        self._sizes = program.sizes_at(shapes)
        self._firsts = {name: _firsts(spec) for name, spec in self._inputs.items()}
        self._bounds, self._opened = self._bounds_of(program)

    def _bounds_of(self, program: Program) -> tuple[Bounds, Sequence[Opened]]:
        bounds = bounded(program, self._sizes)
        for buffer in program.inputs:
            spec, boxes = self._inputs[buffer.name], bounds.boxes[buffer.name]
            for first, extent, box in zip(_firsts(spec), spec.shape, boxes, strict=True):
                last = first + extent - 1
                require(
                    (first <= box.low and box.high <= last) or box.high < box.low,
                    f"its input {buffer.name} may be read from {box.low} to {box.high}, where it "
                    f"goes from {first} to {last}",
                )
        found = self._open(program) if self._is_open else ()
        plain_c(bounds, self._firsts, opened=found)  # or it is refused now
        return bounds, found

    def _open(self, program: Program) -> Sequence[Opened]:
        """It for all sizes; before that for pixels of the usual few channels."""
        shapes = {
            name: spec.shape for name, spec in (*self._inputs.items(), *self._outputs.items())
        }
        most = {
            (name, axis): max(_MOST_EXTENT, _TIMES_THE_USUAL * extent)
            for name, shape in shapes.items()
            for axis, extent in enumerate(shape)
        }
        few = {
            (name, axis): extent
            for name, shape in shapes.items()
            for axis, extent in enumerate(shape)
            if len(shape) > 1 and extent <= FEW
        }
        found = opened(program, self._firsts, most, {})
        usual = {size: shapes[buffer][axis] for size, buffer, axis in found.extents}
        require(
            not found.is_refused(usual, self._values),
            "for sizes that a caller chooses, it cannot be told that it reads within its inputs",
        )
        return [*([opened(program, self._firsts, most, few)] if few else ()), found]

    @cached_property
    def _staged(self) -> Mapping[str, tuple[Bounds, Sequence[Opened]]]:
        """It as its stages are, by the choices of a knob."""
        made = {"stored": (self._bounds, self._opened)}
        with suppress(ProgramError):  # of a stage more was known than of what makes it
            program = inlined(self.program, is_small(self.program))
            if len(program.stages) < len(self.program.stages):
                made["inlined"] = self._bounds_of(program)
        with suppress(ProgramError):  # it takes too long
            if not self._is_open:
                program = normalized(self._whole, self._sizes, with_stages=True)
                if program != self.program:
                    made["normal"] = self._bounds_of(program)
        return made

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """The choices that make a difference."""
        stages = [one for one in self.program.stages if one.name in self._bounds.boxes]
        loops, staged = ["rows"], tuple(self._staged)
        if any(turns(self._bounds, stage) for stage in stages):
            loops += ["columns", *SQUARES]
        if any(channels_apart(self._bounds, stage) for stage in stages):
            loops.append("pixels")
        return (
            *([Knob(LOOPS, tuple(loops), _LOOPS_DOC)] if len(loops) > 1 else ()),
            *([_SUMS] if any(map(has_rows_of_sums, stages)) else ()),
            *([Knob(_STAGES, staged, _STAGES_DOC)] if len(staged) > 1 else ()),
        )

    def code(self, config: Config) -> PlainC:
        """The C of a config, between :attr:`buffers` and :attr:`scalars`."""
        bounds, found = self._staged[str(config.get(_STAGES) or "stored")]
        loops = str(config.get(LOOPS))
        order = Order(
            rows=config.get(_SUMS.name) == "rows",
            columns=loops == "columns",
            pixels=loops == "pixels",
            block=SQUARES.get(loops, 0),
        )
        return plain_c(bounds, self._firsts, order, found)

    def source(self, problem: Problem, config: Config) -> str:
        """The same as a function."""
        code, given = self.code(config), self.buffers
        loops, functions = code.loops, code.functions
        if tuple({**self._inputs, **self._outputs}.values()) != self._given:
            own = [
                one._replace(shape=spec.shape)
                for one, spec in zip(given, {**self._inputs, **self._outputs}.values(), strict=True)
            ]
            functions += function("rows", problem, own, loops, self.scalars, is_apart=True)
            names = (one.name for one in self.scalars)
            loops = f"return rows({', '.join(arguments(problem, own, *names))});"
        return wrapped(problem, given, {}, loops, functions, self.scalars)

    @property
    def buffers(self) -> tuple[BufferSpec, ...]:
        """Those of the problem, by names in C."""
        named = zip((*self._inputs, *self._outputs), self._given, strict=True)
        return tuple(spec._replace(name=c_name(name)) for name, spec in named)


def fitted(kernel: Kernel, problem: Problem) -> Fitted:
    """The program of ``kernel`` for ``problem``. ``ProgramError`` says why there is none."""
    params = problem.workload.params
    program = kernel.program(params)
    found = _fitted(
        program,
        kernel.buffers(params),
        kernel.scalars(params),
        problem.contract is not Contract.STATIC,
    )
    if isinstance(found, ProgramError):
        raise copy(found)
    return found


@lru_cache(maxsize=_KEPT)
def _fitted(
    program: Program,
    specs: tuple[BufferSpec, ...],
    scalars: tuple[ScalarSpec, ...],
    is_open: bool,
) -> Fitted | ProgramError:
    try:
        return Fitted(program, specs, scalars, is_open=is_open)
    except ProgramError as error:  # which may take as long to find
        return error.with_traceback(None)


def _flat(program: Program, specs: Sequence[BufferSpec]) -> tuple[Program, tuple[BufferSpec, ...]]:
    """``program`` with dense axes as one, and the buffers that it has then."""
    names = [*(one.name for one in program.inputs), *program.outputs]
    flat = flattened(program, dict(zip(names, (spec.shape for spec in specs), strict=True)))
    if flat is program:
        return program, tuple(specs)
    axes = {one.name: one.axes for one in flat.inputs}
    (output,) = flat.outputs
    axes[output] = tuple(axis.bounds for axis in flat.stage_of(output).axes)
    return flat, tuple(
        spec._replace(
            mins=(), shape=tuple(end.value for _, end in own if isinstance(end, Constant))
        )
        if len(own := axes[name]) < len(spec.shape)
        else spec
        for name, spec in zip(names, specs, strict=True)
    )


def _firsts(spec: BufferSpec) -> tuple[int, ...]:
    return spec.mins or (0,) * len(spec.shape)
