"""Programs: buffers, and stages of loops that fill arrays from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from keyword import iskeyword
from math import prod

from tuner.program.expressions import Expr, Load, Variable, loads_in, ordered, require
from tuner.program.types import BOOL, INDEX, Type


@dataclass(frozen=True)
class Loop:
    """A loop over ``name`` from ``begin`` up to but not including ``end``.

    Without bounds it goes as far as its stage does along the axis of that name; as an axis itself,
    as far as the stage is read.
    """

    name: str
    begin: Expr | None = None
    end: Expr | None = None

    @property
    def index(self) -> Variable:
        """Its variable."""
        return Variable(self.name)

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """Begin and end, or nothing."""
        return (self.begin, self.end) if self.begin is not None and self.end is not None else ()


@dataclass(frozen=True)
class Scalar:
    """An argument that is one number, declared to lie between ``low`` and ``high``."""

    name: str
    type: Type
    low: int
    high: int

    @property
    def value(self) -> Variable:
        """It, in an expression."""
        return Variable(self.name, self.type)


@dataclass(frozen=True)
class Buffer:
    """An input. Along each axis, outermost first, it goes from a first index up to an end, both
    expressions of sizes and scalars, or (``()``) as far as it is read. Its elements are declared to
    lie between ``low`` and ``high``."""

    name: str
    type: Type
    axes: tuple[tuple[Expr, ...], ...]
    low: int
    high: int

    def at(self, *indices: Expr) -> Load:
        """Its element there."""
        return Load(self.name, indices, self.type)


@dataclass(frozen=True)
class Table:
    """An input whose elements are part of the program, outermost dimension first."""

    name: str
    type: Type
    extents: tuple[int, ...]
    elements: tuple[int, ...]

    def at(self, *indices: Expr) -> Load:
        """Its element there."""
        return Load(self.name, indices, self.type)


@dataclass(frozen=True)
class Update:
    """Loops, outermost first, that store ``values``, one for each array of the stage, at ``places``
    where the ``condition`` holds; one iteration after the other, as if on one processor. All values
    are computed before one is stored."""

    loops: tuple[Loop, ...]
    places: tuple[Expr, ...]
    values: tuple[Expr, ...]
    condition: Expr | None = None

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """What it computes, except for the bounds of its loops."""
        return (*(() if self.condition is None else (self.condition,)), *self.places, *self.values)


@dataclass(frozen=True)
class Stage:
    """Arrays (a tuple has several) over ``axes``, outermost first: a pure definition of each, then
    updates in order."""

    arrays: tuple[str, ...]
    axes: tuple[Loop, ...]
    values: tuple[Expr, ...]
    updates: tuple[Update, ...] = ()

    @property
    def name(self) -> str:
        """Its first array's."""
        return self.arrays[0]

    @property
    def types(self) -> tuple[Type, ...]:
        """Of its arrays."""
        return tuple(value.type for value in self.values)

    @property
    def places(self) -> tuple[Variable, ...]:
        """Where its definition stores."""
        return tuple(axis.index for axis in self.axes)

    def at(self, *indices: Expr, of: int = 0) -> Load:
        """The element of its array number ``of`` there."""
        return Load(self.arrays[of], indices, self.types[of])

    def is_own(self, node: Expr) -> bool:
        """Whether ``node`` reads one of its arrays."""
        return isinstance(node, Load) and node.source in self.arrays

    def bounds_of(self, loop: Loop) -> tuple[Expr, ...]:
        """Those of a loop of an update, or of its axis where it has none."""
        return loop.bounds or next(one for one in self.axes if one.name == loop.name).bounds

    @cached_property
    def expressions(self) -> tuple[Expr, ...]:
        """All that it computes, except for bounds of loops."""
        return (*self.values, *chain.from_iterable(one.expressions for one in self.updates))


