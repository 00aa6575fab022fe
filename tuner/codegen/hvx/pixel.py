"""One output pixel of an image as an exact expression of the input pixels around it.

Vector code is written of it. Values are integers without a width: an expression knows the interval
of its values, and from that follows what holds them. Sums of sums and maxima of maxima are one:
however an author nests or stages a filter, the same filter is the same expression.

Build expressions with :func:`at` (an input pixel), ``+``, ``-``, ``*`` by integers, ``>>``, and the
functions of this module. Beside one image and its neighbourhoods there are several images,
interleaved channels, tables that are looked up, and sums of whole rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, Literal, NamedTuple

from tuner.codegen.hvx.plan import NoPlanError

Kind = (
    Literal["pixel", "constant", "sum", "max", "min", "abs", "shift", "product", "entry", "row"]
    | Literal["bits", "tap", "times", "wrapped"]
)
_U8 = (0, 255)
_MOST_TRUTH, _MOST_OPERATIONS = 9, 256
"""Of an expression whose truth table is looked at: pixels (2**9 rows), and parts."""


class NotAStencilError(NoPlanError):
    """An output is not an expression of pixels; the text says why."""


class Place(NamedTuple):
    """Column ``step * x + dx`` of row ``down * y + dy`` of the input ``image``, for the output's
    pixel (x, y). An ``image`` without a name is the first input. Of an image in planes it is the
    plane of that number, or without one the output's own; columns of one whose pixels have
    ``channels`` side by side are those. What is ``within`` the image needs no edge to be repeated:
    the image is as much larger than the output. If it ``is_clamped``, the image may have fewer
    pixels than the output's shares, in which it lies."""

    dx: int
    dy: int
    image: str = ""
    step: int = 1
    plane: int | None = None
    within: bool = False
    down: int = 1
    channels: int = 1
    is_clamped: bool = False

    def __repr__(self) -> str:
        # It decides in which order sums are made: what says nothing changes none.
        said = self._asdict()
        for name, usual in (("down", 1), ("channels", 1), ("is_clamped", False)):
            if said[name] == usual:
                del said[name]
        return f"Place({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    @property
    def source(self) -> str:
        """Names the image, or the plane of it."""
        return self.image if self.plane is None else f"{self.image}[{self.plane}]"

    @property
    def has_own(self) -> bool:
        """Whether it lies in the output pixel's own share of the image."""
        return 0 <= self.dx < self.step and 0 <= self.dy < self.down


class Pixel:
    """An expression.

    ``kind`` and ``value`` say what it is: ``pixel`` (``value`` its :class:`Place`), ``constant``
    (its value), ``sum`` (coefficients of ``parts``, then a constant), ``max``, ``min`` and ``abs``
    of ``parts``, ``shift`` (right, by ``value`` bits, rounding down), ``product`` (by
    ``value`` / 2**15, rounded to nearest), ``entry`` (of the table ``value``, at the one of
    ``parts``), ``row`` (the sum over a whole row of the one of ``parts``, which has ``value``
    pixels), ``bits`` (those of the one of ``parts`` that the byte ``value`` has); of filters also
    ``tap`` (the element of an input, the same for all pixels: ``value`` is its name and indices),
    ``times`` (the product of two ``parts``) and ``wrapped`` (the one of
    ``parts`` as the type ``value`` holds it). ``low`` and ``high`` bound its values.
    """

    __slots__ = ("high", "key", "kind", "low", "parts", "value")

    def __init__(self, kind: Kind, value: Any, parts: tuple[Pixel, ...], low: int, high: int):
        self.kind = kind
        self.value = value
        self.parts = parts
        self.low = low
        self.high = high
        # Compared by a digest: expressions share parts, and spelt out grow beyond all measure.
        content = repr((kind, value, [part.key for part in parts]))
        self.key: str = hashlib.sha256(content.encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pixel) and self.key == other.key

    def __repr__(self) -> str:
        return f"{self.kind}({self.value}, {len(self.parts)} parts, {self.low} to {self.high})"

    def __add__(self, other: Pixel | int) -> Pixel:
        return _sum([(1, self), (1, _expression(other))])

    def __radd__(self, other: int) -> Pixel:
        return self + other

    def __sub__(self, other: Pixel | int) -> Pixel:
        return _sum([(1, self), (-1, _expression(other))])

    def __rsub__(self, other: int) -> Pixel:
        return _expression(other) - self

    def __mul__(self, factor: int) -> Pixel:
        return _sum([(factor, self)])

    __rmul__ = __mul__

    def __rshift__(self, bits: int) -> Pixel:
        low, high = self.low >> bits, self.high >> bits
        return Pixel("shift", bits, (self,), low, high) if bits else self

    def inner(self) -> frozenset[Pixel]:
        """All expressions in it, itself included, each once."""
        seen = {self}
        waiting = [self]
        while waiting:
            fresh = set(waiting.pop().parts) - seen
            seen |= fresh
            waiting += fresh
        return frozenset(seen)


