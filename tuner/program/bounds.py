"""How far the stages of a program reach, and what values they have, for given sizes.

Readers decide: a stage is computed wherever another may read it, as far as intervals tell. Where
they tell more than a buffer has, the program is refused, so no code reads beyond one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

from tuner.program.expressions import Expr, Load, ProgramError, Select, Variable, ordered, require
from tuner.program.intervals import Interval, Patience, Scope, of_type, sum_of, unconditional_parts
from tuner.program.loops import Loop, Program, Stage, Update
from tuner.program.types import INDEX

Box = tuple[Interval, ...]
End = TypeVar("End")
_To = TypeVar("_To", covariant=True)
AnyReach = TypeVar("AnyReach", bound="Reach[Any]")
_MOST_TERMS = 1000
"""Of what an update adds: a window that is written out has hundreds."""
_ROUNDS = 4
"""In which the values of a recurrence may settle; else they are all of their type."""


@dataclass
class Bounds:
    """``boxes`` of inputs and of the stages that are needed, by name: the least and greatest index
    along each axis. ``values`` of the elements of inputs, tables and arrays, by name. ``needed``
    are those of sums, by stage and update, whether they fit or not."""

    program: Program
    sizes: Mapping[str, int]
    boxes: dict[str, Box] = field(default_factory=dict)
    values: dict[str, Interval] = field(default_factory=dict)
    needed: dict[tuple[str, int], Interval] = field(default_factory=dict)
    scalars: Mapping[str, int] = field(default_factory=dict)
    """Those whose values are known: of others all are allowed that are declared."""
    patience: Patience = field(default_factory=Patience)
    most: Mapping[str, int] = field(default_factory=dict)
    """Of sizes that a caller chooses, from 1 up to so much: what is found holds for all of them."""

    def known(self) -> dict[Expr, Interval]:
        """The intervals of sizes and scalars."""
        found: dict[Expr, Interval] = {}
        for name, size in self.sizes.items():
            found[Variable(name)] = Interval(size, size)
        for name, most in self.most.items():
            found[Variable(name)] = Interval(1, most)
        for one in self.program.scalars:
            value = self.scalars.get(one.name)
            own = Interval(one.low, one.high)
            found[one.value] = own if value is None else Interval(value, value)
        return found

    def scope(self, known: Mapping[Expr, Interval] | None = None) -> Scope:
        """What is known outside of all loops, or what is ``known``."""
        return Scope(
            self.known() if known is None else known,
            lambda load: self.values[load.source],
            self.patience,
        )

    def of_definition(self, stage: Stage) -> Scope | None:
        """What is known where a stage is defined; ``None`` if that is nowhere."""
        return self.within(stage, stage.axes)

    def of_update(self, stage: Stage, update: Update) -> Scope | None:
        """What is known where an update stores; ``None`` if it never does."""
        scope = self.within(stage, update.loops)
        if scope is None or update.condition is None:
            return scope
        return scope.under(update.condition, True)

    def extent(self, scope: Scope, bounds: tuple[Expr, ...]) -> Interval:
        """The least and greatest index between bounds, over all that ``scope`` allows."""
        begin, end = bounds
        return Interval(scope.of(begin).low, scope.of(end).high - 1)

    def within(self, stage: Stage, loops: Iterable[Loop]) -> Scope | None:
        """What is known within ``loops`` of a stage; ``None`` if they are never entered."""
        known, box = self.known(), self.boxes.get(stage.name)
        for loop in loops:
            if loop.bounds:
                over = self.extent(self.scope(known), loop.bounds)
            elif box is not None:
                over = box[[axis.name for axis in stage.axes].index(loop.name)]
            else:
                over = of_type(INDEX)
            if over.high < over.low:
                return None
            known[loop.index] = over
        return self.scope(known)


def shapes_of(program: Program, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs and outputs for ``sizes``, by name; :class:`ProgramError` for an input
    that goes as far as it is read."""
    scope, shapes = Bounds(program, sizes).scope(), {}
    axes = {one.name: one.axes for one in program.inputs}
    for name in program.outputs:
        axes[name] = tuple(axis.bounds for axis in program.stage_of(name).axes)
    for name, ends in axes.items():
        require(all(ends), f"{name} has an axis without bounds")
        shapes[name] = tuple(scope.of(end).high - scope.of(begin).low for begin, end in ends)
    return shapes


