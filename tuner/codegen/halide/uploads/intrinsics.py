"""The one list of calls that an upload may make besides those of its Funcs and inputs.

An intrinsic of Halide is accepted if it stands here, with the type of its value and what that is in
the form. Nothing else is a call that an upload may make: no extern function of any kind, for that
is code of the program that loads the object, and no intrinsic that prints, traces, allocates, asks
for memory to be loaded, or has a meaning in lowered code only.

The groups, and why each is here:

- bits: ``&``, ``|``, ``^``, ``~`` and shifts are calls in Halide, and so is counting bits;
- fixed point: what HVX has instructions for, and Halide makes of ``hl.absd``, ``hl.lerp``,
  ``hl.u8_sat``, ...;
- choices: ``hl.mux`` and conditions of which one side is not evaluated;
- hints: their value is their first argument; boundary conditions are made with them.

Meanings follow ``lower_*`` in Halide 21's FindIntrinsics.cpp and Lerp.cpp, at infinite precision:
64 bits hold what arithmetic on 32 gives, and of 64 nothing that is computed on the way takes more.
Where Halide leaves a value undefined, so does this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from tuner.codegen.halide.uploads.answers import NotTunableError
from tuner.program.expressions import (
    Binary,
    BinaryOperator,
    Cast,
    Constant,
    Expr,
    Select,
    Unary,
    UnaryOperator,
    clamped,
    equal,
    maximum,
)
from tuner.program.types import BOOL as CONDITION
from tuner.program.types import I64, U64
from tuner.program.types import Type as Kind

Type = tuple[str, int]
"""Halide's: code and bits, such as ``("uint", 8)``."""

BOOL: Type = ("uint", 1)
Rule = Callable[[Sequence[Type], Type], Type | None]
Meaning = Callable[..., Expr]


@dataclass(frozen=True)
class Intrinsic:
    """``type_of`` gives the type of the value for those of the arguments and, for conversions, that
    of the call; ``None`` if they do not fit. ``value`` takes the type of the value, then the
    arguments. ``call_type`` is the kind of call that Halide makes of it."""

    type_of: Rule
    value: Meaning
    call_type: str = "PureIntrinsic"


def _is_integer(kind: Type) -> bool:
    return kind[0] in ("int", "uint") and kind != BOOL


def _rule(count: int, fits: Callable[..., bool], made: Callable[..., Type]) -> Rule:
    """Both are given the types of the arguments, of which there are ``count``."""

    def type_of(types: Sequence[Type], wanted: Type) -> Type | None:
        return made(*types) if len(types) == count and fits(*types) else None

    return type_of


def _first_of(first: Type, *_: Type) -> Type:
    return first


def _doubled(kind: Type, *_: Type) -> Type:
    return kind[0], 2 * kind[1]


def _integers(count: int) -> Rule:
    def fits(first: Type, *others: Type) -> bool:
        return (_is_integer(first) or first == BOOL) and {first}.issuperset(others)

    return _rule(count, fits, _first_of)


def _unsigned_of(count: int) -> Rule:
    def made(first: Type, *_: Type) -> Type:
        return "uint", first[1]

    return _rule(count, lambda first, *others: first != BOOL and {first}.issuperset(others), made)


def _are_widened(a: Type, b: Type) -> bool:
    return a == b and _is_integer(a) and a[1] <= 32


def _have_one_size(a: Type, b: Type) -> bool:
    return _is_integer(a) and _is_integer(b) and a[1] == b[1]


def _are_mixed(a: Type, b: Type, weight: Type) -> bool:
    fit = a == b and _is_integer(a) and weight != BOOL and weight[0] == "uint"
    return fit and max(a[1], weight[1]) <= 32


