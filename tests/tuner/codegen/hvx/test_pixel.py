"""Expressions of pixels: what is alike is one, and bounds are those of the values."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tuner.codegen.hvx.lowering import lowered
from tuner.codegen.hvx.pixel import Pixel, absolute, at, clamped, constant, maximum
from tuner.codegen.hvx.stencils import pixels_of
from tuner.kernels import find_kernel

AROUND = (-1, 0, 1)


def value(expression: Pixel, images: dict[str, Any], radius: int = 0) -> Any:
    """The expression's values for images with ``radius`` pixels around them, and tables."""
    parts = [value(part, images, radius) for part in expression.parts]
    if expression.kind == "pixel":
        dx, dy, name, step, *_ = expression.value
        height, width = (extent - 2 * radius for extent in images[name].shape)
        x, y = radius + dx, radius + dy
        return images[name][y : y + height, x : x + width : step]
    if expression.kind == "constant":
        return np.int64(expression.value)
    if expression.kind == "sum":
        *weights, offset = expression.value
        return sum(w * part for w, part in zip(weights, parts, strict=True)) + offset
    if expression.kind in ("max", "min"):
        return getattr(np, f"{expression.kind}imum").reduce(np.broadcast_arrays(*parts))
    (part,) = parts
    if expression.kind == "abs":
        return np.abs(part)
    if expression.kind == "shift":
        return part >> expression.value
    if expression.kind == "entry":
        return images[expression.value][part]
    if expression.kind == "row":
        return part.sum(axis=1, keepdims=True)
    return (part * expression.value + (1 << 14)) >> 15


@pytest.mark.parametrize("name", ["box_blur_u8", "gaussian5x5_u8", "sobel_u8"])
def test_a_kernel_states_the_pixels_of_its_reference(name):
    kernel = find_kernel(name)
    image = np.random.default_rng(3).integers(0, 256, (9, 17), np.uint8)
    padded = np.pad(image, 2, mode="edge").astype(np.int64)
    (expected,) = kernel.reference({"width": 17, "height": 9}, [image])
    (found,) = pixels_of(kernel.program({})).each
    assert (value(found, {"": padded}, 2) == expected).all()


@pytest.mark.parametrize("name", ["add_u8", "lut_u8", "rgb_to_gray_u8"])
def test_a_kernel_of_single_pixels_states_those_of_its_reference(name):
    kernel = find_kernel(name)
    params = kernel.workload({"width": 64, "height": 9}).params
    inputs = kernel.inputs(params, np.random.default_rng(3))
    wide = [one.astype(np.int64) for one in inputs]
    names = [spec.name for spec in kernel.buffers(params)]
    images = {"": wide[0], **dict(zip(names, wide, strict=False))}
    (found,) = pixels_of(kernel.program(params)).each
    assert (value(found, images) == kernel.reference(params, inputs)[0]).all()


def test_a_filter_is_one_expression_however_it_is_nested():
    rows = [at(-1, dy) + 2 * at(0, dy) + at(1, dy) for dy in AROUND]
    columns = [at(dx, -1) + 2 * at(dx, 0) + at(dx, 1) for dx in AROUND]
    assert rows[0] + 2 * rows[1] + rows[2] == columns[2] + columns[0] + 2 * columns[1]
    nine = [at(dx, dy) for dx, dy in product(AROUND, repeat=2)]
    assert maximum(*nine) == maximum(maximum(*nine[3:]), maximum(*nine[:5]))
    assert at(0, 0) - at(0, 0) == constant(0)


def test_a_magnitude_costs_the_same_whichever_sign_its_sum_has() -> None:
    """The sign that a row's sum has by itself is free: its other rows share it."""
    for weights in ((1, 2, 1), (1, 1, 1), (3, 10, 3)):
        slope = constant(0)
        for dy, weight in zip(AROUND, weights, strict=True):
            slope += weight * (at(1, dy) - at(-1, dy))
        both = [lowered([clamped(absolute(sign * slope))])[0].known for sign in (1, -1)]
        first, second = (sorted(value.operation for value in known.values()) for known in both)
        assert first == second
        assert not any(
            -1 in value.numbers for value in both[0].values() if value.operation == "vmpyihb"
        )
