"""Plans of elements from places that are known when code is written: images resized, interleaved,
mirrored, and raw pixels unpacked, with any function of what is read.

An output's rows, or as many of its inner axes as fill vectors, go along lanes. What an expression
has that depends on lanes alone is a vector in a table; what depends on rows alone, a number in one;
both are evaluated for all places (``places``). Elements that are read lie where a row says, and
farther by a number that the lane decides: they are bytes of a few windows, which ``networks``
brings to their lanes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any, Self

import numpy as np

from tuner.codegen import clang, wrapping
from tuner.codegen.hvx.elements import Elements
from tuner.codegen.hvx.networks import MOST_PIECES, Piece, Route, dealt, pieces_of
from tuner.codegen.hvx.places import Places, cared
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.writing import bytes_of
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.program.bounds import bounded
from tuner.program.expressions import Expr, Load, ordered
from tuner.program.inlining import inlined, is_small
from tuner.program.intervals import Scope
from tuner.program.loops import Program, Stage
from tuner.program.meanings import Array
from tuner.program.normal import normalized
from tuner.program.types import BOOL, I32
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_ROWS, _MOST_ROWS = "hvx_routed", (1, 2, 4)
_MOST_VECTORS = 1024
"""Of tables."""
_MOST_BLOCKS = 128
"""Of a row: each is routed."""
_MOST_COPIED = 1 << 16
"""Bytes of an input that is copied as it has no room for windows."""
_NAME = re.compile(r"\b(?:v|in|r)\d+\b")
"""Of what each row has for itself."""


@dataclass(frozen=True)
class _Read:
    """The input ``number`` at ``rows`` (elements, over the outer axes), and for each lane of a row
    ``lanes`` farther, -1 where none is read; at one place for all if it ``is_one``."""

    number: int
    rows: Array
    lanes: Array
    is_one: bool


@dataclass
class _Lanes(Elements):
    """The operations of a block, of elements that ``reads`` tells; ``tables`` of what is known."""

    plan: Routed | None = None

    def line(self, text: str) -> str:
        """The name of a vector that ``text`` makes."""
        return self._made(text)

    def _found(self, value: Expr, bits: int) -> list[str]:
        assert self.plan is not None  # noqa: S101
        known = self.plan.places.of(value)
        if known is None or value.type == BOOL:
            return super()._found(value, bits)
        if known.size == 1:
            return self._splat(int(known.item()), bits)
        if self.plan.places.is_of_rows(known):
            number = self.plan.writing.of_rows(known)
            return self._splat_of(number, bits)
        if not self.plan.places.is_of_lanes(known):
            raise RefusedError("what it has at a place depends on rows and columns together")
        return self.plan.writing.of_lanes(self.plan.places.along(known), bits)

    def _splat_of(self, number: str, bits: int) -> list[str]:
        letter = {8: "b", 16: "h", 32: "w"}[bits]
        made = self._made(f"HVX(lvsplat{letter})({number})")
        return [made] * len(self._splat(0, bits))

    def _reach(self, condition: Expr) -> int:
        assert self.plan is not None  # noqa: S101
        known = self.plan.places.of(condition)
        return super()._reach(condition) if known is None else self._base

    def _holds(self, condition: Expr, bits: int) -> list[str]:
        assert self.plan is not None  # noqa: S101
        known = self.plan.places.of(condition)
        if known is None:
            return super()._holds(condition, bits)
        if self.plan.places.is_of_rows(known):
            masks = self._splat_of(self.plan.writing.of_rows(-known.astype(np.int32)), I32.bits)
            masks = masks[:1] * len(self._splat(0, bits))
        elif self.plan.places.is_of_lanes(known):
            lanes = -self.plan.places.along(known).astype(np.int32)
            masks = self.plan.writing.of_lanes(lanes, bits)
        else:
            raise RefusedError("what it chooses by depends on rows and columns together")
        return [f"HVX(vandvrt)({one}, -1)" for one in masks]

    def _loaded(self, load: Load) -> list[str]:
        assert self.plan is not None  # noqa: S101
        read, bits = self.plan.reads.get(load), max(load.type.bits, self._base)
        if read is None:  # which no lane chooses
            return self._splat(0, bits)
        pointer = self.plan.writing.pointer(read)
        if read.is_one:
            return self._splat_of(f"*{pointer}", bits)
        return self.plan.writing.routed(self, read, pointer)


class _Writing:
    """Tables, and what is the same for all rows of a block: ``shared`` lines of C."""

    def __init__(self, plan: Routed) -> None:
        self._plan = plan
        self.shared: list[str] = []
        self.pointers: dict[str, _Read] = {}
        self.numbers: dict[str, Array] = {}
        """Of rows."""
        self._vectors: dict[tuple[bytes, ...], str] = {}
        """Their names, by what each block has."""
        self.starts: dict[tuple[int, ...], str] = {}
        self._windows: dict[tuple[str, str], str] = {}

    def pointer(self, read: _Read) -> str:
        """The name of where a row of ``read`` begins."""
        for name, own in self.pointers.items():
            if own.number == read.number and np.array_equal(own.rows, read.rows):
                return name
        name = f"in{len(self.pointers)}"
        self.pointers[name] = read
        return name

    def of_rows(self, values: Array) -> str:
        """The name of a number that each row has."""
        name = f"r{len(self.numbers)}"
        self.numbers[name] = self._plan.places.down(values).astype(np.int32)
        return name

    def of_lanes(self, values: Array, bits: int) -> list[str]:
        """The names of vectors of numbers of ``bits``, even elements before odd ones."""
        size, wide = bits // 8, values.astype(np.int64) & (1 << bits) - 1
        lanes = self._plan.lanes
        return [
            self._vector(
                wide[np.minimum(block + own, len(wide) - 1)].astype(f"<u{size}").tobytes()
                for block in self._plan.blocks
            )
            for own in dealt(lanes, lanes * size // self._plan.vector_bytes)
        ]

    def _vector(self, each: Iterable[bytes]) -> str:
        """The name of a vector that each block has."""
        found = tuple(each)
        if found not in self._vectors:
            number = len(self._vectors)
            self._vectors[found] = f"t{number}"
            self.shared.append(f"const V t{number} = TABLE({number});")
        return self._vectors[found]

    def _start(self, each: tuple[int, ...]) -> str:
        """The name of a number that each block has."""
        return self.starts.setdefault(each, f"s{len(self.starts)}")

    def routed(self, elements: _Lanes, read: _Read, pointer: str) -> list[str]:
        """The vectors of what is read, even elements before odd ones."""
        plan, found = self._plan, list[str]()
        whole, none = plan.vector_bytes, Route((), ())
        for wanted in plan.wanted(read):
            pieces, is_upwards = plan.pieces(wanted, read)
            network, made = "vrdelta" if is_upwards else "vdelta", ""
            for n in range(max(map(len, pieces))):
                some = [own[n] if n < len(own) else Piece(own[0].start, none) for own in pieces]
                vector = self._window(elements, read, pointer, some)
                if any(one.route.ways for one in some):
                    way = self._vector(bytes(one.route.ways or [0] * whole) for one in some)
                    vector = elements.line(f"HVX({network})({vector}, {way})")
                if made:
                    brought = (np.isin(np.arange(whole), one.route.lanes) for one in some)
                    mask = self._vector((255 * one.astype(np.uint8)).tobytes() for one in brought)
                    chosen = f"HVX(vandvrt)({mask}, -1)"
                    vector = elements.line(f"HVX(vmux)({chosen}, {vector}, {made})")
                made = vector
            found.append(made)
        return found

    def _window(self, elements: _Lanes, read: _Read, pointer: str, some: Sequence[Piece]) -> str:
        start = self._start(tuple(one.start for one in some))
        key = pointer, start
        if key not in self._windows:
            size, whole = self._plan.specs[read.number].element_bytes, self._plan.vector_bytes
            numbers = [*(size * read.rows).ravel(), *(one.start for one in some)]
            kind = "VU" if any(one % whole for one in numbers) else "V"
            text = f"*(const {kind} *)((const uint8_t *){pointer} + {start})"
            self._windows[key] = elements.line(text)
        return self._windows[key]

    def tables(self) -> tuple[list[int], list[bytes]]:
        """Which of some entries each block has, and the vectors of all of them."""
        entries = dict[tuple[bytes, ...], int]()
        which = [
            entries.setdefault(tuple(each[block] for each in self._vectors), len(entries))
            for block in range(len(self._plan.blocks))
        ]
        return which, [vector for own in entries for vector in own]

    @property
    def count(self) -> int:
        """Vectors of a block."""
        return len(self._vectors)


@dataclass(frozen=True)
class Routed(Plan):
    """A ``program`` of one stage in normal form, of which the last ``inner`` axes are a row."""

    accepted = "elements from places that are known"

    program: Program
    specs: tuple[BufferSpec, ...]
    problem: Problem
    inner: int

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        if problem.contract is not Contract.STATIC:
            raise NoPlanError  # others say why
        shapes = {spec.name: spec.shape for spec in specs}
        program = inlined(program, is_small(program))
        program = normalized(program, program.sizes_at(shapes))
        _require(program)
        if program.scalars or any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("it has scalars, or its buffers are loose or do not begin at 0")
        reason: NoPlanError | None = None
        shape = specs[-1].shape
        for inner in range(1, len(shape) + 1):
            found = cls(program, tuple(specs), problem, inner)
            if prod(shape[-inner:]) < found.most_lanes and inner < len(shape):
                continue
            try:
                found.tables  # noqa: B018 - or there are none
            except RefusedError as error:
                reason = reason or error
            else:
                return found
        assert reason is not None  # noqa: S101 - something was tried
        raise reason.with_traceback(None)

    @property
    def vector_bytes(self) -> int:
        """Those of a vector."""
        return self.problem.target.vector_bytes

    @property
    def most_lanes(self) -> int:
        """Elements of a block of the narrowest type."""
        return self.vector_bytes // min(spec.element_bytes for spec in self.specs)

    @cached_property
    def lanes(self) -> int:
        """Elements of a block."""
        read = {one.number for one in self.reads.values() if not one.is_one}
        sizes = [self.specs[number].element_bytes for number in read]
        return self.vector_bytes // min([*sizes, self.specs[-1].element_bytes])

    @cached_property
    def places(self) -> Places:
        """What is known of expressions."""
        return Places(self.program, self.specs[-1].shape, self.inner)

    @cached_property
    def blocks(self) -> list[int]:
        """Where those of a row begin."""
        last = max(0, self.places.width - self.lanes)
        return [min(at, last) for at in range(0, self.places.width, self.lanes)]

    @cached_property
    def writing(self) -> _Writing:
        """What is written of it."""
        return _Writing(self)

    @cached_property
    def reads(self) -> Mapping[Load, _Read]:
        """The elements of inputs, by loads."""
        (stage,) = self.program.stages
        names = [one.name for one in self.program.inputs]
        found = dict[Load, _Read]()
        for load, lanes in cared(stage.values[0], self.places).items():
            if load.source not in names:
                raise NoPlanError
            number = names.index(load.source)
            shape = self.specs[number].shape
            rows: Any = np.zeros((1,) * (len(self.specs[-1].shape) - self.inner), np.int64)
            along: Any = np.zeros(self.places.width, np.int64)
            for dimension, (index, extent) in enumerate(zip(load.indices, shape, strict=True)):
                values = self.places.of(index)
                if values is None:
                    raise NoPlanError
                down, across = self.places.split(values)
                own = across[lanes]
                if down.min() + own.min() < 0 or down.max() + own.max() >= extent:
                    raise RefusedError("it may read beyond an input")
                stride = prod(shape[dimension + 1 :])
                rows, along = rows + stride * down, along + stride * across
            is_one = bool(np.all(along[lanes] == along[lanes][0]))
            least = int(along[lanes].min())
            rows, along = rows + least, np.where(lanes, along - least, -1)
            found[load] = _Read(number, rows, along, is_one)
        return found

    def wanted(self, read: _Read) -> Iterator[list[Array]]:
        """For each vector of a block, and each block, the elements of ``read`` in its lanes."""
        count = self.lanes * self.specs[read.number].element_bytes // self.vector_bytes
        for numbers in dealt(self.lanes, count):
            each = []
            for block in self.blocks:
                at = block + numbers
                inside = np.minimum(at, self.places.width - 1)
                each.append(np.where(at < self.places.width, read.lanes[inside], -1))
            yield each

    def pieces(self, wanted: Sequence[Array], read: _Read) -> tuple[list[list[Piece]], bool]:
        """The windows of each block, and whether they go through the network upwards."""
        size, ends = self.specs[read.number].element_bytes, self.ends(read)
        asked = [tuple(map(int, one)) for one in wanted]
        ways = [
            [pieces_of(one, size, self.vector_bytes, ends, is_upwards=up) for one in asked]
            for up in (False, True)
        ]
        best = min(ways, key=lambda each: max(map(len, each)))
        if max(map(len, best)) > MOST_PIECES:
            raise RefusedError("what it reads lies too far apart")
        return best, best is ways[1]

    def ends(self, read: _Read) -> tuple[int, int]:
        """The first and last place where a window may begin, in bytes from a row's."""
        spec = self.specs[read.number]
        size, room = spec.element_bytes, self.vector_bytes * (read.number not in self.copied)
        return (
            -int(read.rows.min()) * size,
            spec.payload_bytes - room - int(read.rows.max()) * size,
        )

    @cached_property
    def copied(self) -> Sequence[int]:
        """The inputs that have no room for windows."""
        found = set[int]()
        for read in self.reads.values():
            spec, size = self.specs[read.number], self.specs[read.number].element_bytes
            spread = int(read.rows.max() - read.rows.min()) * size
            if not read.is_one and spread > spec.payload_bytes - self.vector_bytes:
                if spec.payload_bytes > _MOST_COPIED:
                    raise RefusedError("its rows have less than a vector, and there are many")
                found.add(read.number)
        return sorted(found)

    @cached_property
    def block(self) -> tuple[_Lanes, list[str]]:
        """The operations of a block, and the vectors that are stored."""
        (stage,) = self.program.stages
        sizes = self.program.sizes_at({one.name: one.shape for one in self.specs})
        scope: Scope | None = bounded(self.program, sizes).of_definition(stage)
        if scope is None:
            raise NoPlanError("its output has no elements")
        if not any(not one.is_one for one in self.reads.values()):
            raise NoPlanError("no input is read along its rows")
        elements = _Lanes(scope, self.lanes, self.vector_bytes, _no_place, plan=self)
        if len(self.blocks) > _MOST_BLOCKS:
            raise RefusedError("its rows have too many vectors")
        return elements, elements.stored(stage.values[0])

    @cached_property
    def tables(self) -> tuple[list[int], list[bytes]]:
        """Which of some entries each block has, and the vectors of all of them."""
        self.block  # noqa: B018 - it asks for them
        which, vectors = self.writing.tables()
        if len(vectors) > _MOST_VECTORS:
            raise RefusedError("its tables take too much memory")
        return which, vectors

    @property
    def knobs(self) -> tuple[Knob, ...]:
        rows = tuple(one for one in _MOST_ROWS if one <= self._rows)
        return (
            Knob(_ROWS, rows, "rows that are made together"),
            clang.DEEPER,
        )

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        return {_ROWS: 2}

    def switches(self, config: Config) -> list[str]:
        return [*clang.NO_MERGED_LOADS, *super().switches(config)]

    @property
    def _outer(self) -> tuple[int, ...]:
        shape = self.specs[-1].shape
        return shape[: len(shape) - self.inner]

    @property
    def _rows(self) -> int:
        """Those that follow one another."""
        return self._outer[-1] if self._outer else 1

    def written(self, config: Config) -> tuple[str, str]:
        elements, _ = self.block
        which, vectors = self.tables
        writing, numbers = self.writing, chain.from_iterable(vectors)
        tables = [bytes_of(name, values) for name, values in elements.tables.items()]
        tables.append(bytes_of("known", [*numbers] or [0]))
        tables.append(_numbers("uint16_t", "which", which))
        tables += (_numbers("int32_t", f"{s}_of", each) for each, s in writing.starts.items())
        of_rows = {
            **{name: read.rows for name, read in writing.pointers.items()},
            **writing.numbers,
        }
        for name, values in of_rows.items():
            if _straight(values) is None:
                tables.append(_numbers("int32_t", f"{name}_of", values.ravel()))
        tables.append(f"#define TABLE(n) (((const V *)known)[own * {writing.count} + n])")
        return "\n".join(self._loops(config.integer(_ROWS))), "\n".join([*tables, _COPIED])

    def _loops(self, together: int) -> Iterator[str]:
        elements, stored = self.block
        made, width, outer = self.specs[-1], self.places.width, self._outer
        kind = wrapping.element_type(made)
        is_short = width < self.lanes
        for n in self.copied:
            size = self.specs[n].payload_bytes
            yield f"uint8_t *whole{n} = scratch({size + self.vector_bytes});"
            yield f"copied(whole{n}, (const uint8_t *)input{n}, {size});"
        if is_short:
            yield f"{kind} *pad = scratch({self.lanes * made.element_bytes});"
        yield "CHECKED"
        *others, last = outer or (1,)
        for n, extent in enumerate(others):
            yield f"for (int i{n} = 0; i{n} < {extent}; ++i{n})"
        at = len(others)
        yield f"for (int first = 0; first < {last}; first += {together}) {{"
        yield f"const int i{at}_ = at_most(first, {last - together});"
        for row in range(together):
            index = [*(f"i{n}" for n in range(at)), f"(i{at}_ + {row})"][: len(outer)]
            for name, read in self.writing.pointers.items():
                spec, place = self.specs[read.number], self._of_row(name, read.rows, index)
                base = f"input{read.number}"
                if read.number in self.copied:
                    base = f"(({wrapping.element_type(spec)} *)whole{read.number})"
                yield f"{wrapping.element_type(spec)} *{name}_{row} = {base} + {place};"
            for name, values in self.writing.numbers.items():
                yield f"const int {name}_{row} = {self._of_row(name, values, index)};"
            steps = [prod(outer[n + 1 :]) * width for n in range(len(outer))]
            place = " + ".join(f"{one} * {step}" for one, step in zip(index, steps, strict=True))
            yield f"{kind} *out_{row} = {'pad' if is_short else f'output + {place or 0}'};"
        yield f"for (int block = 0; block < {len(self.blocks)}; ++block) {{"
        yield f"const int x = at_most(block * {self.lanes}, {self.blocks[-1]});"
        yield f"const int own = {self._of_block('which', self.tables[0])};"
        for each, name in self.writing.starts.items():
            yield f"const int {name} = {self._of_block(f'{name}_of', each)};"
        yield from self.writing.shared
        for line in elements.lines:
            yield from (_NAME.sub(rf"\g<0>_{row}", line) for row in range(together))
        whole = self.vector_bytes
        begins = [width * made.element_bytes] * bool(outer)
        begins += [one * made.element_bytes for one in self.blocks]
        aligned = "VU" if any(one % whole for one in begins) and not is_short else "V"
        for n, vector in enumerate(stored):
            for row in range(together):
                own = _NAME.sub(rf"\g<0>_{row}", vector)
                yield f"(({aligned} *)(out_{row} + x))[{n}] = {own};"
        yield "}"
        yield "}"
        if is_short:
            yield f"for (int x = 0; x < {width}; ++x) output[x] = pad[x];"

    def _of_block(self, table: str, each: Sequence[int]) -> str:
        if len({*each}) == 1:
            return str(each[0])
        step, over = divmod(each[1] - each[0], self.blocks[1] - self.blocks[0])
        if not over and all(
            one == each[0] + step * x for one, x in zip(each, self.blocks, strict=True)
        ):
            return f"{each[0]} + {step} * x"
        return f"{table}[block]"

    def _of_row(self, name: str, values: Array, index: Sequence[str]) -> str:
        """A number of the row ``index``."""
        line = _straight(values)
        if line is not None:
            first, steps = line
            terms = [f"{step} * {one}" for step, one in zip(steps, index, strict=True) if step]
            return " + ".join([str(first), *terms])
        terms = []
        for n, (extent, one) in enumerate(zip(values.shape, index, strict=True)):
            if extent > 1:
                terms.append(f"{prod(values.shape[n + 1 :])} * {one}")
        return f"{name}_of[{' + '.join(terms)}]"


