"""Both forms of a requantization: the network's in float32, and HVX code's in fixed point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.network import fixed_point


@given(
    scale=st.floats(fixed_point.LEAST, 1 - 2.0**-20),
    zero=st.integers(0, 255),
    seed=st.integers(0, 2**32 - 1),
)
def test_both_forms_are_at_most_one_step_apart(scale: float, zero: int, seed: int) -> None:
    """For sums whose results saturate, and beyond: nothing wraps."""
    rng = np.random.default_rng(seed)
    reach = min(2**31 - 1, int(2000 / scale))
    sums = rng.integers(-reach, reach, 4000, np.int32, endpoint=True)
    apart = fixed_point.steps_apart(sums, float(np.float32(scale)), zero)
    assert apart is not None
    assert apart <= 1


@pytest.mark.parametrize("scale", [2.0**-24, 1.0, 3.0])
def test_a_scale_beyond_the_bits_has_no_fixed_point(scale: float) -> None:
    assert fixed_point.multipliers(np.array([0.1, scale], np.float32)) is None
