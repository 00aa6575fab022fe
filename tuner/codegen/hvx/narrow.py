"""Plans of stencils of images whose rows fill no vector.

Rows are copied side by side into memory of whole vectors, each with what is read beyond its ends,
and a stencil (``strips``) goes down those; ``narrow.h`` has the copying. Side by side lie bands of
rows that follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import ceil, prod, sqrt
from pathlib import Path
from typing import NamedTuple, Self

from tuner.codegen import wrapping
from tuner.codegen.hvx.pixel import places_of, surrounded
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.stencils import pixels_of
from tuner.codegen.hvx.strips import PREFETCH, Stencil, require_buffers, rows_of
from tuner.codegen.hvx.writing import bytes_of, ways_to
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program import Program
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_FUNCTIONS = Path(__file__).with_name("narrow.h")
_MOST_ROWS = 64
"""Of a band at once: copies stay in the first cache."""
_MOST_IMAGES = 3
"""Each takes two pieces of memory at most, of eight."""
_OF_A_COPY = 2
"""Packets of a vector's pixels, of those of a copied row."""
_SMALL = 2048
"""Bytes of an image that is copied as a whole: nothing of it ends with memory."""


class _Image(NamedTuple):
    """An input in ``planes`` of ``down`` rows of ``across`` bytes, from ``x`` and ``y`` on, which
    may have ``channels`` side by side. For a pixel of the output it has ``step`` bytes of ``rows``,
    and beyond those of all pixels more is read to each side; if it ``repeats`` its edges, that is
    they again."""

    planes: int
    down: int
    across: int
    x: int
    y: int
    channels: int
    step: int
    rows: int
    left: int
    top: int
    right: int
    bottom: int
    repeats: bool

    @property
    def total(self) -> int:
        """Bytes."""
        return self.planes * self.down * self.across

    @property
    def is_surrounded(self) -> bool:
        """Whether anything is read beyond pixels' own shares."""
        return any((self.left, self.top, self.right, self.bottom))

    def copied(self, rows: int, lanes: int) -> tuple[int, int]:
        """Rows and bytes of one of a copy, for ``rows`` of one vector."""
        across = self.step * lanes
        if self.is_surrounded:
            across = -(-(across + self.left + self.right) // lanes) * lanes
        return self.top + self.rows * rows + self.bottom, across


@dataclass(frozen=True)
class Narrow(Plan):
    """The ``stencil`` of a problem, and its images by the numbers of their buffers."""

    accepted = "stencils of images whose rows fill no vector"

    stencil: Stencil
    images: Mapping[int, _Image]

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        if problem.contract is not Contract.STATIC:
            raise NoPlanError("how many pixels its rows have is not known")
        shapes = {spec.name: spec.shape for spec in specs}
        stencil = Stencil(*pixels_of(program, shapes), tuple(specs), problem)
        if stencil.walked[-1] >= stencil.lanes:
            raise NoPlanError("its rows fill vectors")
        if any(stencil.rest):
            raise NoPlanError("its last cells lack pixels, and its rows fill no vector")
        require_buffers(stencil)
        for spec in specs:
            strides = layout_of(spec, problem.contract, problem.target).strides
            if strides[0] != prod(spec.shape[1:]):
                raise RefusedError("its rows do not lie densely")
        made = cls(stencil, _images(stencil))
        if len(made.images) > _MOST_IMAGES:
            raise RefusedError(f"it has more than {_MOST_IMAGES} images")
        made.inner.require()
        return made

    @property
    def width(self) -> int:
        """Pixels of a row."""
        return self.stencil.walked[-1]

    @cached_property
    def pitch(self) -> int:
        """Pixels from a band to the next."""
        beyond = (-(-(one.left + one.right) // one.step) for one in self.images.values())
        return self.width + max(beyond)

    @property
    def bands(self) -> int:
        """How many rows lie side by side: as many as there is room for, unless to copy the rows
        between bands twice takes longer than they save."""
        height = self.stencil.walked[0]
        again = max(one.top + one.bottom for one in self.images.values())
        if any(one.step > 1 for one in self.images.values()):
            return 1
        most = ceil(sqrt(_OF_A_COPY * height / again)) if again else height
        return max(1, min(self.stencil.lanes // self.pitch, most, height))

    @property
    def rows(self) -> int:
        """Those of a band at once."""
        each = -(-self.stencil.walked[0] // self.bands)
        return -(-each // -(-each // _MOST_ROWS))

    @cached_property
    def inner(self) -> Stencil:
        """What goes down whole vectors."""
        stencil, lanes = self.stencil, self.stencil.lanes
        specs = list(stencil.specs)
        for number, one in self.images.items():
            down, across = one.copied(self.rows, lanes)
            shape = specs[number].shape
            mins: tuple[int, ...] = (-one.top, -one.left)
            if one.channels > 1:
                shape = (down, across // one.channels, one.channels)
            else:
                shape, mins = (*shape[:-2], down, across), (*(0 for _ in shape[:-2]), *mins)
            specs[number] = specs[number]._replace(
                shape=shape, mins=mins if one.is_surrounded else ()
            )
        out, cell = stencil.output.shape, stencil.cell
        own = (self.rows * cell.down, lanes * cell.across)
        specs[-1] = stencil.output._replace(
            shape=(*own, out[-1]) if stencil.are_channels else (*out[:-2], *own)
        )
        return replace(stencil, pixels=tuple(map(surrounded, stencil.pixels)), specs=tuple(specs))

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(
            replace(one, choices=one.choices[:1]) if one.name == PREFETCH else one
            for one in self.inner.knobs
        )

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        return self.inner.textbook

    def switches(self, config: Config) -> list[str]:
        return self.inner.switches(config)

    def written(self, config: Config) -> tuple[str, str]:
        loops, functions = self.inner.written(config)
        names = [*(f"input{number}" for number in range(len(self.inner.specs) - 1)), "output"]
        specs = [
            spec._replace(name=name) for spec, name in zip(self.inner.specs, names, strict=True)
        ]
        down = wrapping.function("down_rows", self.stencil.problem, specs, loops, is_apart=True)
        ways = [
            bytes_of(f"edges{number}", chain.from_iterable(self._ways(one)))
            for number, one in self.images.items()
            if self._ways(one)
        ]
        texts = [path.read_text() for path in (wrapping.STORING, _FUNCTIONS)]
        before = [functions, *ways, *texts, down]
        return "\n".join(self._loops(specs)), "\n".join(before)

    def _loops(self, specs: Sequence[BufferSpec]) -> Iterator[str]:
        lanes, bands, rows = self.stencil.lanes, self.bands, self.rows
        *given, made = specs
        yield from (f"const uint8_t *image{n} = input{n};" for n in self.images)
        yield "uint8_t *out = (uint8_t *)output;"
        for number, one in self.images.items():
            yield f"uint8_t *rows{number} = scratch({given[number].payload_bytes + lanes});"
            if one.total <= _SMALL:
                yield f"uint8_t *whole{number} = scratch({one.total + lanes});"
                yield f"copy_all(whole{number}, image{number}, {one.total});"
                yield f"image{number} = whole{number};"
        yield f"uint8_t *made = scratch({made.payload_bytes + 2 * lanes});"
        if self.is_small:
            yield f"out = scratch({self.stencil.output.payload_bytes + lanes});"
        yield "CHECKED"
        yield f"for (int first = 0; first < {self.stencil.walked[0]}; first += {bands * rows}) {{"
        for number, one in self.images.items():
            yield from self._copied(number, one)
        passed = [f"{'rows' if n in self.images else 'input'}{n}" for n in range(len(given))]
        passed.append(f"({wrapping.element_type(made)} *)made")
        yield f"const int failed = down_rows({', '.join(passed)});"
        yield "if (failed) return failed;"
        yield from self._stored(made)
        yield "}"
        if self.is_small:
            yield f"copy_all((uint8_t *)output, out, {self.stencil.output.payload_bytes});"

    @property
    def is_small(self) -> bool:
        """Whether the output is made apart, with room for a vector more."""
        return self.stencil.output.payload_bytes <= _SMALL

    def _copied(self, number: int, one: _Image) -> Iterator[str]:
        """The rows of an input as those of ``rowsN``."""
        lanes, (down, across) = self.stencil.lanes, one.copied(self.rows, self.stencil.lanes)
        skipped = 0 if one.repeats else one.left + one.x
        vectors = -(-(one.left + one.step * self.width + one.right) // lanes)
        edges = f"(const V *)edges{number}" if self._ways(one) else "0"
        bands = f"{self.bands}, {one.rows * self.rows}, {self.pitch}"
        own = f"image{number} + plane * {one.down * one.across} - {skipped}"
        end = one.total + lanes * (one.total <= _SMALL)
        made = f"(V *)rows{number} + plane * {down * across // lanes}"
        first = f"{one.rows} * first - {one.top + one.y}"
        yield f"for (int plane = 0; plane < {one.planes}; ++plane) {{"
        image = f"{own}, image{number} + {end}, {one.across}, {one.down}"
        yield f"const struct image image = {{{image}}};"
        yield f"const struct way way = {{{edges}, {vectors}, {across // lanes}, {bands}}};"
        yield f"copy_rows({made}, image, {first}, {down}, way);"
        yield "}"

    def _ways(self, one: _Image) -> list[list[int]]:
        """Those of ``vdelta`` from a row to where it and its edges lie: of each band, or of each
        vector of one. Of one that is copied as it is none."""
        lanes, count = self.stencil.lanes, one.left + one.step * self.width + one.right
        row, has_edges = [*range(count)], one.repeats and one.left + one.right
        if has_edges:
            row = [max(0, min(n - one.left, one.step * self.width - 1)) for n in row]
        if self.bands > 1:
            begins = (band * self.pitch for band in range(self.bands))
            return [ways_to(enumerate(row, start=begin), lanes) for begin in begins]
        starts = range(0, count, lanes) if has_edges else ()
        return [ways_to(enumerate(row[start : start + lanes]), lanes) for start in starts]

    def _stored(self, made: BufferSpec) -> Iterator[str]:
        """The rows of the output, each over what the one before has too much."""
        height, width = self.stencil.walked
        down, cell = self.stencil.cell.down, made.element_bytes * self.stencil.channels
        planes = 1 if self.stencil.are_channels else prod(made.shape[:-2])
        across = cell * self.stencil.lanes
        yield f"for (int plane = 0; plane < {planes}; ++plane)"
        yield f"for (int band = 0; band < {self.bands}; ++band) {{"
        yield f"const int row = {down} * (first + {self.rows} * band);"
        yield f"const int left = {down * height} - row;"
        place = f"out + (plane * {down * height} + row) * {cell * width}"
        vectors = f"plane * {down * self.rows * across} + {cell * self.pitch} * band"
        room = f"left * {cell * width}" + f" + {self.stencil.lanes}" * self.is_small
        yield f"store_rows({place}, made + {vectors}, {across}, {cell * width}, "
        yield f"at_most(left, {down * self.rows}), {room});"
        yield "}"


def _images(stencil: Stencil) -> dict[int, _Image]:
    found = dict[int, _Image]()
    places = places_of(stencil.pixels)
    for image in stencil.inputs.images.values():
        spec = stencil.specs[image.buffer]
        sources = {
            one for one, other in stencil.inputs.images.items() if other.buffer == image.buffer
        }
        around = [one for one in places if one.source in sources]
        shape = rows_of(spec, around[0])
        if stencil.is_flat:
            shape = (*shape[:-2], 1, shape[-2] * shape[-1])
        y, x = (spec.mins or (0, 0))[-2:] if around[0].channels == 1 else (0, 0)
        one = _Image(
            planes=prod(shape[:-2]),
            down=shape[-2],
            across=shape[-1],
            x=x,
            y=y,
            channels=around[0].channels,
            step=image.step,
            rows=image.down,
            left=max(0, *(-one.dx for one in around)),
            top=max(0, *(-one.dy for one in around)),
            right=max(0, *(one.dx + 1 - image.step for one in around)),
            bottom=max(0, *(one.dy + 1 - image.down for one in around)),
            repeats=image.is_repeated,
        )
        height, width = stencil.walked
        beyond = (one.down - one.rows * height, one.across - one.step * width)
        if min(beyond) < 0 or (one.repeats and one.is_surrounded and beyond != (0, 0)):
            raise NoPlanError("its image does not fit the size of its output")
        if one.repeats and one.left + one.right and one.across > stencil.lanes:
            raise RefusedError("its image with repeated edges is wider than a vector")
        found[image.buffer] = one
    return found