_COPIED = """
static inline void copied(uint8_t *restrict to, const uint8_t *restrict from, int bytes) {
    int at = 0;
    for (; at + VECTOR_BYTES <= bytes; at += VECTOR_BYTES)
        *(V *)(to + at) = *(const VU *)(from + at);
    for (; at < bytes; ++at) to[at] = from[at];
}
"""


def _no_place(_: Load) -> tuple[str, bool]:
    raise AssertionError("elements are routed")


def _straight(values: Array) -> tuple[int, list[int]] | None:
    """The first of ``values``, and by how much they go on along each axis, if they do so evenly."""
    first = int(values[(0,) * values.ndim])
    whole: Any = first
    steps = list[int]()
    for n, extent in enumerate(values.shape):
        own = np.moveaxis(values, n, -1).reshape(-1, extent)[0]
        steps.append(int(own[1]) - first if extent > 1 else 0)
        line = steps[-1] * np.arange(extent)
        whole = whole + line.reshape([-1] + [1] * (values.ndim - n - 1))
    return (first, steps) if np.array_equal(np.broadcast_to(whole, values.shape), values) else None


def _numbers(kind: str, name: str, values: Any) -> str:
    return f"static const {kind} {name}[] = {{{', '.join(str(int(one)) for one in values)}}};"


def _require(program: Program) -> Stage:
    """The one stage of ``program``."""
    if len(program.stages) != 1 or len(program.outputs) != 1 or not program.inputs:
        raise NoPlanError
    (stage,) = program.stages
    if len(stage.arrays) > 1 or stage.updates or not stage.axes:
        raise NoPlanError
    if stage.types[0] == BOOL or stage.types[0].bits > I32.bits:
        raise RefusedError("its elements have 64 bits")
    for node in ordered(stage.values):
        if isinstance(node, Load) and node.type.bits > I32.bits:
            raise RefusedError("its elements have 64 bits")
    return stage
