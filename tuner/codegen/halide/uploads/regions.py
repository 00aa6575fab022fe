"""How far Halide's code reads and computes: its vectors compute both sides of each choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tuner.codegen.halide.uploads.program import Names
from tuner.program.bounds import Box, bounded
from tuner.program.expressions import Expr, Select
from tuner.program.inlining import respelled
from tuner.program.loops import Buffer, Loop, Program, Stage, names_in
from tuner.program.types import U8


def regions(program: Program) -> Mapping[str, Box]:
    """The boxes of inputs and stages of ``program``, which has no sizes, by name. An output goes as
    far as it is declared to, and as other stages read it.

    ``ProgramError`` if something is read at any place at all.
    """
    names = Names(names_in(program))
    either = Buffer(names.fresh("either"), U8, (), 0, 1)

    def open_choice(node: Expr) -> Expr:
        if not isinstance(node, Select):
            return node
        return Select(node.condition ^ (either.at() > 0), node.chosen, node.otherwise)

    stages, ends = [], []
    for stage in program.stages:
        axes = tuple(Loop(axis.name) for axis in stage.axes)
        stages.append(replace(respelled(stage, open_choice), axes=axes))
        if set(stage.arrays) & set(program.outputs):
            whole = (names.fresh(stage.name),)
            ends.append(Stage(whole, stage.axes, (stage.at(*stage.places),)))
    made = replace(
        program,
        arguments=(*program.arguments, either),
        stages=(*stages, *ends),
        outputs=tuple(one.name for one in ends),
    )
    return bounded(made, {}).boxes