_SAME = _rule(1, lambda a: True, _first_of)
_PROMISE = _rule(3, lambda a, b, c: a == b == c, _first_of)
_CHOICE = _rule(3, lambda condition, a, b: condition == BOOL and a == b, lambda _, a, b: a)
_SHIFT = _rule(2, _have_one_size, _first_of)
_WIDE_SHIFT = _rule(2, lambda a, b: _is_integer(a) and _is_integer(b) and a[1] <= 32, _doubled)
_WIDENING = _rule(2, _are_widened, _doubled)
_WIDENING_SUB = _rule(2, _are_widened, lambda a, b: ("int", 2 * a[1]))
_WIDENING_MUL = _rule(
    2,
    lambda a, b: _have_one_size(a, b) and a[1] <= 32,
    lambda a, b: ("int" if "int" in (a[0], b[0]) else "uint", 2 * a[1]),
)
_WIDEN_RIGHT = _rule(
    2, lambda a, b: _is_integer(a) and _is_integer(b) and a[1] == 2 * b[1], _first_of
)
_SCALED = _rule(3, lambda a, b, q: _are_widened(a, b) and _is_integer(q), _first_of)
_MIX = _rule(3, _are_mixed, _first_of)


def _conversion(types: Sequence[Type], wanted: Type) -> Type | None:
    return wanted if len(types) == 1 and types[0] != BOOL and _is_integer(wanted) else None


def _joined(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) in (1, 2, 4) and len(set(types)) == 1 and _is_integer(types[0])
    bits = len(types) * types[0][1] if fit else 0
    return ("uint", bits) if 0 < bits <= 64 else None


