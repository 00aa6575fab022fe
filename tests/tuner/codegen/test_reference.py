"""Definitions are evaluated as Halide says they are, over whatever region is read of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import halide as hl
import numpy as np

from tuner.codegen.halide.uploads.answers import output_names
from tuner.codegen.halide.uploads.reference import reference

WIDTH, HEIGHT = 24, 10
PIXELS = np.random.default_rng(3).integers(0, 256, (HEIGHT, WIDTH), np.uint8)
x, y = hl.Var("x"), hl.Var("y")


def new() -> tuple[hl.Func, hl.Func, hl.ImageParam]:
    return hl.Func("h"), hl.Func("g"), hl.ImageParam(hl.UInt(8), 2, "image")


def evaluated(
    output: hl.Func,
    width: int = WIDTH,
    height: int = HEIGHT,
    *,
    image_mins: tuple[int, int] = (0, 0),
    scalars: Mapping[str, int] | None = None,
) -> Any:
    """The output over a region, of an image whose first element is at ``image_mins``."""
    data = bytes(hl.serialize_pipeline(hl.Pipeline(output)))
    images = [{"name": "image", "dtype": "uint8", "mins": image_mins, "extents": (WIDTH, HEIGHT)}]
    names = output_names(output.name(), len(output.types()))
    outputs = [{"name": name, "mins": (0, 0), "extents": (width, height)} for name in names]
    question = data + PIXELS.tobytes()
    answer = reference(question, len(data), images, scalars or {}, outputs)
    values, position = [], 0
    for kind in output.types():
        dtype = np.dtype(str(kind))
        values.append(np.frombuffer(answer, dtype, width * height, position).reshape(height, width))
        position += values[-1].nbytes
    return values[0] if len(values) == 1 else values


def test_a_stencil_is_read_where_its_input_begins() -> None:
    h, _, image = new()
    h[x, y] = image[x - 1, y] - image[x + 1, y + 2]
    found = evaluated(h, WIDTH - 2, HEIGHT - 2, image_mins=(-1, 0))
    assert np.array_equal(found, PIXELS[:-2, :-2] - PIXELS[2:, 2:])


def test_places_that_depend_on_values_are_read_wherever_they_are() -> None:
    h, g, image = new()
    g[x, y] = hl.u8(x * 3 + y)
    h[x, y] = g[hl.i32(image[x, y]) - 100, y]
    columns = PIXELS.astype(np.int32) - 100
    assert np.array_equal(evaluated(h), (columns * 3 + np.arange(HEIGHT)[:, None]).astype(np.uint8))


def test_steps_that_need_the_one_before_go_in_order() -> None:
    h, _, image = new()
    down = hl.RDom([(1, HEIGHT - 1)], "down")
    h[x, y] = hl.u16(image[x, y])
    h[x, down] = h[x, down - 1] * 3 + h[x, down]
    wanted = PIXELS.astype(np.uint16)
    for row in range(1, HEIGHT):
        wanted[row] += wanted[row - 1] * np.uint16(3)
    assert np.array_equal(evaluated(h), wanted)


def test_sums_count_only_where_their_condition_holds() -> None:
    h, g, image = new()
    r = hl.RDom([(0, WIDTH), (0, HEIGHT)], "r")
    r.where(image[r.x, r.y] > 100)
    g[x] = hl.u32(0)
    g[hl.i32(image[r.x, r.y]) / 16] += hl.u32(image[r.x, r.y])
    h[x, y] = g[x]
    bright = PIXELS[PIXELS > 100].astype(np.uint32)
    assert np.array_equal(evaluated(h, 16, 1)[0], np.bincount(bright // 16, bright, 16))


def test_integers_divide_with_a_remainder_that_is_never_negative() -> None:
    h, _, image = new()
    a, b = hl.i16(image[x, y]) - 128, hl.i16(image[x, y]) % 7 - 3
    h[x, y] = (a / b, a % b)
    quotient, remainder = evaluated(h)
    for pixel, q, r in zip(PIXELS.flat, quotient.flat, remainder.flat, strict=True):
        over, by = int(pixel) - 128, int(pixel) % 7 - 3
        assert (int(q), int(r)) == (
            (0, 0) if by == 0 else ((over - over % abs(by)) // by, over % abs(by))
        )
