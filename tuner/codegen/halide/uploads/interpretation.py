"""The values of a pipeline, from its definitions alone: no code is made of them.

Arrays are evaluated whole, with NumPy, over the region that is read of each Func. That is
independent of Halide's compiler, front end to back, as a reference has to be. Reductions
go step by step where a step reads what another wrote, and as a whole where the order is free or
the steps have nothing to do with one another.

Regions are innermost dimension first, as Halide has them; arrays and loops outermost first. Points
that no value depends on, such as what a ``select`` does not choose, are not read: neither of Funcs,
which would have to be computed there, nor of inputs, which need not reach that far.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tuner.codegen.halide.uploads.answers import NotTunableError
from tuner.codegen.halide.uploads.contents import (
    Contents,
    Func,
    Table,
    Update,
    alike,
    checked,
    expressions_in,
    is_call_to_func,
    is_read,
    is_true,
    is_variable,
    parts_of,
)
from tuner.codegen.halide.uploads.intrinsics import INTRINSICS, Array, Type
from tuner.codegen.halide.uploads.serialized import MOST_DEPTH, Node

_BLOCK_ELEMENTS = 1 << 18
"""Evaluated at once: intermediate values of this many stay in a cache."""
_MOST_INDEX_ELEMENTS = 1 << 20
"""Places that are looked at in advance to find what is read of a Func."""
_FRAMES_A_LEVEL = 4

Region = tuple[tuple[int, int], ...]
"""Least and greatest index along each dimension."""
Nest = Sequence[tuple[str, int, int]]
"""Loops, outermost first: variable, least value and extent."""


@dataclass(frozen=True)
class Buffer:
    """Elements, outermost dimension first, and where they begin, innermost dimension first."""

    elements: Array
    mins: tuple[int, ...]

    @property
    def region(self) -> Region:
        """Where it has elements."""
        return _region(self.mins, self.elements.shape[::-1])


@dataclass(frozen=True)
class _Realized:
    """The values of a Func over a region; of a tuple several arrays."""

    region: Region
    values: tuple[Array, ...]


class _NeedsMoreError(Exception):
    """A Func reads itself beyond what is computed of it."""

    def __init__(self, region: Region) -> None:
        super().__init__(str(region))
        self.region = region


def interpreted(
    contents: Contents,
    inputs: Mapping[str, Buffer],
    scalars: Mapping[str, int],
    outputs: Mapping[str, Region],
) -> dict[str, tuple[Array, ...]]:
    """The values of each output over the region that is given for it.

    ``NotTunableError`` for what has no defined value here: inputs read beyond their elements, and
    kinds of numbers that NumPy does not have.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES_A_LEVEL * MOST_DEPTH + 2000))
    with np.errstate(all="ignore"):
        return _Interpreter(contents, inputs, scalars).outputs(outputs)


def steps_of(contents: Contents) -> dict[str, list[dict[str, int]]]:
    """The extents of the reduction variables of each update of each Func. They depend on no input,
    whose ends and values are numbers in ``contents``."""
    interpreter = _Interpreter(contents, {}, {})
    return {
        name: [
            {variable: extent for variable, _, extent in interpreter.reductions(update)}
            for update in func.updates
        ]
        for name, func in contents.funcs.items()
    }


def _region(mins: Sequence[int], extents: Sequence[int]) -> Region:
    return tuple((m, m + e - 1) for m, e in zip(mins, extents, strict=True))


def _union(a: Region, b: Region) -> Region:
    return tuple((min(p[0], q[0]), max(p[1], q[1])) for p, q in zip(a, b, strict=True))


def _covers(a: Region, b: Region) -> bool:
    return all(p[0] <= q[0] and q[1] <= p[1] for p, q in zip(a, b, strict=True))


def _dtype(kind: Type) -> np.dtype[Any]:
    if kind[0] == "bfloat":
        raise NotTunableError("it computes in bfloat16; integers and floats are accepted")
    return np.dtype("bool" if kind[1] == 1 else f"{kind[0]}{kind[1]}")


