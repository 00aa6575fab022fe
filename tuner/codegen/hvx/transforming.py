"""Plans of transforms of square blocks of halfwords, across their rows, down their columns, or one
after the other: each element is a narrowed sum of a row or a column, by a basis of numbers or of
inputs.

``transforming.h`` puts one block into each lane; what is here makes sums of whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import NamedTuple, Self

from tuner.codegen import clang
from tuner.codegen.hvx.pixel import NotAStencilError, Pixel
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.stencils import block_of
from tuner.codegen.hvx.words import Ending, Narrowing, ended, product_of, product_of_two
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program import Program
from tuner.program.loops import Buffer
from tuner.program.types import I8, I16, I32, U16, Type
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_SUMS, _LINES, _CHOICES = "hvx_sums", "hvx_lines", (2, 4, 8)
_SIDES = (4, 8, 16)
_LANES_LOG = 6
_ENDS = Ending._fields.index("low"), Ending._fields.index("high")
_FUNCTIONS = Path(__file__).with_name("transforming.h")
_NONE = "it is no transform of blocks by a basis"

_Weight = int | Pixel
"""A number, or the element of an input."""


class _Sum(NamedTuple):
    """Of some values by weights, and what becomes of it."""

    ending: Ending
    terms: tuple[tuple[Pixel, _Weight], ...]


class _Pass(NamedTuple):
    """Sums across rows or down columns: the weights of each element made, and the samples' ends."""

    is_across: bool
    weights: tuple[tuple[_Weight, ...], ...]
    ending: Ending
    kind: Type
    samples: tuple[int, int]


