"""Definitions of the layers of networks, once more: slow, element by element, in exact numbers.
References of the other kernels are held to their pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import floor

import numpy as np

from tuner.kernels.kernel import Array

Params = Mapping[str, int]
Oracle = Callable[[Params, Sequence[Array]], Array]


def _nearest(value: Fraction) -> int:
    """The nearest integer; halves go up."""
    return floor(value + Fraction(1, 2))


def _within(value: int, lowest: int, highest: int) -> int:
    return min(max(value, lowest), highest)


def _image(params: Params, dtype: type, value: Callable[[int, int], int]) -> Array:
    made: Array = np.array(
        [[value(y, x) for x in range(params["width"])] for y in range(params["height"])], dtype
    )
    return made


def _scaled(total: int, channel: int, bias: Array, multiplier: Array, numbers: Array) -> int:
    """A layer's sum of products (before its bias) as its output."""
    wrapped = (total + int(bias[channel]) + 2**31) % 2**32 - 2**31
    output = _nearest(Fraction(wrapped * int(multiplier[channel]), 2**31)) + int(numbers[1])
    return max(min(_within(output, 0, 255), int(numbers[3])), int(numbers[2]))


def _windows(params: Params, image: Array, size: int) -> tuple[range, range]:
    """Where windows begin, along rows and columns."""
    first, last = -params["before"], params["after"] - size
    rows, columns = (
        range(first, max(extent + last, first) + 1, params["stride"]) for extent in image.shape[:2]
    )
    return rows, columns


def conv2d_layer(params: Params, inputs: Sequence[Array]) -> Array:
    image, weights, *settings = inputs
    size = params["size"]

    def tap(y: int, x: int, k: int) -> int:
        inside = 0 <= y < image.shape[0] and 0 <= x < image.shape[1]
        return int(image[y, x, k]) if inside else int(settings[-1][0])

    def value(y: int, x: int, c: int) -> int:
        total = sum(
            tap(y + i, x + j, k) * int(weights[i, j, k // 4, 4 * c + k % 4])
            for i in range(size)
            for j in range(size)
            for k in range(image.shape[2])
        )
        return _scaled(total, c, *settings)

    rows, columns = _windows(params, image, size)
    channels = range(params["channels_out"])
    made: Array = np.array(
        [[[value(y, x, c) for c in channels] for x in columns] for y in rows], np.uint8
    )
    return made


def gemm_layer(params: Params, inputs: Sequence[Array]) -> Array:
    a, b, *settings = inputs
    zero_a, zero_b = int(settings[-1][0]), int(settings[-1][4])

    def value(i: int, j: int) -> int:
        total = sum(
            (int(x) - zero_a) * (int(y) - zero_b) for x, y in zip(a[i], b[:, j], strict=True)
        )
        return _scaled(total, j, *settings)

    made: Array = np.array(
        [[value(i, j) for j in range(params["n"])] for i in range(params["m"])], np.uint8
    )
    return made


def add_layer(params: Params, inputs: Sequence[Array]) -> Array:
    a, b, scales, limits = inputs
    by_a, by_b = (int(scale) % 2**16 for scale in scales[:2])

    def value(y: int, x: int) -> int:
        total = int(a[y, x]) * by_a + int(b[y, x]) * by_b + int(scales[2])
        wrapped = (total + 2**31) % 2**32 - 2**31
        output = _within(floor(Fraction(wrapped, 2 ** (int(scales[3]) % 16))), 0, 255)
        return max(min(output, int(limits[1])), int(limits[0]))

    return _image(params, np.uint8, value)


ORACLES: dict[str, Oracle] = {
    "qconv2d_u8": conv2d_layer,
    "qgemm_u8": gemm_layer,
    "qadd_u8": add_layer,
}