def _blocks(nest: Nest, limit: int) -> Iterator[list[range]]:
    """The iterations of ``nest`` in their order, as many at once as ``limit`` allows."""
    inner, steps = 1, []
    for _, _, extent in reversed(nest):
        steps.append(max(1, min(extent, limit // inner)))
        inner *= max(1, extent)
    axes = [
        [range(at, min(at + step, least + extent)) for at in range(least, least + extent, step)]
        for (_, least, extent), step in zip(nest, reversed(steps), strict=True)
    ]
    yield from (list(ranges) for ranges in product(*axes))


@dataclass
class _Scope:
    """The scope of an expression: variables, and which points count (``None``: all)."""

    variables: dict[str, Array]
    rank: int
    mask: Array | None = None
    own: tuple[str, _Realized] | None = None
    """The Func that is being updated, which its definition reads as it is at that moment."""

    def where(self, condition: Array) -> _Scope:
        """The same for those points only that meet ``condition``."""
        mask = condition if self.mask is None else self.mask & condition
        return _Scope(self.variables, self.rank, np.asarray(mask), self.own)


def _scope(nest: Nest, block: Sequence[range], own: tuple[str, _Realized] | None = None) -> _Scope:
    rank = len(nest)
    variables = {}
    for axis, ((name, _, _), values) in enumerate(zip(nest, block, strict=True)):
        shape = [1] * rank
        shape[axis] = len(values)
        variables[name] = np.arange(values.start, values.stop, dtype=np.int32).reshape(shape)
    return _Scope(variables, rank, None, own)


class _Interpreter:
    def __init__(
        self, contents: Contents, inputs: Mapping[str, Buffer], scalars: Mapping[str, int]
    ) -> None:
        self._contents = contents
        self._funcs = contents.funcs
        self._buffers = {**{n: _of_table(t) for n, t in contents.tables.items()}, **inputs}
        self._scalars = scalars
        self._realized: dict[str, _Realized] = {}
        self._planned: dict[str, Region] = {}
        self._reading: dict[Node, bool] = {}

    def outputs(self, wanted: Mapping[str, Region]) -> dict[str, tuple[Array, ...]]:
        """The values of ``wanted``, producers before consumers."""
        order = list(self._funcs)
        self._planned = dict(wanted)
        for name in reversed(order):
            if name in self._planned:
                self._plan(self._funcs[name])
        for name in order:
            if name in self._planned:
                self._values(name, self._planned[name])
        found = {}
        for name, region in wanted.items():
            realized = self._realized[name]
            cut = tuple(
                slice(a - least, b - least + 1)
                for (a, b), (least, _) in zip(region[::-1], realized.region[::-1], strict=True)
            )
            found[name] = tuple(values[cut] for values in realized.values)
        return found

    def _plan(self, func: Func) -> None:
        """Adds what is surely read of other Funcs to what is planned of them. The rest comes up."""
        region = self._planned[func.name] = self._extended(func, self._planned[func.name])
        nests: list[tuple[Nest, Sequence[Node]]] = [(_pure_nest(func, region), func.values)]
        for update in func.updates:
            if is_true(update.predicate):
                pure = _pure_nest(func, region, _pure_dimensions(func, update))
                nests.append(((*self.reductions(update), *pure), (*update.values, *update.places)))
        for nest, roots in nests:
            for call in self._sure_calls(roots):
                box = self._box(call["args"], nest) if call["name"] != func.name else None
                if box is not None:
                    before = self._planned.get(call["name"], box)
                    self._planned[call["name"]] = _union(before, box)

    def _sure_calls(self, roots: Sequence[Node]) -> Iterator[Node]:
        """Calls to Funcs that are made whatever a condition says, at places that depend on none."""
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if _is_choice(node):
                waiting.append(parts_of(node)[0])
                continue
            parts = parts_of(node)
            waiting += parts
            if node.kind == "Let":
                waiting = waiting[: -len(parts)]  # its names are not known out of it
            elif is_call_to_func(node) and not any(map(self._reads, parts)):
                yield node

    def _box(self, indices: Sequence[Node], nest: Nest) -> Region | None:
        """The region of ``indices`` over all of ``nest``; ``None`` if that is much work."""
        scope = _scope(nest, [range(least, least + extent) for _, least, extent in nest])
        box = []
        for index in indices:
            names = {n["name"] for n in expressions_in(index) if n.kind == "Variable"}
            if prod(e for n, _, e in nest if n in names) > _MOST_INDEX_ELEMENTS:
                return None
            values = self._of(index, scope)
            if not values.size:
                return None
            box.append((int(values.min()), int(values.max())))
        return tuple(box)

    def _extended(self, func: Func, region: Region) -> Region:
        """``region`` with what a Func reads of itself to get there."""
        for update in func.updates:
            if not is_true(update.predicate):
                continue
            pure = _pure_dimensions(func, update)
            nest = [*self.reductions(update), *_pure_nest(func, region, pure)]
            if not all(extent > 0 for _, _, extent in nest):
                continue
            for call in self._sure_calls((*update.values, *update.places)):
                if call["name"] == func.name and not alike(call["args"], update.places):
                    box = self._box(call["args"], nest)
                    region = _union(region, box) if box is not None else region
        return region

    def _values(self, name: str, region: Region) -> _Realized:
        """A Func over at least ``region``."""
        found = self._realized.get(name)
        if found is not None and _covers(found.region, region):
            return found
        wanted = region if found is None else _union(found.region, region)
        wanted = self._extended(self._funcs[name], wanted)
        while True:
            try:
                made = self._realized[name] = self._made(self._funcs[name], wanted)
                return made
            except _NeedsMoreError as more:
                wanted = self._extended(self._funcs[name], _union(wanted, more.region))

    def _made(self, func: Func, region: Region) -> _Realized:
        nest = _pure_nest(func, region)
        shape = tuple(extent for _, _, extent in nest)
        made = _Realized(region, tuple(np.zeros(shape, _dtype(kind)) for kind in func.types))
        for block in _blocks(nest, _BLOCK_ELEMENTS):
            scope = _scope(nest, block)
            place = tuple(
                slice(r.start - least, r.stop - least)
                for r, (_, least, _) in zip(block, nest, strict=True)
            )
            for target, value in zip(made.values, func.values, strict=True):
                target[place] = self._of(value, scope)
        for update in func.updates:
            self._update(func, update, made)
        return made

    def reductions(self, update: Update) -> list[tuple[str, int, int]]:
        """The loops of the reduction, outermost first."""
        scope = _Scope({}, 0)
        return [
            (name, int(self._of(least, scope)), max(0, int(self._of(extent, scope))))
            for name, least, extent in reversed(update.rvars)
        ]

    def _update(self, func: Func, update: Update, made: _Realized) -> None:
        pure = _pure_nest(func, made.region, _pure_dimensions(func, update))
        rvars = self.reductions(update)
        total = _Total.of(func, update, self._contents.types)
        in_steps: list[tuple[str, int, int]] = []
        if total is None and _reads_itself(func, update):
            apart = _apart(func, update)
            in_steps = [one for one in rvars if one[0] not in apart]
        at_once = [one for one in rvars if one not in in_steps]
        for step in _blocks(in_steps, 1):
            for block in _blocks([*at_once, *pure], _BLOCK_ELEMENTS):
                scope = _scope([*in_steps, *at_once, *pure], [*step, *block], (func.name, made))
                self._store(update, made, scope, total)

    def _store(self, update: Update, made: _Realized, scope: _Scope, total: _Total | None) -> None:
        if not is_true(update.predicate):
            scope = scope.where(self._of(update.predicate, scope))
        positions = []
        for place, (least, most) in zip(update.places, made.region, strict=True):
            index = np.asarray(self._of(place, scope))
            inside = (index >= least) & (index <= most)
            if not inside.all():  # nobody reads what is stored there
                scope = scope.where(inside)
            positions.append(np.clip(index, least, most) - least)
        if scope.mask is not None and not scope.mask.any():
            return
        if total is not None:
            total.add(made.values[0], positions[::-1], self._of(total.term, scope), scope)
            return
        values = [self._of(value, scope) for value in update.values]
        for target, value in zip(made.values, values, strict=True):
            _assign(target, positions[::-1], value, scope)

    def _reads(self, node: Node) -> bool:
        """Whether there is a call to a Func or buffer in an expression."""
        known = self._reading.get(node)
        if known is None:
            known = any(one.kind == "Call" and is_read(one) for one in expressions_in(node))
            self._reading[node] = known
        return known

    def _of(self, node: Node, scope: _Scope) -> Array:
        """The value of an expression at each point."""
        kind = node.kind
        if kind == "Variable":
            return self._variable(node, scope)
        if kind in ("IntImm", "UIntImm", "FloatImm"):
            return np.asarray(node["value"], _dtype(self._contents.types[node]))
        if kind == "Call" and is_read(node):
            return self._element(node, scope)
        if kind == "Let":
            value = self._of(node["value"], scope)
            inner = _Scope(
                {**scope.variables, node["name"]: value}, scope.rank, scope.mask, scope.own
            )
            return self._of(node["body"], inner)
        if _is_choice(node):
            return self._choice(parts_of(node), scope)
        parts = [self._of(part, scope) for part in parts_of(node)]
        wanted = _dtype(self._contents.types[node])
        if kind == "Call":
            return np.asarray(INTRINSICS[node["name"]].value(wanted, *parts))
        if kind == "Cast":
            return _cast(parts[0], wanted)
        if kind == "Reinterpret":
            return parts[0].view(wanted)
        return np.asarray(_OPERATORS[kind](*parts))

    def _choice(self, parts: Sequence[Node], scope: _Scope) -> Array:
        condition = self._of(parts[0], scope)
        sides = [
            self._of(part, scope.where(chosen) if self._reads(part) else scope)
            for part, chosen in ((parts[1], condition), (parts[2], ~condition))
        ]
        return np.where(condition, *sides)

    def _variable(self, node: Node, scope: _Scope) -> Array:
        name, owner = node["name"], node["param_name"] or node["image_name"]
        if not owner:
            return scope.variables[name]
        if owner in self._scalars:
            return np.asarray(self._scalars[owner], _dtype(self._contents.types[node]))
        what, dimension = name.rsplit(".", 2)[1:]
        least, most = self._buffers[owner].region[int(dimension)]
        return np.asarray(least if what == "min" else most - least + 1, np.int32)

    def _element(self, call: Node, scope: _Scope) -> Array:
        """The elements that a call reads."""
        indices = [np.asarray(self._of(index, scope)) for index in call["args"]]
        box = _active(indices, scope.mask)
        if box is None:
            return np.zeros((1,) * scope.rank, _dtype(self._contents.types[call]))
        if scope.mask is not None:
            indices = [np.clip(index, *b) for index, b in zip(indices, box, strict=True)]
        name = call["name"]
        if call["call_type"] == "Image":
            buffer = self._buffers[name]
            if not _covers(buffer.region, box):
                raise NotTunableError(f"{call.where} reads {name} at {box}, beyond {buffer.region}")
            return _gathered(buffer.elements, indices, buffer.region, scope.rank)
        if scope.own is not None and name == scope.own[0]:
            found = scope.own[1]
            if not _covers(found.region, box):
                raise _NeedsMoreError(box)
            values = found.values[call["value_index"]]
            return _gathered(values, indices, found.region, scope.rank).copy()
        found = self._values(name, box)
        return _gathered(found.values[call["value_index"]], indices, found.region, scope.rank)


@dataclass(frozen=True)
class _Total:
    """An update whose order is free: the Func at a place, combined with a ``term`` that does not
    depend on it."""

    combine: np.ufunc
    term: Node

    @classmethod
    def of(cls, func: Func, update: Update, types: Mapping[Node, Type]) -> _Total | None:
        """The total that ``update`` makes; ``None`` if it makes none."""
        value = update.values[0]
        name = value["name"] if value.kind == "Call" else value.kind
        if len(update.values) > 1 or name not in _FREE or types[value][0] not in ("int", "uint"):
            return None
        first, second = parts_of(value)
        for own, term in ((first, second), (second, first)):
            others = (term, *update.places, update.predicate)
            if _is_own(own, func, update) and not any(_calls(one, func.name) for one in others):
                return cls(_FREE[name], term)
        return None

    def add(self, target: Array, positions: Sequence[Array], terms: Array, scope: _Scope) -> None:
        """Adds ``terms`` to what they belong to."""
        shape = _loop_shape(scope)
        terms = np.broadcast_to(terms, shape)
        along = [_axis(position) for position in positions]
        if all(position.size == 1 for position in positions):
            counted = terms[_whole_mask(scope)] if scope.mask is not None else terms
            place = tuple(int(position.reshape(-1)[0]) for position in positions)
            total = self.combine.reduce(counted.reshape(-1), dtype=target.dtype)
            target[place] = self.combine(target[place], total)
        elif scope.mask is None and len({*along} - {None}) == len(along):
            self._reduce(target, positions, [axis for axis in along if axis is not None], terms)
        else:
            places = [np.broadcast_to(position, shape) for position in positions]
            if scope.mask is not None:
                counted = _whole_mask(scope)
                places, terms = [place[counted] for place in places], terms[counted]
            self.combine.at(target, tuple(places), terms)

    def _reduce(
        self, target: Array, positions: Sequence[Array], along: Sequence[int], terms: Array
    ) -> None:
        """Each dimension follows a loop of its own: what other loops add is summed up first."""
        gone = tuple(axis for axis in range(terms.ndim) if axis not in along)
        total = self.combine.reduce(terms, axis=gone, dtype=target.dtype) if gone else terms
        left = sorted(along)
        total = total.transpose([left.index(axis) for axis in along])
        place = np.ix_(*(p.reshape(-1) for p in positions))
        target[place] = self.combine(target[place], total)


_FREE = {
    "Add": np.add,
    "Mul": np.multiply,
    "Min": np.minimum,
    "Max": np.maximum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
"""Operations that combine integers in any order."""


def _divided(a: Array, b: Array) -> Array:
    """Halide's: the remainder is never negative, and by zero all is 0."""
    if a.dtype.kind == "f":
        return a / b
    if (b > 0).all():
        return a // b
    if a.dtype.kind == "u":
        return np.where(b == 0, 0, a // np.where(b == 0, 1, b)).astype(a.dtype)
    wide, divisor = a.astype(np.int64), b.astype(np.int64)
    quotient = np.sign(divisor) * (wide // np.where(b == 0, 1, abs(divisor)))
    return quotient.astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a - b * np.floor(a / b))
    if (b > 0).all():
        return a % b
    if a.dtype.kind == "u":
        return np.where(b == 0, 0, a % np.where(b == 0, 1, b)).astype(a.dtype)
    wide, divisor = a.astype(np.int64), abs(b.astype(np.int64))
    return np.where(b == 0, 0, wide % np.where(b == 0, 1, divisor)).astype(a.dtype)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divided,
    "Mod": _remainder,
    "Min": np.minimum,
    "Max": np.maximum,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Not": np.logical_not,
}


def _cast(values: Array, wanted: np.dtype[Any]) -> Array:
    if values.dtype.kind == "f" and wanted.kind in "iu":
        return values.astype(np.int64).astype(wanted)
    return values.astype(wanted)


def _of_table(table: Table) -> Buffer:
    elements = np.frombuffer(table.data, _dtype(table.type)).reshape(table.extents[::-1])
    return Buffer(elements, table.mins)


def _is_choice(node: Node) -> bool:
    return node.kind == "Select" or (node.kind == "Call" and node["name"] == "if_then_else")


def _calls(node: Node, name: str) -> bool:
    return any(is_call_to_func(one) and one["name"] == name for one in expressions_in(node))


def _reads_itself(func: Func, update: Update) -> bool:
    return any(_calls(one, func.name) for one in (*update.values, *update.places, update.predicate))


def _is_own(node: Node, func: Func, update: Update) -> bool:
    """Whether ``node`` is the Func at the place that is updated."""
    return (
        is_call_to_func(node) and node["name"] == func.name and alike(node["args"], update.places)
    )


def _pure_dimensions(func: Func, update: Update) -> frozenset[str]:
    """The dimensions that an update goes along as the definition does."""
    return frozenset(
        dimension
        for dimension, place in zip(func.dimensions, update.places, strict=True)
        if is_variable(place, dimension)
    )


def _pure_nest(
    func: Func, region: Region, dimensions: frozenset[str] | None = None
) -> list[tuple[str, int, int]]:
    loops = [
        (dimension, least, most - least + 1)
        for dimension, (least, most) in zip(func.dimensions, region, strict=True)
        if dimensions is None or dimension in dimensions
    ]
    return loops[::-1]


def _apart(func: Func, update: Update) -> set[str]:
    """The reduction variables whose steps have nothing to do with one another: each is itself the
    index of a dimension, wherever the Func is written or read."""
    own = [
        call["args"]
        for root in (*update.values, *update.places, update.predicate)
        for call in expressions_in(root)
        if is_call_to_func(call) and call["name"] == func.name
    ]
    return {
        name
        for name, _, _ in update.rvars
        for number in range(len(func.dimensions))
        if all(is_variable(indices[number], name) for indices in (update.places, *own))
    }


def _active(indices: Sequence[Array], mask: Array | None) -> Region | None:
    """The region of the indices that count; ``None`` if none does."""
    if mask is None:
        return tuple((int(index.min()), int(index.max())) for index in indices)
    if not mask.any():
        return None
    if mask.all():
        return _active(indices, None)
    box = []
    for index in indices:
        counted = np.broadcast_arrays(index, mask)
        among = counted[0][counted[1]]
        box.append((int(among.min()), int(among.max())))
    return tuple(box)


def _loop_shape(scope: _Scope) -> tuple[int, ...]:
    shapes = [values.shape for values in scope.variables.values()]
    return np.broadcast_shapes((1,) * scope.rank, *shapes)


def _only_axis(positions: Array) -> int | None:
    """The loop that positions follow; ``None`` if they follow several."""
    axes = [axis for axis, extent in enumerate(positions.shape) if extent > 1]
    return axes[0] if len(axes) == 1 else None


def _axis(positions: Array) -> int | None:
    """The same where there is another position for each of its iterations."""
    axis = _only_axis(positions)
    return axis if axis is not None and (np.diff(positions.reshape(-1)) > 0).all() else None


def _gathered(elements: Array, indices: Sequence[Array], region: Region, rank: int) -> Array:
    """``elements`` at ``indices``, innermost first, over loops of that rank."""
    positions = [
        index - least for index, (least, _) in zip(indices[::-1], region[::-1], strict=True)
    ]
    cut = _cut(elements, positions, rank)
    return cut if cut is not None else elements[tuple(positions)]


def _cut(elements: Array, positions: Sequence[Array], rank: int) -> Array | None:
    """The same where each dimension is gone along by a loop of its own: a view if in equal steps,
    and whole rows in any case."""
    slices, along, picked, shape = [], [], [], [1] * rank
    for number, position in enumerate(positions):
        flat = position.reshape(-1)
        if flat.size == 1:
            slices.append(slice(int(flat[0]), int(flat[0]) + 1))
            continue
        axis = _only_axis(position)
        if axis is None or shape[axis] != 1:
            return None
        shape[axis] = flat.size
        along.append((axis, number))
        step = int(flat[1] - flat[0])
        if step > 0 and (np.diff(flat) == step).all():
            slices.append(slice(int(flat[0]), int(flat[-1]) + 1, step))
        else:
            slices.append(slice(None))
            picked.append((number, flat))
    cut = elements[tuple(slices)]
    for number, flat in picked:
        cut = cut.take(flat, axis=number)
    still = [n for n in range(len(positions)) if n not in {number for _, number in along}]
    order = [*still, *(number for _, number in sorted(along))]
    return cut.transpose(order).reshape(shape)


def _whole_mask(scope: _Scope) -> Array:
    return np.broadcast_to(np.asarray(scope.mask), _loop_shape(scope))


def _assign(target: Array, positions: Sequence[Array], value: Array, scope: _Scope) -> None:
    """Stores values; of several at one place the last one stays, as loops would have it."""
    shape = _loop_shape(scope)
    places = [np.broadcast_to(position, shape) for position in positions]
    value = np.broadcast_to(value, shape)
    if scope.mask is not None:
        counted = _whole_mask(scope)
        places, value = [place[counted] for place in places], value[counted]
    target[tuple(places)] = value if places else value.reshape(-1)[-1]


def reference(
    data: bytes,
    pipeline_bytes: int,
    inputs: Sequence[Mapping[str, Any]],
    scalars: Mapping[str, int],
    outputs: Sequence[Mapping[str, Any]],
) -> bytes:
    """The outputs of the pipeline in the first ``pipeline_bytes`` of ``data``.

    ``inputs`` and ``outputs`` say of each buffer its ``name``, ``dtype``, ``mins`` and ``extents``,
    innermost first, ``scalars`` what the others are. After the pipeline come the elements of the
    inputs.
    """
    contents = checked(data[:pipeline_bytes])
    position, buffers = pipeline_bytes, {}
    for one in inputs:
        flat = np.frombuffer(data, one["dtype"], prod(one["extents"]), position)
        position += flat.nbytes
        buffers[one["name"]] = Buffer(flat.reshape(one["extents"][::-1]), tuple(one["mins"]))
    found = interpreted(contents, buffers, scalars, _wanted(contents.outputs, outputs))
    return b"".join(values.tobytes() for name in contents.outputs for values in found[name])


def _wanted(names: Sequence[str], outputs: Sequence[Mapping[str, Any]]) -> dict[str, Region]:
    """The region of each output Func. Those of a tuple are alike: NAME.0, NAME.1 and so on."""
    regions = {}
    for one in outputs:
        name = one["name"] if one["name"] in names else one["name"].rpartition(".")[0]
        ends = zip(one["mins"], one["extents"], strict=True)
        regions[name] = tuple((least, least + extent - 1) for least, extent in ends)
    return regions
