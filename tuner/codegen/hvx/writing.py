"""C of a window that slides down strips of an image: HVX intrinsics, rows of vectors in registers.

A strip is some vectors wide. Beyond the left and right edge of the image lies the edge's pixel
again, by ``vdelta`` from the vector that has it; above and below are the first and the last row
again. Where the width is not a whole number of strips, the last one begins earlier, over pixels
that are written twice.

Interleaved channels, and columns of which one is made, are taken apart: an even number is halved by
``vpack``; of an odd one no two bytes of a channel lie in the same lane, so its bytes are blended
into one vector, of which one ``vrdelta`` puts them in order. They are put together in the same ways
backwards, by ``vdelta`` and ``vshuff``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Literal, NamedTuple

from tuner.codegen.hvx.lowering import Placed, Value, Values
from tuner.codegen.hvx.sliding import (
    MEDIAN,
    MEDIAN_OF_PAIR,
    SAME,
    Operation,
    Window,
    constant,
    constants,
)

_IMMEDIATE = 8
"""``valign`` by less than this has the number in the instruction."""
_MOST_WRITTEN_OUT = 4
"""Iterations at the lower edge."""
_PAIR = "_dv"
_PAIRED = (f"vaddh{_PAIR}", f"vsubh{_PAIR}")
_WIDE_BINARY = ("vaddh", "vsubh", "vabsdiffh", "vmaxh", "vminh", "vmaxuh", "vminuh")
_BY_HALVES = (*_WIDE_BINARY, "vabsh", "vasrh", "vlsrh", "vaslh", "vmpyihb", "vmpyhsrs")
"""Wide operations that exist for single vectors only."""
_CLAMPED_ROW = (
    "#define ROW(n, r) (in##n + clamped(down##n * y + (r), -above##n, "
    "is_held##n ? last##n : down##n * height - 1 + below##n) * in##n##_stride)"
)
_NO_ROW = "#undef ROW"
_GUARD, _GUARD_OF_ROWS = "if (y + {row} < height) ", "if ({down} * (y + {row}) + {at} < rows) "
_OF_TWO_TAPS = ("vtmpybus", "vmpabus", "vmpabuu")
"""Multiplications of a pair of vectors by two weights."""
_OF_ONE_TAP = ("vmpybus", "vmpyub")
TABLE_BYTES = 256
_NARROWING = ("vshuffeb", "vshuffob", "vsathub")
_ACCUMULATES = "_acc"
_OF_ROWS = ("bytes_of_row", "halves_of_row")
_WORD_BYTES = 4
_ONES = "0x01010101"


@dataclass(frozen=True)
class Image:
    """An input: the number of its buffer in the call, its interleaved channels, and in which plane
    it lies, in C; empty if it has one only.

    Of each ``step`` columns and ``down`` rows one of the output's is made. If its edges are not
    repeated, ``left``, ``top``, ``right`` and ``bottom`` are the pixels that it has beyond the
    output's share, at least; if they are, and it has no more, it ``is_exact``. If it ``is_held``,
    it may have more to the right or below, or if it ``is_short`` less: there the edges that are
    repeated are its own.
    Its rows are whole (``is_whole``) if they begin at vector boundaries wherever the output's do.
    """

    buffer: int
    step: int
    plane: str
    is_repeated: bool = True
    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0
    row: int = 1
    """The dimension along which rows follow each other."""
    down: int = 1
    is_exact: bool = False
    is_held: bool = False
    is_short: bool = False
    is_whole: bool = True


@dataclass(frozen=True)
class Inputs:
    """``images``, and the numbers of the buffers of ``tables`` of 256 bytes, by the name that
    values have for them."""

    images: Mapping[str, Image]
    tables: Mapping[str, int]

    def number(self, name: str) -> int:
        """An image's number in C."""
        return list(self.images).index(name)

    def arguments(self, x: str) -> str:
        """Those of a strip that begins at ``x``."""
        given = []
        for one in self.images.values():
            plane = f" + {one.plane} * input{one.buffer}_stride_2" if one.plane else ""
            start = f"input{one.buffer}{plane} + {one.step} * ({x})"
            if not one.is_repeated:
                start += f" + {one.top} * input{one.buffer}_stride_{one.row} + {one.left}"
            given.append(f"{start}, input{one.buffer}_stride_{one.row}")
        given += [f"input{number}" for number in self.tables.values()]
        return ", ".join([*given, *(f"more{n}, last{n}" for n in self.held)])

    @property
    def held(self) -> list[int]:
        """Numbers in C of the images that are held."""
        return [n for n, one in enumerate(self.images.values()) if one.is_held]


