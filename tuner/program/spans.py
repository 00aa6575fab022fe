"""Boxes of programs whose sizes a caller chooses: from one expression to another.

The same readers decide as in :mod:`tuner.program.bounds`, which tells what holds for all sizes;
here ends are expressions of sizes and scalars, which code computes when it is called. Where it is
not certain that a buffer has all that is read of it, a condition says which calls are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tuner.program.bounds import Bounds, Demands, bounded
from tuner.program.expressions import (
    Binary,
    Constant,
    Expr,
    ProgramError,
    Select,
    Unary,
    Variable,
    equal,
    maximum,
    minimum,
    ordered,
)
from tuner.program.intervals import Patience, Scope, of_type, sum_of
from tuner.program.loops import Loop, Program, Stage, names_in
from tuner.program.types import BOOL, INDEX

_MOST_CONDITIONS = 8
"""One within the other that are looked at."""
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "=="}


class Span(NamedTuple):
    """From ``low`` to ``high``, both included."""

    low: Expr
    high: Expr


class Extent(NamedTuple):
    """Along an axis of a buffer, counted outermost first, a caller has as many as a size says."""

    size: str
    buffer: str
    axis: int


@dataclass(frozen=True)
class Opened:
    """A program for sizes that a caller chooses: ``bounds`` are those of all of them, ``boxes``
    those of one call. It is refused where one of ``refused`` holds. Axes of inputs that go as far
    as they are read have sizes as well: ``extents`` are all; some may be fixed in ``bounds``."""

    bounds: Bounds
    boxes: Mapping[str, Sequence[Span]]
    refused: Sequence[Expr]
    extents: Sequence[Extent]

    def is_refused(self, sizes: Mapping[str, int], scalars: Mapping[str, int]) -> bool:
        """Whether such a call may be."""
        known = replace(self.bounds, sizes=sizes, scalars=scalars, most={}, patience=Patience())
        scope = known.scope()
        return any(scope.of(one).high for one in self.refused)


def opened(
    program: Program,
    firsts: Mapping[str, Sequence[int]],
    most: Mapping[tuple[str, int], int],
    fixed: Mapping[tuple[str, int], int],
) -> Opened:
    """``program`` for buffers that begin at ``firsts``, outputs at 0, and have at least one
    element and at ``most`` so many along each axis, by name and number of the axis; as many as
    ``fixed`` says where it does.

    :class:`ProgramError` if it cannot be told how far something reaches.
    """
    taken, extents, refused = set(names_in(program)), list[Extent](), list[Expr]()
    inputs = []
    axes = {one.name: one.axes for one in program.inputs}
    for name in program.outputs:
        axes[name] = tuple(one.bounds for one in program.stage_of(name).axes)
    for name, declared in axes.items():
        made = []
        for number, axis in enumerate(declared):
            first = Constant(firsts[name][number] if name in firsts else 0, INDEX)
            taken_sizes = {one.size for one in extents}
            end = axis[1] if axis else None
            is_size = isinstance(end, Variable) and end.name in set(program.sizes) - taken_sizes
            if is_size and axis[0] is first and not first.value:
                size = end
            else:
                size = Variable(_fresh(f"{name}_length_{number}", taken))
                if name in program.outputs:
                    refused.append(~equal(axis[1] - axis[0], size))
                elif axis:
                    if axis[0] is not first:
                        raise ProgramError(f"its input {name} begins where scalars or sizes say")
                    refused.append(axis[1] > first + size)
            assert isinstance(size, Variable)  # noqa: S101 - of both kinds
            extents.append(Extent(size.name, name, number))
            made.append(axis or (first, first + size))
        inputs.append((name, tuple(made)))
    missing = set(program.sizes) - {one.size for one in extents}
    if missing:
        raise ProgramError(f"its size {', '.join(sorted(missing))} is no extent of a buffer")
    given = dict(inputs)
    program = replace(
        program,
        sizes=tuple(one.size for one in extents),
        arguments=tuple(
            replace(one, axes=given[one.name]) if one in program.inputs else one
            for one in program.arguments
        ),
    )
    places = {one.size: (one.buffer, one.axis) for one in extents}
    known = {size: fixed[place] for size, place in places.items() if place in fixed}
    bounds = bounded(
        program, known, {s: most[place] for s, place in places.items() if s not in known}
    )
    demands = _SpanDemands(bounds)
    demands.find()
    own = demands.ends.scope
    refused = [one for one in dict.fromkeys((*refused, *demands.refused)) if own.of(one).high]
    never = [one for one in refused if own.of(one).low]
    if never:
        raise ProgramError("it reads or stores beyond a buffer, whatever its sizes are")
    return Opened(bounds, demands.boxes, refused, extents)


def _fresh(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted = f"{wanted}_"
    taken.add(wanted)
    return wanted


@dataclass
class _Ends:
    """Arithmetic with ends, of which ``scope`` knows all sizes."""

    scope: Scope

    def terms(self, end: Expr) -> Mapping[Expr | None, int]:
        """It as a sum of multiples."""
        self.scope.exact(end)
        return self.scope.terms(end)

    def sum(self, parts: Iterable[tuple[Expr | None, int]]) -> Expr | None:
        """That of multiples of ends; ``None`` if it has numbers that no index holds."""
        total: dict[Expr | None, int] = {None: 0}
        for end, factor in parts:
            for one, count in ({None: 1} if end is None else self.terms(end)).items():
                total[one] = total.get(one, 0) + factor * count
        if not all(INDEX.holds(count) and INDEX.holds(-count) for count in total.values()):
            return None
        constant, made = total.pop(None), None
        for one, count in sorted(total.items(), key=lambda term: term[1] < 0):
            assert one is not None  # noqa: S101 - it was taken out
            if count:
                term = one if abs(count) == 1 else one * abs(count)
                before = Constant(0, INDEX) if made is None else made
                made = before - term if count < 0 else term if made is None else made + term
        if made is None:
            return Constant(constant, INDEX)
        return made + constant if constant > 0 else made - -constant if constant else made

    def at_most(self, one: Expr, other: Expr) -> bool | None:
        """Whether ``one`` is never greater; false if never less, ``None`` if that is open."""
        if one is other:
            return True
        if not all(of_type(INDEX).covers(self.scope.exact(end)) for end in (one, other)):
            return None
        terms = dict(self.terms(one))
        for term, factor in self.terms(other).items():
            terms[term] = terms.get(term, 0) - factor
        apart = sum_of(terms, self.scope.of)
        return True if apart.high <= 0 else False if apart.low >= 0 else None

    def lesser(self, one: Expr, other: Expr) -> Expr:
        """The lesser of two."""
        known = self.at_most(one, other)
        return minimum(one, other) if known is None else one if known else other

    def greater(self, one: Expr, other: Expr) -> Expr:
        """The greater of two."""
        known = self.at_most(one, other)
        return maximum(one, other) if known is None else other if known else one

    def union(self, one: Span, other: Span) -> Span:
        """The least span around both."""
        return Span(self.lesser(one.low, other.low), self.greater(one.high, other.high))


@dataclass
class _Spans:
    """How far expressions reach where they are computed: ``scope`` tells of all sizes, ``known``
    are variables, and nodes of which a condition says something, for one call."""

    scope: Scope
    ends: _Ends
    known: Mapping[Expr, Span]
    depth: int = 0
    _found: dict[Expr, Span] = field(default_factory=dict)

    @property
    def patience(self) -> Patience:
        """For all that is looked at."""
        return self.scope.patience

    def of(self, root: Expr) -> Span:
        """The least and greatest value of ``root``."""
        for node in ordered([root], self._wanted):
            if node not in self._found:
                self._found[node] = self._within(node, self._made(node))
        return self._found[root]

    def _is_told(self, node: Expr) -> bool:
        """Whether more can be said of ``node`` than what holds for all sizes."""
        exact = self.scope.exact(node)
        return node.type == INDEX and of_type(INDEX).covers(exact) and exact.low != exact.high

    def _wanted(self, node: Expr) -> list[Expr]:
        if node in self._found or node in self.known or not self._is_told(node):
            return []
        if not isinstance(node, Binary):
            return []
        if node.operator in ("+", "-", "*"):
            terms = self.scope.terms(node)
            if node not in terms:
                return [one for one in terms if one is not None]
        return list(node.parts)

    def _within(self, node: Expr, span: Span) -> Span:
        """``span``, or what holds of ``node`` for all sizes where that is less."""
        over = self.scope.of(node)
        low, high = Constant(over.low, INDEX), Constant(over.high, INDEX)
        whole, ends = of_type(INDEX), self.ends
        fits = [whole.covers(ends.scope.exact(end)) for end in span]
        return Span(
            ends.greater(span.low, low) if fits[0] else low,
            ends.lesser(span.high, high) if fits[1] else high,
        )

    def _made(self, node: Expr) -> Span:
        self.patience.step()
        if node in self.known:
            return self.known[node]
        if node.type == INDEX and self._is_told(node):
            if isinstance(node, Variable):  # a size or scalar
                return Span(node, node)
            if isinstance(node, Select):
                return self._chosen(node)
            if isinstance(node, Binary):
                found = self._binary(node)
                if found is not None:
                    return found
        over = self.scope.of(node)
        if node.type != INDEX and not of_type(INDEX).covers(over):
            raise ProgramError("an index depends on what no index holds")
        return Span(Constant(over.low, INDEX), Constant(over.high, INDEX))

    def _chosen(self, node: Select) -> Span:
        sides = [self.under(node.condition, holds) for holds in (True, False)]
        found = [
            side.of(part)
            for side, part in zip(sides, node.parts[1:], strict=True)
            if side is not None
        ]
        return self.ends.union(found[0], found[-1])

    def _sum(self, terms: Mapping[Expr | None, int]) -> Span | None:
        """That of a sum of multiples."""
        low, high = list[tuple[Expr | None, int]](), list[tuple[Expr | None, int]]()
        for one, factor in terms.items():
            span = (None, None) if one is None else self.of(one)
            low.append((span[factor < 0], factor))
            high.append((span[factor > 0], factor))
        least, most = self.ends.sum(low), self.ends.sum(high)
        return None if least is None or most is None else Span(least, most)

    def _binary(self, node: Binary) -> Span | None:
        by, ends = node.operator, self.ends
        if by in ("+", "-", "*"):
            terms = self.scope.terms(node)
            if node not in terms:
                return self._sum(terms)
        a, b = map(self.of, node.parts)
        one, other = map(self.scope.of, node.parts)
        if by == "min":
            return Span(ends.lesser(a.low, b.low), ends.lesser(a.high, b.high))
        if by == "max":
            return Span(ends.greater(a.low, b.low), ends.greater(a.high, b.high))
        if by == "*" and one.low >= 0 and other.low >= 0:
            return Span(a.low * b.low, a.high * b.high)
        is_number = isinstance(node.right, Constant)
        if (by == "//" and is_number and other.low > 0) or (by == ">>" and is_number):
            return Span(*(Binary(by, end, node.right) for end in a))
        if by == "%" and other.low > 0:
            most = ends.sum([(b.high, 1), (None, -1)]) or b.high
            zero = Constant(0, INDEX)
            return Span(zero, ends.lesser(most, a.high) if one.low >= 0 else most)
        return None

    def under(self, condition: Expr, holds: bool) -> _Spans | None:
        """The same where ``condition`` is as said; ``None`` if it never is."""
        scope = self.scope.under(condition, holds)
        if scope is None:
            return None
        learnt = self._learnt(condition, holds) if self.depth < _MOST_CONDITIONS else {}
        return _Spans(scope, self.ends, {**self.known, **learnt}, self.depth + 1)

    def _learnt(self, condition: Expr, holds: bool) -> dict[Expr, Span]:
        learnt: dict[Expr, Span] = {}
        waiting = [(condition, holds)]
        while waiting:
            self.patience.step()
            one, is_so = waiting.pop()
            if isinstance(one, Unary):
                waiting.append((one.operand, not is_so))
            elif isinstance(one, Binary) and one.left.type == BOOL:
                if one.operator == ("&" if is_so else "|"):
                    waiting += [(part, is_so) for part in one.parts]
            elif isinstance(one, Binary) and one.left.type == INDEX:
                self._compare(learnt, one, is_so)
        return learnt

    def _compare(self, learnt: dict[Expr, Span], condition: Binary, holds: bool) -> None:
        by = condition.operator if holds else _OPPOSITE.get(condition.operator)
        left, right = condition.parts
        if by in (">", ">="):
            left, right, by = right, left, "<" if by == ">" else "<="
        if by in ("<", "<=", "=="):
            self._order(learnt, left, right, int(by == "<"))
        if by == "==":
            self._order(learnt, right, left, 0)

    def _order(self, learnt: dict[Expr, Span], lesser: Expr, greater: Expr, gap: int) -> None:
        """Of ``lesser - greater + gap <= 0``, what it says of each term."""
        terms, ends = self.scope.difference(lesser, greater), self.ends
        for term, factor in terms.items():
            if term is None or abs(factor) != 1 or not self._is_told(term):
                continue
            rest = {one: count for one, count in terms.items() if one is not term}
            least = self._sum({**rest, None: rest.get(None, 0) + gap})
            most = ends.sum([(least.low, -1)]) if least is not None else None
            if least is None or most is None:
                continue
            if not all(of_type(INDEX).covers(ends.scope.exact(e)) for e in (least.low, most)):
                continue
            own = learnt.get(term) or self.of(term)
            if factor > 0:
                learnt[term] = Span(own.low, ends.lesser(own.high, most))
            else:
                learnt[term] = Span(ends.greater(own.low, least.low), own.high)


class _SpanDemands(Demands[Span]):
    """Those of a program whose sizes are open in ``bounds``."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds.program, {})
        self._bounds, self.ends = bounds, _Ends(bounds.scope())
        self.refused: list[Expr] = []

    def within(self, stage: Stage, loops: Iterable[Loop]) -> _Spans | None:
        loops = list(loops)
        scope = self._bounds.within(stage, loops)
        if scope is None:
            return None
        known: dict[Expr, Span] = {}
        for loop in loops:
            if loop.bounds:
                known[loop.index] = self._over(loop.bounds, _Spans(scope, self.ends, known))
            else:
                number = [axis.name for axis in stage.axes].index(loop.name)
                known[loop.index] = self.boxes[stage.name][number]
        return _Spans(scope, self.ends, known)

    def _over(self, bounds: tuple[Expr, ...], spans: _Spans | None = None) -> Span:
        begin, end = map((spans or _Spans(self.ends.scope, self.ends, {})).of, bounds)
        last = self.ends.sum([(end.high, 1), (None, -1)])
        if last is None:
            raise ProgramError("a loop may end at any index")
        return Span(begin.low, last)

    def declared(self, bounds: tuple[Expr, ...]) -> Span | None:
        return self._over(bounds) if bounds else None

    def around(
        self,
        axes: Sequence[tuple[Expr, ...]],
        declared: Sequence[Span | None],
        read: Sequence[tuple[Span, ...]],
    ) -> tuple[Span, ...]:
        box = []
        for number, own in enumerate(declared):
            spans = [own] if own is not None else [one[number] for one in read]
            found = spans[0] if spans else Span(Constant(0, INDEX), Constant(-1, INDEX))
            for one in spans[1:]:
                found = self.ends.union(found, one)
            box.append(found)
        return tuple(box)

    def require(
        self, name: str, declared: Sequence[Span | None], read: Sequence[tuple[Span, ...]]
    ) -> None:
        for box in read:
            for own, one in zip(declared, box, strict=True):
                if own is not None and not self.ends.at_most(own.low, one.low):
                    self.refused.append(one.low < own.low)
                if own is not None and not self.ends.at_most(one.high, own.high):
                    self.refused.append(one.high > own.high)

    def of_table(self, extent: int) -> Span:
        return Span(Constant(0, INDEX), Constant(extent - 1, INDEX))
