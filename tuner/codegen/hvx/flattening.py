"""Plans of windows over images of u8 whose pixels have any number of channels, side by side.

A row of such an image is a row of bytes, and a pixel ``j`` further on is as many times the channels
further: whatever the number of channels, vectors are full. What there is of each channel, weights
or scales, lies repeated in tables, from which a vector is loaded at the channel where the
vector of pixels begins. Rows are copied with what is beyond their edges; where windows go on by
several pixels or rows, pixels are copied apart, so that those of one place in windows follow one
another. Rows that are short are gone through as one, pixels between them included. ``flattening.h``
has the copying.

Sums of products are words in order (``vrmpy`` of four pixels next to each other, interleaved);
halfwords of them are those of words 64 apart, and bytes are dealt at the end. Sums of bytes that 16
bits hold are even and odd halfwords.

Source: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44, for each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, product
from math import inf, prod
from pathlib import Path
from typing import NamedTuple, Self

from tuner.codegen import clang, wrapping
from tuner.codegen.hvx.lowering import FOLDS, clamped_to
from tuner.codegen.hvx.pixel import NotAStencilError, Pixel, clamped, constant
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.stencils import Sample, pixel_of
from tuner.codegen.hvx.words import bytes_of, halves
from tuner.codegen.hvx.writing import bytes_of as table_of
from tuner.codegen.hvx.writing import ways_to
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program import Program
from tuner.program.types import I8, I16, I32, U8, U16
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_WALK, _ROWS = "hvx_walk", "hvx_rows"
_CHOICES = (1, 2, 4)
_FUNCTIONS = [
    wrapping.STORING,
    Path(__file__).with_name("narrow.h"),
    Path(__file__).with_name("flattening.h"),
]
_BAND_BYTES, _LEAST_BAND = 1 << 17, 8
"""Of the rows of an image that are copied at once: they stay in the second cache, from which
vectors are loaded."""
_LONG = 4
"""Vectors of a row from which on whole ones are worth it."""
_MOST_VALUES = 400
"""Parts of the expression."""
_WORTH_IT = 1.25
"""Bytes that are computed for one of a row's, up to which a row is gone through by itself."""
_NO_PREDICATES = ("-mllvm", "-hexagon-eif=0")
"""LLVM makes branches of a store off vector boundaries to predicated ones, which it cannot emit
(``avg_pool_u8``, 29x48x18, two rows together: V6_vS32Ub_pred_ai)."""
_NEARLY, _MOST_VECTORS = 1.2, 8
"""Bytes of vectors for one of whole pixels, up to which no more vectors are looked at."""
_GROUP = 4
"""Products of bytes that ``vrmpy`` adds up."""
_SCALE_BITS = 31


