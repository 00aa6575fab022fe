"""Programs drawn at random: stages of every kind over images of two sizes, at every width."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tuner.program.bounds import bounded
from tuner.program.expressions import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    SHIFTS,
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    Select,
    Unary,
    Variable,
    clamped,
    equal,
    maximum,
    minimum,
)
from tuner.program.loops import Buffer, Loop, Program, Scalar, Stage, Table, Update
from tuner.program.types import I8, I16, I32, I64, U8, U16, U32, U64, Type

TYPES = (I8, I16, I32, I64, U8, U16, U32, U64)
NARROW = (U8, I8, U16, I16)
HEIGHT, WIDTH = Variable("height"), Variable("width")
ENTRIES = 16
"""Of tables and histograms."""
CHANNELS = 3
COUNT = "count"
"""A scalar that says how far loops go."""


def number(value: int, kind: Type = I32) -> Constant:
    return Constant(value, kind)


@dataclass
class Source:
    """Something to read: ``extents`` of axes that begin at 0, or nothing if all may be read."""

    name: str
    type: Type
    rank: int
    extents: Sequence[Expr] = ()


@dataclass
class Drawing:
    """A program as it is drawn."""

    random: Random
    depth: int
    arguments: list[Scalar | Buffer] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def few(self, most: int) -> int:
        return self.random.randint(0, most)

    def constant(self, kind: Type) -> Expr:
        edges = (0, 1, 2, 7, kind.low, kind.high, kind.high // 3)
        return number(self.one_of(*edges), kind)

    def index(self, place: Expr, extent: Expr | None) -> Expr:
        """An index near ``place``, within ``extent``."""
        step = self.few(4) - 2
        moved = place + step if step > 0 else place - -step if step else place
        if self.few(3) == 0:
            moved = self.one_of(2 * moved, moved // 2, place)
        if extent is None:
            return moved
        if self.few(2) == 0:  # mirrored
            folded = Select(moved < 0, -1 - moved, moved)
            moved = Select(folded >= extent, 2 * extent - 1 - folded, folded)
        return maximum(minimum(moved, extent - 1), 0)

    def load(self, places: Sequence[Expr]) -> Expr:
        """An element near ``places``, or wherever another says."""
        source = self.one_of(*self.sources)
        spread = list(places[-source.rank :])
        while len(spread) < source.rank:
            spread.insert(0, number(self.few(CHANNELS - 1)))
        if self.few(4) == 0:  # turned
            spread.reverse()
        if self.few(6) == 0:
            looked_up = self.one_of(*(one for one in self.sources if one.extents))
            ends = looked_up.extents
            near = [*[number(0)] * looked_up.rank, *places][-looked_up.rank :]
            at = [self.index(*one) for one in zip(near, ends, strict=True)]
            spread[-1] = Cast(I32, Load(looked_up.name, tuple(at), looked_up.type)) % ENTRIES
        ends = source.extents or [None] * source.rank
        found = Load(source.name, tuple(map(self.index, spread, ends)), source.type)
        if self.few(7) == 0:  # a constant around
            inside = (spread[-1] >= 1) & (spread[-1] < WIDTH - 1)
            return Select(inside, found, self.constant(source.type))
        return found

    def mux(self, kind: Type, leaf: Callable[[], Expr], less: int) -> Expr:
        """One of three, by number."""
        found = leaf()
        by, made = found % 3, self.value(kind, leaf, less)
        for case in range(2):
            made = Select(equal(by, case), self.value(kind, leaf, less), made)
        return made

    def condition(self, leaf: Callable[[], Expr]) -> Expr:
        one = leaf()
        made: Expr = Binary(self.one_of(*COMPARISONS), one, self.value(one.type, leaf, self.depth))
        if self.few(3) == 0:
            other = leaf()
            made = self.one_of(made & (other < 7), made | (other > 3), ~made)
        return made

    def value(self, kind: Type, leaf: Callable[[], Expr], less: int = 0) -> Expr:
        """A value of type ``kind`` of what ``leaf`` gives."""
        how = self.one_of(*["binary"] * 6, "widened", "select", "mux", "unary", "leaf", "constant")
        if less >= self.depth or how in ("leaf", "constant"):
            if how == "constant":
                return self.constant(kind)
            found = leaf()
            return found if found.type == kind else Cast(kind, found, self.few(1) == 0)
        if how == "widened":
            wide = self.one_of(*(one for one in TYPES if one.bits >= min(2 * kind.bits, 64)))
            return Cast(kind, self.value(wide, leaf, less + 1), self.few(1) == 0)
        if how == "mux":
            return self.mux(kind, leaf, less + 1)
        if how == "select":
            condition = self.condition(leaf)
            sides = [self.value(kind, leaf, less + 1) for _ in range(2)]
            return Select(condition, *sides)
        if how == "unary":
            made: Expr = Unary(self.one_of("~", "abs", "popcount", "clz", "ctz"), leaf())
            return made if made.type == kind else Cast(kind, made)
        by = self.one_of(*["+", "-", "*"] * 3, *ARITHMETIC, *BITWISE, *SHIFTS)
        made = Binary(by, *(self.value(kind, leaf, less + 1) for _ in range(2)))
        return made if made.type == kind else Cast(kind, made)

    def stage(self, made: Stage) -> None:
        self.stages.append(made)
        extents = [bounds[1] for axis in made.axes if (bounds := axis.bounds)]
        for name, kind in zip(made.arrays, made.types, strict=True):
            self.sources.append(Source(name, kind, len(made.axes), extents))

    def count(self) -> Expr:
        """A number that a caller gives, for the ends of loops."""
        for one in self.arguments:
            if one.name == COUNT:
                return Variable(COUNT)
        self.arguments.append(Scalar(COUNT, I32, -1, 5))
        return Variable(COUNT)

    def image(self, *, is_bound: bool) -> tuple[Loop, Loop]:
        zero = number(0)
        if is_bound:
            return Loop("y", zero, HEIGHT), Loop("x", zero, WIDTH)
        return Loop("y"), Loop("x")

    def pure(self, name: str, *, is_bound: bool) -> None:
        axes: tuple[Loop, ...] = self.image(is_bound=is_bound)
        if is_bound and self.few(3) == 0:
            axes = (Loop("c", number(0), number(CHANNELS)), *axes)
        places = [axis.index for axis in axes]
        if self.few(2) == 0:  # side by side
            axes = (*axes[-2:], *axes[:-2])
        kinds = [self.one_of(*TYPES) for _ in range(self.one_of(1, 1, 2))]
        values = tuple(self.value(kind, lambda: self.load(places)) for kind in kinds)
        self.stage(Stage((name, f"{name}_too")[: len(kinds)], axes, values))

    def reduction(self, name: str) -> None:
        axes = self.image(is_bound=self.few(1) == 0)
        places = tuple(axis.index for axis in axes)
        end = self.one_of(number(3), minimum(places[1] + 2, 4), WIDTH, WIDTH - 4, self.count())
        window = Loop("dy", number(-1), number(2)), Loop("dx", number(0), end)
        kind = self.one_of(*TYPES)
        near = places[0] + window[0].index, places[1] + window[1].index
        term = self.value(kind, lambda: self.load(near), 1)
        own = Load(name, places, kind)
        by = self.one_of("+", "+", "max", "min", "^", "*", "-", "absd")
        joined: Expr = Binary(by, own, term) if self.few(3) else Binary(by, term, own)
        joined = joined if joined.type == kind else Cast(kind, joined)
        condition = self.condition(lambda: self.load(near)) if self.few(2) == 0 else None
        loops = (Loop("y"), Loop("x"), *window)
        update = Update(loops, places, (joined,), condition)
        self.stage(Stage((name,), axes, (self.constant(kind),), (update,)))

    def scan(self, name: str) -> None:
        axes = self.image(is_bound=True)
        end = self.one_of(WIDTH, WIDTH, minimum(self.count(), WIDTH))
        kind, along = self.one_of(*TYPES), Loop("r", number(1), end)
        place, last = along.index, along.index - 1
        if self.few(2) == 0:  # from the last to the first
            place, last = WIDTH - 1 - along.index, WIDTH - along.index
        places = axes[0].index, place
        before = Load(name, (axes[0].index, last), kind)
        value = self.value(kind, lambda: self.one_of(before, self.load(places)))
        update = Update((Loop("y"), along), places, (before + value,))
        first = self.value(kind, lambda: self.load(tuple(axis.index for axis in axes)), 1)
        self.stage(Stage((name,), axes, (first,), (update,)))

    def histogram(self, name: str) -> None:
        kind = self.one_of(U8, U16, U32, I32)
        loops = tuple(Loop(f"r{n}", number(0), end) for n, end in enumerate((HEIGHT, WIDTH)))
        found = self.load([loop.index for loop in loops])
        place = clamped(Cast(I32, found), 0, ENTRIES - 1)
        count = Load(name, (place,), kind) + self.one_of(number(1, kind), Cast(kind, found))
        update = Update(loops, (place,), (count,))
        axis = Loop("bin", number(0), number(ENTRIES))
        self.stage(Stage((name,), (axis,), (number(0, kind),), (update,)))

    def greatest(self, name: str) -> None:
        """Where a row is greatest, and how great."""
        axis, along = Loop("y", number(0), HEIGHT), Loop("r", number(0), WIDTH)
        kind = self.one_of(*TYPES)
        arrays = name, f"{name}_at"
        best, at = (Load(one, (axis.index,), k) for one, k in zip(arrays, (kind, I32), strict=True))
        found = self.value(kind, lambda: self.load((axis.index, along.index)), 1)
        values = Select(found > best, found, best), Select(found > best, along.index, at)
        update = Update((Loop("y"), along), (axis.index,), values)
        start = number(kind.low, kind), number(-1)
        self.stage(Stage(arrays, (axis,), start, (update,)))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs over sizes ``height`` and ``width``. They come from seeds: hypothesis alone would
    draw the same few again and again, a little changed."""
    stages, depth = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    return program(draw(st.integers(0, 2**32 - 1)), stages, depth)


