"""The NumPy references against definitions written out element by element, where they round, and
against the pipelines on this machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.tuner.kernels.oracles import ORACLES
from tuner.conformance.kernels import run_on_host
from tuner.kernels import Kernel, find_kernel, kernel_names
from tuner.kernels.kernel import Array

LARGEST_EXTENT = 6


@st.composite
def calls(draw: st.DrawFn, kernel: Kernel) -> tuple[dict[str, int], list[Array]]:
    """Small shapes, any settings, and inputs that like the ends of their range."""
    given_params = {}
    for param in kernel.params:
        highest = LARGEST_EXTENT if param.is_extent else param.maximum
        steps = st.integers(-(-param.minimum // param.multiple), max(1, highest // param.multiple))
        given_params[param.name] = draw(steps) * param.multiple
    params = dict(kernel.workload(given_params).params)
    inputs = []
    for spec in kernel.buffers(params):
        if spec.role == "input":
            info = np.iinfo(spec.dtype)
            values = st.one_of(
                st.sampled_from([int(info.min), int(info.max)]),
                st.integers(int(info.min), int(info.max)),
            )
            inputs.append(draw(arrays(spec.dtype, spec.shape, elements=values)))
    return params, inputs


@pytest.mark.parametrize("name", ORACLES)
@given(data=st.data())
def test_the_reference_is_the_definition(name: str, data: st.DataObject) -> None:
    kernel = find_kernel(name)
    params, inputs = data.draw(calls(kernel))
    (made,) = kernel.reference(params, inputs)
    np.testing.assert_array_equal(made, ORACLES[name](params, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("name", kernel_names())
@given(data=st.data())
@settings(max_examples=3)
def test_the_pipeline_is_the_reference_for_any_settings(name: str, data: st.DataObject) -> None:
    kernel = find_kernel(name)
    params, inputs = data.draw(calls(kernel))
    (made,) = run_on_host(kernel, params, inputs)
    np.testing.assert_array_equal(made, kernel.reference(params, inputs)[0])


def test_sums_of_a_product_wrap_at_32_bits_only() -> None:
    """The largest sum there can be: k at its maximum, every element 255."""
    kernel = find_kernel("gemm_u8")
    params = dict(kernel.workload({"m": 1, "n": 1, "k": 65536}).params)
    a = np.full((1, 65536), 255, np.uint8)
    (made,) = kernel.reference(params, [a, a.T])
    assert made[0, 0] == 65536 * 255 * 255
