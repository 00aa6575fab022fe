"""The least and greatest values of expressions, given those of what they read.

An interval of a node is that of its exact values, which may reach beyond its type; what uses the
node sees the whole type then. Three things sharpen them: conditions, under which a part of a
``select`` is computed; sums of multiples, in which terms cancel (``x - (x - 1)`` is 1); and that
the same node is the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from tuner.program.expressions import (
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    ProgramError,
    Select,
    Unary,
    Variable,
)
from tuner.program.types import BOOL, Type

_MOST_TERMS = 16
"""Of sums in which terms may cancel; those of indices are short."""
_MOST_CONDITIONS = 8
"""Conditions one within the other that are looked at; deeper ones bound nothing."""
_MOST_STEPS, _STEPS_A_NODE = 50_000, 10
"""Nodes that are looked at, again under each condition: half a second, and what a program takes
that has no conditions. Usual programs have hundreds to thousands."""


class Interval(NamedTuple):
    """From ``low`` to ``high``, both included."""

    low: int
    high: int

    def union(self, other: Interval) -> Interval:
        """The least interval around both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def within(self, other: Interval) -> Interval | None:
        """What both have in common."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else None

    def covers(self, other: Interval) -> bool:
        """Whether ``other`` lies in it."""
        return self.low <= other.low and other.high <= self.high


def unconditional_parts(node: Expr) -> tuple[Expr, ...]:
    """The parts of ``node`` that are computed whatever it chooses."""
    return node.parts[:1] if isinstance(node, Select) else node.parts


def of_type(kind: Type) -> Interval:
    """All values of a type."""
    return Interval(kind.low, kind.high)


@dataclass
class Patience:
    """How many more steps there may be: of conditions within one another there may be very many."""

    left: int = _MOST_STEPS

    @classmethod
    def with_nodes(cls, count: int) -> Patience:
        """That for a program of so many nodes."""
        return cls(_MOST_STEPS + _STEPS_A_NODE * count)

    def step(self, count: int = 1) -> None:
        """Takes ``count`` of them; ``ProgramError`` if there may not be as many."""
        self.left -= count
        if self.left < 0:
            raise ProgramError(
                "what it chooses by what takes too long to follow", next_step="make it more stages"
            )


@dataclass
class Scope:
    """What is known where an expression is computed: intervals of nodes, variables for the most
    part. ``loaded`` gives those of elements."""

    known: Mapping[Expr, Interval]
    loaded: Callable[[Load], Interval]
    patience: Patience
    depth: int = 0
    _exact: dict[Expr, Interval] = field(default_factory=dict)
    _under: dict[tuple[Expr, bool], Scope | None] = field(default_factory=dict)
    _terms: dict[Expr, dict[Expr | None, int]] = field(default_factory=dict)

    def of(self, root: Expr) -> Interval:
        """The interval of the values of ``root``, within its type."""
        exact = self.exact(root)
        if of_type(root.type).covers(exact):
            return exact
        return self.known.get(root, of_type(root.type))

    def exact(self, root: Expr) -> Interval:
        """The same of exact values: before they are wrapped to its type."""
        waiting = [root]
        while waiting:
            node = waiting[-1]
            wanted = [] if node in self._exact else self._wanted(node)
            if not wanted:
                waiting.pop()
                if node not in self._exact:
                    self._exact[node] = self._made(node)
            waiting += wanted
        return self._exact[root]

    def _wanted(self, node: Expr) -> list[Expr]:
        """The parts of ``node`` that are to be looked at here, and were not yet: of a choice the
        condition first, which says where the others are."""
        parts = node.parts
        if isinstance(node, Select) and node.condition in self._exact:
            sides = ((node.chosen, True), (node.otherwise, False))
            parts = tuple(
                part for part, holds in sides if self.under(node.condition, holds) is self
            )
        elif isinstance(node, Select):
            parts = (node.condition,)
        return [part for part in parts if part not in self._exact]

    def under(self, condition: Expr, holds: bool) -> Scope | None:
        """The scope of what is computed only where ``condition`` is as said; ``None`` if it never
        is."""
        key = condition, holds
        if key not in self._under:
            learnt = self._learnt(condition, holds) if self.depth < _MOST_CONDITIONS else {}
            self._under[key] = self
            if learnt is None:
                self._under[key] = None
            elif learnt:
                self._under[key] = self._knowing(learnt)
        return self._under[key]

    def _knowing(self, learnt: Mapping[Expr, Interval]) -> Scope:
        return Scope({**self.known, **learnt}, self.loaded, self.patience, self.depth + 1)

    def _made(self, node: Expr) -> Interval:
        self.patience.step()
        found = self._computed(node)
        if isinstance(node, Binary) and node.operator in ("+", "-", "*"):
            terms = self.terms(node)
            if node not in terms:  # of which only the wrapped value would be known
                found = found.within(sum_of(terms, self.of)) or found
        if node in self.known and of_type(node.type).covers(found):
            found = found.within(self.known[node]) or found
        return found

    def _computed(self, node: Expr) -> Interval:
        if isinstance(node, Constant):
            return Interval(node.value, node.value)
        if isinstance(node, Variable):
            return self.known.get(node) or of_type(node.type)
        if isinstance(node, Load):
            return self.loaded(node)
        if isinstance(node, Select):
            sides = [self.under(node.condition, holds) for holds in (True, False)]
            found = [
                side.of(part)
                for side, part in zip(sides, node.parts[1:], strict=True)
                if side is not None
            ]
            return found[0].union(found[-1])
        parts = [self.of(part) for part in node.parts]
        if isinstance(node, Cast):
            return _saturated(parts[0], node.type) if node.saturates else parts[0]
        if isinstance(node, Unary):
            return _unary(node, parts[0])
        assert isinstance(node, Binary)  # noqa: S101 - the last kind
        made = _binary(node, *parts)
        return made.within(self._normalized(node) or made) or made

    def _normalized(self, node: Binary) -> Interval | None:
        """That of ``x << clz(x) + n`` or ``clz(abs(x)) + n``: of as many bits for any ``x``."""
        if node.operator not in ("<<", ">>") or not self._fits(node.right):
            return None
        sign = 1 if node.operator == "<<" else -1
        terms = self.terms(node.right)
        by = sign * terms.pop(None, 0)
        count = next(iter(terms), None)
        if terms != {count: sign} or not isinstance(count, Unary) or count.operator != "clz":
            return None
        counted, shifted = self._uncast(count.operand), self._uncast(node.left)
        end = 1 << max(count.type.bits + by, 0)
        if counted is shifted:  # of what is negative clz is 0
            below = Interval(min(self.of(node.left).low, 0), 0)
            return Interval(_shifted(below, Interval(by, by), node).low, end - 1)
        if isinstance(counted, Unary) and counted.operator == "abs":
            return Interval(-end, end - 1) if self._uncast(counted.operand) is shifted else None
        return None

    def _fits(self, node: Expr) -> bool:
        return of_type(node.type).covers(self.exact(node))

    def _uncast(self, node: Expr) -> Expr:
        """What ``node`` has the value of, in whatever type."""
        while isinstance(node, Cast) and of_type(node.type).covers(self.of(node.operand)):
            node = node.operand
        return node

    def terms(self, node: Expr, most: int = _MOST_TERMS) -> dict[Expr | None, int]:
        """``node``, of which ``exact`` was asked, as a sum of multiples; the constant is that of
        ``None``. Only parts that do not wrap are taken apart, and no sum of more than ``most``."""
        if most == _MOST_TERMS:
            if node not in self._terms:
                self._terms[node] = self._taken_apart(node, most, self._terms)
            return dict(self._terms[node])
        return self._taken_apart(node, most, {})

    def _taken_apart(
        self, node: Expr, most: int, known: Mapping[Expr, Mapping[Expr | None, int]]
    ) -> dict[Expr | None, int]:
        total: dict[Expr | None, int] = {}
        waiting = [(node, 1)]
        while waiting:
            self.patience.step()
            one, factor = waiting.pop()
            fits = one is node or of_type(one.type).covers(self._exact[one])
            if isinstance(one, Constant):
                total[None] = total.get(None, 0) + factor * one.value
            elif fits and one in known:
                for term, count in known[one].items():
                    total[term] = total.get(term, 0) + factor * count
            elif isinstance(one, Binary) and one.operator in ("+", "-") and fits:
                sign = 1 if one.operator == "+" else -1
                waiting += [(one.left, factor), (one.right, sign * factor)]
            elif isinstance(one, Binary) and one.operator == "*" and fits and _has_number(one):
                number, other = sorted(one.parts, key=lambda p: not isinstance(p, Constant))
                assert isinstance(number, Constant)  # noqa: S101 - as was asked
                waiting.append((other, factor * number.value))
            elif isinstance(one, Cast) and not one.saturates and fits and one.operand.type != BOOL:
                waiting.append((one.operand, factor))
            else:
                total[one] = total.get(one, 0) + factor
            if len(total) > most:
                return {node: 1}
        return total

    def _learnt(self, condition: Expr, holds: bool) -> dict[Expr, Interval] | None:
        """What ``condition`` says of nodes; ``None`` if it never is so."""
        learnt: dict[Expr, Interval] = {}
        waiting = [(condition, holds)]
        while waiting:
            self.patience.step()
            one, is_so = waiting.pop()
            found = self.exact(one)
            if found.low == found.high and bool(found.low) != is_so:
                return None
            if isinstance(one, Unary):
                waiting.append((one.operand, not is_so))
            elif isinstance(one, Binary) and one.left.type != BOOL:
                for node, own in self._compared(one, is_so).items():
                    learnt[node] = own.within(learnt.get(node, own)) or own
            elif isinstance(one, Binary) and one.operator == ("&" if is_so else "|"):
                waiting += [(part, is_so) for part in one.parts]
        return learnt

    def _compared(self, condition: Binary, holds: bool) -> dict[Expr, Interval]:
        by = condition.operator if holds else _OPPOSITE.get(condition.operator)
        left, right = condition.parts
        if by in (">", ">="):
            left, right, by = right, left, "<" if by == ">" else "<="
        if by not in ("<", "<=", "=="):
            return {}
        learnt: dict[Expr, Interval] = {}
        both = [(left, right, int(by == "<"))]
        if by == "==":
            both.append((right, left, 0))
        for lesser, greater, gap in both:
            self._at_most(learnt, lesser, self.of(greater).high - gap)
            self._at_least(learnt, greater, self.of(lesser).low + gap)
            # Of lesser - greater + gap <= 0, what it says of each term.
            terms = self.difference(lesser, greater)
            for term, factor in terms.items():
                if term is None or term in (lesser, greater):
                    continue
                rest = {one: f for one, f in terms.items() if one is not term}
                most = -sum_of(rest, self.of).low - gap
                if factor > 0:
                    self._at_most(learnt, term, most // factor)
                else:
                    self._at_least(learnt, term, -(most // -factor))
        return learnt

    def difference(self, left: Expr, right: Expr) -> dict[Expr | None, int]:
        """``left - right`` as a sum of multiples; nothing if one of them may wrap."""
        if not (self._fits(left) and self._fits(right)):
            return {}
        total = self.terms(left)
        for term, factor in self.terms(right).items():
            total[term] = total.get(term, 0) - factor
        return {term: factor for term, factor in total.items() if factor}

    def _at_most(self, learnt: dict[Expr, Interval], node: Expr, high: int) -> None:
        self._note(learnt, node, Interval(min(self.of(node).low, high), high))

    def _at_least(self, learnt: dict[Expr, Interval], node: Expr, low: int) -> None:
        self._note(learnt, node, Interval(low, max(self.of(node).high, low)))

    def _note(self, learnt: dict[Expr, Interval], node: Expr, one: Interval) -> None:
        before = learnt.get(node) or self.of(node)
        both = before.within(one)
        if both is not None and both != before and not isinstance(node, Constant):
            learnt[node] = both


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "=="}


def _has_number(node: Binary) -> bool:
    return any(isinstance(part, Constant) for part in node.parts)


def _saturated(one: Interval, kind: Type) -> Interval:
    return Interval(*(min(max(end, kind.low), kind.high) for end in one))


def sum_of(terms: Mapping[Expr | None, int], of: Callable[[Expr], Interval]) -> Interval:
    """The interval of a sum of multiples; that of ``None`` is a constant."""
    low = high = terms.get(None, 0)
    for term, factor in terms.items():
        if term is not None:
            ends = [factor * end for end in of(term)]
            low, high = low + min(ends), high + max(ends)
    return Interval(low, high)


def _around(values: list[int]) -> Interval:
    return Interval(min(values), max(values))


def _unary(node: Unary, one: Interval) -> Interval:
    if node.type == BOOL:
        return Interval(1 - one.high, 1 - one.low)
    if node.operator == "~":
        return Interval(
            *sorted(-1 - end if node.type.is_signed else node.type.high - end for end in one)
        )
    if node.operator == "abs":
        ends = [abs(end) for end in one]
        return Interval(0 if one.low <= 0 <= one.high else min(ends), max(ends))
    return Interval(0, node.type.bits)


def _binary(node: Binary, a: Interval, b: Interval) -> Interval:
    by = node.operator
    if by in _COMPARED:
        return _COMPARED[by](a, b)
    if by in ("<<", ">>"):
        return _shifted(a, b if by == "<<" else Interval(-b.high, -b.low), node)
    if by in ("&", "|", "^"):
        return _bits(by, a, b, node.type)
    if by == "//":
        return _quotient(a, b)
    if by == "%":
        return _rest(a, b)
    if by == "absd":
        apart = max(a.low - b.high, b.low - a.high, 0)
        return Interval(apart, max(a.high - b.low, b.high - a.low))
    return _ENDS[by](a, b)


_ENDS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": lambda a, b: Interval(a.low + b.low, a.high + b.high),
    "-": lambda a, b: Interval(a.low - b.high, a.high - b.low),
    "*": lambda a, b: _around([one * other for one, other in product(a, b)]),
    "min": lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high)),
    "max": lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high)),
}


def _truth(always: bool, never: bool) -> Interval:
    return Interval(int(always), int(not never))


_COMPARED: dict[str, Callable[[Interval, Interval], Interval]] = {
    "<": lambda a, b: _truth(a.high < b.low, a.low >= b.high),
    "<=": lambda a, b: _truth(a.high <= b.low, a.low > b.high),
    ">": lambda a, b: _truth(a.low > b.high, a.high <= b.low),
    ">=": lambda a, b: _truth(a.low >= b.high, a.high < b.low),
    "==": lambda a, b: _truth(a.low == a.high == b.low == b.high, a.within(b) is None),
    "!=": lambda a, b: _truth(a.within(b) is None, a.low == a.high == b.low == b.high),
}


def _shifted(a: Interval, by: Interval, node: Binary) -> Interval:
    bits = node.type.bits
    amounts = [min(max(end, -bits), bits) for end in by]
    return _around([end << n if n >= 0 else end >> -n for end, n in product(a, amounts)])


def _bits(by: str, a: Interval, b: Interval, kind: Type) -> Interval:
    floors = [one.high for one in (a, b) if one.low >= 0]
    if by == "&" and floors:
        return Interval(0, min(floors))
    if len(floors) == 2:
        low = max(a.low, b.low) if by == "|" else 0
        return Interval(low, (1 << max(one.bit_length() for one in floors)) - 1)
    return of_type(kind)


def _quotient(a: Interval, b: Interval) -> Interval:
    ends = [0] if b.low <= 0 <= b.high else []
    for divisor in {b.low, b.high, *(one for one in (-1, 1) if b.low <= one <= b.high)} - {0}:
        ends += [end // divisor if divisor > 0 else -(end // -divisor) for end in a]
    return _around(ends)


def _rest(a: Interval, b: Interval) -> Interval:
    most = max(abs(b.low), abs(b.high)) - 1
    if a.low >= 0:
        if b.low > a.high:
            return a
        most = min(most, a.high)
    return Interval(0, max(most, 0))
