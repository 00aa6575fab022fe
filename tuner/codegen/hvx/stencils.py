"""The output pixel of a program that is a stencil, as an expression (:mod:`~.pixel`).

Stages are written into one another, and small reductions out. A stencil is a program that makes one
image of u8 images of its shape, or of which each pixel has a share of several columns and rows;
edges continue as the pixels at them where pixels beyond are read: coordinates are clamped. Images
may be of interleaved channels, and inputs of one dimension tables that are looked up; the sum of a
whole row is a value as well. Each plane, or channel of the output's pixels, may be another
expression. So may each pixel of a cell of some columns and rows, as where coordinates are divided:
images are made larger, colours are of fewer pixels than brightness, or mosaics of colours. Integers
that wrap around are followed as long as only sums are made of them, and as far as their low bits
go.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import gcd
from typing import NamedTuple

from tuner.codegen.hvx.pixel import (
    NotAStencilError,
    Pixel,
    Place,
    absolute,
    clamped,
    constant,
    divided,
    entry,
    masked,
    maximum,
    minimum,
    placed,
    places_of,
    row_sum,
    scaled,
)
from tuner.program.expressions import (
    ARITHMETIC,
    COMPARISONS,
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    ProgramError,
    Select,
    Unary,
    Variable,
    ordered,
)
from tuner.program.loops import Buffer, Program, Stage, Update
from tuner.program.normal import normalized
from tuner.program.types import BOOL, I16, INDEX, U8, U16, Type

_MOST_STEPS = 100_000
"""Parts of expressions that are looked at or made: a second or so."""
_MOST_NESTED = 100
"""Stages written into one another."""
_KEPT = 256
_OUTPUTS = (U8, U16, I16)
_PRODUCT_BITS = 15
"""Of the multiplication that rounds (``vmpy(h, h):<<1:rnd:sat``)."""
_AXES = _ACROSS, _DOWN, _PLANE = range(3)
"""The axes of an output, innermost first."""
_WORD_BITS, _MOST_RANK, _WRAPPED = 32, 2, (16, 32)
"""Of filters: bits of sums, dimensions, and bits of what may wrap around."""
_MOST_APART = 4
"""Planes or channels that are each another expression."""
_MOST_EXPRESSIONS = 16
"""Of planes or channels, and the pixels of a cell."""

_Numbers = Sequence[int | None]
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class _Place:
    """A coordinate: multiples of axes, and of sizes by name, and an offset; then, if ``at_least``
    or ``at_most`` is one, not below or beyond that."""

    terms: tuple[tuple[int | str, int], ...] = ()
    offset: int = 0
    at_least: _Place | None = None
    at_most: _Place | None = None

    @property
    def is_clamped(self) -> bool:
        return self.at_least is not None or self.at_most is not None

    @property
    def axis(self) -> int | None:
        """The axis along which it moves, if that is one."""
        names = [name for name, _ in self.terms]
        return names[0] if len(names) == 1 and isinstance(names[0], int) else None

    @property
    def is_fixed(self) -> bool:
        """Whether it is the same for all pixels."""
        return all(isinstance(name, str) for name, _ in self.terms)

    def added(self, other: _Place, sign: int) -> _Place:
        """The sum with ``sign`` times another."""
        if self.is_clamped or other.is_clamped:
            raise NotAStencilError("it moves on from a clamped coordinate")
        terms = dict(self.terms)
        for name, factor in other.terms:
            terms[name] = terms.get(name, 0) + sign * factor
        kept = sorted(((name, factor) for name, factor in terms.items() if factor), key=str)
        return _Place(tuple(kept), self.offset + sign * other.offset)


class _Number(NamedTuple):
    """What has the same last ``bits`` as ``pixel``."""

    pixel: Pixel
    bits: int


class _Condition(NamedTuple):
    """A comparison of two numbers."""

    operator: str
    left: Pixel
    right: Pixel


class _Inside(NamedTuple):
    """A condition on coordinates: that those of the output along the axes lie in the ranges."""

    ranges: Mapping[int, range]

    def both(self, other: _Inside) -> _Inside:
        """Where both hold."""
        made = dict(self.ranges)
        for axis, own in other.ranges.items():
            one = made.get(axis, own)
            made[axis] = range(max(one.start, own.start), min(one.stop, own.stop))
        return _Inside(made)


_Value = _Place | _Number | _Condition | _Inside
_Scope = Mapping[Variable, _Value]
"""The indices of loops."""


class Cell(NamedTuple):
    """Columns and rows of the output that are each another expression."""

    across: int = 1
    down: int = 1

    @property
    def pixels(self) -> int:
        """How many there are."""
        return self.across * self.down


_ALONE = Cell()


class Pixels(NamedTuple):
    """The output pixel, or that of ``each`` plane or channel; channels lie side by side if they
    ``are_channels``. Of a ``cell`` of several pixels, each plane has its rows, and each row its
    columns."""

    each: tuple[Pixel, ...]
    are_channels: bool = False
    cell: Cell = _ALONE


class _DividedError(Exception):
    """A coordinate along an axis is divided, for which cells have to be some times as large."""

    def __init__(self, axis: int, times: int) -> None:
        super().__init__(axis, times)
        self.axis, self.times = axis, times


def pixels_of(program: Program, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Pixels:
    """The output pixels of ``program``; ``NotAStencilError`` says why it has none.

    Where ``shapes`` of inputs and outputs are given it holds for those alone: rows may be as long
    as they are, planes or channels each by itself, channels the last dimension, and what has no
    pixel as it is written may have one in its normal form.
    """
    found = _pixels_of(program, tuple((shapes or {}).items()))
    if isinstance(found, NotAStencilError):
        raise found.with_traceback(None)
    return found


@lru_cache(maxsize=_KEPT)
def _pixels_of(program: Program, given: Shapes) -> Pixels | NotAStencilError:
    """Errors are kept, too: they may take as long to find."""
    shapes, cell = dict(given), Cell()
    while True:
        try:
            return _pixels_of_cell(program, shapes, cell)
        except NotAStencilError as error:
            return error
        except _DividedError as error:
            sides = list(cell)
            sides[error.axis] *= error.times
            cell = Cell(*sides)
            if cell.pixels > _MOST_EXPRESSIONS:
                return NotAStencilError(f"{cell.pixels} of its pixels are each another expression")


def _pixels_of_cell(program: Program, shapes: Mapping[str, tuple[int, ...]], cell: Cell) -> Pixels:
    made = shapes.get(program.outputs[0], ())
    planes, channels = (made[0], made[-1]) if len(made) == len(_AXES) else (0, 0)
    columns, rows = map(range, cell)

    def each(read: Program, planes: _Numbers = (None,), channels: _Numbers = (None,)) -> Pixels:
        if len(planes) * len(channels) * cell.pixels > _MOST_EXPRESSIONS:
            raise NotAStencilError(f"more than {_MOST_EXPRESSIONS} of its pixels are each another")
        found = (
            _Reading(read, shapes, cell).pixel(plane, channel, (column, row))
            for plane, row, column, channel in product(planes, rows, columns, channels)
        )
        return Pixels(tuple(found), channels != (None,), cell)

    if 0 < channels <= _MOST_APART:
        with suppress(NotAStencilError):
            return each(program, channels=range(channels))
    try:
        return each(program)
    except NotAStencilError as error:
        found = error  # told is what stands in the way of what was written
    with suppress(NotAStencilError, ProgramError):
        if shapes:
            return each(normalized(program, program.sizes_at(shapes)))
    with suppress(NotAStencilError):
        if 0 < planes <= _MOST_APART:
            return each(program, planes=range(planes))
    raise found


class _Reading:
    """A program as it is read. A subclass reads other elements, and other sums of them."""

    _most_short = 33
    """Steps of a reduction that are written out, rather than taken for those of a row."""
    _most_steps = _MOST_STEPS

    def __init__(
        self, program: Program, shapes: Mapping[str, tuple[int, ...]], cell: Cell = _ALONE
    ) -> None:
        self._program, self._shapes, self._cell = program, shapes, cell
        self._sizes = program.sizes_at(shapes) if shapes else {}
        self._inputs = {one.name: one for one in program.inputs}
        self._steps = self._nested = 0
        self._known: dict[tuple[str, tuple[_Value, ...]], _Number] = {}

    def pixel(
        self, plane: int | None = None, channel: int | None = None, place: tuple[int, int] = (0, 0)
    ) -> Pixel:
        """The output's value where nothing is near an edge, at a ``place`` of each cell, of one
        ``plane`` or ``channel``, or of each plane."""
        program = self._program
        if not program.inputs or len(program.outputs) != 1:
            raise NotAStencilError("it is not one image made of others")
        if program.scalars:
            raise NotAStencilError(f"it depends on {program.scalars[0].name}")
        (name,) = program.outputs
        stage = program.stage_of(name)
        kind, rank = stage.types[stage.arrays.index(name)], len(stage.axes)
        self._require(kind, rank)
        own = zip(_AXES[:rank], (*self._cell, 1), (*place, 0), strict=False)
        places = [_Place(((axis, side),), at) for axis, side, at in own]
        if plane is not None:
            places[_PLANE] = _Place((), plane)
        if channel is not None:
            places = [_Place((), channel), *places[:_PLANE]]
        found = self._call(name, tuple(places[::-1]))
        return self._stored(found, kind)

    def _require(self, kind: Type, rank: int) -> None:
        """That the output's ``kind`` and ``rank``, and those of inputs, are some that it reads."""
        if self._program.tables:
            raise NotAStencilError("it is not one image made of others")
        fits = all(one.type == U8 and 1 <= len(one.axes) <= 3 for one in self._program.inputs)
        if kind not in _OUTPUTS or rank not in (2, 3) or not fits:
            raise NotAStencilError("its inputs are not of u8, or its output not of 8 or 16 bits")

    def _stored(self, found: _Number, kind: Type) -> Pixel:
        """What the output has; of bytes the generator stores the low bits."""
        return found.pixel if kind == U8 else self._plain(found, kind)

    def _call(self, array: str, places: tuple[_Value, ...]) -> _Number:
        """The element of a stage's array at ``places``, outermost first."""
        key = array, places
        if key not in self._known:
            self._nested += 1
            if self._nested > _MOST_NESTED:
                raise NotAStencilError("its stages nest too deep")
            self._known[key] = self._element(self._program.stage_of(array), array, places)
            self._nested -= 1
        return self._known[key]

    def _element(self, stage: Stage, array: str, places: tuple[_Value, ...]) -> _Number:
        scope = dict(zip(stage.places, places, strict=True))
        try:
            value = self._number(stage, stage.values[stage.arrays.index(array)], scope)
        except NotAStencilError:
            edge = next((one for one in _EDGES if stage.name.startswith(one)), None)
            if edge is None:
                raise
            raise NotAStencilError(
                f"{edge} continues an input beyond its edges; of those, it knows repeat_edge"
            ) from None
        for update in stage.updates:
            value = self._updated(stage, update, value, scope)
        return value

    def _updated(self, stage: Stage, update: Update, value: _Number, scope: _Scope) -> _Number:
        """``value`` after all steps of a reduction."""
        if len(stage.arrays) > 1:
            raise NotAStencilError(f"its stage {stage.name} reduces several values")
        reduced = [loop for loop in update.loops if loop.bounds]
        if update.condition is not None or update.places != stage.places:
            raise NotAStencilError(f"an update of its stage {stage.name} is not of whole rows")
        domain = []
        for loop in reduced:
            ends = [self._of(stage, one, {}) for one in loop.bounds]
            if any(map(self._is_open, ends)):
                raise NotAStencilError(
                    f"its stage {stage.name} adds up rows or the like, for which the contract has "
                    "to be static"
                )
            first, end = map(self._whole, ends)
            domain.append([(loop.index, at) for at in range(first, end)])
        key = stage.name, tuple(scope[axis] for axis in stage.places)

        def after(own: _Number, point: _Scope) -> _Number:
            self._known[key] = own  # what the definition reads of itself
            made = self._number(stage, update.values[0], {**scope, **point})
            self._known.pop(key)
            return made

        is_row = len(domain) == 1 and len(domain[0]) > self._most_short and domain[0][0][1] == 0
        if is_row and self._cell == _ALONE:
            along = {reduced[0].index: _Place(((_ACROSS, 1),))}
            bits = value.bits
            part, other = (after(_Number(constant(own), bits), along).pixel for own in (0, 1))
            if other - part != constant(1):
                raise NotAStencilError("it reduces a row, and not to its sum")
            return _Number(value.pixel + row_sum(part, len(domain[0])), bits)
        for point in product(*domain):
            value = after(value, {name: _Place((), at) for name, at in point})
        return value

    def _number(self, stage: Stage, root: Expr, scope: _Scope) -> _Number:
        return self._as_number(self._of(stage, root, scope), root.type)

    def _of(self, stage: Stage, root: Expr, scope: _Scope) -> _Value:
        made: dict[Expr, _Value] = {}
        for node in ordered([root]):
            self._steps += 1
            parts = [made[part] for part in node.parts]
            made[node] = value = self._node(stage, node, parts, scope)
            self._steps += len(value.pixel.parts) if isinstance(value, _Number) else 0
            if self._steps > self._most_steps:
                raise NotAStencilError("it is too large when its stages are written into another")
        return made[root]

    def _node(self, stage: Stage, node: Expr, parts: list[_Value], scope: _Scope) -> _Value:
        if isinstance(node, Constant):
            return _Place((), node.value)
        if isinstance(node, Variable):
            return self._variable(node, scope)
        if isinstance(node, Load):
            return self._load(node, parts)
        if isinstance(node, Cast):
            return self._cast(stage, node, parts[0])
        if isinstance(node, Select):
            made = self._chosen(node, *parts)
            if made is None:
                raise NotAStencilError(f"its stage {stage.name} uses select()")
            return made
        if isinstance(node, Unary):
            return self._unary(stage, node, parts[0])
        assert isinstance(node, Binary)  # noqa: S101 - there are no other nodes
        a, b = parts
        if isinstance(a, _Place) and isinstance(b, _Place):
            made = self._coordinate(node.operator, a, b)
            if not made.terms and node.type != BOOL and not node.type.holds(made.offset):
                raise NotAStencilError(f"a number of {node.type} comes to {made.offset}")
            return made
        return self._binary(stage, node, a, b)

    def _variable(self, node: Variable, scope: _Scope) -> _Value:
        if node in scope:
            return scope[node]
        if node.name in self._sizes:
            return _Place((), self._sizes[node.name])
        return _Place(((node.name, 1),))

    def _load(self, node: Load, places: Sequence[_Value]) -> _Value:
        image = self._inputs.get(node.source)
        if image is None:
            return self._call(node.source, tuple(places))
        return _Number(self._element_of(image, places), image.type.bits)

    def _element_of(self, image: Buffer, places: Sequence[_Value]) -> Pixel:
        if len(places) == 1:
            index = self._plain(self._as_number(places[0], INDEX), INDEX)
            return entry(image.name, index)
        known_as = "" if len(self._inputs) == 1 else image.name
        return self._pixel(image, [_coordinate(one) for one in places], known_as)

    def _pixel(self, image: Buffer, places: Sequence[_Place], known_as: str) -> Pixel:
        """The pixel of ``image``, which expressions know as ``known_as``."""
        channels, planes, axes = 1, places[:-2], image.axes[-2:]
        if len(places) == len(_AXES) and places[-1].is_fixed and image.name in self._shapes:
            *_, channels = self._shapes[image.name]
            planes, axes = (), image.axes[:2]
            places = (places[0], _interleaved(places[1], channels, self._whole(places[2])))
        steps, kinds = [], set()
        down, across = places[-2:]
        for axis, place, ends in zip((_DOWN, _ACROSS), (down, across), axes, strict=True):
            if place.axis != axis:
                raise NotAStencilError("it reads other pixels than those around the output's")
            ((_, step),) = place.terms
            steps.append(step)
            held = self._is_held(place, ends)
            is_inside = 0 <= place.offset < step
            if step < 1:
                raise NotAStencilError("it reads other pixels than those around the output's")
            needed = place.offset < 0, place.offset >= step
            if place.is_clamped and not (held and all(map(operator.le, needed, held))):
                raise NotAStencilError(
                    "its edges do not continue as the pixels at them (repeat_edge)"
                )
            if not is_inside:
                kinds.add(place.is_clamped)
        if len(kinds) > 1:
            raise NotAStencilError("its edges are repeated along rows or columns only")
        plane = _plane(*planes) if planes else None
        rows, step = steps
        own = across.offset, down.offset, known_as, step, plane, False in kinds, rows, channels
        is_clamped = max(step, rows) > 1 and (across.is_clamped or down.is_clamped)
        made = Place(*own)
        return placed(made._replace(is_clamped=is_clamped and made.has_own))

    def _is_held(self, place: _Place, ends: Sequence[Expr]) -> tuple[bool, bool] | None:
        """Whether ``place`` is held at either end of an axis; ``None`` if it is elsewhere."""
        least, last = place.at_least, place.at_most
        if not ends:
            return None
        first, end = (_coordinate(self._of(self._program.stages[0], one, {})) for one in ends)
        if least not in (None, first) or last not in (None, end.added(_Place((), 1), -1)):
            return None
        return least is not None, last is not None

    def _cast(self, stage: Stage, node: Cast, part: _Value) -> _Value:
        if isinstance(part, _Condition):
            raise NotAStencilError(f"its stage {stage.name} uses {part.operator}")
        if isinstance(part, _Place):
            if part.terms and node.type != INDEX:
                raise NotAStencilError("it computes with coordinates")
            return part
        if isinstance(part, _Inside):
            raise NotAStencilError("it computes with coordinates")
        given, wanted = node.operand.type, node.type
        if node.saturates:
            own = self._plain(part, given)
            return _Number(clamped(own, wanted.low, wanted.high), wanted.bits)
        # Bits that are cut off may be wrong already; those that are added may not.
        if wanted.bits > part.bits or wanted.bits > given.bits:
            return _Number(self._plain(part, given), wanted.bits)
        return _Number(part.pixel, wanted.bits)

    def _chosen(self, node: Select, condition: _Value, one: _Value, other: _Value) -> _Value | None:
        """A choice of the lesser or the greater of two, or by a number."""
        if isinstance(condition, _Place) and not condition.terms:
            return one if condition.offset else other
        if not isinstance(condition, _Condition) or condition.operator[0] not in "<>":
            return None
        kind = node.type
        chosen, otherwise = (self._plain(self._as_number(v, kind), kind) for v in (one, other))
        sides = condition.left, condition.right
        if condition.operator[0] == ">":
            sides = sides[::-1]
        if sides == (chosen, otherwise):
            return _Number(minimum(chosen, otherwise), kind.bits)
        if sides == (otherwise, chosen):
            return _Number(maximum(chosen, otherwise), kind.bits)
        return None

    def _unary(self, stage: Stage, node: Unary, part: _Value) -> _Value:
        kind = node.operand.type
        if node.operator == "abs":
            own = self._plain(self._as_number(part, kind), kind)
            return _Number(absolute(own), kind.bits)
        if isinstance(part, _Place) and not part.terms and kind == BOOL:
            return _Place((), 1 - part.offset)
        if node.operator == "~" and kind != BOOL:
            number = self._as_number(part, kind)
            most = -1 if kind.is_signed else kind.high
            return _Number(most - number.pixel, number.bits)
        raise NotAStencilError(f"its stage {stage.name} uses {node.operator}")

    def _coordinate(self, by: str, a: _Place, b: _Place) -> _Place:
        """Coordinates, and numbers, which are coordinates that nothing moves."""
        if by in ("+", "-"):
            return a.added(b, 1 if by == "+" else -1)
        if not a.terms and not b.terms and by in _OF_NUMBERS:
            return _Place((), _OF_NUMBERS[by](a.offset, b.offset))
        if (parted := _parted(by, a, b)) is not None:
            return parted
        if by == "*" and not (a.terms and b.terms) and not (a.is_clamped or b.is_clamped):
            moving, factor = (a, b.offset) if a.terms else (b, a.offset)
            terms = tuple((name, factor * own) for name, own in moving.terms if factor)
            return _Place(terms, factor * moving.offset)
        if by in ("min", "max"):
            # Of what is not a number beside a size, as of a plane, the shapes tell more later.
            for one, bound in ((a, b), (b, a)):
                if not bound.is_fixed or (one.is_fixed and one.terms):
                    continue
                if by == "min" and one.at_most in (None, bound):
                    return replace(one, at_most=bound)
                if by == "max" and one.at_least in (None, bound):
                    return replace(one, at_least=bound)
        if by in COMPARISONS:
            raise NotAStencilError(
                "it chooses by a coordinate; of at most four planes or channels, it may under the "
                "contract static"
            )
        raise NotAStencilError("a coordinate is not that of a pixel and an offset")

    def _binary(self, stage: Stage, node: Binary, a: _Value, b: _Value) -> _Value:
        by, kind = node.operator, node.left.type
        if by in COMPARISONS and kind != BOOL:
            sides = (self._plain(self._as_number(one, kind), kind) for one in (a, b))
            return _Condition(by, *sides)
        if by in ("&", "|"):
            own = (self._plain(self._as_number(one, kind), kind) for one in (a, b))
            if (value := _of_bits(by, *own)) is not None:
                return _Number(value, kind.bits)
        if by not in (*ARITHMETIC, "<<", ">>") or by == "%":
            raise NotAStencilError(f"its stage {stage.name} uses {by}")
        left, right = self._as_number(a, kind), self._as_number(b, node.right.type)
        bits = min(left.bits, right.bits)
        if by == "+":
            return _Number(left.pixel + right.pixel, bits)
        if by == "-":
            return _Number(left.pixel - right.pixel, bits)
        if by == "*":
            by_right = right.pixel.kind == "constant"
            one, other = (left, right) if by_right else (right, left)
            return _Number(self._times(one.pixel, other.pixel), bits)
        if by == "<<":
            amount = _known(right.pixel)
            return self._shifted(left, -amount, kind)
        if by == ">>":
            return self._shifted(left, _known(right.pixel), kind)
        if by == "//" and _known(right.pixel).bit_count() == 1:
            return self._shifted(left, _known(right.pixel).bit_length() - 1, kind)
        end = constant(kind.high if by == "min" else kind.low)
        if by in ("min", "max") and end in (left.pixel, right.pixel):
            return left if right.pixel == end else right  # its type's own end
        first, second = self._plain(left, kind), self._plain(right, kind)
        if by == "//":
            return _Number(divided(first, _known(second)), kind.bits)
        return _Number(_EXTREMES[by](first, second), kind.bits)

    def _times(self, one: Pixel, other: Pixel) -> Pixel:
        return one * _known(other)

    def _shifted(self, value: _Number, bits: int, kind: Type) -> _Number:
        """``value`` shifted right; of one that wrapped around, the bits that are still right."""
        if bits <= 0:
            return _Number(value.pixel * _moved(1, -bits), value.bits)
        try:
            self._plain(value, kind)
        except NotAStencilError:
            if bits >= value.bits:
                raise
            return _Number(value.pixel >> bits, value.bits - bits)
        product_ = _rounded_product(value.pixel) if bits == _PRODUCT_BITS else None
        return _Number(product_ or value.pixel >> bits, kind.bits)

    def _plain(self, value: _Number, kind: Type) -> Pixel:
        """``value``, which a variable of the type ``kind`` holds as it is."""
        own = value.pixel
        if value.bits < kind.bits or not _holds(kind, own):
            raise NotAStencilError(f"a value of {kind} may reach from {own.low} to {own.high}")
        return own

    def _as_number(self, value: _Value, kind: Type) -> _Number:
        if isinstance(value, _Number):
            return value
        if isinstance(value, _Condition):
            raise NotAStencilError("it computes with conditions")
        return _Number(constant(self._whole(value)), kind.bits)

    def _is_open(self, value: _Value) -> bool:
        """Whether it depends on a size that is not known."""
        return isinstance(value, _Place) and bool(value.terms) and value.is_fixed

    def _whole(self, value: _Value) -> int:
        if not isinstance(value, _Place) or value.terms:
            raise NotAStencilError("it computes with coordinates")
        return value.offset


