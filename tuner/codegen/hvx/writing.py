"""C of a window that slides down strips of an image: HVX intrinsics, rows of vectors in registers.

A strip is some vectors wide. Beyond the left and right edge of the image lies the edge's pixel
again, by ``vdelta`` from the vector that has it; above and below are the first and the last row
again. Where the width is not a whole number of strips, the last one begins earlier, over pixels
that are written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tuner.codegen.hvx.lowering import Placed, Value
from tuner.codegen.hvx.sliding import MEDIAN, MEDIAN_OF_PAIR, SAME, Operation, Window, constants

_IMMEDIATE = 8
"""``valign`` by less than this has the number in the instruction."""
_MOST_WRITTEN_OUT = 4
"""Iterations at the lower edge."""
_PAIR = "_dv"
_PAIRED = (f"vaddh{_PAIR}", f"vsubh{_PAIR}")
_WIDE_BINARY = ("vaddh", "vsubh", "vabsdiffh", "vmaxh", "vminh", "vmaxuh", "vminuh")
_BY_HALVES = (*_WIDE_BINARY, "vabsh", "vasrh", "vlsrh", "vaslh", "vmpyihb", "vmpyhsrs")
"""Wide operations that exist for single vectors only."""
_CLAMPED_ROW = "#define ROW(r) (in + clamped(y + (r), 0, height - 1) * in_stride)"
_NO_ROW = "#undef ROW"
_GUARD = "if (y + {row} < height) "
_OF_TWO_TAPS = ("vtmpybus", "vmpabus")
"""Multiplications of a pair of vectors by two weights."""
_NARROWING = ("vshuffeb", "vshuffob", "vsathub")
_ACCUMULATES = "_acc"
_DECLARATIONS = """
typedef int V __attribute__((vector_size(VECTOR_BYTES), aligned(VECTOR_BYTES)));
typedef int VU __attribute__((vector_size(VECTOR_BYTES), aligned(1)));
typedef int W __attribute__((vector_size(2 * VECTOR_BYTES), aligned(VECTOR_BYTES)));
#define at_most(value, most) ((value) < (most) ? (value) : (most))
#define HVX(name) __builtin_HEXAGON_V6_##name##_128B
"""


@dataclass(frozen=True)
class Choices:
    """Of a config: vectors of a strip, whether taps are loads of their own (``is_loaded``) or
    aligned from vectors already loaded, rows between a prefetch and its use (0: none), and whether
    pairs of vectors are added as ``pairs``, by ``halves``, or ``mixed``: by halves where they were
    made so. The ``last`` rows are ``inside`` of the loop, if that ends with them, or ``apart``;
    ``height`` is the image's, if it is known."""

    columns: int
    is_loaded: bool
    prefetch_rows: int
    adds: str
    last: str
    height: int | None


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


def declarations(window: Window, strips: list[Strip], choices: Choices, lanes: int) -> str:
    """Everything before the function itself: types and a function for each of ``strips``."""
    numbers = ", ".join(map(str, range(lanes)))
    table = f"static const uint8_t lanes[] __attribute__((aligned({lanes}))) = {{{numbers}}};"
    return "\n".join(
        [_DECLARATIONS, table, *(_strip(window, one, choices, lanes) for one in strips)]
    )


def _strip(window: Window, strip: Strip, choices: Choices, lanes: int) -> str:
    return "\n".join(_Writer(window, strip, choices, lanes).function())


