"""Pipelines drawn at random that the generator ``hvx`` reads: pixels around one, of some images,
with sums, extremes, shifts, look-ups, interleaved channels, planes and sums of rows, of images that
are larger or smaller than the output.

A seed means the same pipeline everywhere. Values are bounded as they are drawn, to 16 bits.
``python -m tests.rig.random_stencils SEED`` writes one to standard output, serialized.
"""

from __future__ import annotations

import random
import subprocess
import sys
from functools import cache
from typing import Any

_MOST = 1 << 12
_DEPTH = 4


@cache
def random_stencil(seed: int) -> bytes:
    """The pipeline of ``seed``, serialized, from a process of its own."""
    command = [sys.executable, "-m", "tests.rig.random_stencils", str(seed)]
    return subprocess.run(command, capture_output=True, check=True).stdout


def share_of(seed: int) -> tuple[int, int]:
    """The columns and rows of its image of which the pipeline of ``seed`` makes one."""
    share = random.Random(f"share {seed}")
    return share.choice(((1, 1), (1, 1), (2, 2), (2, 1), (1, 3), (3, 2), (4, 4)))


def cell_of(seed: int) -> tuple[int, int]:
    """The columns and rows of the output for which the image of the pipeline of ``seed`` has one
    pixel, and which may each be another expression."""
    cell = random.Random(f"cell {seed}")
    larger = ((2, 2), (2, 1), (1, 2), (3, 1), (4, 2), (2, 3))
    return cell.choice((*len(larger) * [(1, 1)], *larger)) if share_of(seed) == (1, 1) else (1, 1)


