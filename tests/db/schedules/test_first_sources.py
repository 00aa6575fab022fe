"""The sources of kernels at their first release with such names."""

from __future__ import annotations

from db.schedules.first_sources import FIRST_SOURCES

FIRST_KERNELS = (
    "add_u8 avg_pool_u8 box_blur_u8 conv2d_u8 depthwise_conv2d_u8 gaussian5x5_u8 gemm_i8 gemm_u8 "
    "lut_u8 max_pool_u8 resize_bilinear_u8 rgb_to_gray_u8 sobel_u8 softmax_u8"
)


def test_every_kernel_then_built_in_has_its_source():
    """Their digests record the past: kernels that changed since have others."""
    assert {name for name, _ in FIRST_SOURCES} == set(FIRST_KERNELS.split())
    assert all(len(source) == 16 for source in FIRST_SOURCES.values())