@dataclass(frozen=True)
class Choices:
    """Of a config: vectors of a strip, whether taps are loads of their own (``is_loaded``) or
    aligned from vectors already loaded, rows between a prefetch and its use (0: none), and whether
    pairs of vectors are added as ``pairs``, by ``halves``, or ``mixed``: by halves where they were
    made so. The ``last`` rows are ``inside`` of the loop, if that ends with them, or ``apart``;
    ``height`` is the image's, if it is known; of its pixels, ``channels`` lie side by side, and
    ``down`` rows one above the other. If it ``is_held``, the last may lack columns or rows."""

    columns: int
    is_loaded: bool
    prefetch_rows: int
    adds: str
    last: str
    height: int | None
    channels: int = 1
    down: int = 1
    is_held: bool = False


Side = Literal["edge", "near", "inside"]
"""The neighbourhood of a strip: the edge of the image, less than a vector before it, or a whole
vector. In aligned rows a vector that the image fills in part counts as whole: it can be read, and
the pixels that depend on the rest of it are written over by the last strip."""


@dataclass(frozen=True)
class Strip:
    """A way through a strip: what is on each side, and whether rows are aligned."""

    columns: int
    left: Side
    right: Side
    aligned: bool

    @property
    def name(self) -> str:
        """The name of its function."""
        kind = "aligned" if self.aligned else "unaligned"
        return f"strip_{self.columns}_{self.left}_{self.right}_{kind}"