class _Writer:
    def __init__(self, window: Window, strip: Strip, choices: Choices, lanes: int) -> None:
        self._window = window
        self._strip = strip
        self._choices = choices
        self._lanes = lanes
        self._type = "V" if strip.aligned else "VU"
        self._raw: set[tuple[int, int]] = set()
        self._prefix = ""

    def function(self) -> Iterator[str]:
        """The strip from its first row to its last."""
        last = f"{self._lanes - 1:02x}" * 4
        yield (
            f"static __attribute__((noinline)) void {self._strip.name}(const uint8_t *restrict in, "
            "int in_stride, uint8_t *restrict out, int out_stride, int height, int before, "
            "int after) {"
        )
        yield "const V first_lane = *(const V *)lanes;"
        yield f"const V last_lane = HVX(vxor)(first_lane, HVX(lvsplatw)(0x{last}));"
        for value in constants(self._window):
            yield f"const {_type(value)} {_constant(value)} = {_splat(value)};"
        yield "const uint8_t *p = in;"
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
            yield from self._value(one)
        for value, row, column in kept:
            yield f"{_name('s', value, row, column)} = {_name('p', value, row, column)};"
        yield _NO_ROW
        yield "}"

    def _with_the_last(self, needed: int) -> list[str]:
        """All iterations in one loop: the rows below the last are it again. Empty where they are
        more than one iteration's, or a last iteration would write fewer rows."""
        height, step = self._choices.height, self._window.rows
        if self._choices.last != "inside" or not height or height % step or needed >= 2 * step:
            return []
        row = f"((r) < {step} || has_more ? (r) : {step - 1})"
        return [
            f"for (; y < height; y += {step}) {{",
            f"const int has_more = y + {step} < height;",
            f"#define ROW(r) (p + {row} * in_stride)",
            *self._iteration(""),
            _NO_ROW,
            f"p += {step} * in_stride;",
            "}",
        ]

    def _without_the_last(self, needed: int) -> Iterator[str]:
        """The iterations that need no row below the last."""
        yield f"for (; y + {needed} < height; y += {self._window.rows}) {{"
        yield "#define ROW(r) (p + (r) * in_stride)"
        yield from self._iteration("")
        yield _NO_ROW
        yield f"p += {self._window.rows} * in_stride;"
        yield "}"

    def _last_iterations(self, needed: int) -> Iterator[str]:
        """Those that need rows below the last. Where the height is known, each is written out: then
        clang knows which rows they are."""
        step, height = self._window.rows, self._choices.height
        left: range | None = None
        if height is not None:
            left = range(len(range(0, height - needed, step)) * step, height, step)
        yield _CLAMPED_ROW
        if left is not None and len(left) <= _MOST_WRITTEN_OUT:
            for y in left:
                yield f"{{ enum {{ y = {y}, height = {height} }};"
                yield from self._iteration(_GUARD)
                yield "}"
        else:
            yield f"for (; y < height; y += {step}) {{"
            yield from self._iteration(_GUARD)
            yield "}"
        yield _NO_ROW

    def _begin(self, prefix: str, kept: set[Placed]) -> None:
        self._prefix, self._kept = prefix, kept
        self._raw = set()

    def _iteration(self, guard: str) -> Iterator[str]:
        window = self._window
        self._begin("t", set(window.kept))
        if self._choices.prefetch_rows:
            yield from self._prefetch()
        value, first = window.root
        for one in window.computed:
            yield from self._value(one)
            row = one[1] - first
            if one[0] is value and 0 <= row < window.rows:
                for column in range(self._strip.columns):
                    yield guard.format(row=row) + (
                        f"*({self._type} *)(out + (y + {row}) * out_stride + "
                        f"{column * self._lanes}) = {_name('t', value, one[1], column)};"
                    )
        for value, row in window.kept:
            for column in range(self._strip.columns):
                after = self._at((value, row + window.rows), column)
                yield f"{_name('s', value, row, column)} = {after};"

    def _prefetch(self) -> Iterator[str]:
        """The rows that the iteration ``prefetch_rows`` below reads first, as one box."""
        rows = self._window.rows
        width = (self._strip.columns + 2) * self._lanes
        ahead = self._choices.prefetch_rows
        yield (
            f"if (y + {ahead} < height - {rows}) __builtin_HEXAGON_Y5_l2fetch((void *)(in + "
            f"(y + {ahead}) * in_stride), (uint64_t)in_stride << 32 | {width}u << 16 | {rows}u);"
        )

    def _value(self, one: Placed) -> Iterator[str]:
        value, row = one
        if value.operation == "tap":
            yield from self._tap(value, row)
            return
        operation = self._window.operation(value, row)
        for column in range(self._strip.columns):
            parts = [self._at(part, column) for part in operation.parts]
            name = _name(self._prefix, value, row, column)
            text = _expression(self._spelled(operation), parts, operation.numbers)
            yield f"const {_type(value)} {name} = {text};"

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
        if value.operation in ("splatb", "splath"):
            return _constant(value)
        prefix = "s" if placed in self._kept else self._prefix
        return _name(prefix, value, row, column)

    def _tap(self, value: Value, row: int) -> Iterator[str]:
        (dx,) = value.numbers
        lanes = self._lanes
        for column in range(self._strip.columns):
            name = _name(self._prefix, value, row, column)
            beyond = column + (dx > 0) - (dx < 0)
            is_inside = (beyond >= 0 or self._strip.left == "inside") and (
                beyond < self._strip.columns or self._strip.right == "inside"
            )
            if dx and self._choices.is_loaded and is_inside:
                yield f"const V {name} = *(const VU *)(ROW({row}) + {column * lanes + dx});"
                continue
            yield from self._loaded(row, column)
            own = _raw(row, column)
            if dx == 0:
                yield f"const V {name} = {own};"
                continue
            yield from self._loaded(row, beyond)
            other = _raw(row, beyond)
            size = abs(dx)
            suffix = "i" if size < _IMMEDIATE else ""
            pair = f"{other}, {own}" if dx > 0 else f"{own}, {other}"
            shift = f"valignb{suffix}" if dx > 0 else f"vlalignb{suffix}"
            yield f"const V {name} = HVX({shift})({pair}, {size});"

    def _loaded(self, row: int, column: int) -> Iterator[str]:
        """An input vector, from memory, or beyond an edge from the one inside."""
        if (row, column) in self._raw:
            return
        self._raw.add((row, column))
        name, last = _raw(row, column), self._strip.columns
        place = f"ROW({row}) + {column * self._lanes}"
        if column < 0 and self._strip.left == "edge":
            yield from self._loaded(row, 0)
            yield f"const V {name} = HVX(vdelta)({_raw(row, 0)}, first_lane);"
        elif column == last and self._strip.right == "edge":
            yield from self._loaded(row, last - 1)
            yield f"const V {name} = HVX(vdelta)({_raw(row, last - 1)}, last_lane);"
        elif column < 0 and self._strip.left == "near":
            # The first vector of the row, moved up behind copies of its first pixel.
            yield f"const V {name}_inside = *(const VU *)(ROW({row}) - before);"
            yield (
                f"const V {name} = HVX(vlalignb)({name}_inside, "
                f"HVX(vdelta)({name}_inside, first_lane), {self._lanes} - before);"
            )
        elif column == last and self._strip.right == "near":
            yield f"const V {name}_inside = *(const VU *)({place} + after - {self._lanes});"
            yield (
                f"const V {name} = HVX(valignb)(HVX(vdelta)({name}_inside, last_lane), "
                f"{name}_inside, {self._lanes} - after);"
            )
        else:
            yield f"const V {name} = *(const {self._type} *)({place});"


