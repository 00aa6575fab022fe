"""Pipelines drawn at random: stencils, sums, softmax-like chains, scans and look-ups in any order,
with mixed types and odd extents.

A seed means the same pipeline everywhere. Values are bounded as they are drawn, so that nothing
overflows where Halide leaves that undefined (signed 32 bits).

``python -m tests.rig.random_pipelines SEED`` writes one to standard output, serialized.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

_WIDTHS = (128, 256, 256, 384, 512, 130, 161, 250, 300)
_HEIGHTS = (8, 16, 32, 130, 7, 17, 33)
_FEWEST, _MOST = 2, 5
"""Stages between the inputs and the output, those aside that one step needs several of."""
_LIMIT = 1 << 30
"""Larger values would overflow in the next step."""


@cache
def random_pipeline(seed: int) -> tuple[bytes, dict[str, int]]:
    """The pipeline of ``seed``, serialized by a process of its own, and its sizes."""
    command = [sys.executable, "-m", "tests.rig.random_pipelines", str(seed)]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    return data, _sizes(seed)


def _sizes(seed: int) -> dict[str, int]:
    random = Random(seed)
    return {"x": random.choice(_WIDTHS), "y": random.choice(_HEIGHTS)}


@dataclass(frozen=True)
class _Plane:
    """A value for each ``x`` and ``y``, within bounds."""

    at: Callable[[Any, Any], Any]
    low: int
    high: int

    @property
    def bits(self) -> int:
        return next(bits for bits in (8, 16, 32) if _holds(bits, self.low, self.high))


def _holds(bits: int, low: int, high: int) -> bool:
    if low < 0:
        return -(1 << (bits - 1)) <= low and high < 1 << (bits - 1)
    return high < 1 << bits


class _Drawing:
    """Draws one pipeline, stage by stage."""

    def __init__(self, hl: Any, seed: int) -> None:
        self.hl, self.sizes = hl, _sizes(seed)
        self.random = Random(f"stages {seed}")
        self.x, self.y = hl.Var("x"), hl.Var("y")
        self.names = 0
        self.planes = [self.image() for _ in range(self.random.choice((1, 1, 2)))]

    def func(self, stem: str) -> Any:
        self.names += 1
        return self.hl.Func(f"{stem}{self.names}")

    def stored(self, stem: str, value: Any, low: int, high: int) -> _Plane:
        """``value`` as a stage, of the narrowest type that holds its bounds or one wider."""
        bits = next(bits for bits in (8, 16, 32) if _holds(bits, low, high))
        if bits < 32 and self.random.random() < 0.15:
            bits *= 2
        func = self.func(stem)
        func[self.x, self.y] = self.cast(bits, value, signed=low < 0)
        return _Plane(lambda x, y: func[x, y], low, high)

    def cast(self, bits: int, value: Any, *, signed: bool) -> Any:
        return self.hl.cast(self.hl.Int(bits) if signed else self.hl.UInt(bits), value)

    def image(self) -> _Plane:
        bits = self.random.choice((8, 8, 8, 16))
        signed = self.random.random() < 0.35
        self.names += 1
        kind = self.hl.Int(bits) if signed else self.hl.UInt(bits)
        image = self.hl.ImageParam(kind, 2, f"image{self.names}")
        source: Any = image
        if self.random.random() < 0.5:
            source = self.hl.BoundaryConditions.repeat_edge(image)
        low = -(1 << (bits - 1)) if signed else 0
        return _Plane(lambda x, y: source[x, y], low, low + (1 << bits) - 1)

    def any_plane(self) -> _Plane:
        """The last stage mostly, so that all of it is needed."""
        last = self.random.random() < 0.75
        return self.planes[-1] if last else self.random.choice(self.planes)

    def wide(self, plane: _Plane, x: Any, y: Any, low: int, high: int) -> Any:
        """A value in the narrowest type that holds ``low`` and ``high``."""
        bits = next(bits for bits in (8, 16, 32) if _holds(bits, low, high))
        return self.cast(bits, plane.at(x, y), signed=low < 0)

    def narrowed(self, value: Any, low: int, high: int) -> tuple[Any, int, int]:
        """Shifted down to bytes, or saturated to them, or as it is."""
        how = self.random.choice(("shift", "shift", "saturate", "keep"))
        if high - low < 256 or how == "keep":
            return value, low, high
        if how == "saturate":
            return (
                (self.hl.i8_sat(value), -128, 127) if low < 0 else (self.hl.u8_sat(value), 0, 255)
            )
        shift = max(-low, high).bit_length() - (7 if low < 0 else 8)
        return value >> shift, low >> shift, high >> shift

    # Steps: each adds a plane that is made of others.

    def stencil(self) -> _Plane:
        plane = self.any_plane()
        across = self.random.choice(((0,), (-1, 0, 1), (0, 1), (-2, -1, 0, 1, 2)))
        down = self.random.choice(((0,), (-1, 0, 1), (0, 1)))
        taps = [(dx, dy, self.random.choice((1, 1, 2, 3))) for dx in across for dy in down]
        total = sum(weight for *_, weight in taps)
        low, high = plane.low * total, plane.high * total
        terms = [
            weight * self.wide(plane, self.x + dx, self.y + dy, low, high)
            for dx, dy, weight in taps
        ]
        return self.stored("stencil", *self.narrowed(sum(terms[1:], terms[0]), low, high))

    def box(self) -> _Plane:
        plane = self.any_plane()
        size = self.random.choice((3, 9, 16, 31))
        taps = self.hl.RDom([(-(size // 2), size)], f"taps{self.names}")
        low, high = plane.low * size, plane.high * size
        bits = next(bits for bits in (16, 32) if _holds(bits, low, high))
        sums = self.func("box")
        sums[self.x, self.y] = self.cast(bits, 0, signed=low < 0)
        along_x = self.random.random() < 0.5
        term = plane.at(self.x + taps, self.y) if along_x else plane.at(self.x, self.y + taps)
        sums[self.x, self.y] += self.cast(bits, term, signed=low < 0)
        value, low, high = self.narrowed(sums[self.x, self.y], low, high)
        return self.stored("boxed", value, low, high)

    def row_sum(self) -> _Plane:
        plane = self.any_plane()
        width = self.sizes["x"]
        across = self.hl.RDom([(0, width)], f"across{self.names}")
        low, high = plane.low * width, plane.high * width
        sums, mean = self.func("row_sum"), self.func("row_mean")
        sums[self.y] = self.cast(32, 0, signed=low < 0)
        sums[self.y] += self.cast(32, plane.at(across, self.y), signed=low < 0)
        shift = width.bit_length()
        low, high = low >> shift, high >> shift
        bits = next(bits for bits in (8, 16, 32) if _holds(bits, low, high))
        mean[self.y] = self.cast(bits, sums[self.y] >> shift, signed=low < 0)
        return self.against(plane, lambda y: mean[y], low, high)

    def row_extreme(self) -> _Plane:
        plane = self.any_plane()
        across = self.hl.RDom([(0, self.sizes["x"])], f"across{self.names}")
        best = self.func("row_best")
        bits, signed = plane.bits, plane.low < 0
        join = self.random.choice((self.hl.max, self.hl.min))
        first = plane.low if join is self.hl.max else plane.high
        best[self.y] = self.cast(bits, first, signed=signed)
        term = self.cast(bits, plane.at(across, self.y), signed=signed)
        best[self.y] = join(best[self.y], term)
        return self.against(plane, lambda y: best[y], plane.low, plane.high)

    def against(self, plane: _Plane, row: Callable[[Any], Any], low: int, high: int) -> _Plane:
        """Each value against that of its row."""
        least, most = plane.low - high, plane.high - low
        bits = 32 if max(-least, most) >= 1 << 15 else 16
        value = self.cast(bits, plane.at(self.x, self.y), signed=True)
        value -= self.cast(bits, row(self.y), signed=True)
        return self.stored("against", *self.narrowed(value, least, most))

    def column_sum(self) -> _Plane:
        plane = self.any_plane()
        height = self.sizes["y"]
        down = self.hl.RDom([(0, height)], f"down{self.names}")
        low, high = plane.low * height, plane.high * height
        sums = self.func("column_sum")
        sums[self.x] = self.cast(32, 0, signed=low < 0)
        sums[self.x] += self.cast(32, plane.at(self.x, down), signed=low < 0)
        shift = height.bit_length()
        value = self.cast(32, plane.at(self.x, self.y), signed=True)
        value -= self.cast(32, sums[self.x] >> shift, signed=True)
        least, most = plane.low - (high >> shift), plane.high - (low >> shift)
        return self.stored("column", *self.narrowed(value, least, most))

    def softmax(self) -> _Plane:
        """Powers of two of the distance to the row's largest, as shares of their sum."""
        hl, width = self.hl, self.sizes["x"]
        plane = self.bytes(self.any_plane())
        across = hl.RDom([(0, width)], f"across{self.names}")
        best, power, total = self.func("best"), self.func("power"), self.func("total")
        share = self.func("share")
        signed = plane.low < 0
        best[self.y] = self.cast(plane.bits, plane.low, signed=signed)
        term = self.cast(plane.bits, plane.at(across, self.y), signed=signed)
        best[self.y] = hl.max(best[self.y], term)
        distance = hl.i16(best[self.y]) - hl.i16(plane.at(self.x, self.y))
        power[self.x, self.y] = hl.u16(4096) >> hl.u16(hl.min(distance >> 4, 15))
        total[self.y] = hl.u32(0)
        total[self.y] += hl.u32(power[across, self.y])
        share[self.y] = hl.u16(hl.u32(1 << 20) / hl.max(total[self.y], 4096))
        product = hl.u32(power[self.x, self.y]) * hl.u32(share[self.y])
        return self.stored("softmax", hl.min(product >> 12, 255), 0, 255)

    def bytes(self, plane: _Plane) -> _Plane:
        if plane.bits == 8:
            return plane
        shift = max(-plane.low, plane.high).bit_length() - (7 if plane.low < 0 else 8)
        value = plane.at(self.x, self.y) >> shift
        return self.stored("bytes", value, plane.low >> shift, plane.high >> shift)

    def dense(self) -> _Plane:
        """Rows times a table of weights."""
        plane = self.bytes(self.any_plane())
        depth = self.random.choice((16, 64, 128))
        signed = self.random.random() < 0.5
        kind = self.hl.Int(8) if signed else self.hl.UInt(8)
        self.names += 1
        weights = self.hl.ImageParam(kind, 2, f"weights{self.names}")
        k = self.hl.RDom([(0, depth)], f"k{self.names}")
        turned = self.random.random() < 0.3
        weight = weights[k, self.x] if turned else weights[self.x, k]
        bounds = (-128, 127) if signed else (0, 255)
        ends = [value * bound for value in (plane.low, plane.high) for bound in bounds]
        low, high = min(ends) * depth, max(ends) * depth
        bits = 32
        sums = self.func("dense")
        sums[self.x, self.y] = self.cast(bits, 0, signed=low < 0)
        sums[self.x, self.y] += self.cast(bits, plane.at(k, self.y), signed=low < 0) * self.cast(
            bits, weight, signed=low < 0
        )
        return self.stored("layer", *self.narrowed(sums[self.x, self.y], low, high))

    def scan(self) -> _Plane:
        plane = self.bytes(self.any_plane())
        down = self.hl.RDom([(1, self.sizes["y"] - 1)], f"scan{self.names}")
        low, high = plane.low * self.sizes["y"], plane.high * self.sizes["y"]
        bits = next(bits for bits in (16, 32) if _holds(bits, low, high))
        sums, x = self.func("scan"), self.x
        sums[x, self.y] = self.cast(bits, plane.at(x, self.y), signed=low < 0)
        sums[x, down] = sums[x, down - 1] + sums[x, down]
        return self.stored("scanned", *self.narrowed(sums[x, self.y], low, high))

    def table(self) -> _Plane:
        plane = self.bytes(self.any_plane())
        self.names += 1
        table = self.hl.ImageParam(self.hl.UInt(8), 1, f"table{self.names}")
        index = self.hl.i32(plane.at(self.x, self.y)) - plane.low
        return self.stored("toned", table[self.hl.clamp(index, 0, 255)], 0, 255)

    def pointwise(self) -> _Plane:
        one, other = self.any_plane(), self.random.choice(self.planes)
        a, b = one.at(self.x, self.y), other.at(self.x, self.y)
        low, high = min(one.low, other.low), max(one.high, other.high)
        bits = next(bits for bits in (8, 16, 32) if _holds(bits, low, high))
        signed = low < 0
        a, b = self.cast(bits, a, signed=signed), self.cast(bits, b, signed=signed)
        how = self.random.choice(("least", "most", "mean", "choose", "product"))
        if how == "product" and max(-low, high) < 1 << 15:
            a, b = self.cast(32, a, signed=True), self.cast(32, b, signed=True)
            ends = [p * q for p in (low, high) for q in (low, high)]
            return self.stored("product", *self.narrowed(a * b, min(ends), max(ends)))
        value = {
            "least": lambda: self.hl.min(a, b),
            "most": lambda: self.hl.max(a, b),
            "choose": lambda: self.hl.select(a > b, a, b >> 1),
        }.get(how, lambda: (a >> 1) + (b >> 1))()
        return self.stored(how, value, low, high)

    def halved(self) -> _Plane:
        """Every second value of a plane, each twice: down and up again."""
        plane = self.any_plane()
        low, high = 2 * plane.low, 2 * plane.high
        half = self.func("half")
        value = self.wide(plane, 2 * self.x, self.y, low, high)
        value += self.wide(plane, 2 * self.x + 1, self.y, low, high)
        bits, signed = plane.bits, low < 0
        half[self.x, self.y] = self.cast(bits, value >> 1, signed=signed)
        return self.stored("doubled", half[self.x // 2, self.y], plane.low, plane.high)

    def drawn(self) -> Any:
        """The output, of 8 or 16 bits."""
        steps = [
            *[self.stencil] * 4,
            *[self.box, self.row_sum, self.row_extreme, self.pointwise] * 2,
            *[self.column_sum, self.softmax, self.dense, self.scan, self.table, self.halved],
        ]
        for _ in range(self.random.randint(_FEWEST, _MOST)):
            plane = self.random.choice(steps)()
            if max(-plane.low, plane.high) * 1024 > _LIMIT:
                plane = self.bytes(plane)
            self.planes.append(plane)
        last = self.planes[-1]
        bits = self.random.choice((8, 8, 16))
        shift = max(0, max(-last.low, last.high).bit_length() - (bits - (last.low < 0)))
        out = self.hl.Func("out")
        out[self.x, self.y] = self.cast(bits, last.at(self.x, self.y) >> shift, signed=last.low < 0)
        return out


def main() -> None:
    """Writes the pipeline of the seed that is asked for."""
    import halide

    out = _Drawing(halide, int(sys.argv[1])).drawn()
    sys.stdout.buffer.write(halide.serialize_pipeline(halide.Pipeline(out)))


if __name__ == "__main__":
    main()
