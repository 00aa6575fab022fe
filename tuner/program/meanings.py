"""The value of each operator, on whole arrays, exact at every width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.program.expressions import Binary, Cast, Constant, Expr, Select, Unary
from tuner.program.types import Type

Array = NDArray[Any]


def value_of(node: Expr, *parts: Array) -> Array:
    """The value of ``node``, which reads nothing, given those of its parts; arrays of the NumPy
    types that they have, and so is the result."""
    if isinstance(node, Constant):
        return np.asarray(node.value, node.type.dtype)
    if isinstance(node, Select):
        return np.where(*parts)
    if isinstance(node, Cast):
        if node.saturates:
            return _saturated(parts[0], node.type)
        return parts[0].astype(node.type.dtype, copy=False)
    if isinstance(node, Unary):
        return np.asarray(_UNARY[node.operator](*parts)).astype(node.type.dtype, copy=False)
    assert isinstance(node, Binary)  # noqa: S101 - variables and loads are read elsewhere
    return np.asarray(_BINARY[node.operator](*parts)).astype(node.type.dtype, copy=False)


def _saturated(a: Array, kind: Type) -> Array:
    # The bounds that `a` can be beyond are numbers of its own type.
    own = np.iinfo(a.dtype) if a.dtype.kind != "b" else np.iinfo(np.uint8)
    low, high = max(kind.low, int(own.min)), min(kind.high, int(own.max))
    return np.clip(a.astype(own.dtype), low, high).astype(kind.dtype)


def _unsigned(a: Array) -> Array:
    return np.asarray(a.view(f"u{a.dtype.itemsize}"))


def _absolute(a: Array) -> Array:
    # The least value is its own absolute value, and right when it is taken for an unsigned one.
    return _unsigned(abs(a)) if a.dtype.kind == "i" else a


def _absolute_difference(a: Array, b: Array) -> Array:
    return np.asarray(np.where(a > b, a - b, b - a))


def _divided(a: Array, b: Array) -> Array:
    """Halide's: such that the remainder is not negative; by zero it is 0."""
    divisor = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // divisor
    is_below = a - quotient * divisor < 0
    return np.asarray(np.where(b == 0, b.dtype.type(0), quotient + is_below.astype(a.dtype)))


def _remainder(a: Array, b: Array) -> Array:
    divisor = np.where(b == 0, b.dtype.type(1), b)
    rest = a % divisor
    return np.where(b == 0, b.dtype.type(0), np.where(rest < 0, rest - divisor, rest))


def _multiplied_by_power(a: Array, amounts: Array, sign: int) -> Array:
    """``a * 2 ** (sign * amounts)``, rounded down and wrapped, whatever the amounts."""
    bits = 8 * a.dtype.itemsize
    if amounts.size == 1 and abs(amounts.item()) < bits:  # as most are
        amount = sign * amounts.item()
        return np.asarray(a << a.dtype.type(amount) if amount >= 0 else a >> a.dtype.type(-amount))
    least = 0 if amounts.dtype.kind == "u" else -bits
    by = sign * np.clip(amounts, least, bits).astype(np.int64)
    left = a << np.clip(by, 0, bits - 1).astype(a.dtype)
    right = a >> np.clip(-by, 0, bits - 1).astype(a.dtype)
    if a.dtype.kind == "u":
        right = np.where(-by >= bits, a.dtype.type(0), right)
    return np.asarray(np.where(by >= 0, np.where(by >= bits, a.dtype.type(0), left), right))


def _leading_zeros(a: Array) -> Array:
    spread = _unsigned(a)
    for step in (1, 2, 4, 8, 16, 32):
        if step < 8 * a.dtype.itemsize:
            spread = spread | (spread >> spread.dtype.type(step))
    return np.asarray(np.bitwise_count(~spread))


def _trailing_zeros(a: Array) -> Array:
    bits = _unsigned(a)
    return np.asarray(np.bitwise_count(~bits & (bits - bits.dtype.type(1))))


_UNARY: dict[str, Callable[[Array], Any]] = {
    "~": np.invert,
    "abs": _absolute,
    "popcount": lambda a: np.bitwise_count(_unsigned(a)),
    "clz": _leading_zeros,
    "ctz": _trailing_zeros,
}
_BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": _divided,
    "%": _remainder,
    "min": np.minimum,
    "max": np.maximum,
    "absd": _absolute_difference,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": lambda a, b: _multiplied_by_power(a, b, 1),
    ">>": lambda a, b: _multiplied_by_power(a, b, -1),
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
