"""Values of scalar inputs at which a pipeline does something, for callers who choose none.

A multiplier of fixed point at 1, shifted right by 16, makes the same of all inputs: such outputs
would verify nothing. So the values are changed one after the other until the outputs follow each
input, as far as that is had without overflow that Halide leaves undefined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from statistics import mean

import numpy as np
from numpy.random import default_rng  # loaded before files cannot be opened

from tuner.codegen.halide.uploads.program import declared
from tuner.program.bounds import Bounds, bounded
from tuner.program.expressions import (
    SHIFTS,
    Binary,
    Cast,
    Expr,
    Load,
    ProgramError,
    Variable,
    loads_in,
    ordered,
)
from tuner.program.interpretation import Array, evaluated
from tuner.program.loops import Program
from tuner.program.overflow import overflows
from tuner.space.derivation.facts import ScalarFacts

_EXTENTS = {0: 128, 1: 2}
_OTHERWISE = 2
"""Sizes along the first dimensions, innermost first, and along further ones."""
_ALIVE_BITS = 3.0
"""Of the entropy of what outputs change by, if an input does: as much is enough."""
_GAIN_BITS = 0.25
_MOST_STEPS = 100_000
"""Nodes of expressions that are evaluated, half a second: a stage takes as long as a hundred."""
_STAGE_STEPS = 100
_DRAWN = 1 << 15
"""Elements are drawn of that magnitude at most: biases of 32 bits are not as large as their type
allows, and would hide everything else."""
_ROUNDS = 2
_BITS_APART = 3
_SHIFTS = (2, 4, 6, 8, 10, 12, 15)


def lively(
    program: Program, scalars: Mapping[str, ScalarFacts], free: Collection[str]
) -> dict[str, int]:
    """Values of all scalars, of which those that are ``free`` may have others than they do, with
    which outputs follow inputs. No place depends on them."""
    values = {name: one.value for name, one in scalars.items()}
    if not program.inputs:
        return values
    try:
        return _Search(program, scalars).found(values, free)
    except ProgramError:  # nothing is known of it
        return values


class _Search:
    def __init__(self, program: Program, scalars: Mapping[str, ScalarFacts]) -> None:
        ranges = [one.ends for one in scalars.values()]
        self._program = declared(program, [()] * len(program.inputs), ranges)
        # Of both, scalars come in the order of their names.
        self._scalars = dict(zip(scalars, self._program.scalars, strict=True))
        self._shifts = amounts(program)
        self._left = _MOST_STEPS
        self._steps = sum(
            _STAGE_STEPS * (1 + len(stage.updates)) + sum(1 for _ in ordered(stage.expressions))
            for stage in program.stages
        )
        sizes = {
            name: _EXTENTS.get(int(name.rpartition("_")[2]), _OTHERWISE)
            for name in self._program.sizes
        }
        self._bounds = bounded(self._program, sizes)
        self._inputs, self._others = (_random(self._bounds, seed) for seed in (1, 2))

    def found(self, values: Mapping[str, int], free: Collection[str]) -> dict[str, int]:
        """The values at which most changes. Wide scalars scale; narrow ones are offsets, mostly."""
        best, alive = dict(values), self._alive(values)
        allowed = self._overflowing(best) if min(alive) < _ALIVE_BITS else set()
        order = sorted(free, key=lambda name: (-self._scalars[name].type.bits, name))
        for name in _ROUNDS * order:
            for value in self._candidates(name):
                if min(alive) >= _ALIVE_BITS or self._left <= 0:
                    return best
                other = {**best, name: value}
                bits = self._alive(other)
                gains = mean(bits) > mean(alive) + _GAIN_BITS
                if gains and self._overflowing(other) <= allowed:
                    best, alive = other, bits
        return best

    def _candidates(self, name: str) -> Iterator[int]:
        own = self._scalars[name]
        powers = (1 << bits for bits in range(2, own.type.bits - 1, _BITS_APART))
        for value in _SHIFTS if own.name in self._shifts else powers:
            if own.low <= value <= own.high:
                yield value

    def _alive(self, values: Mapping[str, int]) -> list[float]:
        """For each input the entropy, in bits, of what outputs change by with it."""
        before, found = self._outputs(values, {}), []
        for name in self._inputs:
            after = self._outputs(values, {name: self._others[name]})
            found.append(_entropy(after - before))
        return found

    def _outputs(self, values: Mapping[str, int], other: Mapping[str, Array]) -> Array:
        self._left -= self._steps
        scalars = {one.name: values[name] for name, one in self._scalars.items()}
        outputs = evaluated(self._bounds, {**self._inputs, **other}, scalars).values()
        return np.concatenate([one.astype(np.int64).reshape(-1) for one in outputs])

    def _overflowing(self, values: Mapping[str, int]) -> set[tuple[str, int | None]]:
        """Where there is overflow that is undefined."""
        known = [(values[name], values[name]) for name in self._scalars]
        program = declared(self._program, [()] * len(self._program.inputs), known)
        found = overflows(bounded(program, self._bounds.sizes))
        return {(one.stage, one.update) for one in found}


def _random(bounds: Bounds, seed: int) -> dict[str, Array]:
    rng = default_rng(seed)
    return {
        one.name: rng.integers(
            max(one.low, -_DRAWN),
            min(one.high, _DRAWN),
            [axis.high - axis.low + 1 for axis in bounds.boxes[one.name]],
            one.type.dtype,
            endpoint=True,
        )
        for one in bounds.program.inputs
    }


def _entropy(values: Array) -> float:
    _, counts = np.unique(values, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def amounts(program: Program) -> set[str]:
    """The scalars by which something is shifted."""
    names = {one.name for one in program.scalars}
    shifts = [
        node.right
        for stage in program.stages
        for node in ordered(stage.expressions)
        if isinstance(node, Binary) and node.operator in SHIFTS
    ]
    return names & {node.name for node in ordered(shifts) if isinstance(node, Variable)}


def bounding(program: Program) -> dict[str, set[str]]:
    """By each scalar whether values are compared with it by a ``min`` or a ``max``, as with bounds
    of a clamp."""
    found: dict[str, set[str]] = {one.name: set() for one in program.scalars}
    for node in ordered(one for stage in program.stages for one in stage.expressions):
        if isinstance(node, Binary) and node.operator in ("min", "max"):
            for part in node.parts:
                while isinstance(part, Cast):
                    part = part.operand
                if isinstance(part, Variable) and part.name in found:
                    found[part.name].add(node.operator)
    return found


def placing(program: Program) -> set[str]:
    """The scalars that decide which elements are read or stored, and how often: they are in
    indices, in bounds and conditions of reductions, or in what these are made of."""
    made = {array: stage.expressions for stage in program.stages for array in stage.arrays}
    places: list[Expr] = []
    for stage in program.stages:
        places += (index for load in loads_in(*stage.expressions) for index in load.indices)
        for update in stage.updates:
            places += (*update.places, *(() if update.condition is None else (update.condition,)))
            places += (bound for loop in update.loops for bound in loop.bounds)

    def into(node: Expr) -> tuple[Expr, ...]:
        return (*node.parts, *made.get(node.source, ())) if isinstance(node, Load) else node.parts

    names = {one.name for one in ordered(places, into) if isinstance(one, Variable)}
    return names & {one.name for one in program.scalars}
