"""Stencils as people write them, and pipelines that are none.

``python -m tests.rig.stencils NAME`` writes one to standard output, serialized.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any


@cache
def stencil(name: str) -> bytes:
    """The pipeline called ``name`` here, serialized, from a process of its own."""
    command = [sys.executable, "-m", "tests.rig.stencils", name]
    return subprocess.run(command, capture_output=True, check=True).stdout


def _image(hl: Any, name: str = "image") -> Any:
    return hl.ImageParam(hl.UInt(8), 2, name)


def _repeated(hl: Any) -> Any:
    return hl.BoundaryConditions.repeat_edge(_image(hl))


def _square(hl: Any) -> Any:
    return hl.RDom([(-1, 3), (-1, 3)], "square")


def _named(hl: Any, value: Any) -> Any:
    out = hl.Func("out")
    out[hl.Var("x"), hl.Var("y")] = value
    return out


def dilation(hl: Any) -> Any:
    """A maximum over a domain."""
    x, y = hl.Var("x"), hl.Var("y")
    padded, square = _repeated(hl), _square(hl)
    return _named(hl, hl.maximum(padded[x + square.x, y + square.y]))


def ninth(hl: Any) -> Any:
    """A sum over a domain, in stages, and a division by what is no power of two."""
    x, y = hl.Var("x"), hl.Var("y")
    padded, square = _repeated(hl), _square(hl)
    total = hl.Func("total")
    total[x, y] = hl.u16(0)
    total[x, y] += hl.u16(padded[x + square.x, y + square.y])
    return _named(hl, hl.u8((total[x, y] + 4) / 9))


def edges(hl: Any) -> Any:
    """Differences, of bytes and widened."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = _repeated(hl)
    across = hl.abs(hl.i16(padded[x - 1, y]) - hl.i16(padded[x + 1, y]))
    return _named(hl, hl.u8_sat(across + hl.absd(padded[x, y - 1], padded[x, y + 1])))


def sharper(hl: Any) -> Any:
    """In 32 bits, clamped by hand, with coordinates clamped by hand."""
    x, y = hl.Var("x"), hl.Var("y")
    image = _image(hl)
    last_x, last_y = image.dim(0).extent() - 1, image.dim(1).extent() - 1

    def at(dx: int, dy: int) -> Any:
        column = hl.clamp(x + dx, image.dim(0).min(), image.dim(0).min() + last_x)
        row = hl.clamp(y + dy, image.dim(1).min(), image.dim(1).min() + last_y)
        return hl.i32(image[column, row])

    around = at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)
    return _named(hl, hl.u8(hl.clamp(5 * at(0, 0) - around, 0, 255)))


def wrapped(hl: Any) -> Any:
    """A sum beyond 16 bits with a sign, read as one without."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = _repeated(hl)
    total = hl.i16(padded[x, y]) * 200 + hl.i16(padded[x + 3, y]) * 50
    return _named(hl, hl.u8(hl.u16(total) >> 8))


def high(hl: Any) -> Any:
    """The same, of which the upper byte is taken before its sign could matter."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = _repeated(hl)
    total = hl.i16(padded[x, y]) * 200 + hl.i16(padded[x + 3, y]) * 50
    return _named(hl, hl.u8(total >> 8))


def lost(hl: Any) -> Any:
    """A sum of bytes that wraps around, and is clamped too late."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = _repeated(hl)
    return _named(hl, hl.clamp(padded[x, y] + padded[x + 1, y], hl.u8(0), hl.u8(255)))


def above(hl: Any) -> Any:
    """Of rows above only, to one side."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = _repeated(hl)
    return _named(hl, hl.max(padded[x + 9, y - 3], padded[x + 2, y - 2]))


def blended(hl: Any) -> Any:
    """Two images, of which one is blurred."""
    x, y = hl.Var("x"), hl.Var("y")
    padded, other = hl.BoundaryConditions.repeat_edge(_image(hl)), _image(hl, "other")
    pair = hl.u16(padded[x - 1, y]) + hl.u16(padded[x, y + 1])
    return _named(hl, hl.u8((pair + 2 * hl.u16(other[x, y]) + 2) >> 2))


def brightest(hl: Any) -> Any:
    """The greater of two interleaved channels."""
    x, y = hl.Var("x"), hl.Var("y")
    image = _image(hl)
    return _named(hl, hl.max(image[2 * x, y], image[2 * x + 1, y]))


def opaque(hl: Any) -> Any:
    """Three of four interleaved channels over another image, by the fourth's distance to it."""
    x, y = hl.Var("x"), hl.Var("y")
    image, base = _image(hl), _image(hl, "base")
    red, green, blue, alpha = (hl.u16(image[4 * x + channel, y]) for channel in range(4))
    gray = hl.u8((red * 77 + green * 150 + blue * 29) >> 8)
    return _named(hl, hl.max(gray, hl.absd(hl.u8(alpha), base[x, y])))


