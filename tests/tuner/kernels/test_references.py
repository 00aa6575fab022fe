"""The NumPy references against definitions written out element by element."""

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


def test_every_kernel_has_an_oracle() -> None:
    assert sorted(ORACLES) == sorted(kernel_names())


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


@pytest.mark.parametrize("name", kernel_names())
@given(data=st.data())
@settings(max_examples=40)
def test_the_reference_is_the_definition(name: str, data: st.DataObject) -> None:
    kernel = find_kernel(name)
    params, inputs = data.draw(calls(kernel))
    (made,) = kernel.reference(params, inputs)
    np.testing.assert_array_equal(made, ORACLES[name](params, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("name", kernel_names())
@given(data=st.data())
@settings(max_examples=10)
def test_the_pipeline_is_the_definition_for_any_settings(name: str, data: st.DataObject) -> None:
    kernel = find_kernel(name)
    params, inputs = data.draw(calls(kernel))
    (made,) = run_on_host(kernel, params, inputs)
    np.testing.assert_array_equal(made, ORACLES[name](params, inputs))


def test_sums_of_a_product_wrap_at_32_bits_only() -> None:
    """The largest sum there can be: k at its maximum, every element 255."""
    kernel = find_kernel("gemm_u8")
    params = dict(kernel.workload({"m": 1, "n": 1, "k": 65536}).params)
    a = np.full((1, 65536), 255, np.uint8)
    (made,) = kernel.reference(params, [a, a.T])
    assert made[0, 0] == 65536 * 255 * 255


def test_a_sum_saturates_at_both_ends() -> None:
    kernel = find_kernel("add_u8")
    settings_ = {"multiplier_a": 128, "multiplier_b": 128, "shift": 1, "zero_out": 0}
    params = dict(kernel.workload({"width": 2, "height": 1, **settings_}).params)
    ends = np.array([[0, 255]], np.uint8)
    (made,) = kernel.reference(params, [ends, ends])
    assert made.tolist() == [[0, 255]]


def test_halves_of_a_sum_round_up() -> None:
    kernel = find_kernel("add_u8")
    settings_ = {"multiplier_a": 1, "multiplier_b": 0, "shift": 1, "zero_a": 2, "zero_out": 10}
    params = dict(kernel.workload({"width": 5, "height": 1, **settings_}).params)
    a = np.arange(5, dtype=np.uint8).reshape(1, 5)  # -1, -1/2, 0, 1/2, 1
    (made,) = kernel.reference(params, [a, np.zeros_like(a)])
    assert made.tolist() == [[9, 10, 10, 11, 11]]


def test_a_flat_image_has_no_edges_and_stays_itself_when_blurred() -> None:
    params = {"width": 9, "height": 4}
    flat = np.full((4, 9), 77, np.uint8)
    assert (find_kernel("gaussian5x5_u8").reference(params, [flat])[0] == 77).all()
    assert (find_kernel("sobel_u8").reference(params, [flat])[0] == 0).all()


def test_beyond_the_image_a_convolution_adds_nothing() -> None:
    kernel = find_kernel("depthwise_conv2d_u8")
    params = dict(kernel.workload({"width": 3, "height": 2, "channels": 2}).params)
    image = np.full((2, 3, 2), params["zero_in"], np.uint8)
    weights = np.full((3, 3, 2), -128, np.int8)
    assert (kernel.reference(params, [image, weights])[0] == params["zero_out"]).all()
