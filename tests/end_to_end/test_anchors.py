"""Ratios of the timing model point the way that published ones do."""

from __future__ import annotations

import pytest

from benchmarks.anchors import ANCHORS, ratios


@pytest.mark.slow
def test_what_is_faster_on_hardware_is_faster_in_the_model() -> None:
    found = ratios()
    for anchor in ANCHORS:
        for ratio in found[anchor.what].values():
            assert (ratio > 1) == (anchor.low > 1), anchor.what
    for ratio in found["4 threads over 1, gemm 256^3"].values():
        assert 2 < ratio <= 4
