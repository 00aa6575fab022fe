"""Reductions over small windows, written out as one expression for each element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from tuner.program.expressions import (
    Constant,
    Expr,
    Load,
    loads_in,
    ordered,
    rewritten,
)
from tuner.program.inlining import respelled
from tuner.program.loops import Program, Stage, Update
from tuner.program.meanings import value_of

_MOST_STEPS = 64
"""Of a window: loops go through larger ones."""
_MOST_NODES = 2048
"""Of all steps together."""


def unrolled(program: Program) -> Program:
    """``program`` with each stage defined at once whose updates go through windows of few elements,
    the same around every element, and what is computed of numbers alone as a number."""
    stages = (respelled(_defined_at_once(stage), _folded) for stage in program.stages)
    return replace(program, stages=tuple(stages))


def _defined_at_once(stage: Stage) -> Stage:
    nodes = [len(list(ordered(one.values))) for one in stage.updates]
    steps = [_steps(stage, one) for one in stage.updates]
    most = sum(map(int.__mul__, nodes, steps))
    if not all(steps) or sum(steps) > _MOST_STEPS or most > _MOST_NODES:
        return stage
    values = stage.values
    for update in stage.updates:
        for known in _iterations(update):
            known |= {stage.at(*stage.places, of=at): one for at, one in enumerate(values)}
            values = tuple(_put(one, known) for one in update.values)
    return replace(stage, values=values, updates=())


def _steps(stage: Stage, update: Update) -> int:
    """How often an update stores each element; 0 if some are stored otherwise, or it reads others
    of its own."""
    reduced = [loop for loop in update.loops if loop.bounds]
    own = filter(stage.is_own, loads_in(*update.expressions))
    is_plain = (
        update.condition is None
        and update.places == stage.places
        and not {loop.name for loop in reduced} & {axis.name for axis in stage.axes}
        and all(one.indices == stage.places for one in own)
        and all(isinstance(end, Constant) for loop in reduced for end in loop.bounds)
    )
    return prod(map(len, _ranges(update))) if is_plain else 0


def _ranges(update: Update) -> list[range]:
    ends = [[o.value for o in one.bounds if isinstance(o, Constant)] for one in update.loops]
    return [range(*one) for one in ends if one]


def _iterations(update: Update) -> Iterator[dict[Expr, Expr]]:
    """What the indices of its reductions are, one iteration after the other."""
    indices = [loop.index for loop in update.loops if loop.bounds]
    for at in product(*_ranges(update)):
        yield {one: Constant(value, one.type) for one, value in zip(indices, at, strict=True)}


def _put(root: Expr, known: Mapping[Expr, Expr]) -> Expr:
    """``root`` with what is ``known`` of parts in their place."""
    return rewritten(root, lambda node: known.get(node, node))


def _folded(node: Expr) -> Expr:
    numbers = [value_of(one) for one in node.parts if isinstance(one, Constant)]
    if isinstance(node, Load) or not numbers or len(numbers) < len(node.parts):
        return node
    return Constant(int(value_of(node, *numbers)), node.type)
