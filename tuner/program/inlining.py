"""Stages written into those that read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from tuner.program.expressions import (
    Binary,
    Constant,
    Expr,
    Load,
    Variable,
    loads_in,
    ordered,
    rewritten,
)
from tuner.program.loops import Program, Stage

_MOST_INLINED = 256
"""Nodes of a stage, times the places that it is read at."""


def inlined(program: Program, takes: Callable[[Stage], bool]) -> Program:
    """``program`` with each stage that ``takes`` says computed wherever it is read: one array,
    which is no output and has no updates. It is asked of stages that have others written into
    them."""
    gone: dict[str, Stage] = {}

    def read(node: Expr) -> Expr:
        if not isinstance(node, Load) or node.source not in gone:
            return node
        stage = gone[node.source]
        places = dict(zip(stage.places, node.indices, strict=True))
        return rewritten(
            stage.values[0],
            lambda one: places.get(one, one) if isinstance(one, Variable) else one,
        )

    stages = []
    for stage in program.stages:
        made = respelled(stage, read)
        is_kept = bool(stage.updates) or len(stage.arrays) > 1 or stage.name in program.outputs
        if not is_kept and takes(made):
            gone[made.name] = made
        else:
            stages.append(made)
    return replace(program, stages=tuple(stages))


def is_small(program: Program) -> Callable[[Stage], bool]:
    """Whether a stage may be written wherever ``program`` reads it."""
    reads = _reads(program)
    return lambda stage: len(list(ordered(stage.values))) * reads[stage.name] <= _MOST_INLINED


def is_idle(program: Program) -> Callable[[Stage], bool]:
    """Whether no element of a stage saves any work: it only copies, at places that need none, or
    has each element read once."""
    is_passed_on = is_read_once(program)
    small = is_small(program)
    return lambda stage: small(stage) and (is_copy(stage) or is_passed_on(stage))


def is_read_once(program: Program) -> Callable[[Stage], bool]:
    """Whether each element of a stage is read once."""
    reads = _reads(program)
    once = {
        load.source
        for stage in program.stages
        for load in loads_in(*stage.values)
        if not stage.updates and reads[load.source] == 1 and _steps_alike(load, stage)
    }
    return lambda stage: stage.name in once


def _reads(program: Program) -> Counter[str]:
    """At how many places each buffer or array is read."""
    return Counter(load.source for stage in program.stages for load in loads_in(*stage.expressions))


def is_copy(stage: Stage) -> bool:
    """Whether its values are elements of another array, at places that need none."""
    value = stage.values[0]
    return isinstance(value, Load) and not loads_in(*value.parts)


def is_part(stage: Stage) -> bool:
    """Whether it copies in even steps, so that its elements are found as fast where they are."""
    value = stage.values[0]
    steps = (Variable, Constant)
    return is_copy(stage) and all(
        isinstance(one, steps) or (isinstance(one, Binary) and one.operator in ("+", "-", "*"))
        for one in ordered(value.parts)
    )


def _steps_alike(load: Load, stage: Stage) -> bool:
    """Whether each index of ``load`` is that of an axis of ``stage``, or a fixed way from it, and
    all are of other axes."""
    found = set()
    for index in load.indices:
        own = index.left if isinstance(index, Binary) and index.operator in ("+", "-") else index
        moved = index.right if own is not index and isinstance(index, Binary) else None
        if not isinstance(own, Variable) or not (moved is None or isinstance(moved, Constant)):
            return False
        found.add(own)
    return len(found) == len(load.indices) and found == set(stage.places)


def respelled(stage: Stage, rule: Callable[[Expr], Expr]) -> Stage:
    """``stage`` with ``rule`` applied to all that it computes."""

    def each(expressions: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(rewritten(one, rule) for one in expressions)

    updates = tuple(
        replace(
            one,
            places=each(one.places),
            values=each(one.values),
            condition=None if one.condition is None else rewritten(one.condition, rule),
        )
        for one in stage.updates
    )
    return replace(stage, values=each(stage.values), updates=updates)