def toned(hl: Any) -> Any:
    """A table of 256 entries, of a mean of two pixels."""
    x, y = hl.Var("x"), hl.Var("y")
    padded, table = _repeated(hl), hl.ImageParam(hl.UInt(8), 1, "table")
    table.dim(0).set_bounds(0, 256)
    mean = (hl.u16(padded[x - 1, y]) + hl.u16(padded[x + 1, y]) + 1) >> 1
    return _named(hl, table[hl.i32(hl.u8(mean))])


def uneven(hl: Any) -> Any:
    """The distance of a blurred pixel to the mean of its row."""
    x, y = hl.Var("x"), hl.Var("y")
    image = _image(hl)
    padded = hl.BoundaryConditions.repeat_edge(image)
    across = hl.RDom([(0, image.width())], "across")
    total = hl.Func("total")
    total[y] = hl.u32(128)
    total[y] += hl.u32(image[across, y])
    blurred = (hl.i16(padded[x, y - 1]) + 2 * hl.i16(padded[x, y]) + hl.i16(padded[x, y + 1])) >> 2
    return _named(hl, hl.u8_sat(blurred - hl.i16(total[y] >> 8) + 100))


def apart(hl: Any) -> Any:
    """The channels of pixels, in planes."""
    x, y, plane = (hl.Var(name) for name in ("x", "y", "plane"))
    out = hl.Func("out")
    out[x, y, plane] = hl.ImageParam(hl.UInt(8), 3, "image")[plane, x, y]
    return out


def opponent(hl: Any) -> Any:
    """Planes of one image that are each another function of its pixels' channels, one also of the
    pixels of another image around."""
    x, y, plane = (hl.Var(name) for name in ("x", "y", "plane"))
    out, image = hl.Func("out"), hl.ImageParam(hl.UInt(8), 3, "image")
    red, green, blue = (hl.i16(image[channel, x, y]) for channel in range(3))
    other = hl.BoundaryConditions.repeat_edge(_image(hl, "other"))
    around = hl.i16(other[x - 1, y]) + hl.i16(other[x + 1, y + 1])
    warm = ((red - green) >> 1) + 128
    out[x, y, plane] = hl.u8_sat(
        hl.select(plane == 0, (red + green + around) >> 2, plane == 1, warm, blue)
    )
    return out


def together(hl: Any) -> Any:
    """Pixels of the planes of an image."""
    x, y, channel = (hl.Var(name) for name in ("x", "y", "channel"))
    out = hl.Func("out")
    out[channel, x, y] = hl.ImageParam(hl.UInt(8), 3, "image")[x, y, channel]
    return out


def opaque_pairs(hl: Any) -> Any:
    """Pixels of a blurred gray and its distance to another image."""
    x, y, channel = (hl.Var(name) for name in ("x", "y", "channel"))
    out, gray, other = hl.Func("out"), _repeated(hl), _image(hl, "other")
    mean = hl.u8((hl.u16(gray[x - 1, y]) + hl.u16(gray[x, y + 1]) + 1) >> 1)
    out[channel, x, y] = hl.mux(channel, [mean, hl.absd(mean, other[x, y])])
    return out


def swapped(hl: Any) -> Any:
    """Pixels of four channels from others of three: in another order, and opaque."""
    x, y, channel = (hl.Var(name) for name in ("x", "y", "channel"))
    out, image = hl.Func("out"), hl.ImageParam(hl.UInt(8), 3, "image")
    red, green, blue = (image[at, x, y] for at in range(3))
    out[channel, x, y] = hl.mux(channel, [blue, green, red, hl.u8(255)])
    return out


def larger(hl: Any) -> Any:
    """Without a boundary condition: the image has two columns and two rows more."""
    image, x, y = _image(hl), hl.Var("x"), hl.Var("y")
    rows, total = hl.Func("rows"), hl.Func("total")
    rows[x, y] = hl.u16(image[x, y]) + 2 * hl.u16(image[x + 1, y]) + hl.u16(image[x + 2, y])
    total[x, y] = rows[x, y] + 2 * rows[x, y + 1] + rows[x, y + 2]
    return _named(hl, hl.u8((total[x, y] + 8) >> 4))


def around(hl: Any) -> Any:
    """Of an image that begins before the output, and another one."""
    image, x, y = _image(hl), hl.Var("x"), hl.Var("y")
    most = hl.max(image[x - 9, y], image[x + 1, y - 1])
    return _named(hl, hl.absd(hl.max(most, image[x, y + 2]), _image(hl, "other")[x, y]))


