"""Plans of elements that other inputs choose: tables with more entries than registers hold, and
images of which each pixel comes from where tables say.

What is chosen from lies in VTCM, where ``vgather`` takes halfwords of it by their offsets in bytes:
halfwords of offsets up to 64 KiB, words beyond. Of two bytes in a halfword a shift takes one. A
gather takes long and many may be under way, so a row is gathered some vectors at a time before the
first of them is read. Indices are computed in halfwords that saturate, which no clamp tells apart.

Source: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44, "Scatter and gather".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple, Self

from tuner.codegen import clang
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.writing import TABLE_BYTES
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program.expressions import Binary, Cast, Constant, Expr, Load, Variable, loads_in
from tuner.program.inlining import inlined, is_small
from tuner.program.loops import Program, Stage
from tuner.program.types import I16, INDEX, U8, U16, Type
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_BLOCKS = "hvx_gathered"
_FUNCTIONS = Path(__file__).with_name("gathering.h")
_ELEMENTS = ("uint8", "int8", "uint16", "int16")
_NEAR = 1 << 16
"""Bytes that halfwords of offsets reach."""
_MOST_SIDES = 2
_MOST_GROWTH = 2
"""Of an extent in the shapes that code is verified in; of whole vectors it is one."""
_MOST_BLOCKS = 16
_OPERATIONS = {"+": "vaddhsat", "-": "vsubhsat", "min": "vminh", "max": "vmaxh"}
_CALCULATED: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "min": min,
    "max": max,
}
"""Of sizes."""

Kind = Literal["load", "axis", "size", "+", "-", "min", "max"]


class _Size(NamedTuple):
    """A number in C, and what it is in the problem's own shape."""

    text: str
    own: int

    def with_(self, by: str, other: _Size) -> _Size:
        """What ``by`` makes of both."""
        written = f"({self.text} {by} {other.text})"
        if by in ("min", "max"):
            written = f"({self.text} {'<' if by == 'min' else '>'} {other.text} ? "
            written += f"{self.text} : {other.text})"
        return _Size(written, _CALCULATED[by](self.own, other.own))


class _Index(NamedTuple):
    """A number in halfwords: an element of the input ``number``, of ``type``, at the ``axes`` of
    the output that are its indices, outermost first; such an axis; a size; or of two others. It
    lies between ``low`` and ``high``."""

    kind: Kind
    low: _Size
    high: _Size
    number: int = 0
    axes: tuple[int, ...] = ()
    type: Type = INDEX
    parts: tuple[_Index, ...] = ()

    @property
    def is_unsigned(self) -> bool:
        """Whether it is compared as a halfword without a sign."""
        own = self.kind == "load" and not self.type.is_signed and self.type.bits > U8.bits
        return own or any(part.is_unsigned for part in self.parts)

    def inner(self) -> Iterator[_Index]:
        """All in it, each after its parts."""
        for part in self.parts:
            yield from part.inner()
        yield self


class _Side(NamedTuple):
    """A dimension of what is chosen from."""

    place: _Index
    extent: _Size


