"""The one list of calls that an upload may make besides those of its Funcs and inputs.

An intrinsic of Halide is accepted if it stands here, with the type of its value and what that is.
Nothing else is a call that an upload may make: no extern function of any kind, for that is code
that whoever loads the object supplies, and no intrinsic that prints, traces, allocates, asks for
memory to be loaded, or has a meaning in lowered code only.

The groups, and why each is here:

- bits: ``&``, ``|``, ``^``, ``~`` and shifts are calls in Halide, and so is counting bits;
- fixed point: what HVX has instructions for, and Halide makes of ``hl.absd``, ``hl.lerp``,
  ``hl.u8_sat``, ...;
- choices: ``hl.mux`` and conditions of which one side is not evaluated;
- hints: their value is their first argument; boundary conditions are made with them.

Meanings follow ``lower_*`` in Halide 21's FindIntrinsics.cpp and Lerp.cpp, at infinite precision:
64 bits hold what arithmetic on 32 gives, and pipelines of 64 are not tunable. Where Halide leaves a
value undefined, so does this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Type = tuple[str, int]
"""Code and bits: ``("uint", 8)``."""

BOOL: Type = ("uint", 1)


@dataclass(frozen=True)
class Intrinsic:
    """``type_of`` gives the type of the value for those of the arguments, ``None`` if they do not
    fit; ``wanted`` is the type that the call has, for those that are conversions. ``value`` takes
    the type of the value, then the arguments. ``call_type`` is as which kind of call Halide makes
    it."""

    type_of: Callable[[Sequence[Type], Type], Type | None]
    value: Callable[..., Array]
    call_type: str = "PureIntrinsic"


def _wide(array: Array) -> Array:
    """Integers of up to 32 bits as such that sums, differences and shifts of them fit."""
    return array.astype(np.int64)


def _saturated(values: Array, kind: np.dtype[Any]) -> Array:
    bounds = np.iinfo(kind)
    return np.clip(values, bounds.min, bounds.max).astype(kind)


def _product(kind: np.dtype[Any], a: Array, b: Array) -> Array:
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
    half = shifted(np.ones_like(values), amounts - 1)
    return shifted(values + np.where(amounts > 0, half, 0).astype(values.dtype), -amounts)


def _bit_length(values: Array) -> Array:
    return np.frexp(values.astype(np.float64))[1]  # exact for 32 bits


def _unsigned(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}")


def _leading(kind: np.dtype[Any], a: Array) -> Array:
    return (8 * a.dtype.itemsize - _bit_length(_unsigned(a))).astype(kind)


def _trailing(kind: np.dtype[Any], a: Array) -> Array:
    lowest = _wide(_unsigned(a))
    lowest &= -lowest
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
        return _saturated(_wide(a), kind)
    bounds = np.iinfo(kind)
    return np.clip(a.astype(np.float64), bounds.min, bounds.max).astype(np.int64).astype(kind)


def _toward_zero(a: Array, b: Array) -> Array:
    """Quotients in 64 bits; those by zero, which are undefined, are 0."""
    divisor = np.where(b == 0, 1, _wide(b))
    quotient = abs(_wide(a)) // abs(divisor) * np.sign(_wide(a)) * np.sign(divisor)
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


def _integers(count: int) -> Callable[[Sequence[Type], Type], Type | None]:
    def type_of(types: Sequence[Type], wanted: Type) -> Type | None:
        fit = len(types) == count and len(set(types)) == 1
        return types[0] if fit and (_is_integer(types[0]) or types[0] == BOOL) else None

    return type_of


def _unsigned_of(count: int) -> Callable[[Sequence[Type], Type], Type | None]:
    def type_of(types: Sequence[Type], wanted: Type) -> Type | None:
        fit = len(types) == count and len(set(types)) == 1 and types[0] != BOOL
        if not fit:
            return None
        code, bits = types[0]
        return (code if code == "float" else "uint", bits)

    return type_of


def _shift(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 2 and all(map(_is_integer, types)) and types[0][1] == types[1][1]
    return types[0] if fit else None


def _wide_shift(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 2 and all(map(_is_integer, types)) and types[0][1] <= 32
    return (types[0][0], 2 * types[0][1]) if fit else None


def _widening(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 2 and types[0] == types[1] and _is_integer(types[0]) and types[0][1] <= 32
    return (types[0][0], 2 * types[0][1]) if fit else None


def _widening_sub(types: Sequence[Type], wanted: Type) -> Type | None:
    found = _widening(types, wanted)
    return found and ("int", found[1])


def _widening_mul(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 2 and all(map(_is_integer, types)) and types[0][1] == types[1][1] <= 32
    return (
        ("int" if "int" in (types[0][0], types[1][0]) else "uint", 2 * types[0][1]) if fit else None
    )


def _widen_right(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 2 and all(map(_is_integer, types)) and types[0][1] == 2 * types[1][1]
    return types[0] if fit else None


def _scaled(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 3 and types[0] == types[1] and all(map(_is_integer, types))
    return types[0] if fit and types[0][1] <= 32 else None


def _mix(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 3 and types[0] == types[1] and _is_integer(types[0]) and types[2] != BOOL
    weights = ("uint", "float")
    return types[0] if fit and types[2][0] in weights and max(b for _, b in types) <= 32 else None


def _conversion(types: Sequence[Type], wanted: Type) -> Type | None:
    return wanted if len(types) == 1 and types[0] != BOOL and _is_integer(wanted) else None


def _joined(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) in (1, 2, 4) and len(set(types)) == 1 and _is_integer(types[0])
    bits = len(types) * types[0][1] if fit else 0
    return ("uint", bits) if 0 < bits <= 32 else None


def _extracted(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 2 and all(map(_is_integer, types)) and _is_integer(wanted)
    return wanted if fit and wanted[1] <= types[0][1] <= 32 else None


def _choice(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) == 3 and types[0] == BOOL and types[1] == types[2]
    return types[1] if fit else None


def _chosen(types: Sequence[Type], wanted: Type) -> Type | None:
    fit = len(types) >= 2 and types[0] == ("int", 32) and len(set(types[1:])) == 1
    return types[1] if fit else None


def _same(types: Sequence[Type], wanted: Type) -> Type | None:
    return types[0] if len(types) == 1 else None


def _promise(types: Sequence[Type], wanted: Type) -> Type | None:
    return types[0] if len(types) == 3 and len(set(types)) == 1 else None


def _concat(kind: np.dtype[Any], *parts: Array) -> Array:
    bits = 8 * parts[0].dtype.itemsize
    joined = np.zeros((), np.int64)
    for number, part in enumerate(parts):
        joined = joined | _wide(_unsigned(part)) << number * bits
    return joined.astype(kind)


def _first(kind: np.dtype[Any], a: Array, *_: Array) -> Array:
    return a


INTRINSICS: dict[str, Intrinsic] = {
    # Bits
    "bitwise_and": Intrinsic(_integers(2), lambda kind, a, b: a & b),
    "bitwise_or": Intrinsic(_integers(2), lambda kind, a, b: a | b),
    "bitwise_xor": Intrinsic(_integers(2), lambda kind, a, b: a ^ b),
    "bitwise_not": Intrinsic(_integers(1), lambda kind, a: ~a),
    "shift_left": Intrinsic(_shift, lambda kind, a, b: shifted(_wide(a), b).astype(kind)),
    "shift_right": Intrinsic(_shift, lambda kind, a, b: shifted(_wide(a), -_wide(b)).astype(kind)),
    "count_leading_zeros": Intrinsic(_integers(1), _leading),
    "count_trailing_zeros": Intrinsic(_integers(1), _trailing),
    "popcount": Intrinsic(
        _integers(1), lambda kind, a: np.bitwise_count(_unsigned(a)).astype(kind)
    ),
    "concat_bits": Intrinsic(_joined, _concat, "Intrinsic"),
    "extract_bits": Intrinsic(
        _extracted,
        lambda kind, a, b: shifted(_wide(_unsigned(a)), -_wide(b)).astype(kind),
        "Intrinsic",
    ),
    # Fixed point
    "abs": Intrinsic(
        _unsigned_of(1), lambda kind, a: abs(a if kind.kind == "f" else _wide(a)).astype(kind)
    ),
    "absd": Intrinsic(
        _unsigned_of(2),
        lambda kind, a, b: abs(a - b if kind.kind == "f" else _wide(a) - _wide(b)).astype(kind),
    ),
    "halving_add": Intrinsic(
        _integers(2), lambda kind, a, b: ((_wide(a) + _wide(b)) >> 1).astype(kind)
    ),
    "halving_sub": Intrinsic(
        _integers(2), lambda kind, a, b: ((_wide(a) - _wide(b)) >> 1).astype(kind)
    ),
    "rounding_halving_add": Intrinsic(
        _integers(2), lambda kind, a, b: ((_wide(a) + _wide(b) + 1) >> 1).astype(kind)
    ),
    "sorted_avg": Intrinsic(
        _integers(2), lambda kind, a, b: ((_wide(a) + _wide(b)) >> 1).astype(kind)
    ),
    "saturating_add": Intrinsic(
        _integers(2), lambda kind, a, b: _saturated(_wide(a) + _wide(b), kind)
    ),
    "saturating_sub": Intrinsic(
        _integers(2), lambda kind, a, b: _saturated(_wide(a) - _wide(b), kind)
    ),
    "saturating_cast": Intrinsic(_conversion, _saturating_cast),
    "rounding_shift_left": Intrinsic(
        _shift, lambda kind, a, b: _rounded_right(_wide(a), -_wide(b)).astype(kind)
    ),
    "rounding_shift_right": Intrinsic(
        _shift, lambda kind, a, b: _rounded_right(_wide(a), b).astype(kind)
    ),
    "widening_add": Intrinsic(_widening, lambda kind, a, b: (_wide(a) + _wide(b)).astype(kind)),
    "widening_sub": Intrinsic(_widening_sub, lambda kind, a, b: (_wide(a) - _wide(b)).astype(kind)),
    "widening_mul": Intrinsic(_widening_mul, lambda kind, a, b: _product(kind, a, b).astype(kind)),
    "widening_shift_left": Intrinsic(
        _wide_shift, lambda kind, a, b: shifted(_wide(a), b).astype(kind)
    ),
    "widening_shift_right": Intrinsic(
        _wide_shift, lambda kind, a, b: shifted(_wide(a), -_wide(b)).astype(kind)
    ),
    "widen_right_add": Intrinsic(
        _widen_right, lambda kind, a, b: (_wide(a) + _wide(b)).astype(kind)
    ),
    "widen_right_sub": Intrinsic(
        _widen_right, lambda kind, a, b: (_wide(a) - _wide(b)).astype(kind)
    ),
    "widen_right_mul": Intrinsic(
        _widen_right, lambda kind, a, b: (_wide(a) * _wide(b)).astype(kind)
    ),
    "mul_shift_right": Intrinsic(
        _scaled, lambda kind, a, b, q: _saturated(shifted(_product(kind, a, b), -_wide(q)), kind)
    ),
    "rounding_mul_shift_right": Intrinsic(
        _scaled, lambda kind, a, b, q: _saturated(_rounded_right(_product(kind, a, b), q), kind)
    ),
    "lerp": Intrinsic(_mix, _lerp),
    "div_round_to_zero": Intrinsic(
        _integers(2), lambda kind, a, b: _toward_zero(a, b).astype(kind)
    ),
    "mod_round_to_zero": Intrinsic(
        _integers(2), lambda kind, a, b: (_wide(a) - _toward_zero(a, b) * _wide(b)).astype(kind)
    ),
    # Choices
    "if_then_else": Intrinsic(_choice, _if_then_else),
    "mux": Intrinsic(_chosen, _mux),
    # Hints
    "likely": Intrinsic(_same, _first),
    "likely_if_innermost": Intrinsic(_same, _first),
    "promise_clamped": Intrinsic(_promise, _first),
    "unsafe_promise_clamped": Intrinsic(_promise, _first),
}