@dataclass(frozen=True)
class Flat(Plan):
    """The output's ``pixel``, whose samples are of the buffer ``image``."""

    accepted = "windows over pixels of any number of channels, side by side"

    pixel: Pixel
    image: int
    specs: tuple[BufferSpec, ...]
    problem: Problem
    folded: _Fold | None = None
    """What becomes of rows of the image as they are copied."""
    is_picked: bool = False
    """Whether of windows that go on by several pixels all are computed, and those are kept."""
    is_interleaved: bool = False
    """Whether four rows lie byte by byte next to each other, as products add them up."""

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        if problem.contract is not Contract.STATIC:
            raise NoPlanError("")
        found = pixel_of(program, tuple((spec.name, spec.shape) for spec in specs))
        if isinstance(found, NotAStencilError):
            raise NoPlanError(str(found))
        parts = found.inner()
        samples = [one.value for one in parts if one.kind == "pixel"]
        names = [one.name for one in program.inputs]
        used = {one.value[0] for one in parts if one.kind == "tap"}
        used |= {one.beyond[0] for one in samples if isinstance(one.beyond, tuple)}
        if len({(one.image, one.down, one.step) for one in samples}) != 1:
            raise NoPlanError("it has pixels of no image, or of several")
        if {*names} != {samples[0].image, *used}:
            raise NoPlanError("it has inputs that it does not read")
        if len({one.beyond for one in samples} - {None}) > 1:
            raise RefusedError("beyond its image there are several values")
        if len(parts) > _MOST_VALUES:
            raise RefusedError(f"it has more than {_MOST_VALUES} values")
        for spec in specs:
            strides = layout_of(spec, problem.contract, problem.target).strides
            if spec.loose or any(spec.mins) or strides[0] != prod(spec.shape[1:]):
                raise RefusedError("its buffers are loose, or do not begin at 0")
        pixel, folded = _folded(found)
        made = cls(pixel, names.index(samples[0].image), tuple(specs), problem, folded)
        if made.shown < 1:
            raise RefusedError("it reads only what is beyond its image")
        made.written(Config({_WALK: made.walks[0], _ROWS: 1}))
        return made

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """The pixels of a window."""
        return tuple(sorted({one.value for one in self.pixel.inner() if one.kind == "pixel"}))

    @property
    def lanes(self) -> int:
        """Bytes of a vector."""
        return self.problem.target.lanes(1)

    @property
    def channels(self) -> int:
        """Bytes of a pixel."""
        return self.specs[-1].shape[-1]

    @property
    def bytes_of_row(self) -> int:
        """Of the output."""
        return self.specs[-1].shape[1] * self.channels

    @cached_property
    def beyond(self) -> str | int | tuple[str, tuple[int, ...]] | None:
        """What there is beyond the image."""
        return next((one.beyond for one in self.samples if one.beyond is not None), None)

    @property
    def is_copied(self) -> bool:
        """Whether rows of the image are copied before all else."""
        return self.beyond is not None or self.folded is not None

    @cached_property
    def first(self) -> tuple[int, int]:
        """Row and column of the first pixel of a window, from the output's."""
        return min(one.dy for one in self.samples), min(one.dx for one in self.samples)

    @cached_property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from there to the last."""
        top, left = self.first
        return (
            max(one.dy for one in self.samples) - top,
            max(one.dx for one in self.samples) - left,
        )

    @property
    def step(self) -> tuple[int, int]:
        """Rows and columns from a window to the next."""
        return self.samples[0].down, self.samples[0].step

    @property
    def is_apart(self) -> bool:
        """Whether pixels are copied apart."""
        return self.step != (1, 1) and not self.is_picked

    @cached_property
    def sides(self) -> tuple[int, int]:
        """Pixels of a copied row before the image and after it."""
        if not self.is_copied:
            return 0, 0
        _, left = self.first
        end = self.step[1] * (self.specs[-1].shape[1] - 1) + left + self.reach[1] + 1
        return max(0, -left), max(0, end - self.specs[self.image].shape[1])

    @property
    def shown(self) -> int:
        """Pixels of the image in a copied row."""
        _, columns, _ = self.specs[self.image].shape
        if not self.is_copied:
            return columns
        _, left = self.first
        end = self.step[1] * (self.specs[-1].shape[1] - 1) + left + self.reach[1] + 1
        return min(columns, end) - max(0, left)

    @property
    def raw_pitch(self) -> int:
        """Bytes from a row of the image, as it is copied, to the next: long ones begin alike."""
        size = (sum(self.sides) + self.shown) * self.channels
        return -(-size // self.lanes) * self.lanes if self.begins_alike else size

    @property
    def begins_alike(self) -> bool:
        """Whether all copied rows begin as far from a vector boundary."""
        return self.is_copied and self.bytes_of_row >= _LONG * self.lanes

    @property
    def lead(self) -> int:
        """How far that is: where most of a window's pixels, or else the image's own, are on one."""
        if not self.begins_alike or self.is_interleaved:
            return 0
        before, lanes = self.sides[0] * self.channels, self.lanes
        places = [(one.dx - self.first[1]) * self.channels % lanes for one in self.samples]
        most = max(range(lanes), key=lambda lead: places.count(-lead % lanes))
        own = -before % lanes
        is_steady = self.advance % lanes == 0 and not self.is_apart
        is_better = places.count(-most % lanes) > places.count(-own % lanes)
        return most if is_steady and is_better else own

    @property
    def pitch(self) -> int:
        """Bytes from a row of pixels of one place in windows to the next."""
        if not self.is_apart:
            return self.raw_pitch
        return (self.specs[-1].shape[1] + self.reach[1] // self.step[1]) * self.channels

    @property
    def count(self) -> int:
        """Rows of the output that are made at once."""
        height = self.specs[-1].shape[0]
        fitting = (_BAND_BYTES // self.raw_pitch - self.reach[0]) // self.step[0]
        bands = -(-height // max(fitting, _LEAST_BAND))
        return -(-height // bands)

    @property
    def raw_rows(self) -> int:
        """Rows of the image for those."""
        return self.step[0] * (self.count - 1) + self.reach[0] + 1

    @cached_property
    def planes(self) -> tuple[tuple[int, int], ...]:
        """The row and column of windows, modulo steps, of which there are pixels apart."""
        (down, step), (top, left) = self.step, self.first
        found = {((one.dy - top) % down, (one.dx - left) % step) for one in self.samples}
        return tuple(sorted(found))

    @property
    def plane_bytes(self) -> int:
        """Of the pixels of one of them."""
        rows = self.count + self.reach[0] // self.step[0]
        return -(-(rows * self.pitch) // self.lanes) * self.lanes + 2 * self.lanes

    @property
    def served(self) -> int:
        """Rows of the output whose windows have the rows of an image that lie interleaved."""
        return max(1, _GROUP - self.reach[0])

    @property
    def fours(self) -> int:
        """How often rows of an image lie interleaved."""
        return -(-self.count // self.served)

    @property
    def bytes_of_four(self) -> int:
        """Of four rows that lie interleaved, in whole vectors."""
        return _GROUP * (-(-self.raw_pitch // self.lanes) * self.lanes)

    @cached_property
    def may_interleave(self) -> bool:
        """Whether windows are sums of products alone, and rows that lie interleaved take no more of
        them."""
        columns = len({one.dx for one in self.samples})
        rows = len({one.dy for one in self.samples})
        is_worth_it = columns <= rows * -(-columns // _GROUP)
        if self.step != (1, 1) or not (0 < self.reach[0] < _GROUP - 1 and is_worth_it):
            return False
        plan = replace(self, is_interleaved=True)
        try:
            _Block(plan, _Tables(plan), is_by_rows=True).bytes_of(plan.pixel, 0)
        except NoPlanError:
            return False
        return True

    def place(self, sample: Sample) -> int:
        """Where its bytes are for the first pixel of the output."""
        (down, step), (top, left) = self.step, self.first
        row, column = sample.dy - top, sample.dx - left
        if not self.is_apart:
            return row * self.pitch + column * self.channels
        plane = self.planes.index((row % down, column % step))
        own = row // down * self.pitch + column // step * self.channels
        return plane * self.plane_bytes + own

    @cached_property
    def has_tables(self) -> bool:
        """Whether there is anything of each channel."""
        return any(one.kind == "tap" for one in self.pixel.inner())

    @cached_property
    def block(self) -> int:
        """Vectors of a block: of whole pixels, if the vectors are then nearly full, so that all
        blocks begin with the same channel."""
        if not self.has_tables:
            return 1

        def times(vectors: int) -> float:
            whole = vectors * self.lanes // self.channels * self.channels
            return vectors * self.lanes / whole if whole else inf

        full = (n for n in range(1, _MOST_VECTORS + 1) if times(n) <= _NEARLY)
        return next(full, min(range(1, _MOST_VECTORS + 1), key=times))

    @property
    def advance(self) -> int:
        """Bytes of the output from a block to the next."""
        if self.is_picked and self.step[1] > 1:
            return self.group * self.channels
        whole = self.block * self.lanes // self.channels * self.channels
        is_worth_it = self.has_tables and self.block * self.lanes <= _WORTH_IT * whole
        return whole if is_worth_it else self.lanes

    @property
    def group(self) -> int:
        """Pixels of the output that are picked of a vector."""
        return max(1, self.lanes // (self.step[1] * self.channels))

    @property
    def is_single(self) -> bool:
        """Whether a vector has one pixel of the output, and little else is done than to load what
        its neighbours load as well."""
        is_of_one = self.is_picked and self.step[1] > 1 and self.group == 1
        return is_of_one and self.folded is not None

    @property
    def moved(self) -> int:
        """Bytes of the input between what is computed together."""
        return self.step[1] * self.channels if self.is_single else self.down

    @property
    def down(self) -> int:
        """Bytes from the first pixel for a row of the output to that for the next."""
        return self.pitch * (1 if self.is_apart else self.step[0])

    @property
    def is_steady(self) -> bool:
        """Whether all vectors begin with the first channel."""
        return self.advance % self.channels == 0

    @property
    def walks(self) -> tuple[str, ...]:
        """Ways to go through rows, the best first."""
        vectors = -(-self.bytes_of_row // self.lanes)
        is_worth_it = vectors * self.lanes <= _WORTH_IT * self.bytes_of_row
        by_rows = ("rows",) if self.bytes_of_row >= self.lanes else ()
        may_pick = self.is_apart and (self.step[1] == 1 or self.channels <= self.lanes)
        picked = ("picked",) if may_pick else ()
        first = (*by_rows, "all") if is_worth_it else ("all", *by_rows)
        first = by_rows if self.begins_alike else first
        if by_rows and self.may_interleave:
            is_aligned = _GROUP * self.channels % self.lanes == 0
            first = ("interleaved", *first) if is_aligned else (*first, "interleaved")
        has_products = any(one.kind == "times" for one in self.pixel.inner())
        return (*first, *picked) if has_products and self.group > 1 else (*picked, *first)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        heights = tuple(n for n in _CHOICES if n <= self.count)
        return (
            Knob(_WALK, self.walks, "rows are gone through by themselves, or all as one"),
            Knob(_ROWS, heights, "rows, or else pixels, that are computed together"),
            clang.DEEPER,
        )

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        are_many = self.has_tables or self.folded
        return {_ROWS: self.knobs[1].choices[-1] if are_many else 1}

    def switches(self, config: Config) -> list[str]:
        return [*clang.NO_MERGED_LOADS, *_NO_PREDICATES, *super().switches(config)]

    def written(self, config: Config) -> tuple[str, str]:
        walk = config.text(_WALK)
        plan = replace(self, is_picked=walk == "picked", is_interleaved=walk == "interleaved")
        return plan._written(config, is_by_rows=walk != "all")

    def _written(self, config: Config, *, is_by_rows: bool) -> tuple[str, str]:
        by_rows = is_by_rows and not self.is_picked
        rows = min(config.integer(_ROWS), self.count) if by_rows else 1
        if self.is_interleaved:
            rows = -(-rows // self.served) * self.served
        pixels = min(config.integer(_ROWS), self.specs[-1].shape[1]) if self.is_single else 1
        tables = _Tables(self)
        block = _Block(self, tables, is_by_rows=is_by_rows)
        stored = [block.bytes_of(self.pixel, row) for row in range(max(rows, pixels))]
        apart = self.channels if self.is_single else self.bytes_of_row
        kind = (
            "VU"
            if self.advance % self.lanes or (is_by_rows and self.bytes_of_row % self.lanes)
            else "V"
        )
        lines = [*block.lines]
        if self.is_picked and self.group > 1 and self.step[1] > 1:
            stored = [f"HVX(vrdelta)({one}, *(const V *)apart0)" for one in stored]
        lines += [f"*({kind} *)(out + {row * apart}) = {one};" for row, one in enumerate(stored)]
        given = "const uint8_t *restrict in, const uint8_t *restrict tables"
        computed = [
            f"INLINE void computed({given}, int phase, uint8_t *restrict out) {{",
            *lines,
            "}",
        ]
        before = [path.read_text() for path in _FUNCTIONS]
        loops = [*self._inputs(), *tables.made(), *self._bands(is_by_rows, rows, pixels)]
        return "\n".join(loops), "\n".join([*before, *self._copying(), *computed])

    # Loops

    def _inputs(self) -> Iterator[str]:
        """Inputs as bytes, and their ends: those of less than a vector with what fills one."""
        for number, spec in enumerate(self.specs[:-1]):
            size = spec.payload_bytes
            yield f"const uint8_t *bytes{number} = (const uint8_t *)input{number};"
            if size < self.lanes:
                yield f"V small{number};"
                yield f"copy_all((uint8_t *)&small{number}, bytes{number}, {size});"
                yield f"bytes{number} = (const uint8_t *)&small{number};"
            end = max(size, self.lanes)
            yield f"const uint8_t *const end{number} = bytes{number} + {end};"

    def _bands(self, is_by_rows: bool, rows: int, pixels: int) -> Iterator[str]:
        height, apart = self.specs[-1].shape[0], self.bytes_of_row
        top, left = self.first
        yield from self._scratch(rows * apart if is_by_rows else self.count * self.pitch)
        yield f"for (int n = 0; n < {height}; n += {self.count}) {{"
        yield f"const int first = at_most(n, {height - self.count});"
        row = f"{self.step[0]} * first"
        if self.is_copied:
            given = f"raw + {self.lead}, bytes{self.image}, end{self.image}, {row} + {top}"
            yield f"copy_rows_of({given}, around);"
            yield f"const uint8_t *in = raw + {self.lead};"
        else:
            start = f"({row} + {top}) * {self.raw_pitch} + {left * self.channels}"
            yield f"const uint8_t *in = bytes{self.image} + {start};"
            yield f"if (in + {self._reads} > end{self.image}) {{"
            size = self.raw_rows * self.raw_pitch - left * self.channels
            yield f"copy_bytes(raw, in, end{self.image}, {size});"
            yield "in = raw;"
            yield "}"
        if self.is_interleaved:
            yield "interleave(pixels, in);"
            yield "in = pixels;"
        if self.is_apart:
            yield "copy_apart(pixels, in);"
            yield "in = pixels;"
        if is_by_rows:
            # Vectors go from right to left, so that of what the last has beyond its row nothing
            # stays; beyond the output there may be none.
            yield f"for (int y = 0; y < {self.count}; y += {rows}) {{"
            if self.is_interleaved:
                yield "const int row = y;"
                yield f"const uint8_t *from = in + row / {self.served} * {self.bytes_of_four};"
            else:
                yield f"const int row = at_most(y, {self.count - rows});"
                yield f"const uint8_t *from = in + row * {self.down};"
            yield f"uint8_t *own = (uint8_t *)output + (first + row) * {apart};"
            yield f"const int room = ({height} - first - row) * {apart};"
            beyond = (apart - 1) // self.advance * self.advance + self.block * self.lanes
            yield f"uint8_t *to = room < {(rows - 1) * apart + beyond} ? made : own;"
            yield from self._walked(apart, "from", "to", pixels)
            some = f"at_most({rows}, {self.count} - row)"
            yield f"if (to == made) store_rows(own, made, {apart}, {apart}, {some}, room);"
            yield "}"
        else:
            yield from self._walked((self.count - 1) * self.pitch + apart, "in", "made")
            yield f"uint8_t *to = (uint8_t *)output + first * {apart};"
            room = f"({height} - first) * {apart}"
            yield f"store_rows(to, made, {self.pitch}, {apart}, {self.count}, {room});"
        yield "}"

    @property
    def _reads(self) -> int:
        """Bytes of the image, or of rows of it that were copied, that are read."""
        pixels = self.step[1] * (self.specs[-1].shape[1] + 1) + self.reach[1]
        return (self.raw_rows - 1) * self.raw_pitch + pixels * self.channels + 2 * self.lanes

    def _scratch(self, made: int) -> Iterator[str]:
        raw = max(self.raw_rows * self.raw_pitch, self._reads)
        yield f"uint8_t *raw = scratch({raw + 3 * self.lanes});"
        if self.is_interleaved:
            beyond = _GROUP * (self.block + 2) * self.lanes
            yield f"uint8_t *pixels = scratch({self.fours * self.bytes_of_four + beyond});"
        if self.is_apart:
            yield f"uint8_t *pixels = scratch({len(self.planes) * self.plane_bytes});"
        yield f"uint8_t *made = scratch({made + 3 * self.lanes});"
        if self.beyond not in (None, "edges"):
            value = str(self.beyond)
            if isinstance(self.beyond, tuple):
                number, at = self.element(*self.beyond)
                value = f"((const uint8_t *)bytes{number})[{at}]"
            yield f"const V around = HVX(lvsplatw)(0x01010101 * {value});"
        elif self.is_copied:
            yield "const V around = HVX(vd0)();"
        yield "CHECKED"

    def _walked(self, count: int, source: str, made: str, pixels: int = 1) -> Iterator[str]:
        """Computes so many bytes, some ``pixels`` of windows together where each is by itself."""
        last = (count - 1) // self.advance * self.advance
        channels = self.channels
        if self.is_picked and self.step[1] > 1:  # what is beyond one's pixels is the next one's
            moved = pixels * self.advance
            yield f"for (int n = 0; n <= {last}; n += {moved}) {{"
            yield f"const int at = at_most(n, {last + self.advance - moved});"
            yield f"computed({source} + at * {self.step[1]}, tables, 0, {made} + at);"
            yield "}"
            return
        # Channels at which vectors begin, or their places in a block, go round.
        size, lanes = self.block * self.lanes, self.lanes
        begin, moved, around = last % channels, self.advance % channels, channels
        step, wrapped = lanes, lanes
        if self.is_steady:
            begin, moved, around = (count - 1 - last) // lanes * lanes, lanes, size
            last, wrapped = last + begin, self.advance - size + lanes
        vectors = 1 + (count - 1) // self.advance * self.block + begin // lanes * self.is_steady
        yield f"int at = {last}, phase = {begin};"
        yield f"for (int n = 0; n < {vectors}; ++n) {{"
        by = f"{_GROUP} * " if self.is_interleaved else ""
        yield f"computed({source} + {by}at, tables, phase, {made} + at);"
        yield f"const int is_next = phase < {moved};"
        yield f"at -= is_next ? {wrapped} : {step};"
        yield f"phase += is_next ? {around - moved} : {-moved};"
        yield "}"

    def element(self, name: str, at: Sequence[int | None]) -> tuple[int, int]:
        """The number of the buffer ``name``, and which of its elements is the first at a place."""
        number = [spec.name for spec in self.specs].index(name)
        spec, flat = self.specs[number], 0
        for index, extent in zip(at, spec.shape, strict=True):
            flat = flat * extent + (index or 0)
        return number, flat

    def _copying(self) -> Iterator[str]:
        """Functions that copy rows with what is beyond their edges, and pixels apart."""
        if self.is_copied:
            yield from self._copied_rows()
        if self.is_interleaved:
            yield from self._interleaved_rows()
        if self.is_apart or self.is_picked:
            yield from self._ways_apart()
        if self.is_apart:
            yield from self._copied_apart()

    def _copied_rows(self) -> Iterator[str]:
        rows, columns, channels = self.specs[self.image].shape
        before, after = (n * channels for n in self.sides)
        shown = self.shown * channels
        yield "static __attribute__((noinline)) void copy_rows_of("
        yield "    uint8_t *restrict to, const uint8_t *restrict image, const uint8_t *end,"
        yield "    int row, V around) {"
        yield f"for (int n = 0; n < {self.raw_rows}; ++n, ++row, to += {self.raw_pitch}) {{"
        has_edges = self.beyond in (None, "edges")
        if not has_edges:
            yield f"if (row < 0 || row >= {rows}) {{"
            yield f"fill(to, around, {self.raw_pitch});"
            yield "continue;"
            yield "}"
        by, each, down = self.folded or _Fold("max", (0,), 1)
        start = max(0, self.first[1]) * channels
        for k, dy in enumerate(each):
            own = f"clamped({down} * row + {dy}, 0, {rows - 1})" if has_edges else "row"
            yield f"const uint8_t *from{k} = image + {own} * {columns * channels} + {start};"
        if before and not has_edges:
            yield f"fill(to, around, {before});"
        left, right = (has_edges * n for n in self.sides)
        first, last = (left, 0, 0), (right, before + shown, shown - channels)
        # Whole vectors of the image are read on vector boundaries, of rows with more after them.
        yield f"if (from{len(each) - 1} + {shown + 2 * self.lanes} <= end) {{"
        yield from self._pixels(by, len(each), first, "*(const VU *)({})")
        yield from self._joined_rows(by, len(each), before, shown)
        yield from self._pixels(by, len(each), last, "*(const VU *)({})")
        yield "} else {"
        yield from self._pixels(by, len(each), first, "before({}, end)")
        yield from self._pixels(by, len(each), (1, before, 0), "before({}, end)", shown)
        yield from self._pixels(by, len(each), last, "before({}, end)")
        yield "}"
        if after and not has_edges:
            yield f"fill(to + {before + shown}, around, {after});"
        yield "}\n}"

    def _joined_rows(self, by: str, count: int, before: int, shown: int) -> Iterator[str]:
        """C of the image's part of a copied row: vectors as they lie, or each of two that follow
        one another."""
        lanes, (_, columns, channels) = self.lanes, self.specs[self.image].shape
        places = self.lead + before, self.raw_pitch
        kind = "VU" if any(one % lanes for one in places) else "V"
        start = max(0, self.first[1]) * channels
        is_aligned = not (start % lanes or columns * channels % lanes)
        for k in range(count):
            yield f"const V *own{k} = (const V *)((uintptr_t)from{k} & -VECTOR_BYTES);"
            yield "" if is_aligned else f"V part{k} = *own{k}++;"
        yield f"for (int at = 0; at < {shown}; at += VECTOR_BYTES) {{"
        made = ""
        for k in range(count):
            yield f"const V next{k} = *own{k}++;"
            own = f"HVX(valignb)(next{k}, part{k}, (uintptr_t)from{k})"
            own = f"next{k}" if is_aligned else own
            made = f"HVX({FOLDS[by]})({made}, {own})" if made else own
        yield f"*({kind} *)(to + {before} + at) = {made};"
        yield from (f"part{k} = next{k};" for k in range(count) if not is_aligned)
        yield "}"

    def _pixels(
        self, by: str, count: int, part: tuple[int, int, int], load: str, size: int = 0
    ) -> Iterator[str]:
        """C of a pixel of a copied row, or of ``size`` bytes, as often as ``part`` says first; then
        it says where they go, and where in rows they come from."""
        times, place, first = part
        made = ""
        for k in range(count):
            own = load.format(f"from{k} + {first} + at")
            made = f"HVX({FOLDS[by]})({made}, {own})" if made else own
        if times:
            yield f"for (int k = 0; k < {times}; ++k)"
            yield f"for (int at = 0; at < {size or self.channels}; at += VECTOR_BYTES)"
            yield f"*(VU *)(to + {place} + {self.channels} * k + at) = {made};"

    def _interleaved_rows(self) -> Iterator[str]:
        places = (self.lead, self.raw_pitch) if self.is_copied else (1,)
        kind = "VU" if any(one % self.lanes for one in places) else "V"
        yield "static __attribute__((noinline)) void interleave("
        yield "    uint8_t *restrict to, const uint8_t *restrict from) {"
        yield f"for (int n = 0; n < {self.fours}; ++n) {{"
        for k in range(_GROUP):
            row = f"at_most({self.served} * n + {k}, {self.raw_rows - 1})"
            yield f"const {kind} *row{k} = (const {kind} *)(from + {row} * {self.raw_pitch});"
        # Of one vector at once LLVM makes a loop that it pipelines.
        yield '_Pragma("clang loop unroll(disable)")'
        yield f"for (int left = {-(-self.raw_pitch // self.lanes)}; left > 0; --left) {{"
        yield from (f"const V v{k} = *row{k}++;" for k in range(_GROUP))
        yield "const W w0 = HVX(vshuffvdd)(v1, v0, -1), w1 = HVX(vshuffvdd)(v3, v2, -1);"
        for half in ("lo", "hi"):
            yield f"const W {half} = HVX(vshuffvdd)(HVX({half})(w1), HVX({half})(w0), -2);"
        for half in ("lo", "hi"):
            for own in ("lo", "hi"):
                yield f"*(V *)to = HVX({own})({half}); to += VECTOR_BYTES;"
        yield "}\n}\n}"

    def _ways_apart(self) -> Iterator[str]:
        """Those of ``vrdelta`` that put the pixels of a column of windows together."""
        step, channels = self.step[1], self.channels
        group = self.lanes // (step * channels)
        for column in sorted({column for _, column in self.planes}) if group else ():
            picked = product(range(group), range(channels))
            places = ((step * n + column) * channels + c for n, c in picked)
            ways = ways_to(enumerate(places), self.lanes, is_upwards=True)
            yield table_of(f"apart{column}", ways)

    def _copied_apart(self) -> Iterator[str]:
        (down, step), channels = self.step, self.channels
        group = self.lanes // (step * channels)
        pixels = self.pitch // channels
        yield "static __attribute__((noinline)) void copy_apart("
        yield "    uint8_t *restrict to, const uint8_t *restrict from) {"
        for row, planes in groupby(self.planes, key=lambda one: one[0]):
            own = [(column, self.planes.index((row, column))) for _, column in planes]
            rows = (self.raw_rows - row + down - 1) // down
            yield f"for (int n = 0; n < {rows}; ++n) {{"
            yield f"const uint8_t *row = from + ({down} * n + {row}) * {self.raw_pitch};"
            each = max(group, 1)
            yield f"uint8_t *out = to + n * {self.pitch};"
            yield f"for (int x = 0; x < {pixels}; x += {each}) {{"
            at, made = f"x * {step * channels}", f"x * {channels}"
            if group:
                yield f"const V pixels = *(const VU *)(row + {at});"
            for column, plane in own:
                place = f"out + {plane * self.plane_bytes} + {made}"
                if group:
                    yield f"*(VU *)({place}) = HVX(vrdelta)(pixels, *(const V *)apart{column});"
                    continue
                for at_byte in range(0, channels, self.lanes):
                    offset = column * channels + at_byte
                    yield f"*(VU *)({place} + {at_byte}) = *(const VU *)(row + {at} + {offset});"
            yield "}\n}"
        yield "}"


@dataclass
class _Tables:
    """What there is of each channel, from the first to that of a vector after the last; made before
    all else."""

    plan: Flat
    places: dict[object, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def count(self) -> int:
        """Channels of a table, in whole vectors of bytes."""
        lanes = self.plan.lanes
        if self.plan.is_steady:
            return self.plan.block * lanes
        return (self.plan.channels + 2 * lanes - 1) // lanes * lanes

    def made(self) -> Iterator[str]:
        """The C that makes them."""
        yield f"uint8_t *tables = scratch({max(self.size, 1)});"
        yield from self.lines
        if self.later:
            yield f"for (int phase = 0; phase < {self.count}; phase += VECTOR_BYTES) {{"
            yield from self.later
            yield "}"

    def _room(self, key: object, size: int) -> int:
        self.places[key] = self.size
        self.size += size
        return self.places[key]

    def of_input(self, tap: Pixel) -> tuple[int, int]:
        """Where the elements of an input for each channel are, and the bytes of one."""
        number, first = self.plan.element(*tap.value)
        spec, lanes = self.plan.specs[number], self.plan.lanes
        size = spec.element_bytes
        if tap not in self.places:
            if tap.value[1][-1] is not None:
                raise NoPlanError("the channel is not the last index of an input")
            place = self._room(tap, size * self.count + lanes)
            own, whole = size * self.plan.channels, size * self.count
            given = f"bytes{number} + {size * first}, end{number}, {own}, {whole}"
            self.lines.append(f"repeat(tables + {place}, {given});")
        return self.places[tap], size

    def of_one(self, tap: Pixel, *, is_wide: bool) -> int:
        """Where a vector of an element of an input is, as words or as bytes."""
        key = tap, is_wide
        if key not in self.places:
            number, first = self.plan.element(*tap.value)
            kind = self.plan.specs[number].dtype
            value = f"((const {kind}_t *)bytes{number})[{first}]"
            value = value if is_wide else f"0x01010101 * {value}"
            place = self._room(key, self.plan.lanes)
            self.lines.append(f"*(V *)(tables + {place}) = HVX(lvsplatw)({value});")
        return self.places[key]

    def of_words(self, content: object, written: Callable[[_Block], list[str]]) -> int:
        """Where a table of words is, of which a block writes each four vectors."""
        key = "words", content
        if key not in self.places:
            block = _Block(self.plan, self, is_by_rows=False, is_table=True)
            words = written(block)
            place = self._room(key, _GROUP * self.count)
            self.later += ["{", *block.lines]
            for n, word in enumerate(words):
                at = place + n * self.plan.lanes
                self.later.append(f"*(V *)(tables + {_GROUP} * phase + {at}) = {word};")
            self.later.append("}")
        return self.places[key]


class _Block:
    """C of vectors of bytes of the output, or of a table."""

    def __init__(
        self,
        plan: Flat,
        tables: _Tables,
        *,
        is_by_rows: bool,
        is_table: bool = False,
    ) -> None:
        self._plan, self._tables, self._is_table = plan, tables, is_table
        lanes, channels = plan.lanes, plan.channels
        self._are_tables_aligned = is_table or plan.is_steady
        (top, left), pitch = plan.first, plan.raw_pitch
        begins = 0 if plan.is_apart or plan.is_copied else top * pitch + left * channels
        places = [begins, pitch] if begins else []
        places += [plan.advance, *([plan.down] if is_by_rows else [])]
        self._is_aligned = all(one % lanes == 0 for one in places)
        self._made: dict[str, str] = {}
        self._several: dict[object, list[str]] = {}
        self.lines: list[str] = []

    def _named(self, kind: str, text: str) -> str:
        """The name of the vector or pair ``text``."""
        if text not in self._made:
            self._made[text] = name = f"{'vw'[kind == 'W']}{len(self._made)}"
            self.lines.append(f"const {kind} {name} = {text};")
        return self._made[text]

    def _vector(self, operation: str, *given: object) -> str:
        return self._named("V", f"HVX({operation})({', '.join(map(str, given))})")

    def _pair(self, operation: str, *given: object) -> list[str]:
        return halves(self._named("W", f"HVX({operation})({', '.join(map(str, given))})"))

    def _splat(self, value: int, bits: int) -> str:
        by = {8: 0x01010101, 16: 0x00010001, 32: 1}[bits]
        return f"HVX(lvsplatw)({I32.wrapped((value & (1 << bits) - 1) * by)})"

    def _of_table(self, place: int, size: int, number: int = 0) -> str:
        """A vector of a table of elements that have ``size`` bytes."""
        kind = "V" if self._are_tables_aligned else "VU"
        at = place + number * self._plan.lanes
        is_one = self._plan.is_steady and self._plan.block == 1
        moved = "" if is_one else f"{size} * phase + "
        return self._named("V", f"*(const {kind} *)(tables + {moved}{at})")

    def _loaded(self, sample: Sample, row: int) -> str:
        plan = self._plan
        if plan.is_interleaved:
            raise NoPlanError("its windows are more than sums of products")
        place = plan.place(sample) + row * plan.moved
        at = place if plan.is_apart else plan.lead + place
        kind = "V" if self._is_aligned and at % plan.lanes == 0 else "VU"
        return self._named("V", f"*(const {kind} *)(in + {place})")

    # Bytes

    def bytes_of(self, value: Pixel, row: int) -> str:
        """The vector of a ``value`` of 0 to 255, in order."""
        if not _holds(U8, value):
            raise NoPlanError(f"a value reaches from {value.low} to {value.high}, not 0 to 255")
        if value.kind == "pixel":
            return self._loaded(value.value, row)
        if value.kind == "constant":
            return self._splat(value.value, 8)
        if value.kind == "tap" and None in value.value[1]:
            return self._of_table(*self._tables.of_input(value))
        if value.kind == "tap":
            place = self._tables.of_one(value, is_wide=False)
            return self._named("V", f"*(const V *)(tables + {place})")
        inner = clamped_to(value, 0, 255)
        if value.kind in FOLDS and (inner is value or inner is None):
            return self._folded(value, row)
        return self._narrowed(value if inner is None else inner, row)

    def _folded(self, value: Pixel, row: int) -> str:
        """Of samples those of a row first, which several windows have in common."""
        samples = [one.value for one in value.parts if one.kind == "pixel"]
        others = [one for one in value.parts if one.kind != "pixel"]
        samples.sort(key=lambda one: (one.dy, one.dx))
        folded = []
        for _, own in groupby(samples, key=lambda one: one.dy):
            folded.append(self._joined(FOLDS[value.kind], [self._loaded(one, row) for one in own]))
        folded += (self.bytes_of(clamped(one), row) for one in others)
        return self._joined(FOLDS[value.kind], folded)

    def _joined(self, operation: str, vectors: Sequence[str]) -> str:
        total, *others = vectors
        for one in others:
            total = self._vector(operation, total, one)
        return total

    def _narrowed(self, value: Pixel, row: int) -> str:
        """``value``, brought between 0 and 255."""
        shift, zero, inner = 0, 0, value
        if value.kind == "sum" and len(value.parts) == 1 and value.value[0] == 1:
            (inner,), zero = value.parts, value.value[-1]
        if inner.kind == "shift" and inner.value <= 7:
            shift = inner.value
        (body,) = inner.parts if shift else (value,)
        half = 1 << shift >> 1
        rounds = bool(shift) and body.kind == "sum" and body.value[-1] == half
        body = body - half if rounds else body
        if shift and _holds(I16, body) and I16.holds(zero << shift):
            own = self._halves(body, row)
            if zero:
                own = [self._vector("vaddhsat", one, self._splat(zero << shift, 16)) for one in own]
            by = "vasrhubrndsat" if rounds else "vasrhubsat"
            made = self._vector(by, own[1], own[0], shift)
        else:
            own = self._halves(value, row, saturates=True)
            made = self._vector("vsathub", own[1], own[0])
        if self._is_of_words(value):
            made = self._vector("vdealb", self._vector("vdealb", made))
        return made

    # Halfwords

    def _is_of_words(self, value: Pixel) -> bool:
        """Whether halfwords of it are made of words."""
        return any(
            one.kind in ("times", "wrapped")
            or not (_holds(I16, one) or _holds(U16, one))
            or (one.kind == "tap" and not _holds(U8, one))
            for one in value.inner()
        )

    def _halves(self, value: Pixel, row: int, *, saturates: bool = False) -> list[str]:
        """Two vectors of halfwords: even and odd ones of bytes, or the first and the second of
        each four quarters of words. If it ``saturates``, of values that 16 bits do not hold the
        nearest that they do."""
        if not (saturates or _holds(I16, value) or _holds(U16, value)):
            raise NoPlanError(f"a value reaches from {value.low} to {value.high}")
        key = "halves", value, row
        if key not in self._several:
            made = self._halves_of_words if self._is_of_words(value) else self._halves_of_bytes
            self._several[key] = made(value, row, saturates=saturates)
        return self._several[key]

    def _each(self, operation: str, vectors: Sequence[str], *given: object) -> list[str]:
        return [self._vector(operation, one, *given) for one in vectors]

    def _halves_of_bytes(self, value: Pixel, row: int, *, saturates: bool) -> list[str]:
        if not (_holds(I16, value) or _holds(U16, value)):
            raise NoPlanError(f"a value reaches from {value.low} to {value.high}")
        letter = "" if _holds(I16, value) else "u"
        kind, parts = value.kind, value.parts
        if kind == "sum":
            return self._sum_of_bytes(value, row)
        if kind == "product" and _holds(I16, parts[0]) and I16.holds(value.value):
            by = I32.wrapped((value.value & 0xFFFF) * 0x10001)
            return self._each("vmpyhsrs", self._halves(parts[0], row), by)
        if kind == "shift":
            shifted = "vasrh" if _holds(I16, parts[0]) else "vlsrh"
            return self._each(shifted, self._halves(parts[0], row), value.value)
        if kind == "abs" and _holds(I16, parts[0]):
            return self._each("vabsh", self._halves(parts[0], row))
        if kind in FOLDS and not all(_holds(U8, one) for one in parts):
            if not all(_holds(U16 if letter else I16, one) for one in parts):
                raise NoPlanError("it compares values of 16 bits with and without a sign")
            first, *others = (self._halves(one, row) for one in parts)
            for other in others:
                pairs = zip(first, other, strict=True)
                first = [self._vector(f"v{kind}{letter}h", one, two) for one, two in pairs]
            return first
        if kind == "constant":
            return [self._splat(value.value, 16)] * 2
        if not _holds(U8, value):
            raise NoPlanError(f"it has no code for {kind}")
        return self._pair("vzb", self.bytes_of(value, row))

    def _sum_of_bytes(self, value: Pixel, row: int) -> list[str]:
        *weights, offset = value.value
        terms = [*zip(value.parts, weights, strict=True)]
        small = [(one, by) for one, by in terms if _holds(U8, one) and I8.holds(by)]
        total = ""
        for n in range(0, len(small), 2):
            (one, by), (other, second) = small[n], [*small[n + 1 : n + 2], (small[n][0], 0)][0]
            pair = f"HVX(vcombine)({self.bytes_of(other, row)}, {self.bytes_of(one, row)})"
            text = f"HVX(vmpabus)({pair}, {bytes_of(by, second)})"
            if total:
                text = f"HVX(vmpabus_acc)({total}, {pair}, {bytes_of(by, second)})"
            total = self._named("W", text)
        made = halves(total) if total else []
        for one, by in terms:
            if (one, by) in small:
                continue
            own = self._halves(one, row)
            if not I8.holds(by):
                raise NoPlanError(f"it multiplies halfwords by {by}")
            if abs(by) != 1 or not made:
                own, by = self._each("vmpyihb", own, bytes_of(by, by)), 1
            operation = "vaddh" if by == 1 else "vsubh"
            made = (
                [self._vector(operation, a, b) for a, b in zip(made, own, strict=True)]
                if made
                else own
            )
        return self._each("vaddh", made, self._splat(offset, 16)) if offset else made

    def _halves_of_words(self, value: Pixel, row: int, *, saturates: bool) -> list[str]:
        kind, parts = value.kind, value.parts
        if kind == "product" and _holds(I16, parts[0]) and I16.holds(value.value):
            by = I32.wrapped((value.value & 0xFFFF) * 0x10001)
            return self._each("vmpyhsrs", self._halves(parts[0], row), by)
        inner = clamped_to(value, I16.low, I16.high)
        if inner is not None and inner is not value:
            return self._halves(inner, row, saturates=True)
        if kind == "shift" and _holds(I16, parts[0]):
            return self._each("vasrh", self._halves(parts[0], row), value.value)
        if kind == "shift" and value.value <= 15 and (saturates or _holds(I16, value)):
            one, two, three, four = self.words(parts[0], row)
            pairs = (three, one), (four, two)
            return [self._vector("vasrwhsat", *pair, value.value) for pair in pairs]
        if kind == "sum" and (own := self._little_more(value, row, saturates=saturates)):
            return own
        if not saturates and not _holds(I16, value):
            raise NoPlanError(f"a value reaches from {value.low} to {value.high}")
        one, two, three, four = self.words(value, row, saturates=saturates)
        return [self._vector("vsatwh", *pair) for pair in ((three, one), (four, two))]

    def _little_more(self, value: Pixel, row: int, *, saturates: bool) -> list[str]:
        """A value of words and a byte, as halfwords; where they saturate, bytes do, too."""
        *weights, offset = value.value
        terms = [*zip(value.parts, weights, strict=True)]
        main = [one for one, by in terms if by == 1 and self._is_of_words(one)]
        rest = [one for one, by in terms if by == 1 and one.kind == "tap" and _holds(U8, one)]
        if len(main) != 1 or len(main) + len(rest) != len(terms) or not I8.holds(offset >> 1):
            return []
        if len(rest) > 1 or any(None in one.value[1] for one in rest):
            return []
        if not saturates and not (_holds(I16, main[0]) and _holds(I16, value)):
            return []
        own = self._halves(main[0], row, saturates=saturates)
        for one in rest:
            wide = self._pair("vzb", self.bytes_of(one, row))[0]
            own = self._each("vaddhsat", own, wide)
        return self._each("vaddhsat", own, self._splat(offset, 16)) if offset else own

    # Words

    def words(self, value: Pixel, row: int, *, saturates: bool = False) -> list[str]:
        """Four vectors of words in order. If it ``saturates``, of 2**31 one less."""
        if not (I32.low <= value.low and value.high <= I32.high + saturates):
            raise NoPlanError(f"a value reaches from {value.low} to {value.high}")
        key = "words", value, row
        if key not in self._several:
            self._several[key] = self._words(value, row)
        return self._several[key]

    def _words(self, value: Pixel, row: int) -> list[str]:
        kind, parts = value.kind, value.parts
        if kind == "constant":
            return [self._splat(value.value, 32)] * _GROUP
        if kind == "tap":
            return self._words_of_input(value)
        if not self._is_table and not any(one.kind == "pixel" for one in value.inner()):
            place = self._tables.of_words(value, lambda own: own.words(value, 0))
            return [self._of_table(place, _GROUP, n) for n in range(_GROUP)]
        if kind == "wrapped" and value.value == str(I32):
            return self._sum(parts[0], row)
        if kind == "sum":
            return self._sum(value, row)
        if kind == "times":
            one, other = (self.words(part, row) for part in parts)
            return [self._product(a, b) for a, b in zip(one, other, strict=True)]
        if kind == "product" and I16.holds(value.value):
            return self._scaled(parts[0], constant(value.value << 16), row)
        if kind == "shift" and (scale := _scale_of(value)) is not None:
            return self._scaled(*scale, row)
        if kind == "shift":
            return self._each("vasrw", self.words(parts[0], row), min(value.value, 31))
        if kind == "abs":
            return self._each("vabsw", self.words(parts[0], row))
        if kind in FOLDS and not _holds(U8, value):
            first, *others = (self.words(one, row) for one in parts)
            for other in others:
                pairs = zip(first, other, strict=True)
                first = [self._vector(f"v{kind}w", one, two) for one, two in pairs]
            return first
        if not _holds(U8, value):
            raise NoPlanError(f"it has no code for {kind} in words")
        made = self._pair("vunpackub", self.bytes_of(value, row))
        return [one for half in made for one in self._pair("vunpackuh", half)]

    def _words_of_input(self, tap: Pixel) -> list[str]:
        if None not in tap.value[1]:
            place = self._tables.of_one(tap, is_wide=True)
            return [self._named("V", f"*(const V *)(tables + {place})")] * _GROUP
        place, size = self._tables.of_input(tap)
        if size < _GROUP and not self._is_table:
            place, size = self._tables.of_words(tap, lambda own: own.words(tap, 0)), _GROUP
        made = [self._of_table(place, size, n) for n in range(size)]
        letter = "u" if tap.low >= 0 else ""
        if size == 1:
            made = self._pair(f"vunpack{letter}b", made[0])
        if size < _GROUP:
            made = [one for half in made for one in self._pair(f"vunpack{letter}h", half)]
        return made

    def _sum(self, value: Pixel, row: int) -> list[str]:
        if value.kind != "sum":
            return self.words(value, row)
        *weights, offset = value.value
        dots: list[tuple[Sample, Pixel]] = []
        free, others = constant(offset), []
        for part, by in zip(value.parts, weights, strict=True):
            if by == 1 and part.kind == "times" and _is_product_of_bytes(part):
                dots.append((part.parts[0].value, part.parts[1]))
            elif part.kind == "pixel" and I8.holds(by):
                dots.append((part.value, constant(by)))
            elif not self._is_table and not any(one.kind == "pixel" for one in part.inner()):
                free += part * by
            else:
                others.append((part, by))
        made = self._freed(free, row)
        for part, by in others:
            own = self.words(part, row)
            if by != 1 and not I16.holds(by):
                raise NoPlanError(f"it multiplies words by {by}")
            if by != 1:
                own = self._each("vmpyiwh", own, I32.wrapped((by & 0xFFFF) * 0x10001))
            pairs = zip(made, own, strict=True)
            made = [self._vector("vaddw", a, b) for a, b in pairs] if made else own
        if self._plan.is_interleaved:
            for column, weights in self._columns(dots, row):
                made = self._dot(self._fours_at(column, row), weights, made)
        else:
            for group in _groups(dots):
                loaded = [self._loaded(one, row) for one, _ in group]
                loaded += [loaded[-1]] * (_GROUP - len(loaded))
                weights = [weight for _, weight in group]
                weights += [constant(0)] * (_GROUP - len(weights))
                made = self._dot(self._interleaved(loaded), weights, made)
        return made or self.words(constant(0), row)

    def _freed(self, free: Pixel, row: int) -> list[str]:
        """A part of a sum that is the same for all pixels."""
        if free == constant(0):
            return []
        # Of a sum that wraps around it may be beyond words, too.
        own = Pixel("wrapped", str(I32), (free,), I32.low, I32.high)
        return self.words(free if _holds(I32, free) else own, row)

    def _dot(
        self, fours: Sequence[str], weights: Sequence[Pixel], totals: Sequence[str]
    ) -> list[str]:
        """Adds the products of four bytes each."""
        padded = tuple(weights)
        place = self._tables.of_words(padded, lambda own: own.fours(padded))
        made = []
        for n, four in enumerate(fours):
            by = self._of_table(place, _GROUP, n)
            text = f"HVX(vrmpybusv)({four}, {by})"
            if totals:
                text = f"HVX(vrmpybusv_acc)({totals[n]}, {four}, {by})"
            made.append(self._named("V", text))
        return made

    def _columns(
        self, dots: Iterable[tuple[Sample, Pixel]], row: int
    ) -> Iterator[tuple[int, list[Pixel]]]:
        """The columns of a window, and the weights of rows that lie interleaved."""
        plan = self._plan
        for dx, column in groupby(
            sorted(dots, key=lambda one: one[0].dx), key=lambda one: one[0].dx
        ):
            weights = [constant(0)] * _GROUP
            for sample, weight in column:
                weights[sample.dy - plan.first[0] + row % plan.served] = weight
            yield dx - plan.first[1], weights

    def _fours_at(self, column: int, row: int) -> list[str]:
        """Words of four rows each, at a column of the windows of a row."""
        plan = self._plan
        step, begin = _GROUP * plan.advance, _GROUP * column * plan.channels
        kind = "VU" if step % plan.lanes or begin % plan.lanes else "V"
        place = row // plan.served * plan.bytes_of_four + begin
        return [
            self._named("V", f"*(const {kind} *)(in + {place + n * plan.lanes})")
            for n in range(_GROUP)
        ]

    def fours(self, weights: Sequence[Pixel]) -> list[str]:
        """Words of a byte of each of four."""
        found = []
        for one in weights:
            if one.kind == "constant":
                found.append(self._splat(one.value, 8))
            elif None in one.value[1]:
                found.append(self._of_table(*self._tables.of_input(one)))
            else:
                place = self._tables.of_one(one, is_wide=False)
                found.append(self._named("V", f"*(const V *)(tables + {place})"))
        return self._interleaved(found)

    def _interleaved(self, vectors: Sequence[str]) -> list[str]:
        one, two, three, four = vectors
        low = self._pair("vshuffvdd", two, one, -1)
        high = self._pair("vshuffvdd", four, three, -1)
        return [
            vector
            for a, b in zip(low, high, strict=True)
            for vector in self._pair("vshuffvdd", b, a, -2)
        ]

    def _product(self, one: str, other: str) -> str:
        low = self._vector("vmpyieoh", one, other)
        return self._vector("vmpyiewuh_acc", low, one, other)

    def _scaled(self, value: Pixel, scale: Pixel, row: int) -> list[str]:
        """``value * scale / 2**31``, to the nearest, halves up."""
        made = []
        for one, by in zip(self.words(value, row), self.words(scale, row), strict=True):
            low = self._vector("vmpyewuh", one, by)
            made.append(self._vector("vmpyowh_rnd_sacc", low, one, by))
        return made


class _Fold(NamedTuple):
    """The minimum or the maximum of ``rows``, as rows of samples, for each row of the output, the
    first of which are ``down`` rows apart."""

    by: str
    rows: tuple[int, ...]
    down: int


def _folded(value: Pixel) -> tuple[Pixel, _Fold | None]:
    """Of a minimum or maximum over rows and columns that over columns, and that over rows."""
    samples = [one.value for one in value.parts]
    if value.kind not in FOLDS or not all(isinstance(one, Sample) for one in samples):
        return value, None
    rows, columns = ({getattr(one, of) for one in samples} for of in ("dy", "dx"))
    beyond = {one.beyond for one in samples} - {None}
    if len(rows) * len(columns) != len(samples) or len(rows) == 1 or beyond - {"edges"}:
        return value, None
    folded = _Fold(value.kind, tuple(sorted(rows)), samples[0].down)
    edge = max(beyond, default=None)
    own = [samples[0]._replace(dy=0, dx=dx, down=1, beyond=edge) for dx in sorted(columns)]
    parts = tuple(Pixel("pixel", one, (), U8.low, U8.high) for one in own)
    made = Pixel(value.kind, None, parts, U8.low, U8.high) if len(parts) > 1 else parts[0]
    return made, folded


def _holds(kind: object, value: Pixel) -> bool:
    return kind.low <= value.low <= value.high <= kind.high  # type: ignore[attr-defined,no-any-return]


def _is_product_of_bytes(value: Pixel) -> bool:
    sample, tap = value.parts
    return sample.kind == "pixel" and tap.kind == "tap" and _holds(I8, tap)


def _scale_of(value: Pixel) -> tuple[Pixel, Pixel] | None:
    """What is multiplied by what, if ``value`` is a product that is shifted by 31 and rounded."""
    (total,) = value.parts
    if value.value != _SCALE_BITS or total.kind != "sum" or len(total.parts) != 1:
        return None
    by, offset = total.value
    (part,) = total.parts
    if by != 1 or offset != 1 << _SCALE_BITS - 1 or part.kind != "times":
        return None
    own, scale = part.parts
    return own, scale


def _groups(
    dots: Iterable[tuple[Sample, Pixel]],
) -> Iterator[list[tuple[Sample, Pixel]]]:
    """Up to four of a row of windows, whose samples serve several of them."""
    ordered = sorted(dots, key=lambda one: (one[0].dy, one[0].dx))
    for _, row in groupby(ordered, key=lambda one: one[0].dy):
        own = [*row]
        yield from (own[n : n + _GROUP] for n in range(0, len(own), _GROUP))
