"""From 32-bit sums to u8 as layers of networks ask for it: a multiplier for each channel, as data.

With the sum in i32, and ``multiplier`` in units of 2**-31::

    a = (sum * multiplier + 2**30) >> 31
    output = max(min(saturate_u8(a + zero_out), high), low)

exact in unlimited precision: it is rounded once, halves up. HVX multiplies 32 bits by 32 and rounds
so in two instructions (``vmpye``, ``vmpyo:<<1:rnd:sat:shift``; V66 HVX manual), and needs no shifts
by channel: a scale of 2**-16 still has 15 significant bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tuner.kernels.kernel import Array, Problem
from tuner.space.directives import Stage, TailStrategy

if TYPE_CHECKING:
    import halide as hl

SCALE_BITS = 31
"""``multiplier`` counts units of 2**-31."""
LARGEST_BIAS = 1 << 16
"""Of random inputs: no larger than those of networks, or every output would saturate."""
BUFFERS = ("bias", "multiplier", "numbers")
"""``bias`` and ``multiplier`` (i32) by channel; ``numbers`` (u8): the zero points of input and
output, the lowest and the highest output, and what else a kernel needs."""
NUMBERS = 4
_ZERO_OUT, _LOW, _HIGH = 1, 2, 3
"""Places in ``numbers``."""


def text(total: str, channel: str) -> str:
    """u8 of ``total``, an i32, of a ``channel``, in the text of a program."""
    scaled = f"i64({total}) * i64(multiplier[{channel}]) + (i64(1) << 30) >> 31"
    return f"max(min(u8_sat(({scaled}) + i64(numbers[1])), numbers[3]), numbers[2])"


def inputs(channels: int, reach: int, rng: np.random.Generator) -> list[Array]:
    """Random ones, scaled for sums of about ``reach`` at most to fill the range of the output."""
    most = min((1 << SCALE_BITS) - 1, (256 << SCALE_BITS) // reach)
    low, high = sorted(int(end) for end in rng.integers(0, 256, 2))
    return [
        rng.integers(-LARGEST_BIAS, LARGEST_BIAS, channels, np.int32, endpoint=True),
        rng.integers(most // 8, most, channels, np.int32, endpoint=True),
        np.array([*rng.integers(0, 256, 2), low // 2, 255 - (255 - high) // 2], np.uint8),
    ]


def reference(sums: Array, multiplier: Array, numbers: Array) -> Array:
    """u8 of ``sums``, which are i32 with channels last."""
    scaled = sums.astype(np.int64) * multiplier + (1 << (SCALE_BITS - 1))
    output = np.clip((scaled >> SCALE_BITS) + int(numbers[_ZERO_OUT]), 0, 255)
    made: Array = np.maximum(np.minimum(output, numbers[_HIGH]), numbers[_LOW]).astype(np.uint8)
    return made


def settings(numbers: int = NUMBERS) -> tuple[hl.ImageParam, hl.ImageParam]:
    """``multiplier`` and ``numbers`` of a pipeline."""
    import halide as hl

    multiplier = hl.ImageParam(hl.Int(32), 1, "multiplier")
    made = hl.ImageParam(hl.UInt(8), 1, "numbers")
    made.dim(0).set_bounds(0, numbers)
    return multiplier, made


def multipliers(multiplier: hl.ImageParam) -> hl.Func:
    """The stage ``multipliers``: those of channels, and the last one beyond them."""
    import halide as hl

    made, c = hl.Func("multipliers"), hl.Var("c")
    made[c] = hl.BoundaryConditions.repeat_edge(multiplier, [(0, multiplier.dim(0).extent())])[c]
    return made


def copy(table: Stage, problem: Problem) -> None:
    """Has a ``table`` of 32 bits by channel be copied, a vector at a time."""
    table.compute_root().vectorize("c", problem.target.lanes(4), TailStrategy.ROUND_UP)


def expression(total: hl.Expr, multiplier: hl.Expr, numbers: hl.ImageParam) -> hl.Expr:
    """u8 of ``total``, an i32, by the ``multiplier`` of its channel."""
    import halide as hl

    scaled = hl.i16_sat(hl.rounding_mul_shift_right(total, multiplier, hl.u32(SCALE_BITS)))
    output = hl.u8_sat(hl.saturating_add(scaled, hl.i16(numbers[_ZERO_OUT])))
    return hl.max(hl.min(output, numbers[_HIGH]), numbers[_LOW])
