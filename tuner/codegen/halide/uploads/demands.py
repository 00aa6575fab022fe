"""The least that the definitions of a pipeline ask of any code, whatever its schedule.

Found by following its reads back from the outputs. Each loop variable of an output or a reduction
spans an axis; an index is a linear form of them. An expression takes at least as many different
values as the product of the extents of variables whose columns are independent in the indices of
what it reads: a value that is the same for two points need be computed only once. So a product
counts once for each pair of operands, and a read once for each element. What cannot be told so
(indices that are data, choices of which one side may never be evaluated, steps under a condition)
counts nothing: all is a lower bound. The algorithm is taken as written: a sum of products does not
become a transform.

Merging: a vector of output holds elements of several vectors of input, and an instruction makes one
vector of at most two. If ``n`` of an output vector's ``N`` elements lie in the same vector of
input, they take at least log2(N / n) such steps each, by the potential of Aggarwal and Vitter
(CACM 31(9), 1988, on permuting): the sum of x log2(x) over what a vector has of each vector of
output grows by no more than its elements in a step.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

import numpy as np

from tuner.codegen.halide.uploads.contents import (
    Contents,
    Func,
    Update,
    expressions_in,
    is_call_to_func,
    is_read,
    is_true,
    is_variable,
    parts_of,
)
from tuner.codegen.halide.uploads.intrinsics import Type
from tuner.codegen.halide.uploads.serialized import MOST_DEPTH, Node
from tuner.space.derivation.facts import BufferFacts, Demands

_VECTOR_BYTES = 128
_FRAMES_A_LEVEL = 4
_MOST_SIDE = 1 << 31
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

_PRODUCTS = ("widening_mul", "mul_shift_right", "rounding_mul_shift_right")
_CHOICES = ("if_then_else", "mux")
_PASSES = ("likely", "likely_if_innermost")

Interval = tuple[int, int]


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
    """The elements of an input or Func that a definition reads. ``certain`` unless a choice, or
    whether anybody reads the definition, decides whether it does."""

    name: str
    indices: tuple[_Index, ...]
    certain: bool


@dataclass
class _Definition:
    """What a definition was found to do for each of its values."""

    reads: list[_Read] = field(default_factory=list)
    products: list[tuple[Node, Node, tuple[int, int], list[_Read]]] = field(default_factory=list)


@dataclass
class _Named:
    """What a name stands for, whether that depends on what is read, and its range; what is found in
    it, once it was used, and whether that use is certain."""

    value: Node
    scope: Mapping[str, _Index]
    reads: bool
    range: Interval | None
    found: _Definition | None = None
    certain: bool = False


def demands_of(
    contents: Contents, inputs: Sequence[BufferFacts], outputs: Mapping[str, Sequence[int]]
) -> Demands:
    """The demands of a pipeline with these inputs, and extents of its outputs by Func, innermost
    first."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES_A_LEVEL * MOST_DEPTH + 2000))
    return _Counting(contents, inputs, outputs).demands()