def bounded(
    program: Program, sizes: Mapping[str, int], most: Mapping[str, int] | None = None
) -> Bounds:
    """The bounds of ``program`` for ``sizes``, those that are open up to ``most``, and all scalars
    and elements that are declared.

    :class:`ProgramError` if a stage reads or stores beyond a buffer, or anywhere at all; where
    sizes are open, :mod:`tuner.program.spans` tells about buffers.
    """
    missing = set(program.sizes) - set(sizes) - set(most or {})
    if missing:
        raise ProgramError(f"{program.name} is given no size {', '.join(sorted(missing))}")
    nodes = sum(1 for stage in program.stages for _ in ordered(stage.expressions))
    bounds = Bounds(program, sizes, most=most or {}, patience=Patience.with_nodes(nodes))
    bounds.values |= {one.name: Interval(one.low, one.high) for one in program.inputs}
    bounds.values |= {
        one.name: Interval(min(one.elements), max(one.elements)) for one in program.tables
    }
    for stage in program.stages:  # what indices may be that are read
        _find_values(bounds, stage)
    _BoxDemands(bounds).find()
    for stage in program.stages:
        if stage.name in bounds.boxes:
            _find_values(bounds, stage)
    return bounds


class Reach(Protocol[_To]):
    """What is known where expressions are computed, and how far they reach there."""

    @property
    def patience(self) -> Patience:
        """For all that is looked at."""

    def of(self, root: Expr, /) -> _To:
        """The least and greatest value of ``root``."""

    def under(self, condition: Expr, holds: bool, /) -> Self | None:
        """The same where ``condition`` is as said."""


class Demands(ABC, Generic[End]):
    """The boxes that are read of the buffers of ``program``, in ``boxes`` once they are found."""

    def __init__(self, program: Program, boxes: dict[str, tuple[End, ...]]) -> None:
        self.program, self.boxes = program, boxes
        self._read: dict[str, list[tuple[End, ...]]] = {}

    @abstractmethod
    def within(self, stage: Stage, loops: Iterable[Loop]) -> Reach[End] | None:
        """What is known within ``loops`` of a stage; ``None`` if they are never entered."""

    @abstractmethod
    def declared(self, bounds: tuple[Expr, ...]) -> End | None:
        """Where an axis goes for certain."""

    @abstractmethod
    def around(
        self,
        axes: Sequence[tuple[Expr, ...]],
        declared: Sequence[End | None],
        read: Sequence[tuple[End, ...]],
    ) -> tuple[End, ...]:
        """The box of a buffer: as declared, or as it is read."""

    @abstractmethod
    def require(
        self, name: str, declared: Sequence[End | None], read: Sequence[tuple[End, ...]]
    ) -> None:
        """Sees to it that what is ``read`` of a buffer is ``declared``."""

    @abstractmethod
    def of_table(self, extent: int) -> End:
        """Where an axis of a table goes."""

    def find(self) -> None:
        """Finds the boxes of all stages that the outputs need."""
        program = self.program
        for stage in reversed(program.stages):
            read = [box for array in stage.arrays for box in self._read.get(array, ())]
            if not read and not set(program.outputs) & set(stage.arrays):
                continue
            axes = [axis.bounds for axis in stage.axes]
            declared = list(map(self.declared, axes))
            self.boxes[stage.name] = box = self.around(axes, declared, read)
            for update in stage.updates:
                self._visit(stage, update)
            read = [box, *(one for array in stage.arrays for one in self._read.get(array, ()))]
            self.boxes[stage.name] = self.around(axes, declared, read)
            self.require(stage.name, declared, read)
            scope = self.within(stage, stage.axes)
            if scope is not None:
                self._loads(scope, stage.values)
        for buffer in program.inputs:
            declared = [self.declared(axis) for axis in buffer.axes]
            read = self._read.get(buffer.name, [])
            self.boxes[buffer.name] = self.around(buffer.axes, declared, read)
            self.require(buffer.name, declared, read)
        for table in program.tables:
            declared = [self.of_table(extent) for extent in table.extents]
            self.require(table.name, declared, self._read.get(table.name, []))

    def _visit(self, stage: Stage, update: Update) -> None:
        outside = scope = self.within(stage, update.loops)
        if outside is not None and update.condition is not None:
            scope = outside.under(update.condition, True)
        if outside is None or scope is None:
            return
        self._read.setdefault(stage.name, []).append(tuple(map(scope.of, update.places)))
        self._loads(scope, (*update.places, *update.values))
        if update.condition is not None:  # which is read before it is known
            self._loads(outside, [update.condition])

    def _loads(self, scope: Reach[End], roots: Iterable[Expr]) -> None:
        for node, within in computed(scope, roots):
            if isinstance(node, Load):
                self._read.setdefault(node.source, []).append(tuple(map(within.of, node.indices)))