@dataclass(frozen=True)
class Transform(Plan):
    """``passes`` over blocks of ``side`` rows of the input ``image``."""

    accepted = "transforms of blocks of halfwords"

    side: int
    passes: tuple[_Pass, ...]
    image: int
    inputs: tuple[Buffer, ...]
    specs: tuple[BufferSpec, ...]
    problem: Problem

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        is_static, made = problem.contract is Contract.STATIC, specs[-1]
        shapes = tuple((spec.name, spec.shape) for spec in specs) if is_static else ()
        if made.element_bytes * 8 != I16.bits or len(made.shape) not in (2, 4):
            raise NoPlanError(_NONE)
        is_of_blocks = len(made.shape) > 2
        found: Sequence[tuple[int, int, Pixel]] | NotAStencilError = ()
        for side in made.shape[-1:] if is_of_blocks else _SIDES:
            if side not in _SIDES or (is_of_blocks and made.shape[-2] != side):
                raise NoPlanError(_NONE)
            found = block_of(program, shapes, side)
            if not isinstance(found, NotAStencilError):
                break
        if isinstance(found, NotAStencilError):
            raise NoPlanError(str(found))
        kind = I16 if made.dtype == "int16" else U16
        places = {one.value for row in found for one in row[2].inner() if one.kind == "pixel"}
        if any((one.step, one.down, one.plane) != (side, side, None) for one in places):
            raise NoPlanError(_NONE)
        passes = _passes(found, side, kind)
        names = {place.image for place in places}
        buffers = {one.name: one for one in program.inputs}
        others = {name for one in passes for name in _inputs_of(one)}
        if len(names) != 1 or {*names, *others} != {*buffers} or names & others:
            raise NoPlanError(_NONE)
        (name,) = names
        if buffers[name].type.bits != I16.bits or len(buffers[name].axes) != 2:
            raise RefusedError("its blocks are not of an image of halfwords")
        if any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("its buffers are loose, or do not begin at 0")
        image = [one.name for one in program.inputs].index(name)
        plan = cls(side, passes, image, program.inputs, tuple(specs), problem)
        plan._require_shapes()
        return plan

    def _require_shapes(self) -> None:
        made, side, lanes = self.specs[-1], self.side, self.problem.target.lanes(2)
        height, width = made.shape[-2:]
        if self.is_of_blocks:
            if self.problem.contract is not Contract.STATIC:
                raise RefusedError("blocks as dimensions of their own have code static only")
            strides = layout_of(made, self.problem.contract, self.problem.target).strides
            if strides[-3:] != (side * side, side, 1):
                raise RefusedError("its blocks do not lie densely")
            height, width = (side * one for one in made.shape[:2])
        if width < lanes:
            raise RefusedError(f"its rows have {width} elements, fewer than {lanes}")
        given = self.specs[self.image].shape
        if self.has_parts and len(self.passes) == 1:
            raise RefusedError("across or down alone it has code of whole blocks, static only")
        if given[0] < -(-height // side) * side or given[1] < -(-width // side) * side:
            raise RefusedError("its samples lie beyond its input")

    @property
    def has_parts(self) -> bool:
        """Whether the output may end within blocks."""
        is_whole = not any(one % self.side for one in self.specs[-1].shape[-2:])
        return self.problem.contract is not Contract.STATIC or not is_whole

    @property
    def is_of_blocks(self) -> bool:
        """Whether the output has dimensions of blocks."""
        return len(self.specs[-1].shape) > 2

    @property
    def knobs(self) -> tuple[Knob, ...]:
        choices = tuple(one for one in _CHOICES if one <= self.side)
        return (
            Knob(_SUMS, choices, "sums in registers together"),
            Knob(_LINES, (1, 2), "rows or columns in registers together"),
            clang.DEEPER,
        )

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        return {_SUMS: 4, _LINES: 2}

    def switches(self, config: Config) -> list[str]:
        return [*clang.NO_MERGED_LOADS, *super().switches(config)]

    def written(self, config: Config) -> tuple[str, str]:
        tables = [_Table(one, self) for one in self.passes]
        entering = 2 ** min(int(log2(self.side)), _LANES_LOG - int(log2(self.side)))
        calls, functions, first = [], list[str](), 0
        has_vectors = any(one.has_vectors for one in tables)
        words = [word for one in tables for word in one.words()]
        for n, table in enumerate(tables):
            functions += table.function(f"pass_{n}", config.integer(_SUMS), config.integer(_LINES))
            calls.append(f"pass_{n}(tile, words + {first});")
            first += len(table.words())
        heads = [
            f"enum {{ SIDE = {self.side}, ENTERING = {entering if self.is_of_blocks else 0} }};",
            f"enum {{ OUT_STEP = {self.side if self.is_of_blocks else 1} }};",
            f"enum {{ HAS_PARTS = {int(self.has_parts)} }};",
            f"typedef {'V' if has_vectors else 'int'} WORD;",
            f"#define PASSES(tile, words) {' '.join(calls)}",
        ]
        if has_vectors:
            words = [f"HVX(lvsplatw)({one})" for one in words]
        parts = [*heads, *functions, _FUNCTIONS.read_text()]
        return "\n".join(self._loops(words)), "\n".join(parts)

    def _loops(self, words: Sequence[str]) -> Iterator[str]:
        name, side = f"input{self.image}", self.side
        if self.is_of_blocks:
            yield f"const int width = {side} * output_extent_2, height = {side} * output_extent_3;"
            strides = "0, output_stride_3"
        else:
            yield "const int width = output_extent_0, height = output_extent_1;"
            strides = f"output_stride_1, {side} * output_stride_1"
        if self.problem.contract is not Contract.STATIC:
            wrong = [f"width < {self.problem.target.lanes(2)}"]
            for axis, size in enumerate(("width", "height")):
                wrong.append(f"{name}_extent_{axis} < ({size} + {side - 1}) / {side} * {side}")
            wrong += [f"{one} <= {last}" for one, last in self._last_taps().items()]
            yield from (f"if ({one}) return CONSTRAINT_VIOLATED;" for one in wrong)
        yield "CHECKED"
        yield f"V *const tile = scratch({side * side} * sizeof(V));"
        yield f"WORD *const words = scratch({len(words)} * sizeof(WORD));"
        yield from (f"words[{n}] = {word};" for n, word in enumerate(words))
        yield f"transform((const uint16_t *){name}, {name}_stride_1, (uint16_t *)output, {strides},"
        yield "    width, height, tile, words);"

    def _last_taps(self) -> dict[str, int]:
        """The greatest index along each dimension of inputs that are taps."""
        names, found = [one.name for one in self.inputs], dict[str, int]()
        for weight in (w for one in self.passes for row in one.weights for w in row):
            if isinstance(weight, Pixel):
                name, at = weight.value
                for axis, index in enumerate(at[::-1]):
                    extent = f"input{names.index(name)}_extent_{axis}"
                    found[extent] = max(found.get(extent, 0), index)
        return found

    def element(self, weight: _Weight) -> str:
        """C of a weight."""
        if isinstance(weight, int):
            return str(weight)
        name, at = weight.value
        number = [one.name for one in self.inputs].index(name)
        strides = [f" * input{number}_stride_{axis}" if axis else "" for axis in range(len(at))]
        parts = (f"{index}{by}" for index, by in zip(at[::-1], strides, strict=True))
        return f"input{number}[{' + '.join(parts)}]"


class _Table:
    """The words of a pass, and the function that multiplies by them."""

    def __init__(self, own: _Pass, plan: Transform) -> None:
        self._pass, self._plan = own, plan
        ends = [_ends_of(one) for row in own.weights for one in row]
        low, high = min(one for one, _ in ends), max(one for _, one in ends)
        self._is_paired = I8.holds(low) and I8.holds(high)
        self._kind = I16 if I16.holds(low) and I16.holds(high) else U16
        if not (self._kind.holds(low) and self._kind.holds(high)):
            raise RefusedError(f"its basis is from {low} to {high}")
        self._is_signed = I16.holds(own.samples[0]) and I16.holds(own.samples[1])
        most = max(sum(max(map(abs, _ends_of(w))) for w in row) for row in own.weights)
        self._is_exact = most * max(map(abs, own.samples)) <= I32.high

    @property
    def has_vectors(self) -> bool:
        """Whether its words are those of vectors."""
        by_words = self._is_exact if self._is_signed and self._kind == I16 else False
        by_words |= not self._is_signed and self._kind == U16
        return not (self._is_paired or by_words)

    def words(self) -> list[str]:
        """C of each, in the order of products."""
        found = []
        for row in self._pass.weights:
            size = 2 if self._is_paired else 1
            for n in range(0, len(row), size):
                one, *rest = (self._plan.element(weight) for weight in row[n : n + size])
                text = f"({one} & 0xFFFF) * 0x10001"
                if rest:
                    text = f"({one} & 0xFF | ({rest[0]} & 0xFF) << 8) * 0x10001"
                found.append(f"(int)({text}u)")
        return found

    def function(self, name: str, together: int, lines: int) -> Iterator[str]:
        """C of it: ``together`` sums of so many ``lines`` are in registers."""
        side = self._plan.side
        step, other = (1, side) if self._pass.is_across else (side, 1)
        yield f"static void {name}(V *restrict tile, const WORD *restrict words) {{"
        yield "#pragma clang loop unroll(disable)"
        yield f"for (int n = 0; n < {side}; n += {lines}, tile += {lines * other}) {{"
        yield 'asm("" : "+r"(words)); /* not loaded before the loop, and then spilled */'
        across = [(n, k) for n in range(lines) for k in range(side)]
        yield from (f"const V x{n}_{k} = tile[{n * other + k * step}];" for n, k in across)
        for first in range(0, side, together):
            some = [(n, a) for a in range(first, first + together) for n in range(lines)]
            yield "{"
            for k, products in enumerate(zip(*(self._products(*at) for at in some), strict=True)):
                for (n, a), (begun, more) in zip(some, products, strict=True):
                    own = f"sum{n}_{a}"
                    yield f"{own} = {more.format(own)};" if k else f"W {own} = {begun};"
            narrowing = Narrowing(self._pass.ending, self._pass.kind)
            for n, a in some:
                found = narrowing.halfwords(narrowing.words(f"sum{n}_{a}"))
                narrowing.lines.append(f"tile[{n * other + a * step}] = {found};")
            yield from narrowing.lines
            yield "}"
        yield "}\n}"

    def _products(self, line: int, made: int) -> Iterator[tuple[str, str]]:
        side, is_signed = self._plan.side, self._is_signed
        if self._is_paired:
            for n in range(side // 2):
                word = f"((const int *)(words + {made * side // 2 + n}))[0]"
                two = f"x{line}_{2 * n}", f"x{line}_{2 * n + 1}"
                yield product_of_two(two, word, is_signed=is_signed)
            return
        for k in range(side):
            word, is_exact = f"words[{made * side + k}]", self._is_exact
            yield product_of(
                f"x{line}_{k}", word, self._kind, is_signed=is_signed, is_exact=is_exact
            )


def _passes(found: Sequence[tuple[int, int, Pixel]], side: int, kind: Type) -> tuple[_Pass, ...]:
    """The one or two that make a block's elements: row, column and value of each."""
    outer = {(row, column): _sum(value) for row, column, value in found}
    values = [value for one in outer.values() for value, _ in one.terms]
    inner = {value: _sum(value) for value in values if value.kind != "pixel"}
    last = _ending([*outer.values()])
    if not inner:
        ends = min(one.low for one in values), max(one.high for one in values)
        for is_across in (True, False):
            weights = _single(outer, is_across, side)
            if weights is not None:
                return (_Pass(is_across, weights, last, kind, ends),)
        raise NoPlanError(_NONE)
    samples = [value for one in inner.values() for value, _ in one.terms]
    if len(inner) < len({*values}) or any(one.kind != "pixel" for one in samples):
        raise NoPlanError(_NONE)
    between = min(one.low for one in inner), max(one.high for one in inner)
    fitting = (one for one in (I16, U16) if all(map(one.holds, between)))
    made = next(fitting, None)
    if made is None:
        raise NoPlanError(f"between its sums are values from {between[0]} to {between[1]}")
    ends = min(one.low for one in samples), max(one.high for one in samples)
    first = _ending([*inner.values()])
    for is_across in (True, False):
        both = _double(outer, inner, is_across, side)
        if both is not None:
            return (
                _Pass(is_across, both[0], first, made, ends),
                _Pass(not is_across, both[1], last, kind, between),
            )
    raise NoPlanError(_NONE)


_Weights = tuple[tuple[_Weight, ...], ...]


def _single(outer: Mapping[tuple[int, int], _Sum], is_across: bool, side: int) -> _Weights | None:
    """The weights of each element made, if sums are of their own rows or columns."""
    weights = dict[int, tuple[_Weight, ...]]()
    for (row, column), one in outer.items():
        kept, made = (row, column) if is_across else (column, row)
        line, own = _line(one, is_across, side)
        if line != kept or weights.setdefault(made, own) != own:
            return None
    return tuple(weights[n] for n in range(side))


def _double(
    outer: Mapping[tuple[int, int], _Sum],
    inner: Mapping[Pixel, _Sum],
    is_across: bool,
    side: int,
) -> tuple[_Weights, _Weights] | None:
    """The weights of two passes, if the first is across rows, or else down columns."""
    lines = {value: _line(one, is_across, side) for value, one in inner.items()}
    weights = dict[int, tuple[_Weight, ...]](), dict[int, tuple[_Weight, ...]]()
    for (row, column), one in outer.items():
        made, last = (column, row) if is_across else (row, column)
        own: list[_Weight] = [0] * side
        for value, weight in one.terms:
            line, each = lines[value]
            if line is None or weights[0].setdefault(made, each) != each or own[line] != 0:
                return None
            own[line] = weight
        if weights[1].setdefault(last, tuple(own)) != tuple(own):
            return None
    first, second = (tuple(one[n] for n in range(side)) for one in weights)
    return first, second


def _line(one: _Sum, is_across: bool, side: int) -> tuple[int | None, tuple[_Weight, ...]]:
    """The row that a sum goes across, or the column that it goes down, and weights along it."""
    own: list[_Weight] = [0] * side
    lines = set()
    for value, weight in one.terms:
        place = value.value
        line, at = (place.dy, place.dx) if is_across else (place.dx, place.dy)
        lines.add(line)
        own[at] = weight
    return (lines.pop() if len(lines) == 1 else None), tuple(own)


def _sum(value: Pixel) -> _Sum:
    """What ``value`` is: the low 16 bits of it count."""
    if value.kind == "wrapped" and value.value in (str(I16), str(U16)):
        (value,) = value.parts
    ending, total = ended(value)
    if total.kind != "sum":
        total = Pixel("sum", (1, 0), (total,), total.low, total.high)
    terms = list[tuple[Pixel, _Weight]]()
    for part, weight in zip(total.parts, total.value, strict=False):
        if part.kind == "times" and weight == 1:
            terms.append((part.parts[0], part.parts[1]))
        elif part.kind in ("pixel", "min", "max", "shift", "wrapped"):
            terms.append((part, weight))
        else:
            raise NoPlanError(_NONE)
    places = [one.value for one, _ in terms if one.kind == "pixel"]
    if len({(one.dy, one.dx) for one in places}) < len(places) or not all(
        one.has_own for one in places
    ):
        raise NoPlanError("its sums reach beyond a block, or into it twice")
    return _Sum(ending, tuple(terms))


def _ending(sums: Sequence[_Sum]) -> Ending:
    """That of all ``sums``: an end that some never come to is no end of theirs."""
    wraps = any(one.ending.wraps for one in sums)
    low, high = ({e for one in sums if (e := one.ending[n]) is not None} for n in _ENDS)
    rest = {one.ending._replace(wraps=wraps, low=None, high=None) for one in sums}
    if max(len(low), len(high), len(rest)) > 1:
        raise NoPlanError("its sums are narrowed in several ways")
    return rest.pop()._replace(low=next(iter(low), None), high=next(iter(high), None))


def _ends_of(weight: _Weight) -> tuple[int, int]:
    return (weight, weight) if isinstance(weight, int) else (weight.low, weight.high)


def _inputs_of(one: _Pass) -> Iterator[str]:
    """The names of the inputs that its weights are of."""
    for weight in (weight for row in one.weights for weight in row):
        if isinstance(weight, Pixel):
            yield weight.value[0]
