"""An output pixel's expression as HVX operations on rows of pixels.

A :class:`Value` is a row of a vector's pixels: bytes in one vector, or halfwords in two, those of
even pixels and those of odd ones, as HVX widens and narrows. It is made of other values in
its own row and rows near it; one value serves all rows of an image, so rows that several outputs
need are found by looking (``sliding``).

What is decided here: horizontal sums of bytes by ``vtmpy`` (three taps, the last once), ``vmpa``
(two taps) and ``vmpy`` (one), the fewest that do; rows of a filter that are multiples of one
another are one horizontal sum, so a separable filter is one, whichever way it was written;
vertical sums with binomial factors are sums of two, one after another; a median of 3x3 sorts rows,
then picks among them (as the median of the least's greatest, the middles' median and the greatest's
least); narrowing takes shift, rounding and saturation along.

Sources: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44, for each operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from math import gcd

from tuner.codegen.hvx.pixel import NotAStencilError, Pixel, Place, placed, places_of, rank

_BYTE = (0, 255)
_SIGNED = (-(1 << 15), (1 << 15) - 1)
_UNSIGNED = (0, (1 << 16) - 1)
_WEIGHT = (-128, 127)
BOUNDS = {"uint8": _BYTE, "int16": _SIGNED, "uint16": _UNSIGNED}
"""Of outputs, by their type."""
_WORD = (-(1 << 31), (1 << 31) - 1)
FOLDS = {"max": "vmaxub", "min": "vminub"}
UNIFORM = frozenset(
    ("row", "splatw", "vaddw", "vsubw", "vasrw", "vmpyiwb", "vabsw", "vmaxw", "vminw")
)
"""Operations on words that are the same in a whole row; ``row`` adds up the bytes of one."""


@dataclass(frozen=True, eq=False)
class Value:
    """A row of values: ``operation`` of the ``parts``, each a value and the number of rows it lies
    below. ``numbers`` are the operation's constants. ``is_wide`` if it has halfwords.

    The operation ``tap`` is pixels of the input ``image``: each ``numbers[1]``-th, from
    ``numbers[0]`` columns to the right on, in row ``numbers[2]`` of those that belong to one of the
    output; ``lut`` is entries of that input; ``fold`` combines any number of parts by the operation
    ``by``, in an order that is chosen later.

    Values of :data:`UNIFORM` operations are the same in a whole row: one word for each row.
    """

    operation: str
    parts: tuple[tuple[Value, int], ...]
    numbers: tuple[int, ...]
    is_wide: bool
    height: int
    number: int
    by: str = ""
    image: str = ""

    @property
    def is_uniform(self) -> bool:
        """Whether it is one word for a row."""
        return self.operation in UNIFORM


Placed = tuple[Value, int]
"""A value and the row it lies in, from the row of the output."""


@dataclass
class Values:
    """All values of a kernel, each once."""

    known: dict[tuple[object, ...], Value] = field(default_factory=dict)

    def made(
        self,
        operation: str,
        parts: Sequence[Placed],
        numbers: Sequence[int] = (),
        *,
        is_wide: bool,
        by: str = "",
        image: str = "",
    ) -> Placed:
        """``operation`` of ``parts``, in the row of the first of them."""
        row = parts[0][1] if parts else 0
        own = tuple((part, at - row) for part, at in parts)
        key = (operation, tuple((id(p), at) for p, at in own), tuple(numbers), by, image)
        # A fold is higher than the partial results that its parts are combined to.
        step = 2 * len(own) + 1 if operation == "fold" else 1
        if key not in self.known:
            height = step + max((part.height for part, _ in own), default=0)
            number = len(self.known)
            value = Value(operation, own, tuple(numbers), is_wide, height, number, by, image)
            self.known[key] = value
        return self.known[key], row


def lowered(
    expressions: Sequence[Pixel], dtype: str = "uint8"
) -> tuple[Values, tuple[Placed, ...]]:
    """The values of ``expressions``, and which of them are the rows of bytes or halfwords that the
    output has of each.

    Of values that bytes do not hold the low eight bits are stored. ``NotAStencilError`` if sums
    take more than 16 bits, or weights more than 8, or ``dtype`` does not hold the halfwords.
    """
    bounds, lowering = BOUNDS[dtype], _Lowering()

    def row(one: Pixel) -> Placed:
        if _within(one, bounds):
            return lowering.bytes_of(one) if bounds == _BYTE else lowering.halves_of(one)
        if bounds == _BYTE:
            return lowering.low_bytes_of(one)
        reach = f"its values reach from {one.low} to {one.high}"
        raise NotAStencilError(f"{reach}, not {bounds[0]} to {bounds[1]}")

    return lowering.values, tuple(map(row, expressions))


def _reach(expression: Pixel) -> str:
    return f"a value reaches from {expression.low} to {expression.high}"


def _within(expression: Pixel, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= expression.low and expression.high <= bounds[1]


class _Lowering:
    def __init__(self) -> None:
        self.values = Values()
        self._known: dict[tuple[Pixel, bool], Placed] = {}

    def bytes_of(self, expression: Pixel) -> Placed:
        """``expression``, of values from 0 to 255, as bytes."""
        key = expression, False
        if key not in self._known:
            self._known[key] = self._bytes(expression)
        return self._known[key]

    def low_bytes_of(self, expression: Pixel) -> Placed:
        """The low eight bits of ``expression``."""
        return self._pack("vshuffeb", self.halves_of(expression))

    def halves_of(self, expression: Pixel) -> Placed:
        """``expression`` as halfwords, with a sign or without, whichever holds it."""
        if not (_within(expression, _SIGNED) or _within(expression, _UNSIGNED)):
            raise NotAStencilError(_reach(expression))
        key = expression, True
        if key not in self._known:
            self._known[key] = self._halves(expression)
        return self._known[key]

    # Bytes

    def _bytes(self, expression: Pixel) -> Placed:
        kind, parts = expression.kind, expression.parts
        if _is_of_rows(expression):
            return self.values.made("bytes_of_row", [self._words(expression)], is_wide=False)
        if kind == "pixel":
            place: Place = expression.value
            row, own = divmod(place.dy, place.down)
            numbers = place.dx, place.step, own
            value, _ = self.values.made("tap", (), numbers, is_wide=False, image=place.source)
            return value, row
        if kind == "entry":
            index = [self.bytes_of(parts[0])]
            return self.values.made("lut", index, is_wide=False, image=expression.value)
        if kind == "constant":
            return self._splat_of_bytes(expression.value)
        if kind == "bits":
            return self._bits(parts[0], expression.value)
        if kind in FOLDS and _is_median_of_nine(expression):
            return self._median_of_nine(expression)
        if kind in FOLDS and all(_within(part, _BYTE) for part in parts):
            return self._fold(FOLDS[kind], map(self.bytes_of, parts), is_wide=False)
        if kind in FOLDS:
            return self._saturated(expression)
        shifted = _shifted_last(expression)
        if shifted.kind == "shift":
            return self._narrowed(shifted.parts[0], shifted.value)
        if kind == "abs" and (pair := self._difference(parts[0])):
            return self.values.made("vabsdiffub", pair, is_wide=False)
        return self.low_bytes_of(expression)

    def _splat_of_bytes(self, value: int) -> Placed:
        return self.values.made("splatb", (), (value,), is_wide=False)

    def _bits(self, value: Pixel, mask: int) -> Placed:
        """Of bytes, those that are shifted: what is left of one reaches into no other."""
        shift, inner = 0, value
        if value.kind == "shift" and _within(value.parts[0], _BYTE):
            shift, (inner,) = value.value, value.parts
            mask &= _BYTE[1] >> shift
        own = self.bytes_of(inner) if _within(inner, _BYTE) else self.low_bytes_of(inner)
        kept = self.values.made("vand", [own, self._splat_of_bytes(mask << shift)], is_wide=False)
        return self.values.made("vlsrw", [kept], (shift,), is_wide=False) if shift else kept

    def _difference(self, inner: Pixel) -> list[Placed] | None:
        """The two bytes of which ``inner`` is the difference, if it is one."""
        if inner.kind != "sum" or sorted(inner.value[:-1]) != [-1, 1] or inner.value[-1]:
            return None
        return (
            list(map(self.bytes_of, inner.parts))
            if all(_within(part, _BYTE) for part in inner.parts)
            else None
        )

    def _pack(self, operation: str, value: Placed, *numbers: int) -> Placed:
        return self.values.made(operation, [value], numbers, is_wide=False)

    def _saturated(self, expression: Pixel) -> Placed:
        """A minimum or maximum of what may be beyond bytes."""
        inner = clamped_to(expression, *_BYTE)
        if inner is None or not _within(inner, _SIGNED):
            return self.low_bytes_of(expression)
        inner = _shifted_last(inner)
        if inner.kind == "shift":
            return self._narrowed(inner.parts[0], inner.value)
        return self._pack("vsathub", self.halves_of(inner))

    def _narrowed(self, inner: Pixel, bits: int) -> Placed:
        """``inner`` shifted right and saturated to bytes: one operation for all of it."""
        half = 1 << (bits - 1)
        rounds = inner.kind == "sum" and inner.value[-1] == half
        body = inner - half if rounds else inner
        if not (_within(body, _SIGNED) or _within(body, _UNSIGNED)):
            body, rounds = inner, False
        letter = "" if _within(body, _SIGNED) else "u"
        if bits <= 7:
            operation = f"vasr{letter}hub{'rnd' if rounds else ''}sat"
            return self._pack(operation, self.halves_of(body), bits)
        if bits == 8 and rounds:
            return self._pack(f"vround{letter}hub", self.halves_of(body))
        if bits == 8 and _within(inner, _UNSIGNED):
            return self._pack("vshuffob", self.halves_of(inner))
        if bits == 8 and _within(inner - half, _SIGNED):
            return self._pack("vroundhub", self.halves_of(inner - half))
        # Not `inner >> bits` as an expression: of a byte, that would be narrowed again and again.
        operation = "vasrh" if _within(inner, _SIGNED) else "vlsrh"
        made = self.values.made(operation, [self.halves_of(inner)], (bits,), is_wide=True)
        return self._pack("vsathub", made)

    def _fold(self, by: str, parts: Iterable[Placed], *, is_wide: bool) -> Placed:
        """``by``, which may take its parts in any order, of ``parts``: along rows, then down."""
        rows: dict[int, list[Value]] = {}
        for value, row in parts:
            rows.setdefault(row, []).append(value)
        combined = []
        for row, values in sorted(rows.items()):
            ordered = sorted(values, key=_nearest_first)
            made: Placed = (ordered[0], row)
            for value in ordered[1:]:
                made = self.values.made(by, [made, (value, row)], is_wide=is_wide)
            combined.append(made)
        if len(combined) == 1:
            return combined[0]
        return self.values.made("fold", combined, is_wide=is_wide, by=by)

    def _median_of_nine(self, expression: Pixel) -> Placed:
        (left, middle, right), rows = _sides(expression)
        (place, *_) = places_of([expression])
        made = self.values.made

        def row(dy: int) -> tuple[Placed, Placed, Placed]:
            a, b, c = (
                self.bytes_of(placed(place._replace(dx=dx, dy=dy))) for dx in (left, middle, right)
            )
            low, high = (made(op, [a, c], is_wide=False) for op in ("vminub", "vmaxub"))
            least = made("vminub", [low, b], is_wide=False)
            inner = made("vminub", [high, b], is_wide=False)
            greatest = made("vmaxub", [high, b], is_wide=False)
            return least, made("vmaxub", [low, inner], is_wide=False), greatest

        least, middles, greatest = zip(*map(row, rows), strict=True)
        parts = [
            made("fold", least, is_wide=False, by="vmaxub"),
            made("fold", middles, is_wide=False, by="median"),
            made("fold", greatest, is_wide=False, by="vminub"),
        ]
        return made("median", parts, is_wide=False)

    # Halfwords

    def _halves(self, expression: Pixel) -> Placed:
        kind, parts = expression.kind, expression.parts
        made = self.values.made
        if _is_of_rows(expression):
            return made("halves_of_row", [self._words(expression)], is_wide=True)
        if kind == "constant":
            return made("splath", (), (expression.value & 0xFFFF,), is_wide=True)
        if kind == "sum":
            return self._sum(expression)
        if kind == "abs":
            return self._absolute(parts[0])
        if kind == "shift" and not _within(expression, _BYTE):
            operation = "vasrh" if _within(parts[0], _SIGNED) else "vlsrh"
            return made(operation, [self.halves_of(parts[0])], (expression.value,), is_wide=True)
        if kind == "product":
            if not _within(parts[0], _SIGNED) or not -(1 << 15) <= expression.value < 1 << 15:
                raise NotAStencilError("it scales a value that takes more than 15 bits")
            return made("vmpyhsrs", [self.halves_of(parts[0])], (expression.value,), is_wide=True)
        if kind in FOLDS and not all(_within(part, _BYTE) for part in parts):
            letter = ""
            if not all(_within(part, _SIGNED) for part in parts):
                letter = "u"
                for part in parts:
                    if not _within(part, _UNSIGNED):
                        raise NotAStencilError(_reach(part))
            by = f"v{kind}{letter}h"
            return self._fold(by, map(self.halves_of, parts), is_wide=True)
        return made("vzb", [self.bytes_of(expression)], is_wide=True)

    def _words(self, expression: Pixel) -> Placed:
        """``expression`` of sums of rows, as words."""
        kind, parts = expression.kind, expression.parts
        if not _within(expression, _WORD):
            raise NotAStencilError(_reach(expression))
        if kind == "row":
            (part,) = parts
            if not _within(part, _BYTE):
                raise NotAStencilError(f"it adds up a row of values from {part.low} to {part.high}")
            placed = self.bytes_of(part)
            if placed[1]:
                raise NotAStencilError("it adds up other rows than the output's")
            return self.values.made("row", [placed], (expression.value,), is_wide=False)
        if kind == "constant":
            return self._splat(expression.value)
        if kind == "sum":
            return self._sum_of_words(expression)
        words = [self._words(part) for part in parts]
        if kind in FOLDS:
            return reduce(lambda one, other: self._word(f"v{kind}w", one, other), words)
        if kind == "shift":
            return self.values.made("vasrw", words, (expression.value,), is_wide=False)
        if kind == "abs":
            return self._word("vabsw", *words)
        raise NotAStencilError(f"it has a {kind} of a row's sum")

    def _word(self, operation: str, *parts: Placed) -> Placed:
        return self.values.made(operation, parts, is_wide=False)

    def _splat(self, value: int) -> Placed:
        return self.values.made("splatw", (), (value,), is_wide=False)

    def _sum_of_words(self, expression: Pixel) -> Placed:
        *weights, offset = expression.value
        total = self._splat(offset) if offset else None
        for weight, part in zip(weights, expression.parts, strict=True):
            one = self._words(part)
            if abs(weight) != 1:
                if not _WEIGHT[0] <= abs(weight) <= _WEIGHT[1]:
                    raise NotAStencilError(f"it multiplies the sum of a row by {weight}")
                one = self.values.made("vmpyiwb", [one], (abs(weight),), is_wide=False)
            if total is None and weight > 0:
                total = one
            else:
                name = "vaddw" if weight > 0 else "vsubw"
                total = self._word(name, total or self._splat(0), one)
        assert total is not None  # noqa: S101 - a sum has at least one term
        return total

    def _absolute(self, inner: Pixel) -> Placed:
        if inner.kind == "sum" and inner.value[-1] == 0 and _within(inner, _SIGNED):
            wide = self._vertical(inner)
            plus = [one for one in wide if one[2] == 1]
            minus = [one for one in wide if one[2] == -1]
            if len(wide) == 2 and plus and minus:
                pair = [(value, row) for value, row, _ in (*plus, *minus)]
                return self.values.made("vabsdiffh", pair, is_wide=True)
            if not any(weight > 0 for *_, weight in wide):
                negated = self._added([(value, row, -weight) for value, row, weight in wide])
                return self.values.made("vabsh", [negated], is_wide=True)
        return self.values.made("vabsh", [self.halves_of(inner)], is_wide=True)

    def _sum(self, expression: Pixel) -> Placed:
        total = self._added(self._vertical(expression))
        offset = expression.value[-1]
        if offset:
            splat, _ = self.values.made("splath", (), (offset & 0xFFFF,), is_wide=True)
            total = self.values.made("vaddh_dv", [total, (splat, total[1])], is_wide=True)
        return total

    def _vertical(self, expression: Pixel) -> list[tuple[Value, int, int]]:
        """A sum's terms as halfwords: value, row and weight; along each row they are added up."""
        bytes_: dict[int, dict[Value, int]] = {}
        columns: dict[Value, dict[int, int]] = {}

        def add(value: Value, row: int, weight: int) -> None:
            column = columns.setdefault(value, {})
            column[row] = column.get(row, 0) + weight

        for weight, part in zip(expression.value, expression.parts, strict=False):
            if _within(part, _BYTE):
                value, row = self.bytes_of(part)
                line = bytes_.setdefault(row, {})
                line[value] = line.get(value, 0) + weight
            else:
                add(*self.halves_of(part), weight)
        rows: list[tuple[int, int, dict[Value, int]]] = []
        for row, line in sorted(bytes_.items()):
            common = gcd(*line.values())
            if len(line) == 1 and (common == 1 or self._recurs(line, bytes_)):
                (common,) = line.values()
            elif len(bytes_) == 1 and _are_bytes(line):
                common = 1
            # Rows that differ by a factor, or in sign, are one sum: of the signs, that of fewer
            # operations.
            ways = [(sign * common, _divided(line, sign * common)) for sign in (1, -1)]
            common, reduced = min(ways, key=lambda way: _multiplications(way[1]))
            rows.append((row, common, reduced))
        distinct = {_weights(reduced) for _, _, reduced in rows}
        if len(distinct) == len(rows) > 1 and _are_bytes(*bytes_.values()):
            # No row is of use to another output in another row: one sum runs through all of them.
            add(*self._running(bytes_), 1)
        else:
            for row, common, reduced in rows:
                add(self._horizontal(reduced), row, common)
        return [term for value, column in columns.items() for term in self._cascade(value, column)]

    def _running(self, lines: Mapping[int, Mapping[Value, int]]) -> Placed:
        """The sum of weighted bytes of several rows, two taps at once wherever they are."""
        total: Placed | None = None
        for operation, parts, weights in _steps(lines):
            total = self._accumulated(total, operation, parts, weights)
        assert total is not None  # noqa: S101 - there are rows, and each has a term
        return total

    @staticmethod
    def _recurs(line: Mapping[Value, int], lines: Mapping[int, Mapping[Value, int]]) -> bool:
        """Whether the one value of ``line`` is the only one of another line as well."""
        return sum(set(other) == set(line) for other in lines.values()) > 1

    def _cascade(self, value: Value, column: Mapping[int, int]) -> list[tuple[Value, int, int]]:
        """``column``'s weighted sum of a value's rows, with sums of two neighbours taken out as
        long as that saves operations."""
        first = min(column)
        weights = [column.get(row, 0) for row in range(first, max(column) + 1)]
        while len(weights) > 1:
            rest = _without_neighbours(weights)
            if rest is None or 1 + _cost(rest) > _cost(weights):
                break
            value, _ = self.values.made("vaddh_dv", [(value, 0), (value, 1)], is_wide=True)
            weights = rest
        common = set(weights)
        if len(weights) > 2 and len(common) == 1:
            parts = [(value, at) for at in range(len(weights))]
            value, _ = self.values.made("fold", parts, is_wide=True, by="vaddh_dv")
            weights = weights[:1]
        return [(value, first + at, weight) for at, weight in enumerate(weights) if weight]

    def _horizontal(self, line: Mapping[Value, int]) -> Value:
        """The weighted sum of bytes of one row."""
        made = self.values.made
        if len(line) == 1:
            ((value, weight),) = line.items()
            if weight == 1:
                return made("vzb", [(value, 0)], is_wide=True)[0]
        plus = [value for value, weight in line.items() if weight == 1]
        if len(line) == 2 and plus:
            (other,) = (value for value in line if value is not plus[0])
            if abs(line[other]) == 1:
                operation = "vaddubh" if line[other] == 1 else "vsububh"
                return made(operation, [(plus[0], 0), (other, 0)], is_wide=True)[0]
        return self._running({0: line})[0]

    def _accumulated(
        self,
        total: Placed | None,
        operation: str,
        parts: Sequence[Placed],
        weights: Sequence[int],
    ) -> Placed:
        if total is None:
            return self.values.made(operation, parts, weights, is_wide=True)
        return self.values.made(f"{operation}_acc", [total, *parts], weights, is_wide=True)

    def _added(self, terms: Sequence[tuple[Value, int, int]]) -> Placed:
        """The sum of weighted terms; those that are subtracted come last."""
        made = self.values.made
        total: Placed | None = None
        for value, row, weight in sorted(terms, key=lambda term: (-term[2] == 1, term[0].number)):
            size = abs(weight)
            placed = (value, row)
            if total is None and weight == 1:
                total = placed
            elif total is None:
                total = self._times(placed, weight)
            elif size == 1:
                operation = "vaddh_dv" if weight > 0 else "vsubh_dv"
                total = made(operation, [total, placed], is_wide=True)
            elif weight > 0 and size & (size - 1) == 0:
                numbers = (size.bit_length() - 1,)
                total = made("vaslh_acc", [total, placed], numbers, is_wide=True)
            elif _WEIGHT[0] <= weight <= _WEIGHT[1]:
                total = made("vmpyihb_acc", [total, placed], (weight,), is_wide=True)
            else:
                total = made("vaddh_dv", [total, self._times(placed, weight)], is_wide=True)
        assert total is not None  # noqa: S101 - a sum has at least one term
        return total

    def _times(self, placed: Placed, weight: int) -> Placed:
        if weight > 0 and weight & (weight - 1) == 0:
            return self.values.made("vaslh", [placed], (weight.bit_length() - 1,), is_wide=True)
        if not _WEIGHT[0] <= weight <= _WEIGHT[1]:
            raise NotAStencilError(f"it multiplies halfwords by {weight}")
        return self.values.made("vmpyihb", [placed], (weight,), is_wide=True)


