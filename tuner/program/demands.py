"""The least that a program asks of any code, whatever its schedule.

Found by following its reads back from the outputs. Each loop of an output or a reduction spans an
axis; an index is a linear form of them. An expression takes at least as many different values as
the product of the extents of variables whose columns are independent in the indices of what it
reads: a value that is the same for two points need be computed only once. So a product counts once
for each pair of operands, and a read once for each element. What cannot be told so (indices that
are data, choices of which one side may never be evaluated, steps under a condition) counts nothing:
all is a lower bound. The algorithm is taken as written: a sum of products does not become a
transform.

Merging: a vector of output holds elements of several vectors of input, and an instruction makes one
vector of at most two. If ``n`` of an output vector's ``N`` elements lie in the same vector of
input, they take at least log2(N / n) such steps each, by the potential of Aggarwal and Vitter
(CACM 31(9), 1988, on permuting): the sum of x log2(x) over what a vector has of each vector of
output grows by no more than its elements in a step.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

import numpy as np

from tuner.program.bounds import Bounds
from tuner.program.expressions import (
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    Variable,
    loads_in,
    ordered,
)
from tuner.program.intervals import Interval, Scope, unconditional_parts
from tuner.program.loops import Buffer, Stage, Update

_VECTOR_BYTES = 128
_MOST_SIDE, _MOST_SHIFT = 1 << 31, 31
_BYTE, _HALFWORD = 1 << 9, 1 << 16
"""Magnitudes up to which an operand may be one of 8 bits (differences of bytes have a magnitude of
8) or of 16."""
_JOINED_A_BYTE = 2
"""Operands that a vector instruction joins with others at most for each byte it takes of a unit:
``vrsad`` subtracts 256 bytes from others and adds them up, and takes two units."""
_MOST_OF_A_WINDOW = 4
"""Additions for a value from a window of one image, however large: two running sums."""
_MOST_LOOKED_AT = 1 << 16
_SHORT_ROW = 16
"""Rows up to this long lie one behind the other; longer ones begin at vectors."""


@dataclass(frozen=True)
class Demands:
    """The least that any code of a program does in a call, as
    :class:`tuner.kernels.kernel.WorkCounts` has it."""

    macs: int = 0
    macs_16: int = 0
    macs_32: int = 0
    lane_bytes: int = 0
    merged_bytes: int = 0
    read_bytes: int = 0


@dataclass(frozen=True)
class _Index:
    """An index along the loops: ``terms``, the factors of variables, ``None`` unless it is linear
    in ``variables``; the least and greatest value, and how many it has at least."""

    terms: tuple[tuple[str, int], ...] | None
    variables: frozenset[str]
    low: int
    high: int
    count: int


_UNKNOWN = _Index(None, frozenset(), -_MOST_SIDE, _MOST_SIDE, 1)


def _number(value: int) -> _Index:
    return _Index((), frozenset(), value, value, 1)


@dataclass(frozen=True)
class _Read:
    """The elements of an input or array that a definition reads. ``certain`` unless a choice, or
    whether anybody reads the definition, decides whether it does."""

    name: str
    indices: tuple[_Index, ...]
    certain: bool


@dataclass
class _Definition:
    """What a definition was found to do for each of its values: what it reads, and products, with
    the widths of their operands and what these read."""

    reads: list[_Read] = field(default_factory=list)
    products: list[tuple[tuple[int, int], list[_Read]]] = field(default_factory=list)


def demands_of(bounds: Bounds) -> Demands:
    """The demands of a program within ``bounds``."""
    return _Counting(bounds).demands()


class _Counting:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds, self._program = bounds, bounds.program
        self._inputs = {one.name: one for one in self._program.inputs}
        self._tables = {one.name for one in self._program.tables}
        self._stages = {array: one for one in self._program.stages for array in one.arrays}
        self._outputs = {self._stages[name].name for name in self._program.outputs}
        self._extents: dict[str, int] = {}
        self._known: dict[str, tuple[tuple[_Index, ...], bool]] = {}
        """For each stage that is read: the indices of most of its elements that are, and whether
        they are read for certain."""
        self._macs: dict[int, Fraction] = defaultdict(Fraction)
        self._lane_bytes = 0.0
        self._merged_bytes = 0.0
        self._input_reads: dict[str, list[_Read]] = defaultdict(list)

    def demands(self) -> Demands:
        for name in self._outputs:
            stage, box = self._stages[name], self._bounds.boxes[name]
            axes = zip(stage.axes, box, strict=True)
            indices = tuple(self._loop(f"{name}/{axis.name}", over) for axis, over in axes)
            self._known[name] = indices, True
        for stage in reversed(self._program.stages):
            if stage.name in self._known:
                self._stage(stage, *self._known[stage.name])
        return Demands(
            macs=math.floor(self._macs[8]),
            macs_16=math.floor(self._macs[16]),
            macs_32=math.floor(self._macs[32]),
            lane_bytes=math.floor(self._lane_bytes),
            merged_bytes=math.floor(self._merged_bytes),
            read_bytes=sum(map(self._read_bytes, self._inputs.values())),
        )

    # Loops and indices

    def _loop(self, variable: str, over: Interval) -> _Index:
        self._extents[variable] = max(over.high - over.low + 1, 1)
        return self._linear({variable: 1}, over.low, max(over.low, over.high))

    def _linear(self, terms: Mapping[str, int], low: int, high: int) -> _Index:
        kept = tuple(sorted((name, factor) for name, factor in terms.items() if factor))
        reach = count = 1  # so many values, without gaps up to ``reach``
        for name, factor in sorted(kept, key=lambda term: abs(term[1])):
            extent = self._extents[name]
            if count == reach and abs(factor) <= reach:
                reach += abs(factor) * (extent - 1)
                count = reach
            elif abs(factor) >= reach:
                reach, count = abs(factor) * (extent - 1) + reach, count * extent
            else:
                reach, count = 0, max(count, extent)
        return _Index(kept, frozenset(name for name, _ in kept), low, high, count)

    def _indices(self, roots: Iterable[Expr], known: dict[Expr, _Index]) -> tuple[_Index, ...]:
        """Those that ``roots`` are; all that is found is ``known`` afterwards."""
        roots = tuple(roots)

        def parts(node: Expr) -> tuple[Expr, ...]:
            return node.parts if node not in known and isinstance(node, Binary | Cast) else ()

        for node in ordered(roots, parts):
            if node not in known:
                known[node] = self._index(node, [known[part] for part in parts(node)])
        return tuple(known[root] for root in roots)

    def _index(self, node: Expr, parts: Sequence[_Index]) -> _Index:
        if isinstance(node, Constant):
            return _number(node.value)
        if isinstance(node, Variable):
            own = self._bounds.known().get(node)
            return _number(own.low) if own is not None and own.low == own.high else _UNKNOWN
        if isinstance(node, Cast):
            return _UNKNOWN if node.saturates else parts[0]
        if not isinstance(node, Binary):
            return _UNKNOWN
        by, (a, b) = node.operator, parts
        if by in ("+", "-", "*"):
            return self._moved(by, a, b)
        if by == "min":
            return self._limited(a, b, -_MOST_SIDE, min(a.high, b.high))
        if by == "max":
            return self._limited(a, b, max(a.low, b.low), _MOST_SIDE)
        is_shift = by == ">>" and b.terms == () and 0 <= b.low < _MOST_SHIFT
        divisor = 1 << b.low if is_shift else b.low
        if by not in ("//", "%") and not is_shift:
            return _UNKNOWN
        if b.terms != () or divisor <= 0 or a.low <= -_MOST_SIDE or a.high >= _MOST_SIDE:
            return _UNKNOWN
        if by == "%":
            return _Index(None, a.variables, 0, divisor - 1, 1)
        count = max(1, -(-a.count // divisor))
        return _Index(None, a.variables, a.low // divisor, a.high // divisor, count)

    def _moved(self, by: str, a: _Index, b: _Index) -> _Index:
        if by == "*":
            a, b = (a, b) if b.terms == () else (b, a)
            if b.terms != () or a is _UNKNOWN or not b.low:
                return _UNKNOWN if b.terms != () else b
            ends = a.low * b.low, a.high * b.low
            if a.terms is None:
                return _Index(None, a.variables, min(ends), max(ends), a.count)
            return self._linear({n: f * b.low for n, f in a.terms}, min(ends), max(ends))
        if a is _UNKNOWN or b is _UNKNOWN:
            return _UNKNOWN
        sign = 1 if by == "+" else -1
        low, high = sorted((sign * b.low, sign * b.high))
        low, high = a.low + low, a.high + high
        if a.terms is None or b.terms is None:
            whole = a if b.terms == () else b if a.terms == () else _UNKNOWN
            return _Index(None, whole.variables, low, high, whole.count)
        terms = defaultdict(int, a.terms)
        for name, factor in b.terms:
            terms[name] += sign * factor
        return self._linear(terms, low, high)

    def _limited(self, a: _Index, b: _Index, low: int, high: int) -> _Index:
        moving, bound = (a, b) if b.terms == () else (b, a)
        if bound.terms != () or moving is _UNKNOWN:
            return _UNKNOWN
        inside = min(moving.high, high) - max(moving.low, low) + 1
        if inside > moving.high - moving.low:
            return moving
        first, last = (min(max(end, low), high) for end in (moving.low, moving.high))
        lost = moving.high - moving.low + 1 - inside
        count = max(1, moving.count - lost)
        return _Index(None, moving.variables, first, last, count)

    def _distinct(self, indices: Sequence[_Index]) -> int:
        """How many different points these indices have at least."""
        told = list(dict.fromkeys(one for one in indices if one.variables))
        if sum(len(one.variables) for one in told) == len({v for o in told for v in o.variables}):
            return prod(one.count for one in told)
        rows = [dict(one.terms) for one in told if one.terms is not None]
        names = sorted({name for row in rows for name in row}, key=lambda n: -self._extents[n])
        found, basis = 1, _Basis()
        for name in names:
            if basis.takes([Fraction(row.get(name, 0)) for row in rows]):
                found *= self._extents[name]
        return found

    # Definitions

    def _stage(self, stage: Stage, indices: tuple[_Index, ...], certain: bool) -> None:
        known: dict[Expr, _Index] = dict(zip(stage.places, indices, strict=True))
        sums = [self._step(stage, one, known, certain) for one in stage.updates]
        kept = all(_reads_itself(stage, one) for one in stage.updates)
        scope = self._bounds.of_definition(stage)
        for value in stage.values:
            found = self._definition(stage, [value], dict(known), scope, certain and kept)
            self._count(found, certain and kept)
            if not sums and certain and stage.name in self._outputs:
                self._merge(stage, found)
        for found, whole in sums:
            self._count(found, whole, stage)

    def _step(
        self, stage: Stage, update: Update, known: Mapping[Expr, _Index], certain: bool
    ) -> tuple[_Definition, bool]:
        """An update, and whether each of its steps counts for a value that is needed."""
        inner = dict[Expr, _Index]()
        within = self._bounds.of_update(stage, update)
        is_told = within is not None
        for loop in update.loops:
            if not loop.bounds or within is None:
                inner[loop.index] = known.get(loop.index, _UNKNOWN)
                continue
            ends = [within.of(bound) for bound in loop.bounds]
            is_told = is_told and all(one.low == one.high for one in ends)
            variable = f"{stage.name}/{stage.updates.index(update)}/{loop.name}"
            least = ends[0].low
            inner[loop.index] = self._loop(
                variable, Interval(least, ends[1].high - 1 if is_told else least)
            )
        is_whole = all(place in inner and place in known for place in update.places)
        whole = (
            certain
            and is_told
            and update.condition is None
            and _reads_itself(stage, update)
            and (stage.name in self._outputs or is_whole)
        )
        return self._definition(stage, update.expressions, inner, within, whole), whole

    def _definition(
        self,
        stage: Stage,
        roots: Sequence[Expr],
        known: dict[Expr, _Index],
        scope: Scope | None,
        certain: bool,
    ) -> _Definition:
        found = _Definition()
        sure = set(ordered(roots, unconditional_parts)) if certain else set()
        valued = set(ordered(roots, _valued))
        reads: dict[Expr, _Read] = {}
        for load in loads_in(*roots):
            if load.source in self._tables:
                continue
            reads[load] = read = _Read(
                load.source, self._indices(load.indices, known), load in sure
            )
            if not stage.is_own(load):
                self._note(read)
            if load in valued:
                found.reads.append(read)
        for node in valued & sure:
            if isinstance(node, Binary) and node.operator == "*" and scope is not None:
                operands = [
                    [n for n in ordered([p], _valued) if isinstance(n, Load)] for p in node.parts
                ]
                if all(operands):
                    own = dict.fromkeys(one for some in operands for one in some if one in reads)
                    widths = _bits(scope.of(node.left)), _bits(scope.of(node.right))
                    found.products.append((widths, [reads[one] for one in own]))
        return found

    def _note(self, read: _Read) -> None:
        """Keeps what is read of an input; of a stage, the read that needs most of it."""
        if read.name in self._inputs:
            self._input_reads[read.name].append(read)
            return
        stage = self._stages[read.name]
        (passed, *others) = stage.values
        if not stage.updates and not others and isinstance(passed, Load):
            # It stands for what it reads, and every read of it counts.
            known: dict[Expr, _Index] = dict(zip(stage.places, read.indices, strict=True))
            if passed.source not in self._tables:
                indices = self._indices(passed.indices, known)
                self._note(_Read(passed.source, indices, read.certain))
        known_of = self._known.get(stage.name)
        if known_of is None or self._weight(read.indices, read.certain) > self._weight(*known_of):
            self._known[stage.name] = (read.indices, read.certain)

    def _weight(self, indices: Sequence[_Index], certain: bool) -> tuple[bool, int, int, int]:
        """Of equal reads one that is told in full, where the loops are: edges take least of it."""
        told = sum(one.terms is not None for one in indices)
        return certain, self._distinct(indices), told, -sum(abs(one.low) for one in indices)

    # Work

    def _count(self, found: _Definition, certain: bool, stage: Stage | None = None) -> None:
        if not certain:
            return
        for widths, operands in found.products:
            count = self._distinct([i for read in operands for i in read.indices])
            wide, narrow = sorted(widths, reverse=True)
            # A product by a byte takes half of what one of two wide operands does.
            self._macs[wide] += Fraction(count, 2 if narrow < wide and narrow == 8 else 1)
        own = stage.arrays if stage is not None else ()
        reads = [read for read in found.reads if read.certain and read.name not in own]
        if not reads or found.products:
            return
        values = self._distinct([i for read in reads for i in read.indices])
        size = min(_bits(self._bounds.values[read.name]) for read in reads) // 8
        windows = defaultdict(set)
        for read in reads:
            windows[read.name].add(read.indices)
        joined = (
            len(windows)
            - 1
            + sum(
                min(math.ceil(math.log2(len(one))), _MOST_OF_A_WINDOW) for one in windows.values()
            )
        )
        if own:  # each step joins a value with what there is
            joined += 1
        elif windows:
            values = self._values(reads, values)
        self._lane_bytes += values * joined * size / _JOINED_A_BYTE

    def _values(self, reads: Sequence[_Read], values: int) -> int:
        """Windows of one image: as many values as one of its reads has elements."""
        return min(values, max(self._distinct(read.indices) for read in reads))

    def _merge(self, stage: Stage, found: _Definition) -> None:
        """Elements of an output's vectors that come from many vectors of an input."""
        merged = (self._merged(stage, source) for source in self._sources(found))
        self._merged_bytes += max(merged, default=0.0)

    def _sources(self, found: _Definition) -> Iterator[_Read]:
        """The elements of inputs that each value is made of, through stages that pass them on."""
        waiting = [read for read in found.reads if read.certain]
        seen = set()
        while waiting:
            read = waiting.pop()
            if read.name in self._inputs:
                yield read
            elif read.name not in seen and not self._stages[read.name].updates:
                seen.add(read.name)
                stage = self._stages[read.name]
                known: dict[Expr, _Index] = dict(zip(stage.places, read.indices, strict=True))
                waiting += (
                    _Read(load.source, self._indices(load.indices, known), True)
                    for load in loads_in(*stage.values)
                    if load.source not in self._tables
                )

    def _merged(self, stage: Stage, read: _Read) -> float:
        """Bytes times steps of merging, if each element of the output has one of the input."""
        order = []
        for index in reversed(read.indices):
            if index.terms is None or len(index.terms) > 1:
                return 0.0
            order.append(index.terms[0] if index.terms else ("", 0))
        moving = [name for name, _ in order if name]
        axes = [f"{stage.name}/{axis.name}" for axis in reversed(stage.axes)]
        extents = [self._extents[axis] for axis in axes]
        varying = [axis for axis in axes if self._extents[axis] > 1]
        if sorted(moving) != sorted(set(moving)) or not set(varying) <= set(moving):
            return 0.0
        if any(abs(factor) > 1 for _, factor in order) or not set(moving) <= set(axes):
            return 0.0
        kind, box = self._inputs[read.name].type, self._bounds.boxes[read.name]
        size = min(kind.bits, max(one.bits for one in stage.types)) // 8
        inputs = _strides([over.high - over.low + 1 for over in reversed(box)], size)
        strides = {name: one for (name, _), one in zip(order, inputs, strict=True)}
        other = [strides.get(axis, 0) for axis in axes]
        return size * _steps_of_merging(extents, _strides(extents, size), other)

    def _read_bytes(self, buffer: Buffer) -> int:
        """Of an input: as much as lies in the vectors that have an element that is read."""
        size = buffer.type.bits // 8
        groups: dict[tuple[object, ...], list[_Read]] = defaultdict(list)
        for read in self._input_reads[buffer.name]:
            groups[tuple(index.terms for index in read.indices)].append(read)
        most = 0
        for reads in groups.values():
            rows = {tuple(map(_phase, read.indices[:-1])) for read in reads}
            elements = len(rows) * max(self._distinct(read.indices) for read in reads)
            step = _step(reads[0].indices[-1])
            most = max(most, elements * min(step * size, _VECTOR_BYTES))
        box = self._bounds.boxes[buffer.name]
        return min(most, prod(max(0, one.high - one.low + 1) for one in box) * size)


