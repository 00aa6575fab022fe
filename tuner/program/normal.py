"""One form for one algorithm, however it is spelled.

:func:`normalized` gives a program with the same outputs. What does not wrap is a number without a
width, computed in the least type that holds it and its operands (unsigned where that is possible),
so sums of u16 and of i16 are the same. Sums are multiples in one order, shifts left and negations
among them; divisions and remainders by powers of two are shifts and masks; saturation is a minimum
and a maximum; a choice of the lesser is a minimum; conditions are ``<``, ``<=``, ``==`` and ``!=``.
Arrays that are no outputs have the least type that holds their values; stages that only copy, or
that have each element read once, are none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tuner.program.bounds import Bounds, bounded
from tuner.program.expressions import (
    Binary,
    BinaryOperator,
    Cast,
    Constant,
    Expr,
    Load,
    ProgramError,
    Select,
    Unary,
    ordered,
)
from tuner.program.inlining import inlined, is_idle
from tuner.program.intervals import Interval, Patience, Scope, of_type
from tuner.program.loops import Loop, Program, Stage, Update
from tuner.program.types import BOOL, I64, INDEX, U8, U64, Type

_LEAST = tuple(Type(bits, sign) for bits in (8, 16, 32, 64) for sign in (False, True))
_ROUNDS = 4
"""What is simpler has closer bounds, from which more follows; twice is mostly enough."""
_MOST_CASES = 16
"""Of a choice by number that may be an element of a buffer."""
_SWAPPED: Mapping[str, BinaryOperator] = {">": "<", ">=": "<="}
_NOT: Mapping[str, BinaryOperator] = {"<": "<=", "<=": "<", "==": "!=", "!=": "=="}


def normalized(program: Program, sizes: Mapping[str, int], *, with_stages: bool = False) -> Program:
    """``program`` in its normal form for ``sizes``; ``with_stages`` with all that it has. Raises
    what :func:`bounded` does."""
    for _ in range(_ROUNDS):
        try:
            made = _once(program if with_stages else inlined(program, is_idle(program)), sizes)
            bounded(made, sizes)
        except ProgramError:  # of what is spelled out more may be known than of what it comes to
            bounded(program, sizes)
            break
        if made == program:
            break
        program = made
    return program


def _once(program: Program, sizes: Mapping[str, int]) -> Program:
    bounds = replace(bounded(program, sizes), patience=Patience())
    types: dict[str, Type] = {}
    stages = []
    for stage in program.stages:
        for array, kind in zip(stage.arrays, stage.types, strict=True):
            is_fixed = array in program.outputs or stage.name not in bounds.boxes
            types[array] = kind if is_fixed else _least([bounds.values[array]]) or kind
        if stage.name in bounds.boxes:
            stages.append(_stage(bounds, stage, types))
    return replace(program, stages=tuple(stages))


def _least(intervals: Iterable[Interval]) -> Type | None:
    """The least type that holds all ``intervals``; ``None`` if there is none."""
    around = list(intervals)
    fits = (kind for kind in _LEAST if all(map(of_type(kind).covers, around)))
    return next(fits, None)


def _typed(value: Expr, kind: Type) -> Expr:
    """``value``, which is one of ``kind``, as such."""
    if isinstance(value, Constant):
        return Constant(value.value, kind)
    return value if value.type == kind else Cast(kind, value)


def _plus(total: Expr | None, one: Expr | None, factor: int) -> Expr:
    """``total`` and ``factor`` times ``one``, or ``factor`` itself; what of both there is."""
    kind = (total or one).type  # type: ignore[union-attr]
    is_less = factor < 0 and kind.holds(-factor)
    number = Constant(-factor if is_less else factor, kind)
    value = number if one is None else one if number.value == 1 else one * number
    if total is None:
        return Constant(0, kind) - value if is_less else value
    return total - value if is_less else total + value


def _moved(value: Expr, by: int) -> Expr:
    """A number next to ``value``, if it is one."""
    if not isinstance(value, Constant):
        return value
    moved = value.value + by
    return Constant(moved, I64 if I64.holds(moved) else U64)


def _stage(bounds: Bounds, stage: Stage, types: Mapping[str, Type]) -> Stage:
    kinds = [types[array] for array in stage.arrays]
    outside = _Normal(bounds.scope(), types)
    definition = _Normal(bounds.of_definition(stage) or bounds.scope(), types)
    values = definition.all(stage.values, kinds)
    updates = []
    for update in stage.updates:
        inside = bounds.within(stage, update.loops)
        own = _Normal(inside or bounds.scope(), types)
        condition = update.condition and own.of(update.condition)
        within = bounds.of_update(stage, update)
        if within is None:
            continue  # it never stores
        made = _Normal(within, types)
        updates.append(
            Update(
                tuple(own.loop(loop) for loop in update.loops),
                made.places(update.places),
                tuple(
                    made.updated(value, made.of(stage.at(*update.places, of=number)), kind)
                    for number, (value, kind) in enumerate(zip(update.values, kinds, strict=True))
                ),
                None if isinstance(condition, Constant) else condition,
            )
        )
    axes = tuple(outside.loop(axis) for axis in stage.axes)
    return Stage(stage.arrays, axes, values, tuple(updates))


class _Normal:
    """The normal forms of expressions where ``scope`` is known. Each has the value of what it is
    made from, and the type that suits it."""

    def __init__(self, scope: Scope, types: Mapping[str, Type], *, is_place: bool = False) -> None:
        self._scope, self._types = scope, types
        self._places = self if is_place else _Normal(scope, types, is_place=True)
        self._made: dict[Expr, Expr] = {}
        self._keys: dict[Expr, str] = {}

    def of(self, root: Expr) -> Expr:
        """The normal form of ``root``."""
        for node in ordered([root], self._wanted):
            if isinstance(node, Load):
                kind = self._types.get(node.source, node.type)
                self._made[node] = Load(node.source, self.places(node.indices), kind)
            else:
                self._made[node] = self._node(node, [self._made[part] for part in node.parts])
        return self._made[root]

    def _wanted(self, node: Expr) -> list[Expr]:
        parts = () if isinstance(node, Load) else node.parts
        return [part for part in parts if part not in self._made]

    def places(self, roots: Sequence[Expr]) -> tuple[Expr, ...]:
        """Those of ``roots``, as indices or the bounds of loops."""
        return tuple(_typed(self._places.of(one), INDEX) for one in roots)

    def _least(self, intervals: Iterable[Interval]) -> Type | None:
        """The type that numbers of ``intervals`` are computed in: places are indices."""
        around = list(intervals)
        is_index = self._places is self and all(map(of_type(INDEX).covers, around))
        return INDEX if is_index else _least(around)

    def all(self, roots: Sequence[Expr], kinds: Sequence[Type]) -> tuple[Expr, ...]:
        """Those of ``roots``, as values of ``kinds``."""
        return tuple(_typed(self.of(one), kind) for one, kind in zip(roots, kinds, strict=True))

    def loop(self, loop: Loop) -> Loop:
        """A loop with normal bounds."""
        return Loop(loop.name, *self.places(loop.bounds))

    def updated(self, root: Expr, own: Expr, kind: Type) -> Expr:
        """What an update stores: of a sum, its element ``own`` and all that is added to it."""
        value = self.of(root)
        terms = self._terms(value)
        if terms.get(own) == 1 and len(terms) > 1:
            rest = self._sum({term: factor for term, factor in terms.items() if term is not own})
            if rest is not None and of_type(kind).covers(self._scope.of(rest)):
                return _typed(own, kind) + _typed(rest, kind)
        return _typed(value, kind)

    def _node(self, node: Expr, parts: list[Expr]) -> Expr:
        if isinstance(node, Cast):
            return self._cast(node, parts[0])
        if isinstance(node, Unary):
            return self._unary(node, parts[0])
        if isinstance(node, Select):
            return self._select(node.type, *parts)
        return self._binary(node, *parts) if isinstance(node, Binary) else node

    def _cast(self, node: Cast, part: Expr) -> Expr:
        if of_type(node.type).covers(self._scope.of(part)):
            return part if part.type != BOOL else Cast(self._least([Interval(0, 1)]) or U8, part)
        if not node.saturates:
            made = self._low_bits(part, node.type.bits)
            return (
                made if of_type(node.type).covers(self._scope.of(made)) else Cast(node.type, made)
            )
        own, made = self._scope.of(part), part
        if own.high > node.type.high:
            made = self._extreme("min", made, Constant(node.type.high, I64)) or made
        if own.low < node.type.low:
            made = self._extreme("max", made, Constant(node.type.low, I64)) or made
        fits = of_type(node.type).covers(self._scope.of(made))
        return made if fits else Cast(node.type, part, saturates=True)

    def _low_bits(self, part: Expr, bits: int) -> Expr:
        """What has the same last ``bits`` as ``part``, and wraps less on the way."""
        if isinstance(part, Binary) and part.operator == ">>" and isinstance(part.right, Constant):
            places = part.right.value
            if 0 <= places <= part.type.bits - bits:
                made = self._unwrapped(part.left, bits + places)
                return self._arithmetic(">>", made, part.right) or part
        return self._unwrapped(part, bits)

    def _unwrapped(self, root: Expr, bits: int) -> Expr:
        def into(node: Expr) -> tuple[Expr, ...]:
            is_sum = isinstance(node, Binary) and node.operator in ("+", "-", "*")
            is_cast = isinstance(node, Cast) and not node.saturates and node.operand.type != BOOL
            return node.parts if (is_sum or is_cast) and node.type.bits >= bits else ()

        made: dict[Expr, Expr] = {}
        for node in ordered([root], into):
            self._scope.patience.step()
            parts = [made[part] for part in into(node)]
            made[node] = parts[0] if parts else node
            if isinstance(node, Binary) and parts:
                made[node] = self._arithmetic(node.operator, *parts) or node
        return made[root]

    def _unary(self, node: Unary, part: Expr) -> Expr:
        if node.type == BOOL:
            return self._opposite(part)
        if node.operator == "~":
            high = -1 if node.type.is_signed else node.type.high
            return self._sum({None: high}, (part, -1)) or Unary("~", _typed(part, node.type))
        if node.operator == "abs":
            return self._absolute(part) or Unary("abs", _typed(part, node.operand.type))
        return Unary(node.operator, _typed(part, node.operand.type))

    def _opposite(self, part: Expr) -> Expr:
        if isinstance(part, Constant):
            return Constant(1 - part.value, BOOL)
        if isinstance(part, Unary):
            return part.operand
        if isinstance(part, Binary) and part.operator in _NOT and part.left.type != BOOL:
            by = _NOT[part.operator]
            sides = part.parts if part.operator in ("==", "!=") else part.parts[::-1]
            return self._compared(by, part.left.type, *map(self._lean, sides))
        return Unary("~", part)

    def _absolute(self, part: Expr) -> Expr | None:
        """The absolute value; ``None`` if no type with a sign holds ``part``."""
        own = self._scope.of(part)
        if own.low >= 0:
            return part
        # Of a difference and its opposite the one that comes first.
        opposite = self._sum({}, (part, -1))
        if opposite is not None and self._key(opposite) < self._key(part):
            part = opposite
        kind = self._least([self._scope.of(part), Interval(-1, 0)])
        return None if kind is None else Unary("abs", _typed(part, kind))

    def _select(self, kind: Type, condition: Expr, chosen: Expr, otherwise: Expr) -> Expr:
        if isinstance(condition, Constant):
            return chosen if condition.value else otherwise
        if chosen is otherwise:
            return chosen
        if self._is_opposite(condition):
            return self._select(kind, self._opposite(condition), otherwise, chosen)
        made = self._lesser(condition, chosen, otherwise)
        if made is None:
            made = self._element(condition, chosen, otherwise)
        if made is None:
            least = self._least(map(self._scope.of, (chosen, otherwise))) or kind
            made = Select(condition, _typed(chosen, least), _typed(otherwise, least))
        return made

    def _lesser(self, condition: Expr, chosen: Expr, otherwise: Expr) -> Expr | None:
        """A choice of the lesser or the greater of two."""
        if isinstance(condition, Binary) and condition.operator == "<":
            lesser, greater = map(self._lean, condition.parts)
            if self._is(chosen, lesser) and self._is(otherwise, greater):
                return self._extreme("min", chosen, otherwise)
            if self._is(chosen, greater) and self._is(otherwise, lesser):
                return self._extreme("max", chosen, otherwise)
        return None

    def _element(self, condition: Expr, chosen: Expr, otherwise: Expr) -> Expr | None:
        """The element that is chosen by its number: of element 0 where an index is 0, element 1
        where it is 1, and so on."""
        cases: dict[int, Expr] = {}
        index = self._lean(condition.parts[0]) if condition.parts else condition
        over = self._scope.of(index)
        if over.high - over.low > _MOST_CASES:
            return None
        while isinstance(condition, Binary) and condition.operator == "==":
            if not isinstance(condition.right, Constant) or not self._is(condition.left, index):
                break
            cases.setdefault(condition.right.value, self._lean(chosen))
            otherwise = self._lean(otherwise)
            if not isinstance(otherwise, Select):
                break
            condition, chosen, otherwise = otherwise.parts
        rest = set(range(over.low, over.high + 1)) - cases.keys()
        if len(rest) == 1:
            cases[rest.pop()] = self._lean(otherwise)
        return self._numbered(cases, index) if not rest and len(cases) > 1 else None

    def _numbered(self, cases: Mapping[int, Expr], index: Expr) -> Expr | None:
        """The element at ``index`` of those that stand at its values, if they are of one buffer."""
        loads = [one for one in cases.values() if isinstance(one, Load)]
        if len(loads) < len(cases) or len({one.source for one in loads}) > 1:
            return None
        made = []
        for along in zip(*(one.indices for one in loads), strict=True):
            terms = [self._places._terms(one) for one in along]
            offsets = [one.pop(None, 0) for one in terms]
            steps = {offset - number for offset, number in zip(offsets, cases, strict=True)}
            if any(one != terms[0] for one in terms):
                return None
            if len({*offsets}) == 1:
                made.append(along[0])
            elif len(steps) == 1:
                moved = self._places._sum({**terms[0], None: steps.pop()}, (index, 1))
                made.append(_typed(moved or along[0], INDEX))
            else:
                return None
        return Load(loads[0].source, tuple(made), loads[0].type)

    def _is_opposite(self, condition: Expr) -> bool:
        """Whether its opposite is what is chosen by: ``==``, or ``<`` with any number last."""
        if not isinstance(condition, Binary):
            return isinstance(condition, Unary)
        is_turned = condition.operator == "<" and isinstance(condition.left, Constant)
        return is_turned or condition.operator in ("<=", "!=")

    def _binary(self, node: Binary, a: Expr, b: Expr) -> Expr:
        by, kind = node.operator, node.left.type
        plain = Binary(by, _typed(a, kind), _typed(b, node.right.type))
        if isinstance(a, Constant) and isinstance(b, Constant):
            own = self._scope.of(plain)
            if own.low == own.high:
                return Constant(own.low, node.type)
        if kind == BOOL:
            return self._both(by, a, b)
        if by in ("<", "<=", ">", ">=", "==", "!="):
            sides = (b, a) if by in _SWAPPED else (a, b)
            return self._compared(_SWAPPED.get(by, by), kind, *sides)
        if not of_type(node.type).covers(self._scope.exact(plain)):
            return plain
        if by in ("min", "max"):
            return self._extreme(by, a, b) or plain
        if by == "absd":
            difference = self._sum({}, (a, 1), (b, -1))
            return plain if difference is None else self._absolute(difference) or plain
        return self._arithmetic(by, a, b) or plain

    def _both(self, by: BinaryOperator, a: Expr, b: Expr) -> Expr:
        """``by`` of two conditions."""
        a, b = sorted((a, b), key=self._key)
        made = Binary(by, a, b)
        own = self._scope.of(made)
        if own.low == own.high:
            return Constant(own.low, BOOL)
        is_left_out = isinstance(b, Constant) and by in ("&", "|")  # or it would decide
        return a if is_left_out else made

    def _arithmetic(self, by: BinaryOperator, a: Expr, b: Expr) -> Expr | None:
        """``by`` of two numbers that does not wrap; ``None`` if it has no other form."""
        value = b.value if isinstance(b, Constant) else None
        if by in ("+", "-"):
            return self._sum({}, (a, 1), (b, 1 if by == "+" else -1))
        if by == "*" and isinstance(a, Constant):
            return self._sum({}, (b, a.value))
        if by == "*" and value is not None:
            return self._sum({}, (a, value))
        if by == "<<" and value is not None:
            return self._sum({}, (a, 1 << value)) if 0 <= value < 64 else None
        if by == "<<" or (by == ">>" and (value is None or value < 0)):
            return None
        if by in ("//", "%") and value is not None and value > 0 and value & (value - 1) == 0:
            number = value.bit_length() - 1 if by == "//" else value - 1
            by, b = (">>" if by == "//" else "&"), Constant(number, I64)
        if by in ("&", "|", "^") and min(self._scope.of(one).low for one in (a, b)) < 0:
            return None
        if by == ">>" and isinstance(b, Constant) and b.value == 0:
            return a
        return self._joined(by, a, b)

    def _joined(self, by: BinaryOperator, a: Expr, b: Expr) -> Expr | None:
        """``by`` in the least type that holds its operands and its value."""
        if by in ("*", "&", "|", "^"):
            a, b = sorted((a, b), key=self._key)
        wide = self._least([self._scope.of(a), self._scope.of(b)])
        if wide is None:
            return None
        made = Binary(by, _typed(a, wide), _typed(b, wide))
        kind = self._least([self._scope.of(a), self._scope.of(b), self._scope.exact(made)])
        return None if kind is None else Binary(by, _typed(a, kind), _typed(b, kind))

    def _compared(self, by: BinaryOperator, kind: Type, a: Expr, b: Expr) -> Expr:
        """A comparison of two that were of ``kind``."""
        if by in ("==", "!="):
            a, b = sorted((a, b), key=self._key)
        least = self._least([self._scope.of(a), self._scope.of(b)])
        made = Binary(by, *(_typed(one, least or kind) for one in (a, b)))
        own = self._scope.of(made)
        if own.low == own.high:
            return Constant(own.low, BOOL)
        if by == "<=" and least and (isinstance(a, Constant) or isinstance(b, Constant)):
            return self._compared("<", kind, _moved(a, -1), _moved(b, 1))
        return made

    def _extreme(self, by: BinaryOperator, *parts: Expr) -> Expr | None:
        """A minimum or maximum of all that are combined by it, in one order; ``None`` if no type
        holds them."""
        found: dict[Expr, None] = {}
        waiting = list(parts)
        while waiting:
            one = self._lean(waiting.pop())
            if isinstance(one, Binary) and one.operator == by:
                waiting += one.parts
            else:
                found[one] = None
        self._scope.patience.step(len(found))
        made, *rest = sorted(self._decisive(by, list(found)), key=self._key)
        for one in rest:
            kind = self._least(map(self._scope.of, (made, one)))
            if kind is None:
                return None
            made = Binary(by, _typed(made, kind), _typed(one, kind))
        return made

    def _decisive(self, by: BinaryOperator, parts: list[Expr]) -> list[Expr]:
        """Those of ``parts`` that may be the minimum or maximum of them."""
        within = {one: self._scope.of(one) for one in parts}
        if by == "min":
            first = min(parts, key=lambda one: (*within[one][::-1], self._key(one)))
            return [o for o in parts if o is first or within[o].low < within[first].high]
        first = max(parts, key=lambda one: (*within[one], self._key(one)))
        return [o for o in parts if o is first or within[o].high > within[first].low]

    def _lean(self, value: Expr) -> Expr:
        """``value`` without casts that do not change it."""
        while isinstance(value, Cast) and value.operand.type != BOOL:
            if not of_type(value.type).covers(self._scope.of(value.operand)):
                break
            value = value.operand
        if isinstance(value, Constant):
            return Constant(
                value.value, self._least([Interval(value.value, value.value)]) or value.type
            )
        return value

    def _is(self, one: Expr, other: Expr) -> bool:
        return self._lean(one) is self._lean(other)

    def _terms(self, value: Expr) -> dict[Expr | None, int]:
        if not of_type(value.type).covers(self._scope.exact(value)):
            return {value: 1}
        return {
            term if term is None else self._lean(term): factor
            for term, factor in self._scope.terms(value).items()
        }

    def _sum(self, start: Mapping[Expr | None, int], *multiples: tuple[Expr, int]) -> Expr | None:
        """The sum of ``start`` and multiples of expressions; ``None`` if 64 bits do not hold what
        it may be on the way."""
        total = dict(start)
        for value, factor in multiples:
            for term, count in self._terms(value).items():
                total[term] = total.get(term, 0) + factor * count
        offset = total.pop(None, 0)
        terms = []
        for one, n in total.items():
            assert one is not None  # noqa: S101 - popped
            own = self._scope.of(one)
            if own.low == own.high:
                offset += n * own.low
            elif n:
                terms.append((one, n))
        terms.sort(key=lambda one: (one[1] < 0, self._key(one[0])))
        ends = [[n * end for end in self._scope.of(one)] for one, n in terms] + [[offset]]
        low, high = (sum(pick(0, *some) for some in ends) for pick in (min, max))
        kind = self._least([Interval(low, high)])
        if kind is None:
            return None
        if [n for _, n in terms] == [1] and not offset:
            return terms[0][0]
        made: Expr | None = None
        if not terms or (terms[0][1] < 0 and offset > 0):
            made, offset = Constant(offset, kind), 0
        for one, n in terms:
            made = _plus(made, _typed(one, kind), n)
        assert made is not None  # noqa: S101 - there is a term, or a number
        return _plus(made, None, offset) if offset else made

    def _key(self, root: Expr) -> str:
        """Names a node by what is in it, for an order that every spelling has."""
        for node in ordered([root], lambda one: [p for p in one.parts if p not in self._keys]):
            own = [str(one) for one in node.content if not isinstance(one, Expr | tuple)]
            text = repr((type(node).__name__, own, [self._keys[part] for part in node.parts]))
            # Constants last, as people write them.
            is_number = isinstance(node, Constant)
            digest = hashlib.sha256(text.encode()).hexdigest()
            self._keys[node] = f"{int(is_number)}{digest}"
        return self._keys[root]
