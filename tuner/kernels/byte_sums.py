"""Sums of rows of bytes: the correction for products of bytes whose sign bit was flipped.

``vrmpy`` adds up four bytes a lane, if each is multiplied by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tuner.problem.workload import Problem
from tuner.space import Steps

if TYPE_CHECKING:
    import halide as hl

SIGN = 128
"""A signed byte with its sign bit flipped is the unsigned byte larger by this much."""
_QUAD = 4
"""Bytes that one vrmpy lane reduces."""
_PARTS = 32
"""Partial sums of a row: vectors of words divide them."""


def flipped(byte: hl.Expr) -> hl.Expr:
    """The signed ``byte`` plus 128, as u8."""
    import halide as hl

    return hl.reinterpret(hl.UInt(8), byte) ^ hl.u8(SIGN)


def stages(
    name: str,
    byte: Callable[[hl.Expr], hl.Expr],
    count: hl.Expr,
    row: Sequence[hl.Var],
    total: hl.Type,
) -> dict[str, hl.Func]:
    """The stage ``name`` over ``row``, a ``total`` of ``count`` bytes, and the stages it needs.

    ``byte`` gives one by its position; it is zero at positions beyond.
    """
    import halide as hl

    lane = hl.Var("lane")
    ones = hl.Func("ones")  # Halide must not know that they are ones: it would drop the product
    ones[lane] = hl.u8(1)
    quads = hl.RDom([(0, _QUAD), (0, (count + _QUAD * _PARTS - 1) // (_QUAD * _PARTS))], "quads")
    parts = hl.Func("parts")
    parts[(lane, *row)] = hl.cast(total, 0)
    value = byte(_QUAD * (_PARTS * quads.y + lane) + quads.x)
    parts[(lane, *row)] += hl.cast(total, value) * hl.cast(total, ones[quads.x])
    part = hl.RDom([(0, _PARTS)], "part")
    sums = hl.Func(name)
    sums[tuple(row)] = hl.cast(total, 0)
    sums[tuple(row)] += parts[(part.x, *row)]
    return {"ones": ones, "parts": parts, name: sums}


def schedule(steps: Steps, problem: Problem, name: str, innermost: str) -> None:
    """Sums of all rows at once, one after the other. ``innermost`` is the first variable of one."""
    words = problem.target.lanes(4)
    steps.stage("ones").compute_root()
    steps.stage("parts").compute_at(name, innermost).vectorize("lane", words)
    quads = steps.stage("parts", 0).reorder("quads$x", "lane", "quads$y")
    quads.vectorize("lane", words).atomic().vectorize("quads$x")
    steps.stage(name).compute_root()
    steps.stage(name, 0).atomic().vectorize("part$x", words)