def smaller(hl: Any) -> Any:
    """Of two columns and three rows one, and those around them."""
    image, x, y = _image(hl), hl.Var("x"), hl.Var("y")
    rows = [image[2 * x - 1, 3 * y + at] for at in range(4)]
    total = sum((hl.u16(one) for one in rows[1:]), hl.u16(rows[0]))
    return _named(hl, hl.u8((total + 3 * hl.u16(image[2 * x + 2, 3 * y]) + 4) >> 3))


def larger_by_two(hl: Any) -> Any:
    """Between two pixels, one of which is the nearer, along rows; rows come twice."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = _repeated(hl)
    near, far = padded[x // 2, y // 2], padded[x // 2 - 1 + 2 * (x % 2), y // 2]
    return _named(hl, hl.u8((3 * hl.u16(near) + hl.u16(far) + 2) >> 2))


def coloured(hl: Any) -> Any:
    """Interleaved channels of brightness, and of colours of fewer pixels that are interleaved."""
    x, y, channel = (hl.Var(name) for name in ("x", "y", "channel"))
    light, colours, out = _image(hl, "light"), _image(hl, "colours"), hl.Func("out")
    first, second = (hl.i16(colours[(x >> 1) * 2 + at, y // 2]) - 128 for at in range(2))
    value = hl.i16(light[x, y])
    each = [value + second, value - ((first + second) >> 1), value + first]
    out[channel, x, y] = hl.mux(channel, [hl.u8_sat(one) for one in each])
    return out


def mosaic(hl: Any) -> Any:
    """One of two means, as on a board of chess, of 16 bits."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = _repeated(hl)
    across = hl.u16(padded[x - 1, y]) + hl.u16(padded[x + 1, y])
    down = hl.u16(padded[x, y - 1]) + hl.u16(padded[x, y + 1])
    return _named(hl, hl.select((x & 1) == (y & 1), across, down))


def packed(hl: Any) -> Any:
    """Four pixels of ten bits in five bytes, the last of which has two bits of each (RAW10)."""
    x, y = hl.Var("x"), hl.Var("y")
    image = _image(hl)
    first = x // 4 * 5
    high, low = image[first + x % 4, y], image[first + 4, y] >> hl.u8(2 * (x % 4))
    return _named(hl, (hl.u16(high) << 2) | hl.u16(low & 3))


def halfway(hl: Any) -> Any:
    """With a boundary condition along rows only."""
    image, x, y = _image(hl), hl.Var("x"), hl.Var("y")
    every = (hl.Expr(), hl.Expr())
    padded = hl.BoundaryConditions.repeat_edge(image, [(0, image.width()), every])
    return _named(hl, hl.max(padded[x, y], padded[x + 1, y + 1]))


def mirrored(hl: Any) -> Any:
    """With another boundary condition."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = hl.BoundaryConditions.mirror_image(_image(hl))
    return _named(hl, hl.max(padded[x, y], padded[x + 1, y]))


def transposed(hl: Any) -> Any:
    """Rows become columns."""
    x, y = hl.Var("x"), hl.Var("y")
    return _named(hl, _repeated(hl)[y, x])


def overflowing(hl: Any) -> Any:
    """What is lost when a sum wraps around is missed."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = _repeated(hl)
    return _named(hl, hl.max(padded[x, y] + padded[x + 1, y], padded[x, y]))


def product(hl: Any) -> Any:
    """Pixels multiplied by one another."""
    x, y = hl.Var("x"), hl.Var("y")
    padded = _repeated(hl)
    return _named(hl, hl.u8((hl.u16(padded[x, y]) * hl.u16(padded[x + 1, y])) >> 8))


def crossed(hl: Any) -> Any:
    """An image whose coordinates are held within another one."""
    x, y = hl.Var("x"), hl.Var("y")
    image, other = _image(hl), _image(hl, "other")
    column = hl.clamp(x + 1, other.dim(0).min(), other.dim(0).min() + other.dim(0).extent() - 1)
    return _named(hl, hl.max(image[column, y], other[x, y]))


def vignette(hl: Any) -> Any:
    """It depends on where the pixel is."""
    x, y = hl.Var("x"), hl.Var("y")
    return _named(hl, hl.u8_sat(hl.i32(_repeated(hl)[x, y]) - x))


def main() -> None:
    """Writes the pipeline that the command line names."""
    import halide as hl

    made = hl.Pipeline(globals()[sys.argv[1]](hl))
    sys.stdout.buffer.write(hl.serialize_pipeline(made))


if __name__ == "__main__":
    main()
