"""Rows that are computed beyond their ends."""

from __future__ import annotations

from dataclasses import replace

from tuner.program.expressions import Expr, Load, clamped
from tuner.program.inlining import respelled
from tuner.program.loops import Program, Stage


def ended(program: Program) -> Program:
    """``program`` with the last element of an input's row read wherever a stage without updates
    would read one beyond it, side by side with its own."""
    ends = {one.name: one.axes[-1] for one in program.inputs if one.axes and one.axes[-1]}

    def inside(stage: Stage) -> Stage:
        own = stage.places[-1:]

        def rule(node: Expr) -> Expr:
            if not isinstance(node, Load) or node.source not in ends or node.indices[-1:] != own:
                return node
            first, end = ends[node.source]
            return node.of((*node.indices[:-1], clamped(own[0], first, end - 1)))

        return stage if stage.updates else respelled(stage, rule)

    return replace(program, stages=tuple(map(inside, program.stages)))