def _raw(row: int, column: int) -> str:
    return f"x_{_signed(row)}_{_signed(column)}"


def _signed(number: int) -> str:
    return f"m{-number}" if number < 0 else str(number)


def _name(prefix: str, value: Value, row: int, column: int) -> str:
    return f"{prefix}{value.number}_{_signed(row)}_{column}"


def _type(value: Value) -> str:
    return "W" if value.is_wide else "V"


def _constant(value: Value) -> str:
    return f"k{value.number}"


def _splat(value: Value) -> str:
    (number,) = value.numbers
    if value.operation == "splatb":
        return f"HVX(lvsplatw)({number * 0x01010101})"
    return _both(f"HVX(lvsplatw)({_repeated(number)})")


def _repeated(half: int) -> str:
    """A word of two halfwords ``half``, as C has it with a sign."""
    word = (half & 0xFFFF) * 0x10001
    return str(word - (1 << 32) if word >> 31 else word)


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
    elif name == "vmpybus":
        given = [*parts, _weights(numbers)]
    elif name in _BY_HALVES:
        scalars = _SCALARS.get(name)
        return _halves(operation, parts, *([scalars(numbers)] if scalars else []))
    elif name in _NARROWING or name.startswith(("vasr", "vround")):
        given = [f"HVX({half})({parts[0]})" for half in ("hi", "lo")]
        given += map(str, numbers)
    else:
        given = parts
    return f"HVX({operation})({', '.join(given)})"
