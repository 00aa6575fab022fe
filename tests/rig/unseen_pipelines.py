"""Pipelines of stages that no kernel has: what a derivation is held against.

``python -m tests.rig.unseen_pipelines NAME`` writes one to standard output, serialized.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

SIZES = {
    "sharpen": {"x": 256, "y": 48},
    "column_mean": {"x": 512},
    "running_sum": {"x": 256, "y": 32},
    "pyramid": {"x": 256, "y": 32},
    "tone_chain": {"x": 512, "y": 24},
    "dense": {"o": 128, "n": 8},
    "histogram": {"i": 256},
    "decay": {"x": 256, "y": 32},
    "middle": {"x": 250, "y": 16},
    "pixels": {"c": 3, "x": 256, "y": 16},
    "quarters": {"x": 128, "y": 16},
    "contrast": {"x": 256, "y": 8},
    "strongest": {"x": 256, "y": 8},
    "ninths": {"x": 128, "y": 8},
    "exposure": {"x": 256, "y": 16, "gain": 40, "shift": 5, "offset": -9},
    "edges": {"x": 256, "y": 16},
    "features": {"c": 16, "x": 60, "y": 8},
    "blend": {"x": 256, "y": 32},
    "box": {"x": 256, "y": 16},
    "row_mean": {"x": 250, "y": 16},
    "requantized": {"x": 256, "y": 16},
    "laplacian": {"x": 256, "y": 16},
    "mean_of_four": {"x": 256, "y": 16},
}
"""The pipelines with small sizes: what is written without a schedule takes seconds in QEMU."""
CHAINED_SIZES = {"attention": {"x": 256, "y": 16}, "layer_norm": {"x": 256, "y": 128}}
"""Those whose sums are made of sums: without a schedule they take minutes."""


@cache
def unseen_pipeline(name: str) -> bytes:
    """One of :data:`SIZES` or :data:`CHAINED_SIZES`, serialized, from a process of its own."""
    command = [sys.executable, "-m", "tests.rig.unseen_pipelines", name]
    return subprocess.run(command, capture_output=True, check=True).stdout


def sharpen(hl: Any) -> Any:
    """A stencil: what a 3x3 binomial blur takes away is added, edges repeated."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    padded = hl.BoundaryConditions.repeat_edge(image)
    across, blurred, sharp = hl.Func("across"), hl.Func("blurred"), hl.Func("sharp")
    wide = lambda dx, dy: hl.u16(padded[x + dx, y + dy])  # noqa: E731 - the field's notation
    across[x, y] = wide(-1, 0) + 2 * wide(0, 0) + wide(1, 0)
    blurred[x, y] = hl.u8((across[x, y - 1] + 2 * across[x, y] + across[x, y + 1] + 8) >> 4)
    doubled = 2 * hl.i16(padded[x, y]) - hl.i16(blurred[x, y])
    sharp[x, y] = hl.u8_sat(doubled)
    return sharp


def column_mean(hl: Any) -> Any:
    """A reduction: the mean of each column of 64 rows."""
    x = hl.Var("x")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    rows = hl.RDom([(0, 64)], "rows")
    total, mean = hl.Func("total"), hl.Func("mean")
    total[x] = hl.u32(0)
    total[x] += hl.u32(image[x, rows])
    mean[x] = hl.u8((total[x] + 32) >> 6)
    return mean


