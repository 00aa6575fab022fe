"""Layers of quantized networks between images in channel blocks with padded rows (NC4HW4, NCHW4c).

A pixel's four channels of a block are one word, so that a vector of words is as many neighbouring
pixels: the layout in which HVX multiplies them by weights that are scalars (``vrmpy``) and makes
them. Rows of a block lie one after the other with one pixel between them, and with a row before and
after, all of the zero point: what lies around an image need not be tested for, and vectors run on
over the ends of rows.

They are kernels of a family, ``blocked:NAME``, of which the generator ``intrinsics`` alone makes
code. Their numbers, and so their results, are those of ``NAME``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tuner.errors import InternalError, UserError
from tuner.kernels import BLOCKED_PREFIX, KernelFamily, find_kernel
from tuner.kernels.conv2d_u8 import QUAD
from tuner.kernels.kernel import Array, BufferSpec, HalidePipeline, Kernel, Param, WorkCounts
from tuner.problem.workload import Problem
from tuner.space import Config, Directive, Space

_GRAIN = 32
"""Pixels that images and their parts begin at a multiple of: a vector of words, on any target."""
_BEHIND = 64
"""Pixels behind the last row, at least: windows two pixels apart load that many together."""


@dataclass(frozen=True)
class Blocks:
    """Where the pixels of an image of ``height`` x ``width`` in channel blocks are. Pixel (y, x) of
    each block is at ``first + y * pitch + x`` of its ``pixels``; all other places have the zero
    point."""

    height: int
    width: int

    @property
    def pitch(self) -> int:
        """From a row to the next."""
        return self.width + 1

    @property
    def first(self) -> int:
        """Of row 0: a row and a pixel before it."""
        return _grains(self.pitch + 1)

    @property
    def pixels(self) -> int:
        """Of a block, all places."""
        return self.first + _grains(_grains(self.pitch * self.height) + max(self.pitch, _BEHIND))

    def spec(self, name: str, channels: int, role: Any) -> BufferSpec:
        """The buffer of an image: (blocks, pixels, 4)."""
        return BufferSpec(name, "uint8", (channels // QUAD, self.pixels, QUAD), role)

    def packed(self, image: Array, zero: int) -> Array:
        """u8 of (height, width, channels) in blocks; the zero point fills the last one."""
        depth = image.shape[-1]
        made = np.full((-(-depth // QUAD), self.pixels, QUAD), zero, np.uint8)
        padded = np.pad(image, ((0, 0), (0, 0), (0, -depth % QUAD)), constant_values=zero)
        self._rows(made)[:, :, : self.width] = padded.reshape(
            self.height, self.width, -1, QUAD
        ).transpose(2, 0, 1, 3)
        return made

    def unpacked(self, blocks: Array) -> Array:
        """The inverse, whole blocks: (height, width, channels)."""
        rows = self._rows(blocks)[:, :, : self.width]
        return np.ascontiguousarray(rows.transpose(1, 2, 0, 3)).reshape(self.height, self.width, -1)

    def _rows(self, blocks: Array) -> Array:
        """A view: (blocks, height, pitch, 4)."""
        end = self.first + self.height * self.pitch
        return blocks[:, self.first : end].reshape(len(blocks), self.height, self.pitch, QUAD)


def _grains(pixels: int) -> int:
    return -(-pixels // _GRAIN) * _GRAIN


class BlockedKernel(Kernel):
    """A kernel of the family: ``plain`` is the one of images with channels last that has its
    numbers. It takes an image first and makes one."""

    generator = "intrinsics"
    plain: ClassVar[str]

    @abstractmethod
    def plain_params(self, params: Mapping[str, int]) -> dict[str, int]:
        """Those of :attr:`plain` for the same layer."""

    def weights(self, params: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of the weights here."""
        return find_kernel(self.plain).buffers(self.plain_params(params))[1].shape

    def packed_weights(self, params: Mapping[str, int], weights: Array) -> Array:
        """Weights of :attr:`plain` as they are here: by default the same."""
        return weights

    def plain_weights(self, params: Mapping[str, int], weights: Array) -> Array:
        """The inverse."""
        return weights

    def images(self, params: Mapping[str, int]) -> tuple[Blocks, Blocks]:
        """The input's and the output's."""
        plain = find_kernel(self.plain)
        source, *_, made = plain.buffers(self.plain_params(params))
        return Blocks(*source.shape[:2]), Blocks(*made.shape[:2])

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        plain = find_kernel(self.plain)
        source, _, *settings, made = plain.buffers(self.plain_params(params))
        before, after = self.images(params)
        return (
            before.spec("input", source.shape[2], "input"),
            BufferSpec("weights", "int8", self.weights(params), "input"),
            *settings,
            after.spec("output", made.shape[2], "output"),
        )

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Those of :attr:`plain`, laid out."""
        image, weights, *settings = find_kernel(self.plain).inputs(self.plain_params(params), rng)
        zero = int(settings[-1][0])
        blocks = self.images(params)[0].packed(image, zero)
        return [blocks, self.packed_weights(params, weights), *settings]

    def allowed_inputs(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        """With the zero point around the image."""
        blocks, *others = inputs
        image = self.images(params)[0]
        return [image.packed(image.unpacked(blocks), int(others[-1][0])), *others]

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        blocks, weights, *settings = inputs
        before, after = self.images(params)
        image = before.unpacked(blocks)
        given = [image, self.plain_weights(params, weights), *settings]
        (made,) = find_kernel(self.plain).reference(self.plain_params(params), given)
        return [after.packed(made, int(settings[-1][1]))]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        return find_kernel(self.plain).work(self.plain_params(params))

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        raise InternalError(f"{self.name} has no pipeline")

    def space(self, problem: Problem) -> Space:
        raise InternalError(f"{self.name} has no schedules")

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        raise InternalError(f"{self.name} has no schedules")


_HEIGHT = Param("height", 28, "rows of the input", 1)
_WIDTH = Param("width", 28, "columns of the input", 1)
_STRIDE = Param("stride", 1, "pixels between windows", 1, 2, is_extent=False)


class BlockedConv(BlockedKernel):
    """``qconv2d_u8`` of 1x1 pixels, or of 3x3 of which the first is one above and left of the image
    and the last one beyond it at most."""

    name = f"{BLOCKED_PREFIX}qconv2d_u8"
    plain = "qconv2d_u8"
    summary = "convolution layer between images in channel blocks, all numbers as data"
    params = (
        _HEIGHT,
        _WIDTH,
        Param("channels_in", 32, "input channels", QUAD, multiple=QUAD),
        Param("channels_out", 32, "output channels", 16, multiple=QUAD),
        Param("size", 1, "rows and columns of a window", 1, 3, is_extent=False),
        _STRIDE,
    )

    def plain_params(self, params: Mapping[str, int]) -> dict[str, int]:
        return {**params, **_around(params["size"])}


class BlockedDepthwiseConv(BlockedKernel):
    """``qdepthwise_conv2d_u8`` of windows whose first pixel is one above and left of the image.

    Weights are words of a column of the window, and a zero: (channels, columns, 4)."""

    name = f"{BLOCKED_PREFIX}qdepthwise_conv2d_u8"
    plain = "qdepthwise_conv2d_u8"
    summary = "3x3 depthwise layer between images in channel blocks, all numbers as data"
    params = (
        _HEIGHT,
        _WIDTH,
        Param("channels", 32, "channels", QUAD, multiple=QUAD),
        _STRIDE,
    )

    def plain_params(self, params: Mapping[str, int]) -> dict[str, int]:
        return {**params, **_around(3)}

    def weights(self, params: Mapping[str, int]) -> tuple[int, ...]:
        return (params["channels"], 3, QUAD)

    def packed_weights(self, params: Mapping[str, int], weights: Array) -> Array:
        columns = weights.transpose(2, 1, 0)
        return np.ascontiguousarray(np.pad(columns, ((0, 0), (0, 0), (0, 1))))

    def plain_weights(self, params: Mapping[str, int], weights: Array) -> Array:
        return np.ascontiguousarray(weights[:, :, :3].transpose(2, 1, 0))

    def allowed_inputs(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        blocks, weights, *settings = super().allowed_inputs(params, inputs)
        weights = self.packed_weights(params, self.plain_weights(params, weights))
        return [blocks, weights, *settings]


class BlockedExpandedConv(BlockedKernel):
    """``blocked:qconv2d_u8`` of 1x1 pixels, and of what it makes ``blocked:qdepthwise_conv2d_u8``:
    the beginning of an inverted residual. What lies between them need never leave L2."""

    name = f"{BLOCKED_PREFIX}qexpanded_conv2d_u8"
    plain = "qdepthwise_conv2d_u8"
    summary = "1x1 convolution and the 3x3 depthwise one of its results, in channel blocks"
    params = (
        _HEIGHT,
        _WIDTH,
        Param("channels_in", 32, "input channels", QUAD, multiple=QUAD),
        Param("channels_out", 32, "channels between, and of the output", 16, multiple=QUAD),
        _STRIDE,
    )

    @staticmethod
    def expansion(params: Mapping[str, int]) -> dict[str, int]:
        """The parameters of the first kernel."""
        return {name: params[name] for name in params if name != "stride"}

    def plain_params(self, params: Mapping[str, int]) -> dict[str, int]:
        first = ("height", "width", "stride")
        second = {**{name: params[name] for name in first}, "channels": params["channels_out"]}
        return {**second, **_around(3)}

    def _parts(
        self, params: Mapping[str, int]
    ) -> tuple[tuple[BlockedKernel, dict[str, int]], tuple[BlockedKernel, dict[str, int]]]:
        second = {k: v for k, v in self.plain_params(params).items() if k not in _around(3)}
        first = {**self.expansion(params), "size": 1, "stride": 1}
        return (BlockedConv(), first), (BlockedDepthwiseConv(), second)

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        (first, of_first), (second, of_second) = self._parts(params)
        _, *settings, made = second.buffers(of_second)
        renamed = [spec._replace(name=f"depthwise_{spec.name}") for spec in settings]
        return (*first.buffers(of_first)[:-1], *renamed, made)

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        (first, of_first), (second, of_second) = self._parts(params)
        own, others = first.inputs(of_first, rng), second.inputs(of_second, rng)[1:]
        others[-1][0] = own[-1][1]
        return [*own, *others]

    def allowed_inputs(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        """The zero point between is that of both."""
        (first, of_first), (second, of_second) = self._parts(params)
        own, others = first.allowed_inputs(of_first, inputs[:_INPUTS]), list(inputs[_INPUTS:])
        between = first.reference(of_first, own)
        others = second.allowed_inputs(of_second, [*between, *others])[1:]
        others[-1] = others[-1].copy()
        others[-1][0] = own[-1][1]
        return [*own, *others]

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        (first, of_first), (second, of_second) = self._parts(params)
        between = first.reference(of_first, inputs[:_INPUTS])
        return second.reference(of_second, [*between, *inputs[_INPUTS:]])

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        """That of both; what lies between them is neither read nor written."""
        (first, of_first), (second, of_second) = self._parts(params)
        one, two = first.work(of_first), second.work(of_second)
        between = one.written_bytes
        return WorkCounts(
            macs=one.macs + two.macs,
            lane_ops=one.lane_ops + two.lane_ops,
            read_bytes=one.read_bytes + two.read_bytes - between,
            written_bytes=two.written_bytes,
        )


_INPUTS = 5
"""Of the first kernel: image, weights, bias, multiplier, numbers."""


def _around(size: int) -> dict[str, int]:
    """Pixels of zero before and after the image, for an output of ceil(extent / stride)."""
    return {"before": size // 2, "after": size // 2}


_KERNELS: dict[str, Kernel] = {
    kernel.name: kernel() for kernel in (BlockedConv, BlockedDepthwiseConv, BlockedExpandedConv)
}


class BlockedKernels(KernelFamily):
    """The family."""

    def find(self, name: str) -> Kernel:
        if name not in _KERNELS:
            raise UserError(
                f"unknown kernel '{name}'",
                accepted=", ".join(_KERNELS),
                next_step="see docs/networks.md: networks choose these kernels themselves",
            )
        return _KERNELS[name]

    def attached(self, name: str, attachment: Mapping[str, Any]) -> Kernel:
        return self.find(name)