def program(seed: int, stages: int, depth: int) -> Program:
    """The program of that seed, with so many stages before the last, and values so deep."""
    made = Drawing(Random(seed), depth)
    for name in ("one", "two")[: 1 + made.few(1)]:
        kind = made.one_of(*NARROW, *TYPES)
        low, high = (0, min(kind.high, 200)) if made.few(3) == 0 else (kind.low, kind.high)
        ends: tuple[Expr, ...] = HEIGHT, WIDTH
        if name == "two" and made.few(1):
            ends = (number(CHANNELS), *ends) if made.few(1) else ()
        axes = tuple((number(0), end) for end in ends) or ((), ())  # as far as it is read
        made.arguments.append(Buffer(name, kind, axes, low, high))
        made.sources.append(Source(name, kind, len(axes), ends))
    if made.few(1):
        kind = made.one_of(*NARROW)
        made.arguments.insert(0, Scalar("gain", kind, 0, 9))
        made.tables.append(Table("gains", kind, (ENTRIES,), tuple(range(ENTRIES))))
        made.sources.append(Source("gains", kind, 1, (number(ENTRIES),)))
    kinds = made.reduction, made.scan, made.histogram, made.greatest
    for count in range(stages):
        name = f"stage{count}"
        if made.few(1):
            made.one_of(*kinds)(name)
        else:
            made.pure(name, is_bound=made.few(1) == 0)
    made.pure("result", is_bound=True)
    bound = [a for stage in made.stages if stage.axes[0].bounds for a in stage.arrays]
    others = [name for name in bound if not name.startswith("result") and made.few(1)]
    return Program(
        "drawn",
        ("height", "width"),
        tuple(made.arguments),
        tuple(made.tables),
        tuple(made.stages),
        ("result", *others),
    )


def arguments_of(
    program: Program, sizes: Mapping[str, int], seed: int
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Inputs and scalars for ``program``, extremes among them."""
    rng = np.random.default_rng(seed)
    inputs, boxes = {}, bounded(program, sizes).boxes
    for one in program.inputs:
        shape = [max(0, axis.high - axis.low + 1) for axis in boxes[one.name]]
        found = rng.integers(one.low, one.high, shape, one.type.dtype, endpoint=True)
        found[rng.random(shape) < 0.1] = one.high
        found[rng.random(shape) < 0.1] = one.low
        inputs[one.name] = found
    scalars = {one.name: int(rng.integers(one.low, one.high + 1)) for one in program.scalars}
    return inputs, scalars
