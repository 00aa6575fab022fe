"""Plans of functions of the elements at each place: of any inputs, of 8, 16 and 32 bits.

``elements`` makes the operations of a block of places; here are the rows that blocks go along. The
last block of a row begins earlier, over elements that are made twice. Rows that lie densely are one
row; if that fills no block, it is copied to memory that has room for one, and back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple, Self

from tuner.codegen import clang, wrapping
from tuner.codegen.hvx.elements import Elements
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError, scalars_of
from tuner.codegen.hvx.writing import bytes_of
from tuner.problem.buffers import BufferSpec, ScalarSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program.bounds import bounded
from tuner.program.c_operators import constant
from tuner.program.expressions import Constant, Expr, Load, Variable, ordered
from tuner.program.flattening import are_side_by_side, flattened
from tuner.program.inlining import inlined, is_small
from tuner.program.loops import Program, Stage
from tuner.program.normal import normalized
from tuner.program.types import BOOL, I32
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_BLOCKS = "hvx_blocks"
_NAME = re.compile(r"\bv\d+\b")
"""Of a step of a block."""


class _Read(NamedTuple):
    """The element of the input ``number`` at axes of the output, or at fixed indices, outermost
    first; ``is_one`` for all of a row."""

    number: int
    places: tuple[Variable | int, ...]
    is_one: bool


@dataclass(frozen=True)
class Pointwise(Plan):
    """A ``program`` of one stage in normal form, of buffers of ``specs``: those of the problem,
    ``whole``, with dense axes as one."""

    accepted = "functions of the elements at each place"

    program: Program
    specs: tuple[BufferSpec, ...]
    whole: tuple[BufferSpec, ...]
    problem: Problem

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        is_static = problem.contract is Contract.STATIC
        shapes = {spec.name: spec.shape for spec in specs}
        program = inlined(program, is_small(program))
        if not is_static:
            _stage(program)  # which holds for any sizes as it is written
        program = normalized(program, program.sizes_at(shapes))
        stage = _stage(program)
        if any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("its buffers are loose, or do not begin at 0")
        own = tuple(specs)
        if is_static:
            program = flattened(program, shapes)
            own = tuple(_merged(one, program) for one in specs)
            stage = _stage(program)
        found = cls(program, own, tuple(specs), problem)
        found.require(stage)
        return found

    def require(self, stage: Stage) -> None:
        """:class:`RefusedError` says what there is no code for."""
        made = self.specs[-1]
        if self.is_short and prod(made.shape) > made.shape[-1]:
            raise NoPlanError(
                f"its rows have {made.shape[-1]} elements, and are not dense together"
            )
        if self.is_short and self.problem.contract is not Contract.STATIC:
            raise RefusedError(f"its rows have {made.shape[-1]} elements, fewer than {self.lanes}")
        for wrong, condition in self._wrong(stage):
            if wrong:
                raise RefusedError(f"it reads beyond an input: {condition}")
        self._block  # noqa: B018 - or it is refused now

    @cached_property
    def lanes(self) -> int:
        """Elements of a block."""
        read = {one.number for one in self._reads.values() if not one.is_one}
        sizes = [self.specs[number].element_bytes for number in read]
        least = min([*sizes, self.specs[-1].element_bytes])
        return self.problem.target.vector_bytes // least

    @cached_property
    def _reads(self) -> Mapping[Load, _Read]:
        stage, names = _stage(self.program), [one.name for one in self.program.inputs]
        found = {}
        for load in ordered(stage.values):
            if isinstance(load, Load):
                places = tuple(
                    one.value if isinstance(one, Constant) else one for one in load.indices
                )
                is_one = stage.places[-1] not in places
                found[load] = _Read(names.index(load.source), places, is_one)  # type: ignore[arg-type]
        return found

    @cached_property
    def _pointers(self) -> Mapping[_Read, str]:
        """The names of where each begins, of a row or a block."""
        return {one: f"in{n}" for n, one in enumerate(dict.fromkeys(self._reads.values()))}

    @cached_property
    def _block(self) -> tuple[Elements, list[str]]:
        """The operations of a block, and the vectors that are stored."""
        (value,) = _stage(self.program).values
        sizes = self.program.sizes_at({one.name: one.shape for one in self.specs})
        scope = bounded(self.program, sizes).of_definition(_stage(self.program))
        if scope is None:
            raise NoPlanError("its output has no elements")

        def place(load: Load) -> tuple[str, bool]:
            read = self._reads[load]
            return self._pointers[read], read.is_one

        names = {
            one.name: own.name for one, own in zip(self.program.scalars, self._scalars, strict=True)
        }
        elements = Elements(scope, self.lanes, self.problem.target.vector_bytes, place, names)
        return elements, elements.stored(value)

    @cached_property
    def _scalars(self) -> tuple[ScalarSpec, ...]:
        """By their names in C."""
        return scalars_of(self.program)

    @property
    def is_short(self) -> bool:
        """Whether a row fills no block."""
        return self.specs[-1].shape[-1] < self.lanes

    @property
    def is_aligned(self) -> bool:
        """Whether all rows begin at vectors."""
        contract, target = self.problem.contract, self.problem.target
        rank = max(len(self.specs[n].shape) for n in {len(self.specs) - 1, *self._dense})
        if contract is Contract.STATIC:
            strides = (layout_of(self.specs[n], contract, target).strides for n in self._dense)
            lanes = (target.lanes(self.specs[n].element_bytes) for n in self._dense)
            return not any(
                one % own for each, own in zip(strides, lanes, strict=True) for one in each[:-1]
            )
        return contract.level >= (Contract.HOST if rank == 1 else Contract.STRIDE).level

    @property
    def _dense(self) -> list[int]:
        """The buffers of which a block has vectors."""
        read = {one.number for one in self._reads.values() if not one.is_one}
        return [*sorted(read), len(self.specs) - 1]

    @property
    def knobs(self) -> tuple[Knob, ...]:
        blocks = (1,) if self.is_short else (1, 2, 4)
        return (
            Knob(_BLOCKS, blocks, "blocks of elements that are made together"),
            clang.DEEPER,
        )

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        return {_BLOCKS: 2}

    def switches(self, config: Config) -> list[str]:
        return [*clang.NO_MERGED_LOADS, *super().switches(config)]

    def written(self, config: Config) -> tuple[str, str]:
        elements, _ = self._block
        tables = [bytes_of(name, values) for name, values in elements.tables.items()]
        own = "V" if self.is_aligned else "VU"
        blocks = config.integer(_BLOCKS)
        sorts = dict.fromkeys([(own, blocks), (own, 1), ("VU", 1)])
        functions = [*tables, *elements.operators.definitions()]
        functions += (self._function(*sort) for sort in sorts)
        loops = "\n".join(self._loops(own, blocks))
        if self.specs == self.whole:
            return loops, "\n".join(functions)
        names = [*(f"input{n}" for n in range(len(self.specs) - 1)), "output"]
        specs = [one._replace(name=name) for one, name in zip(self.specs, names, strict=True)]
        own_rows = wrapping.function(
            "rows", self.problem, specs, loops, self._scalars, is_apart=True
        )
        given = ", ".join([*names, *(one.name for one in self._scalars)])
        checked = "\n".join([*self._checked(), "CHECKED"])
        return f"{checked}\nreturn rows({given});", "\n".join([*functions, own_rows])

    def _function(self, kind: str, count: int) -> str:
        """That of ``count`` blocks, of vectors of ``kind`` in memory: step by step of all of them,
        for nothing else says that they do not depend on one another."""
        elements, vectors = self._block
        given = [
            f"{wrapping.element_type(self.specs[one.number])} *restrict {name}"
            for one, name in self._pointers.items()
        ]
        given.append(f"{wrapping.element_type(self.specs[-1])} *restrict out")
        given += [f"const {one.dtype}_t {one.name}" for one in self._scalars]
        head = "static inline __attribute__((always_inline)) void"
        stored = [f"TO({n}) = {vector};" for n, vector in enumerate(vectors)]
        lines = [
            _NAME.sub(rf"\g<0>_{n}", line)
            .replace("PART(", f"PART({n}, ")
            .replace("TO(", f"TO({n}, ")
            for line in (*elements.lines, *stored)
            for n in range(count)
        ]
        return "\n".join(
            [
                f"#define PART(block, from, n) ((const {kind} *)(from + {self.lanes} * block))[n]",
                f"#define TO(block, n) ((({kind} *)(out + {self.lanes} * block))[n])",
                f"{head} blocks_{count}_of_{kind}({', '.join(given)}) {{",
                *lines,
                "}",
                "#undef PART\n#undef TO\n",
            ]
        )

    def _wrong(self, stage: Stage) -> Iterator[tuple[bool, str]]:
        """What would read beyond inputs: whether it does so in the problem's shape, and in C."""
        made = self.specs[-1].shape
        for one in dict.fromkeys(self._reads.values()):
            shape = self.specs[one.number].shape
            for axis, (place, extent) in enumerate(zip(one.places, shape, strict=True)):
                name = f"input{one.number}_extent_{len(shape) - 1 - axis}"
                if isinstance(place, int):
                    yield not 0 <= place < extent, f"{name} <= {place}"
                else:
                    at = stage.places.index(place)
                    own = f"output_extent_{len(made) - 1 - at}"
                    yield extent < made[at], f"{name} < {own}"

    def _checked(self) -> Iterator[str]:
        """What refuses scalars beyond what is declared of them."""
        for one, own in zip(self.program.scalars, self._scalars, strict=True):
            ends = {"<": (one.low, one.type.low), ">": (one.high, one.type.high)}
            for by, (end, whole) in ends.items():
                if end != whole:
                    beyond = f"{own.name} {by} {constant(end, one.type).text}"
                    yield f"if ({beyond}) return CONSTRAINT_VIOLATED;"

    def _loops(self, own: str, blocks: int) -> Iterator[str]:
        stage, lanes, rank = _stage(self.program), self.lanes, len(self.specs[-1].shape)
        yield from self._checked()
        if self.problem.contract is not Contract.STATIC:
            wrong = [f"output_extent_0 < {lanes}", *(text for _, text in self._wrong(stage))]
            yield f"if ({' || '.join(dict.fromkeys(wrong))}) return CONSTRAINT_VIOLATED;"
        pads = {}
        for one, name in self._pointers.items() if self.is_short else ():
            if not one.is_one:
                pads[name] = f"pad_of_{name}"
                kind = wrapping.element_type(self.specs[one.number]).removeprefix("const ")
                yield f"{kind} *{pads[name]} = scratch({lanes} * sizeof({kind}));"
        if self.is_short:
            kind = wrapping.element_type(self.specs[-1])
            yield f"{kind} *pad = scratch({lanes} * sizeof({kind}));"
        yield "CHECKED"
        yield "int width = output_extent_0;"
        names = {place: f"i{n}" for n, place in enumerate(stage.places[:-1])}
        counts = [f"output_extent_{rank - 1 - at}" for at in range(rank - 1)]
        if self.problem.contract is not Contract.STATIC:
            yield from (f"int count{n} = {count};" for n, count in enumerate(counts))
            yield from self._dense_rows(stage)
            counts = [f"count{n}" for n in range(rank - 1)]
        for name, end in zip(names.values(), counts, strict=True):
            yield f"for (int {name} = 0; {name} < {end}; ++{name})"
        yield "{"
        for one, pointer in self._pointers.items():
            yield f"{wrapping.element_type(self.specs[one.number])} *{pointer} = "
            yield f"{self._place(f'input{one.number}', one.places, names)};"
        kind = wrapping.element_type(self.specs[-1])
        yield f"{kind} *out = {self._place('output', stage.places, names)};"
        if self.is_short:
            for pointer, pad in pads.items():
                yield f"for (int x = 0; x < width; ++x) {pad}[x] = {pointer}[x];"
            given = [pads.get(pointer, pointer) for pointer in self._pointers.values()]
            given += ["pad", *(one.name for one in self._scalars)]
            yield f"blocks_1_of_VU({', '.join(given)});"
            yield "for (int x = 0; x < width; ++x) out[x] = pad[x];"
        else:
            yield "int x = 0;"
            for count in dict.fromkeys((blocks, 1)):
                yield f"for (; x + {count * lanes} <= width; x += {count * lanes})"
                yield self._call(count, own, "x")
            yield f"if (x < width) {self._call(1, 'VU', f'width - {lanes}')}"
        yield "}"

    def _dense_rows(self, stage: Stage) -> Iterator[str]:
        """What makes one row of those that turn out to be dense."""
        inner, closed = stage.places[-1], 0
        for dimension, outer in enumerate(reversed(stage.places[:-1]), start=1):
            if not are_side_by_side(self.program, stage, outer, inner):
                break
            strides = [f"output_stride_{dimension}"]
            for read in self._pointers:
                if outer in read.places:
                    own = len(read.places) - 1 - read.places.index(outer)
                    strides.append(f"input{read.number}_stride_{own}")
            is_dense = " && ".join(f"{one} == width" for one in dict.fromkeys(strides))
            count = f"count{len(stage.places) - 1 - dimension}"
            yield f"if ({is_dense}) {{ width *= {count}; {count} = 1;"
            inner, closed = outer, closed + 1
        yield "}" * closed

    def _call(self, count: int, kind: str, at: str) -> str:
        given = [name if one.is_one else f"{name} + {at}" for one, name in self._pointers.items()]
        given += [f"out + {at}", *(one.name for one in self._scalars)]
        return f"blocks_{count}_of_{kind}({', '.join(given)});"

    def _place(
        self, buffer: str, places: Sequence[Variable | int], names: Mapping[Variable, str]
    ) -> str:
        """The address of a row, or of an element that is one for all of it."""
        terms = [buffer]
        for dimension, place in enumerate(reversed(places)):
            number = str(place) if isinstance(place, int) else names.get(place, "0")
            if number != "0":
                terms.append(f"{number} * {buffer}_stride_{dimension}" if dimension else number)
        return " + ".join(terms)