def _extracted(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 2 and all(map(_is_integer, types)) and _is_integer(wanted)
    return wanted if fit and wanted[1] <= types[0][1] else None


def _chosen(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) >= 2 and types[0] == ("int", 32) and len(set(types[1:])) == 1
    return types[1] if fit else None


def converted(kind: Kind, value: Expr, *, saturates: bool = False) -> Expr:
    if kind == value.type:
        return value
    if kind == CONDITION:
        return Unary("~", equal(value, 0))
    return Cast(kind, value, saturates)


def _wider(kind: Kind) -> Kind:
    if kind.bits > 32:
        raise NotTunableError(f"it computes in {kind} what takes more than 64 bits on the way")
    return Kind(2 * kind.bits, kind.is_signed)


def _binary(by: BinaryOperator) -> Meaning:
    return lambda kind, a, b: Binary(by, a, b)


def _unary(by: UnaryOperator) -> Meaning:
    return lambda kind, a: Unary(by, a)


def _on_the_way(value: Meaning, of_widest: Meaning, *, saturates: bool = False) -> Meaning:
    """``value`` of the arguments widened with a sign, brought back to their type. Those of 64 bits
    have no wider type: ``of_widest`` of them."""

    def made(kind: Kind, a: Expr, b: Expr) -> Expr:
        if kind.bits == I64.bits:
            return of_widest(a, b)
        wide = Kind(_wider(kind).bits, True)
        return converted(kind, value(converted(wide, a), converted(wide, b)), saturates=saturates)

    return made


def _widened(by: BinaryOperator) -> Meaning:
    """``by`` of the arguments in the type of the result."""
    return lambda kind, a, b: Binary(by, converted(kind, a), converted(kind, b))


def _widened_shift(by: BinaryOperator) -> Meaning:
    return lambda kind, a, b: Binary(
        by, converted(kind, a), converted(Kind(kind.bits, b.type.is_signed), b)
    )


def _mean(a: Expr, b: Expr) -> Expr:
    return (a & b) + ((a ^ b) >> 1)


def _half_of_difference(a: Expr, b: Expr) -> Expr:
    return (a >> 1) - (b >> 1) - (Unary("~", a) & b & 1)


def _saturating(sign: int) -> Meaning:
    """``a + sign * b`` of 64 bits, or the end of the type beyond which it is."""

    def made(a: Expr, b: Expr) -> Expr:
        kind, total = a.type, a + b if sign > 0 else a - b
        if not kind.is_signed:
            is_beyond = total < a if sign > 0 else a < b
            return Select(is_beyond, Constant(kind.high if sign > 0 else 0, kind), total)
        is_beyond = (a ^ total) & (b ^ total if sign > 0 else a ^ b) < 0
        end = Select(a < 0, Constant(kind.low, kind), Constant(kind.high, kind))
        return Select(is_beyond, end, total)

    return made


def _rounded(a: Expr, amount: Expr) -> Expr:
    """``a / 2 ** amount`` to the nearest, halves up; ``a`` has room for a bit more."""
    one = Constant(1, a.type)
    half = Select(amount > 0, one << maximum(amount - 1, 0), Constant(0, a.type))
    return (a + half) >> amount


def _rounding_shift(sign: int) -> Meaning:
    def made(kind: Kind, a: Expr, amount: Expr) -> Expr:
        if kind.bits == I64.bits:
            by = converted(I64, amount) if sign > 0 else -converted(I64, amount)
            below = Select(by > 0, converted(kind, (a >> by - 1) & 1), Constant(0, kind))
            return (a >> by) + below
        wide = _wider(kind)
        by = converted(Kind(wide.bits, True), amount)
        return converted(kind, _rounded(converted(wide, a), by if sign > 0 else -by))

    return made


def _scaled(kind: Kind, a: Expr, b: Expr, amount: Expr, *, rounds: bool) -> Expr:
    wide = _wider(kind)
    product = converted(wide, a) * converted(wide, b)
    by = converted(Kind(wide.bits, True), amount)
    return converted(kind, _rounded(product, by) if rounds else product >> by, saturates=True)


def _toward_zero(kind: Kind, a: Expr, b: Expr) -> Expr:
    if not kind.is_signed:
        return a // b
    quotient = converted(kind, Unary("abs", a) // Unary("abs", b))
    zero = Constant(0, kind)
    return Select(Binary("!=", a < zero, b < zero), zero - quotient, quotient)


def _lerp(kind: Kind, zero: Expr, one: Expr, weight: Expr) -> Expr:
    most = (1 << kind.bits) - 1
    most_weight = weight.type.high
    scaled = converted(U64, weight)
    if most_weight <= most:
        scaled = scaled * (most // most_weight)
    else:
        scaled = scaled // (most_weight // most)
    parts = [converted(U64, converted(I64, part) - kind.low) for part in (zero, one)]
    total = parts[0] * (most - scaled) + parts[1] * scaled
    return converted(kind, converted(I64, (total + most // 2) // most) + kind.low)


def _mux(kind: Kind, index: Expr, *values: Expr) -> Expr:
    chosen = values[-1]
    for number in range(len(values) - 2, -1, -1):
        chosen = Select(equal(index, number), values[number], chosen)
    return chosen


def _concat(kind: Kind, *parts: Expr) -> Expr:
    bits = parts[0].type.bits
    wide = [converted(kind, converted(part.type.unsigned, part)) for part in parts]
    return reduce(lambda a, b: a | b, (one << n * bits for n, one in enumerate(wide)))


def _extract(kind: Kind, a: Expr, lowest: Expr) -> Expr:
    own = a.type.unsigned
    return converted(kind, converted(own, a) >> converted(own, lowest))


def _first(kind: Kind, a: Expr, *_: Expr) -> Expr:
    return a


def _promised(kind: Kind, value: Expr, low: Expr, high: Expr) -> Expr:
    # The value is the same, and bounds follow from it.
    return clamped(value, low, high)


INTRINSICS: dict[str, Intrinsic] = {
    # Bits
    "bitwise_and": Intrinsic(_integers(2), _binary("&")),
    "bitwise_or": Intrinsic(_integers(2), _binary("|")),
    "bitwise_xor": Intrinsic(_integers(2), _binary("^")),
    "bitwise_not": Intrinsic(_integers(1), _unary("~")),
    "shift_left": Intrinsic(_SHIFT, _binary("<<")),
    "shift_right": Intrinsic(_SHIFT, _binary(">>")),
    "count_leading_zeros": Intrinsic(_integers(1), _unary("clz")),
    "count_trailing_zeros": Intrinsic(_integers(1), _unary("ctz")),
    "popcount": Intrinsic(_integers(1), _unary("popcount")),
    "concat_bits": Intrinsic(_joined, _concat, "Intrinsic"),
    "extract_bits": Intrinsic(_extracted, _extract, "Intrinsic"),
    # Fixed point
    "abs": Intrinsic(_unsigned_of(1), lambda kind, a: converted(kind, Unary("abs", a))),
    "absd": Intrinsic(_unsigned_of(2), _binary("absd")),
    "halving_add": Intrinsic(_integers(2), _on_the_way(lambda a, b: (a + b) >> 1, _mean)),
    "halving_sub": Intrinsic(
        _integers(2), _on_the_way(lambda a, b: (a - b) >> 1, _half_of_difference)
    ),
    "rounding_halving_add": Intrinsic(
        _integers(2),
        _on_the_way(lambda a, b: (a + b + 1) >> 1, lambda a, b: (a | b) - ((a ^ b) >> 1)),
    ),
    "sorted_avg": Intrinsic(_integers(2), _on_the_way(lambda a, b: (a + b) >> 1, _mean)),
    "saturating_add": Intrinsic(
        _integers(2), _on_the_way(lambda a, b: a + b, _saturating(1), saturates=True)
    ),
    "saturating_sub": Intrinsic(
        _integers(2), _on_the_way(lambda a, b: a - b, _saturating(-1), saturates=True)
    ),
    "saturating_cast": Intrinsic(_conversion, lambda kind, a: converted(kind, a, saturates=True)),
    "rounding_shift_left": Intrinsic(_SHIFT, _rounding_shift(-1)),
    "rounding_shift_right": Intrinsic(_SHIFT, _rounding_shift(1)),
    "widening_add": Intrinsic(_WIDENING, _widened("+")),
    "widening_sub": Intrinsic(_WIDENING_SUB, _widened("-")),
    "widening_mul": Intrinsic(_WIDENING_MUL, _widened("*")),
    "widening_shift_left": Intrinsic(_WIDE_SHIFT, _widened_shift("<<")),
    "widening_shift_right": Intrinsic(_WIDE_SHIFT, _widened_shift(">>")),
    "widen_right_add": Intrinsic(_WIDEN_RIGHT, _widened("+")),
    "widen_right_sub": Intrinsic(_WIDEN_RIGHT, _widened("-")),
    "widen_right_mul": Intrinsic(_WIDEN_RIGHT, _widened("*")),
    "mul_shift_right": Intrinsic(_SCALED, lambda kind, *parts: _scaled(kind, *parts, rounds=False)),
    "rounding_mul_shift_right": Intrinsic(
        _SCALED, lambda kind, *parts: _scaled(kind, *parts, rounds=True)
    ),
    "lerp": Intrinsic(_MIX, _lerp),
    "div_round_to_zero": Intrinsic(_integers(2), _toward_zero),
    "mod_round_to_zero": Intrinsic(
        _integers(2), lambda kind, a, b: a - _toward_zero(kind, a, b) * b
    ),
    # Choices
    "if_then_else": Intrinsic(
        _CHOICE, lambda kind, condition, *values: Select(condition, values[0], values[-1])
    ),
    "mux": Intrinsic(_chosen, _mux),
    # Hints
    "likely": Intrinsic(_SAME, _first),
    "likely_if_innermost": Intrinsic(_SAME, _first),
    "promise_clamped": Intrinsic(_PROMISE, _promised),
    "unsafe_promise_clamped": Intrinsic(_PROMISE, _promised),
}
