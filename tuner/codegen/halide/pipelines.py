"""Programs as Halide pipelines: a Func for each stage, without a schedule.

Where Halide leaves a result undefined and the form does not (overflow of signed 32 and 64 bits, and
shifts by as many bits as there are), and bounds do not exclude it, Halide is given what it defines.

Halide 21 brings terms of what is compared to the other side, as if those sums never overflowed:
``best > a - b`` becomes ``best + b > a``, which is wrong where ``best`` is the greatest value there
is, with which a search for the least begins. Where they may, unsigned values are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.kernels.kernel import HalidePipeline
from tuner.program.bounds import Bounds, computed
from tuner.program.expressions import (
    SHIFTS,
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    Select,
    Unary,
    Variable,
    loads_in,
    ordered,
    require,
)
from tuner.program.intervals import Interval, Patience, Scope, of_type
from tuner.program.loops import Program, Stage, Update
from tuner.program.overflow import overflows
from tuner.program.types import BOOL, U64, Type

if TYPE_CHECKING:
    import halide as hl

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a / b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_CALLS = {
    "min": "min",
    "max": "max",
    "absd": "absd",
    "popcount": "popcount",
    "clz": "count_leading_zeros",
    "ctz": "count_trailing_zeros",
}
"""What Halide has functions for."""
_PLACES = Interval(-(1 << 24), 1 << 24)
"""Of loops and sizes of which nothing is known."""
_MOST_TERMS = 1000
_ORDERED = ("<", "<=", ">", ">=")


def pipeline_of(bounds: Bounds, *, is_open: bool = False) -> HalidePipeline:
    """The pipeline of a program for its sizes; if it ``is_open``, also for all others that buffers
    may have. :class:`ProgramError` if then a loop's bounds depend on another loop."""
    return Writer(bounds.program, bounds, is_open=is_open).pipeline()


def serialized(bounds: Bounds) -> bytes:
    """The pipeline of a program, for all sizes, as Halide writes it."""
    import halide as hl

    written: bytes = hl.serialize_pipeline(
        hl.Pipeline(list(pipeline_of(bounds, is_open=True).outputs))
    )
    return written


_WIDE = 16
_FACTOR_BITS = 15
"""Of HVX's products that round (``vmpyh:<<1:rnd:sat``)."""


