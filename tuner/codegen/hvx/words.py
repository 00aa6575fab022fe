"""Sums in words as HVX makes them: products of halfwords, and what narrows their sums.

A pair of vectors has the words of even halfwords and those of odd ones; narrowing puts them back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tuner.codegen.hvx.pixel import Pixel
from tuner.codegen.hvx.plan import NoPlanError
from tuner.program.types import I16, I32, U8, U16, U32, Type

_SHORT_SHIFT = 15
"""The greatest of the shifts that narrow words to halfwords."""


class Ending(NamedTuple):
    """What becomes of a sum: ``offset`` is added, it is shifted right, and brought between ends.
    It ``wraps`` if words may not hold it."""

    offset: int
    shift: int
    low: int | None
    high: int | None
    wraps: bool
    is_signed: bool


@dataclass
class Narrowing:
    """What brings sums to the type ``kind``, as an ``ending`` says; ``lines`` are the C so far."""

    ending: Ending
    kind: Type
    lines: list[str] = field(default_factory=list)

    def made(self, kind: str, text: str) -> str:
        """The name of that vector or pair."""
        name = f"out{len(self.lines)}"
        self.lines.append(f"const {kind} {name} = {text};")
        return name

    @property
    def saturates(self) -> bool:
        """Whether narrowing brings the value between its ends."""
        kind, ending = self.kind, self.ending
        return (ending.low, ending.high) == (kind.low, kind.high) and kind in (I16, U16, U8)

    @property
    def rounds(self) -> bool:
        """Whether narrowing adds the offset."""
        shift = self.ending.shift
        return (
            self.saturates
            and 0 < shift <= _SHORT_SHIFT
            and self.ending.offset == 1 << (shift - 1)
            and not self.ending.wraps
        )

    @property
    def _is_whole(self) -> bool:
        """Whether the shift is one of words."""
        ending, kind = self.ending, self.kind
        bounded = ending.low is not None or ending.high is not None
        is_clamped = bounded and not self.saturates
        return (
            kind.bits == I32.bits
            or ending.shift > _SHORT_SHIFT
            or is_clamped
            or not ending.is_signed
        )

    def words(self, total: str) -> str:
        """The pair of words before it is narrowed."""
        ending = self.ending
        if ending.offset and not self.rounds:
            splat = f"HVX(lvsplatw)({I32.wrapped(ending.offset)})"
            both = f"HVX(vcombine)({splat}, {splat})"
            total = self.made("W", f"HVX(vaddw_dv)({total}, {both})")
        steps: list[Callable[[str], str]] = []
        if self._is_whole and ending.shift:
            by = "vasrw" if ending.is_signed else "vlsrw"
            steps.append(lambda one: f"HVX({by})({one}, {ending.shift})")
        if not self.saturates:
            if ending.low is not None:
                least = f"HVX(lvsplatw)({ending.low})"
                steps.append(lambda one: f"HVX(vmaxw)({one}, {least})")
            if ending.high is not None:
                most = f"HVX(lvsplatw)({ending.high})"
                steps.append(lambda one: f"HVX(vminw)({one}, {most})")
        for step in steps:
            low, high = map(step, halves(total))
            total = self.made("W", f"HVX(vcombine)({high}, {low})")
        return total

    def halfwords(self, total: str) -> str:
        """Halfwords of a pair of words."""
        shift = 0 if self._is_whole else self.ending.shift
        low, high = halves(total)
        rounds = "rnd" if self.rounds else ""
        if self.saturates and self.kind == U16:
            text = f"HVX(vasrwuh{rounds}sat)({high}, {low}, {shift})"
        elif self.saturates:
            text = f"HVX(vasrwh{rounds}sat)({high}, {low}, {shift})"
            text = text if shift else f"HVX(vsatwh)({high}, {low})"
        else:
            text = f"HVX(vasrwh)({high}, {low}, {shift})"
            text = text if shift else f"HVX(vshufeh)({high}, {low})"
        return self.made("V", text)


def ended(value: Pixel) -> tuple[Ending, Pixel]:
    """What becomes of the sum in ``value``, and that sum."""
    low: int | None = None
    high: int | None = None
    while value.kind in ("min", "max"):
        parts = [one for one in value.parts if one.kind != "constant"]
        if len(parts) != 1 or len(value.parts) != 2:
            raise NoPlanError("it compares sums")
        (bound,) = (one.value for one in value.parts if one.kind == "constant")
        if value.kind == "min" and high is None and low is None:
            high = bound
        elif value.kind == "max" and low is None:
            low = bound
        elif value.kind == "min" and high is None and low is not None and low <= bound:
            high = bound
        else:
            raise NoPlanError("it brings sums between ends more than once")
        (value,) = parts
    shift = 0
    if value.kind == "shift":
        shift, (value,) = value.value, value.parts
    wraps, kind = False, I32
    if value.kind == "wrapped" and value.value not in (str(I32), str(U32)):
        raise NoPlanError(f"it computes with {value.value} that may overflow")
    if value.kind == "wrapped":
        wraps, kind = True, U32 if value.value == str(U32) else I32
        (value,) = value.parts
    elif not (I32.low <= value.low <= value.high <= I32.high):
        kind = U32
        if value.low < 0 or value.high > U32.high:
            if shift or low is not None or high is not None:
                raise NoPlanError(f"words do not hold its sums from {value.low} to {value.high}")
            wraps = True
    offset = int(value.value[-1]) if value.kind == "sum" else 0
    total = value - offset
    is_signed = kind == I32
    if not is_signed and not shift and (low is not None or high is not None):
        raise NoPlanError("it brings unsigned words between ends")
    if shift >= I32.bits:
        raise NoPlanError(f"it shifts words by {shift}")
    return Ending(offset, shift, low, high, wraps, is_signed), total


def added(operation: str, total: str, *given: str) -> str:
    """``operation`` of what is ``given``, added to a ``total`` if there is one."""
    name, parts = (f"{operation}_acc", [total, *given]) if total else (operation, [*given])
    return f"HVX({name})({', '.join(parts)})"


def product_of(
    vector: str, weight: str | int, kind: Type | None, *, is_signed: bool, is_exact: bool
) -> tuple[str, str]:
    """A product by one weight, a number or a name of a vector of it, of ``kind``, and what adds it
    to ``{}``. The samples' halfwords are signed or not; sums that are exact never saturate."""
    if isinstance(weight, int):
        scalar = str(I32.wrapped((weight & 0xFFFF) * 0x10001))
        splat, is_unsigned = f"HVX(lvsplatw)({scalar})", weight >= 0
        kind = I16 if I16.holds(weight) else U16
    else:
        scalar, splat = f"((const int *)&{weight})[0]", weight
        is_unsigned = kind is not None and not kind.is_signed
    if not is_signed:
        by_scalar = product("vmpyuh", vector, scalar)
        return by_scalar if is_unsigned else product("vmpyhus", splat, vector)
    if kind == U16:
        return product("vmpyhus", vector, splat)
    if is_exact:
        return product("vmpyh", vector, scalar, "vmpyhsat_acc")
    return product("vmpyhv", vector, splat)


def product_of_two(pair: tuple[str, str], scalar: str, *, is_signed: bool) -> tuple[str, str]:
    """The sum of two products by weights of 8 bits, and what adds it to ``{}``."""
    one, other = pair
    by = "vmpahb" if is_signed else "vmpauhb"
    return product(by, f"HVX(vcombine)({other}, {one})", scalar)


def product(operation: str, one: str, other: str, more: str = "") -> tuple[str, str]:
    """A product, and what adds it to ``{}``."""
    first = f"HVX({operation})({one}, {other})"
    return first, f"HVX({more or operation + '_acc'})({{}}, {one}, {other})"


def halves(pair: str) -> list[str]:
    """Its vectors."""
    return [f"HVX({half})({pair})" for half in ("lo", "hi")]


def bytes_of(one: int, other: int) -> str:
    """A word of two weights, twice."""
    return str(I32.wrapped(((one & 0xFF) | (other & 0xFF) << 8) * 0x10001))
