"""What pipelines ask of any code, by hand: twenty-two jobs, and what counts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import halide as hl
import pytest

from tuner.codegen.halide.uploads.contents import checked
from tuner.codegen.halide.uploads.program import read_program
from tuner.program.bounds import bounded
from tuner.program.demands import Demands, demands_of

X, Y, C = 512, 64, 3
PIXELS = X * Y


def image(name: str, kind: Any, dimensions: int = 2) -> Any:
    return hl.ImageParam(kind, dimensions, name)


def func(name: str = "out") -> Any:
    return hl.Func(name)


x, y, c, u, v = (hl.Var(name) for name in ("x", "y", "c", "u", "v"))


def moved(kind: Any) -> Any:
    source, out = image("a", kind), func()
    out[x, y] = source[y, x]
    return out


def interleaved() -> Any:
    planes, out = image("a", hl.UInt(8), 3), func()
    out[c, x, y] = planes[x, y, c]
    return out


def rows_first() -> Any:
    """Planes of rows as rows of planes: whole vectors move."""
    planes, out = image("a", hl.UInt(8), 3), func()
    out[x, c, y] = planes[x, y, c]
    return out


def multiplied(a_kind: Any, b_kind: Any, wide: Any) -> Any:
    a, b, out = image("a", a_kind), image("b", b_kind), func()
    out[x, y] = hl.cast(wide, a[x, y]) * hl.cast(wide, b[x, y])
    return out


def filtered(signal_kind: Any, taps_kind: Any) -> Any:
    signal, taps = image("a", signal_kind, 1), image("b", taps_kind, 1)
    k, sums, out = hl.RDom([(0, 32)], "k"), func("sums"), func()
    sums[x] = hl.i32(0)
    sums[x] += hl.i32(signal[x + k]) * hl.i32(taps[k])
    out[x] = hl.i16_sat(sums[x] >> 15)
    return out


def energy() -> Any:
    """Each square serves all windows that it lies in."""
    signal, k, sums = image("a", hl.UInt(8), 1), hl.RDom([(0, 32)], "k"), func()
    sums[x] = hl.u32(0)
    sums[x] += hl.u32(signal[x + k]) * hl.u32(signal[x + k])
    return sums


def neighbours() -> Any:
    """So does each product of neighbours."""
    signal, k, sums = image("a", hl.UInt(8), 1), hl.RDom([(0, 32)], "k"), func()
    sums[x] = hl.u32(0)
    sums[x] += hl.u32(signal[x + k]) * hl.u32(signal[x + k + 1])
    return sums


def squared_distances() -> Any:
    """The square of a difference of bytes is that of its magnitude, a byte."""
    a, b, out = image("a", hl.UInt(8)), image("b", hl.UInt(8)), func()
    distance = hl.i16(a[x, y]) - hl.i16(b[x, y])
    out[x, y] = hl.u16(distance * distance)
    return out


def searched() -> Any:
    """Sums of absolute differences of 16x16 bytes, over shifts."""
    block, area = image("a", hl.UInt(8)), image("b", hl.UInt(8))
    r, out = hl.RDom([(0, 16), (0, 16)], "r"), func()
    out[u, v] = hl.u32(0)
    out[u, v] += hl.u32(hl.absd(block[r.x, r.y], area[r.x + u, r.y + v]))
    return out


def products_of_matrices() -> Any:
    a, b, k, out = image("a", hl.UInt(8)), image("b", hl.UInt(8)), hl.RDom([(0, 64)], "k"), func()
    out[x, y] = hl.u32(0)
    out[x, y] += hl.u32(a[k, y]) * hl.u32(b[x, k])
    return out


def shared_factor() -> Any:
    """One product for both sums: of the algorithm, not of its two places."""
    a, b, once, out = image("a", hl.UInt(8)), image("b", hl.UInt(8)), func("once"), func()
    once[x, y] = hl.u16(a[x, y]) * hl.u16(b[x, y])
    out[x, y] = once[x, y] + once[x + 1, y]
    return out


def every_second() -> Any:
    source, out = image("a", hl.UInt(8)), func()
    out[x, y] = source[2 * x, 2 * y]
    return out


def clamped_to_a_byte() -> Any:
    a, b, out = image("a", hl.Int(16)), image("b", hl.UInt(8)), func()
    out[x, y] = hl.i16(hl.clamp(a[x, y], 0, 100)) * hl.i16(b[x, y])
    return out


def chosen() -> Any:
    """Nobody need multiply where the mask is 0."""
    a, mask, out = image("a", hl.UInt(16)), image("b", hl.UInt(8)), func()
    square = hl.u32(a[x, y]) * hl.u32(a[x, y])
    out[x, y] = hl.select(mask[x, y] > 0, square, hl.u32(0))
    return out


def summed() -> Any:
    planes, out = image("a", hl.UInt(8), 3), func()
    red, green, blue = (hl.u16(planes[x, y, number]) for number in range(C))
    out[x, y] = red + green + blue
    return out


def looked_up() -> Any:
    source, table, out = image("a", hl.UInt(8)), image("b", hl.UInt(8), 1), func()
    out[x, y] = table[hl.i32(source[x, y])]
    return out


@dataclass(frozen=True)
class Job:
    """A pipeline with extents of its inputs ``a`` and ``b`` and its output, innermost first."""

    make: Callable[[], Any]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    output: tuple[int, ...]
    asks: Mapping[str, int]


def u8(*extents: int) -> tuple[str, tuple[int, ...]]:
    return "uint8", extents


def of(kind: str, *extents: int) -> tuple[str, tuple[int, ...]]:
    return kind, extents


PLAIN = (X, Y)
JOBS = {
    # A vector of output has bytes of 128 vectors, or halfwords of 64: seven and six mergings.
    "transpose, bytes": Job(
        lambda: moved(hl.UInt(8)),
        (u8(512, 512),),
        (512, 512),
        {"merged_bytes": 7 << 18, "read_bytes": 1 << 18},
    ),
    "transpose, halfwords": Job(
        lambda: moved(hl.UInt(16)),
        (of("uint16", 512, 512),),
        (512, 512),
        {"merged_bytes": 6 << 19, "read_bytes": 1 << 19},
    ),
    "rows of planes": Job(rows_first, (u8(X, Y, C),), (X, C, Y), {"read_bytes": C * PIXELS}),
    "product, bytes": Job(
        lambda: multiplied(hl.UInt(8), hl.UInt(8), hl.UInt(16)),
        (u8(*PLAIN), u8(*PLAIN)),
        PLAIN,
        {"macs": PIXELS, "read_bytes": 2 * PIXELS},
    ),
    "product, u16": Job(
        lambda: multiplied(hl.UInt(16), hl.UInt(16), hl.UInt(32)),
        (of("uint16", *PLAIN), of("uint16", *PLAIN)),
        PLAIN,
        {"macs_16": PIXELS, "read_bytes": 4 * PIXELS},
    ),
    "product, i16 by bytes": Job(
        lambda: multiplied(hl.Int(16), hl.Int(8), hl.Int(32)),
        (of("int16", *PLAIN), of("int8", *PLAIN)),
        PLAIN,
        {"macs_16": PIXELS // 2, "read_bytes": 3 * PIXELS},
    ),
    "product, i32": Job(
        lambda: multiplied(hl.Int(32), hl.Int(32), hl.Int(32)),
        (of("int32", *PLAIN), of("int32", *PLAIN)),
        PLAIN,
        {"macs_32": PIXELS, "read_bytes": 8 * PIXELS},
    ),
    "FIR of 32 taps, i16": Job(
        lambda: filtered(hl.Int(16), hl.Int(16)),
        (of("int16", 16384 + 31), of("int16", 32)),
        (16384,),
        {"macs_16": 32 * 16384, "read_bytes": 2 * (16384 + 31 + 32)},
    ),
    "FIR of 32 taps, bytes": Job(
        lambda: filtered(hl.UInt(8), hl.Int(8)),
        (u8(16384 + 31), of("int8", 32)),
        (16384,),
        {"macs": 32 * 16384, "read_bytes": 16384 + 31 + 32},
    ),
    "energy of a window": Job(
        energy, (u8(16384 + 31),), (16384,), {"macs": 16384 + 31, "read_bytes": 16384 + 31}
    ),
    "products of neighbours in a window": Job(
        neighbours, (u8(16384 + 32),), (16384,), {"macs": 16384, "read_bytes": 16384 + 31}
    ),
    "squared distances": Job(
        squared_distances,
        (u8(*PLAIN), u8(*PLAIN)),
        PLAIN,
        {"macs": PIXELS, "read_bytes": 2 * PIXELS},
    ),
    # A difference and a sum for each byte of each shift, two of them a byte of a unit (vrsad).
    "block search": Job(
        searched,
        (u8(16, 16), u8(32, 32)),
        (17, 17),
        {"lane_bytes": 16 * 16 * 17 * 17, "read_bytes": 256 + 32 * 32},
    ),
    "product of matrices": Job(
        products_of_matrices,
        (u8(64, 32), u8(128, 64)),
        (128, 32),
        {"macs": 64 * 128 * 32, "read_bytes": 64 * 32 + 128 * 64},
    ),
    "a product that two sums share": Job(
        shared_factor,
        (u8(X + 1, Y), u8(X + 1, Y)),
        PLAIN,
        {"macs": PIXELS, "lane_bytes": PIXELS, "read_bytes": 2 * PIXELS},
    ),
    "every second pixel": Job(every_second, (u8(2 * X, 2 * Y),), PLAIN, {"read_bytes": 2 * PIXELS}),
    "a factor clamped to a byte": Job(
        clamped_to_a_byte,
        (of("int16", *PLAIN), u8(*PLAIN)),
        PLAIN,
        {"macs": PIXELS, "read_bytes": 3 * PIXELS},
    ),
    "a product that may not be needed": Job(
        chosen, (of("uint16", *PLAIN), u8(*PLAIN)), PLAIN, {"read_bytes": 3 * PIXELS}
    ),
    "a sum of three planes": Job(
        summed, (u8(X, Y, C),), PLAIN, {"lane_bytes": PIXELS, "read_bytes": C * PIXELS}
    ),
    "look-up": Job(looked_up, (u8(*PLAIN), u8(256)), PLAIN, {"read_bytes": PIXELS + 1}),
}


def demands(made: Any, inputs: Mapping[str, tuple[str, tuple[int, ...]]], output: Any) -> Demands:
    contents = checked(hl.serialize_pipeline(hl.Pipeline(made)))
    extents = {**{name: own for name, (_, own) in inputs.items()}, contents.outputs[0]: output}
    known = {name: ((0,) * len(own), own) for name, own in extents.items()}
    return demands_of(bounded(read_program(contents, known=known), {}))


@pytest.mark.parametrize("name", JOBS)
def test_a_pipeline_asks_what_a_hand_counts(name: str) -> None:
    job = JOBS[name]
    found = demands(job.make(), dict(zip("ab", job.inputs, strict=False)), job.output)
    assert {key: count for key, count in asdict(found).items() if count} == dict(job.asks)


def test_pixels_of_three_planes_are_merged_of_three_vectors() -> None:
    """log2(3) mergings, where a vector holds as many of each as the others."""
    found = demands(interleaved(), {"a": u8(X, Y, C)}, (C, X, Y))
    assert found.merged_bytes == pytest.approx(C * PIXELS * 1.585, rel=0.02)


def test_windows_count_what_no_sharing_saves() -> None:
    """Nine pixels of one image take four sums, however neighbours share them; and the edge that is
    repeated is read with the image."""
    padded = hl.BoundaryConditions.repeat_edge(image("a", hl.UInt(8)))
    out, nine = func(), list(product((-1, 0, 1), repeat=2))
    first, *others = (hl.u16(padded[x + dx, y + dy]) for dx, dy in nine)
    out[x, y] = sum(others, first)
    found = demands(out, {"a": u8(*PLAIN)}, PLAIN)
    assert (found.lane_bytes, found.read_bytes) == (4 * PIXELS // 2, PIXELS)
