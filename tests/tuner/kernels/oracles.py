"""Definitions of kernels that round, once more: slow, element by element, in Python's exact
numbers. The others are sums, copies and comparisons, which their pipelines are held to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np

from tuner.kernels.kernel import Array

Params = Mapping[str, int]
Oracle = Callable[[Params, Sequence[Array]], Array]


def _nearest(value: Fraction) -> int:
    """The nearest integer; halves go up."""
    return floor(value + Fraction(1, 2))


def _within(value: int, lowest: int, highest: int) -> int:
    return min(max(value, lowest), highest)


def _pixel(image: Array, y: int, x: int) -> int:
    """A pixel, or the nearest one where there is none."""
    height, width = image.shape
    return int(image[_within(y, 0, height - 1), _within(x, 0, width - 1)])


def _image(params: Params, dtype: type, value: Callable[[int, int], int]) -> Array:
    made: Array = np.array(
        [[value(y, x) for x in range(params["width"])] for y in range(params["height"])], dtype
    )
    return made


def add(params: Params, inputs: Sequence[Array]) -> Array:
    a, b = inputs
    scale_a, scale_b = (
        Fraction(params[f"multiplier_{name}"], 2 ** params["shift"]) for name in "ab"
    )

    def value(y: int, x: int) -> int:
        real = (int(a[y, x]) - params["zero_a"]) * scale_a
        real += (int(b[y, x]) - params["zero_b"]) * scale_b
        return _within(_nearest(real) + params["zero_out"], 0, 255)

    return _image(params, np.uint8, value)


def _requantized(total: int, params: Params) -> int:
    scaled = _within(_nearest(Fraction(total, 2 ** params["pre_shift"])), -(2**15), 2**15 - 1)
    scaled = _nearest(Fraction(scaled * params["multiplier"], 2**15))
    scaled = _nearest(Fraction(scaled, 2 ** params["shift"]))
    return _within(scaled + params["zero_out"], 0, 255)


def conv2d(params: Params, inputs: Sequence[Array]) -> Array:
    image, weights, bias = inputs
    height, width, channels = image.shape
    size, stride = params["size"], params["stride"]
    before = (size - 1) // 2

    def tap(y: int, x: int, c: int) -> int:
        inside = 0 <= y < height and 0 <= x < width
        return int(image[y, x, c]) if inside else params["zero_in"]

    def value(y: int, x: int, c: int) -> int:
        total = int(bias[c]) + sum(
            tap(stride * y + i - before, stride * x + j - before, k)
            * int(weights[i, j, k // 4, 4 * c + k % 4])
            for i in range(size)
            for j in range(size)
            for k in range(channels)
        )
        return _requantized((total + 2**31) % 2**32 - 2**31, params)

    values: Any = [
        [
            [value(y, x, c) for c in range(params["channels_out"])]
            for x in range(ceil(Fraction(width, stride)))
        ]
        for y in range(ceil(Fraction(height, stride)))
    ]
    made: Array = np.array(values, np.uint8)
    return made


def resize_bilinear(params: Params, inputs: Sequence[Array]) -> Array:
    (image,) = inputs

    def at(position: int, scale: int) -> tuple[int, Fraction]:
        """The pixel before, and the weight of the one after, in 128ths."""
        place = position * Fraction(scale, 2**14) + floor(Fraction(scale - 2**14, 2)) / Fraction(
            2**14
        )
        return floor(place), Fraction(floor((place - floor(place)) * 128), 128)

    def between(first: int, second: int, weight: Fraction) -> int:
        return _nearest((1 - weight) * first + weight * second)

    def row(y: int, x: int) -> int:
        left, weight = at(x, params["scale_x"])
        return between(_pixel(image, y, left), _pixel(image, y, left + 1), weight)

    def value(y: int, x: int) -> int:
        above, weight = at(y, params["scale_y"])
        last = len(image) - 1
        first, second = (row(_within(above + step, 0, last), x) for step in (0, 1))
        return between(first, second, weight)

    return _image(params, np.uint8, value)


def softmax(params: Params, inputs: Sequence[Array]) -> Array:
    image, table = inputs

    def value(y: int, x: int) -> int:
        largest = max(int(element) for element in image[y])
        powers = [int(table[largest - int(element)]) for element in image[y]]
        total = _within(sum(powers), 2**9, 2**24 - 1)
        size = total.bit_length() - 1
        normal = floor(Fraction(total) * Fraction(2) ** (15 - size))
        scaled = _nearest(Fraction(powers[x] * floor(Fraction(2**30 - 1, normal)), 2**15))
        halves = floor(Fraction(scaled, 2 ** (size - 9)))
        return _within(_nearest(Fraction(halves, 2)), 0, 255)

    return _image(params, np.uint8, value)


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
    "add_u8": add,
    "resize_bilinear_u8": resize_bilinear,
    "softmax_u8": softmax,
    "conv2d_u8": conv2d,
    "qconv2d_u8": conv2d_layer,
    "qgemm_u8": gemm_layer,
    "qadd_u8": add_layer,
}