@cache
def _factor(most: int, number: int) -> int:
    """The factor in ``2**-15`` that makes means of ``number`` values of all sums up to ``most``; 0
    if there is none."""
    factor = ((1 << _FACTOR_BITS) + number // 2) // number
    if max(most, factor) >= 1 << _FACTOR_BITS:
        return 0
    sums = np.arange(most + 1, dtype=np.int64)
    means = (sums * factor + (1 << _FACTOR_BITS - 1)) >> _FACTOR_BITS
    return factor if np.array_equal(means, (sums + number // 2) // number) else 0


class Writer:
    """Writes ``program``. Without ``bounds`` it is open, and what is undefined stays so. ``names``
    are what Halide calls arguments, where that is not what the program does."""

    def __init__(
        self,
        program: Program,
        bounds: Bounds | None = None,
        *,
        is_open: bool = True,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        import halide as hl

        self._hl, self._program = hl, program
        self._bounds: Any = bounds
        self._is_open = is_open
        self._undefined = {one.expression for one in overflows(bounds)} if bounds else set[Expr]()
        self._known: dict[Expr, tuple[tuple[Expr, ...], Callable[..., Any]]] = {}
        """Nodes that Halide has a function for, which it sees in some spellings only: of what."""
        self._compared: set[Expr] = set()
        """Comparisons of values whose terms are not to be brought to the other side."""
        self._inputs = {
            one.name: hl.ImageParam(
                self._type(one.type), len(one.axes), names.get(one.name, one.name)
            )
            for one in self._program.inputs
        }
        self._scalars = {
            one.name: hl.Param(self._type(one.type), names.get(one.name, one.name))
            for one in self._program.scalars
        }
        self._sources: dict[str, Callable[..., Any]] = {
            name: image.__getitem__ for name, image in self._inputs.items()
        }
        self._funcs: dict[str, hl.Func] = {}
        ends = dict[str, Iterable[tuple[Expr, ...]]]()
        for own in self._program.outputs:
            stage = self._program.stage_of(own)
            ends[stage.name] = [axis.bounds for axis in stage.axes]
        ends |= {one.name: one.axes for one in self._program.inputs}
        self._extents = {
            axis[1]: (name, number)
            for name, axes in ends.items()
            for number, axis in enumerate(reversed([*axes]))
            if axis and not isinstance(axis[1], Constant)
        }
        """Expressions that are extents of buffers, of inputs rather than of outputs."""

    def pipeline(self) -> HalidePipeline:
        """All of it."""
        hl, program = self._hl, self._program
        for table in program.tables:
            elements = np.array(table.elements, table.type.dtype).reshape(table.extents)
            # A copy of Halide's own: expressions do not keep what belongs to NumPy.
            self._sources[table.name] = hl.Buffer(elements, table.name).copy().__getitem__
        self._funcs |= {stage.name: self._func(stage) for stage in program.stages}
        for stage in program.stages:
            self._define(stage)
        names = {program.stage_of(name).name: None for name in program.outputs}
        output, *more = (self._funcs[name] for name in names)
        inputs, scalars = list(self._inputs.values()), list(self._scalars.values())
        return HalidePipeline(inputs, output, self._funcs, scalars, more)

    def _type(self, kind: Type) -> hl.Type:
        if kind == BOOL:
            return self._hl.Bool()
        return self._hl.Int(kind.bits) if kind.is_signed else self._hl.UInt(kind.bits)

    def _extent(self, node: Expr) -> hl.Expr:
        """The extent of a buffer that ``node`` is, or a size that no buffer has."""
        own, number = self._extents.get(node, ("", 0))
        buffer = self._inputs.get(own)
        if own and buffer is None and self._funcs[own].defined():
            buffer = self._funcs[own].output_buffers()[0]
        if buffer is not None:
            return self._hl.cast(self._hl.Int(32), buffer.dim(number).extent())
        size = node.name if isinstance(node, Variable) else ""
        is_known = not self._is_open and size in self._bounds.sizes
        require(is_known, f"no buffer that is defined has the size {size}")
        return self._hl.i32(self._bounds.sizes[size])

    def _func(self, stage: Stage) -> hl.Func:
        """The Func of a stage, not defined yet."""
        return self._hl.Func(stage.name)

    def _read_from(self, stage: Stage) -> None:
        """Has the arrays of ``stage`` be read from its Func."""
        func = self._funcs[stage.name]
        for number, array in enumerate(stage.arrays):
            self._sources[array] = (
                (lambda places, number=number: self._hl.Expr(func[places][number]))
                if len(stage.arrays) > 1
                else (lambda places: self._hl.Expr(func[places]))
            )

    def _define(self, stage: Stage) -> None:
        func, is_tuple = self._funcs[stage.name], len(stage.arrays) > 1
        self._read_from(stage)
        axes = {axis.name: self._hl.Var(axis.name) for axis in stage.axes}
        self._note(self._bounds.of_definition(stage), stage.values)
        values = self._all(stage.values, axes)
        func[tuple(axes.values())[::-1]] = tuple(values) if is_tuple else values[0]
        for number, update in enumerate(stage.updates):
            self._update(stage, number, update, axes)

    def _update(
        self, stage: Stage, number: int, update: Update, axes: Mapping[str, hl.Var]
    ) -> None:
        hl, func = self._hl, self._funcs[stage.name]
        scope = self._bounds.of_update(stage, update)
        if scope is None and not self._is_open:
            return  # it never stores
        self._note(scope, update.expressions)
        reduced = [loop for loop in update.loops if loop.bounds]
        names = {loop.name for loop in update.loops}
        known: dict[str, Any] = {name: axis for name, axis in axes.items() if name in names}
        ranges, where = [], list[Expr]()
        for loop in reversed(reduced):
            if any(one in ordered(loop.bounds) for one in (o.index for o in update.loops)):
                text = f"its loop {loop.name} has bounds that depend on another"
                require(not self._is_open and scope is not None, text)
                over = self._bounds.extent(scope, loop.bounds)
                ranges.append((hl.i32(over.low), hl.i32(over.high - over.low + 1)))
                begin, end = loop.bounds
                where += [loop.index >= begin, loop.index < end]
            else:
                first, last = self._all(loop.bounds, {})
                ranges.append((first, last - first))
        if ranges:
            domain = hl.RDom(ranges, f"{stage.name}_{number}")
            known |= {loop.name: domain[at] for at, loop in enumerate(reversed(reduced))}
            for condition in (*where, *([update.condition] if update.condition else ())):
                domain.where(*self._all([condition], known))
        places, values = self._all(update.places, known), self._all(update.values, known)
        used = set(ordered((*update.places, *update.values)))
        if reduced and not used.intersection(loop.index for loop in reduced):
            # Halide has no loops of which an update knows nothing.
            none = hl.cast(self._type(update.values[0].type), 0)
            values[0] = hl.select(domain[0] < hl.Int(32).max(), values[0], none)
        func[tuple(places)[::-1]] = tuple(values) if len(values) > 1 else values[0]

    def _note(self, scope: Any, roots: Sequence[Expr]) -> None:
        """Notes shifts by amounts that Halide leaves undefined, and what it has functions for."""
        for node, within in computed(scope, roots) if scope is not None else ():
            self._note_compared(node, within)
            if isinstance(node, Binary) and node.operator == "//":
                self._note_mean(node, within)
            if isinstance(node, Cast) and node.saturates and isinstance(node.operand, Binary):
                self._note_saturating(node, node.operand, within)
            if isinstance(node, Binary) and node.operator in SHIFTS:
                most, over = node.type.bits - 1, within.of(node.right)
                if not -most <= over.low <= over.high <= most:
                    self._undefined.add(node)

    def _note_compared(self, node: Expr, within: Scope) -> None:
        """A comparison whose terms overflow if they are brought to the other side, those of stages
        that may be inlined among them."""
        if not isinstance(node, Binary) or node.operator not in _ORDERED:
            return
        most = node.left.type.high if node.left.type.overflow_is_undefined else 0
        if not most or not any(True for _ in loads_in(node)):
            return
        waiting, number, total = [(part, within) for part in node.parts], 0, 0
        while waiting and number < _MOST_TERMS:
            one, scope = waiting.pop()
            number += 1
            if isinstance(one, Load) and one.source in self._inlined:
                value, stage = self._inlined[one.source]
                waiting.append((value, self._scope(stage, value) or scope))
            elif isinstance(one, Binary) and one.operator in ("+", "-"):
                waiting += [(part, scope) for part in one.parts]
            else:
                total += max(map(abs, scope.of(one)))
        if total > most and number > len(node.parts):
            self._compared.add(node)

    @cached_property
    def _inlined(self) -> Mapping[str, tuple[Expr, Stage]]:
        """The sums and differences that arrays without updates are, and their stages."""
        return {
            array: (value, stage)
            for stage in self._program.stages
            for array, value in zip(stage.arrays, stage.values, strict=True)
            if isinstance(value, Binary) and value.operator in ("+", "-") and not stage.updates
        }

    def _scope(self, stage: Stage, *roots: Expr) -> Scope | None:
        """What is known where ``stage`` is defined, or of types alone."""
        if self._bounds is not None:
            found: Scope | None = self._bounds.of_definition(stage)
            return found
        program = self._program
        known: dict[Expr, Interval] = {}
        known |= {one: _PLACES for one in ordered(roots) if isinstance(one, Variable)}
        known |= {one.value: Interval(one.low, one.high) for one in program.scalars}
        return Scope(known, lambda load: of_type(load.type), Patience())

    def _note_saturating(self, node: Cast, made: Binary, within: Any) -> None:
        """A sum that saturates at the type of one of its values; a narrow value that is rounded as
        it is shifted, halves up."""
        hl, most, over = self._hl, node.type.high, within.of(made.right)
        if made.operator == ">>" and isinstance(made.left, Binary) and over.low == over.high > 0:
            value, half = made.left.parts
            rounds = made.left.operator == "+" and {*within.of(half)} == {1 << over.low - 1}
            if (
                rounds
                and isinstance(value, Cast)
                and over.low < value.operand.type.bits <= made.type.bits // 2
            ):
                kind = self._type(node.type)
                self._known[node] = (
                    (value.operand,),
                    lambda one: hl.saturating_cast(
                        kind, hl.rounding_shift_right(one, hl.cast(one.type(), over.low))
                    ),
                )
        if made.operator not in ("+", "-") or not (-most <= over.low <= over.high <= most):
            return
        value, other = made.parts
        is_own = isinstance(value, Cast) and value.operand.type == node.type
        if is_own and 2 * node.type.bits <= made.type.bits and (over.low >= 0 or over.high <= 0):
            by = "add" if (made.operator == "+") == (over.low >= 0) else "sub"
            self._known[node] = (
                (*value.parts, other),
                lambda one, more: getattr(hl, f"saturating_{by}")(
                    one, hl.cast(one.type(), hl.abs(more) if more.type().is_int() else more)
                ),
            )

    def _note_mean(self, node: Binary, within: Any) -> None:
        """A sum divided by its number of terms, to the nearest: one product that rounds, where that
        is as exact."""
        total, number = node.parts
        if not (isinstance(total, Binary) and total.operator == "+" and node.type.bits == _WIDE):
            return
        value, half = total.parts
        if not (isinstance(number, Constant) and isinstance(half, Constant)):
            return
        over, by = within.of(value), number.value
        factor = _factor(over.high, by) if half.value == by // 2 and over.low >= 0 < by else 0
        if factor and self._is_alike:
            hl, kind = self._hl, self._type(node.type)
            self._known[node] = (
                (value,),
                lambda one: hl.cast(
                    kind,
                    hl.rounding_mul_shift_right(
                        hl.cast(hl.Int(_WIDE), one), hl.i16(factor), hl.u16(_FACTOR_BITS)
                    ),
                ),
            )

    @cached_property
    def _is_alike(self) -> bool:
        """Whether values have the same bounds at all sizes: none follows from where it is, nor from
        how many others there are."""
        stages = self._program.stages
        values = [value for stage in stages for value in stage.values]
        found = ordered(values, lambda one: () if isinstance(one, Load) else one.parts)
        is_free = not any(isinstance(one, Variable) for one in found)
        return is_free and not any(stage.updates for stage in stages)

    def _all(self, roots: Iterable[Expr], known: Mapping[str, Any]) -> list[Any]:
        made: dict[Expr, Any] = {}
        roots = list(roots)
        for node in ordered(roots, self._parts):
            made[node] = self._node(node, [made[part] for part in self._parts(node)], known)
        return [made[root] for root in roots]

    def _parts(self, node: Expr) -> Sequence[Expr]:
        if node in self._extents:
            return ()
        return self._known[node][0] if node in self._known else node.parts

    def _node(self, node: Expr, parts: Sequence[Any], known: Mapping[str, Any]) -> Any:
        hl = self._hl
        if node in self._extents:
            return self._extent(node)
        if isinstance(node, Constant):
            kind = self._type(node.type)
            return hl.u64(node.value) if node.type == U64 else hl.cast(kind, node.value)
        if isinstance(node, Variable):
            if node.name in known:
                return hl.cast(hl.Int(32), known[node.name])
            return self._scalars[node.name] if node.name in self._scalars else self._extent(node)
        if isinstance(node, Load):
            return self._sources[node.source](tuple(reversed(parts)))
        if node in self._known:
            return self._known[node][1](*parts)
        if isinstance(node, Select):
            return hl.select(*parts)
        if isinstance(node, Cast):
            is_number = node.operand.type != BOOL
            cast = hl.saturating_cast if node.saturates and is_number else hl.cast
            return cast(self._type(node.type), *parts)
        if isinstance(node, Unary):
            return self._unary(node, *parts)
        assert isinstance(node, Binary)  # noqa: S101 - there are no other nodes
        if node in self._undefined:
            return self._defined(node, *parts)
        if node in self._compared:
            wide = self._type(node.left.type.unsigned)
            # Added: of what a function such as ``^`` is given Halide 21 overlooks that it is an
            # element of the same tuple, which is then read after it was stored.
            half = hl.cast(wide, hl.u64(1 << node.left.type.bits - 1))
            parts = [hl.cast(wide, one) + half for one in parts]
        return self._binary(node.operator, *parts)

    def _unary(self, node: Unary, part: Any) -> Any:
        if node.operator == "~":
            return self._hl.logical_not(part) if node.type == BOOL else ~part
        if node.operator == "abs":
            return self._hl.abs(part) if node.operand.type.is_signed else part
        return getattr(self._hl, _CALLS[node.operator])(part)

    def _binary(self, by: str, a: Any, b: Any) -> Any:
        return getattr(self._hl, _CALLS[by])(a, b) if by in _CALLS else _OPERATORS[by](a, b)

    def _defined(self, node: Binary, a: Any, b: Any) -> Any:
        """What is undefined in Halide, as something that is not."""
        hl, by, kind = self._hl, node.operator, node.left.type
        if by in SHIFTS:
            return self._shifted(by, kind, node.right.type, a, b)
        if by == "//":  # the least number by -1
            return hl.select(b == -1, self._wrapped("-", kind, hl.cast(a.type(), 0), a), a / b)
        return self._wrapped(by, kind, a, b)

    def _wrapped(self, by: str, kind: Type, a: Any, b: Any) -> Any:
        hl, wide = self._hl, self._type(kind.unsigned)
        return hl.cast(self._type(kind), self._binary(by, hl.cast(wide, a), hl.cast(wide, b)))

    def _shifted(self, by: str, kind: Type, amounts: Type, a: Any, b: Any) -> Any:
        hl, most, of = self._hl, kind.bits - 1, self._type(amounts)
        inside = hl.min(b, hl.cast(of, most))
        if amounts.is_signed:
            inside = hl.max(inside, hl.cast(of, -most))
        moved = _OPERATORS[by](a, inside)
        none = hl.cast(self._type(kind), 0)
        all_of_it = a >> hl.cast(self._type(kind), most) if kind.is_signed else none
        above, below = (none, all_of_it) if by == "<<" else (all_of_it, none)
        made = hl.select(b > hl.cast(of, most), above, moved)
        return hl.select(b < hl.cast(of, -most), below, made) if amounts.is_signed else made