class _Filter(_Reading):
    """A filter as it is read: samples of 8 and 16 bits, and sums of them in words, with taps that
    are numbers or elements of inputs."""

    _most_short = _MOST_STEPS

    def _require(self, kind: Type, rank: int) -> None:
        fits = all(one.type.bits <= I16.bits for one in self._program.inputs)
        if kind.bits > _WORD_BITS or rank > _MOST_RANK or not fits:
            raise NotAStencilError("its samples have more than 16 bits, or it more than rows")

    def _stored(self, found: _Number, kind: Type) -> Pixel:
        return found.pixel if found.bits >= kind.bits else self._plain(found, kind)

    def _plain(self, value: _Number, kind: Type) -> Pixel:
        if kind.bits in _WRAPPED and value.bits >= kind.bits and not _holds(kind, value.pixel):
            return Pixel("wrapped", str(kind), (value.pixel,), kind.low, kind.high)
        return super()._plain(value, kind)

    def _shifted(self, value: _Number, bits: int, kind: Type) -> _Number:
        if bits > 0:
            with suppress(NotAStencilError):
                return _Number(self._plain(value, kind) >> bits, kind.bits)
        return super()._shifted(value, bits, kind)

    def _load(self, node: Load, places: Sequence[_Value]) -> _Value:
        for table in self._program.tables:
            if table.name == node.source:
                at = 0
                for extent, place in zip(table.extents, map(self._whole, places), strict=True):
                    if not 0 <= place < extent:
                        raise NotAStencilError(f"it reads beyond {table.name}")
                    at = at * extent + place
                return _Number(constant(table.elements[at]), table.type.bits)
        return super()._load(node, places)

    def _element_of(self, image: Buffer, places: Sequence[_Value]) -> Pixel:
        found = [_coordinate(one) for one in places]
        if all(not one.terms and not one.is_clamped for one in found):
            at = tuple(one.offset for one in found)
            return Pixel("tap", (image.name, at), (), image.low, image.high)
        if len(found) > 1:
            place = self._pixel(image, found, image.name).value
        else:
            (own,) = found
            if own.axis != _ACROSS or own.terms[0][1] < 1 or own.is_clamped:
                raise NotAStencilError("it reads other samples than those after the output's")
            place = Place(own.offset, 0, image.name, own.terms[0][1], within=True)
        return Pixel("pixel", place, (), image.low, image.high)

    def _times(self, one: Pixel, other: Pixel) -> Pixel:
        if "constant" in (one.kind, other.kind):
            return super()._times(*((one, other) if other.kind == "constant" else (other, one)))
        if one.kind == "tap":
            one, other = other, one
        if one.kind == "sum" and other.kind == "tap":
            *weights, offset = one.value
            made: Pixel = other * offset
            for part, by in zip(one.parts, weights, strict=True):
                made += self._times(part, other) * by
            return made
        if other.kind != "tap" or one.kind in ("tap", "times"):
            raise NotAStencilError("it multiplies samples by one another")
        ends = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
        return Pixel("times", None, (one, other), min(ends), max(ends))


