"""Plans of stencils: strips of an image from left to right, each from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Self

from tuner.codegen import clang
from tuner.codegen.hvx.lowering import BOUNDS, lowered
from tuner.codegen.hvx.pixel import NotAStencilError, Pixel, Place, parts_of, places_of
from tuner.codegen.hvx.plan import Plan
from tuner.codegen.hvx.sliding import Window
from tuner.codegen.hvx.stencils import Cell, pixels_of
from tuner.codegen.hvx.writing import (
    TABLE_BYTES,
    Choices,
    Image,
    Inputs,
    Side,
    Strip,
    adds_pairs,
    declarations,
    is_prefetched,
)
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program import Program
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

ROWS, PREFETCH = "hvx_rows", "hvx_prefetch"
_ROWS = (1, 2, 4, 8)
_COLUMNS = (1, 2, 3, 4)
_PREFETCHES = (0, 8, 32)
_CLANG_CHOICES: dict[str, KnobValue] = {"llvm_optimize": "O3"}
"""No code was faster by another."""
_MOST_REACH = 16
"""Rows or columns that a pixel depends on, to each side."""
_MOST_STEP = 8
"""Columns, channels of them, or rows of which an output pixel has its own share."""
_MOST_VECTORS = 8
"""Of a row that is added up: it stays in registers."""
_MOST_VALUES = 128
_PLANE = "plane"
"""The number of the output's plane, in C."""