@dataclass(frozen=True)
class Gather(Plan):
    """Of the input ``source`` the elements at ``sides``, outermost first, in each of its
    ``planes``: axes of the output that are its outer dimensions. Rows that lie densely are gone
    through as one if it ``is_flat``."""

    accepted = "elements of inputs that other inputs choose"

    source: int
    planes: tuple[int, ...]
    sides: tuple[_Side, ...]
    is_flat: bool
    specs: tuple[BufferSpec, ...]
    problem: Problem

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        program = inlined(program, is_small(program))
        stage, load = _chosen(program)
        reading = _Reading(program, stage, specs, problem)
        source = reading.names.index(load.source)
        planes = list[int]()
        for index in load.indices[:-1]:
            if index not in stage.places[:-1]:
                break
            planes.append(reading.axis(index))
        given, made = specs[source], specs[-1]
        chosen = load.indices[len(planes) :]
        if len(chosen) > _MOST_SIDES:
            raise RefusedError(f"of {len(chosen)} dimensions inputs say the place, not one or two")
        if given.dtype not in _ELEMENTS or given.dtype != made.dtype:
            raise RefusedError("its elements have other than 8 or 16 bits, or others in its output")
        if any(spec.loose or any(spec.mins) for spec in specs) or program.scalars:
            raise RefusedError("its buffers are loose, or do not begin at 0, or it has scalars")
        extents = (reading.extent(source, n - 1) for n in range(len(chosen), 0, -1))
        sides = tuple(map(_Side, map(reading.index, chosen), extents))
        is_small_table = given.shape == (TABLE_BYTES,) and given.dtype == "uint8"
        if is_small_table and all(one.type == U8 for one in loads_in(*load.indices)):
            raise NoPlanError("its table is looked up in registers")
        found = cls(source, tuple(planes), sides, False, tuple(specs), problem)
        found = replace(found, is_flat=found.may_be_flat)
        found.require()
        return found

    @property
    def knobs(self) -> tuple[Knob, ...]:
        doc = "blocks of a row that are gathered before the first is read"
        return Knob(_BLOCKS, (2, 4, 8, _MOST_BLOCKS), doc), clang.DEEPER

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        return {_BLOCKS: 4}

    def switches(self, config: Config) -> list[str]:
        return [*clang.NO_MERGED_LOADS, *super().switches(config)]

    def written(self, config: Config) -> tuple[str, str]:
        numbers = ", ".join(map(str, range(self.lanes // 2)))
        kind = "static const uint16_t numbers_of_halves[] __attribute__((aligned(VECTOR_BYTES)))"
        functions = f"{_FUNCTIONS.read_text()}\n{kind} = {{{numbers}}};"
        return "\n".join(self._loops(config.integer(_BLOCKS))), functions

    @property
    def may_be_flat(self) -> bool:
        """Whether all that is read and stored by rows lies densely, and no index is an axis."""
        contract, target = self.problem.contract, self.problem.target
        rank = len(self.specs[-1].shape)
        if contract is not Contract.STATIC or self.planes or rank < _MOST_SIDES:
            return False
        loads = [one for side in self.sides for one in side.place.inner() if one.kind == "load"]
        read = [self.specs[-1], *(self.specs[one.number] for one in loads)]
        return (
            not any(one.kind == "axis" for side in self.sides for one in side.place.inner())
            and all(one.axes == tuple(range(rank))[::-1] for one in loads)
            and all(one.shape == self.specs[-1].shape for one in read)
            and all(_is_dense(layout_of(one, contract, target).strides, one.shape) for one in read)
        )

    @property
    def lanes(self) -> int:
        """Elements of a block of a row: those of a vector of bytes."""
        return self.problem.target.lanes(1)

    @property
    def width(self) -> _Size:
        """The elements of a row."""
        shape = self.specs[-1].shape
        return _Size(str(prod(shape)), prod(shape)) if self.is_flat else self._extent(0)

    @property
    def bytes(self) -> _Size:
        """Those of what is chosen from."""
        found = _number(self.specs[self.source].element_bytes)
        for side in self.sides:
            found = side.extent.with_("*", found)
        return found

    @property
    def is_near(self) -> bool:
        """Whether halfwords hold its offsets, also in the shapes that code is verified in."""
        return self._grown_bytes <= _NEAR

    @property
    def _grown_bytes(self) -> int:
        contract = self.problem.contract
        growth = {Contract.STATIC: 0, Contract.EXTENT: self.lanes}.get(contract, _MOST_GROWTH)
        extents = (side.extent.own + growth for side in self.sides)
        return prod(extents) * self.specs[self.source].element_bytes

    @property
    def _most_bytes(self) -> int:
        room = self.problem.target.vtcm_bytes - self.lanes * (4 * _MOST_BLOCKS + 1)
        return min(_NEAR, room) if self.is_near else room

    def require(self) -> None:
        """Raises ``NoPlanError`` where there is no code for it."""
        if self.width.own < self.lanes:
            raise RefusedError(f"its rows have {self.width.own} elements, fewer than {self.lanes}")
        if self._grown_bytes > self._most_bytes:
            raise RefusedError(f"{self._grown_bytes:,} bytes that it chooses from exceed VTCM")
        for side in self.sides:
            low, high = side.place.low.own, side.place.high.own
            if low < 0 or high >= side.extent.own or high > U16.high:
                raise RefusedError(f"it chooses {low} to {high} of {side.extent.own} elements")
            for one in side.place.inner():
                _require_exact(one)

    def _extent(self, dimension: int) -> _Size:
        own = self.specs[-1].shape[-1 - dimension]
        is_static = self.problem.contract is Contract.STATIC
        return _Size(str(own) if is_static else f"output_extent_{dimension}", own)

    def _wrong(self) -> Iterator[str]:
        """Conditions under which a call is refused."""
        yield f"{self.width.text} < {self.lanes}"
        yield f"{self.bytes.text} > {self._most_bytes}"
        for side in self.sides:
            yield f"{side.place.low.text} < 0 || {side.place.high.text} >= {side.extent.text}"
            for one in side.place.inner():
                if one.kind in ("axis", "size"):
                    yield f"{one.high.text} > {I16.high} || {one.low.text} < {I16.low}"
                for part in one.parts if one.is_unsigned else ():
                    yield f"{part.low.text} < 0"
                for at, axis in enumerate(reversed(one.axes) if one.kind == "load" else ()):
                    yield f"input{one.number}_extent_{at} < {self._extent(axis).text}"
        for at, axis in enumerate(reversed(self.planes), start=len(self.sides)):
            yield f"input{self.source}_extent_{at} < {self._extent(axis).text}"

    def _loops(self, blocks: int) -> Iterator[str]:
        source, size = f"input{self.source}", self.specs[self.source].element_bytes
        yield f"if ({' || '.join(dict.fromkeys(self._wrong()))}) return CONSTRAINT_VIOLATED;"
        yield "CHECKED"
        yield f"const int width = {self.width.text}, bytes = {self.bytes.text};"
        yield "const int whole = (bytes / VECTOR_BYTES + 1) * VECTOR_BYTES;"
        vectors = 2 * blocks
        yield f"TAKE_VTCM(chosen, whole + {vectors} * VECTOR_BYTES);"
        yield "V *const gathered = (V *)(chosen + whole);"
        yield f"V *const offsets = scratch({vectors} * VECTOR_BYTES);"
        yield "const V numbers = *(const V *)numbers_of_halves;"
        for axis in self.planes:
            yield f"for (int i{axis} = 0; i{axis} < {self._extent(axis).text}; ++i{axis}) {{"
        start = [source]
        for at, axis in enumerate(reversed(self.planes), start=len(self.sides)):
            start.append(f"i{axis} * {source}_stride_{at}")
        rows, row = self.sides[0].extent.text, self.sides[-1].extent.text
        place = " + ".join(start)
        if len(self.sides) == 1:
            yield f"copy(chosen, (const uint8_t *)({place}), {row} * {size});"
        else:
            yield f"for (int n = 0; n < {rows}; ++n)"
            to, of = f"chosen + n * {row} * {size}", f"{place} + n * {source}_stride_1"
            yield f"copy({to}, (const uint8_t *)({of}), {row} * {size});"
        rank = len(self.specs[-1].shape)
        others = [] if self.is_flat else [n for n in range(1, rank) if n not in self.planes]
        for axis in reversed(others):
            yield f"for (int i{axis} = 0; i{axis} < {self._extent(axis).text}; ++i{axis})"
        step = blocks * self.lanes
        yield f"for (int first = 0; first < width; first += {step}) {{"
        yield f"const int end = at_most(width, first + {step});"
        yield f"const int last = width - {self.lanes};"
        yield "int at = 0;"
        yield f"for (int x_ = first; x_ < end; x_ += {self.lanes}, at += 2) {{"
        yield "const int x = at_most(x_, last);"
        yield from self._gathered()
        yield "}"
        yield "at = 0;"
        yield f"for (int x_ = first; x_ < end; x_ += {self.lanes}, at += 2) {{"
        yield "const int x = at_most(x_, last);"
        own = "".join(f" + i{n} * output_stride_{n}" for n in range(1, rank) if not self.is_flat)
        yield f"VU *const out = (VU *)(output + x{own});"
        if size == 1:
            yield "*out = bytes_of(gathered + at, offsets + at);"
        else:
            yield "out[0] = gathered[at], out[1] = gathered[at + 1];"
        yield "}"
        yield "}"
        yield from "}" * len(self.planes)

    def _gathered(self) -> Iterator[str]:
        """The offsets of a block, and what is gathered there."""
        size = self.specs[self.source].element_bytes
        names = dict[_Index, str]()
        for side in self.sides:
            for one in side.place.inner():
                if one not in names:
                    names[one] = f"n{len(names)}_"
                    yield from self._halves(one, names)
        for half in range(2):
            *outer, inner = (f"{names[side.place]}{half}" for side in self.sides)
            row = f"HVX(lvsplath)({self.sides[-1].extent.text})"
            low = f"HVX(vaddh)(HVX(vmpyih)({outer[0]}, {row}), {inner})" if outer else inner
            yield f"const V low{half} = {low};"
            if self.is_near:
                offset = f"low{half}" if size == 1 else f"HVX(vaslh)(low{half}, 1)"
                even = f"HVX(vand)({offset}, HVX(lvsplatw)(-0x10002))"
                function = "vgathermh"
            else:
                wide = f"HVX(vzh)({inner})"
                if outer:
                    wide = f"HVX(vaddw_dv)(HVX(vmpyuhv)({outer[0]}, {row}), {wide})"
                yield f"const W wide{half} = {wide};"
                doubled = f"HVX(vaddw_dv)(wide{half}, wide{half})"
                even = f"even_words(wide{half})" if size == 1 else doubled
                function = "vgathermhw"
            given = f"gathered + at + {half}, (int)chosen, whole - 1, {even}"
            yield f"HVX({function})({given});"
            if size == 1:
                yield f"offsets[at + {half}] = low{half};"

    def _halves(self, one: _Index, names: Mapping[_Index, str]) -> Iterator[str]:
        """``one`` for the first half of a block, and for the second."""
        name = names[one]
        if one.kind == "load":
            terms = [] if self.is_flat else one.axes[:-1]
            place = f"input{one.number} + x"
            for at, axis in enumerate(reversed(terms), start=1):
                place += f" + i{axis} * input{one.number}_stride_{at}"
            yield f"const VU *const {name} = (const VU *)({place});"
            if one.type.bits == U8.bits:
                unpacked = "vunpackb" if one.type.is_signed else "vunpackub"
                yield f"const W {name}w = HVX({unpacked})(*{name});"
                yield f"const V {name}0 = HVX(lo)({name}w), {name}1 = HVX(hi)({name}w);"
            elif one.type.bits == I16.bits:
                yield f"const V {name}0 = {name}[0], {name}1 = {name}[1];"
            else:
                packed = "vpackwh_sat" if one.type.is_signed else "vpackwuh_sat"
                for half in range(2):
                    pair = f"{name}[{2 * half + 1}], {name}[{2 * half}]"
                    yield f"const V {name}{half} = HVX({packed})({pair});"
            return
        for half in range(2):
            if one.kind == "axis" and one.number == 0:
                first = f"HVX(lvsplath)(x + {half * self.lanes // 2})"
                text = f"HVX(vaddh)(numbers, {first})"
            elif one.kind == "axis":
                text = f"HVX(lvsplath)(i{one.number})"
            elif one.kind == "size":
                text = f"HVX(lvsplath)({one.low.text})"
            else:
                operation = _OPERATIONS[one.kind]
                if one.is_unsigned:
                    operation = operation.replace("h", "uh")
                given = ", ".join(f"{names[part]}{half}" for part in one.parts)
                text = f"HVX({operation})({given})"
            yield f"const V {name}{half} = {text};"


def _number(value: int) -> _Size:
    return _Size(str(value), value)


def _is_dense(strides: Sequence[int], shape: Sequence[int]) -> bool:
    return all(strides[n] == strides[n + 1] * shape[n + 1] for n in range(len(shape) - 1))


def _require_exact(one: _Index) -> None:
    """That halfwords that saturate tell it, after all clamps, from no other number."""
    if one.kind in ("axis", "size"):
        if not I16.low <= one.low.own <= one.high.own <= I16.high:
            raise RefusedError(f"an index has a number of {one.high.own}, beyond 15 bits")
    elif one.kind in ("+", "-"):
        # A sum may saturate; another of that one would be wrong.
        is_plain = all(part.kind in ("load", "axis", "size") for part in one.parts)
        is_narrow = all(part.type.bits <= I16.bits for part in one.parts if part.kind == "load")
        if not is_plain or not is_narrow or one.is_unsigned:
            raise RefusedError("it adds up more than two numbers of 15 bits")
    elif one.is_unsigned and any(part.low.own < 0 for part in one.parts):
        raise RefusedError("it compares numbers with and without a sign")


def _chosen(program: Program) -> tuple[Stage, Load]:
    """The stage of the output, and the element that it is, where another input says."""
    if len(program.stages) != 1 or len(program.outputs) != 1:
        raise NoPlanError("it is not an input's element where another one says")
    (stage,) = program.stages
    value, inputs = stage.values[0], {one.name for one in program.inputs}
    if len(stage.arrays) > 1 or stage.updates or not isinstance(value, Load):
        raise NoPlanError("it is not an input's element where another one says")
    if value.source not in inputs or not loads_in(*value.indices):
        raise NoPlanError("it is not an input's element where another one says")
    return stage, value


class _Reading:
    """Indices of a program's inputs, as they are read."""

    def __init__(
        self, program: Program, stage: Stage, specs: Sequence[BufferSpec], problem: Problem
    ) -> None:
        self.names = [one.name for one in program.inputs]
        self._program, self._stage, self._specs = program, stage, specs
        self._is_static = problem.contract is Contract.STATIC
        self._sizes = dict[str, _Size]()
        sizes = program.sizes_at({one.name: one.shape for one in specs})
        ends = [(f"input{n}", one.axes) for n, one in enumerate(program.inputs)]
        ends.append(("output", tuple(axis.bounds for axis in stage.axes)))
        for name, axes in ends:
            for at, bounds in enumerate(reversed(axes)):
                if len(bounds) == 2 and isinstance(bounds[1], Variable):
                    own = sizes[bounds[1].name]
                    text = str(own) if self._is_static else f"{name}_extent_{at}"
                    self._sizes.setdefault(bounds[1].name, _Size(text, own))

    def extent(self, number: int, dimension: int) -> _Size:
        """That of an input."""
        own = self._specs[number].shape[-1 - dimension]
        return _Size(str(own) if self._is_static else f"input{number}_extent_{dimension}", own)

    def axis(self, index: Expr) -> int:
        """The output's dimension of an index, counted from the innermost."""
        if not isinstance(index, Variable) or index not in self._stage.places:
            raise NoPlanError("the inputs that choose are read elsewhere than at the output")
        return len(self._stage.places) - 1 - self._stage.places.index(index)

    def index(self, root: Expr) -> _Index:
        """``root`` as a number in halfwords."""
        made = dict[Expr, _Index]()
        for node in _in_order(root):
            made[node] = self._node(node, made)
        return made[root]

    def _node(self, node: Expr, made: Mapping[Expr, _Index]) -> _Index:
        if isinstance(node, Constant):
            return _Index("size", _number(node.value), _number(node.value))
        if isinstance(node, Variable) and node.name in self._sizes:
            size = self._sizes[node.name]
            return _Index("size", size, size)
        if isinstance(node, Variable):
            axis = self.axis(node)
            own = self._specs[-1].shape[-1 - axis]
            extent = _Size(str(own) if self._is_static else f"output_extent_{axis}", own)
            return _Index("axis", _number(0), extent.with_("-", _number(1)), axis)
        if isinstance(node, Load):
            return self._load(node)
        if isinstance(node, Cast):
            given = node.operand.type
            if node.type.low > given.low or node.type.high < given.high:
                raise NoPlanError("an index is narrowed")
            return made[node.operand]
        if not isinstance(node, Binary) or node.operator not in _CALCULATED:
            raise NoPlanError("an index is more than a sum and clamps")
        left, right = (made[part] for part in node.parts)
        by = node.operator
        if left.kind == right.kind == "size":
            value = left.low.with_(by, right.low)
            return _Index("size", value, value)
        if by == "*" or (by in "+-" and node.type != INDEX):
            raise NoPlanError("an index is a product, or a sum that may wrap around")
        ends = (right.high, right.low) if by == "-" else (right.low, right.high)
        low, high = left.low.with_(by, ends[0]), left.high.with_(by, ends[1])
        kind: Kind = by  # type: ignore[assignment]  # it is one of those left
        return _Index(kind, low, high, parts=(left, right))

    def _load(self, node: Load) -> _Index:
        if node.source not in self.names:
            raise NoPlanError("an index is an element of a table that is part of the program")
        number = self.names.index(node.source)
        axes = tuple(map(self.axis, node.indices))
        if not axes or axes[-1] != 0 or node.type.bits > INDEX.bits:
            raise NoPlanError("the inputs that choose are not read along rows of the output")
        one = self._program.inputs[number]
        if one.high > INDEX.high:
            raise NoPlanError("an index has 32 bits without a sign")
        return _Index("load", _number(one.low), _number(one.high), number, axes, node.type)


def _in_order(root: Expr) -> Iterator[Expr]:
    """The nodes of an index, parts first; those of elements' own places left out."""
    if not isinstance(root, Load):
        for part in root.parts:
            yield from _in_order(part)
    yield root