class Sample(NamedTuple):
    """Pixel ``step * x + dx`` of row ``down * y + dy`` of the input ``image``, for the output's
    pixel (x, y), of the same channel. Beyond the image there is ``beyond``: the pixels at its
    ``"edges"`` again, a number, or an element of an input; ``None`` if none is read there."""

    image: str
    dy: int
    dx: int
    down: int
    step: int
    beyond: str | int | tuple[str, tuple[int, ...]] | None = None


class _Pixels(_Filter):
    """An image as it is read whose pixels have any number of channels, the last dimension: samples
    of the output's own channel, and elements of inputs for each channel or for all (``None`` is
    the channel among their indices)."""

    _own = _Place(((_ACROSS, 1),))

    def _require(self, kind: Type, rank: int) -> None:
        if rank != len(_AXES):
            raise NotAStencilError("")
        if kind != U8:
            raise NotAStencilError("its output is not of u8")
        (name,) = self._program.outputs
        self._extents = dict(zip(reversed(_AXES), self._shapes[name], strict=True))

    def _node(self, stage: Stage, node: Expr, parts: list[_Value], scope: _Scope) -> _Value:
        if isinstance(node, Binary):
            a, b = parts
            if isinstance(a, _Inside) and isinstance(b, _Inside) and node.operator == "&":
                return a.both(b)
            if node.operator in COMPARISONS and isinstance(a, _Place) and isinstance(b, _Place):
                axes = {one.axis for one in (a, b) if not one.is_fixed}
                if len(axes) == 1 and None not in axes:
                    return self._inside(node.operator, a, b, *axes)
        return super()._node(stage, node, parts, scope)

    def _at(self, place: _Place, number: int) -> int:
        """The coordinate for a ``number`` along its axis."""
        at = place.offset + sum(by * number for _, by in place.terms)
        least, most = place.at_least, place.at_most
        at = at if most is None else min(at, self._whole(most))
        return at if least is None else max(at, self._whole(least))

    def _inside(self, by: str, a: _Place, b: _Place, axis: int | None) -> _Inside:
        assert axis is not None  # noqa: S101 - one of both moves
        holds = _OF_NUMBERS[by]
        numbers = range(self._extents[axis])
        found = [n for n in numbers if holds(self._at(a, n), self._at(b, n))] or [0, -1]
        made = range(found[0], found[-1] + 1)
        if len(found) != len(made) and found[-1] >= 0:
            raise NotAStencilError("it chooses by a coordinate")
        return _Inside({axis: made})

    def _chosen(self, node: Select, condition: _Value, one: _Value, other: _Value) -> _Value | None:
        if not isinstance(condition, _Inside):
            return super()._chosen(node, condition, one, other)
        wholes = {axis: range(size) for axis, size in self._extents.items()}
        found = {axis: own for axis, own in condition.ranges.items() if own != wholes[axis]}
        if not found:
            return one
        if not isinstance(one, _Number) or one.pixel.kind != "pixel":
            raise NotAStencilError("it chooses by a coordinate")
        sample, beyond = one.pixel.value, self._as_number(other, node.type).pixel
        rows, columns, _ = self._shapes[sample.image]
        inside = {}
        for axis, first, by, size in (
            (_PLANE, sample.dy, sample.down, rows),
            (_DOWN, sample.dx, sample.step, columns),
        ):
            own = [n for n in wholes[axis] if 0 <= first + by * n < size] or [0, -1]
            if (made := range(own[0], own[-1] + 1)) != wholes[axis]:
                inside[axis] = made
        is_one = beyond.kind == "constant" or (beyond.kind == "tap" and None not in beyond.value[1])
        if found != inside or not is_one or not U8.low <= beyond.low <= beyond.high <= U8.high:
            raise NotAStencilError("it chooses by a coordinate, not by the edges of an image")
        value = sample._replace(beyond=beyond.value)
        return _Number(Pixel("pixel", value, (), U8.low, U8.high), U8.bits)

    def _element_of(self, image: Buffer, places: Sequence[_Value]) -> Pixel:
        found = [self._loosened(_coordinate(one)) for one in places]
        shape = self._shapes[image.name]
        if [one.axis for one in found] == [*reversed(_AXES)]:
            if image.type != U8 or found[-1] != self._own or shape[-1] != self._extents[_ACROSS]:
                raise NotAStencilError("it reads other channels than the output's, or not of u8")
            return Pixel("pixel", self._sample(image.name, shape, found), (), U8.low, U8.high)
        at = tuple(None if one == self._own else self._whole(one) for one in found)
        ends = (self._extents[_ACROSS] - 1 if n is None else n for n in at)
        if at.count(None) > 1 or any(
            not 0 <= n < size for n, size in zip(ends, shape, strict=True)
        ):
            raise NotAStencilError("an element of an input is none of each channel, or beyond it")
        return Pixel("tap", (image.name, at), (), image.low, image.high)

    def _loosened(self, place: _Place) -> _Place:
        """Without bounds that it never reaches."""
        extent = 1 if place.axis is None else self._extents[place.axis]
        free = replace(place, at_least=None, at_most=None)
        if place.is_clamped and (place.is_fixed or place.axis is not None):
            if all(self._at(place, n) == self._at(free, n) for n in (0, extent - 1)):
                return free
            if place.is_fixed:
                return _Place((), self._at(place, 0))
        return place

    def _sample(self, name: str, shape: tuple[int, ...], places: Sequence[_Place]) -> Sample:
        shifts, beyond = [], None
        for place, size in zip(places[:-1], shape[:-1], strict=True):
            axis = place.axis
            assert axis is not None  # noqa: S101 - it was looked at
            ((_, step),) = place.terms
            if step < 1:
                raise NotAStencilError("it goes through an image backwards")
            for at in (0, self._extents[axis] - 1):
                wanted = place.offset + step * at
                if self._at(place, at) != min(max(wanted, 0), size - 1):
                    raise NotAStencilError("its edges do not continue as the pixels at them")
                if not 0 <= wanted < size:
                    beyond = "edges"
            shifts.append((place.offset, step))
        (dy, down), (dx, step) = shifts
        return Sample(name, dy, dx, down, step, beyond)

    def _times(self, one: Pixel, other: Pixel) -> Pixel:
        if one.kind == "tap":
            one, other = other, one
        samples = one.kind != "sum" or all(part.kind == "pixel" for part in one.parts)
        if samples or other.kind != "tap" or one.kind == "constant":
            return super()._times(one, other)
        ends = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
        return Pixel("times", None, (one, other), min(ends), max(ends))

    def _shifted(self, value: _Number, bits: int, kind: Type) -> _Number:
        if bits == _PRODUCT_BITS and value.bits >= kind.bits and _holds(kind, value.pixel):
            found = _rounded_product(value.pixel)
            if found is not None:
                return _Number(found, kind.bits)
        return super()._shifted(value, bits, kind)


