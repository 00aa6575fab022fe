"""Uploads as Halide compiles them: written from what was read of them, never opened by Halide.

Stages, loops and arguments have the upload's names, by which its author's schedule goes. Values are
as the author wrote them: what Halide leaves undefined was told, and stays so. Where an author says
what is likely, as Halide's boundary conditions do, loops are split at edges: the form does not say
so, and it is written again.

Bytes side by side that are widened and added (``u16(f(2 * x)) + u16(f(2 * x + 1))``, the mean of
2x2 pixels) are written otherwise: Halide 21 makes a horizontal sum of them, and then a call that
its HVX runtime lacks (``Function 'halide.hexagon.add_2mpy.vub.ub' not found``). It does not see
through the distance of one of them to zero, which costs an instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from tuner.codegen.halide.pipelines import Writer
from tuner.codegen.halide.uploads.contents import (
    Contents,
    definitions_of,
    expressions_in,
)
from tuner.codegen.halide.uploads.intrinsics import BOOL
from tuner.codegen.halide.uploads.program import Spelled, called, spelled_program
from tuner.program.expressions import (
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    Select,
    Variable,
    loads_in,
    ordered,
)
from tuner.program.loops import Program, Stage
from tuner.program.types import U8

if TYPE_CHECKING:
    from tuner.kernels.kernel import HalidePipeline

_DOMAIN = "reduced"
_SUMS = ("+", "-")
_HINTS = ("likely", "likely_if_innermost")
_AS_SPELLED = frozenset(
    (
        *("halving_add", "halving_sub", "rounding_halving_add", "lerp", "mux"),
        *("mul_shift_right", "rounding_mul_shift_right", "saturating_add", "saturating_sub"),
        *("rounding_shift_left", "rounding_shift_right"),
        *("div_round_to_zero", "mod_round_to_zero"),
        *("widening_add", "widening_sub", "widening_mul"),
        *("widen_right_add", "widen_right_sub", "widen_right_mul"),
        *("widening_shift_left", "widening_shift_right"),
    )
)
"""What Halide does not see in all that it comes to."""


def pipeline_of(contents: Contents) -> HalidePipeline:
    """The pipeline, its stages by the names of the upload's Funcs. To be made once in a process,
    for Halide counts the names that it has used."""
    return _Upload(contents, *spelled_program(contents)).pipeline()


class _Upload(Writer):
    def __init__(self, contents: Contents, program: Program, spelled: Spelled) -> None:
        names = called(contents, program)
        super().__init__(program, names=names)
        self._contents = contents
        self._called = {one.name: contents.funcs[names[one.name]] for one in program.stages}
        self._conditions = {
            array
            for stage in program.stages
            for array, kind in zip(stage.arrays, self._called[stage.name].types, strict=True)
            if kind == BOOL
        }
        self._known |= {
            one: (tuple(parts), self._called_by(name))
            for one, (name, parts) in spelled.items()
            if name in _AS_SPELLED
        }
        self._has_hints = False
        """Whether the author says in the Func at hand what is likely."""
        self._likely: set[Expr] = set()
        self._apart: set[Expr] = set()

    def pipeline(self) -> HalidePipeline:
        made = super().pipeline()
        updates = [one for func in self._called.values() for one in func.updates]
        return replace(
            made,
            stages={self._called[own].name: f for own, f in made.stages.items()},
            order=list(self._contents.funcs),
            reductions=frozenset(name for one in updates for name, *_ in one.rvars),
        )

    def _func(self, stage: Stage) -> Any:
        """A Func, or what Halide puts around an input by itself."""
        value, name = stage.values[0], self._called[stage.name].name
        if isinstance(value, Load) and value.source in self._inputs and not stage.updates:
            image = self._inputs[value.source]
            is_around = self._contents.wrapped(name) == image.name()
            if is_around and value.indices == stage.places:
                return self._hl.Func(image)
        return self._hl.Func(name)

    def _define(self, stage: Stage) -> None:
        func, called = self._funcs[stage.name], self._called[stage.name]
        self._read_from(stage)
        if func.defined():  # around an input
            return
        nodes = chain.from_iterable(map(expressions_in, definitions_of(called)))
        self._has_hints = any(one.kind == "Call" and one["name"] in _HINTS for one in nodes)
        own = [axis.name for axis in reversed(stage.axes)]
        axes = dict(zip(own, map(self._hl.Var, called.dimensions), strict=True))
        self._store(stage, axes.values(), stage.values, axes)
        for number, (update, theirs) in enumerate(zip(stage.updates, called.updates, strict=True)):
            free = {loop.name for loop in update.loops if not loop.bounds}
            known = {name: axis for name, axis in axes.items() if name in free}
            reduced = [loop for loop in reversed(update.loops) if loop.bounds]
            renamed = list[tuple[str, str]]()
            if reduced:
                ends = [self._all(loop.bounds, {}) for loop in reduced]
                names = [name for name, *_ in theirs.rvars]
                ranges = [(one, end - one) for one, end in ends]
                domain = self._hl.RDom(ranges, names[0].rpartition("$")[0] or _DOMAIN)
                made = [domain[at].name() for at in range(len(names))]
                if made != names:  # parts of a domain, as ``rfactor`` makes them
                    domain = self._hl.RDom(ranges, _DOMAIN)
                    renamed = [(domain[at].name(), name) for at, name in enumerate(names)]
                known |= {loop.name: domain[at] for at, loop in enumerate(reduced)}
                if update.condition is not None:
                    domain.where(*self._all([update.condition], known))
            places = self._all(reversed(update.places), known)
            self._store(stage, places, update.values, known)
            for one in renamed:
                func.update(number).rename(*map(self._hl.RVar, one))

    def _store(
        self, stage: Stage, places: Iterable[Any], roots: Sequence[Expr], known: Mapping[str, Any]
    ) -> None:
        plain = [
            root.parts[0] if array in self._conditions else root
            for array, root in zip(stage.arrays, roots, strict=True)
        ]
        within = self._scope(stage, *plain)
        if within is not None:
            for node in ordered(plain):
                self._note_compared(node, within)
        values = self._all(plain, known)
        self._funcs[stage.name][tuple(places)] = tuple(values) if len(values) > 1 else values[0]

    def _all(self, roots: Iterable[Expr], known: Mapping[str, Any]) -> list[Any]:
        roots = list(roots)
        nodes = list(ordered(roots, self._parts))
        for load in nodes:
            if self._has_hints and isinstance(load, Load):
                within = ordered(load.indices, lambda o: () if isinstance(o, Load) else o.parts)
                self._likely.update(one.parts[0] for one in within if _is_clamped(one, known))
        sums = [one for one in nodes if isinstance(one, Binary) and one.operator in _SUMS]
        inner = {part for one in sums for part in one.parts}
        for one in sums:
            if one not in inner:
                self._apart.update(_beside(one))
        return super()._all(roots, known)

    def _called_by(self, name: str) -> Callable[..., Any]:
        if name == "mux":
            return lambda index, *values: self._hl.mux(index, values)
        found: Callable[..., Any] = getattr(self._hl, name)
        return found

    def _node(self, node: Expr, parts: Sequence[Any], known: Mapping[str, Any]) -> Any:
        hl = self._hl
        if node in self._known:
            return super()._node(node, parts, known)
        if node in self._likely:
            parts = [hl.likely(parts[0]), parts[1]]
        if node in self._apart:
            parts = [hl.absd(parts[0], hl.cast(hl.UInt(8), 0))]
        if self._has_hints and isinstance(node, Select) and _is_outside(node.condition, known):
            parts = [*parts[:2], hl.likely(parts[2])]
        if self._is_condition(node):
            return parts[0]
        return super()._node(node, parts, known)

    def _is_condition(self, node: Expr) -> bool:
        """Whether it asks for an element that is 0 or 1 in the form, and a condition in Halide."""
        read = node.left if isinstance(node, Binary) and node.operator == ">" else None
        return isinstance(read, Load) and read.source in self._conditions


def _is_clamped(node: Expr, known: Mapping[str, Any]) -> bool:
    """Whether it is the place of a loop, brought into a range."""
    if not isinstance(node, Binary) or node.operator != "max":
        return False
    inner = node.left
    if not isinstance(inner, Binary) or inner.operator != "min" or loads_in(inner.left):
        return False
    return any(isinstance(one, Variable) and one.name in known for one in ordered([inner.left]))


def _is_outside(condition: Expr, known: Mapping[str, Any]) -> bool:
    """Whether it tells that the place of a loop lies before or beyond something."""
    if isinstance(condition, Constant):
        return condition.value == 0
    if isinstance(condition, Binary) and condition.operator == "|":
        return all(_is_outside(one, known) for one in condition.parts)
    is_end = isinstance(condition, Binary) and condition.operator in ("<", ">=")
    return is_end and isinstance(condition.parts[0], Variable) and condition.parts[0].name in known


def _beside(total: Expr) -> Iterator[Expr]:
    """One of two terms after one another that widen bytes side by side at multiples."""
    for one, other in pairwise(_terms(total)):
        places = _widened(one), _widened(other)
        if places[0] and places[1] and places[0][0] == places[1][0]:
            offsets = places[0][1], places[1][1]
            if abs(offsets[0] - offsets[1]) == 1:
                # The odd one: of three in a row, that in the middle or both others.
                yield other if offsets[1] % 2 else one


def _terms(total: Expr) -> Iterator[Expr]:
    waiting = [total]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Binary) and node.operator in _SUMS:
            waiting += node.parts
        else:
            yield node


def _widened(term: Expr) -> tuple[tuple[str | Expr, ...], int] | None:
    """The row of the byte that a term widens, and what is added to its multiple along the row;
    ``None`` if it is anything else."""
    read = term.operand if isinstance(term, Cast) and term.type.bits > U8.bits else None
    if not isinstance(read, Load) or read.type != U8 or not read.indices:
        return None
    *outer, inner = read.indices
    if not any(isinstance(one, Binary) and one.operator == "*" for one in ordered([inner])):
        return None
    return (read.source, *outer), _offset(inner)


def _offset(index: Expr) -> int:
    """The number that is added to what an index is made of."""
    if not isinstance(index, Binary) or index.operator not in _SUMS:
        return 0
    sign = 1 if index.operator == "+" else -1
    if isinstance(index.right, Constant):
        return sign * index.right.value
    return index.left.value if sign > 0 and isinstance(index.left, Constant) else 0
