"""The one list of calls that an upload may make besides those of its Funcs and inputs.

An intrinsic of Halide is accepted if it stands here, with the type of its value and what that is.
Nothing else is a call that an upload may make: no extern function of any kind, for that is code of
the program that loads the object, and no intrinsic that prints, traces, allocates, asks for memory
to be loaded, or has a meaning in lowered code only.

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

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Type = tuple[str, int]
"""Code and bits: ``("uint", 8)``."""

BOOL: Type = ("uint", 1)
Rule = Callable[[Sequence[Type], Type], Type | None]


@dataclass(frozen=True)
class Intrinsic:
    """``type_of`` gives the type of the value for those of the arguments and, for conversions, that
    of the call; ``None`` if they do not fit. ``value`` takes the type of the value, then the
    arguments. ``call_type`` is the kind of call that Halide makes of it."""

    type_of: Rule
    value: Callable[..., Array]
    call_type: str = "PureIntrinsic"


_WIDEST = 8
"""Bytes."""


def _wide(array: Array) -> Array:
    """Integers of up to 32 bits as such that sums, differences and shifts of them fit; others as
    64 bits with a sign."""
    return array.astype(np.int64)


def _saturated(values: Array, kind: np.dtype[Any]) -> Array:
    bounds, own = np.iinfo(kind), np.iinfo(values.dtype)
    return np.clip(values, max(bounds.min, own.min), min(bounds.max, own.max)).astype(kind)


def _sum(kind: np.dtype[Any], a: Array, b: Array) -> Array:
    """``a + b``, or the end of the type beyond which it is."""
    if kind.itemsize < _WIDEST:
        return _saturated(_wide(a) + _wide(b), kind)
    total, ends = a + b, np.iinfo(kind)
    if kind.kind == "u":
        return np.where(total < a, kind.type(ends.max), total)
    return np.where(((a ^ total) & (b ^ total)) < 0, _end(a), total)


def _difference(kind: np.dtype[Any], a: Array, b: Array) -> Array:
    """The same of ``a - b``."""
    if kind.itemsize < _WIDEST:
        return _saturated(_wide(a) - _wide(b), kind)
    total = a - b
    if kind.kind == "u":
        return np.where(a < b, kind.type(0), total)
    return np.where(((a ^ b) & (a ^ total)) < 0, _end(a), total)


def _end(values: Array) -> Array:
    """The end of their type to which values are nearer."""
    ends = np.iinfo(values.dtype)
    return np.where(values < 0, ends.min, ends.max).astype(values.dtype)


def _apart(kind: np.dtype[Any], a: Array, b: Array) -> Array:
    return np.asarray(np.maximum(a, b).astype(kind) - np.minimum(a, b).astype(kind))


def _product(a: Array, b: Array) -> Array:
    """Exact products: of two unsigned ones of 32 bits they need all 64."""
    wide = np.uint64 if a.dtype.kind == b.dtype.kind == "u" else np.int64
    return a.astype(wide) * b.astype(wide)


def shifted(values: Array, amounts: Array) -> Array:
    """``values * 2 ** amounts``, rounded down; 64-bit ``values`` in and out."""
    amounts = _wide(amounts)
    if amounts.size == 1 and -64 < amounts.item() < 64:  # most are constant
        by = amounts.item()
        return np.asarray(values << by if by >= 0 else values >> -by)
    left = np.where(amounts >= 64, 0, values << np.clip(amounts, 0, 63).astype(values.dtype))
    right = values >> np.clip(-amounts, 0, 63).astype(values.dtype)
    return np.asarray(np.where(amounts >= 0, left, right))


def _rounded_right(values: Array, amounts: Array) -> Array:
    """``values / 2 ** amounts`` to the nearest, halves up."""
    amounts = _wide(amounts)
    below = np.where(amounts > 0, shifted(values, 1 - amounts) & 1, 0)
    return np.asarray(shifted(values, -amounts) + below.astype(values.dtype))


def _bit_length(values: Array) -> Array:
    """That of values that are not negative. Floating-point numbers hold half of 64 bits."""
    high = values >> (4 * values.dtype.itemsize)
    low = np.frexp((values ^ (high << (4 * values.dtype.itemsize))).astype(np.float64))[1]
    return np.where(high > 0, np.frexp(high.astype(np.float64))[1] + 4 * values.dtype.itemsize, low)


def _unsigned(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}")


def _leading(kind: np.dtype[Any], a: Array) -> Array:
    return (8 * a.dtype.itemsize - _bit_length(_unsigned(a))).astype(kind)


def _trailing(kind: np.dtype[Any], a: Array) -> Array:
    lowest = _unsigned(a) & _unsigned(-a)
    return np.where(lowest == 0, 8 * a.dtype.itemsize, _bit_length(lowest) - 1).astype(kind)


def _lerp(kind: np.dtype[Any], zero: Array, one: Array, weight: Array) -> Array:
    bias = np.iinfo(kind).min
    most, most_weight = (2 ** (8 * a.dtype.itemsize) - 1 for a in (zero, weight))
    scaled = weight.astype(np.uint64)
    if weight.dtype.kind == "f":
        factor = weight.dtype.type(most) if most < 1 << 16 else np.float64(most)
        scaled = (factor * weight).astype(np.uint64)
    elif most_weight <= most:
        scaled = scaled * np.uint64(most // most_weight)
    else:
        scaled = scaled // np.uint64(most_weight // most)
    parts = [(_wide(a) - bias).astype(np.uint64) for a in (zero, one)]
    total = parts[0] * (np.uint64(most) - scaled) + parts[1] * scaled
    rounded = (total + np.uint64(most // 2)) // np.uint64(most)
    return (rounded.astype(np.int64) + bias).astype(kind)


def _saturating_cast(kind: np.dtype[Any], a: Array) -> Array:
    if a.dtype.kind != "f":
        return _saturated(a, kind)
    bounds = np.iinfo(kind)
    return np.clip(a.astype(np.float64), bounds.min, bounds.max).astype(np.int64).astype(kind)


def _toward_zero(a: Array, b: Array) -> Array:
    """Quotients of 64 bits; those by zero, which are undefined, are 0."""
    divisor = np.where(b == 0, 1, b)
    quotient = abs(a) // abs(divisor) * np.sign(a) * np.sign(divisor)
    return np.where(b == 0, 0, quotient)


def _mux(kind: np.dtype[Any], index: Array, *values: Array) -> Array:
    chosen = values[-1]
    for number in range(len(values) - 2, -1, -1):
        chosen = np.where(index == number, values[number], chosen)
    return np.asarray(chosen)


def _if_then_else(kind: np.dtype[Any], condition: Array, *values: Array) -> Array:
    return np.where(condition, values[0], values[-1])


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
        return (first[0] if first[0] == "float" else "uint"), first[1]

    return _rule(count, lambda first, *others: first != BOOL and {first}.issuperset(others), made)


def _are_widened(a: Type, b: Type) -> bool:
    return a == b and _is_integer(a) and a[1] <= 32


def _have_one_size(a: Type, b: Type) -> bool:
    return _is_integer(a) and _is_integer(b) and a[1] == b[1]


def _are_mixed(a: Type, b: Type, weight: Type) -> bool:
    fit = a == b and _is_integer(a) and weight != BOOL and weight[0] in ("uint", "float")
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


def _exact(value: Callable[..., Array]) -> Callable[..., Array]:
    """``value`` of the arguments in 64 bits, cut to the type that it has."""

    def made(kind: np.dtype[Any], *arguments: Array) -> Array:
        wide = np.uint64 if kind == np.uint64 else np.int64
        return value(*(one.astype(wide) for one in arguments)).astype(kind)

    return made


def _concat(kind: np.dtype[Any], *parts: Array) -> Array:
    bits = 8 * parts[0].dtype.itemsize
    joined = np.zeros((), kind)
    for number, part in enumerate(parts):
        joined = joined | _unsigned(part).astype(kind) << number * bits
    return joined


def _mean(a: Array, b: Array) -> Array:
    """Half the sum, which itself may not fit."""
    return (a & b) + ((a ^ b) >> 1)


def _first(kind: np.dtype[Any], a: Array, *_: Array) -> Array:
    return a


_add, _sub, _mul = operator.add, operator.sub, operator.mul

INTRINSICS: dict[str, Intrinsic] = {
    # Bits
    "bitwise_and": Intrinsic(_integers(2), lambda kind, a, b: a & b),
    "bitwise_or": Intrinsic(_integers(2), lambda kind, a, b: a | b),
    "bitwise_xor": Intrinsic(_integers(2), lambda kind, a, b: a ^ b),
    "bitwise_not": Intrinsic(_integers(1), lambda kind, a: ~a),
    "shift_left": Intrinsic(_SHIFT, _exact(shifted)),
    "shift_right": Intrinsic(_SHIFT, _exact(lambda a, b: shifted(a, -b))),
    "count_leading_zeros": Intrinsic(_integers(1), _leading),
    "count_trailing_zeros": Intrinsic(_integers(1), _trailing),
    "popcount": Intrinsic(
        _integers(1), lambda kind, a: np.bitwise_count(_unsigned(a)).astype(kind)
    ),
    "concat_bits": Intrinsic(_joined, _concat, "Intrinsic"),
    "extract_bits": Intrinsic(
        _extracted,
        lambda kind, a, b: shifted(_unsigned(a).astype(np.uint64), -_wide(b)).astype(kind),
        "Intrinsic",
    ),
    # Fixed point
    "abs": Intrinsic(
        _unsigned_of(1), lambda kind, a: abs(a if kind.kind == "f" else _wide(a)).astype(kind)
    ),
    "absd": Intrinsic(_unsigned_of(2), _apart),
    "halving_add": Intrinsic(_integers(2), _exact(_mean)),
    "halving_sub": Intrinsic(_integers(2), _exact(lambda a, b: (a >> 1) - (b >> 1) - (~a & b & 1))),
    "rounding_halving_add": Intrinsic(_integers(2), _exact(lambda a, b: (a | b) - ((a ^ b) >> 1))),
    "sorted_avg": Intrinsic(_integers(2), _exact(_mean)),
    "saturating_add": Intrinsic(_integers(2), _sum),
    "saturating_sub": Intrinsic(_integers(2), _difference),
    "saturating_cast": Intrinsic(_conversion, _saturating_cast),
    "rounding_shift_left": Intrinsic(_SHIFT, _exact(lambda a, b: _rounded_right(a, -b))),
    "rounding_shift_right": Intrinsic(_SHIFT, _exact(_rounded_right)),
    "widening_add": Intrinsic(_WIDENING, _exact(_add)),
    "widening_sub": Intrinsic(_WIDENING_SUB, _exact(_sub)),
    "widening_mul": Intrinsic(_WIDENING_MUL, lambda kind, a, b: _product(a, b).astype(kind)),
    "widening_shift_left": Intrinsic(_WIDE_SHIFT, _exact(shifted)),
    "widening_shift_right": Intrinsic(_WIDE_SHIFT, _exact(lambda a, b: shifted(a, -b))),
    "widen_right_add": Intrinsic(_WIDEN_RIGHT, _exact(_add)),
    "widen_right_sub": Intrinsic(_WIDEN_RIGHT, _exact(_sub)),
    "widen_right_mul": Intrinsic(_WIDEN_RIGHT, _exact(_mul)),
    "mul_shift_right": Intrinsic(
        _SCALED, lambda kind, a, b, q: _saturated(shifted(_product(a, b), -_wide(q)), kind)
    ),
    "rounding_mul_shift_right": Intrinsic(
        _SCALED, lambda kind, a, b, q: _saturated(_rounded_right(_product(a, b), q), kind)
    ),
    "lerp": Intrinsic(_MIX, _lerp),
    "div_round_to_zero": Intrinsic(_integers(2), _exact(_toward_zero)),
    "mod_round_to_zero": Intrinsic(_integers(2), _exact(lambda a, b: a - _toward_zero(a, b) * b)),
    # Choices
    "if_then_else": Intrinsic(_CHOICE, _if_then_else),
    "mux": Intrinsic(_chosen, _mux),
    # Hints
    "likely": Intrinsic(_SAME, _first),
    "likely_if_innermost": Intrinsic(_SAME, _first),
    "promise_clamped": Intrinsic(_PROMISE, _first),
    "unsafe_promise_clamped": Intrinsic(_PROMISE, _first),
}