class _Blocks(_Filter):
    """A transform of square blocks as it is read: each element of a block by itself."""

    _most_steps = 3 * _MOST_STEPS
    """Of the first element: what is none soon turns out so."""

    def block(self, side: int) -> Iterator[tuple[int, int, Pixel]]:
        """Row, column and value of each element of blocks with ``side`` rows. An image is blocks
        side by side; an output of four dimensions has rows of them, then their own rows."""
        name, *others = self._program.outputs
        stage = self._program.stage_of(name)
        kind, rank = stage.types[0], len(stage.axes)
        if rank not in (2, 4) or self._program.scalars or others or len(stage.arrays) > 1:
            raise NotAStencilError("it makes no image of blocks, nor rows of them")
        self._require(kind, min(rank, _MOST_RANK))
        for row, column in product(range(side), repeat=2):
            if rank == 2:
                places = [_Place(((_DOWN, side),), row), _Place(((_ACROSS, side),), column)]
            else:
                places = [_Place(((axis, 1),)) for axis in (_DOWN, _ACROSS)]
                places += [_Place((), row), _Place((), column)]
            yield row, column, self._stored(self._call(name, tuple(places)), kind)
            self._most_steps = 6 * _MOST_STEPS


@lru_cache(maxsize=_KEPT)
def block_of(
    program: Program, given: Shapes, side: int
) -> tuple[tuple[int, int, Pixel], ...] | NotAStencilError:
    """The elements of an output's blocks, as of :func:`filter_of`."""
    try:
        found = []
        for element in _Blocks(program, dict(given)).block(side):
            if not all(one.has_own for one in places_of(element[2:])):
                return NotAStencilError("its sums reach beyond a block")
            found.append(element)
        return tuple(found)
    except NotAStencilError as error:
        return error
    except _DividedError:
        return NotAStencilError(f"its blocks do not have {side} rows and columns")


