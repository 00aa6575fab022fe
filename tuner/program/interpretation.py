"""The reference: the values of a program's outputs, with NumPy alone.

Whole arrays are computed at once: definitions, reductions whose order is free, and those loops of
other updates whose iterations have nothing to do with one another. The rest goes step by step, and
so do windows, whose elements then are slices. Sums of products are products of matrices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.program.access import assigned, combined, gathered, summed_products
from tuner.program.bounds import Bounds, Box, bounded
from tuner.program.expressions import (
    Binary,
    Constant,
    Expr,
    Load,
    ProgramError,
    Select,
    Variable,
    loads_in,
    ordered,
)
from tuner.program.intervals import Interval, Patience
from tuner.program.loops import Buffer, Loop, Program, Stage, Update
from tuner.program.meanings import value_of
from tuner.program.printing import text_of

Array = NDArray[Any]

_BLOCK_ELEMENTS = 1 << 18
"""Computed at once: intermediate values of this many stay in a cache."""
_ENOUGH, _MOST_STEPS = 1 << 11, 64
"""Elements that are worth a step of their own, and how many such there are."""
_FREE: Mapping[str, np.ufunc] = {
    "+": np.add,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
}
"""Operations that combine integers in any order."""
_NOWHERE, _EVERYWHERE = np.asarray(False), np.asarray(True)


@dataclass
class _Elements:
    """A buffer or array, and the index of its first element along each axis. Values that are
    ``beyond`` depend on what lies beyond a buffer; ``None`` if none does."""

    values: Array
    first: Sequence[int]
    beyond: Array | None = None

    def marked(self) -> Array:
        """Which elements are beyond, to be changed."""
        if self.beyond is None:
            self.beyond = np.zeros(self.values.shape, np.bool_)
        return self.beyond


@dataclass
class _Points:
    """The iterations that are computed at once: an axis for each loop. ``chosen`` are those that
    count, ``None`` for all."""

    variables: Mapping[Expr, Array]
    rank: int
    uses: Mapping[Expr, int]
    """How often the value of each node is wanted: after the last time it is given up, for memory
    that is used again is quicker than other."""
    chosen: Array | None = None
    left: Counter[Expr] = field(default_factory=Counter)
    known: dict[Expr, Array] = field(default_factory=dict)
    beyond: dict[Expr, Array] = field(default_factory=dict)
    """Where a node depends on what lies beyond a buffer: its value is of no use there."""

    def where(self, condition: Array) -> _Points:
        """Those of them that meet ``condition``."""
        chosen = condition if self.chosen is None else self.chosen & condition
        return _Points(self.variables, self.rank, self.uses, np.asarray(chosen))

    def give_up(self, node: Expr) -> None:
        """Takes note that the value of ``node`` was used."""
        self.left[node] += 1
        if self.left[node] == self.uses.get(node):
            del self.known[node]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many there are of each loop."""
        return np.broadcast_shapes(
            (1,) * self.rank, *(one.shape for one in self.variables.values())
        )


def interpreted(
    program: Program,
    sizes: Mapping[str, int],
    inputs: Mapping[str, Array],
    scalars: Mapping[str, int],
) -> dict[str, Array]:
    """The outputs for ``inputs``, whose first elements are where their axes begin.

    Raises what :func:`bounded` does, and :class:`ProgramError` for inputs of another shape.
    """
    return evaluated(bounded(program, sizes), inputs, scalars)


def evaluated(
    bounds: Bounds,
    inputs: Mapping[str, Array],
    scalars: Mapping[str, int],
    firsts: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Array]:
    """The same for a program whose ``bounds`` are known. Inputs that ``firsts`` names begin there
    and have whatever shape they have: :class:`ProgramError` if outputs depend on elements that they
    lack."""
    with np.errstate(all="ignore"):
        return _Interpreter(bounds, inputs, scalars, firsts or {}).outputs()


