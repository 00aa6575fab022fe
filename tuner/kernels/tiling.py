"""Where a tile does not divide an extent: which tail strategies are right, as data.

Rounding the loop up is fastest, but touches elements beyond the extent: it is used exactly where
the contract makes the extent a known multiple of the tile. Elsewhere the last tile is either moved
back inside (it recomputes some elements, and the extent must hold at least one tile) or guarded
element by element (right for every extent, slow at the edge).
"""

from __future__ import annotations

from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem
from tuner.space import Config, Constraint, Knob, TailStrategy

_STRATEGIES = {
    "shift_inwards": TailStrategy.SHIFT_INWARDS,
    "guard_with_if": TailStrategy.GUARD_WITH_IF,
}


def known_multiple(problem: Problem, extent: int, inner: BufferSpec | None = None) -> int:
    """What the contract says ``extent`` is divisible by, in elements.

    A static extent is its own multiple. ``inner`` is the buffer whose innermost extent it is, if
    it is one: the ``extent`` contract promises whole vectors of that buffer.
    """
    if problem.contract is Contract.STATIC:
        return extent
    if problem.contract is Contract.EXTENT and inner is not None and inner.promised:
        return problem.target.vector_alignment_bytes // inner.element_bytes
    return 1


def tail_knob(name: str, tile: str, multiple: str) -> Knob:
    """The choice of tail where ``multiple`` is not divisible by ``tile`` (both expressions)."""
    return Knob(
        name,
        tuple(_STRATEGIES),
        f"last tile, where {tile} does not divide the extent",
        when=f"{multiple} % ({tile}) != 0",
    )


def tail_constraint(name: str, tile: str, extent: str) -> Constraint:
    """Forbids moving the last tile inwards where ``extent`` does not hold one tile."""
    return Constraint(
        f"{name} == 'guard_with_if' or {extent} >= {tile}",
        "a tile can only be moved inwards if the extent holds at least one",
    )


def tail(config: Config, name: str) -> TailStrategy:
    """The strategy ``config`` chose; rounding up where there was nothing to choose."""
    return _STRATEGIES[config.text(name)] if name in config else TailStrategy.ROUND_UP