@dataclass(frozen=True)
class Stencil(Plan):
    """An output pixel, or that of each plane, or of each channel if those lie side by side
    (``are_channels``), at each place of a ``cell``, and the buffers by the names it knows them by.

    A cell is what others have a pixel for: it has so many channels side by side, and rows.
    """

    accepted = "functions of u8 images and the pixels around one"

    pixels: tuple[Pixel, ...]
    are_channels: bool
    cell: Cell
    specs: tuple[BufferSpec, ...]
    problem: Problem

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        is_static = problem.contract is Contract.STATIC
        shapes = {spec.name: spec.shape for spec in specs} if is_static else {}
        stencil = cls(*pixels_of(program, shapes), tuple(specs), problem)
        stencil.require()
        return stencil

    def require(self) -> None:
        """:class:`NotAStencilError` says what there is no code for."""
        require_buffers(self)
        _require(self.pixels, self.output.dtype)
        _require_rows(self)

    @property
    def output(self) -> BufferSpec:
        """The output."""
        return self.specs[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and pixels of the output, in cells, after its planes if it has some."""
        *planes, rows, columns = self.extents
        return *planes, -(-rows // self.cell.down), -(-columns // self.cell.across)

    @property
    def rest(self) -> tuple[int, int]:
        """Rows and columns that the last cells lack."""
        (*_, rows, columns), (*_, height, width) = self.extents, self.shape
        return height * self.cell.down - rows, width * self.cell.across - columns

    @property
    def extents(self) -> tuple[int, ...]:
        """The same in rows and columns."""
        return self.output.shape[:2] if self.are_channels else self.output.shape

    @property
    def channels(self) -> int:
        """What a row has side by side of each cell."""
        return self.cell.across * (len(self.pixels) // self.cell.pixels if self.are_channels else 1)

    @cached_property
    def is_flat(self) -> bool:
        """Whether all rows are gone through as one: pixels are those of inputs at the same place,
        and rows, which are no whole vectors, lie densely."""
        *_, height, width = self.shape
        if self.problem.contract is not Contract.STATIC or width % self.lanes == 0:
            return False
        if self.cell != Cell():
            return False
        places = places_of(self.pixels)
        is_local = all(one.has_own and one.down == 1 for one in places)
        specs = {one.name: one for one in self.specs} | {"": self.specs[0]}
        # The rows of inputs lie as densely, for one pixel or channel as for several.
        shapes = [rows_of(specs[one.image], one) for one in places]
        is_dense = all(
            shape[-2:] == (height, one.step * width)
            for shape, one in zip(shapes, places, strict=True)
        )
        if any(len(shape) > 2 for shape in (self.shape, *shapes)):
            is_dense &= height * width % self.lanes == 0  # each plane begins at a vector boundary
        return is_local and is_dense and height > 1 and not _rows_in(self)

    @property
    def walked(self) -> tuple[int, int]:
        """The rows that code goes through, and pixels of one."""
        *_, height, width = self.shape
        return (1, height * width) if self.is_flat else (height, width)

    @property
    def height(self) -> int | None:
        """The rows that code goes through, if that is known."""
        return self.walked[0] if self.problem.contract is Contract.STATIC else None

    @property
    def lanes(self) -> int:
        """Bytes of a vector."""
        return self.problem.target.lanes(1)

    @cached_property
    def inputs(self) -> Inputs:
        """Those of its buffers that its pixels read."""
        specs, places = self.specs, places_of(self.pixels)
        numbers = {"": 0, **{spec.name: number for number, spec in enumerate(specs)}}
        images = {}
        larger = {place.image for place in places if place.within}
        for place in sorted(places, key=lambda one: (numbers[one.image], one.source)):
            number = numbers[place.image]
            own = _PLANE if place.plane is None else str(place.plane)
            spec = specs[number]
            plane = own if len(rows_of(spec, place)) > 2 else ""
            row = 2 if place.channels > 1 else 1
            around = [one for one in places if one.image == place.image]
            image = Image(number, place.step, plane, row=row, down=place.down)
            is_exact = not all(one.has_own and not one.is_clamped for one in around)
            image = replace(image, is_exact=is_exact)
            right = max(0, *(one.dx + 1 - one.step for one in around))
            bottom = max(0, *(one.dy + 1 - one.down for one in around))
            if place.image in larger:
                image = replace(image, is_exact=False, right=right, bottom=bottom)
            if self._holds(spec, around):
                image = replace(image, is_held=True, is_short=self._may_lack(spec, place))
            elif place.image in larger:
                top, left = (-least for least in (spec.mins or (0, 0))[-2:])
                image = replace(image, is_repeated=False, left=left, top=top)
            images[place.source] = replace(image, is_whole=self._is_whole(spec, place))
        tables = sorted({one.value for one in parts_of(self.pixels) if one.kind == "entry"})
        return Inputs(images, {name: numbers[name] for name in tables})

    @cached_property
    def is_held(self) -> bool:
        """Whether the ends of rows and columns are looked for, of images or of cells."""
        is_open = self.cell != Cell() and self.problem.contract is not Contract.STATIC
        is_held = any(one.is_held for one in self.inputs.images.values())
        return is_open or is_held or any(self.rest)

    def _holds(self, spec: BufferSpec, places: Sequence[Place]) -> bool:
        """Whether ``places`` of an image are held within it: what lies beyond is its edge again,
        or needed by what the last cells lack."""
        place, (height, width) = places[0], self.shape[-2:]
        if max(place.step, place.down, *self.cell) == 1:
            return False
        is_local = all(one.has_own and not one.is_clamped for one in places)
        if self.problem.contract is not Contract.STATIC:
            return self.cell != Cell() or not (is_local or place.within)
        *_, rows, columns = rows_of(spec, place)
        needed = place.down * height, place.step * width
        if any(one.within for one in places):
            return not all(_has_all(spec, one, height, width) for one in places)
        if is_local:
            return rows < needed[0] or columns < needed[1]
        return (rows, columns) != needed

    def _may_lack(self, spec: BufferSpec, place: Place) -> bool:
        """Whether rows of ``place``'s image may have less than the cells' share of pixels."""
        is_open = self.problem.contract is not Contract.STATIC
        return is_open or rows_of(spec, place)[-1] < place.step * self.shape[-1]

    def _is_whole(self, spec: BufferSpec, place: Place) -> bool:
        """Whether rows of ``place``'s image begin at vector boundaries if the output's do."""
        strides = layout_of(spec, self.problem.contract, self.problem.target).strides
        is_known = self.problem.contract is Contract.STATIC and not self.is_flat
        return not is_known or strides[-3 if place.channels > 1 else -2] % self.lanes == 0

    @property
    def knobs(self) -> tuple[Knob, ...]:
        vectors = self.walked[1] // self.lanes
        columns = tuple(count for count in _COLUMNS if count <= vectors)
        if _rows_in(self):
            columns = (vectors,)  # whole rows
        return _knobs(columns, self.pixels, self.output.dtype, self.height, self.is_held)

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        is_alone = self.cell == Cell()
        rows, columns = (4, 2) if is_alone else (2, 1)
        return {ROWS: rows, "hvx_columns": columns, "hvx_adds": "halves"}

    def switches(self, config: Config) -> list[str]:
        images = self.inputs.images.values()
        is_aligned = config.text("hvx_taps") == "align" and all(one.is_repeated for one in images)
        merging = () if is_aligned else clang.NO_MERGED_LOADS
        return [*merging, *super().switches(Config({**config, **_CLANG_CHOICES}))]

    def written(self, config: Config) -> tuple[str, str]:
        choices = Choices(
            config.integer("hvx_columns"),
            config.text("hvx_taps") == "load",
            config.integer(PREFETCH),
            config.text("hvx_adds"),
            config.text("hvx_last"),
            self.height,
            self.channels,
            self.cell.down,
            self.is_held,
        )
        window = Window(*lowered(self.pixels, self.output.dtype), config.integer(ROWS))
        walk = _Walk(self, choices)
        loops, strips = walk.loops(), list(walk.strips.values())
        return loops, declarations(window, self.inputs, strips, choices, self.lanes)


@lru_cache(maxsize=256)
def _knobs(
    columns: tuple[int, ...],
    stated: tuple[Pixel, ...],
    dtype: str,
    height: int | None,
    is_held: bool,
) -> tuple[Knob, ...]:
    """All knobs; of those that decide nothing of such pixels, in images of ``height`` rows, if that
    is known, with one choice."""
    values, _ = lowered(stated, dtype)
    places = places_of(stated)
    has_neighbours = any(one.dx and one.step == 1 for one in places)
    below = max(0, *(one.dy // one.down for one in places))
    # Where no row lies below the last, or more than an iteration's, there is one way to end.
    ends = height is not None and any(0 < below <= n and height % n == 0 for n in _ROWS)
    taps = ("align", "load") if has_neighbours else ("align",)
    adds = ("mixed", "pairs", "halves") if adds_pairs(values) else ("pairs",)
    last = ("apart", "inside") if ends and not is_held else ("apart",)
    ahead = (n for n in _PREFETCHES if not n or height is None or is_prefetched(n, 1, height))
    return (
        Knob(ROWS, _ROWS, "output rows computed together"),
        Knob("hvx_columns", columns, "vectors side by side"),
        Knob("hvx_taps", taps, "neighbours in a row: from vectors already loaded, or loads"),
        Knob("hvx_adds", adds, "sums of 16 bits: of pairs, or one by one"),
        Knob("hvx_last", last, "the last rows: after the loop, or in it"),
        Knob(PREFETCH, tuple(ahead), "rows from a prefetch to its use; 0: none"),
        clang.DEEPER,
    )


def _rows_in(stencil: Stencil) -> set[int]:
    """The widths of the rows that it adds up."""
    return {one.value for one in parts_of(stencil.pixels) if one.kind == "row"}


@lru_cache(maxsize=256)
def _require(stated: tuple[Pixel, ...], dtype: str) -> None:
    places = places_of(stated)
    if not places or any(max(abs(one.dx), abs(one.dy)) > _MOST_REACH for one in places):
        raise NotAStencilError(f"it reaches over more than {_MOST_REACH} pixels, or over none")
    if any(max(one.step, one.down) > _MOST_STEP for one in places):
        raise NotAStencilError(f"of more than {_MOST_STEP} columns, channels or rows it reads one")
    ways = {(one.source, one.step, one.down, one.channels) for one in places}
    if len(ways) > len({one.source for one in places}):
        raise NotAStencilError("it goes through an image in two ways")
    values, _ = lowered(stated, dtype)
    if len(values.known) > _MOST_VALUES:
        raise NotAStencilError(f"it takes more than {_MOST_VALUES} vector operations")


def rows_of(spec: BufferSpec, place: Place) -> tuple[int, ...]:
    """The shape of an image as rows, or as planes of rows."""
    if place.channels > 1:
        rows, pixels, channels = spec.shape
        return rows, pixels * channels
    return spec.shape


def require_buffers(stencil: Stencil) -> None:
    """That its buffers are of the shapes and types that it knows."""
    *given, output = stencil.specs
    if any(spec.loose for spec in stencil.specs) or any(output.mins):
        raise NotAStencilError("its buffers are loose, or its output does not begin at 0")
    if any(spec.dtype != "uint8" for spec in given) or output.dtype not in BOUNDS:
        raise NotAStencilError("its inputs are not of u8, or its output not of 8 or 16 bits")
    if len(output.shape) not in (2, 3):
        raise NotAStencilError(f"its output has {len(output.shape)} dimensions, not two or three")
    if output.dtype != "uint8" and stencil.channels.bit_count() > 1:
        raise NotAStencilError(f"of {output.dtype} it has {stencil.channels} side by side")
    inputs = stencil.inputs
    read = {*inputs.tables.values(), *(image.buffer for image in inputs.images.values())}
    if read != set(range(len(given))):
        raise NotAStencilError("it has several outputs, or inputs that it does not read")
    *planes, height, width = stencil.shape
    if stencil.are_channels:
        _require_dense(output, stencil.problem)
    for place in sorted(places_of(stencil.pixels), key=lambda one: one.source):
        image = inputs.images[place.source]
        if image.is_repeated and any(given[image.buffer].mins):
            raise NotAStencilError("its image does not begin at 0")
        if not image.is_repeated and not place.within and not place.has_own:
            raise NotAStencilError("it repeats some edges of an image, and others not")
        spec = given[image.buffer]
        if place.channels > 1:
            _require_dense(spec, stencil.problem)
        *others, rows, columns = rows_of(spec, place)
        plane = place.plane
        has_plane = others in ([], planes) if plane is None else plane < max(others, default=0)
        needed = place.down * height, place.step * width
        if image.is_held:
            fits = _can_hold(stencil, image, rows, columns)
        elif image.is_exact or max(place.step, place.down) == 1:
            fits = (rows, columns) == needed
        else:
            fits = rows >= needed[0] and columns >= needed[1]
        if not image.is_repeated:
            fits |= _has_all(spec, place, height, width)
        if not has_plane or not fits:
            raise NotAStencilError("its image is not made of ones of the same shape")
    if any(given[number].shape != (TABLE_BYTES,) for number in inputs.tables.values()):
        raise NotAStencilError(f"a table that it looks up in does not have {TABLE_BYTES} entries")


def _can_hold(stencil: Stencil, image: Image, rows: int, columns: int) -> bool:
    """Whether there is code for an image of that size that is held at its ends: they are near the
    output's, and vectors that are loaded there lie within it."""
    *_, height, width = stencil.extents
    cells, lanes, cell = stencil.shape[-1], stencil.lanes, stencil.cell
    is_larger = image.is_exact or (
        rows >= image.down * height // cell.down + image.bottom
        and columns >= image.step * width // cell.across + image.right
    )
    # Where images grow by vectors, as the output does, they do not follow several times as fast.
    is_slow = stencil.problem.contract is Contract.EXTENT and image.step > cell.across
    return (
        is_larger
        and rows > 0
        and not (is_slow and image.is_exact)
        and columns >= image.step * cells - lanes // 2
        and columns >= lanes * (image.step if cells > lanes else 1)
    )


def _require_dense(spec: BufferSpec, problem: Problem) -> None:
    """That pixels lie next to each other."""
    if layout_of(spec, problem.contract, problem.target).strides[-2] != spec.shape[-1]:
        raise NotAStencilError("its pixels do not lie next to each other")


def _has_all(spec: BufferSpec, place: Place, height: int, width: int) -> bool:
    """Whether an image whose edges are not repeated has ``place`` for every pixel of the output,
    and what lies there itself: vectors are loaded from there."""
    ends = zip(spec.shape[-2:], (spec.mins or (0, 0))[-2:], strict=True)
    (top, bottom), (left, right) = ((least, least + extent) for extent, least in ends)
    beyond = place.dy + 1 - place.down, place.dx + 1 - place.step
    return (
        place.channels == 1
        and top <= min(0, place.dy) <= max(0, beyond[0]) <= bottom - place.down * height
        and left <= min(0, place.dx) <= max(0, beyond[1]) <= right - place.step * width
    )


def _require_rows(stencil: Stencil) -> None:
    width, lanes = stencil.walked[-1], stencil.lanes
    if width < lanes:
        raise NotAStencilError(f"its rows have {width} pixels, fewer than {lanes}")
    if rows := _rows_in(stencil):
        if stencil.height is None:
            raise NotAStencilError("it adds up rows, for which the contract has to be static")
        if rows != {width} or width % lanes or width > _MOST_VECTORS * lanes:
            whole = f"whole rows of at most {_MOST_VECTORS} vectors"
            raise NotAStencilError(f"it adds up {max(rows)} pixels of rows of {width}, not {whole}")


class _Walk:
    """The strips of an image from left to right. Where its width is not known, its comparisons with
    the width are made when the code is called."""

    def __init__(self, stencil: Stencil, choices: Choices) -> None:
        contract, (height, width) = stencil.problem.contract, stencil.walked
        self._inputs = stencil.inputs
        self._cell = stencil.cell
        self._has_planes = len(stencil.shape) > 2
        rows = len(stencil.pixels) // choices.channels
        self._loops_over_planes = self._has_planes and rows == stencil.cell.down
        self._element_bytes = stencil.output.element_bytes
        self._channels = choices.channels
        self._across = len(stencil.output.shape) - len(stencil.extents)
        """The dimension of the output along which pixels lie."""
        self._width = width if stencil.height is not None else None
        self._height = "height" if self._width is None else str(height)
        self._columns = choices.columns
        self._lanes = lanes = stencil.lanes
        self._sizes = list(_sizes(stencil))
        """Rows and columns of the images, and of the output, in C."""
        self._is_held = choices.is_held
        is_short = any(one.is_short for one in stencil.inputs.images.values())
        is_ragged = is_short or any(stencil.rest) or (self._is_held and self._width is None)
        is_any = contract is Contract.EXTENT and not is_ragged
        is_all = contract is Contract.STATIC and width % lanes == 0 and not is_ragged
        self._is_whole = is_any or is_all
        is_dense = contract is Contract.STRIDE and not is_ragged
        self._is_aligned = self._is_whole or is_dense or stencil.is_flat
        self.strips: dict[str, Strip] = {}
        """Those that are called."""

    def loops(self) -> str:
        """The C that calls them."""
        lines, columns = list(self._sides()), [self._columns]
        if self._width is None:
            least = f"width < {self._lanes}"
            wrong = " || ".join([*self._differences(), least])
            lines.append(f"if ({wrong}) return CONSTRAINT_VIOLATED;")
            columns += [1] if self._columns > 1 else []  # narrow images
        if self._loops_over_planes:
            lines.append(f"for (int {_PLANE} = 0; {_PLANE} < output_extent_2; ++{_PLANE})")
        lines += ["CHECKED", "do {"]
        for count in columns:
            lines.append(f"if (width >= {count * self._lanes}) {{")
            lines += [*self._with(count), "break;", "}"]
        return "\n".join([*lines, "} while (0);"])

    def _sides(self) -> Iterator[str]:
        """The cells of a row, and what there is at the ends of rows and columns."""
        cell, (*given, (rows, columns)) = self._cell, self._sizes
        if self._width is None:
            yield f"const int width = {_whole(columns, cell.across)};"
            yield f"const int height = {_whole(rows, cell.down)};"
        else:
            yield f"const int width = {self._width};"
        if not self._is_held:
            return
        yield f"const int rows = {rows};"
        column = self._channels // cell.across * self._element_bytes
        yield f"const int rest = {column} * ({cell.across} * width - {columns});"
        inside, whole = ["width"], [f"rows / {cell.down}"]
        for n, (one, (high, wide)) in enumerate(zip(self._images, given, strict=True)):
            if one.is_held:
                more = f"at_most({wide} - {one.step} * width, {self._lanes // 2})"
                yield f"const int more{n} = {more}, last{n} = {high} - 1;"
                inside.append(f"{wide} / {one.step}")
                whole.append(f"{high} / {one.down}")
        yield f"const int inside = {reduce(_least, inside)};"
        yield f"const int whole = {reduce(_least, whole)};"

    def _differences(self) -> Iterator[str]:
        """Conditions under which the shape of an input is wrong."""
        cell, (*given, (rows, columns)) = self._cell, self._sizes
        for n, (one, (high, wide)) in enumerate(zip(self._images, given, strict=True)):
            name = f"input{one.buffer}_extent"
            if one.is_held:
                most = self._lanes // 2  # farther than any reads
                yield f"last{n} < 0 || more{n} < -{most}"
                yield f"{wide} < {self._lanes} * (width > {self._lanes} ? {one.step} : 1)"
            if one.is_held and not one.is_exact:
                yield f"{wide} < {one.step} * {columns} / {cell.across} + {one.right}"
                yield f"{high} < {one.down} * {rows} / {cell.down} + {one.bottom}"
            elif not one.is_held:
                sign = "!=" if one.is_exact else "<"
                yield f"{wide} {sign} {one.step} * width + {one.left + one.right}"
                yield f"{high} {sign} {one.down} * height + {one.top + one.bottom}"
            if one.plane:
                is_own = one.plane == _PLANE
                yield f"{name}_2 != output_extent_2" if is_own else f"{name}_2 <= {one.plane}"
        for number in self._inputs.tables.values():
            yield f"input{number}_extent_0 != {TABLE_BYTES}"

    def _with(self, columns: int) -> Iterator[str]:
        """Strips of ``columns`` vectors; the last one begins where it ends with the row."""
        lanes, step, width = self._lanes, columns * self._lanes, self._width
        aligned = self._is_aligned
        if width is None or width == step:
            one = self._call(Strip(columns, "edge", "edge", aligned), "0")
            yield f"if (width == {step}) {{ {one} break; }}"
        if width == step:
            return
        # A vector beside a strip is whole, and so it may be read, if rows are.
        near: Side = "inside" if self._is_aligned else "near"
        last_near: Side = "inside" if self._is_whole else "near"
        yield self._call(Strip(columns, "edge", near, aligned), "0")
        room = 0 if aligned else lanes
        if width is None or width > 2 * step:
            yield f"int x = {step};"
            if width is None or 2 * step + room <= width:
                end = "inside" if self._is_held else "width"
                stop = f"x + {step + room} {'<' if aligned else '<='} {end}"
                inner = self._call(Strip(columns, "inside", "inside", aligned), "x")
                yield f"for (; {stop}; x += {step}) {inner}"
            if not aligned:
                beside = self._call(Strip(columns, "inside", near, aligned), "x")
                # Of images that end before the output there may be more than one.
                again = f"for (; x + {step} < width; x += {step})"
                yield f"{again if self._is_held else f'if (x + {step} < width)'} {beside}"
        last = Strip(columns, last_near, "edge", self._is_whole)
        yield self._call(last, f"width - {step}")

    def _call(self, strip: Strip, x: str) -> str:
        """Calls a strip that begins at ``x``, and puts it among those that are called."""
        self.strips[strip.name] = strip
        end = f"width - ({x}) - {strip.columns * self._lanes}"
        plane = f" + {_PLANE} * output_stride_2" if self._loops_over_planes else ""
        apart = f"{self._element_bytes} * output_stride_2" if self._has_planes else "0"
        held = ", whole, rows, rest" if self._is_held else ""
        return (
            f"{strip.name}({self._inputs.arguments(x)}, "
            f"(uint8_t *)(output{plane} + {self._channels} * ({x})), "
            f"{self._element_bytes} * output_stride_{self._across + 1}, {apart}, "
            f"{self._height}, at_most({x}, {self._lanes}), "
            f"at_most({end}, {self._lanes}){held});"
        )

    @property
    def _images(self) -> list[Image]:
        return [*self._inputs.images.values()]


def _sizes(stencil: Stencil) -> Iterator[tuple[str, str]]:
    """Rows and columns of the images, and of the output, in C."""
    *specs, _ = stencil.specs
    places = {one.source: one for one in places_of(stencil.pixels)}
    is_known = stencil.height is not None
    for source, image in stencil.inputs.images.items():
        *_, rows, columns = rows_of(specs[image.buffer], places[source])
        name = f"input{image.buffer}_extent"
        yield (str(rows), str(columns)) if is_known else (f"{name}_1", f"{name}_0")
    *_, height, width = stencil.extents
    across = len(stencil.output.shape) - len(stencil.extents)
    name = "output_extent"
    yield (str(height), str(width)) if is_known else (f"{name}_{across + 1}", f"{name}_{across}")


def _whole(extent: str, side: int) -> str:
    return f"({extent} + {side - 1}) / {side}" if side > 1 else extent


def _least(one: str, other: str) -> str:
    return f"at_most({one}, {other})"
