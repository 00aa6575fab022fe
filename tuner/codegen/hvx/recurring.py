"""Plans of recurrences: arrays of which each row follows from those before it.

Lanes go along rows, and the last few rows stay in registers while what follows from them is made.
Recurrences along rows are turned (``kinds``): then lanes are rows that do not depend on each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import NamedTuple, Self

from tuner.codegen import clang, wrapping
from tuner.codegen.hvx.elements import Elements
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.writing import bytes_of
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.program.bounds import Bounds, bounded
from tuner.program.expressions import Expr, Load, Variable, loads_in, ordered, rewritten
from tuner.program.inlining import inlined, is_small
from tuner.program.intervals import Scope
from tuner.program.loops import Loop, Program, Stage, Update
from tuner.program.normal import normalized
from tuner.program.types import I32
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_TOGETHER = "hvx_recurring"
_MOST_BEFORE = 4
"""Rows before one that it follows from."""
_NAME = re.compile(r"\b(?:v\d+|p\d+_\d+|in\d+)\b")
"""Of what each block has for itself."""


class _Read(NamedTuple):
    """The element of the input ``number``: at axes of the output, and so much farther, outermost
    first; ``is_one`` for all of a row."""

    number: int
    places: tuple[tuple[int | None, int], ...]
    is_one: bool


@dataclass
class _Rows(Elements):
    """The operations of a block of a row, of the rows before it of the ``own`` array."""

    own: str = ""
    before: Mapping[Load, int] | None = None

    def vectors(self, value: Expr) -> list[str]:
        """Those of ``value``, even elements before odd ones."""
        return self._at(value, value.type.bits)

    def _loaded(self, load: Load) -> list[str]:
        if load.source != self.own or self.before is None:
            return super()._loaded(load)
        count = len(self._splat(0, max(load.type.bits, self._base)))
        return [f"p{self.before[load]}_{n}" for n in range(count)]


def spelled(program: Program, shapes: Mapping[str, Sequence[int]]) -> Program:
    """``program`` in normal form; ``NoPlanError`` unless a stage of it has updates."""
    program = inlined(program, is_small(program))
    if not any(stage.updates for stage in program.stages):
        raise NoPlanError
    return normalized(program, program.sizes_at(shapes))


class Following(NamedTuple):
    """A ``stage`` of which an ``update`` makes elements along ``axis`` of earlier ones."""

    stage: Stage
    update: Update
    axis: int
    loop: Loop

    @classmethod
    def of(cls, program: Program) -> Self:
        """That of ``program``; ``NoPlanError`` if it is none."""
        if len(program.stages) != 1 or len(program.outputs) != 1 or not program.inputs:
            raise NoPlanError
        (stage,) = program.stages
        if len(stage.arrays) > 1 or len(stage.updates) != 1 or program.tables:
            raise NoPlanError
        (update,) = stage.updates
        bounded_ = [loop for loop in update.loops if loop.bounds]
        moved = [n for n, one in enumerate(stage.places) if update.places[n] is not one]
        if len(bounded_) != 1 or len(moved) != 1 or update.condition is not None:
            raise NoPlanError
        ((loop,), (axis,)) = bounded_, moved
        scope, place = Bounds(program, {}).scope(), update.places[axis]
        if any(loads_in(*update.places)):
            raise NoPlanError
        scope.exact(place)
        terms = dict(scope.terms(place))
        offset = terms.pop(None, 0)
        if terms != {loop.index: 1}:
            raise NoPlanError
        begin, end = loop.bounds
        there = Loop(loop.name, begin + offset, end + offset) if offset else loop
        return cls(stage, _moved(update, loop, there, offset), axis, there)


@dataclass(frozen=True)
class Recurrence(Plan):
    """A ``program`` of one stage in normal form, which is a recurrence along an outer axis."""

    accepted = "rows that follow from those before"

    program: Program
    specs: tuple[BufferSpec, ...]
    problem: Problem

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        if problem.contract is not Contract.STATIC:
            raise NoPlanError
        program = spelled(program, {one.name: one.shape for one in specs})
        found = cls(program, tuple(specs), problem)
        if program.scalars or any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("it has scalars, or its buffers are loose or do not begin at 0")
        if found.following.axis == len(specs[-1].shape) - 1:
            raise NoPlanError
        found._blocks  # noqa: B018 - or it is refused now
        if specs[-1].shape[-1] < found.lanes:
            raise RefusedError(
                f"its rows have {specs[-1].shape[-1]} elements, fewer than {found.lanes}"
            )
        return found

    @cached_property
    def following(self) -> Following:
        """What follows from what."""
        return Following.of(self.program)

    @property
    def _value(self) -> Expr:
        """That of the update, of earlier elements and of inputs."""
        stage, update, axis, loop = self.following
        first = rewritten(
            stage.values[0], lambda node: loop.index if node is stage.places[axis] else node
        )
        return rewritten(update.values[0], lambda node: first if self._is_here(node) else node)

    def _is_here(self, node: Expr) -> bool:
        """Whether it is the element that an update makes."""
        stage, update, axis, loop = self.following
        if not isinstance(node, Load) or not stage.is_own(node):
            return False
        terms = self._terms(self._bounds.scope(), node.indices[axis])
        others = zip(node.indices, update.places, strict=True)
        is_same = all(a is b for n, (a, b) in enumerate(others) if n != axis)
        return is_same and {one: by for one, by in terms.items() if by} == {loop.index: 1}

    @cached_property
    def _bounds(self) -> Bounds:
        sizes = self.program.sizes_at({one.name: one.shape for one in self.specs})
        return bounded(self.program, sizes)

    @cached_property
    def rows(self) -> tuple[int, int]:
        """The first that follows from others, and the end."""
        begin, end = map(self._bounds.scope().of, self.following.loop.bounds)
        if begin.low != begin.high or end.low != end.high:
            raise NoPlanError
        return begin.low, end.low

    @cached_property
    def before(self) -> Mapping[Load, int]:
        """How many rows before each element of its own lies that it reads."""
        stage, update, axis, loop = self.following
        found, scope = dict[Load, int](), self._scope(update)
        for load in loads_in(self._value):
            if not stage.is_own(load):
                continue
            terms = self._terms(scope, load.indices[axis])
            offset = terms.pop(None, 0)
            others = zip(load.indices, update.places, strict=True)
            is_here = all(a is b for n, (a, b) in enumerate(others) if n != axis)
            if not is_here or terms != {loop.index: 1} or not 0 < -offset <= _MOST_BEFORE:
                raise NoPlanError
            found[load] = -offset
        if not found:
            raise NoPlanError
        return found

    def _scope(self, update: Update | None) -> Scope:
        stage = self.following.stage
        scope = (
            self._bounds.of_update(stage, update) if update else self._bounds.of_definition(stage)
        )
        if scope is None:
            raise NoPlanError
        return scope

    def _terms(self, scope: Scope, index: Expr) -> dict[Expr | None, int]:
        if any(loads_in(index)):
            raise NoPlanError
        scope.exact(index)
        return dict(scope.terms(index))

    @cached_property
    def reads(self) -> Mapping[Load, _Read]:
        """The elements of inputs."""
        stage, update, axis, loop = self.following
        names = [one.name for one in self.program.inputs]
        found = dict[Load, _Read]()
        for value, of in ((stage.values[0], None), (self._value, update)):
            scope = self._scope(of)
            for load in loads_in(value):
                if stage.is_own(load):
                    continue
                places = list[tuple[int | None, int]]()
                for index in load.indices:
                    terms = self._terms(scope, index)
                    offset = terms.pop(None, 0)
                    known = {one: n for n, one in enumerate(stage.places)} | {loop.index: axis}
                    if len(terms) > 1 or any(
                        one not in known or by != 1 for one, by in terms.items()
                    ):
                        raise NoPlanError
                    places.append((next((known[one] for one in terms), None), offset))  # type: ignore[index]
                last = len(stage.places) - 1
                inner = [n for n, (at, _) in enumerate(places) if at == last]
                if inner not in ([], [len(places) - 1]) or (inner and places[-1][1]):
                    raise NoPlanError
                found[load] = _Read(names.index(load.source), tuple(places), not inner)
        for node in ordered((stage.values[0], self._value)):
            if isinstance(node, Load) and node.type.bits > I32.bits:
                raise RefusedError("its elements have 64 bits")
        return found

    @cached_property
    def lanes(self) -> int:
        """Elements of a block."""
        read = {one.number for one in self.reads.values() if not one.is_one}
        sizes = [self.specs[number].element_bytes for number in read]
        return self.problem.target.vector_bytes // min([*sizes, self.specs[-1].element_bytes])

    @cached_property
    def _pointers(self) -> Mapping[_Read, str]:
        return {one: f"in{n}" for n, one in enumerate(dict.fromkeys(self.reads.values()))}

    @cached_property
    def _blocks(self) -> tuple[tuple[_Rows, list[str], list[str]], ...]:
        """Of the definition and of what follows: the operations, the vectors that are kept, and
        those that are stored."""
        stage, update = self.following.stage, self.following.update
        if any(isinstance(node, Variable) for node in _outside_loads(stage.values[0], self._value)):
            raise NoPlanError
        made = []
        for value, of in ((stage.values[0], None), (self._value, update)):

            def place(load: Load) -> tuple[str, bool]:
                read = self.reads[load]
                return self._pointers[read], read.is_one

            rows = _Rows(
                self._scope(of),
                self.lanes,
                self.problem.target.vector_bytes,
                place,
                own=stage.name,
                before=self.before,
            )
            kept = rows.vectors(value)
            made.append((rows, kept, rows.stored(value)))
        return tuple(made)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        most = self.specs[-1].shape[-1] // self.lanes
        blocks = tuple(n for n in (1, 2, 4) if n <= most)
        return (
            Knob(_TOGETHER, blocks, "blocks of a row that are made together"),
            clang.DEEPER,
        )

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        return {_TOGETHER: 4}

    def switches(self, config: Config) -> list[str]:
        return [*clang.NO_MERGED_LOADS, *super().switches(config)]

    def written(self, config: Config) -> tuple[str, str]:
        tables = {name: each for rows, _, _ in self._blocks for name, each in rows.tables.items()}
        functions = [bytes_of(name, each) for name, each in tables.items()]
        functions.append("#define PART(from, n) ((const VU *)(from))[n]")
        return "\n".join(self._loops(config.integer(_TOGETHER))), "\n".join(functions)

    def _loops(self, together: int) -> Iterator[str]:
        yield "CHECKED"
        shape, axis, (begin, end) = self.specs[-1].shape, self.following.axis, self.rows
        for n, extent in enumerate(shape[:-1]):
            if n != axis:
                yield f"for (int i{n} = 0; i{n} < {extent}; ++i{n})"
        step, width = together * self.lanes, shape[-1]
        yield f"for (int x_ = 0; x_ < {width}; x_ += {step}) {{"
        yield f"const int x = at_most(x_, {width - step});"
        most = max(self.before.values())
        count = len(self._blocks[0][1])
        kept = [f"p{back}_{n}" for back in range(1, most + 1) for n in range(count)]
        yield f"V {', '.join(f'{one}_{b} = {{0}}' for one in kept for b in range(together))};"
        spans = ((0, 0, begin), (1, begin, end), (0, end, shape[axis]))
        for which, first, last in spans:
            if first < last:
                yield f"for (int i{axis} = {first}; i{axis} < {last}; ++i{axis}) {{"
                yield from self._row(which, together, most)
                yield "}"
        yield "}"

    def _row(self, which: int, together: int, most: int) -> Iterator[str]:
        stage = self.following.stage
        rows, kept, stored = self._blocks[which]
        value = self._value if which else stage.values[0]
        used = {self.reads[load] for load in loads_in(value) if load in self.reads}
        for read, name in self._pointers.items():
            if read in used:
                kind = wrapping.element_type(self.specs[read.number])
                terms = [f"input{read.number}"]
                shape = self.specs[read.number].shape
                for n, (at, offset) in enumerate(read.places):
                    stride = prod(shape[n + 1 :])
                    index = "0" if at is None else "x" if at == len(stage.places) - 1 else f"i{at}"
                    terms.append(f"({index} + {offset}) * {stride}")
                for b in range(together):
                    own = [] if read.is_one else [str(b * self.lanes)]
                    yield f"{kind} *{name}_{b} = {' + '.join([*terms, *own])};"
        shape = self.specs[-1].shape
        place = " + ".join(
            f"{'x' if n == len(shape) - 1 else f'i{n}'} * {prod(shape[n + 1 :])}"
            for n in range(len(shape))
        )
        for line in rows.lines:
            yield from (_NAME.sub(rf"\g<0>_{b}", line) for b in range(together))
        kind = wrapping.element_type(self.specs[-1])
        for b in range(together):
            made, kept_now = (
                [_NAME.sub(rf"\g<0>_{b}", one) for one in some] for some in (stored, kept)
            )
            yield f"{kind} *out_{b} = output + {place} + {b * self.lanes};"
            yield from (f"((VU *)out_{b})[{n}] = {one};" for n, one in enumerate(made))
            yield from (f"const V now{n}_{b} = {one};" for n, one in enumerate(kept_now))
            for n in range(len(kept)):
                yield from (f"p{k}_{n}_{b} = p{k - 1}_{n}_{b};" for k in range(most, 1, -1))
                yield f"p1_{n}_{b} = now{n}_{b};"


def _moved(update: Update, loop: Loop, there: Loop, by: int) -> Update:
    """``update`` with the index of ``loop`` so much less, over ``there``."""

    def less(node: Expr) -> Expr:
        return loop.index - by if by and node is loop.index else node

    places = (loop.index if loop.index in {*ordered([one])} else one for one in update.places)
    return replace(
        update,
        loops=tuple(there if one is loop else one for one in update.loops),
        places=tuple(places),
        values=tuple(rewritten(one, less) for one in update.values),
    )


def _outside_loads(*values: Expr) -> Iterator[Expr]:
    yield from ordered(values, lambda node: () if isinstance(node, Load) else node.parts)
