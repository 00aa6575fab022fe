"""The pipelines, as their authors would write them: algorithms of integers, without a schedule.

Each function makes one, with names of its own for its inputs, and returns its output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import halide as hl

_ROW, _ROWS = 512, 64
"""Extents of most images."""


def _vars() -> tuple[hl.Var, hl.Var]:
    return hl.Var("x"), hl.Var("y")


def _image(name: str = "image", kind: hl.Type | None = None, dimensions: int = 2) -> hl.ImageParam:
    return hl.ImageParam(kind or hl.UInt(8), dimensions, name)


def _padded() -> Any:
    return hl.BoundaryConditions.repeat_edge(_image())


def fir() -> hl.Func:
    """A filter of 64 taps of 16 bits over a signal of 16 bits, rounded to Q15."""
    x, k = hl.Var("x"), hl.RDom([(0, 64)], "k")
    signal, taps = _image("signal", hl.Int(16), 1), _image("taps", hl.Int(16), 1)
    sums, filtered = hl.Func("sums"), hl.Func("filtered")
    sums[x] = hl.i32(0)
    sums[x] += (hl.i32(signal[x + k]) * hl.i32(taps[k])) >> 6
    filtered[x] = hl.i16_sat((sums[x] + (1 << 8)) >> 9)
    return filtered


def nv12_to_rgb() -> hl.Func:
    """A plane of luma and one of interleaved chroma, half as large, to planes of RGB (BT.601)."""
    (x, y), c = _vars(), hl.Var("c")
    luma, chroma = _image("luma"), _image("chroma")
    rgb = hl.Func("rgb")
    light = 74 * (hl.i16(luma[x, y]) - 16)
    u = hl.i16(chroma[x // 2 * 2, y // 2]) - 128
    v = hl.i16(chroma[x // 2 * 2 + 1, y // 2]) - 128
    red, green, blue = (light >> 1) + 51 * v, (light >> 1) - 26 * v - 13 * u, (light >> 1) + 64 * u
    rgb[x, y, c] = hl.mux(c, [hl.u8_sat((one + 16) >> 5) for one in (red, green, blue)])
    return rgb


def depthwise() -> hl.Func:
    """A depthwise convolution of 5x5 signed weights with stride 2, requantized."""
    c, (x, y) = hl.Var("c"), _vars()
    image, weights = _image("image", None, 3), _image("weights", hl.Int(8), 3)
    bias = _image("bias", hl.Int(32), 1)
    window = hl.RDom([(0, 5), (0, 5)], "window")
    sums, out = hl.Func("sums"), hl.Func("out")
    sums[c, x, y] = bias[c]
    tap = hl.i16(image[c, 2 * x + window.x, 2 * y + window.y])
    sums[c, x, y] += hl.i32(tap * hl.i16(weights[c, window.x, window.y]))
    out[c, x, y] = hl.u8_sat((sums[c, x, y] + 128) >> 8)
    return out


def bilateral() -> hl.Func:
    """Nine pixels weighted by a table of their distance, divided by a table of reciprocals."""
    x, y = _vars()
    padded = _padded()
    weights, reciprocals = _image("weights", None, 1), _image("reciprocals", hl.UInt(16), 1)
    total, product, out = hl.Func("total"), hl.Func("product"), hl.Func("out")
    taps = [padded[x + dx, y + dy] for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    shares = [weights[hl.i32(hl.absd(tap, padded[x, y]))] & 15 for tap in taps]
    total[x, y] = hl.u8(sum(shares[1:], shares[0]))
    products = [hl.u16(tap) * hl.u16(share) for tap, share in zip(taps, shares, strict=True)]
    product[x, y] = sum(products[1:], products[0])
    scaled = hl.u32(product[x, y]) * hl.u32(reciprocals[hl.i32(total[x, y])])
    out[x, y] = hl.u8(hl.min(scaled >> 16, 255))
    return out


def demosaic() -> hl.Func:
    """A Bayer mosaic (RGGB) to planes of RGB, interpolated linearly."""
    (x, y), c = _vars(), hl.Var("c")
    raw = _padded()
    rgb = hl.Func("rgb")

    def mean(*places: tuple[int, int]) -> Any:
        taps = [hl.u16(raw[x + dx, y + dy]) for dx, dy in places]
        half = len(places) // 2
        return hl.u8((sum(taps[1:], taps[0]) + half) >> half.bit_length())

    here = raw[x, y]
    across, down = mean((-1, 0), (1, 0)), mean((0, -1), (0, 1))
    cross = mean((0, -1), (-1, 0), (1, 0), (0, 1))
    corners = mean((-1, -1), (1, -1), (-1, 1), (1, 1))
    even_row, even = y % 2 == 0, x % 2 == 0
    red = hl.select(even_row, hl.select(even, here, across), hl.select(even, down, corners))
    green = hl.select(even_row == even, cross, here)
    blue = hl.select(even_row, hl.select(even, corners, down), hl.select(even, across, here))
    rgb[x, y, c] = hl.mux(c, [red, green, blue])
    return rgb


def warp() -> hl.Func:
    """Pixels from where two tables say: a lens correction with the nearest pixel."""
    x, y = _vars()
    image = _image()
    across, down = _image("across", hl.Int(16)), _image("down", hl.Int(16))
    out = hl.Func("out")
    column = hl.clamp(hl.i32(across[x, y]), 0, image.width() - 1)
    row = hl.clamp(hl.i32(down[x, y]), 0, image.height() - 1)
    out[x, y] = image[column, row]
    return out


def argmax() -> hl.Func:
    """Which of 21 channels is the strongest at each pixel, as segmentation ends."""
    (x, y), over = _vars(), hl.RDom([(1, 20)], "over")
    scores = _image("scores", None, 3)
    best, out = hl.Func("best"), hl.Func("out")
    best[x, y] = (scores[x, y, 0], hl.u8(0))
    score, place = scores[x, y, over], hl.u8(over)
    is_more = score > best[x, y][0]
    best[x, y] = (
        hl.select(is_more, score, best[x, y][0]),
        hl.select(is_more, place, best[x, y][1]),
    )
    out[x, y] = best[x, y][1]
    return out


def layer_norm() -> hl.Func:
    """Rows of 256 signed bytes less their mean, scaled by their variance, with gain and bias."""
    (x, y), across = _vars(), hl.RDom([(0, 256)], "across")
    image = _image("image", hl.Int(8))
    gain, bias = _image("gain", hl.Int(8), 1), _image("bias", hl.Int(8), 1)
    sums, mean, squares = hl.Func("sums"), hl.Func("mean"), hl.Func("squares")
    scale, out = hl.Func("scale"), hl.Func("out")
    sums[y] = hl.i32(0)
    sums[y] += hl.i32(image[across, y])
    mean[y] = hl.i16((sums[y] + 128) >> 8)
    distance = hl.i32(image[across, y]) - hl.i32(mean[y])
    squares[y] = hl.i32(0)
    squares[y] += distance * distance
    scale[y] = hl.i32(1 << 20) / (hl.max(squares[y] >> 8, 1) + 16)
    normal = (hl.i32(image[x, y]) - hl.i32(mean[y])) * (scale[y] >> 6) * hl.i32(gain[x])
    out[x, y] = hl.i8_sat((normal >> 14) + hl.i32(bias[x]))
    return out


def attention() -> hl.Func:
    """Products of 64 queries with 256 keys of 64 bytes, and their softmax by a table of powers."""
    (x, y), k = _vars(), hl.RDom([(0, 64)], "k")
    across = hl.RDom([(0, 256)], "across")
    queries, keys = _image("queries", hl.Int(8)), _image("keys", hl.Int(8))
    powers = _image("powers", hl.UInt(16), 1)
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


def equalisation() -> hl.Func:
    """A histogram of an image, summed up, as the table through which the image goes."""
    (x, y), value = _vars(), hl.Var("value")
    image = _image()
    everywhere = hl.RDom([(0, image.width()), (0, image.height())], "everywhere")
    upwards = hl.RDom([(1, 255)], "upwards")
    counts, sums = hl.Func("counts"), hl.Func("sums")
    table, out = hl.Func("table"), hl.Func("out")
    counts[value] = hl.u32(0)
    counts[hl.i32(image[everywhere.x, everywhere.y])] += hl.u32(1)
    sums[value] = counts[value]
    sums[upwards.x] = sums[upwards.x - 1] + sums[upwards.x]
    table[value] = hl.u8(hl.min(sums[value] * hl.u32(255) >> 15, 255))
    out[x, y] = table[hl.i32(image[x, y])]
    return out


def box() -> hl.Func:
    """The mean of 31x31 pixels, rows first, by a reciprocal of 16 bits."""
    x, y = _vars()
    padded = _padded()
    along, down = hl.RDom([(-15, 31)], "along"), hl.RDom([(-15, 31)], "down")
    rows, sums, out = hl.Func("rows"), hl.Func("sums"), hl.Func("out")
    rows[x, y] = hl.u16(0)
    rows[x, y] += hl.u16(padded[x + along, y])
    sums[x, y] = hl.u32(0)
    sums[x, y] += hl.u32(rows[x, y + down])
    out[x, y] = hl.u8((sums[x, y] * hl.u32(1091)) >> 20)
    return out


def integral() -> hl.Func:
    """All pixels above and to the left of each, summed up."""
    x, y = _vars()
    image = _image()
    right, down = hl.RDom([(1, _ROW - 1)], "right"), hl.RDom([(1, _ROWS - 1)], "down")
    rows, sums = hl.Func("rows"), hl.Func("sums")
    rows[x, y] = hl.u32(image[x, y])
    rows[right, y] = rows[right - 1, y] + rows[right, y]
    sums[x, y] = rows[x, y]
    sums[x, down] = sums[x, down - 1] + sums[x, down]
    return sums


def _half(level: Any, name: str) -> hl.Func:
    x, y = _vars()
    across, down = hl.Func(f"{name}_across"), hl.Func(f"{name}_down")

    def binomial(*taps: Any) -> Any:
        left, middle, right = map(hl.u16, taps)
        return hl.u8((left + 2 * middle + right + 2) >> 2)

    across[x, y] = binomial(*(level[2 * x + dx, y] for dx in (-1, 0, 1)))
    down[x, y] = binomial(*(across[x, 2 * y + dy] for dy in (-1, 0, 1)))
    return down


def _twice(level: Any, name: str) -> hl.Func:
    x, y = _vars()
    across, down = hl.Func(f"{name}_across"), hl.Func(f"{name}_down")

    def linear(near: Any, far: Any) -> Any:
        return hl.u8((3 * hl.u16(near) + hl.u16(far) + 2) >> 2)

    across[x, y] = linear(level[x // 2, y], level[x // 2 - 1 + 2 * (x % 2), y])
    down[x, y] = linear(across[x, y // 2], across[x, y // 2 - 1 + 2 * (y % 2)])
    return down


def laplacian() -> hl.Pipeline:
    """A Laplacian pyramid of three levels: what halving loses at each, the last one as it is."""
    x, y = _vars()
    levels: list[Any] = [_padded()]
    levels += [_half(levels[0], "half")]
    levels += [_half(levels[1], "quarter")]
    fine, coarse, last = hl.Func("fine"), hl.Func("coarse"), hl.Func("last")
    fine[x, y] = hl.i16(levels[0][x, y]) - hl.i16(_twice(levels[1], "twice")[x, y])
    coarse[x, y] = hl.i16(levels[1][x, y]) - hl.i16(_twice(levels[2], "again")[x, y])
    last[x, y] = levels[2][x, y]
    return hl.Pipeline([last, coarse, fine])


def unsharp() -> hl.Func:
    """What a 3x3 binomial blur takes away is added."""
    x, y = _vars()
    padded = _padded()
    across, blurred, sharp = hl.Func("across"), hl.Func("blurred"), hl.Func("sharp")
    left, middle, right = (hl.u16(padded[x + dx, y]) for dx in (-1, 0, 1))
    across[x, y] = left + 2 * middle + right
    blurred[x, y] = hl.u8((across[x, y - 1] + 2 * across[x, y] + across[x, y + 1] + 8) >> 4)
    sharp[x, y] = hl.u8_sat(2 * hl.i16(padded[x, y]) - hl.i16(blurred[x, y]))
    return sharp


def edges() -> hl.Func:
    """Gradients of which those that are no maxima across their edge are dropped, as Canny does."""
    x, y = _vars()
    padded = _padded()
    right, lower = hl.Func("right"), hl.Func("lower")
    strength, out = hl.Func("strength"), hl.Func("out")

    def smooth(*taps: Any) -> Any:
        first, middle, last = (hl.i16(tap) for tap in taps)
        return first + 2 * middle + last

    right[x, y] = smooth(*(padded[x + 1, y + dy] for dy in (-1, 0, 1))) - smooth(
        *(padded[x - 1, y + dy] for dy in (-1, 0, 1))
    )
    lower[x, y] = smooth(*(padded[x + dx, y + 1] for dx in (-1, 0, 1))) - smooth(
        *(padded[x + dx, y - 1] for dx in (-1, 0, 1))
    )
    strength[x, y] = hl.u8_sat((hl.abs(right[x, y]) + hl.abs(lower[x, y])) >> 2)
    is_upright = hl.abs(right[x, y]) > hl.abs(lower[x, y])
    least = hl.select(
        is_upright,
        hl.max(strength[x - 1, y], strength[x + 1, y]),
        hl.max(strength[x, y - 1], strength[x, y + 1]),
    )
    out[x, y] = hl.select(strength[x, y] >= least, strength[x, y], hl.u8(0))
    return out


def rgb_to_yuv() -> hl.Func:
    """Planes of RGB to planes of YUV (BT.601)."""
    (x, y), c = _vars(), hl.Var("c")
    rgb = _image("rgb", None, 3)
    yuv = hl.Func("yuv")
    red, green, blue = (hl.i16(rgb[x, y, number]) for number in range(3))
    luma = ((33 * red + 64 * green + 13 * blue + 64) >> 7) + 16
    first = ((-19 * red - 37 * green + 56 * blue + 64) >> 7) + 128
    second = ((56 * red - 47 * green - 9 * blue + 64) >> 7) + 128
    yuv[x, y, c] = hl.mux(c, [hl.u8_sat(one) for one in (luma, first, second)])
    return yuv


def mel() -> hl.Func:
    """Forty filters over 256 powers of 16 bits for each frame: audio features."""
    band, frame = hl.Var("band"), hl.Var("frame")
    powers, filters = _image("powers", hl.Int(16)), _image("filters", hl.Int(16))
    k = hl.RDom([(0, 256)], "k")
    sums, out = hl.Func("sums"), hl.Func("out")
    sums[frame, band] = hl.i32(0)
    sums[frame, band] += (hl.i32(powers[frame, k]) * hl.i32(filters[band, k])) >> 8
    out[frame, band] = hl.i16_sat(sums[frame, band] >> 7)
    return out


def pooling() -> hl.Func:
    """The mean of 2x2 pixels."""
    x, y = _vars()
    image = _image()
    pooled = hl.Func("pooled")
    four = [hl.u16(image[2 * x + dx, 2 * y + dy]) for dy in (0, 1) for dx in (0, 1)]
    pooled[x, y] = hl.u8((sum(four[1:], four[0]) + 2) >> 2)
    return pooled


def blending() -> hl.Func:
    """An image over another by a mask, divided by 255."""
    x, y = _vars()
    over, under, mask = _image("over"), _image("under"), _image("mask")
    out = hl.Func("out")
    alpha = hl.u16(mask[x, y])
    both = hl.u16(over[x, y]) * alpha + hl.u16(under[x, y]) * (255 - alpha) + 128
    out[x, y] = hl.u8((both + (both >> 8)) >> 8)
    return out


def upsampling() -> hl.Func:
    """An image of twice the size both ways, interpolated linearly."""
    return _twice(_padded(), "large")


@dataclass(frozen=True)
class Everyday:
    """A pipeline at a size; ``reason`` says what keeps it below a tenth of its peak, if it is."""

    make: Callable[[], hl.Func | hl.Pipeline]
    sizes: Mapping[str, int]
    reason: str = ""


_IMAGE = {"x": _ROW, "y": _ROWS}
_PLANES = {**_IMAGE, "c": 3}
PIPELINES = {
    "FIR of 64 taps, i16": Everyday(
        fir,
        {"x": 4096},
        "taps are loads off vector boundaries, of two cycles; merging them makes wrong code",
    ),
    "NV12 to RGB": Everyday(nv12_to_rgb, _PLANES),
    "depthwise 5x5, stride 2": Everyday(
        depthwise,
        {"c": 128, "x": 14, "y": 14},
        "each product is summed by itself in 32 bits: four of one channel do not lie together",
    ),
    "bilateral 3x3 with a table": Everyday(
        bilateral,
        _IMAGE,
        "ten look-ups a pixel: 90 permutes a vector, where the peak counts bytes",
    ),
    "Bayer demosaic": Everyday(demosaic, _PLANES),
    "warp by a table": Everyday(
        warp,
        _IMAGE,
        "64 pixels are gathered at a time, in six packets",
    ),
    "argmax of 21 channels": Everyday(argmax, _IMAGE),
    "layer norm, i8": Everyday(
        layer_norm,
        {"x": 256, "y": 128},
        "two products of 32 bits for each byte, which HVX puts together from halves",
    ),
    "QK^T and softmax": Everyday(attention, {"x": 256, "y": 64}),
    "histogram equalisation": Everyday(equalisation, _IMAGE),
    "box 31x31": Everyday(
        box,
        _IMAGE,
        "62 sums of 16 and 32 bits for each byte, as it is written",
    ),
    "integral image": Everyday(integral, _IMAGE),
    "Laplacian, 3 levels": Everyday(
        laplacian,
        {"x": 128, "y": 16, "coarse_x": 256, "coarse_y": 32, "fine_x": 512, "fine_y": 64},
        "a dozen stages between the image and its levels; the peak counts bytes",
    ),
    "unsharp mask": Everyday(unsharp, _IMAGE),
    "gradients, maxima only": Everyday(
        edges,
        _IMAGE,
        "60 operations of 16 bits for each byte; the peak counts bytes",
    ),
    "RGB to YUV": Everyday(rgb_to_yuv, _PLANES),
    "mel filters, i16": Everyday(
        mel,
        {"frame": 128, "band": 40},
        "each product of 16 bits is shifted by itself, in vectors of 32 lanes",
    ),
    "mean of 2x2": Everyday(pooling, {"x": 256, "y": 64}),
    "alpha blending": Everyday(blending, _IMAGE),
    "upsampling by 2": Everyday(upsampling, {"x": 1024, "y": 128}),
}