def _merged(spec: BufferSpec, program: Program) -> BufferSpec:
    """``spec`` with the axes that it has in ``program``."""
    axes: Sequence[Sequence[Expr]] = [axis.bounds for axis in _stage(program).axes]
    if spec.name not in program.outputs:
        axes = next(one.axes for one in program.inputs if one.name == spec.name)
    if len(axes) == len(spec.shape):
        return spec
    ends = (end.value for _, end in axes if isinstance(end, Constant))
    return spec._replace(mins=(), shape=tuple(ends))


def _stage(program: Program) -> Stage:
    """The one of ``program``; ``NoPlanError`` unless it is of the elements at each place."""
    if len(program.stages) != 1 or len(program.outputs) != 1 or program.tables:
        raise NoPlanError("it is not made of the elements at each place")
    (stage,) = program.stages
    if len(stage.arrays) > 1 or stage.updates or not stage.axes or not program.inputs:
        raise NoPlanError("it is not made of the elements at each place")
    names = {one.name for one in program.inputs}
    nodes = list(ordered(stage.values, lambda n: () if isinstance(n, Load) else n.parts))
    scalars = {one.value for one in program.scalars}
    if any(isinstance(node, Variable) and node not in scalars for node in nodes):
        raise NoPlanError("its elements depend on their place")
    loads = [node for node in nodes if isinstance(node, Load)]
    for load in loads:
        inner = stage.places[-1]
        fits = all(isinstance(one, Constant) or one in stage.places for one in load.indices)
        if not fits or load.source not in names or inner in load.indices[:-1]:
            raise NoPlanError("it reads other elements than those at each place")
        if load.type.bits > I32.bits:
            raise RefusedError("its elements have 64 bits")
    if not any(load.indices[-1:] == stage.places[-1:] for load in loads):
        raise NoPlanError("no input is read along its rows")
    if stage.types[0] == BOOL or stage.types[0].bits > I32.bits:
        raise RefusedError("its elements have 64 bits")
    return stage
