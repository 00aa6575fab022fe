"""Stages written into those that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tuner.program.expressions import Expr, Load, Variable, loads_in, rewritten
from tuner.program.loops import Program, Stage


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
        made = _rewritten(stage, read)
        is_kept = bool(stage.updates) or len(stage.arrays) > 1 or stage.name in program.outputs
        if not is_kept and takes(made):
            gone[made.name] = made
        else:
            stages.append(made)
    return replace(program, stages=tuple(stages))


def is_copy(stage: Stage) -> bool:
    """Whether its values are elements of another array, at places that need none."""
    value = stage.values[0]
    return isinstance(value, Load) and not loads_in(*value.parts)


def _rewritten(stage: Stage, rule: Callable[[Expr], Expr]) -> Stage:
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