class _Basis:
    """Columns that are independent of one another, in echelon form."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, list[Fraction]]] = []

    def takes(self, column: list[Fraction]) -> bool:
        """Whether ``column`` is independent of those it took; if so, takes it."""
        for pivot, row in self._rows:
            factor = column[pivot] / row[pivot]
            column = [a - factor * b for a, b in zip(column, row, strict=True)]
        found = next((at for at, value in enumerate(column) if value), None)
        if found is not None:
            self._rows.append((found, column))
        return found is not None


def _steps_of_merging(extents: Sequence[int], own: Sequence[int], other: Sequence[int]) -> float:
    """The sum of log2(N / n) over the elements of an output, of which some vectors are looked at.

    ``own`` and ``other`` are strides in bytes of output and input along each dimension.
    """
    total = prod(extents)
    inner = extents[0]
    rows = total // inner
    taken = max(1, min(rows, _MOST_LOOKED_AT // max(inner, 1)))
    if extents[0] <= _SHORT_ROW:
        taken = rows if total <= _MOST_LOOKED_AT else max(1, _MOST_LOOKED_AT // inner)
    flat = np.arange(taken * inner)
    places = np.zeros((2, len(flat)), np.int64)
    for extent, *strides in zip(extents, own, other, strict=True):
        flat, digit = np.divmod(flat, extent)
        places += np.outer(strides, digit)
    lines, sources = places // _VECTOR_BYTES
    whole = np.unique(lines, return_inverse=True, return_counts=True)
    pairs = np.unique(np.stack([lines, sources]), axis=1, return_inverse=True, return_counts=True)
    ratios = whole[2][whole[1]] / pairs[2][pairs[1].reshape(-1)]
    return float(np.log2(ratios).sum()) * total / len(ratios)


def _strides(extents: Sequence[int], size: int) -> list[int]:
    strides: list[int] = []
    stride = size
    for extent in extents:
        strides.append(stride)
        stride *= extent
        if extent > _SHORT_ROW:
            stride = -(-stride // _VECTOR_BYTES) * _VECTOR_BYTES
    return strides


def _step(index: _Index) -> int:
    return min((abs(factor) for _, factor in index.terms or ()), default=1)


def _phase(index: _Index) -> int:
    """Which of several rows that no loop reaches together."""
    return index.low % _step(index) if index.variables else index.low


def _reads_itself(stage: Stage, update: Update) -> bool:
    return any(map(stage.is_own, loads_in(*update.values)))


def _valued(node: Expr) -> tuple[Expr, ...]:
    """The parts of ``node`` that are computed for their values, rather than to find a place."""
    return () if isinstance(node, Load) else node.parts


def _bits(values: Interval) -> int:
    """8, 16 or 32: what values need at least."""
    if values.low >= -_BYTE and values.high < _BYTE:
        return 8
    return 16 if values.low >= -_HALFWORD and values.high < _HALFWORD else 32