def parts_of(pixels: Iterable[Pixel]) -> frozenset[Pixel]:
    """All expressions in ``pixels``."""
    return frozenset().union(*(one.inner() for one in pixels))


def places_of(pixels: Iterable[Pixel]) -> frozenset[Place]:
    """Those of the input pixels in them."""
    return frozenset(one.value for one in parts_of(pixels) if one.kind == "pixel")


def at(dx: int, dy: int, image: str = "") -> Pixel:
    """The input pixel (u8) ``dx`` columns right of the output's and ``dy`` rows below."""
    return placed(Place(dx, dy, image))


def placed(place: Place) -> Pixel:
    """The input pixel (u8) at ``place``."""
    return Pixel("pixel", place._replace(within=place.within and not place.has_own), (), *_U8)


def surrounded(pixel: Pixel) -> Pixel:
    """The same expression of images that have what is read beyond their edges."""
    made: dict[Pixel, Pixel] = {}
    for one in _producers_first(pixel):
        if one.kind == "pixel":
            made[one] = placed(one.value._replace(within=True))
        else:
            parts = tuple(made[part] for part in one.parts)
            made[one] = Pixel(one.kind, one.value, parts, one.low, one.high)
    return made[pixel]


def entry(table: str, index: Pixel) -> Pixel:
    """The byte at ``index``, of 0 to 255, in the input ``table`` of 256 bytes."""
    if not 0 <= index.low <= index.high <= 255:
        raise NotAStencilError(f"it looks up {index.low} to {index.high}, not 0 to 255")
    return Pixel("entry", table, (index,), *_U8)


def row_sum(part: Pixel, width: int) -> Pixel:
    """The sum of ``part`` over the whole row, of ``width`` pixels."""
    return Pixel("row", width, (part,), width * part.low, width * part.high)


def masked(value: Pixel, mask: int) -> Pixel:
    """The bits of ``value``, which has no sign, that the byte ``mask`` has."""
    return Pixel("bits", mask, (value,), 0, min(mask, value.high))


def constant(value: int) -> Pixel:
    """A number."""
    return Pixel("constant", value, (), value, value)


def maximum(*parts: Pixel | int) -> Pixel:
    """The largest of ``parts``."""
    return _extreme("max", parts)


def minimum(*parts: Pixel | int) -> Pixel:
    """The smallest of ``parts``."""
    return _extreme("min", parts)


def clamped(value: Pixel, low: int = 0, high: int = 255) -> Pixel:
    """``value``, or the nearer of the two bounds."""
    return minimum(maximum(value, low), high)


def absolute(value: Pixel) -> Pixel:
    """``value`` without its sign."""
    if value.low >= 0:
        return value
    if value.high <= 0:
        return value * -1
    if value.kind == "sum" and value.value[0] < 0:
        value *= -1  # a difference and its opposite are one
    return Pixel("abs", None, (value,), 0, max(-value.low, value.high))


def scaled(value: Pixel, factor: int) -> Pixel:
    """``value * factor / 2**15``, to the nearest integer, halves up."""
    ends = [(end * factor + (1 << 14)) >> 15 for end in (value.low, value.high)]
    return Pixel("product", factor, (value,), min(ends), max(ends))


def divided(value: Pixel, divisor: int) -> Pixel:
    """``value / divisor``, rounding down. ``NotAStencilError`` if that takes more than one
    multiplication."""
    if divisor > 0 and divisor & (divisor - 1) == 0:
        return value >> (divisor.bit_length() - 1)
    if divisor <= 0 or value.low < 0 or value.high >= 1 << 15:
        raise NotAStencilError(f"it divides {value.low} to {value.high} by {divisor}")
    # Half a divisor less, rounded to nearest, is rounded down; or where that is not near enough,
    # more bits of the quotient are, and then cut off. What is right is tried on every value.
    values = range(value.low, value.high + 1)
    for bits, more in product(range(divisor.bit_length() + 1), (1, 0)):
        factor = (1 << 15 + bits) // divisor + more
        less = 0 if bits else divisor // 2
        if factor < 1 << 15 and all(
            ((one - less) * factor + (1 << 14)) >> 15 + bits == one // divisor for one in values
        ):
            return scaled(value - less, factor) >> bits
    raise NotAStencilError(f"it divides values up to {value.high} by {divisor}")


