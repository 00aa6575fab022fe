"""Means are exact for every total that a window can have, by a product as by a division."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.conformance.kernels import run_on_host
from tuner.kernels import find_kernel


@pytest.mark.slow
@pytest.mark.parametrize("size", range(1, 8))
def test_every_total_of_a_window_is_divided_right(size: int) -> None:
    pixels = size * size
    totals = np.arange(255 * pixels + 1)
    params = {"height": 1, "width": 1, "channels": len(totals), "size": size, "stride": size}
    # As many pixels as can be are white, one has the rest.
    flat = np.clip(totals - 255 * np.arange(pixels)[:, np.newaxis], 0, 255).astype(np.uint8)
    window = flat.reshape(size, size, len(totals))
    (means,) = run_on_host(find_kernel("avg_pool_u8"), params, [window])
    assert np.array_equal(means.ravel(), (2 * totals + pixels) // (2 * pixels))
