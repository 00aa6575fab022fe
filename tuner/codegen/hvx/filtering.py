"""Plans of filters: sums in words of samples around each, by taps that are numbers or an input's.

A row is gone through in blocks. Each begins with *streams*, vectors of halfwords: where outputs go
on by ``step`` samples (and widened bytes lie as even and odd ones), a stream is each so manyth
sample, and whatever a tap is of is a stream at a shift. What blocks have in common stays in
registers. Bytes by taps that are a column times a row are summed up down the columns first, once
for all that read those sums. Taps of one weight are added up before they are multiplied where 16
bits hold that, two of 8 bits are one multiplication (``vmpa``), and the last step narrows, rounds
and saturates as it puts even and odd sums in order.

Source: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44, for each operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple, Self

from tuner.codegen import clang
from tuner.codegen.hvx.pixel import NotAStencilError, Pixel, Place
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.stencils import filter_of
from tuner.codegen.hvx.words import (
    Ending,
    Narrowing,
    added,
    bytes_of,
    ended,
    halves,
    product_of,
    product_of_two,
)
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program import Program
from tuner.program.types import I8, I16, I32, U8, U16, Type
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_VECTORS, _ROWS, _KEPT = "hvx_vectors", "hvx_rows", "hvx_kept"
_CHOICES = (1, 2, 4)
_MOST_TAPS, _MOST_PRODUCTS = 256, 600
_STEPS = (1, 2, 4)
_BAND = 32
"""Rows of the output whose rows of an image are copied with their edges at once."""
_MOST_KEPT = 8
"""Vectors that may stay in registers from one block to the next."""


class _Tap(NamedTuple):
    """The sample at ``place`` times a number, or an element of an input: its name and place."""

    place: Place
    weight: int | tuple[str, tuple[int, ...]]


class _Term(NamedTuple):
    """A stream at a shift (a position, in halfwords), of a row, and its weight: a number or that of
    a tap."""

    row: int
    stream: int
    position: int
    weight: int | str


@dataclass(frozen=True)
class Filter(Plan):
    """``taps`` of the input ``image``, and the buffers."""

    accepted = "sums in words of samples of 8 or 16 bits by taps"

    taps: tuple[_Tap, ...]
    ending: Ending
    samples: tuple[int, int]
    weights: Type | None
    image: int
    repeats: bool
    """Whether the image's edges are: bands of its rows are copied with them."""
    specs: tuple[BufferSpec, ...]
    problem: Problem

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        is_static = problem.contract is Contract.STATIC
        shapes = tuple((spec.name, spec.shape) for spec in specs) if is_static else ()
        found = filter_of(program, shapes)
        if isinstance(found, NotAStencilError):
            raise NoPlanError(str(found))
        ending, total = ended(found)
        taps = tuple(_taps_of(total))
        places = [tap.place for tap in taps]
        names = {place.image for place in places}
        if len(names) != 1 or len({(place.step, place.down) for place in places}) != 1:
            raise NoPlanError("it sums up no samples of one input")
        (name,) = names
        buffers = {one.name: one for one in program.inputs}
        own = buffers[name]
        others = {tap.weight[0] for tap in taps if not isinstance(tap.weight, int)}
        is_narrow = total.low >= -(1 << 15) and total.high - max(0, total.low) < 1 << 16
        if own.type == U8 and is_narrow and not others and not ending.wraps:
            raise NoPlanError("16 bits hold its sums")
        if {name, *others} != {*buffers} or len(others) > 1:
            raise RefusedError("it has inputs that are neither samples nor taps")
        if any(spec.loose for spec in specs) or any(specs[-1].mins):
            raise RefusedError("its buffers are loose, or its output does not begin at 0")
        least = [(spec.mins or (0,) * len(spec.shape)) for spec in specs]
        if any(any(one) for spec, one in zip(specs, least, strict=True) if spec.name in others):
            raise RefusedError("its taps do not begin at 0")
        number = [one.name for one in program.inputs].index(name)
        repeats = [not (one.within or one.has_own) or one.is_clamped for one in places]
        if any(repeats) and (any(one.within for one in places) or any(least[number])):
            raise RefusedError("it repeats some edges, or those of an image that begins elsewhere")
        if places[0].step not in _STEPS or any(place.plane is not None for place in places):
            raise RefusedError(f"it goes on by {places[0].step} samples, not {_STEPS}")
        if len(taps) > _MOST_TAPS:
            raise RefusedError(f"it has {len(taps)} taps, more than {_MOST_TAPS}")
        weights = next((buffers[one].type for one in others), None)
        samples = own.low, own.high
        plan = cls(taps, ending, samples, weights, number, any(repeats), tuple(specs), problem)
        plan._require_rows()
        return plan

    def _require_rows(self) -> None:
        made, (row, column) = self.specs[-1].shape, self.begins
        if made[-1] < self.outputs_of(self.choices[0]) or self.has < self.per:
            raise RefusedError(f"its rows have {made[-1]} sums, fewer than a vector")
        given = self.specs[self.image].shape
        if self.repeats:
            inside = min(self.has, given[-1] - self.left) - max(0, -self.left)
            if inside < self.per:
                raise RefusedError(
                    f"its image's rows have {given[-1]} samples, fewer than a vector"
                )
            return
        *above, _ = given
        needed = self.step * (made[-1] - 1) + self.most + 1
        below = self.taps[0].place.down * (made[0] - 1) + self.rows if len(given) > 1 else 0
        is_within = column >= 0 and self.has >= needed and row >= 0
        if not is_within or (above and above[0] - row < below):
            raise RefusedError("its samples lie beyond its input")

    @property
    def kind(self) -> Type:
        """The output's type."""
        return _type_of(self.specs[-1])

    @property
    def is_of_bytes(self) -> bool:
        """Whether samples have 8 bits."""
        return self.specs[self.image].element_bytes == 1

    @property
    def per(self) -> int:
        """Samples of a vector."""
        return self.problem.target.lanes(self.specs[self.image].element_bytes)

    @property
    def lanes(self) -> int:
        """Halfwords of a vector."""
        return self.problem.target.lanes(2)

    @property
    def step(self) -> int:
        """Samples from an output to the next."""
        return self.taps[0].place.step

    @property
    def down(self) -> int:
        """Rows from an output to the next."""
        return self.taps[0].place.down

    @property
    def streams(self) -> int:
        """Of a row."""
        return max(self.step, 2 if self.is_of_bytes else 1)

    @property
    def phases(self) -> int:
        """Outputs of a lane."""
        return self.streams // self.step

    @property
    def left(self) -> int:
        """The column of the leftmost tap."""
        return min(tap.place.dx for tap in self.taps)

    @property
    def top(self) -> int:
        """The row of the uppermost tap."""
        return min(tap.place.dy for tap in self.taps)

    @property
    def rows(self) -> int:
        """Rows that an output is of."""
        return max(tap.place.dy for tap in self.taps) - self.top + 1

    @property
    def most(self) -> int:
        """The distance from the leftmost tap to the rightmost."""
        return max(tap.place.dx for tap in self.taps) - self.left

    @property
    def beyond(self) -> int:
        """Vectors of a stream that a block reads beyond its own."""
        reach = ((self.phases - 1) * self.step + self.most) // self.streams
        return -(-reach // self.lanes)

    @property
    def begins(self) -> tuple[int, int]:
        """Row and column of the image's buffer at the first tap of the first output."""
        spec = self.specs[self.image]
        if self.repeats:
            return 0, 0  # of a band
        *rows, column = spec.mins or (0,) * len(spec.shape)
        return self.top - (rows[0] if rows else 0), self.left - column

    @property
    def has(self) -> int:
        """Samples of a row from there on."""
        if self.repeats:
            return self.step * (self.specs[-1].shape[-1] - 1) + self.most + 1
        return self.specs[self.image].shape[-1] - self.begins[1]

    @property
    def choices(self) -> tuple[int, ...]:
        """Vectors of each stream that a block may have: bytes are stored as whole vectors."""
        least = 2 if self.kind.bits == I8.bits and self.phases == 1 else 1
        width = self.specs[-1].shape[-1]
        fitting = [n for n in _CHOICES if n >= least and self.outputs_of(n) <= width]
        few = [n for n in fitting if n * self.products <= _MOST_PRODUCTS]
        return tuple(few or fitting[:1] or (least,))

    @property
    def products(self) -> int:
        """Of a vector of each stream, at most."""
        each = sum(map(len, self.column)) if self.column else len(self.taps)
        return self.phases * each

    @property
    def heights(self) -> tuple[int, ...]:
        """Rows that may be computed together: those that have samples in common."""
        height = self.specs[-1].shape[0] if self.rows > self.down else 1
        most = max(self.choices) * self.products
        return tuple(n for n in _CHOICES if n <= height and (n == 1 or n * most <= _MOST_PRODUCTS))

    def is_aligned(self, number: int, column: int = 0) -> bool:
        """Whether rows of a buffer begin at vectors from a ``column`` on."""
        if self.repeats and number == self.image:
            return True
        spec, contract = self.specs[number], self.problem.contract
        lanes = self.problem.target.lanes(spec.element_bytes)
        strides = layout_of(spec, contract, self.problem.target).strides
        is_whole = len(spec.shape) == 1 or contract.level >= Contract.STRIDE.level
        if contract is Contract.STATIC:
            is_whole = all(stride % lanes == 0 for stride in strides[:-1])
        return contract is not Contract.NONE and is_whole and column % lanes == 0

    def outputs_of(self, vectors: int) -> int:
        """Outputs of a block of so many vectors of each stream."""
        return vectors * self.lanes * self.phases

    @cached_property
    def column(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Weights down and across, if bytes may be summed up down the columns first."""
        table = [[0] * (self.most + 1) for _ in range(self.rows)]
        for place, weight in self.taps:
            if not isinstance(weight, int):
                return None
            table[place.dy - self.top][place.dx - self.left] = weight
        pivot = next(row for row in table if any(row))
        by = gcd(*pivot)
        across = [one // by for one in pivot]
        at = next(n for n, one in enumerate(across) if one)
        down = [row[at] // across[at] for row in table]
        is_product = all(
            row == [one * each for each in across] for row, one in zip(table, down, strict=True)
        )
        fits = all(map(I8.holds, down)) and I16.holds(_most(down, self.samples))
        is_worth_it = self.rows > 1 and self.is_of_bytes and self.samples[0] >= 0
        return (tuple(down), tuple(across)) if is_product and fits and is_worth_it else None

    @property
    def knobs(self) -> tuple[Knob, ...]:
        kept = self.beyond * self.streams * (1 if self.column else self.rows)
        may_keep = 0 < kept <= _MOST_KEPT
        return (
            Knob(_VECTORS, self.choices, "vectors of a stream that are computed together"),
            Knob(_ROWS, self.heights, "rows that are computed together"),
            Knob(_KEPT, ("yes", "no") if may_keep else ("no",), "streams stay in registers"),
            clang.DEEPER,
        )

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        own = self.choices[0 if self.column else min(1, len(self.choices) - 1)]
        return {_VECTORS: own, _ROWS: self.heights[-1] if self.column else 1}

    def switches(self, config: Config) -> list[str]:
        return [*clang.NO_MERGED_LOADS, *super().switches(config)]

    def written(self, config: Config) -> tuple[str, str]:
        chosen = config.integer(_VECTORS), config.integer(_ROWS)
        is_static = self.problem.contract is Contract.STATIC
        each = [chosen] if is_static else [*dict.fromkeys((chosen, (self.choices[0], 1)))]
        own = {"type": self._element, "per": self.per, "left": self.left}
        functions = [_NEAR.format(**own), *([_REPEATED.format(**own)] if self.repeats else [])]
        for vectors, rows in each:
            functions += _Block(self, vectors, rows, config.text(_KEPT) == "yes").function()
        return "\n".join(self._loops(each)), "\n".join(functions)

    @property
    def _element(self) -> str:
        return f"{self.specs[self.image].dtype}_t"

    @cached_property
    def words(self) -> tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]:
        """The taps of each word that products take: one, or two of 8 bits."""
        given = [tap.weight for tap in self.ordered if not isinstance(tap.weight, int)]
        size = 2 if self.weights == I8 else 1
        return tuple(tuple(given[n : n + size]) for n in range(0, len(given), size))

    @cached_property
    def ordered(self) -> tuple[_Tap, ...]:
        """Its taps, row by row."""
        return tuple(sorted(self.taps, key=lambda one: (one.place.dy, one.place.dx)))

    def _loops(self, each: Sequence[tuple[int, int]]) -> Iterator[str]:
        row, column = self.begins
        is_flat, name = len(self.specs[-1].shape) == 1, f"input{self.image}"
        stride = "0" if len(self.specs[self.image].shape) == 1 else f"{name}_stride_1"
        out_stride = "0" if is_flat else "output_stride_1"
        yield f"const int width = output_extent_0, height = {1 if is_flat else 'output_extent_1'};"
        needed = f"{self.step} * (width - 1) + {self.most + 1}"
        yield f"const int has = {needed if self.repeats else f'{name}_extent_0 - {column}'};"
        if self.problem.contract is not Contract.STATIC:
            wrong = [f"width < {self.outputs_of(each[-1][0])}", f"has < {self.per}"]
            if self.repeats:
                inside = f"at_most(has, {name}_extent_0 - {self.left}) - {max(0, -self.left)}"
                wrong.append(f"{inside} < {self.per}")
            else:
                wrong.append(f"has < {needed}")
            if stride != "0":
                below = 1 if self.repeats else f"{self.down} * (height - 1) + {row + self.rows}"
                wrong.append(f"{name}_extent_1 < {below}")
            yield from (f"if ({one}) return CONSTRAINT_VIOLATED;" for one in wrong)
            yield from self._has_taps()
        yield "CHECKED"
        yield from self._packed()
        rows_of_band = self.down * (_BAND - 1) + self.rows
        if self.repeats:
            yield f"const int pitch = (has + {self.per - 1}) / {self.per} * {self.per};"
            yield f"{self._element} *band = scratch({rows_of_band} * pitch * sizeof(*band));"
        for vectors, rows in each:
            call = f"filtered_{vectors}_{rows}"
            yield f"if (width >= {self.outputs_of(vectors)} && height >= {rows}) {{"
            if self.repeats:
                yield f"for (int first = 0; first < height; first += {_BAND}) {{"
                yield f"const int top = at_most(first, height - {rows});"
                yield f"const int count = at_most(height - top, {_BAND});"
                begin, end = f"{self.down} * top + {self.top}", f"{name}_extent_1 - 1"
                yield f"for (int y = 0; y < {self.down} * (count - 1) + {self.rows}; ++y)"
                source = f"{name} + clamped({begin} + y, 0, {end}) * {stride}"
                yield f"repeat_edges({source}, {name}_extent_0, band + y * pitch, has);"
            else:
                yield "const int top = 0, count = height;"
            yield f"for (int y = 0; y < count; y += {rows}) {{"
            yield f"const int at = at_most(y, count - {rows});"
            place = f"{name} + ({self.down} * at + {row}) * {stride} + {column}, {stride}"
            if self.repeats:
                place = f"band + {self.down} * at * pitch, pitch"
            out = f"output + (top + at) * {out_stride}, {out_stride}"
            yield f"{call}({place}, has, {out}, width, words);"
            yield "}\nreturn 0;\n}" if not self.repeats else "}\n}\nreturn 0;\n}"

    def _has_taps(self) -> Iterator[str]:
        """Refuses fewer taps than there are in the program."""
        for number, spec in enumerate(self.specs[:-1]):
            for axis in range(len(spec.shape)) if number != self.image else ():
                last = max(
                    tap.weight[1][-1 - axis] for tap in self.taps if not isinstance(tap.weight, int)
                )
                yield f"if (input{number}_extent_{axis} <= {last}) return CONSTRAINT_VIOLATED;"

    def _packed(self) -> Iterator[str]:
        """The taps of an input as products take them: two bytes, twice, or a halfword in all."""
        if not self.words:
            yield "const V *const words = 0;"
            return
        number = 1 - self.image
        yield f"V *const words = scratch({len(self.words)} * sizeof(V));"
        for n, taps in enumerate(self.words):
            found = []
            for _, at in taps:
                *rows, column = at
                row = f"{rows[0]} * input{number}_stride_1 + " if rows else ""
                found.append(f"input{number}[{row}{column}]")
            if self.weights == I8:
                one, other = [*found, "0"][:2]
                text = f"(({one} & 0xFF) | ({other} & 0xFF) << 8) * 0x10001"
            else:
                text = f"({found[0]} & 0xFFFF) * 0x10001"
            yield f"words[{n}] = HVX(lvsplatw)({text});"


_NEAR = """/* The vector at a place of a row; of what lies beyond its end, anything. */
static inline __attribute__((always_inline)) V near(const {type} *row, int at, int has) {{
    const int from = at_most(at, has - {per});
    return HVX(vror)(*(const VU *)(row + from), (at - from) * (int)sizeof({type}));
}}
"""


_REPEATED = """/* Copies a row from a column on, with its first and last samples beyond its ends. */
static void repeat_edges(const {type} *row, int extent, {type} *to, int has) {{
    enum {{ left = {left}, begin = left < 0 ? -left : 0 }};
    const int end = at_most(has, extent - left);
    for (int n = begin; n < end; n += {per}) {{
        const int at = at_most(n, end - {per});
        *(VU *)(to + at) = *(const VU *)(row + left + at);
    }}
    for (int n = 0; n < begin; ++n) to[n] = row[0];
    for (int n = end; n < has; ++n) to[n] = row[extent - 1];
}}
"""


class _Block:
    """The function of blocks of so many ``vectors`` of each stream, and ``rows``."""

    def __init__(self, plan: Filter, vectors: int, rows: int, keeps: bool) -> None:
        self._plan, self._vectors, self._together = plan, vectors, rows
        self._keeps = keeps and vectors >= plan.beyond
        self._made: dict[object, str] = {}
        self._lines: list[str] = []
        self._row = ""
        self._samples = plan.samples
        self._rows = plan.down * (rows - 1) + plan.rows
        if plan.column:
            self._samples = _ends(plan.column[0], plan.samples)
            self._rows = rows
        magnitude = max(map(abs, self._samples))
        self._is_signed = I16.holds(self._samples[0]) and I16.holds(self._samples[1])
        weights = sum(abs(w) if isinstance(w, int) else self._most_weight for _, w in plan.taps)
        if plan.column:
            weights = sum(map(abs, plan.column[1]))
        self._is_exact = magnitude * weights <= I32.high

    @property
    def _most_weight(self) -> int:
        kind = self._plan.weights
        return max(-kind.low, kind.high) if kind else 0

    def function(self) -> Iterator[str]:
        plan, count = self._plan, self._vectors
        block = plan.outputs_of(count)
        held = [(r, s) for r in range(self._rows) for s in range(plan.streams)]
        reads = (count + plan.beyond) * plan.streams * plan.lanes
        element, kind = f"{plan.specs[plan.image].dtype}_t", f"{plan.specs[-1].dtype}_t"
        yield f"/* Rows of the output, {block} elements of {self._together} at once. */"
        yield f"static void filtered_{count}_{self._together}("
        yield f"    const {element} *restrict rows, const int stride, const int has,"
        yield f"    {kind} *restrict out, const int out_stride, const int width,"
        yield "    const V *restrict words) {"
        yield "int x = 0;"
        room = f"x + {block} <= width && {plan.step} * x + {reads} <= has"
        if self._keeps:
            yield f"if ({room}) {{"
            self._begun(f"{plan.step} * x", is_near=False)
            for r, s in held:
                for n in range(plan.beyond):
                    self._stream(r, s, n)
            yield from self._lines
            names = [f"k{r}_{s}_{n}" for r, s in held for n in range(plan.beyond)]
            firsts = [self._stream(r, s, n) for r, s in held for n in range(plan.beyond)]
            yield from (f"V {k} = {one};" for k, one in zip(names, firsts, strict=True))
        else:
            names = []
        yield f"for (; {room}; x += {block}) {{"
        self._begun(f"{plan.step} * x", is_near=False)
        if self._keeps:
            for r, s in held:
                for n in range(plan.beyond):
                    self._made["stream", r, s, n] = f"k{r}_{s}_{n}"
        self._body("x")
        lasts = [self._stream(r, s, count + n) for r, s in held for n in range(plan.beyond)]
        yield from self._lines
        yield from (f"{k} = {one};" for k, one in zip(names, lasts, strict=False))
        yield "}" + ("}" if self._keeps else "")
        yield "/* What is left, so that nothing beyond the row is read. */"
        yield f"for (; x < width; x += {block}) {{"
        yield f"const int at = at_most(x, width - {block});"
        self._begun(f"{plan.step} * at", is_near=True)
        self._body("at")
        yield from self._lines
        yield "}\n}"

    def _begun(self, at: str, *, is_near: bool) -> None:
        self._made, self._lines, self._at, self._is_near = {}, [], at, is_near

    def _named(self, key: object, prefix: str, kind: str, text: str) -> str:
        """The name of the vector ``text``, which is made once."""
        if key not in self._made:
            name = f"{prefix}{len(self._made)}"
            self._lines.append(f"const {kind} {name} = {text};")
            self._made[key] = name
        return self._made[key]

    # Streams

    def _loaded(self, row: int, number: int) -> str:
        """The vector of that ``number`` of samples of a row."""
        key = "load", row, number
        if key in self._made:
            return self._made[key]
        plan = self._plan
        base = f"rows + {row} * stride" if row else "rows"
        place = f"{self._at} + {number * plan.per}"
        kind = "V" if plan.is_aligned(plan.image, plan.begins[1]) else "VU"
        text = f"*(const {kind} *)({base} + {place})"
        if self._is_near:
            text = f"near({base}, {place}, has)"
        return self._named(key, "x", "V", text)

    def _widened(self, row: int, number: int) -> str:
        """A pair of even and odd bytes of a row, or sums of such down columns."""
        key = "pair", row, number
        if key in self._made:
            return self._made[key]
        plan = self._plan
        if plan.column is None:
            by = "vsb" if plan.samples[0] < 0 else "vzb"
            return self._named(key, "w", "W", f"HVX({by})({self._loaded(row, number)})")
        first, down = plan.down * row, plan.column[0]
        weighted = [(w, self._loaded(first + n, number)) for n, w in enumerate(down) if w]
        weighted.sort(key=lambda one: abs(one[0] - 1), reverse=True)
        total = ""
        while weighted:
            (one, vector), *weighted = weighted
            if weighted:
                (other, second), *weighted = weighted
                pair = f"HVX(vcombine)({second}, {vector})"
                text = added("vmpabus", total, pair, bytes_of(one, other))
            else:
                text = added("vmpybus", total, vector, bytes_of(one, one))
            total = self._named((key, len(weighted)), "w", "W", text)
        self._made[key] = total
        return total

    def _stream(self, row: int, stream: int, number: int, of: int | None = None) -> str:
        """A vector of a ``stream`` of a row, of so many."""
        of = of or self._plan.streams
        whole = of == self._plan.streams
        key = ("stream", row, stream, number) if whole else ("part", row, stream, number, of)
        if key in self._made:
            return self._made[key]
        if self._plan.is_of_bytes and of == 2:
            pair = self._widened(row, number)
            return self._named(key, "s", "V", halves(pair)[stream])
        if of == 1:
            return self._loaded(row, number)
        half = of // 2
        one, other = (self._stream(row, stream % half, 2 * number + n, half) for n in (0, 1))
        by = "vpackoh" if stream >= half else "vpackeh"
        return self._named(key, "s", "V", f"HVX({by})({other}, {one})")

    def _shifted(self, row: int, stream: int, position: int) -> str:
        """A stream from a ``position`` on."""
        number, shift = divmod(position, self._plan.lanes)
        own = self._stream(row, stream, number)
        if not shift:
            return own
        text = f"HVX(valignb)({self._stream(row, stream, number + 1)}, {own}, {2 * shift})"
        return self._named(("shifted", row, stream, position), "a", "V", text)

    # Sums

    def _terms(self, own: int, vector: int, phase: int) -> list[_Term]:
        """Those of an output's phase, in a row of the block's ``own``."""
        plan = self._plan
        found: list[tuple[int, int, int | str]] = []
        if plan.column:
            found = [(own, n, weight) for n, weight in enumerate(plan.column[1]) if weight]
        words = 0
        for place, weight in () if plan.column else plan.ordered:
            number = weight if isinstance(weight, int) else str(words)
            words += not isinstance(weight, int)
            found.append((plan.down * own + place.dy - plan.top, place.dx - plan.left, number))
        terms = []
        for row, dx, number in found:
            shift, stream = divmod(plan.step * phase + dx, plan.streams)
            terms.append(_Term(row, stream, vector * plan.lanes + shift, number))
        return terms

    def _added_up(self, terms: list[_Term]) -> Iterator[tuple[list[_Term], int | str]]:
        """Terms of one weight, or of its opposite, as far as 16 bits hold their sum, and it."""
        together = I16.high // max(1, *map(abs, self._samples))
        groups: dict[int | str, list[_Term]] = {}
        for term in terms:
            key = term.weight if isinstance(term.weight, str) else abs(term.weight)
            groups.setdefault(key, []).append(term)
        for group in groups.values():
            ordered = sorted(group, key=lambda one: (one.weight != group[0].weight, *one[:3]))
            for first in range(0, len(group), max(1, together)):
                some = ordered[first : first + max(1, together)]
                yield some, some[0].weight

    def _vector(self, terms: Sequence[_Term]) -> str:
        """Terms of one weight, or of its opposite, added up."""
        total = self._shifted(*terms[0][:3])
        for n, term in enumerate(terms[1:], 2):
            is_same = term.weight == terms[0].weight
            text = f"HVX({'vaddh' if is_same else 'vsubh'})({total}, {self._shifted(*term[:3])})"
            key = "sum", tuple((*one[:3], one.weight == terms[0].weight) for one in terms[:n])
            total = self._named(key, "t", "V", text)
        return total

    def _products(self, terms: list[_Term]) -> Iterator[tuple[str, str]]:
        """Each as the first, and as what is added to a sum ``{}``; vectors are made as late as they
        are needed, so that they stay in registers."""
        plan, items, is_signed = self._plan, [*self._added_up(terms)], self._is_signed
        numbers = [(some, weight) for some, weight in items if isinstance(weight, int)]
        pairs = [one for one in numbers if I8.holds(one[1])]
        single: list[tuple[list[_Term], int | str]] = [*(pairs[-1:] if len(pairs) % 2 else [])]
        single += (one for one in numbers if one not in pairs)
        given = [(some, int(weight)) for some, weight in items if isinstance(weight, str)]
        if plan.weights != I8:
            single += ((some, f"words[{word}]") for some, word in given)
            given = []
        for n in range(0, len(given), 2):
            (one, word), (other, _) = given[n], given[min(n + 1, len(given) - 1)]
            two = self._vector(one), self._vector(other)
            scalar = f"((const int *)(words + {word // 2}))[0]"
            yield product_of_two(two, scalar, is_signed=is_signed)
        for n in range(0, len(pairs) - 1, 2):
            (one, weight), (other, second) = pairs[n : n + 2]
            two = self._vector(one), self._vector(other)
            yield product_of_two(two, bytes_of(weight, second), is_signed=is_signed)
        for some, own in single:
            vector, is_exact = self._vector(some), self._is_exact
            yield product_of(vector, own, plan.weights, is_signed=is_signed, is_exact=is_exact)

    def _body(self, x: str) -> None:
        plan = self._plan
        across = [(u, q) for u in range(self._vectors) for q in range(plan.phases)]
        places = [(own, *one) for own in range(self._together) for one in across]
        each = [self._products(self._terms(*one)) for one in places]
        totals = [f"sum{own}_{u}_{q}" for own, u, q in places]
        for n, products in enumerate(zip(*each, strict=True)):
            for name, (first, more) in zip(totals, products, strict=True):
                text = f"{name} = {more.format(name)};" if n else f"W {name} = {first};"
                self._lines.append(text)
        stored = _Stored(plan, self._vectors, is_near=self._is_near)
        for own in range(self._together):
            some = totals[own * len(across) : (own + 1) * len(across)]
            stored.store(f"out + {own} * out_stride + {x}", some)
        self._lines += stored.lines


class _Stored:
    """What stores the sums of a block."""

    def __init__(self, plan: Filter, vectors: int, *, is_near: bool) -> None:
        self._plan, self._vectors = plan, vectors
        self._narrowing = Narrowing(plan.ending, plan.kind)
        self._type = "V" if plan.is_aligned(len(plan.specs) - 1) and not is_near else "VU"

    @property
    def lines(self) -> list[str]:
        """The C of what is stored."""
        return self._narrowing.lines

    def store(self, place: str, totals: Sequence[str]) -> None:
        """Stores a row of a block at ``place``."""
        plan, narrowing = self._plan, self._narrowing
        phases, bits = plan.phases, plan.kind.bits
        vectors: list[str] = []
        for u in range(self._vectors):
            own = [narrowing.words(one) for one in totals[u * phases : (u + 1) * phases]]
            if bits == I32.bits:
                vectors += self._in_order([halves(one) for one in own])
                continue
            narrow = [narrowing.halfwords(one) for one in own]
            if phases == 1 or bits == I8.bits:
                vectors += narrow
            else:
                pair = narrowing.made("W", f"HVX(vshuffvdd)({narrow[1]}, {narrow[0]}, -2)")
                vectors += halves(pair)
        if bits == I8.bits:
            by = ("vpackhub_sat", "vpackeb") if phases == 1 else ("vsathub", "vshuffeb")
            name = by[not narrowing.saturates]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [f"HVX({name})({other}, {one})" for one, other in pairs]
        size = plan.problem.target.lanes(plan.specs[-1].element_bytes)
        for n, vector in enumerate(vectors):
            self.lines.append(f"*({self._type} *)({place} + {n * size}) = {vector};")

    def _in_order(self, phases: list[list[str]]) -> list[str]:
        """Words of one phase or two, even and odd ones of each apart, in order."""
        made = self._narrowing.made
        apart = [made("W", f"HVX(vshuffvdd)({b}, {a}, -4)") for a, b in phases]
        if len(apart) == 1:
            return halves(apart[0])
        ordered = []
        for one, other in zip(*map(halves, apart), strict=True):
            ordered += halves(made("W", f"HVX(vshuffvdd)({other}, {one}, -4)"))
        return ordered


def _taps_of(total: Pixel) -> Iterator[_Tap]:
    parts = total.parts if total.kind == "sum" else (total,)
    weights = total.value[:-1] if total.kind == "sum" else (1,)
    for part, weight in zip(parts, weights, strict=True):
        if part.kind == "pixel" and (I16.holds(weight) or U16.holds(weight)):
            yield _Tap(part.value, weight)
        elif part.kind == "times" and weight == 1 and part.parts[0].kind == "pixel":
            sample, tap = part.parts
            yield _Tap(sample.value, tap.value)
        else:
            raise NoPlanError("it sums up other things than samples by taps of 16 bits")


def _type_of(spec: BufferSpec) -> Type:
    found = Type.named(spec.dtype.replace("uint", "u").replace("int", "i"))
    if found is None:
        raise NoPlanError(f"{spec.name} is of {spec.dtype}")
    return found


def _ends(weights: Sequence[int], samples: tuple[int, int]) -> tuple[int, int]:
    """The least and the greatest sum of samples by weights."""
    low, high = samples
    each = [sorted((w * low, w * high)) for w in weights]
    return sum(one for one, _ in each), sum(one for _, one in each)


def _most(weights: Sequence[int], samples: tuple[int, int]) -> int:
    return max(map(abs, _ends(weights, samples)))