@lru_cache(maxsize=_KEPT)
def filter_of(program: Program, given: Shapes) -> Pixel | NotAStencilError:
    """The output's element of a ``program`` that is a filter, or what says why it is none. The
    shapes are ``given`` under the contract static."""
    try:
        return _Filter(program, dict(given)).pixel()
    except NotAStencilError as error:
        return error
    except _DividedError:
        return NotAStencilError("it divides coordinates")


@lru_cache(maxsize=_KEPT)
def pixel_of(program: Program, given: Shapes) -> Pixel | NotAStencilError:
    """The output's element of a ``program`` of pixels with any number of channels, of inputs and
    outputs that have the shapes ``given``, or what says why it is none: nothing if its output is
    no such image."""
    try:
        return _Pixels(program, dict(given)).pixel()
    except NotAStencilError as error:
        return error
    except _DividedError:
        return NotAStencilError("it divides coordinates")


def _holds(kind: Type, value: Pixel) -> bool:
    return kind.low <= value.low <= value.high <= kind.high


def _parted(by: str, place: _Place, other: _Place) -> _Place | None:
    """The quotient or the rest of a coordinate by a number; ``None`` if it is neither."""
    number = 0 if other.terms or other.is_clamped else other.offset
    ways = {"//": (number, True), ">>": (_moved(1, number), True), "%": (number, False)}
    if number & number + 1 == 0:
        ways["&"] = number + 1, False
    divisor, is_quotient = ways.get(by, (0, False))
    if divisor < 1 or place.is_clamped or any(isinstance(name, str) for name, _ in place.terms):
        return None
    for name, factor in place.terms:
        if factor % divisor:
            if name not in (_ACROSS, _DOWN):
                raise NotAStencilError("it divides the number of a plane")
            raise _DividedError(int(name), divisor // gcd(factor, divisor))
    if not is_quotient:
        return _Place((), place.offset % divisor)
    terms = tuple((name, factor // divisor) for name, factor in place.terms)
    return _Place(terms, place.offset // divisor)


def _of_bits(by: str, one: Pixel, other: Pixel) -> Pixel | None:
    """Bits that a byte has, or bits of two beside each other; ``None`` if it is neither."""
    if min(one.low, other.low) < 0:
        return None
    if by == "&":
        value, mask = (one, other) if other.kind == "constant" else (other, one)
        is_byte = mask.kind == "constant" and U8.holds(mask.high)
        return masked(value, mask.high) if is_byte else None
    for above, below in ((one, other), (other, one)):
        factors = {"sum": above.value, "bits": (above.value,)}.get(above.kind, (1,))
        # Of bits, a mask has the lowest one that any of them may have.
        step = gcd(*factors) & -gcd(*factors)
        if step and step % (1 << below.high.bit_length()) == 0:
            return above + below
    return None


def _moved(number: int, places: int) -> int:
    """``number`` shifted left, as far as any type reaches."""
    return number << min(places, 64) if places >= 0 else number >> min(-places, 64)


_EDGES = ("mirror_interior", "mirror_image", "repeat_image", "constant_exterior")
"""The Funcs of Halide's BoundaryConditions are called so, whatever their users wrote."""
_OF_NUMBERS: Mapping[str, Callable[[int, int], int]] = {
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else 0,
    "<<": _moved,
    ">>": lambda a, b: _moved(a, -b),
    "min": min,
    "max": max,
    "&": operator.and_,
    "|": operator.or_,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EXTREMES: Mapping[str, Callable[[Pixel, Pixel], Pixel]] = {
    "min": minimum,
    "max": maximum,
    "absd": lambda a, b: absolute(a - b),
}


def _coordinate(value: _Value) -> _Place:
    if not isinstance(value, _Place):
        raise NotAStencilError("a coordinate depends on a pixel")
    return value


def _interleaved(across: _Place, channels: int, channel: int) -> _Place:
    """The place of a pixel's channel in a row where the ``channels`` lie side by side."""
    if across.axis != _ACROSS or across.is_clamped or not 0 <= channel < channels:
        raise NotAStencilError("it reads other pixels than those around the output's")
    ((_, step),) = across.terms
    if not 0 <= across.offset < step:
        raise NotAStencilError("it reads other pixels than those around the output's")
    return _Place(((_ACROSS, step * channels),), across.offset * channels + channel)


def _plane(place: _Place) -> int | None:
    """The number of a plane; ``None`` if it is the output's own."""
    if not place.terms and place.offset >= 0:
        return place.offset
    if place.terms == ((_PLANE, 1),) and not place.offset:
        return None
    raise NotAStencilError("it reads other planes than the output's")


def _known(value: Pixel) -> int:
    if value.kind != "constant":
        raise NotAStencilError("it multiplies or divides pixels by one another, or shifts by them")
    return int(value.value)


def _rounded_product(total: Pixel) -> Pixel | None:
    """``total >> 15`` as one multiplication of 16 bits that rounds, where ``total`` has more."""
    if total.kind != "sum" or U16.low <= total.low <= total.high <= U16.high:
        return None
    *weights, offset = total.value
    factor = gcd(*weights)
    inner, rest = divmod(offset - (1 << _PRODUCT_BITS - 1), factor)
    if rest or not I16.holds(factor):
        return None
    parts = zip(total.parts, weights, strict=True)
    value = sum((part * (weight // factor) for part, weight in parts), constant(inner))
    return scaled(value, factor) if I16.low <= value.low <= value.high <= I16.high else None
