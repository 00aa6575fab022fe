"""Kernels: the algorithms that can be tuned, one file each.

One line in ``_REGISTRY`` registers a built-in one; a package adds one by an entry point of the
group ``hvxtune.kernels``. ``docs/adding-a-kernel.md`` walks through a new one, and
``tuner.conformance.kernels`` holds the suites that each must pass.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tuner.errors import HvxtuneError, InternalError
from tuner.kernels.derived import derivation
from tuner.kernels.kernel import HalidePipeline, Kernel, Param, WorkCounts
from tuner.registry import Registry

EXTRA_KERNELS_VARIABLE = "HVXTUNE_KERNELS"
"""Kernels that are not installed: ``name=module:class`` pairs, separated by commas. They take
precedence over others of the same name."""

_REGISTRY: Registry[Kernel] = Registry(
    "kernel",
    "hvxtune.kernels",
    {
        "gemm_u8": "tuner.kernels.gemm_u8:GemmU8",
        "depthwise_conv2d_u8": "tuner.kernels.depthwise_conv2d_u8:DepthwiseConv2dU8",
        "add_u8": "tuner.kernels.add_u8:AddU8",
        "gaussian5x5_u8": "tuner.kernels.gaussian5x5_u8:Gaussian5x5U8",
        "sobel_u8": "tuner.kernels.sobel_u8:SobelU8",
        "lut_u8": "tuner.kernels.lut_u8:LutU8",
        "rgb_to_gray_u8": "tuner.kernels.rgb_to_gray_u8:RgbToGrayU8",
        "box_blur_u8": "tuner.kernels.box_blur_u8:BoxBlurU8",
        "max_pool_u8": "tuner.kernels.max_pool_u8:MaxPoolU8",
        "avg_pool_u8": "tuner.kernels.avg_pool_u8:AvgPoolU8",
        "resize_bilinear_u8": "tuner.kernels.resize_bilinear_u8:ResizeBilinearU8",
        "softmax_u8": "tuner.kernels.softmax_u8:SoftmaxU8",
        "gemm_i8": "tuner.kernels.gemm_i8:GemmI8",
        "gemm_u8_packed": "tuner.kernels.gemm_u8_packed:GemmU8Packed",
        "gemm_i8_packed": "tuner.kernels.gemm_i8_packed:GemmI8Packed",
        "conv2d_u8": "tuner.kernels.conv2d_u8:Conv2dU8",
        "qconv2d_u8": "tuner.kernels.qconv2d_u8:QConv2dU8",
        "qdepthwise_conv2d_u8": "tuner.kernels.qdepthwise_conv2d_u8:QDepthwiseConv2dU8",
        "qgemm_u8": "tuner.kernels.qgemm_u8:QGemmU8",
        "qadd_u8": "tuner.kernels.qadd_u8:QAddU8",
    },
    Kernel,
    choose_with="see `hvxtune kernel list`",
    variable=EXTRA_KERNELS_VARIABLE,
)

PIPELINE_PREFIX = "pipeline:"
"""Begins the names of kernels that are uploaded pipelines; the digest of their bytes follows."""
PACKAGE_PREFIX = "package:"
"""The same for packages: folders with a ``kernel.toml``."""
BLOCKED_PREFIX = "blocked:"
"""The same for layers between images in channel blocks; the kernel of other images follows it."""

_loaded: dict[str, Kernel] = {}


class KernelFamily(ABC):
    """Finds kernels whose names begin alike, such as uploads: a room above this one inherits it,
    and :func:`tuner.registry.add_family` names it. Safe for several threads."""

    @abstractmethod
    def find(self, name: str) -> Kernel:
        """The kernel called ``name``; ``UserError`` if it does not exist."""

    @abstractmethod
    def attached(self, name: str, attachment: Mapping[str, Any]) -> Kernel:
        """The kernel that made ``attachment``, in a process that can open no file."""

    def content(self, name: str) -> bytes | None:
        """The bytes that the kernel called ``name`` is read from, for :meth:`keep` on another
        machine; ``None`` where every machine has it. ``UserError`` if it does not exist."""
        return None

    def keep(self, content: bytes) -> None:
        """Makes the kernel that is read from ``content`` known on this machine, unless it is."""
        raise InternalError(f"{type(self).__name__} has kernels on every machine")


def kernel_names() -> list[str]:
    """The names of all kernels, in the order of the registry."""
    return _REGISTRY.names()


def find_kernel(name: str) -> Kernel:
    """The kernel called ``name``; ``UserError`` names the accepted ones otherwise.

    ``pipeline:DIGEST`` is an uploaded pipeline that is kept on this machine.
    """
    family: KernelFamily | None = _REGISTRY.family_of(name)
    if family is not None:
        return family.find(name)
    if name not in _loaded:
        _loaded[name] = _REGISTRY.find(name)()
        assert _loaded[name].source is not None  # noqa: S101 - read now: it names what is loaded
    return _loaded[name]


def kernel_class(name: str) -> type[Kernel]:
    """The class of a kernel of the registry: its code is imported, but not read and digested."""
    return _REGISTRY.find(name)


def attached_kernel(name: str, attachment: Mapping[str, Any]) -> Kernel:
    """The kernel that made ``attachment``, in a compile worker: see :meth:`Kernel.attachment`."""
    family: KernelFamily | None = _REGISTRY.family_of(name)
    if family is None:
        return find_kernel(name).attached(attachment)
    return family.attached(name, attachment)


def kernel_content(name: str) -> bytes | None:
    """What makes the kernel called ``name`` known on a machine that lacks it; ``None`` for those
    that come with hvxtune or are installed."""
    family: KernelFamily | None = _REGISTRY.family_of(name)
    return None if family is None else family.content(name)


def keep_kernel(name: str, content: bytes) -> None:
    """Makes the kernel called ``name`` known here by its :func:`kernel_content`."""
    family: KernelFamily | None = _REGISTRY.family_of(name)
    if family is not None:
        family.keep(content)


def load_kernels() -> None:
    """Loads the code of all kernels and families, for processes that can open no file later."""
    _REGISTRY.families()
    derivation()
    for name in kernel_names():
        with contextlib.suppress(HvxtuneError):  # one that cannot be loaded fails in its own jobs
            find_kernel(name)


__all__ = [
    "BLOCKED_PREFIX",
    "PACKAGE_PREFIX",
    "PIPELINE_PREFIX",
    "HalidePipeline",
    "Kernel",
    "KernelFamily",
    "Param",
    "WorkCounts",
    "attached_kernel",
    "find_kernel",
    "kernel_class",
    "kernel_names",
    "load_kernels",
]