def running_sum(hl: Any) -> Any:
    """A scan: each column summed up from its top."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    down = hl.RDom([(1, 31)], "down")
    sums, out = hl.Func("sums"), hl.Func("out")
    sums[x, y] = hl.u16(image[x, y])
    sums[x, down] = sums[x, down - 1] + hl.u16(image[x, down])
    out[x, y] = hl.u8(sums[x, y] >> 5)
    return out


def pyramid(hl: Any) -> Any:
    """Three levels: halved twice, doubled twice, the difference to the original."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    padded = hl.BoundaryConditions.repeat_edge(image)
    level = padded
    for number in (1, 2):
        down = hl.Func(f"down{number}")
        four = [hl.u16(level[2 * x + dx, 2 * y + dy]) for dx in (0, 1) for dy in (0, 1)]
        down[x, y] = hl.u8((four[0] + four[1] + four[2] + four[3] + 2) >> 2)
        level = down
    for number in (1, 2):
        up = hl.Func(f"up{number}")
        up[x, y] = level[x // 2, y // 2]
        level = up
    detail = hl.Func("detail")
    detail[x, y] = hl.absd(padded[x, y], level[x, y])
    return detail


def tone_chain(hl: Any) -> Any:
    """A chain of table look-ups with arithmetic between them."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    first = hl.ImageParam(hl.UInt(8), 1, "first")
    second = hl.ImageParam(hl.UInt(8), 1, "second")
    toned, mixed, out = hl.Func("toned"), hl.Func("mixed"), hl.Func("out")
    toned[x, y] = first[hl.i32(image[x, y])]
    mixed[x, y] = hl.u8((hl.u16(toned[x, y]) + hl.u16(image[x, y]) + 1) >> 1)
    out[x, y] = second[hl.i32(mixed[x, y])]
    return out


def dense(hl: Any) -> Any:
    """A dense layer: rows of 64 bytes times a table of weights, requantized."""
    o, n = hl.Var("o"), hl.Var("n")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    weights = hl.ImageParam(hl.UInt(8), 2, "weights")
    k = hl.RDom([(0, 64)], "k")
    sums, out = hl.Func("sums"), hl.Func("out")
    sums[o, n] = hl.u32(0)
    sums[o, n] += hl.u32(image[k, n]) * hl.u32(weights[o, k])
    out[o, n] = hl.u8(hl.min(sums[o, n] >> 12, 255))
    return out


def histogram(hl: Any) -> Any:
    """Counts of each value: what no vector can do, and nothing else may be spoilt by."""
    i = hl.Var("i")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    all_of = hl.RDom([(0, 128), (0, 16)], "all_of")
    counts, out = hl.Func("counts"), hl.Func("out")
    counts[i] = hl.u32(0)
    counts[hl.i32(image[all_of.x, all_of.y])] += hl.u32(1)
    out[i] = hl.u16(counts[i])
    return out


def decay(hl: Any) -> Any:
    """A scan down and one up again: what is bright fades away from it."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    down, up = hl.RDom([(1, 31)], "down"), hl.RDom([(1, 31)], "up")
    faded, out = hl.Func("faded"), hl.Func("out")
    faded[x, y] = hl.u16(image[x, y])
    faded[x, down] = hl.max((faded[x, down - 1] * 7) >> 3, faded[x, down])
    faded[x, 31 - up] = hl.max((faded[x, 32 - up] * 7) >> 3, faded[x, 31 - up])
    out[x, y] = hl.u8(hl.min(faded[x, y], 255))
    return out


def middle(hl: Any) -> Any:
    """The median of medians, edges repeated, at a width that is no multiple of a vector."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    padded = hl.BoundaryConditions.repeat_edge(image)
    columns, out = hl.Func("columns"), hl.Func("out")

    def median(a: Any, b: Any, c: Any) -> Any:
        return hl.max(hl.min(a, b), hl.min(hl.max(a, b), c))

    columns[x, y] = median(padded[x, y - 1], padded[x, y], padded[x, y + 1])
    out[x, y] = median(columns[x - 1, y], columns[x, y], columns[x + 1, y])
    return out


def pixels(hl: Any) -> Any:
    """Colours beside each other in memory, averaged with the pixel to the right."""
    c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 3, "image")
    out = hl.Func("out")
    out[c, x, y] = hl.u8((hl.u16(image[c, x, y]) + image[c, x + 1, y] + 1) >> 1)
    return out


def quarters(hl: Any) -> Any:
    """Halved twice, no edges: levels of a pyramid that are read at every second element."""
    x, y = hl.Var("x"), hl.Var("y")
    level = hl.ImageParam(hl.UInt(8), 2, "image")
    for number in (1, 2):
        half = hl.Func(f"half{number}")
        four = [hl.u16(level[2 * x + dx, 2 * y + dy]) for dx in (0, 1) for dy in (0, 1)]
        half[x, y] = hl.u8((four[0] + four[1] + four[2] + four[3] + 2) >> 2)
        level = half
    return level


def contrast(hl: Any) -> Any:
    """The difference to the mean of a row: rows, as long as the image is wide, are reduced."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    across = hl.RDom([(0, image.width())], "across")
    sums, out = hl.Func("sums"), hl.Func("out")
    sums[y] = hl.u32(0)
    sums[y] += hl.u32(image[across, y])
    out[x, y] = hl.absd(image[x, y], hl.u8(sums[y] >> 8))
    return out


def strongest(hl: Any) -> Any:
    """Which of ten planes is the brightest: a reduction of two values at once."""
    x, y = hl.Var("x"), hl.Var("y")
    planes = hl.ImageParam(hl.UInt(8), 3, "planes")
    over = hl.RDom([(0, 10)], "over")
    out = hl.Func("out")
    out[x, y] = hl.u8(hl.argmax(over, planes[x, y, over.x], "best")[0])
    return out


def ninths(hl: Any) -> Any:
    """A mean of nine: 32 bits divided by what is no power of two, which HVX cannot."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    rows, out = hl.Func("rows"), hl.Func("out")
    wide = lambda dx: hl.u32(image[x + dx, y])  # noqa: E731 - the field's notation
    rows[x, y] = wide(0) + wide(1) + wide(2)
    out[x, y] = hl.u8((rows[x, y] + rows[x, y + 1] + rows[x, y + 2]) / 9)
    return out


def exposure(hl: Any) -> Any:
    """A blurred image times a gain, shifted and moved by an offset: three scalars."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    gain, shift = hl.Param(hl.UInt(8), "gain"), hl.Param(hl.UInt(16), "shift")
    offset = hl.Param(hl.Int(16), "offset")
    padded = hl.BoundaryConditions.repeat_edge(image)
    soft, out = hl.Func("soft"), hl.Func("out")
    soft[x, y] = (hl.u16(padded[x, y]) + padded[x, y + 1] + 1) >> 1
    out[x, y] = hl.u8_sat(hl.i16((soft[x, y] * hl.u16(gain)) >> shift) + offset)
    return out


def edges(hl: Any) -> Any:
    """Three outputs: a smoothed image, and two differences as a tuple that read it."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    rows, smooth, slopes = hl.Func("rows"), hl.Func("smooth"), hl.Func("slopes")
    rows[x, y] = hl.u16(image[x, y]) + 2 * hl.u16(image[x, y + 1]) + image[x, y + 2]
    smooth[x, y] = hl.u8((rows[x, y] + 2) >> 2)
    across = hl.absd(smooth[x, y], smooth[x + 2, y])
    slopes[x, y] = (across, hl.i16(smooth[x + 1, y]) - hl.i16(image[x, y]))
    return [smooth, slopes]


def features(hl: Any) -> Any:
    """Sixteen channels beside each other, blurred, with a value for each added."""
    c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
    image, bias = hl.ImageParam(hl.UInt(8), 3, "image"), hl.ImageParam(hl.UInt(8), 1, "bias")
    rows, out = hl.Func("rows"), hl.Func("out")
    rows[c, x, y] = hl.u16(image[c, x, y]) + 2 * hl.u16(image[c, x + 1, y]) + image[c, x + 2, y]
    out[c, x, y] = hl.u8((rows[c, x, y] + rows[c, x, y + 1] + bias[c] + 4) >> 4)
    return out


def blend(hl: Any) -> Any:
    """A crop of a frame, blurred, joined with an image: inputs from two callers."""
    x, y = hl.Var("x"), hl.Var("y")
    frame, base = hl.ImageParam(hl.UInt(8), 2, "frame"), hl.ImageParam(hl.UInt(8), 2, "base")
    across, out = hl.Func("across"), hl.Func("out")
    across[x, y] = hl.u16(frame[x, y]) + 2 * hl.u16(frame[x + 1, y]) + frame[x + 2, y]
    blurred = (across[x, y] + 2 * across[x, y + 1] + across[x, y + 2] + 8) >> 4
    out[x, y] = hl.u8((blurred + base[x, y] + 1) >> 1)
    return out


def box(hl: Any) -> Any:
    """A mean of 31x31: sums of rows, then of columns."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    padded = hl.BoundaryConditions.repeat_edge(image)
    taps = hl.RDom([(-15, 31)], "taps")
    rows, mean, columns, out = hl.Func("v"), hl.Func("mean"), hl.Func("v"), hl.Func("out")
    rows[x, y] = hl.u16(0)
    rows[x, y] += hl.u16(padded[x + taps, y])
    mean[x, y] = hl.u8(rows[x, y] / 31)
    columns[x, y] = hl.u16(0)
    columns[x, y] += hl.u16(mean[x, y + taps])
    out[x, y] = hl.u8(columns[x, y] / 31)
    return out


def attention(hl: Any) -> Any:
    """Products of queries with keys, and their softmax with a table of powers."""
    x, y = hl.Var("x"), hl.Var("y")
    queries, keys = hl.ImageParam(hl.Int(8), 2, "queries"), hl.ImageParam(hl.Int(8), 2, "keys")
    powers = hl.ImageParam(hl.UInt(16), 1, "powers")
    k, across = hl.RDom([(0, 64)], "k"), hl.RDom([(0, 256)], "across")
    scores, top, power = hl.Func("scores"), hl.Func("top"), hl.Func("power")
    total, share, out = hl.Func("total"), hl.Func("share"), hl.Func("out")
    scores[x, y] = hl.i32(0)
    scores[x, y] += hl.i32(queries[k, y]) * hl.i32(keys[x, k])
    top[y] = hl.i32(-(1 << 31))
    top[y] = hl.max(top[y], scores[across, y])
    power[x, y] = powers[hl.i32(hl.clamp((top[y] - scores[x, y]) >> 8, 0, 255))]
    total[y] = hl.u32(0)
    total[y] += hl.u32(power[across, y])
    share[y] = hl.u32(1 << 16) / hl.max(total[y] >> 8, 1)
    out[x, y] = hl.u8(hl.min((hl.u32(power[x, y]) * share[y]) >> 16, 255))
    return out


def layer_norm(_hl: Any) -> Any:
    """That of the benchmark."""
    from benchmarks.everyday import pipelines

    return pipelines.layer_norm()


def row_mean(hl: Any) -> Any:
    """Rows less their mean, of a width that is no multiple of a vector."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    across = hl.RDom([(0, 250)], "across")
    sums, out = hl.Func("sums"), hl.Func("out")
    sums[y] = hl.u32(0)
    sums[y] += hl.u32(image[across, y])
    out[x, y] = hl.u8_sat(hl.i16(image[x, y]) - hl.i16((sums[y] + 128) >> 8) + 128)
    return out


def row_energy(hl: Any) -> Any:
    """Rows and the sums of their squares, of any width."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    along = hl.RDom([(0, image.dim(0).extent())], "along")
    sums, out = hl.Func("sums"), hl.Func("out")
    sums[y] = hl.i32(0)
    sums[y] += hl.i32(image[along, y]) * hl.i32(image[along, y])
    out[x, y] = hl.u8_sat(hl.i32(image[x, y]) + (sums[y] >> 16))
    return out


def requantized(hl: Any) -> Any:
    """A product of bytes in 32 bits, rounded and shifted down to a byte."""
    x, y = hl.Var("x"), hl.Var("y")
    image, mask = hl.ImageParam(hl.Int(8), 2, "image"), hl.ImageParam(hl.UInt(8), 2, "mask")
    out = hl.Func("out")
    out[x, y] = hl.i8_sat((hl.i32(image[x, y]) * hl.i32(mask[x, y]) + 64) >> 7)
    return out


def laplacian(hl: Any) -> Any:
    """A level of a pyramid: what is lost by halving and doubling, edges repeated."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    padded = hl.BoundaryConditions.repeat_edge(image)
    half, doubled, detail = hl.Func("half"), hl.Func("doubled"), hl.Func("detail")
    wide = lambda dx: hl.u16(padded[2 * x + dx, y])  # noqa: E731 - the field's notation
    half[x, y] = hl.u8((wide(-1) + 2 * wide(0) + wide(1) + 2) >> 2)
    near, far = hl.u16(half[x // 2, y]), hl.u16(half[x // 2 - 1 + 2 * (x % 2), y])
    doubled[x, y] = hl.u8((3 * near + far + 2) >> 2)
    detail[x, y] = hl.i16(padded[x, y]) - hl.i16(doubled[x, y])
    return detail


def mean_of_four(hl: Any) -> Any:
    """The mean of 2x2 bytes, those beside each other first."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    out = hl.Func("out")
    four = [hl.u16(image[2 * x + dx, 2 * y + dy]) for dy in (0, 1) for dx in (0, 1)]
    out[x, y] = hl.u8((four[0] + four[1] + four[2] + four[3] + 2) >> 2)
    return out


def main() -> None:
    """Writes the pipeline that is asked for."""
    import halide

    made = globals()[sys.argv[1]](halide)
    sys.stdout.buffer.write(halide.serialize_pipeline(halide.Pipeline(made)))


if __name__ == "__main__":
    main()
