"""The sources of kernels in rows and lines that do not name them.

Workloads were first named by their kernel's source in migration 0015. What was stored before is
taken to be of the kernels as first released with such names: bests stay valid until their code
changes. Never edit the table after that release: it records the past.
"""

from __future__ import annotations

from typing import Final

FIRST_SOURCES: Final = {
    ("add_u8", 1): "32385f63994b025f",
    ("avg_pool_u8", 1): "a6c7eb175cc32fa2",
    ("box_blur_u8", 1): "f1e0d210198f8452",
    ("conv2d_u8", 1): "12885c831ad6d24d",
    ("depthwise_conv2d_u8", 2): "5273c1eeb009ead7",
    ("gaussian5x5_u8", 1): "6230648c862b563b",
    ("gemm_i8", 1): "58d1938c8bb6909b",
    ("gemm_u8", 1): "fb1fd3a8c167480e",
    ("lut_u8", 1): "dfe44efd340575bf",
    ("max_pool_u8", 1): "637a07ffeac43d46",
    ("resize_bilinear_u8", 1): "4fd48a3d7167a7be",
    ("rgb_to_gray_u8", 1): "35b4c3638afcf0c5",
    ("sobel_u8", 1): "b1cf90306bb8db2f",
    ("softmax_u8", 1): "547691c164fb20e8",
}
"""Source digests by kernel and version."""