def _expression(value: Pixel | int) -> Pixel:
    return constant(value) if isinstance(value, int) else value


def _sum(terms: Iterable[tuple[int, Pixel]]) -> Pixel:
    coefficients: dict[Pixel, int] = {}
    offset = 0
    for factor, term in terms:
        if term.kind == "constant":
            offset += factor * term.value
        elif term.kind == "sum":
            *own, own_offset = term.value
            offset += factor * own_offset
            for one, part in zip(own, term.parts, strict=True):
                coefficients[part] = coefficients.get(part, 0) + factor * one
        else:
            coefficients[term] = coefficients.get(term, 0) + factor
    kept = sorted(
        ((part, one) for part, one in coefficients.items() if one), key=lambda p: _order(p[0])
    )
    if not kept:
        return constant(offset)
    if offset == 0 and kept[0][1] == 1 and len(kept) == 1:
        return kept[0][0]
    low = offset + sum(min(one * part.low, one * part.high) for part, one in kept)
    high = offset + sum(max(one * part.low, one * part.high) for part, one in kept)
    value = (*(one for _, one in kept), offset)
    return Pixel("sum", value, tuple(part for part, _ in kept), low, high)


def _order(part: Pixel) -> tuple[str, str, str]:
    return part.kind, repr(part.value), part.key


def _extreme(kind: Literal["max", "min"], given: Iterable[Pixel | int]) -> Pixel:
    choose = max if kind == "max" else min
    parts: set[Pixel] = set()
    bounds: list[int] = []
    for one in map(_expression, given):
        if one.kind == "constant":
            bounds.append(one.value)
        else:
            parts |= set(one.parts) if one.kind == kind else {one}
    bounds += [part.value for part in parts if part.kind == "constant"]
    parts = {part for part in parts if part.kind != "constant"}
    if bounds:
        bound = choose(bounds)
        # A bound that no value reaches is none; one that every value reaches is the result.
        beyond = {p for p in parts if (p.high <= bound if kind == "max" else p.low >= bound)}
        parts -= beyond
        reached = any((p.low >= bound if kind == "max" else p.high <= bound) for p in parts)
        if not parts:
            return constant(bound)
        if not reached:
            parts.add(constant(bound))
    if len(parts) == 1:
        return parts.pop()
    kept = tuple(sorted(parts, key=_order))
    low, high = choose(p.low for p in kept), choose(p.high for p in kept)
    return Pixel(kind, None, kept, low, high)


def rank(expression: Pixel) -> int | None:
    """If ``expression`` is the k-th smallest of the input pixels in it, the k (from 1), however it
    is written; else ``None``.

    Of minima and maxima alone, it is decided by inputs of two values (the 0-1 principle: Knuth, The
    Art of Computer Programming, volume 3, 5.3.4). At most nine pixels are looked at.
    """
    places = sorted(places_of([expression]))
    order = list(_producers_first(expression))
    if len(places) > _MOST_TRUTH or len(order) > _MOST_OPERATIONS:
        return None
    if any(o.kind not in ("pixel", "max", "min") for o in order):
        return None
    verdicts: dict[int, bool] = {}
    for bits in product((False, True), repeat=len(places)):
        given = dict(zip(places, bits, strict=True))
        known: dict[Pixel, bool] = {}
        for one in order:
            if one.kind == "pixel":
                known[one] = given[one.value]
            else:
                values = [known[part] for part in one.parts]
                known[one] = any(values) if one.kind == "max" else all(values)
        if verdicts.setdefault(sum(bits), known[expression]) is not known[expression]:
            return None
    # The k-th smallest of n is 1 as soon as n - k + 1 of them are.
    return len(places) + 1 - min(count for count, verdict in verdicts.items() if verdict)


def _producers_first(expression: Pixel) -> Iterator[Pixel]:
    done: set[Pixel] = set()
    waiting = [expression]
    while waiting:
        one = waiting[-1]
        missing = [part for part in one.parts if part not in done]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if one not in done:
            done.add(one)
            yield one