class _Counting:
    def __init__(
        self,
        contents: Contents,
        inputs: Sequence[BufferFacts],
        outputs: Mapping[str, Sequence[int]],
    ) -> None:
        self._contents = contents
        self._inputs = {one.name: one for one in inputs}
        self._outputs = outputs
        self._extents: dict[str, int] = {}
        self._known: dict[str, tuple[tuple[_Index, ...], bool]] = {}
        """For each Func that is read: the indices of most of its elements that are, and whether
        they are read for certain."""
        self._ranges: dict[str, Interval | None] = {}
        self._named: dict[str, _Named] = {}
        """The names of the definition at hand."""
        self._macs: dict[int, Fraction] = defaultdict(Fraction)
        self._lane_bytes = 0.0
        self._merged_bytes = 0.0
        self._input_reads: dict[str, list[_Read]] = defaultdict(list)

    def demands(self) -> Demands:
        for name in self._outputs:
            func = self._contents.funcs[name]
            self._known[name] = (self._loops(name, func.dimensions, self._outputs[name]), True)
        for func in reversed(tuple(self._contents.funcs.values())):
            if func.name in self._known:
                self._func(func, *self._known[func.name])
        return Demands(
            macs=math.floor(self._macs[8]),
            macs_16=math.floor(self._macs[16]),
            macs_32=math.floor(self._macs[32]),
            lane_bytes=math.floor(self._lane_bytes),
            merged_bytes=math.floor(self._merged_bytes),
            read_bytes=sum(self._read_bytes(one) for one in self._inputs.values()),
        )

    # Loops and indices

    def _loops(
        self, owner: str, names: Sequence[str], extents: Sequence[int]
    ) -> tuple[_Index, ...]:
        made = []
        for name, extent in zip(names, extents, strict=True):
            variable = f"{owner}/{name}"
            self._extents[variable] = extent
            made.append(self._linear({variable: 1}, 0, max(extent - 1, 0)))
        return tuple(made)

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

    def _index(self, node: Node, scope: Mapping[str, _Index]) -> _Index:
        kind = node.kind
        if kind in ("IntImm", "UIntImm"):
            return _number(node["value"])
        if kind == "Variable":
            return self._index_variable(node, scope)
        if kind == "Let":
            inner = {**scope, node["name"]: self._index(node["value"], scope)}
            return self._index(node["body"], inner)
        if kind == "Cast" or (kind == "Call" and node["name"] in _PASSES):
            return self._index(parts_of(node)[0], scope)
        if kind not in ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max"):
            return _UNKNOWN
        a, b = (self._index(node[side], scope) for side in "ab")
        if kind in ("Add", "Sub", "Mul"):
            return self._moved(kind, a, b)
        if kind == "Min":
            return self._limited(a, b, -_MOST_SIDE, min(a.high, b.high))
        if kind == "Max":
            return self._limited(a, b, max(a.low, b.low), _MOST_SIDE)
        if b.terms != () or b.low <= 0 or a.low <= -_MOST_SIDE or a.high >= _MOST_SIDE:
            return _UNKNOWN
        if kind == "Div":
            low, high = a.low // b.low, a.high // b.low
            return _Index(None, a.variables, low, high, max(1, -(-a.count // b.low)))
        return _Index(None, a.variables, 0, b.low - 1, 1)

    def _index_variable(self, node: Node, scope: Mapping[str, _Index]) -> _Index:
        name = node["name"]
        owner = node["param_name"] or node["image_name"]
        if owner in self._inputs and name.count(".") >= 2:
            what, dimension = name.rsplit(".", 2)[1:]
            buffer = self._inputs[owner]
            if what in ("min", "extent"):
                return _number((buffer.mins if what == "min" else buffer.extents)[int(dimension)])
        return _UNKNOWN if owner else scope.get(name, _UNKNOWN)

    def _moved(self, kind: str, a: _Index, b: _Index) -> _Index:
        if kind == "Mul":
            a, b = (a, b) if b.terms == () else (b, a)
            if b.terms != () or a is _UNKNOWN or not b.low:
                return _UNKNOWN if b.terms != () else b
            ends = a.low * b.low, a.high * b.low
            if a.terms is None:
                return _Index(None, a.variables, min(ends), max(ends), a.count)
            return self._linear({n: f * b.low for n, f in a.terms}, min(ends), max(ends))
        if a is _UNKNOWN or b is _UNKNOWN:
            return _UNKNOWN
        sign = 1 if kind == "Add" else -1
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

    def _func(self, func: Func, indices: tuple[_Index, ...], certain: bool) -> None:
        scope = dict(zip(func.dimensions, indices, strict=True))
        sums = [self._step(func, update, scope, certain) for update in func.updates]
        kept = all(_reads_itself(func, update) for update in func.updates)
        for value in func.values:
            found = self._definition([value], scope, certain and kept)
            self._count(found, certain and kept)
            if not sums and certain and func.name in self._outputs:
                self._merge(func, found)
        for found, whole in sums:
            self._count(found, whole, func.name)

    def _step(
        self, func: Func, update: Update, scope: Mapping[str, _Index], certain: bool
    ) -> tuple[_Definition, bool]:
        """An update, and whether each of its steps counts for a value that is needed."""
        inner = {}
        for name, place in zip(func.dimensions, update.places, strict=True):
            if is_variable(place, name):
                inner[name] = scope[name]
        ends = {name: self._index(extent, {}) for name, _, extent in update.rvars}
        known = all(one.terms == () for one in ends.values())
        mins = {name: self._index(least, {}) for name, least, _ in update.rvars}
        for name, extent in ends.items():
            variable = f"{func.name}/{func.updates.index(update)}/{name}"
            count = self._extents[variable] = max(extent.low, 1) if known else 1
            low = mins[name].low if mins[name].terms == () else 0
            inner[name] = self._linear({variable: 1}, low, low + count - 1)
        whole = (
            certain
            and known
            and is_true(update.predicate)
            and _reads_itself(func, update)
            and (func.name in self._outputs or len(inner) == len(func.dimensions) + len(ends))
        )
        roots = [*update.values, *update.places, update.predicate]
        return self._definition(roots, inner, whole), whole

    def _definition(
        self, roots: Sequence[Node], scope: Mapping[str, _Index], certain: bool
    ) -> _Definition:
        found = _Definition()
        self._named = {}
        for root in roots:
            self._walk(root, scope, certain, found)
        return found

    def _walk(
        self, node: Node, scope: Mapping[str, _Index], certain: bool, found: _Definition
    ) -> None:
        kind, name = node.kind, node["name"] if node.kind == "Call" else ""
        if kind == "Let":
            value = node["value"]
            own = self._range(value, self._named_ranges)
            self._named[node["name"]] = _Named(value, scope, self._reads(value), own)
            inner = {**scope, node["name"]: self._index(value, scope)}
            self._walk(node["body"], inner, certain, found)
            return
        if kind == "Variable" and node["name"] in self._named:
            self._use(self._named[node["name"]], certain, found)
        if kind == "Call" and is_read(node):
            if name not in self._contents.tables:
                indices = tuple(self._index(one, scope) for one in node["args"])
                self._note(_Read(name, indices, certain))
                found.reads.append(_Read(name, indices, certain))
            for one in node["args"]:  # what is read to find the place
                self._walk(one, scope, certain, _Definition())
            return
        parts = parts_of(node)
        if kind == "Select" or name in _CHOICES:
            self._walk(parts[0], scope, certain, found)
            for part in parts[1:]:
                self._walk(part, scope, False, found)
            return
        before = len(found.reads)
        for part in parts:
            self._walk(part, scope, certain, found)
        is_product = kind == "Mul" or name in _PRODUCTS
        if is_product and certain and self._contents.types[node][0] in ("int", "uint"):
            a, b = parts[:2]
            if self._reads(a) and self._reads(b):
                widths = self._width(a), self._width(b)
                found.products.append((a, b, widths, found.reads[before:]))

    def _use(self, named: _Named, certain: bool, found: _Definition) -> None:
        """A name stands for its value where it is used first: a choice may have it, not the rest.
        What it computes counts once."""
        if named.found is None or certain > named.certain:
            named.found, named.certain = _Definition(), certain
            self._walk(named.value, named.scope, certain, named.found)
            found.products += named.found.products
        found.reads += named.found.reads

    def _reads(self, node: Node) -> bool:
        """Whether a value depends on what is read of inputs or Funcs."""
        return any(
            (one.kind == "Call" and is_read(one))
            or (
                one.kind == "Variable"
                and one["name"] in self._named
                and self._named[one["name"]].reads
            )
            for one in expressions_in(node)
        )

    @property
    def _named_ranges(self) -> dict[str, Interval | None]:
        return {name: one.range for name, one in self._named.items()}

    def _note(self, read: _Read) -> None:
        """Keeps what is read of an input; of a Func, the read that needs most of it."""
        if read.name in self._inputs:
            self._input_reads[read.name].append(read)
            return
        func = self._contents.funcs[read.name]
        if not func.updates and len(func.values) == 1 and _is_element(func.values[0]):
            # It stands for what it reads, and every read of it counts.
            scope = dict(zip(func.dimensions, read.indices, strict=True))
            passed = func.values[0]
            if passed["name"] not in self._contents.tables:
                indices = tuple(self._index(one, scope) for one in passed["args"])
                self._note(_Read(passed["name"], indices, read.certain))
        known = self._known.get(read.name)
        if known is None or self._weight(read.indices, read.certain) > self._weight(*known):
            self._known[read.name] = (read.indices, read.certain)

    def _weight(self, indices: Sequence[_Index], certain: bool) -> tuple[bool, int, int]:
        """Of equal reads the one where the loops are: edges take least of it."""
        return certain, self._distinct(indices), -sum(abs(one.low) for one in indices)

    # Work

    def _count(self, found: _Definition, certain: bool, own: str = "") -> None:
        if not certain:
            return
        used: list[tuple[Node, ...]] = []
        for a, b, widths, reads in found.products:
            if any(one is other for pair in used for one in pair for other in (a, b)):
                continue
            used.append((a, b))
            count = self._distinct([i for read in reads for i in read.indices])
            wide, narrow = sorted(widths, reverse=True)
            # A product by a byte takes half of what one of two wide operands does.
            self._macs[wide] += Fraction(count, 2 if narrow < wide and narrow == 8 else 1)
        reads = [read for read in found.reads if read.certain and read.name != own]
        if not reads or found.products:
            return
        values = self._distinct([i for read in reads for i in read.indices])
        size = min(self._width_of(read.name) for read in reads) // 8
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

    def _merge(self, func: Func, found: _Definition) -> None:
        """Elements of an output's vectors that come from many vectors of an input."""
        extents = self._outputs[func.name]
        most = 0.0
        for source in self._sources(found):
            most = max(most, self._merged(func, extents, source))
        self._merged_bytes += most

    def _sources(self, found: _Definition) -> Iterator[_Read]:
        """The elements of inputs that each value is made of, through Funcs that pass them on."""
        waiting = [read for read in found.reads if read.certain]
        seen = set()
        while waiting:
            read = waiting.pop()
            if read.name in self._inputs:
                yield read
            elif read.name not in seen and not self._contents.funcs[read.name].updates:
                seen.add(read.name)
                func = self._contents.funcs[read.name]
                scope = dict(zip(func.dimensions, read.indices, strict=True))
                deeper = _Definition()
                for value in func.values:
                    self._walk_only(value, scope, deeper)
                waiting += deeper.reads

    def _walk_only(self, node: Node, scope: Mapping[str, _Index], found: _Definition) -> None:
        for one in expressions_in(node):
            if one.kind == "Call" and is_read(one) and one["name"] not in self._contents.tables:
                indices = tuple(self._index(part, scope) for part in one["args"])
                found.reads.append(_Read(one["name"], indices, True))

    def _merged(self, func: Func, extents: Sequence[int], read: _Read) -> float:
        """Bytes times steps of merging, if each element of the output has one of the input."""
        order = []
        for index in read.indices:
            if index.terms is None or len(index.terms) > 1:
                return 0.0
            order.append(index.terms[0] if index.terms else ("", 0))
        moving = [name for name, _ in order if name]
        axes = [f"{func.name}/{name}" for name in func.dimensions]
        varying = [axis for axis, extent in zip(axes, extents, strict=True) if extent > 1]
        if sorted(moving) != sorted(set(moving)) or not set(varying) <= set(moving):
            return 0.0
        if any(abs(factor) > 1 for _, factor in order) or not set(moving) <= set(axes):
            return 0.0
        source = self._inputs[read.name]
        size = min(np.dtype(source.dtype).itemsize, max(bits for _, bits in func.types) // 8)
        axis_strides = _strides(source.extents, size)
        strides = {name: one for (name, _), one in zip(order, axis_strides, strict=True)}
        other = [strides.get(axis, 0) for axis in axes]
        return size * _steps_of_merging(extents, _strides(extents, size), other)

    # Types and ranges

    def _width(self, node: Node) -> int:
        return _bits(self._range(node, self._named_ranges))

    def _width_of(self, name: str) -> int:
        if name in self._inputs:
            return _bits(_of_type(self._contents.inputs[name][0]))
        return _bits(self._range_of(name))

    def _range_of(self, name: str) -> Interval | None:
        """What values a Func has; ``None`` if that is not known."""
        if name not in self._ranges:
            self._ranges[name] = None  # what reads itself
            func = self._contents.funcs[name]
            ranges = [self._range(value, {}) for value in func.values]
            self._ranges[name] = _union(ranges) if not func.updates else self._total(func)
        return self._ranges[name]

    def _total(self, func: Func) -> Interval | None:
        """Of a sum of many terms: at least those of one."""
        value = func.updates[-1].values[0]
        if value.kind != "Add":
            return None
        own = [part for part in parts_of(value) if is_call_to_func(part) and _is(part, func.name)]
        terms = [part for part in parts_of(value) if part not in own]
        return self._range(terms[0], {}) if len(own) == len(terms) == 1 else None

    def _range(self, node: Node, scope: Mapping[str, Interval | None]) -> Interval | None:
        kind = node.kind
        if kind in ("IntImm", "UIntImm"):
            return node["value"], node["value"]
        if kind == "Variable":
            found: Interval | None = scope.get(node["name"])
            return found
        if kind == "Let":
            return self._range(
                node["body"], {**scope, node["name"]: self._range(node["value"], scope)}
            )
        wanted = _of_type(self._contents.types[node])
        if kind == "Call" and is_read(node):
            if node["name"] in self._inputs:
                return wanted
            return None if node["name"] in self._contents.tables else self._range_of(node["name"])
        parts = [self._range(part, scope) for part in parts_of(node)]
        if kind == "Select":
            return _union(parts[1:])
        name = node["name"] if kind == "Call" else kind
        combine = _RANGES.get(name)
        if combine is None or any(part is None for part in parts) or wanted is None:
            return None
        low, high = combine(*(part for part in parts if part is not None))
        return (low, high) if wanted[0] <= low and high <= wanted[1] else wanted

    def _read_bytes(self, buffer: BufferFacts) -> int:
        """Of an input: as much as lies in the vectors that have an element that is read."""
        size = np.dtype(buffer.dtype).itemsize
        groups: dict[tuple[object, ...], list[_Read]] = defaultdict(list)
        for read in self._input_reads[buffer.name]:
            groups[tuple(index.terms for index in read.indices)].append(read)
        most = 0
        for reads in groups.values():
            inner, *outer = reads[0].indices
            step = _step(inner)
            rows = {tuple(map(_phase, read.indices[1:])) for read in reads}
            elements = self._distinct((inner, *outer)) * len(rows)
            most = max(most, elements * min(step * size, _VECTOR_BYTES))
        return min(most, prod(buffer.extents) * size)


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


def _reads_itself(func: Func, update: Update) -> bool:
    return any(
        is_call_to_func(one) and _is(one, func.name)
        for value in update.values
        for one in expressions_in(value)
    )


def _is_element(node: Node) -> bool:
    return node.kind == "Call" and is_read(node)


def _is(call: Node, name: str) -> bool:
    return bool(call["name"] == name)


def _of_type(kind: Type) -> Interval | None:
    if kind[0] == "int":
        return -(1 << (kind[1] - 1)), (1 << (kind[1] - 1)) - 1
    return (0, (1 << kind[1]) - 1) if kind[0] == "uint" else None


def _bits(interval: Interval | None) -> int:
    """8, 16 or 32: what a value needs at least. What is not known may be small."""
    if interval is None or (interval[0] >= -_BYTE and interval[1] < _BYTE):
        return 8
    return 16 if interval[0] >= -_HALFWORD and interval[1] < _HALFWORD else 32


def _union(intervals: Sequence[Interval | None]) -> Interval | None:
    known = [one for one in intervals if one is not None]
    if not known or len(known) < len(intervals):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _corners(combine: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    def combined(a: Interval, b: Interval) -> Interval:
        values = [combine(x, y) for x in a for y in b]
        return min(values), max(values)

    return combined


def _shifted(sign: int) -> Callable[[Interval, Interval], Interval]:
    def combined(a: Interval, b: Interval) -> Interval:
        by = sign * b[0]
        if b[0] != b[1] or not -31 <= by <= 31:
            return -_MOST_SIDE, _MOST_SIDE
        return (a[0] << by, a[1] << by) if by >= 0 else (a[0] >> -by, a[1] >> -by)

    return combined


def _quotient(a: Interval, b: Interval) -> Interval:
    return (a[0] // b[0], a[1] // b[0]) if b[0] == b[1] and b[0] > 0 else a


def _distance(a: Interval, b: Interval) -> Interval:
    return 0, max(abs(a[1] - b[0]), abs(b[1] - a[0]))


def _absolute(a: Interval) -> Interval:
    return 0, max(abs(a[0]), abs(a[1]))


_SUM, _DIFFERENCE = _corners(lambda x, y: x + y), _corners(lambda x, y: x - y)
_PRODUCT = _corners(lambda x, y: x * y)
_RANGES: Mapping[str, Callable[..., Interval]] = {
    "Add": _SUM,
    "Sub": _DIFFERENCE,
    "Mul": _PRODUCT,
    "Min": _corners(min),
    "Max": _corners(max),
    "Div": _quotient,
    "Cast": lambda a: a,
    "likely": lambda a: a,
    "abs": _absolute,
    "absd": _distance,
    "widening_add": _SUM,
    "widening_sub": _DIFFERENCE,
    "widening_mul": _PRODUCT,
    "shift_left": _shifted(1),
    "shift_right": _shifted(-1),
}