class _BoxDemands(Demands[Interval]):
    """Those of ``bounds``, as intervals of indices."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds.program, bounds.boxes)
        self._bounds = bounds

    def within(self, stage: Stage, loops: Iterable[Loop]) -> Reach[Interval] | None:
        return self._bounds.within(stage, loops)

    def declared(self, bounds: tuple[Expr, ...]) -> Interval | None:
        if not bounds:
            return None
        scope = self._bounds.scope()
        begin, end = map(scope.of, bounds)
        return Interval(begin.high, end.low - 1)

    def around(
        self,
        axes: Sequence[tuple[Expr, ...]],
        declared: Sequence[Interval | None],
        read: Sequence[Box],
    ) -> Box:
        scope, box = self._bounds.scope(), []
        for number, bounds in enumerate(axes):
            if declared[number] is not None:
                box.append(self._bounds.extent(scope, bounds))
                continue
            low = min((one[number].low for one in read), default=0)
            box.append(Interval(low, max((one[number].high for one in read), default=-1)))
        return tuple(box)

    def require(self, name: str, declared: Sequence[Interval | None], read: Sequence[Box]) -> None:
        for box in read:
            for number, (own, one) in enumerate(zip(declared, box, strict=True)):
                if own is not None and not self._bounds.most and not own.covers(one):
                    raise ProgramError(
                        f"{name} is used from {one.low} to {one.high} along axis {number}, "
                        f"where it goes from {own.low} to {own.high}",
                        next_step="clamp the index, or select what is used beyond",
                    )
                if one.low == INDEX.low or one.high == INDEX.high:
                    raise ProgramError(
                        f"{name} is used at any index along axis {number}", next_step="clamp it"
                    )

    def of_table(self, extent: int) -> Interval:
        return Interval(0, extent - 1)


def computed(scope: AnyReach, roots: Iterable[Expr]) -> Iterator[tuple[Expr, AnyReach]]:
    """All nodes in ``roots`` with what is known where each is computed, parts first; one below
    several conditions comes once for each."""
    seen: dict[int, set[Expr]] = {}
    waiting = [(scope, tuple(roots))]
    while waiting:
        within, some = waiting.pop()
        own = seen.setdefault(id(within), set())
        for node in ordered((one for one in some if one not in own), partial(_new_parts, own)):
            scope.patience.step()
            own.add(node)
            yield node, within
            if isinstance(node, Select):
                for part, holds in ((node.chosen, True), (node.otherwise, False)):
                    inner = within.under(node.condition, holds)
                    if inner is not None:
                        waiting.append((inner, (part,)))


def _new_parts(seen: Collection[Expr], node: Expr) -> list[Expr]:
    return [part for part in unconditional_parts(node) if part not in seen]


def _find_values(bounds: Bounds, stage: Stage) -> None:
    scope = bounds.of_definition(stage)
    for array, value in zip(stage.arrays, stage.values, strict=True):
        bounds.values[array] = scope.of(value) if scope is not None else Interval(0, 0)
    for number, update in enumerate(stage.updates):
        if not _add_sum(bounds, stage, number, update):
            _add_recurrence(bounds, stage, update)


def _add_sum(bounds: Bounds, stage: Stage, number: int, update: Update) -> bool:
    """The values of an update that adds terms to an earlier element; false if it is another."""
    scope = bounds.of_update(stage, update)
    if scope is None or len(stage.arrays) > 1:
        return scope is None
    (array,), (value,) = stage.arrays, update.values
    terms = _terms_of_sum(stage, scope, value)
    if terms is None:
        return False
    term = sum_of(terms, scope.of)
    times = 1
    for loop in update.loops:
        if loop.bounds:
            over = scope.known[loop.index]
            times *= over.high - over.low + 1
    before, whole = bounds.values[array], of_type(value.type)
    low, high = before.low + times * min(term.low, 0), before.high + times * max(term.high, 0)
    bounds.needed[stage.name, number] = total = Interval(low, high)
    bounds.values[array] = total if whole.covers(total) else whole
    # What was found for its first values has to hold for those that follow.
    again = bounds.of_update(stage, update)
    if again is None or _terms_of_sum(stage, again, value) != terms:
        bounds.values[array] = whole
    return True


def _terms_of_sum(stage: Stage, scope: Scope, value: Expr) -> dict[Expr | None, int] | None:
    """What ``value`` adds to an element of its own array; ``None`` if it does anything else."""
    scope.exact(value)
    terms = scope.terms(value, _MOST_TERMS)
    own = [one for one in terms if one is not None and stage.is_own(one)]
    if len(own) != 1 or terms.pop(own[0]) != 1:
        return None
    others = [one for one in terms if one is not None]
    return None if any(map(stage.is_own, ordered(others))) else terms


def _add_recurrence(bounds: Bounds, stage: Stage, update: Update) -> None:
    for _ in range(_ROUNDS):
        scope = bounds.of_update(stage, update)
        if scope is None:
            return
        before = {array: bounds.values[array] for array in stage.arrays}
        for array, value in zip(stage.arrays, update.values, strict=True):
            bounds.values[array] = before[array].union(scope.of(value))
        if before == {array: bounds.values[array] for array in stage.arrays}:
            return
    for array, value in zip(stage.arrays, update.values, strict=True):
        bounds.values[array] = of_type(value.type)
