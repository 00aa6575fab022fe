"""What can be tuned. One file a kernel; one line in ``_REGISTRY`` makes it known.

``docs/adding-a-kernel.md`` walks through a new one; ``tests/tuner/kernels`` holds the conformance
suite that each kernel inherits.
"""

from __future__ import annotations

import difflib
from importlib import import_module

from tuner.errors import UserError
from tuner.kernels.kernel import HalidePipeline, Kernel, Param, WorkCounts

_REGISTRY = {
    "gemm_u8": "tuner.kernels.gemm_u8:GemmU8",
    "depthwise_conv2d_u8": "tuner.kernels.depthwise_conv2d_u8:DepthwiseConv2dU8",
    "add_u8": "tuner.kernels.add_u8:AddU8",
    "gaussian5x5_u8": "tuner.kernels.gaussian5x5_u8:Gaussian5x5U8",
    "sobel_u8": "tuner.kernels.sobel_u8:SobelU8",
}
"""Kernel name to ``module:class``; imported on first use."""

_loaded: dict[str, Kernel] = {}


def kernel_names() -> list[str]:
    """The names of all kernels, in the order of the registry."""
    return list(_REGISTRY)


def find_kernel(name: str) -> Kernel:
    """The kernel called ``name``; ``UserError`` names the accepted ones otherwise."""
    if name not in _REGISTRY:
        near = difflib.get_close_matches(name, _REGISTRY, n=1)
        raise UserError(
            f"unknown kernel '{name}'",
            accepted=", ".join(_REGISTRY),
            next_step=f"did you mean {near[0]}?" if near else "see `hvxtune kernels`",
        )
    if name not in _loaded:
        module, _, cls = _REGISTRY[name].partition(":")
        _loaded[name] = getattr(import_module(module), cls)()
    return _loaded[name]


__all__ = [
    "HalidePipeline",
    "Kernel",
    "Param",
    "WorkCounts",
    "find_kernel",
    "kernel_names",
]
