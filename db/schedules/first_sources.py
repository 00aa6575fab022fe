"""The sources of kernels in rows and lines that do not tell them.

Workloads were first named by their kernel's source in migration 0015. What was stored before is
taken to be of the files that came with that migration: bests stay valid, until a file changes.
Never to be changed: they say how it was then.
"""

from __future__ import annotations

from typing import Final

FIRST_SOURCES: Final = {
    ("add_u8", 1): "a9bf519b1eacc805",
    ("avg_pool_u8", 1): "20114cb94c659bb4",
    ("box_blur_u8", 1): "0c49075cc1abb9e0",
    ("conv2d_u8", 1): "9ab656bb25ae6809",
    ("depthwise_conv2d_u8", 2): "fc5b651e575a9e8c",
    ("gaussian5x5_u8", 1): "ee7b439e106b8f2e",
    ("gemm_i8", 1): "9c48dffe6ef093e4",
    ("gemm_u8", 1): "84a22bd2fba0e900",
    ("lut_u8", 1): "b4454cab7b0c1000",
    ("max_pool_u8", 1): "0f5a28fdbcad5a7e",
    ("resize_bilinear_u8", 1): "e5a127de97036cbb",
    ("rgb_to_gray_u8", 1): "906553a45b7a38f4",
    ("sobel_u8", 1): "dcb08a7900d864ba",
    ("softmax_u8", 1): "ee3c5ec5fad12c33",
}
"""Source digests by kernel and version."""
