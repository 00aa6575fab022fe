"""Kernels of images in channel blocks: where pixels are, and results of the kernels they go by."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.kernels import find_kernel
from tuner.kernels.blocked import (
    BlockedConv,
    BlockedDepthwiseConv,
    BlockedExpandedConv,
    Blocks,
)
from tuner.kernels.kernel import Array

ZERO = 77
SHAPES = {
    BlockedConv.name: {"height": 5, "width": 9, "channels_in": 8, "channels_out": 20},
    BlockedDepthwiseConv.name: {"height": 5, "width": 8, "channels": 12, "stride": 2},
    BlockedExpandedConv.name: {"height": 6, "width": 5, "channels_in": 8, "channels_out": 16},
}


def pixels_of(image: Array) -> Array:
    return np.random.default_rng(3).integers(0, 256, image, np.uint8)


@pytest.mark.parametrize("shape", [(7, 7, 8), (5, 62, 4)])
def test_pixels_are_where_it_says_and_the_zero_point_is_around_them(
    shape: tuple[int, int, int],
) -> None:
    height, width, channels = shape
    blocks, image = Blocks(height, width), pixels_of(shape)
    packed = blocks.packed(image, ZERO)
    assert packed.shape == blocks.spec("input", -(-channels // 4) * 4, "input").shape
    places = np.full(packed.shape, ZERO, np.uint8)
    for y, x, c in np.ndindex(shape):
        places[c // 4, blocks.first + y * blocks.pitch + x, c % 4] = image[y, x, c]
    np.testing.assert_array_equal(packed, places)
    np.testing.assert_array_equal(blocks.unpacked(packed)[:, :, :channels], image)


@pytest.mark.parametrize("name", [BlockedConv.name, BlockedDepthwiseConv.name])
def test_results_are_those_of_the_kernel_with_channels_last(name: str) -> None:
    kernel = find_kernel(name)
    assert isinstance(kernel, BlockedConv | BlockedDepthwiseConv)
    params = kernel.workload(SHAPES[name]).params
    plain, own = find_kernel(kernel.plain), kernel.plain_params(params)
    image, weights, *settings = plain.inputs(own, np.random.default_rng(4))
    before, after = kernel.images(params)
    given = [
        before.packed(image, int(settings[-1][0])),
        kernel.packed_weights(params, weights),
        *settings,
    ]
    (made,) = kernel.reference(params, given)
    (right,) = plain.reference(own, [image, weights, *settings])
    np.testing.assert_array_equal(made, after.packed(right, int(settings[-1][1])))
    assert right.std() > 0


@pytest.mark.parametrize("name", SHAPES)
def test_any_inputs_become_such_as_networks_have(name: str) -> None:
    """The zero point around the image, and one between two layers; weights that count alone."""
    kernel = find_kernel(name)
    params = kernel.workload(SHAPES[name]).params
    rng = np.random.default_rng(6)
    specs = [spec for spec in kernel.buffers(params) if spec.role == "input"]
    given = [
        rng.integers(np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max, spec.shape, spec.dtype)
        for spec in specs
    ]
    allowed = kernel.allowed_inputs(params, given)
    assert [one.shape for one in allowed] == [spec.shape for spec in specs]
    again = kernel.allowed_inputs(params, allowed)
    for one, other in zip(allowed, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert allowed[0][0, 0, 0] == allowed[4][0], "the first place is not of the image"
    if name == BlockedExpandedConv.name:
        assert allowed[-1][0] == allowed[4][1]