def evaluated_in_parts(
    program: Program,
    inputs: Mapping[str, Array],
    scalars: Mapping[str, int],
    firsts: Mapping[str, Sequence[int]],
    most_elements: int = 1 << 25,
) -> dict[str, Array]:
    """What :func:`evaluated` gives, of a program without sizes. If its stages have more elements
    together, and its output is no sum, parts of the output are made one after the other."""
    bounds = bounded(program, {})
    boxes = (bounds.boxes.get(stage.name, ()) for stage in program.stages)
    count = sum(prod(max(0, one.high - one.low + 1) for one in box) for box in boxes)
    halves = _halves(program) if count > most_elements else ()
    if not halves:
        return evaluated(bounds, inputs, scalars, firsts)
    made = [evaluated_in_parts(half, inputs, scalars, firsts, most_elements) for half in halves]
    return {name: np.concatenate([one[name] for one in made]) for name in program.outputs}


def _halves(program: Program) -> tuple[Program, ...]:
    """It with each half of the outermost loop over its output; none if there is no such loop."""
    output = program.stage_of(program.outputs[0])
    if output.updates or len(program.outputs) > 1 or not output.axes:
        return ()
    outermost, *others = output.axes
    begin, end = outermost.begin, outermost.end
    if not (isinstance(begin, Constant) and isinstance(end, Constant)):
        return ()
    middle = Constant((begin.value + end.value) // 2, begin.type)
    if middle.value == begin.value:
        return ()

    def half(loop: Loop) -> Program:
        own = replace(output, axes=(loop, *others))
        stages = tuple(own if stage is output else stage for stage in program.stages)
        return replace(program, stages=stages)

    return half(replace(outermost, end=middle)), half(replace(outermost, begin=middle))


class _Interpreter:
    def __init__(
        self,
        bounds: Bounds,
        inputs: Mapping[str, Array],
        scalars: Mapping[str, int],
        firsts: Mapping[str, Sequence[int]],
    ) -> None:
        # Arrays are as large as any scalars want them, loops as long as these do.
        self._bounds = replace(bounds, scalars=scalars, patience=Patience())
        self._program = bounds.program
        for one in self._program.scalars:
            if not one.low <= scalars[one.name] <= one.high:
                raise ProgramError(
                    f"{one.name} is {scalars[one.name]}", accepted=f"{one.low} to {one.high}"
                )
        values = {**bounds.sizes, **scalars}
        self._outside: dict[Expr, Array] = {
            one: np.asarray(values[one.name], one.type.dtype)
            for one in (
                *map(Variable, self._program.sizes),
                *(s.value for s in self._program.scalars),
            )
        }
        self._buffers = {
            one.name: _Elements(
                np.asarray(one.elements, one.type.dtype).reshape(one.extents),
                (0,) * len(one.extents),
            )
            for one in self._program.tables
        }
        for buffer in self._program.inputs:
            first, shape = self._ends(buffer)
            given = inputs[buffer.name]
            if buffer.name in firsts:
                first, shape = tuple(firsts[buffer.name]), given.shape
            if given.shape != shape or given.dtype != buffer.type.dtype:
                raise ProgramError(
                    f"the input {buffer.name} is {given.dtype} of {given.shape}",
                    accepted=f"{buffer.type.dtype} of {shape}",
                )
            self._buffers[buffer.name] = _Elements(given, first)

    def _ends(self, buffer: Buffer) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first index and the extent of an input along each axis, for these scalars."""
        first, shape = [], []
        for axis, over in zip(buffer.axes, self._bounds.boxes[buffer.name], strict=True):
            ends = [int(self._of(end, self._none())) for end in axis] or [over.low, over.high + 1]
            first.append(ends[0])
            shape.append(ends[1] - ends[0])
        return tuple(first), tuple(shape)

    def outputs(self) -> dict[str, Array]:
        """Computes all stages that are needed, in order."""
        for stage in self._program.stages:
            if stage.name in self._bounds.boxes:
                self._compute(stage, self._bounds.boxes[stage.name])
        for name in self._program.outputs:
            if np.any(self._buffers[name].beyond):
                raise ProgramError(f"its output {name} depends on what lies beyond a buffer")
        return {name: self._buffers[name].values for name in self._program.outputs}

    def _none(self) -> _Points:
        return _Points(self._outside, 0, {})

    def _compute(self, stage: Stage, box: Box) -> None:
        shape = tuple(max(0, one.high - one.low + 1) for one in box)
        first = tuple(one.low for one in box)
        for array, kind in zip(stage.arrays, stage.types, strict=True):
            self._buffers[array] = _Elements(np.zeros(shape, kind.dtype), first)
        nest = list(zip(stage.axes, box, strict=True))
        definition = Update(stage.axes, stage.places, stage.values)
        uses = _uses(definition)
        for block in _blocks(nest, _BLOCK_ELEMENTS, [stage.axes]):
            self._store(stage, definition, self._points(stage.axes, block, uses), None)
        for update in stage.updates:
            self._update(stage, update, box)

    def _update(self, stage: Stage, update: Update, box: Box) -> None:
        scope = self._bounds.of_update(stage, update)
        if scope is None:
            return
        nest = [(loop, scope.known[loop.index]) for loop in update.loops]
        total = _Total.of(stage, update)
        in_turn = _in_turn(stage, update) if total is None else _windows(update, total, nest)
        steps = [one for one in nest if one[0] in in_turn]
        at_once = [one for one in nest if one[0] not in in_turn]
        loops, uses = [loop for loop, _ in (*steps, *at_once)], _uses(update)
        together = [loops]
        if total is not None and total.factors:  # whose products are never stored
            parts = ([one] for one in total.factors)
            together = [_used(loops, one) for one in (*parts, update.places)]
        for step in _blocks(steps, 1, [loops]):
            for block in _blocks(at_once, _BLOCK_ELEMENTS, together):
                whole = [*step, *block]
                points = self._entered(update, self._points(loops, whole, uses))
                if self._store(stage, update, points, total):
                    continue
                over = [(loop, _interval(own)) for loop, own in zip(loops, whole, strict=True)]
                for part in _blocks(over, _BLOCK_ELEMENTS, [loops]):
                    points = self._entered(update, self._points(loops, part, uses))
                    self._store(stage, update, points, total)

    def _points(
        self, loops: Sequence[Loop], block: Sequence[range], uses: Mapping[Expr, int]
    ) -> _Points:
        variables = dict(self._outside)
        for number, (loop, over) in enumerate(zip(loops, block, strict=True)):
            shape = [1] * len(loops)
            shape[number] = len(over)
            variables[loop.index] = np.arange(over.start, over.stop, dtype=np.int32).reshape(shape)
        return _Points(variables, len(loops), uses)

    def _entered(self, update: Update, points: _Points) -> _Points:
        """Those of ``points`` that the loops of ``update`` come to and its condition lets pass."""
        for loop in update.loops:
            for by, bound in zip((np.greater_equal, np.less), loop.bounds, strict=False):
                holds = by(points.variables[loop.index], self._of(bound, points))
                points = points if holds.all() else points.where(holds)
        if update.condition is not None:
            points = points.where(self._of(update.condition, points))
        return points

    def _store(self, stage: Stage, update: Update, points: _Points, total: _Total | None) -> bool:
        """Whether ``points`` were done: ``False`` if they are too many at once."""
        if points.chosen is not None and not points.chosen.any():
            return True
        first = self._buffers[stage.name].first
        at = [self._of(one, points) - own for one, own in zip(update.places, first, strict=True)]
        if total is not None:
            return self._add(self._buffers[stage.name], total, at, points)
        values = [
            # An element of its own may be overwritten before it is stored.
            found.copy() if stage.is_own(one) else found
            for one in update.values
            for found in [self._found(one, points)]
        ]
        for array, node, value in zip(stage.arrays, update.values, values, strict=True):
            target, beyond = self._buffers[array], points.beyond.get(node, _NOWHERE)
            _put(target.values, at, value, points)
            if beyond is not _NOWHERE or target.beyond is not None:
                _put(target.marked(), at, beyond, points)
        return True

    def _add(self, target: _Elements, total: _Total, at: list[Array], points: _Points) -> bool:
        """Combines the terms of ``points`` with what they belong to; not products, if they have to
        be stored and are too many for that."""
        shape, by, values = points.shape, total.by, target.values
        parts = total.factors or (total.term,)
        found = [self._found(one, points) for one in parts]
        beyond = [points.beyond[one] for one in parts if one in points.beyond]
        if total.factors and points.chosen is None and not beyond:
            combined(
                *(by, values, at, len(shape)),
                lambda gone: summed_products(found, shape, gone, values.dtype),
            )
            return True
        if prod(shape) > _BLOCK_ELEMENTS:
            return False
        terms = value_of(total.term, *found) if total.factors else found[0]
        terms = np.broadcast_to(terms, shape)
        for one in beyond:
            (lost, *places) = _chosen([one, *at], points)
            np.logical_or.at(target.marked(), tuple(places), lost.any() if not places else lost)
        if points.chosen is None and combined(
            *(by, values, at, len(shape)),
            lambda gone: by.reduce(terms, axis=gone, dtype=values.dtype),
        ):
            return True
        (terms, *places) = _chosen([terms, *at], points)
        if places:
            by.at(values, tuple(places), terms)
        else:
            values[()] = by(values, by.reduce(terms.reshape(-1), dtype=values.dtype))
        return True

    def _of(self, root: Expr, points: _Points) -> Array:
        """The value of ``root``, by which it is known what to compute, at each of ``points``."""
        found = self._found(root, points)
        beyond = points.beyond.get(root, _NOWHERE)
        if np.any(beyond if points.chosen is None else beyond & points.chosen):
            raise ProgramError(f"{text_of(root)} depends on what lies beyond a buffer")
        return found

    def _found(self, root: Expr, points: _Points) -> Array:
        """The value of ``root``, which may be ``beyond``."""
        for node in ordered([root], lambda one: [p for p in one.parts if p not in points.known]):
            if node not in points.known:
                points.known[node] = self._value(node, points)
                for part in node.parts:
                    points.give_up(part)
        found = points.known[root]
        points.give_up(root)
        return found

    def _value(self, node: Expr, points: _Points) -> Array:
        parts = [points.known[part] for part in node.parts]
        beyond = [points.beyond.get(part, _NOWHERE) for part in node.parts]
        if isinstance(node, Select) and beyond[1] is not beyond[2]:
            beyond[1:] = [np.where(parts[0], *beyond[1:])]
        for one in beyond:
            if one is not _NOWHERE:
                points.beyond[node] = points.beyond.get(node, _NOWHERE) | one
        if isinstance(node, Variable):
            return points.variables[node]
        if isinstance(node, Load):
            return self._load(node, parts, points)
        return value_of(node, *parts)

    def _load(self, node: Load, indices: Sequence[Array], points: _Points) -> Array:
        source = self._buffers.get(node.source)
        if source is None or not source.values.size:  # which nobody chooses
            points.beyond[node] = _EVERYWHERE
            return np.zeros((1,) * points.rank, node.type.dtype)
        places = []
        for index, first, extent in zip(indices, source.first, source.values.shape, strict=True):
            place = index - first
            if place.size and not (place.min() >= 0 and place.max() < extent):
                outside = (place < 0) | (place >= extent)
                points.beyond[node] = points.beyond.get(node, _NOWHERE) | outside
                place = np.clip(place, 0, extent - 1)
            places.append(place)
        if source.beyond is not None:
            outside = gathered(source.beyond, places)
            if outside.any():
                points.beyond[node] = points.beyond.get(node, _NOWHERE) | outside
        return gathered(source.values, places)


def _uses(update: Update) -> Counter[Expr]:
    """How often the value of each node in ``update`` is wanted, if nothing else asks for it."""
    roots = (*update.expressions, *(bound for loop in update.loops for bound in loop.bounds))
    found = Counter(roots)
    for node in ordered(roots):
        found.update(node.parts)
    return found


def _chosen(arrays: Sequence[Array], points: _Points) -> list[Array]:
    """What counts of arrays at ``points``."""
    whole = [np.broadcast_to(one, points.shape) for one in arrays]
    if points.chosen is None:
        return whole
    chosen = np.broadcast_to(points.chosen, points.shape)
    return [one[chosen] for one in whole]


def _put(target: Array, at: Sequence[Array], values: Array, points: _Points) -> None:
    """Stores values; of several at one place the last one stays."""
    if points.chosen is None and assigned(target, at, values, points.shape):
        return
    (values, *places) = _chosen([values, *at], points)
    target[tuple(places)] = values if places else values.reshape(-1)[-1]


@dataclass(frozen=True)
class _Total:
    """An update whose order is free: an element, combined with a ``term`` that depends on none of
    its stage. If it adds up products, each at the indices of loops, of these ``factors``."""

    by: np.ufunc
    term: Expr
    factors: tuple[Expr, ...] = ()

    @classmethod
    def of(cls, stage: Stage, update: Update) -> _Total | None:
        """The total that ``update`` makes; ``None`` if it makes none."""
        value = update.values[0]
        if len(update.values) > 1 or not isinstance(value, Binary) or value.operator not in _FREE:
            return None
        for own, term in ((value.left, value.right), (value.right, value.left)):
            others = (
                update.places if update.condition is None else (*update.places, update.condition)
            )
            is_free = not any(map(stage.is_own, loads_in(term, *others)))
            if own is stage.at(*update.places) and is_free:
                is_product = value.operator == "+" and _is_matrix(update)
                is_product = is_product and isinstance(term, Binary) and term.operator == "*"
                return cls(_FREE[value.operator], term, term.parts if is_product else ())
        return None


def _is_matrix(update: Update) -> bool:
    """Whether it stores at indices of its loops, which depend on nothing else."""
    indices = {loop.index for loop in update.loops}
    places = set[Expr](update.places)
    bounds = ordered([bound for loop in update.loops for bound in loop.bounds])
    is_place = places <= indices and len(places) == len(update.places)
    return is_place and update.condition is None and indices.isdisjoint(bounds)


def _used(loops: Sequence[Loop], roots: Sequence[Expr]) -> list[Loop]:
    """Those that the value of ``roots`` depends on."""
    nodes = set(ordered(roots))
    return [loop for loop in loops if loop.index in nodes]


def _windows(update: Update, total: _Total, nest: Sequence[tuple[Loop, Interval]]) -> list[Loop]:
    """The short loops of a reduction that shift what others go along, where those have enough
    elements for a step of each."""
    indices = [_used(update.loops, [one]) for load in loads_in(total.term) for one in load.indices]
    places = _used(update.loops, update.places)
    extents = {loop: over.high - over.low + 1 for loop, over in nest}
    found, steps = list[Loop](), 1
    for loop in sorted(update.loops, key=lambda one: extents[one]):
        shifts = loop not in places and any(loop in one and len(one) > 1 for one in indices)
        if shifts and steps * extents[loop] <= _MOST_STEPS:
            found.append(loop)
            steps *= extents[loop]
    return found if prod(extents.values()) >= _ENOUGH * steps else []


def _in_turn(stage: Stage, update: Update) -> list[Loop]:
    """The loops whose iterations have to do with one another: not those whose index is, wherever
    the stage is written or read, that of one axis."""
    own = [one.indices for one in loads_in(*update.expressions) if stage.is_own(one)]
    if not own:
        return []  # of what is stored at one place the last stays, in any case
    return [
        loop
        for loop in update.loops
        if not any(
            all(places[number] is loop.index for places in (update.places, *own))
            for number in range(len(stage.axes))
        )
    ]


def _interval(over: range) -> Interval:
    return Interval(over.start, over.stop - 1)


def _blocks(
    nest: Sequence[tuple[Loop, Interval]], limit: int, groups: Sequence[Collection[Loop]]
) -> Iterator[list[range]]:
    """The iterations of ``nest`` in order, as many at once as ``limit`` allows each of ``groups``
    of loops."""
    inner, axes = [1] * len(groups), []
    for loop, (low, high) in reversed(nest):
        extent, own = high - low + 1, [number for number, g in enumerate(groups) if loop in g]
        step = max(1, min(extent, limit // max([1, *(inner[number] for number in own)])))
        for number in own:
            inner[number] *= step
        axes.append([range(at, min(at + step, high + 1)) for at in range(low, high + 1, step)])
    yield from (list(ranges) for ranges in product(*reversed(axes)))