class _Drawing:
    """``value`` draws an expression of i16, with its bounds."""

    def __init__(self, hl: Any, seed: int) -> None:
        self.hl = hl
        self.random = random.Random(seed)
        self.x, self.y = hl.Var("x"), hl.Var("y")
        self.planes = self.random.choice((*3 * ["none"], "own", "numbered"))
        rank = 2 if self.planes == "none" else 3
        image, other = (hl.ImageParam(hl.UInt(8), rank, name) for name in ("image", "other"))
        self.plane = hl.Var("plane")
        self.own = [self.x, self.y, self.plane][: 3 if self.planes == "own" else 2]
        self.images = [hl.BoundaryConditions.repeat_edge(one) for one in (image, other)]
        self.channels = self.random.choice((2, 3, 4))
        # What came later is drawn apart, so that seeds keep their meaning.
        self.share = share_of(seed)
        self.cell = cell_of(seed)
        later = random.Random(f"later {seed}")
        self.of_pixels = self.planes != "none" and later.random() < 0.5
        self.each = self.planes == "own" and later.random() < 0.5
        self.colours = hl.ImageParam(hl.UInt(8), 2 + self.of_pixels, "colours")
        self.table = hl.ImageParam(hl.UInt(8), 1, "table")
        self.table.dim(0).set_bounds(0, 256)
        across = hl.RDom([(0, image.width())], "across")
        self.total = hl.Func("total")
        places = self.own[1:]
        self.total[places] = hl.u32(0)
        self.total[places] += hl.u32(image[[across, self.y, *self.own[2:], 0][:rank]])
        # Few pipelines have everything.
        everything = (self.channel, self.entry, self.mean, self.pixel_of_other)
        if self.share != self.cell:  # a row's sum is that of the output's pixels
            everything = everything[:2]
        self.leaves = [self.pixel] * 6 + [one for one in everything if self.random.random() < 0.3]

    def value(self, depth: int) -> tuple[Any, int, int]:
        if depth == 0 or self.random.random() < 0.1:
            return self.random.choice(self.leaves)()
        made = self.random.choice((self.sum, self.sum, self.extreme, self.distance, self.shifted))
        expression, low, high = made(depth - 1)
        while low < -_MOST or high > _MOST:
            expression, low, high = expression >> 2, low >> 2, high >> 2
        return expression, low, high

    def pixel(self, image: int = 0) -> tuple[Any, int, int]:
        dx, dy = (self.random.randint(-2, 2) for _ in "xy")
        step, down = self.share if image == 0 else (1, 1)
        place = [step * self.x + dx, down * self.y + dy]
        if image == 0 and self.cell != (1, 1):
            across, down = self.cell
            place = [(self.x + dx) // across, (self.y + 5) // down + dy]
        if self.planes != "none":
            place.append(self.plane if self.planes == "own" else self.random.randrange(3))
        return self.hl.i16(self.images[image][place]), 0, 255

    def pixel_of_other(self) -> tuple[Any, int, int]:
        return self.pixel(1)

    def channel(self) -> tuple[Any, int, int]:
        channel = self.random.randrange(self.channels)
        if self.of_pixels:
            return self.hl.i16(self.colours[channel, self.x, self.y]), 0, 255
        return self.hl.i16(self.colours[self.channels * self.x + channel, self.y]), 0, 255

    def entry(self) -> tuple[Any, int, int]:
        index, _, _ = self.value(1)
        return self.hl.i16(self.table[self.hl.i32(self.hl.u8_sat(index))]), 0, 255

    def mean(self) -> tuple[Any, int, int]:
        # Rows have at most 1024 pixels.
        return self.hl.i16(self.total[self.own[1:]] >> 10), 0, 255

    def sum(self, depth: int) -> tuple[Any, int, int]:
        total, low, high = self.hl.i16(self.random.randint(-9, 9)), -9, 9
        for _ in range(self.random.randint(2, 5)):
            weight = self.random.choice((1, 1, 2, 3, 4, 5, 8, -1, -2, -3))
            part, least, most = self.value(depth)
            ends = weight * least, weight * most
            if low + min(ends) < -(1 << 14) or high + max(ends) > 1 << 14:
                break
            total += part * weight
            low, high = low + min(ends), high + max(ends)
        return total, low, high

    def extreme(self, depth: int) -> tuple[Any, int, int]:
        choose, bound = self.random.choice(((self.hl.max, max), (self.hl.min, min)))
        one, low, high = self.value(depth)
        for _ in range(self.random.randint(1, 3)):
            other, least, most = self.value(depth)
            one, low, high = choose(one, other), bound(low, least), bound(high, most)
        return one, low, high

    def distance(self, depth: int) -> tuple[Any, int, int]:
        (one, low, high), (other, least, most) = self.value(depth), self.value(depth)
        return self.hl.i16(self.hl.absd(one, other)), 0, max(high - least, most - low)

    def shifted(self, depth: int) -> tuple[Any, int, int]:
        one, low, high = self.value(depth)
        bits = self.random.randint(1, 4)
        return (one + (1 << bits - 1)) >> bits, (low >> bits), (high >> bits) + 1

    def pipeline(self) -> Any:
        out = self.hl.Func("out")
        value, low, _ = self.value(_DEPTH)
        kind = self.random.choice((*2 * [self.hl.u8_sat], self.hl.i16, self.hl.u16))
        if kind is self.hl.u16 and low < 0:
            value = self.hl.max(value, 0)
        value = kind(value)
        across, down = self.cell
        if self.cell != (1, 1) and self.random.random() < 0.5:
            other, _, _ = self.value(2)
            is_first = (self.x % across == 0) & (self.y % down == down - 1)
            value = self.hl.select(is_first, value, kind(self.hl.max(other, 0)))
        if self.each:
            others = [self.value(2) for _ in range(2)]
            chosen = [value, *(kind(self.hl.max(one, 0)) for one, _, _ in others)]
            value = self.hl.mux(self.plane, chosen)
        out[self.own] = value
        return self.hl.Pipeline(out)


def main() -> None:
    """Writes the pipeline of the seed that the command line names."""
    import halide as hl

    pipeline = _Drawing(hl, int(sys.argv[1])).pipeline()
    sys.stdout.buffer.write(hl.serialize_pipeline(pipeline))


if __name__ == "__main__":
    main()
