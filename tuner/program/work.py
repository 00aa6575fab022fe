"""The work of a program, whatever code does it: what is loaded, stored and computed, by width.

A width is the least, of 8 to 64 bits, that holds an operation's operands and result for all values
that are declared, however the program spells it. What depends on outer loops alone counts once for
each of their iterations, so a sum is stored once; a part that is used twice counts once, and
finding places costs nothing. Loops count as often as they can go around.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from math import prod

from tuner.program.bounds import Bounds, Box
from tuner.program.expressions import Binary, Cast, Expr, Load, Select, Unary, Variable, ordered
from tuner.program.intervals import Interval, Scope
from tuner.program.loops import Stage, Update
from tuner.program.types import BOOL

_WIDTHS = (8, 16, 32, 64)


@dataclass
class Work:
    """Counts by width in bits: elements of inputs, tables and other stages that are ``loaded``,
    elements that are ``stored``, ``products`` (by constants too), and other ``operations``."""

    loaded: Counter[int] = field(default_factory=Counter)
    stored: Counter[int] = field(default_factory=Counter)
    products: Counter[int] = field(default_factory=Counter)
    operations: Counter[int] = field(default_factory=Counter)

    def __add__(self, other: Work) -> Work:
        return Work(
            self.loaded + other.loaded,
            self.stored + other.stored,
            self.products + other.products,
            self.operations + other.operations,
        )


def work_of(bounds: Bounds) -> dict[str, Work]:
    """The work of each stage that is needed, by its name."""
    return {
        stage.name: _of_stage(bounds, stage)
        for stage in bounds.program.stages
        if stage.name in bounds.boxes
    }


def _of_stage(bounds: Bounds, stage: Stage) -> Work:
    total = Work()
    definition = Update(stage.axes, stage.places, stage.values)
    for update in (definition, *stage.updates):
        scope = bounds.within(stage, update.loops)
        if scope is not None:
            total += _of_update(bounds, stage, update, scope)
    return total


def _of_update(bounds: Bounds, stage: Stage, update: Update, scope: Scope) -> Work:
    work = Work()
    times: dict[Expr, int] = {loop.index: _extent(scope.known[loop.index]) for loop in update.loops}
    around: dict[Expr, frozenset[Expr]] = {}
    valued = set(_valued(update))
    for node in ordered(update.expressions):
        own = {node} if isinstance(node, Variable) and node in times else set()
        around[node] = frozenset(chain(own, *(around[part] for part in node.parts)))
        count = prod(times[one] for one in around[node])
        if isinstance(node, Load) and not stage.is_own(node):
            work.loaded[node.type.bits] += count
        elif node in valued:
            _count(work, node, scope, count)
    moved = frozenset(chain.from_iterable(around[place] for place in update.places))
    for kind in stage.types:
        work.stored[kind.bits] += prod(times[one] for one in moved)
    return work


def _valued(update: Update) -> Iterator[Expr]:
    """The nodes that are computed for their values, rather than to find a place."""
    roots = update.values if update.condition is None else (update.condition, *update.values)
    return ordered(roots, lambda one: () if isinstance(one, Load) else one.parts)


def _count(work: Work, node: Expr, scope: Scope, times: int) -> None:
    if isinstance(node, Binary) and node.operator == "*":
        work.products[_width(scope, *node.parts)] += times
    elif isinstance(node, Select):
        work.operations[_width(scope, *node.parts[1:])] += times
    elif isinstance(node, Binary | Unary) or (isinstance(node, Cast) and node.saturates):
        work.operations[_width(scope, node, *node.parts)] += times


def _width(scope: Scope, *nodes: Expr) -> int:
    """Of the least integers, with a sign or without, that hold the values of ``nodes``."""
    found = [scope.of(node) for node in nodes if node.type != BOOL] or [Interval(0, 1)]
    low, high = min(one.low for one in found), max(one.high for one in found)
    bits = max(high.bit_length() + (low < 0), (-1 - low).bit_length() + 1 if low < 0 else 0)
    return next(width for width in _WIDTHS if bits <= width)


def _extent(over: Interval) -> int:
    return over.high - over.low + 1


def elements_of(box: Box) -> int:
    """How many elements a box has."""
    return prod(max(0, _extent(one)) for one in box)
