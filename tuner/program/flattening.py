"""Axes of programs of elements that are one axis in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tuner.program.expressions import (
    Constant,
    Expr,
    Load,
    Variable,
    loads_in,
    ordered,
    rewritten,
)
from tuner.program.loops import Loop, Program, Stage
from tuner.program.types import INDEX


def flattened(program: Program, shapes: Mapping[str, Sequence[int]]) -> Program:
    """``program`` for dense buffers of these ``shapes`` that begin at 0, with neighbouring axes as
    one where every element is made of those at its own place along both; ``program`` itself if it
    has no such axes, or more than one stage."""
    if len(program.stages) != 1 or program.stages[0].updates or len(program.outputs) != 1:
        return program
    (stage,) = program.stages
    groups = _groups(program, stage, shapes)
    if len(groups) == len(stage.axes):
        return program
    sizes = {
        Variable(name): Constant(size, INDEX) for name, size in program.sizes_at(shapes).items()
    }
    later = {axis for group in groups for axis in group[1:]}

    def merged(node: Expr) -> Expr:
        if isinstance(node, Load):
            return node.of(one for one in node.indices if one not in later)
        return sizes.get(node, node) if isinstance(node, Variable) else node

    def ends(places: Sequence[Expr | int], shape: Sequence[int]) -> list[tuple[Expr, Expr]]:
        extents = list[int]()
        for place, extent in zip(places, shape, strict=True):
            if place in later:
                extents[-1] *= extent
            else:
                extents.append(extent)
        return [(Constant(0, INDEX), Constant(extent, INDEX)) for extent in extents]

    read = {load.source: load.indices for load in loads_in(*stage.values)}
    inputs = {
        one.name: replace(one, axes=tuple(ends(read.get(one.name, shape), shape)))
        for one in program.inputs
        for shape in [shapes[one.name]]
    }
    axes = ends(stage.places, shapes[stage.name])
    loops = (Loop(group[0].name, *axis) for group, axis in zip(groups, axes, strict=True))
    values = tuple(rewritten(value, merged) for value in stage.values)
    return replace(
        program,
        sizes=(),
        arguments=tuple(inputs.get(one.name, one) for one in program.arguments),
        stages=(replace(stage, axes=tuple(loops), values=values),),
    )


def _groups(
    program: Program, stage: Stage, shapes: Mapping[str, Sequence[int]]
) -> list[tuple[Variable, ...]]:
    """The axes of the output, those that are one together."""
    groups: list[tuple[Variable, ...]] = [(place,) for place in stage.places[:1]]
    for place in stage.places[1:]:
        if _are_one(program, stage, groups[-1][-1], place, shapes):
            groups[-1] = (*groups[-1], place)
        else:
            groups.append((place,))
    return groups


def _are_one(
    program: Program,
    stage: Stage,
    outer: Variable,
    inner: Variable,
    shapes: Mapping[str, Sequence[int]],
) -> bool:
    """Whether they are side by side in all buffers, as long as in the output."""
    extents = dict[Expr, int](zip(stage.places, shapes[stage.name], strict=True))
    return are_side_by_side(program, stage, outer, inner) and all(
        shapes[load.source][n] == extents[index]
        for load in loads_in(*stage.values)
        for n, index in enumerate(load.indices)
        if index in (outer, inner)
    )


def are_side_by_side(program: Program, stage: Stage, outer: Variable, inner: Variable) -> bool:
    """Whether ``stage`` reads inputs alone, each at the places of both, side by side, or of
    neither."""
    both, at = (outer, inner), dict[str, int]()
    names = {one.name for one in program.inputs}
    if {*both} & _outside_of_loads(stage.values):
        return False
    for load in loads_in(*stage.values):
        used = _outside_of_loads(load.indices) & {*both}
        first = load.indices.index(outer) if outer in load.indices else -1
        is_neither = load.source in names and not used
        if not is_neither and (first < 0 or load.indices[first : first + 2] != both):
            return False
        if load.source not in names or at.setdefault(load.source, first) != first:
            return False
        if _outside_of_loads(one for one in load.indices if one not in both) & {*both}:
            return False
    return True


def _outside_of_loads(roots: Iterable[Expr]) -> set[Expr]:
    """The nodes in ``roots`` that are no part of an element's place."""
    return {*ordered(roots, lambda node: () if isinstance(node, Load) else node.parts)}
