"""Programs as Halide pipelines that mean the same: for Halide's own values, and to be read again.

Where Halide leaves a result undefined and the form does not (overflow of signed 32 and 64 bits, and
shifts by as many bits as there are), it is written such that Halide defines it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import halide as hl
import numpy as np

from tuner.program.bounds import bounded
from tuner.program.expressions import (
    ARITHMETIC,
    SHIFTS,
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    Select,
    Unary,
    Variable,
    ordered,
)
from tuner.program.loops import Program, Stage, Update
from tuner.program.types import BOOL, U64, Type

_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "~": lambda a: ~a,
    "abs": lambda a: hl.abs(a) if a.type().is_int() else a,
    "popcount": hl.popcount,
    "clz": hl.count_leading_zeros,
    "ctz": hl.count_trailing_zeros,
}
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a / b,
    "%": lambda a, b: a % b,
    "min": hl.min,
    "max": hl.max,
    "absd": hl.absd,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def type_of(kind: Type) -> Any:
    """A type, as Halide has it."""
    if kind == BOOL:
        return hl.Bool()
    return hl.Int(kind.bits) if kind.is_signed else hl.UInt(kind.bits)


class InHalide:
    """The pipeline that a ``program`` is for ``sizes``: those of its images are open."""

    def __init__(self, program: Program, sizes: Mapping[str, int]) -> None:
        self._program, self._bounds = program, bounded(program, sizes)
        self._sizes: dict[str, Any] = {}
        self._sources: dict[str, Callable[..., Any]] = {}
        self.inputs: dict[str, Any] = {}
        self.scalars: dict[str, Any] = {}
        for one in program.inputs:
            rank = len(one.axes)
            image = self.inputs[one.name] = hl.ImageParam(type_of(one.type), rank, one.name)
            self._sources[one.name] = image.__getitem__
            for number, axis in enumerate(one.axes):
                if axis and isinstance(axis[1], Variable):
                    self._sizes.setdefault(axis[1].name, image.dim(rank - 1 - number).extent())
        for scalar in program.scalars:
            self.scalars[scalar.name] = hl.Param(type_of(scalar.type), scalar.name)
        for table in program.tables:
            elements = np.array(table.elements, table.type.dtype).reshape(table.extents)
            self._sources[table.name] = hl.Buffer(elements, table.name).__getitem__
        self.funcs = {stage.name: self._func(stage) for stage in program.stages}
        self.outputs = list({program.stage_of(name).name: None for name in program.outputs})
        self.pipeline = hl.Pipeline([self.funcs[name] for name in self.outputs])

    def _func(self, stage: Stage) -> Any:
        func = hl.Func(stage.name)
        is_tuple = len(stage.arrays) > 1
        for number, array in enumerate(stage.arrays):
            self._sources[array] = (
                (lambda places, number=number: hl.Expr(func[places][number]))
                if is_tuple
                else (lambda places: hl.Expr(func[places]))
            )
        axes = {axis.name: hl.Var(axis.name) for axis in stage.axes}
        values = self._all(stage.values, axes, ())
        func[tuple(axes.values())[::-1]] = tuple(values) if is_tuple else values[0]
        for number, update in enumerate(stage.updates):
            self._update(func, stage, number, update, axes)
        return func

    def _update(
        self, func: Any, stage: Stage, number: int, update: Update, axes: Mapping[str, Any]
    ) -> None:
        scope = self._bounds.within(stage, update.loops)
        reduced = [loop for loop in update.loops if loop.bounds]
        names = {loop.name for loop in update.loops}
        known = {name: axis for name, axis in axes.items() if name in names}
        ranges, where = [], list[Expr]()
        for loop in reversed(reduced):
            begin, end = loop.bounds
            if any(one in ordered(loop.bounds) for one in (o.index for o in update.loops)):
                assert scope is not None
                low, high = scope.of(begin).low, scope.of(end).high
                ranges.append((low, high - low))
                where += [loop.index >= begin, loop.index < end]
            else:
                first, last = self._all(loop.bounds, {})
                ranges.append((first, last - first))
        domain = hl.RDom(ranges, f"{stage.name}_{number}")
        for count, loop in enumerate(reversed(reduced)):
            known[loop.name] = domain[count]
        if update.condition is not None:
            where.append(update.condition)
        for condition in where:
            domain.where(*self._all([condition], known, ()))
        places = self._all(update.places, known, update.places)
        values = self._all(update.values, known, ())
        used = set(ordered((*update.places, *update.values)))
        if reduced and not used.intersection(loop.index for loop in reduced):
            # Halide has no loops of which an update knows nothing.
            values[0] = hl.select(
                domain[0] < hl.Int(32).max(), values[0], hl.cast(type_of(update.values[0].type), 0)
            )
        func[tuple(places)[::-1]] = tuple(values) if len(values) > 1 else values[0]

    def _all(
        self, roots: Iterable[Expr], known: Mapping[str, Any], places: Iterable[Expr] | None = None
    ) -> list[Any]:
        """Those of ``roots``, of which ``places`` (by default all) are indices or bounds."""
        roots = list(roots)
        indices = list(roots if places is None else places)
        for node in ordered(roots):
            if isinstance(node, Load):
                indices += node.indices
        plain = set(ordered(indices, lambda one: () if isinstance(one, Load) else one.parts))
        made: dict[Expr, Any] = {}
        for node in ordered(roots):
            parts = [made[part] for part in node.parts]
            made[node] = self._node(node, parts, known, is_plain=node in plain)
        return [made[root] for root in roots]

    def _node(
        self, node: Expr, parts: Sequence[Any], known: Mapping[str, Any], *, is_plain: bool
    ) -> Any:
        if isinstance(node, Constant):
            return (
                hl.u64(node.value) if node.type == U64 else hl.cast(type_of(node.type), node.value)
            )
        if isinstance(node, Variable):
            found = known.get(node.name)
            if found is None:
                found = self._sizes.get(node.name)
            return self.scalars[node.name] if found is None else hl.cast(hl.Int(32), found)
        if isinstance(node, Load):
            return self._sources[node.source](tuple(reversed(parts)))
        if isinstance(node, Select):
            return hl.select(*parts)
        if isinstance(node, Cast):
            return self._cast(node, *parts)
        if isinstance(node, Unary):
            return hl.logical_not(*parts) if node.type == BOOL else _UNARY[node.operator](*parts)
        assert isinstance(node, Binary)
        is_defined = is_plain or not node.left.type.overflow_is_undefined
        return self._binary(node, *parts, is_defined=is_defined)

    def _cast(self, node: Cast, part: Any) -> Any:
        kind = type_of(node.type)
        if node.saturates and node.operand.type != BOOL:
            return hl.saturating_cast(kind, part)
        return hl.cast(kind, part)

    def _binary(self, node: Binary, a: Any, b: Any, *, is_defined: bool) -> Any:
        by, kind = node.operator, node.left.type
        if by in SHIFTS:
            return _shifted(by, kind, node.right.type, a, b)
        if is_defined or by not in ARITHMETIC or by in ("min", "max", "absd", "%"):
            return _BINARY[by](a, b)
        if by == "//":  # the least number by -1
            return hl.select(b == -1, _wrapped("-", kind, hl.cast(a.type(), 0), a), a / b)
        return _wrapped(by, kind, a, b)


def _wrapped(by: str, kind: Type, a: Any, b: Any) -> Any:
    wide = type_of(kind.unsigned)
    return hl.cast(type_of(kind), _BINARY[by](hl.cast(wide, a), hl.cast(wide, b)))


def _shifted(by: str, kind: Type, amounts: Type, a: Any, b: Any) -> Any:
    most, of = kind.bits - 1, type_of(amounts)
    inside = hl.min(b, hl.cast(of, most))
    if amounts.is_signed:
        inside = hl.max(inside, hl.cast(of, -most))
    moved = a << inside if by == "<<" else a >> inside
    none = hl.cast(type_of(kind), 0)
    all_of_it = a >> hl.cast(type_of(kind), most) if kind.is_signed else none
    above, below = (none, all_of_it) if by == "<<" else (all_of_it, none)
    made = hl.select(b > hl.cast(of, most), above, moved)
    return hl.select(b < hl.cast(of, -most), below, made) if amounts.is_signed else made