@dataclass(frozen=True)
class Program:
    """``arguments`` in the order of a caller, stages each after those that it reads, and the arrays
    that are its outputs. ``sizes`` are fixed when it is compiled.

    Making one checks it: :class:`ProgramError` names the stage and what does not fit.
    """

    name: str
    sizes: tuple[str, ...]
    arguments: tuple[Scalar | Buffer, ...]
    tables: tuple[Table, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        _Check(self).program()

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """The arguments that are numbers."""
        return tuple(one for one in self.arguments if isinstance(one, Scalar))

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The arguments that are buffers."""
        return tuple(one for one in self.arguments if isinstance(one, Buffer))

    def sizes_at(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """The sizes for inputs and outputs of these ``shapes``, by name: those that are the end of
        an axis. :class:`ProgramError` if two ends that are one size differ."""
        found: dict[str, int] = {}
        ends = {one.name: one.axes for one in self.inputs}
        ends |= {
            name: tuple(axis.bounds for axis in self.stage_of(name).axes) for name in self.outputs
        }
        for name, axes in ends.items():
            for axis, extent in zip(axes, shapes[name], strict=True):
                if axis and isinstance(axis[1], Variable) and axis[1].name in self.sizes:
                    known = found.setdefault(axis[1].name, extent)
                    require(known == extent, f"its size {axis[1].name} is {known} and {extent}")
        return found

    def part(self, output: str) -> Program:
        """What makes one of its outputs, of the sizes, inputs and tables that this takes."""
        read, stages = {output}, list[Stage]()
        for stage in reversed(self.stages):
            if read & {*stage.arrays}:
                stages.append(stage)
                read |= {load.source for load in loads_in(*stage.expressions)}
        kept = [one for one in self.inputs if one.name in read]
        loops = [loop for stage in stages for loop in stage.axes]
        loops += [loop for stage in stages for update in stage.updates for loop in update.loops]
        bounds = [*chain.from_iterable(one.bounds for one in loops)]
        bounds += chain.from_iterable(chain.from_iterable(one.axes for one in kept))
        nodes = ordered([*bounds, *chain.from_iterable(one.expressions for one in stages)])
        named = {node.name for node in nodes if isinstance(node, Variable)}
        return replace(
            self,
            sizes=tuple(one for one in self.sizes if one in named),
            arguments=tuple(a for a in self.arguments if isinstance(a, Scalar) or a in kept),
            tables=tuple(one for one in self.tables if one.name in read),
            stages=tuple(stages[::-1]),
            outputs=(output,),
        )

    def stage_of(self, array: str) -> Stage:
        """The stage that computes ``array``."""
        return next(stage for stage in self.stages if array in stage.arrays)


class _Check:
    """A program under examination."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._scope: dict[str, Type] = dict.fromkeys(program.sizes, INDEX)
        self._scope |= {one.name: one.type for one in program.scalars}
        self._sources: dict[str, tuple[Type, int]] = {}

    def program(self) -> None:
        program = self._program
        names = [*program.sizes, *(one.name for one in (*program.arguments, *program.tables))]
        names += chain.from_iterable(stage.arrays for stage in program.stages)
        for name in names_in(program):
            fits = name.isascii() and name.isidentifier() and not iskeyword(name)
            require(fits, f"{name!r} is no name; letters, digits and _ are accepted")
        twice = {name for name in names if names.count(name) > 1}
        require(not twice, f"{program.name} has two of {', '.join(sorted(twice))}")
        for scalar in program.scalars:
            self._range(scalar)
        for buffer in program.inputs:
            self._range(buffer)
            where = f"the input {buffer.name}"
            for ends in buffer.axes:
                require(len(ends) in (0, 2), f"{where} has half an axis")
                for bound in ends:
                    self._bound(where, bound, {})
            self._sources[buffer.name] = buffer.type, len(buffer.axes)
        for table in program.tables:
            count, fits = len(table.elements), all(map(table.type.holds, table.elements))
            require(fits, f"the table {table.name} has elements that are no {table.type}")
            fits = 0 < count == prod(table.extents)
            require(fits, f"the table {table.name} has {count} elements")
            self._sources[table.name] = table.type, len(table.extents)
        for stage in program.stages:
            self._stage(stage)
        require(bool(program.outputs), f"{program.name} has no output")
        for name in program.outputs:
            found = [stage for stage in program.stages if name in stage.arrays]
            require(bool(found), f"no stage computes the output {name}")
            for axis in found[0].axes:
                where = f"the axis {axis.name} of the output {name}"
                require(bool(axis.bounds), f"{where} has no bounds")
                used = (one for one in ordered(axis.bounds) if isinstance(one, Variable))
                fixed = all(one.name in program.sizes for one in used)
                require(fixed, f"{where} has bounds that depend on more than sizes")

    def _range(self, one: Scalar | Buffer) -> None:
        fits = one.type.low <= one.low <= one.high <= one.type.high
        require(fits, f"{one.name} of {one.type} is declared from {one.low} to {one.high}")

    def _bound(self, where: str, bound: Expr, scope: Mapping[str, Type]) -> None:
        require(bound.type == INDEX, f"{where} has a bound of {bound.type}, not {INDEX}")
        require(not loads_in(bound), f"{where} has a bound that values of buffers decide")
        self._names(where, [bound], scope)

    def _names(self, where: str, roots: Sequence[Expr], scope: Mapping[str, Type]) -> None:
        for node in ordered(roots):
            if isinstance(node, Variable):
                known = scope.get(node.name) or self._scope.get(node.name)
                require(known == node.type, f"{where} depends on {node.name}, no {node.type} in it")
            elif isinstance(node, Load):
                found, wanted = self._sources.get(node.source), (node.type, len(node.indices))
                text = f"{node.source}, which is no buffer of {wanted[0]} and rank {wanted[1]} here"
                require(found == wanted, f"{where} reads {text}")

    def _stage(self, stage: Stage) -> None:
        where = f"the stage {stage.name}"
        require(len(stage.arrays) == len(stage.values), f"{where} has a value too many or too few")
        scope = self._loops(where, stage.axes)
        self._names(where, stage.values, scope)
        require(BOOL not in stage.types, f"{where} stores a condition; select a number by it")
        for name, kind in zip(stage.arrays, stage.types, strict=True):
            self._sources[name] = kind, len(stage.axes)
        for number, update in enumerate(stage.updates):
            self._update(f"update {number} of {where}", stage, update)

    def _loops(self, where: str, loops: Sequence[Loop]) -> dict[str, Type]:
        """The scope within ``loops``."""
        scope: dict[str, Type] = {}
        for loop in loops:
            is_new = loop.name not in scope and loop.name not in self._scope
            require(is_new, f"{where} has two of {loop.name}")
            require((loop.begin is None) == (loop.end is None), f"{where} has half a loop")
            for bound in loop.bounds:
                self._bound(where, bound, scope)
            scope[loop.name] = INDEX
        return scope

    def _update(self, where: str, stage: Stage, update: Update) -> None:
        types = tuple(value.type for value in update.values)
        require(types == stage.types, f"{where} stores other types than its definition")
        require(len(update.places) == len(stage.axes), f"{where} stores at another rank")
        scope = self._loops(where, update.loops)
        self._names(where, update.expressions, scope)
        require(all(one.type == INDEX for one in update.places), f"{where} stores at no {INDEX}")
        if update.condition is not None:
            require(update.condition.type == BOOL, f"{where} has a condition that is a number")
        free = {loop.name for loop in update.loops if not loop.bounds}
        for number, axis in enumerate(stage.axes):
            if axis.name in free:
                own = [one.indices for one in loads_in(*update.expressions) if stage.is_own(one)]
                stays = all(places[number] is axis.index for places in (update.places, *own))
                require(stays, f"{where} goes along {axis.name} without bounds, and leaves it")
        unknown = free - {axis.name for axis in stage.axes}
        require(not unknown, f"{where} loops over {', '.join(sorted(unknown))} without bounds")


def names_in(program: Program) -> Collection[str]:
    """All names that a program uses."""

    def found() -> Iterator[str]:
        yield from (program.name, *program.sizes)
        yield from (one.name for one in (*program.arguments, *program.tables))
        for stage in program.stages:
            yield from stage.arrays
            for loop in chain(stage.axes, *(update.loops for update in stage.updates)):
                yield loop.name

    return frozenset(found())