def declarations(
    window: Window, inputs: Inputs, strips: list[Strip], choices: Choices, lanes: int
) -> str:
    """Everything before the function itself: tables, and a function for each of ``strips``."""
    tables = [bytes_of("lanes", range(lanes))]
    steps = (choices.channels, *(one.step for one in inputs.images.values()))
    for step in sorted({step // (step & -step) for step in steps} - {1}):
        tables += _of_interleaved(step, lanes)
    # One strip alone is inlined by clang; several would be too long.
    attribute = "" if len(strips) == 1 else "__attribute__((noinline)) "
    writers = (_Writer(window, inputs, one, choices, lanes) for one in strips)
    functions = (writer.function(attribute) for writer in writers)
    return "\n".join([*tables, *chain.from_iterable(functions)])


def adds_pairs(values: Values) -> bool:
    """Whether pairs of vectors are added among ``values``, so that :attr:`Choices.adds` matters."""
    return any(one.operation in _PAIRED or one.by in _PAIRED for one in values.known.values())


def is_prefetched(ahead: int, rows: int, height: int) -> bool:
    """Whether iterations over ``rows`` of ``height`` ever fetch what lies ``ahead`` rows below."""
    return ahead < height - rows


def bytes_of(name: str, numbers: Iterable[int]) -> str:
    """A table in C."""
    content = ", ".join(map(str, numbers))
    return f"static const uint8_t {name}[] __attribute__((aligned(VECTOR_BYTES))) = {{{content}}};"


def _of_interleaved(step: int, lanes: int) -> Iterator[str]:
    """For each of ``step`` channels, the lanes of its number modulo ``step``, and the way of each
    of its bytes to the lane of its pixel.

    Pixel j lies in lane ``step * j + channel``, modulo the lanes. ``vrdelta`` goes there from the
    lowest bit of a lane's number to the highest, and the lower bits of that follow from those
    of j: no two bytes meet.
    """
    for channel in range(step):
        yield bytes_of(
            f"lanes_{channel}_of_{step}", (255 * (n % step == channel) for n in range(lanes))
        )
        ways = ((step * n + channel) % lanes ^ n for n in range(lanes))
        yield bytes_of(f"order_{channel}_of_{step}", ways)
        yield bytes_of(f"back_{channel}_of_{step}", _back(channel, step, lanes))


def _back(channel: int, step: int, lanes: int) -> list[int]:
    """The way of each pixel j to lane ``step * j + channel``, modulo the lanes."""
    return ways_to([((step * pixel + channel) % lanes, pixel) for pixel in range(lanes)], lanes)


def ways_to(moves: Iterable[tuple[int, int]], lanes: int, *, is_upwards: bool = False) -> list[int]:
    """The operand of ``vdelta`` that takes to each lane what is in another: it goes there from the
    highest bit of a lane's number to the lowest. ``moves`` are pairs of both; no two may meet. If
    it ``is_upwards`` it is that of ``vrdelta``, which begins with the lowest: bytes that are put
    together in their order do not meet."""
    ways, bits = [0] * lanes, range(lanes.bit_length() - 1)
    for wanted, lane in moves:
        for bit in bits if is_upwards else reversed(bits):
            moves_on = (lane ^ wanted) & 1 << bit
            lane ^= moves_on
            ways[lane] |= moves_on
    return ways


End = Literal["", "within", "beyond"]
"""Of vectors at the end of a row: the last one, or the one behind it."""


class _Writer:
    def __init__(
        self, window: Window, inputs: Inputs, strip: Strip, choices: Choices, lanes: int
    ) -> None:
        self._window = window
        self._inputs = inputs
        self._strip = strip
        self._choices = choices
        self._lanes = lanes
        self._type = "V" if strip.aligned else "VU"
        self._raw: set[str] = set()
        self._done: set[Placed] = set()
        self._ready: set[Placed] = set()
        self._prefix = ""

    def function(self, attribute: str) -> Iterator[str]:
        """The strip from its first row to its last."""
        last = f"{self._lanes - 1:02x}" * 4
        images, tables = range(len(self._inputs.images)), self._inputs.tables.values()
        given = [f"const uint8_t *restrict in{n}, int in{n}_stride" for n in images]
        given += [f"const uint8_t *restrict entries{n}" for n in tables]
        given += [f"int more{n}, int last{n}" for n in self._inputs.held]
        held = ", int whole, int rows, int rest" if self._choices.is_held else ""
        yield (
            f"static {attribute}void {self._strip.name}({', '.join(given)}, "
            "uint8_t *restrict out, int out_stride, int out_plane, int height, int before, "
            f"int after{held}) {{"
        )
        yield "const V first_lane = *(const V *)lanes;"
        yield f"const V last_lane = HVX(vxor)(first_lane, HVX(lvsplatw)(0x{last}));"
        for value in constants(self._window):
            yield f"const {_type(value)} {_constant(value)} = {_splat(value)};"
        for n, image in enumerate(self._inputs.images.values()):
            # Its rows for one of the output, and those beyond.
            sides = f"above{n} = {image.top}, below{n} = {image.bottom}"
            yield f"enum {{ down{n} = {image.down}, {sides}, is_held{n} = {int(image.is_held)} }};"
            if image.is_held:
                yield f"const int short{n} = more{n} < 0 ? -more{n} : 0;"
            else:
                yield f"enum {{ last{n} }};"
        for n in tables:
            for half in range(2):
                place = f"*(const VU *)(entries{n} + {half * self._lanes})"
                yield f"const V table{n}_{half} = HVX(vshuffb)({place});"
        yield from (f"const uint8_t *p{n} = in{n};" for n in images)
        yield "int y = 0;"
        yield from self._first_rows()
        taps = (row for value, row in self._window.computed if value.operation == "tap")
        needed = max(*taps, self._window.rows - 1)
        yield from self._with_the_last(needed) or (
            *self._without_the_last(needed),
            *self._last_iterations(needed),
        )
        yield "}"

    def _first_rows(self) -> Iterator[str]:
        """The values that the first iteration takes over."""
        kept = [(v, row, c) for v, row in self._window.kept for c in range(self._strip.columns)]
        for value, row, column in kept:
            yield f"{_type(value)} {_name('s', value, row, column)};"
        yield "{"
        yield _CLAMPED_ROW
        self._begin("p", set())
        for one in self._window.order(list(self._window.kept), set()):
            yield from self._made(one)
        for value, row, column in kept:
            yield f"{_name('s', value, row, column)} = {_name('p', value, row, column)};"
        yield _NO_ROW
        yield "}"

    def _with_the_last(self, needed: int) -> list[str]:
        """All iterations in one loop: the rows below the last are it again. Empty where they are
        more than one iteration's, or none, or a last iteration would write fewer rows."""
        height, step = self._choices.height, self._window.rows
        if self._choices.last != "inside" or not height or height % step or self._choices.is_held:
            return []
        if not step <= needed < 2 * step:
            return []
        last = f"{step} * down##n + below##n"
        row = f"((r) < {last} || has_more ? (r) : {last} - 1)"
        return [
            f"{self._unrolled()}for (; y < height; y += {step}) {{",
            f"const int has_more = y + {step} < height;",
            f"#define ROW(n, r) (p##n + {row} * in##n##_stride)",
            *self._iteration(""),
            _NO_ROW,
            *self._rows_down(),
            "}",
        ]

    def _unrolled(self) -> str:
        """Comes before the loop over rows. Where each row is by itself, LLVM would make the same
        loop, whatever the rows of an iteration."""
        window = self._window
        is_shared = window.kept or any(value.is_uniform for value, _ in window.computed)
        return "" if is_shared else '_Pragma("clang loop unroll(disable)") '

    def _rows_down(self) -> Iterator[str]:
        for n, image in enumerate(self._inputs.images.values()):
            yield f"p{n} += {self._window.rows * image.down} * in{n}_stride;"

    def _without_the_last(self, needed: int) -> Iterator[str]:
        """The iterations that need no row below the last."""
        end = "whole" if self._choices.is_held else "height"
        yield f"{self._unrolled()}for (; y + {needed} < {end}; y += {self._window.rows}) {{"
        yield "#define ROW(n, r) (p##n + (r) * in##n##_stride)"
        yield from self._iteration("")
        yield _NO_ROW
        yield from self._rows_down()
        yield "}"

    def _last_iterations(self, needed: int) -> Iterator[str]:
        """Those that need rows below the last. Where the height is known, each is written out: then
        clang knows which rows they are."""
        step, height = self._window.rows, self._choices.height
        left: range | None = None
        guard = _GUARD_OF_ROWS if self._choices.is_held else _GUARD
        if height is not None and not self._choices.is_held:
            left = range(len(range(0, height - needed, step)) * step, height, step)
        yield _CLAMPED_ROW
        if left is not None and len(left) <= _MOST_WRITTEN_OUT:
            for y in left:
                yield f"{{ enum {{ y = {y}, height = {height} }};"
                yield from self._iteration(guard)
                yield "}"
        else:
            yield f"for (; y < height; y += {step}) {{"
            yield from self._iteration(guard)
            yield "}"
        yield _NO_ROW

    def _begin(self, prefix: str, kept: set[Placed]) -> None:
        self._prefix, self._kept = prefix, kept
        self._raw, self._done, self._ready = set(), set(), set()

    def _iteration(self, guard: str) -> Iterator[str]:
        window = self._window
        self._begin("t", set(window.kept))
        if self._choices.prefetch_rows:
            yield from self._prefetch()
        for one in window.kept:
            yield from self._stored(one, guard)
        for one in window.computed:
            yield from self._made(one)
            yield from self._stored(one, guard)
        for value, row in window.kept:
            for column in range(self._strip.columns):
                after = self._at((value, row + window.rows), column)
                yield f"{_name('s', value, row, column)} = {after};"

    def _stored(self, placed: Placed, guard: str) -> Iterator[str]:
        """``placed`` as a row of the output's planes that have it, or the channels of a row of
        which it is the last."""
        value, (window, together) = placed[0], (self._window, self._choices.channels)
        rows = {
            (number // together, placed[1] - first)
            for number, (own, first) in enumerate(window.roots)
            if own is value and 0 <= placed[1] - first < window.rows
        }
        self._ready.add(placed)
        for (group, row), column in product(sorted(rows), range(self._strip.columns)):
            roots = window.roots[group * together : (group + 1) * together]
            channels = [(own, first + row) for own, first in roots]
            if self._ready.issuperset(channels):
                yield from self._row(channels, group, row, column, guard)

    def _row(
        self, channels: Sequence[Placed], group: int, row: int, column: int, guard: str
    ) -> Iterator[str]:
        """Stores what lies side by side in a row of the output, as vectors of it in order."""
        plane, at = divmod(group, self._choices.down)
        name, parts = f"o{group}_{_signed(row)}_{column}", [self._at(o, column) for o in channels]
        if channels[0][0].is_wide:
            halves = list[str]()
            for number, one in enumerate(parts):
                yield f"const W {name}_{number} = HVX(vshuffvdd)({_each_half(one)}, -2);"
                halves.append(f"{name}_{number}")
            vectors = list[str]()
            for half in ("lo", "hi"):
                given = [f"HVX({half})({one})" for one in halves]
                yield from self._side_by_side(f"{name}{half}", given, 2)
                vectors += self._named(f"{name}{half}", given)
        else:
            yield from self._side_by_side(name, parts, 1)
            vectors = self._named(name, parts)
        count = len(vectors)
        place = f"out + ({self._choices.down} * (y + {row}) + {at}) * out_stride"
        if self._choices.down == 1:
            place = f"out + (y + {row}) * out_stride"
        place += f" + {plane} * out_plane" if plane else ""
        guarded = guard.format(row=row, at=at, down=self._choices.down)
        is_last = self._strip.right == "edge" and column == self._strip.columns - 1
        for number, one in enumerate(vectors):
            own = f"{place} + {(count * column + number) * self._lanes}"
            if is_last and number == count - 1 > 0 and self._choices.is_held:
                # What the last cell lacks is not stored.
                moved = f"HVX(vlalignb)({one}, {vectors[number - 1]}, rest)"
                yield f"{guarded}*(VU *)({own} - rest) = {moved};"
            else:
                yield f"{guarded}*({self._type} *)({own}) = {one};"

    def _named(self, name: str, parts: Sequence[str]) -> list[str]:
        """Those that :meth:`_side_by_side` makes."""
        return [f"{name}_{at}" for at in range(len(parts))] if len(parts) > 1 else [*parts]

    def _side_by_side(self, name: str, parts: Sequence[str], size: int) -> Iterator[str]:
        """The elements of ``parts``, of ``size`` bytes, in turn, as vectors that are called
        ``name`` and a number, but for one alone."""
        count = len(parts)
        if count == 1:
            return
        if count % 2:
            for channel, one in enumerate(parts):
                way = f"*(const V *)back_{channel}_of_{count}"
                yield f"const V {name}_back{channel} = HVX(vdelta)({one}, {way});"
            moved = [f"{name}_back{channel}" for channel in range(count)]
            for at in range(count):
                mixed = self._mixed(moved, [channel - self._lanes * at for channel in range(count)])
                yield f"const V {name}_{at} = {mixed};"
            return
        for at, letter in enumerate("eo"):
            yield from self._side_by_side(name + letter, parts[at::2], size)
        even, odd = (self._named(name + letter, parts[at::2]) for at, letter in enumerate("eo"))
        for at, (one, other) in enumerate(zip(even, odd, strict=True)):
            yield f"const W {name}_pair{at} = HVX(vshuffvdd)({other}, {one}, -{size});"
            for number, half in enumerate(("lo", "hi"), start=2 * at):
                yield f"const V {name}_{number} = HVX({half})({name}_pair{at});"

    def _mixed(self, vectors: Sequence[str], lanes: Iterable[int]) -> str:
        """Of each of as many ``vectors`` as pixels have channels those ``lanes``, modulo their
        count."""
        step, (*others, mixed) = len(vectors), vectors
        for one, first in zip(others, lanes, strict=False):
            mask = f"HVX(vandvrt)(*(const V *)lanes_{first % step}_of_{step}, -1)"
            mixed = f"HVX(vmux)({mask}, {one}, {mixed})"
        return mixed

    def _prefetch(self) -> Iterator[str]:
        """The rows that the iteration ``prefetch_rows`` below reads first, as one box."""
        rows, height = self._window.rows, self._choices.height
        ahead = self._choices.prefetch_rows
        if height is not None and not is_prefetched(ahead, rows, height):
            return
        yield f"if (y + {ahead} < height - {rows}) {{"
        for n, image in enumerate(self._inputs.images.values()):
            width = image.step * (self._strip.columns + 2) * self._lanes
            first = f"{image.down} * (y + {ahead})" if image.down > 1 else f"(y + {ahead})"
            yield (
                f"__builtin_HEXAGON_Y5_l2fetch((void *)(in{n} + {first} * in{n}_stride), "
                f"(uint64_t)in{n}_stride << 32 | {width}u << 16 | {rows * image.down}u);"
            )
        yield "}"

    def _made(self, one: Placed) -> Iterator[str]:
        """A value after those that it takes; words of rows for all of the iteration at once."""
        value, row = one
        if one in self._done or one in self._kept or constant(one):
            return
        rows = range(self._window.rows) if value.is_uniform else range(row, row + 1)
        self._done |= {(value, at) for at in rows}
        for at in rows:
            for part in self._window.operation(value, at).parts:
                yield from self._made(part)
        yield from self._value(value, row)

    def _value(self, value: Value, row: int) -> Iterator[str]:
        if value.operation == "tap":
            yield from self._tap(value, row)
            return
        if value.operation == "row":
            yield from self._row_sums(value)
            return
        if value.operation in _OF_ROWS:
            yield self._spread(value, row)
            return
        if value.is_uniform:
            yield self._uniform(value)
            return
        operation = self._window.operation(value, row)
        for column in range(self._strip.columns):
            parts = [self._at(part, column) for part in operation.parts]
            name = _name(self._prefix, value, row, column)
            text = (
                _look_up(self._inputs.tables[value.image], parts[0])
                if operation.name == "lut"
                else _expression(self._spelled(operation), parts, operation.numbers)
            )
            yield f"const {_type(value)} {name} = {text};"

    def _row_sums(self, value: Value) -> Iterator[str]:
        """The sums of an iteration's rows in one vector: that of row r in each word whose number
        is r modulo the rows.

        Four bytes are added up at once. Two vectors of partial sums exchange words and become one;
        the rest are rotations.
        """
        name, rows = _uniform_name(value), self._window.rows
        sums = [f"{name}_{row}" for row in range(rows)]
        ((part, at),) = value.parts
        for row, one in enumerate(sums):
            for column in range(self._strip.columns):
                given = f"{self._at((part, row + at), column)}, {_ONES}"
                if column == 0:
                    yield f"V {one} = HVX(vrmpyub)({given});"
                else:
                    yield f"{one} = HVX(vrmpyub_acc)({one}, {given});"
        distance = _WORD_BYTES
        while len(sums) > 1:
            pairs = list(zip(sums[::2], sums[1::2], strict=True))
            sums = [f"{one}_{distance}" for one, _ in pairs]
            for merged, (one, other) in zip(sums, pairs, strict=True):
                yield f"const W {merged}_pair = HVX(vshuffvdd)({other}, {one}, {distance});"
                yield f"V {merged} = HVX(vaddw)({_each_half(merged + '_pair')});"
            distance *= 2
        by = self._lanes // 2
        while by >= distance:
            yield f"{sums[0]} = HVX(vaddw)({sums[0]}, HVX(vror)({sums[0]}, {by}));"
            by //= 2
        yield f"const V {name} = {sums[0]};"

    def _uniform(self, value: Value) -> str:
        given = [self._at(part, 0) for part in value.parts]
        numbers = [_repeated_byte(n) if value.operation == "vmpyiwb" else n for n in value.numbers]
        arguments = ", ".join([*given, *map(str, numbers)])
        return f"const V {_uniform_name(value)} = HVX({value.operation})({arguments});"

    def _spread(self, value: Value, row: int) -> str:
        """The lowest byte or halfword of a row's word, in all of them: vdelta goes from the highest
        bit of a lane's number to the lowest, and takes those that say which row."""
        ((words, _),) = value.parts
        mask = self._window.rows * _WORD_BYTES - (2 if value.is_wide else 1)
        lanes = f"HVX(vand)(first_lane, HVX(lvsplatw)({_repeated_byte(mask)}))"
        way = f"HVX(vxor)({lanes}, HVX(lvsplatw)({_repeated_byte(row * _WORD_BYTES)}))"
        spread = f"HVX(vdelta)({_uniform_name(words)}, {way})"
        name = _name(self._prefix, value, row, 0)
        return f"const {_type(value)} {name} = {_both(spread) if value.is_wide else spread};"

    def _spelled(self, operation: Operation) -> str:
        """The operation's name; sums of two pairs of vectors may be two sums of vectors."""
        name = operation.name
        if name not in _PAIRED:
            return name
        has_halves = any(part.operation in _BY_HALVES for part, _ in operation.parts)
        is_halved = self._choices.adds == "halves" or (self._choices.adds == "mixed" and has_halves)
        return name.removesuffix(_PAIR) if is_halved else name

    def _at(self, placed: Placed, column: int) -> str:
        value, row = placed
        if constant(placed):
            return _constant(value)
        if value.is_uniform:
            return _uniform_name(value)
        if value.operation in _OF_ROWS:
            column = 0
        prefix = "s" if placed in self._kept else self._prefix
        return _name(prefix, value, row, column)

    def _tap(self, value: Value, row: int) -> Iterator[str]:
        """The pixels of a tap, each column of vectors."""
        place, step, own = value.numbers
        dx, channel = divmod(place, step)
        line = _Line(self._inputs.number(value.image), row, channel, step)
        line = line._replace(row=self._image(line).down * row + own)
        for column in range(self._strip.columns):
            name = _name(self._prefix, value, row, column)
            yield from self._neighbours(name, line, column, dx)

    def _neighbours(self, name: str, line: _Line, column: int, dx: int) -> Iterator[str]:
        lanes = self._lanes
        beyond = column + (dx > 0) - (dx < 0)
        is_inside = (beyond >= 0 or self._strip.left == "inside") and (
            beyond < self._strip.columns or self._strip.right == "inside"
        )
        is_loaded = is_inside and self._choices.is_loaded and line.step == 1
        is_loaded &= not self._image(line).is_held
        if dx and (is_loaded or not (is_inside or self._image(line).is_repeated)):
            place = f"{line.place} + {line.step * (column * lanes + dx)}"
            yield from self._apart(name, place, line, "VU", name)
            return
        yield from self._loaded(line, column)
        own, other = line.vector(column), line.vector(beyond)
        if dx == 0:
            yield f"const V {name} = {own};"
            return
        yield from self._loaded(line, beyond)
        size = abs(dx)
        suffix = "i" if size < _IMMEDIATE else ""
        pair = f"{other}, {own}" if dx > 0 else f"{own}, {other}"
        shift = f"valignb{suffix}" if dx > 0 else f"vlalignb{suffix}"
        yield f"const V {name} = HVX({shift})({pair}, {size});"

    def _apart(
        self, name: str, place: str, line: _Line, kind: str, known_as: str, end: End = ""
    ) -> Iterator[str]:
        """The vector ``name`` of the pixels of a line from ``place`` on; the vectors that all its
        pixels there lie in are called ``known_as`` and a number."""
        step, channel = line.step, line.channel
        vectors = [f"{known_as}_{at}" for at in range(step)] if step > 1 else [name]
        for at, one in enumerate(vectors):
            if step == 1 or self._is_new(one):
                yield from self._whole(one, f"{place} + {at * self._lanes}", line, kind, end, at)
        if step == 1:
            return
        while step % 2 == 0:
            pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
            letter = "eo"[channel % 2]
            step, channel = step // 2, channel // 2
            vectors = [f"{one}{letter}" for one, _ in pairs]
            for packed, (one, other) in zip(vectors, pairs, strict=True):
                if self._is_new(packed):
                    yield f"const V {packed} = HVX(vpack{letter}b)({other}, {one});"
        if step == 1:
            yield f"const V {name} = {vectors[0]};"
            return
        # Lane n of vector v is of the channel (lanes * v + n) modulo step.
        mixed = self._mixed(vectors, (channel - self._lanes * at for at in range(step)))
        order = f"*(const V *)order_{channel}_of_{step}"
        yield f"const V {name} = HVX(vrdelta)({mixed}, {order});"

    def _whole(
        self, name: str, place: str, line: _Line, kind: str, end: End, at: int
    ) -> Iterator[str]:
        """The vector ``name`` of all pixels from ``place`` on, the one of number ``at`` of those of
        a vector of pixels. Of an image that is held, its last ones come again at the ``end``."""
        n, is_last = line.image, end == "within" and at == line.step - 1
        image = self._image(line)
        if not (is_last and image.is_short) and not (end == "beyond" and image.is_held):
            yield f"const V {name} = *(const {kind} *)({place});"
            return
        first = f"short{n}" if is_last else f"{(at + 1) * self._lanes} - more{n}"
        yield f"const V {name}_end = *(const VU *)({place} - ({first}));"
        again = f"HVX(vdelta)({name}_end, last_lane)"
        if is_last:
            yield f"const V {name} = HVX(valignb)({again}, {name}_end, short{n});"
        elif at == 0:
            moved = f"HVX(vlalignb)({again}, {name}_end, more{n} > 0 ? more{n} : 0)"
            yield f"const V {name} = {moved};"
        else:
            yield f"const V {name} = {again};"

    def _is_new(self, name: str) -> bool:
        """Whether the iteration does not have the vector ``name``; it has it from now on."""
        is_new = name not in self._raw
        self._raw.add(name)
        return is_new

    def _loaded(self, line: _Line, column: int) -> Iterator[str]:
        """An input vector, from memory, or beyond an edge from the one inside."""
        name, last = line.vector(column), self._strip.columns
        if not self._is_new(name):
            return
        step, is_left = line.step, column < 0
        place = f"{line.place} + {step * column * self._lanes}"
        side = {-1: self._strip.left, last: self._strip.right}.get(column, "inside")
        # Beyond the first pixel of a row it is again, and beyond the last that.
        end = line._replace(channel=0 if is_left else step - 1)
        way = "first_lane" if is_left else "last_lane"
        is_held = self._image(line).is_held and not is_left
        if side == "edge" and is_held:
            yield from self._apart(name, place, line, "VU", line.whole(column), "beyond")
        elif side == "edge":
            inner = 0 if is_left else last - 1
            yield from self._loaded(end, inner)
            yield f"const V {name} = HVX(vdelta)({end.vector(inner)}, {way});"
        elif side == "near":
            # The first or the last vector of the row, moved beside copies of its end.
            back = f"{step} * before" if is_left else f"{step} * ({self._lanes} - after)"
            place = f"{line.place if is_left else place} - {back}"
            for one in dict.fromkeys((line, end)):
                inside = f"{one.vector(column)}_inside"
                if self._is_new(inside):
                    whole = f"{one.whole(column)}_near"
                    at: End = "" if is_left else "within"
                    yield from self._apart(inside, place, one, "VU", whole, at)
            inside, other = f"{name}_inside", f"HVX(vdelta)({end.vector(column)}_inside, {way})"
            if is_left:
                moved = f"HVX(vlalignb)({inside}, {other}, {self._lanes} - before)"
            else:
                moved = f"HVX(valignb)({other}, {inside}, {self._lanes} - after)"
            yield f"const V {name} = {moved};"
        else:
            image = self._image(line)
            kind = self._type if image.is_repeated and image.is_whole else "VU"
            is_last = column == last - 1 and self._strip.right == "edge"
            at = "within" if is_last else ""
            yield from self._apart(name, place, line, kind, line.whole(column), at)

    def _image(self, line: _Line) -> Image:
        return list(self._inputs.images.values())[line.image]


class _Line(NamedTuple):
    """A row of an input image, counted from the first of an iteration; of each ``step`` pixels in
    it the one of number ``channel``."""

    image: int
    row: int
    channel: int = 0
    step: int = 1

    @property
    def place(self) -> str:
        """Its address."""
        return f"ROW({self.image}, {self.row})"

    def vector(self, number: int) -> str:
        """The name of a vector of it, counted from the first of the strip."""
        return self.whole(number) + (f"_c{self.channel}" if self.step > 1 else "")

    def whole(self, number: int) -> str:
        """The same of all its pixels."""
        return f"x{self.image}_{_signed(self.row)}_{_signed(number)}"


def _signed(number: int) -> str:
    return f"m{-number}" if number < 0 else str(number)


def _name(prefix: str, value: Value, row: int, column: int) -> str:
    return f"{prefix}{value.number}_{_signed(row)}_{column}"


def _uniform_name(value: Value) -> str:
    return f"u{value.number}"


def _type(value: Value) -> str:
    return "W" if value.is_wide else "V"


def _constant(value: Value) -> str:
    return f"k{value.number}"


def _splat(value: Value) -> str:
    (number,) = value.numbers
    if value.operation == "splatw":
        return f"HVX(lvsplatw)({number})"
    if value.operation == "splatb":
        return f"HVX(lvsplatw)({_repeated_byte(number)})"
    return _both(f"HVX(lvsplatw)({_repeated(number)})")


def _repeated(half: int) -> str:
    """A word of two halfwords ``half``, as C has it with a sign."""
    word = (half & 0xFFFF) * 0x10001
    return str(word - (1 << 32) if word >> 31 else word)


def _repeated_byte(byte: int) -> str:
    """A word of four bytes ``byte``, as C has it with a sign."""
    return _repeated(byte << 8 | byte)


def _each_half(pair: str) -> str:
    return f"HVX(hi)({pair}), HVX(lo)({pair})"


def _both(vector: str) -> str:
    return f"HVX(vcombine)({vector}, {vector})"


def _weights(numbers: tuple[int, ...]) -> str:
    """The bytes of a scalar register: two weights, twice."""
    one, other = (number & 0xFF for number in (numbers * 2)[:2])
    return _repeated(other << 8 | one)


_SCALARS: dict[str, Callable[[tuple[int, ...]], str]] = {
    "vasrh": lambda numbers: str(numbers[0]),
    "vlsrh": lambda numbers: str(numbers[0]),
    "vaslh": lambda numbers: str(numbers[0]),
    "vmpyihb": _weights,
    "vmpyhsrs": lambda numbers: _repeated(numbers[0]),
}
"""The scalar operand of operations that have one."""


def _halves(operation: str, parts: list[str], *numbers: str) -> str:
    """A wide operation, done for even and odd pixels by themselves."""
    done = (
        f"HVX({operation})({', '.join([*(f'HVX({half})({p})' for p in parts), *numbers])})"
        for half in ("hi", "lo")
    )
    return f"HVX(vcombine)({', '.join(done)})"


def _look_up(table: int, index: str) -> str:
    """Entries of a table of 256 bytes, 32 at a time."""
    found = f"HVX(vlutvvbi)({index}, table{table}_0, 0)"
    for part in range(1, 8):
        found = f"HVX(vlutvvb_oracci)({found}, {index}, table{table}_{part // 4}, {part})"
    return found


def _expression(operation: str, parts: list[str], numbers: tuple[int, ...]) -> str:
    """C of an operation. The first of the parts of one that accumulates is what it adds to."""
    name = operation.removesuffix(_ACCUMULATES)
    if operation == SAME:
        return parts[0]
    if operation == MEDIAN:
        a, b, c = parts
        low, high = f"HVX(vminub)({a}, {b})", f"HVX(vmaxub)({a}, {b})"
        return f"HVX(vmaxub)({low}, HVX(vminub)({high}, {c}))"
    if operation == MEDIAN_OF_PAIR:
        low, high, other = parts
        return f"HVX(vmaxub)({low}, HVX(vminub)({high}, {other}))"
    if name in _OF_TWO_TAPS:
        *total, one, other = parts
        given = [*total, f"HVX(vcombine)({other}, {one})", _weights(numbers)]
    elif name in _OF_ONE_TAP:
        given = [*parts, _weights(numbers)]
    elif name in _BY_HALVES:
        scalars = _SCALARS.get(name)
        return _halves(operation, parts, *([scalars(numbers)] if scalars else []))
    elif name == "vlsrw":
        given = [*parts, str(numbers[0])]
    elif name in _NARROWING or name.startswith(("vasr", "vround")):
        given = [f"HVX({half})({parts[0]})" for half in ("hi", "lo")]
        given += map(str, numbers)
    else:
        given = parts
    return f"HVX({operation})({', '.join(given)})"
