"""What of an upload is read otherwise than it is written, with the same values.

Coordinates beyond a mirrored edge are remainders of twice the extent. In vectors Halide 21 makes
64-bit products of them, which HVX lacks (``Unsupported HVX type: int64``), or divides lane by lane.
Where nothing is read farther beyond an edge than the edge is long, a sum does.
"""

from __future__ import annotations

import re

from tuner.program.expressions import (
    Binary,
    Cast,
    Expr,
    Select,
    Unary,
    clamped,
    maximum,
    minimum,
)
from tuner.program.types import INDEX

MIRRORS = re.compile(r"mirror_(?:image|interior)\b")
"""Names of the Funcs of Halide's boundary conditions."""


def folded_once(index: Expr) -> Expr:
    """``index``, if it is a mirrored coordinate, folded once instead of divided. That is right
    where it is at most twice the extent less 2 beyond the first element, to either side.

    The smaller of two distances has bounds that Halide finds: that of a remainder are the whole
    extent.
    """
    match index:
        case Select(Binary("|", Binary("<", at, first), Binary(">=", _, Binary("+", _, extent)))):
            for left_out in (0, 1):
                if index is _mirrored(at, first, extent, left_out):
                    near = at - first
                    once = maximum(near, left_out - 1 - near)
                    back = minimum(once, 2 * (extent - 1) - (left_out - 1) - once)
                    within = maximum(minimum(back, extent - 1), 0)
                    return index.of((index.condition, within + first, index.otherwise))
    return index


def _mirrored(at: Expr, first: Expr, extent: Expr, left_out: int) -> Expr:
    """The coordinate ``at`` beyond an edge, as Halide 21 writes it where the element at the edge is
    repeated, and where it is left out."""
    last = (first + extent) - 1
    if left_out:
        turned = (at - first) % (2 * (extent - 1)) - (extent - 1)
        mirror = (extent - 1) - Cast(INDEX, Unary("abs", turned)) + first
    else:
        rest = (at - first) % (2 * extent)
        turned = Select(Binary(">=", rest, extent), 2 * extent - 1 - rest, rest)
        mirror = clamped(turned + first, first, last)
    is_beyond = (at < first) | (at >= first + extent)
    return Select(is_beyond, mirror, clamped(at, first, last))