def _weights(line: Mapping[Value, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((value.number, weight) for value, weight in line.items()))


def _fit(bounds: tuple[int, int], *lines: Mapping[Value, int]) -> bool:
    return all(bounds[0] <= weight <= bounds[1] for line in lines for weight in line.values())


def _are_bytes(*lines: Mapping[Value, int]) -> bool:
    """Whether the weights are bytes, all with a sign or all without."""
    return _fit(_WEIGHT, *lines) or _fit(_BYTE, *lines)


def _divided(line: Mapping[Value, int], divisor: int) -> dict[Value, int]:
    return {value: weight // divisor for value, weight in line.items()}


def _steps(lines: Mapping[int, Mapping[Value, int]]) -> list[_Multiplication]:
    """The multiplications that add up the weighted bytes of some rows: of neighbours the fewest, of
    what is left two at once."""
    steps: list[_Multiplication] = []
    alone: list[tuple[Placed, int]] = []
    if not _fit(_WEIGHT, *lines.values()):
        return _in_pairs([((v, row), w) for row, line in lines.items() for v, w in line.items()])
    for row, line in sorted(lines.items()):
        alone += [((one, row), weight) for one, weight in line.items() if not _is_tap(one)]
        for source in dict.fromkeys(_source(one) for one in line if _is_tap(one)):
            taps = {o.numbers[0]: o for o in line if _is_tap(o) and _source(o) == source}
            for operation, places, weights in fewest(_taps(line, source)):
                if len(places) == 1:
                    alone.append(((taps[places[0]], row), weights[0]))
                else:
                    steps.append((operation, [(taps[dx], row) for dx in places], weights))
    return steps + _in_pairs(alone)


def _in_pairs(terms: Sequence[tuple[Placed, int]]) -> list[_Multiplication]:
    """Weighted bytes, two at once wherever they are."""
    is_signed = max((weight for _, weight in terms), default=0) <= _WEIGHT[1]
    two, one = ("vmpabus", "vmpybus") if is_signed else ("vmpabuu", "vmpyub")
    steps: list[_Multiplication] = []
    for (first, weight), (second, other) in zip(terms[::2], terms[1::2], strict=False):
        steps.append((two, [first, second], (weight, other)))
    if len(terms) % 2:
        first, weight = terms[-1]
        steps.append((one, [first], (weight, weight)))
    return steps


def _is_tap(value: Value) -> bool:
    """Whether ``value`` is pixels that have neighbours: those of a channel lie further apart."""
    return value.operation == "tap" and value.numbers[1] == 1


def _source(tap: Value) -> tuple[str, int]:
    """The image of ``tap``, and in which of its rows that belong to one of the output."""
    return tap.image, tap.numbers[2]


def _taps(line: Mapping[Value, int], source: tuple[str, int]) -> tuple[tuple[int, int], ...]:
    """The offsets and weights of the pixels of ``source`` among the terms of ``line``."""
    taps = {o.numbers[0]: w for o, w in line.items() if _is_tap(o) and _source(o) == source}
    return tuple(sorted(taps.items()))


def _multiplications(line: Mapping[Value, int]) -> tuple[bool, int, int, list[tuple[int, int]]]:
    """How much a sum along a row takes. Of equals the same is the least, whichever sign it has."""
    if not _are_bytes(line):
        return True, 0, 0, []
    sources = sorted({_source(one) for one in line if _is_tap(one)})
    taps = [tap for source in sources for tap in _taps(line, source)]
    negative = sum(weight < 0 for weight in line.values())
    return False, len(_steps({0: line})), negative, taps


def _nearest_first(value: Value) -> tuple[int, int, int]:
    """Taps need shifts, except the one in the middle."""
    dx = value.numbers[0] if value.operation == "tap" else 0
    return value.height, abs(dx), dx


def _sides(expression: Pixel) -> tuple[list[int], list[int]]:
    places = places_of([expression])
    return sorted({place.dx for place in places}), sorted({place.dy for place in places})


def _is_median_of_nine(expression: Pixel) -> bool:
    columns, rows = _sides(expression)
    places = places_of([expression])
    is_square = len(columns) == len(rows) == 3 and len(places) == 9
    is_square &= len({place.source for place in places}) == 1
    is_square &= all(place.step == place.down == 1 for place in places)
    is_dense = is_square and rows[2] - rows[0] == 2
    return is_dense and rank(expression) == 5


@lru_cache(maxsize=1 << 12)
def _is_of_rows(expression: Pixel) -> bool:
    """Whether ``expression`` is made of sums of rows and numbers alone."""
    if expression.kind == "row":
        return True
    others = [part for part in expression.parts if part.kind != "constant"]
    return bool(others) and all(map(_is_of_rows, others))


def _shifted_last(expression: Pixel) -> Pixel:
    """``expression``; (a >> n) + b as (a + (b << n)) >> n, if 16 bits hold that."""
    if expression.kind == "sum" and [part.kind for part in expression.parts] == ["shift"]:
        (shifted,), (factor, offset) = expression.parts, expression.value
        inner: Pixel = shifted.parts[0] + (offset << shifted.value)
        if factor == 1 and (_within(inner, _SIGNED) or _within(inner, _UNSIGNED)):
            return inner >> int(shifted.value)
    return expression


def clamped_to(expression: Pixel, low: int, high: int) -> Pixel | None:
    """The value that a minimum with ``high``, of a maximum with ``low`` where it may be less,
    clamps."""
    inner, bounds = expression, {"min": high, "max": low}
    while inner.kind in bounds and len(inner.parts) == 2:
        found = {part.value for part in inner.parts if part.kind == "constant"}
        if found != {bounds[inner.kind]}:
            return None
        (inner,) = (part for part in inner.parts if part.kind != "constant")
    return inner


def _without_neighbours(weights: Sequence[int]) -> list[int] | None:
    """``weights`` as a polynomial, divided by 1 + z; ``None`` if that leaves a rest."""
    quotient, carried = [], 0
    for weight in weights[:-1]:
        carried = weight - carried
        quotient.append(carried)
    return quotient if carried == weights[-1] else None


def _cost(weights: Sequence[int]) -> float:
    """Operations to add up rows by their weights; multiplying takes a unit that is scarcer."""
    return sum(1.0 if abs(one) == 1 else 1.1 for one in weights if one) - 1


Step = tuple[str, tuple[int, ...], tuple[int, int]]
_Multiplication = tuple[str, list[Placed], tuple[int, int]]
"""A multiplication: its operation, what it multiplies, and by which weights."""


_MOST_TAPS = 9
"""Of a row for which every way to add them up is tried."""


@lru_cache(maxsize=1 << 14)
def fewest(taps: tuple[tuple[int, int], ...]) -> list[Step]:
    """The fewest multiplications that add up ``taps`` (offset and weight, by offset).

    ``vtmpy`` of the vectors at offsets a and a + 2 adds w0 times the tap at a, w1 times the one at
    a + 1, and the one at a + 2; ``vmpa`` two taps by their weights.
    """
    if not taps:
        return []
    (first, weight), rest = taps[0], dict(taps[1:])
    ways: list[tuple[Step, dict[int, int]]] = []
    is_long = len(rest) >= _MOST_TAPS
    # Three taps at once, if the third has one to give; of a long row only if it ends there.
    third = rest.get(first + 2, _WEIGHT[0])
    if third == 1 or (third > _WEIGHT[0] and not is_long):
        left = {**rest, first + 2: rest[first + 2] - 1}
        second = left.pop(first + 1, 0)
        step: Step = ("vtmpybus", (first, first + 2), (weight, second))
        ways.append((step, {place: w for place, w in left.items() if w}))
    for other in list(rest)[: 1 - bool(ways)] if is_long else rest:
        left = {place: w for place, w in rest.items() if place != other}
        ways.append((("vmpabus", (first, other), (weight, rest[other])), left))
    if not rest:
        return [("vmpybus", (first,), (weight, weight))]
    found = [[step, *fewest(tuple(sorted(left.items())))] for step, left in ways]
    return min(found, key=lambda steps: (len(steps), len({p for s in steps for p in s[1]})))
