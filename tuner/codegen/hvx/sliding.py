"""Which values an iteration over some rows computes, and which it takes over from the one before.

An iteration makes ``rows`` output rows of a strip of columns and moves down by as many. A value
that is needed in several rows is computed once, in the lowest of them, and stays in a register for
the iterations that follow. Results of an associative operation are combined in pairs of rows that
begin at an even one (pairs of pairs, and so on), so that the outputs of an iteration share them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from tuner.codegen.hvx.lowering import Placed, Value, Values

CONSTANTS = ("splatb", "splath", "splatw")
SAME, MEDIAN, MEDIAN_OF_PAIR = "same", "median", "median_of_pair"
"""Operations without an instruction of their own: a copy, and medians of three bytes, of which two
may be in order."""


@dataclass(frozen=True)
class Operation:
    """How a value comes about in one row: a name and the values that it takes, each in its row."""

    name: str
    parts: tuple[Placed, ...]
    numbers: tuple[int, ...] = ()


@dataclass
class Window:
    """The rows of one iteration, counted from the first output row.

    ``computed`` are values to compute, each after those that it takes; ``kept`` those that the
    iteration before computed ``rows`` lower, or had kept by then.
    """

    values: Values
    roots: tuple[Placed, ...]
    """An output's row of each plane."""
    rows: int
    computed: list[Placed] = field(default_factory=list)
    kept: list[Placed] = field(default_factory=list)

    def __post_init__(self) -> None:
        made = self._needed()
        self.kept = sorted(
            ((v, row) for v, rows in made.items() for row in rows if row <= max(rows) - self.rows),
            key=lambda one: (one[0].number, one[1]),
        )
        kept = set(self.kept)
        rest = [(v, row) for v, rows in made.items() for row in rows if (v, row) not in kept]
        rest.sort(key=lambda one: (one[0].height, one[1], one[0].number))
        rows = range(self.rows)
        outputs = [(value, first + row) for value, first in self.roots for row in rows]
        self.computed = self.order([*outputs, *rest], kept)

    def order(self, wanted: list[Placed], known: set[Placed]) -> list[Placed]:
        """``wanted`` and what they are computed of, except ``known``, producers first."""
        done, found = set(known), []
        waiting = wanted[::-1]
        while waiting:
            one = waiting[-1]
            missing = [p for p in self.operation(*one).parts if p not in done and not constant(p)]
            if one in done or not missing:
                waiting.pop()
                if one not in done:
                    done.add(one)
                    found.append(one)
            else:
                waiting += missing[::-1]
        return found

    def _needed(self) -> dict[Value, set[int]]:
        """The rows in which each value is needed, those of the iterations to come included."""
        needed: dict[Value, set[int]] = {}
        for value, first in self.roots:
            needed.setdefault(value, set()).update(range(first, first + self.rows))
        waiting = sorted((-value.height, value.number, value) for value in needed)
        while waiting:
            _, _, value = heapq.heappop(waiting)
            rows = needed[value]
            # Not above the first row of an iteration: the first iteration begins there.
            last = max(*rows, self.rows - 1) if value.operation == "tap" else max(rows)
            for row in list(rows):
                rows |= set(range(row, last + 1, self.rows))
            for row in rows:
                if row <= last - self.rows:
                    continue
                for part, at in self.operation(value, row).parts:
                    if constant((part, at)):
                        continue
                    if part not in needed:
                        needed[part] = set()
                        heapq.heappush(waiting, (-part.height, part.number, part))
                    needed[part].add(at)
        return needed

    def operation(self, value: Value, row: int) -> Operation:
        """How ``value`` comes about in ``row``."""
        parts = tuple((part, row + at) for part, at in value.parts)
        if value.operation != "fold":
            return Operation(value.operation, parts, value.numbers)
        if value.by == "median":
            return self._median(parts)
        items = self._paired(parts, value)
        while len(items) > 2:
            items[:2] = [self._of(value, items[0], items[1])]
        if len(items) == 1:
            return Operation(SAME, tuple(items))
        return Operation(value.by, tuple(items))

    def _of(self, fold: Value, one: Placed, other: Placed) -> Placed:
        return self.values.made(fold.by, [one, other], is_wide=fold.is_wide)

    def _paired(self, parts: tuple[Placed, ...], fold: Value) -> list[Placed]:
        items = sorted(parts, key=lambda one: (one[1], one[0].number))
        size = 1
        while self.rows % (2 * size) == 0:
            for value, row in list(items):
                one, other = (value, row), (value, row + size)
                if row % (2 * size) == 0 and one in items and other in items:
                    items[items.index(one)] = self._of(fold, one, other)
                    items.remove(other)
            size *= 2
        return items

    def _median(self, parts: tuple[Placed, ...]) -> Operation:
        """Of three rows: the pair among them is put in order once for the two that have it."""
        (value, first), *_ = parts
        is_one = parts == tuple((value, first + at) for at in range(3))
        if self.rows % 2 or not is_one:
            return Operation(MEDIAN, parts)
        even = first + first % 2
        pair = [(value, even), (value, even + 1)]
        (other,) = (one for one in parts if one not in pair)
        low, high = (self.values.made(by, pair, is_wide=False) for by in ("vminub", "vmaxub"))
        return Operation(MEDIAN_OF_PAIR, (low, high, other))


def constant(placed: Placed) -> bool:
    """Whether a value is the same everywhere."""
    return placed[0].operation in CONSTANTS


def constants(window: Window) -> Iterator[Value]:
    """The values that are the same everywhere, each once."""
    found: dict[Value, None] = {}
    for one in (*window.computed, *window.kept):
        for part in (one, *window.operation(*one).parts):
            if constant(part):
                found[part[0]] = None
    yield from found
