"""Where a program may overflow in a way that Halide leaves undefined, and ranges that avoid it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tuner.program.bounds import Bounds, bounded, computed
from tuner.program.expressions import Binary, Expr, loads_in
from tuner.program.intervals import Interval, Scope, of_type
from tuner.program.loops import Program, Stage, Update
from tuner.program.printing import text_of

_NARROWEST = 8
"""Bits of types that are small enough as they are."""
_OVERFLOWING = ("+", "-", "*", "//", "<<")


@dataclass(frozen=True)
class Overflow:
    """An ``expression`` of a stage that takes ``values`` beyond its type. ``update`` is the number
    of the update that it is in, ``None`` for the definition."""

    stage: str
    update: int | None
    expression: Expr
    values: Interval

    def __str__(self) -> str:
        kind = self.expression.type
        where = "its definition" if self.update is None else f"its update {self.update}"
        return (
            f"the stage {self.stage} may overflow in {where}: {text_of(self.expression)} is from "
            f"{self.values.low} to {self.values.high}, and {kind} from {kind.low} to {kind.high}"
        )


def overflows(bounds: Bounds) -> list[Overflow]:
    """The undefined overflows that declared ranges do not exclude, innermost parts first."""
    found: dict[tuple[str, int | None, Expr], Overflow] = {}
    for stage in bounds.program.stages:
        if stage.name in bounds.boxes:
            for one in _of_stage(bounds, stage):
                key = one.stage, one.update, one.expression
                if key in found:
                    one = replace(one, values=one.values.union(found[key].values))
                found[key] = one
    return list(found.values())


def without_overflow(program: Program, sizes: Mapping[str, int]) -> Program | None:
    """``program`` with arguments of more than 8 bits declared to be as much smaller, by a power of
    two, as excludes undefined overflow; ``None`` if nothing does. Those of one value keep it."""

    def narrowed(bits: int) -> Program:
        return replace(
            program,
            arguments=tuple(
                replace(one, low=-(-one.low >> bits), high=one.high >> bits)
                if one.low < one.high and one.type.bits > _NARROWEST
                else one
                for one in program.arguments
            ),
        )

    def overflowing(bits: int) -> bool:
        return bool(overflows(bounded(narrowed(bits), sizes)))

    most = max((one.type.bits - 2 for one in program.arguments), default=0)  # to -1, 0 and 1
    if overflowing(most):
        return None
    return narrowed(bisect_left(range(most), 1, key=lambda bits: not overflowing(bits)))


def _of_stage(bounds: Bounds, stage: Stage) -> Iterator[Overflow]:
    scope = bounds.of_definition(stage)
    if scope is not None:
        for expression, values in _beyond(scope, stage.values):
            yield Overflow(stage.name, None, expression, values)
    for number, update in enumerate(stage.updates):
        scope = bounds.of_update(stage, update)
        if scope is not None:
            yield from _of_update(bounds, stage, number, update, scope)


def _of_update(
    bounds: Bounds, stage: Stage, number: int, update: Update, scope: Scope
) -> Iterator[Overflow]:
    """Those of an update. Of a sum its total is known, and that bounds the sums on the way."""
    total = bounds.needed.get((stage.name, number))
    for expression, values in _beyond(scope, update.expressions):
        is_on_the_way = total is not None and any(map(stage.is_own, loads_in(expression)))
        if not is_on_the_way:
            yield Overflow(stage.name, number, expression, values)
    kind = update.values[0].type
    if total is not None and kind.overflow_is_undefined and not of_type(kind).covers(total):
        yield Overflow(stage.name, number, update.values[0], total)


def _beyond(scope: Scope, roots: tuple[Expr, ...]) -> Iterator[tuple[Expr, Interval]]:
    for node, within in computed(scope, roots):
        if isinstance(node, Binary) and node.operator in _OVERFLOWING:
            values = within.exact(node)
            if node.type.overflow_is_undefined and not of_type(node.type).covers(values):
                yield node, values
