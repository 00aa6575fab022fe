"""Networks with channels last, which :mod:`tests.rig.models.twins` writes as TFLite models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np

from tests.tuner.network.reading.small_graphs import Making
from tuner.network import Graph, Quantization
from tuner.network.reading.building import same_pads, steps_of

Clip = tuple[float, float]
RELU, RELU6 = (0.0, inf), (0.0, 6.0)


class ChannelsLast(Making):
    """Windows are padded as TFLite does; weights may have a scale for each channel."""

    def __init__(
        self, seed: int, dtype: str = "int8", *, clips: bool = False, per_channel: bool = False
    ) -> None:
        super().__init__(seed, dtype)
        self.clips, self.per_channel = clips, per_channel

    def shape(self, x: str) -> tuple[int, ...]:
        return self._tensors[x].shape

    def made(
        self, operator: str, inputs: tuple[str, ...], shape: tuple[int, ...], scale: float,
        clip: Clip | None = None, **how: Any,
    ) -> str:  # fmt: skip
        """A node; its result is clipped if this network has clips."""
        name = self.node(operator, inputs, shape, scale, **how)
        held = self._tensors[name]
        if clip is not None and self.clips and held.quantization is not None:
            node = self._nodes[-1]
            bounds = steps_of(*clip, held.quantization, held.dtype)
            self._nodes[-1] = type(node)(node.name, operator, inputs, (name,), {**how, **bounds})
        return name

    def scaled(self, *shape: int, axis: int) -> tuple[str, float]:
        """Weights, with the largest scale that they have."""
        array = self._rng.integers(-127, 128, shape, np.int8)
        if not self.per_channel:
            return self.constant(array, Quantization.of(0.01, 0)), 0.01
        scales = self._rng.uniform(0.005, 0.01, shape[axis]).astype(np.float32)
        held = Quantization(tuple(map(float, scales)), (0,) * shape[axis], axis)
        return self.constant(array, held), 0.01

    def window(self, x: str, size: int, stride: int, *, same: bool = True) -> dict[str, Any]:
        kernel, strides, dilations = [size, size], [stride, stride], [1, 1]
        pads = same_pads(self.shape(x)[1:3], kernel, strides, dilations) if same else [0] * 4
        return {
            "kernel": kernel,
            "strides": strides,
            "dilations": dilations,
            "pads": pads,
            "layout": "nhwc",
        }

    def windows(self, x: str, outer: int, stride: int) -> tuple[int, int, int, int]:
        batch, rows, columns, _ = self.shape(x)
        return batch, -(-rows // stride), -(-columns // stride), outer

    def convolved(
        self, x: str, outer: int, size: int = 3, stride: int = 1, *, group: int = 1,
        clip: Clip | None = None,
    ) -> str:  # fmt: skip
        inner = self.shape(x)[3] // group
        weights, largest = self.scaled(outer, inner, size, size, axis=0)
        bias = self.constant(self._rng.integers(-500, 500, outer, np.int32))
        scale = self.scale(x) * largest * 74 * 74 * (inner * size * size) ** 0.5 / 40
        return self.made(
            "conv",
            (x, weights, bias),
            self.windows(x, outer, stride),
            scale,
            clip,
            **self.window(x, size, stride),
            group=group,
        )

    def depthwise(self, x: str, stride: int = 1, *, times: int = 1, clip: Clip = RELU6) -> str:
        depth = self.shape(x)[3]
        return self.convolved(x, depth * times, 3, stride, group=depth, clip=clip)

    def full(self, x: str, outer: int) -> str:
        weights, largest = self.scaled(self.shape(x)[-1], outer, axis=1)
        bias = self.constant(self._rng.integers(-500, 500, outer, np.int32))
        scale = self.scale(x) * largest * 74 * 74 * self.shape(x)[-1] ** 0.5 / 40
        return self.made("matmul", (x, weights, bias), (*self.shape(x)[:-1], outer), scale)

    def sum(self, a: str, b: str, clip: Clip | None = None) -> str:
        return self.made("add", (a, b), self.shape(a), self.scale(a) * 1.3, clip)

    def mean(self, x: str) -> str:
        batch, rows, columns, depth = self.shape(x)
        window = {"kernel": [rows, columns], "strides": [1, 1], "dilations": [1, 1]}
        return self.made(
            "average_pool",
            (x,),
            (batch, 1, 1, depth),
            self.scale(x) / 2,
            **window,
            pads=[0] * 4,
            layout="nhwc",
            count_padding=False,
        )

    def alike(self, operator: str, x: str, made: tuple[int, ...], **how: Any) -> str:
        """A result of the same scale as ``x``."""
        name = self.node(operator, (x,), made, 1.0, **how)
        held = self._tensors[x]
        self._tensors[name] = type(held)(name, made, held.dtype, held.quantization)
        return name

    def pooled(self, x: str, operator: str, size: int = 2, stride: int = 2) -> str:
        how = {"count_padding": False} if operator == "average_pool" else {}
        shape = self.windows(x, self.shape(x)[3], stride)
        return self.alike(operator, x, shape, **self.window(x, size, stride), **how)

    def resized(self, x: str, times: int, mode: str, coordinates: str) -> str:
        batch, rows, columns, depth = self.shape(x)
        shape = (batch, rows * times, columns * times, depth)
        floor = mode == "linear" and coordinates != "asymmetric"
        return self.alike(
            "resize",
            x,
            shape,
            mode=mode,
            coordinates=coordinates,
            nearest="round_prefer_ceil" if floor else "floor",
            shape=list(shape),
            scales=[1.0, float(times), float(times), 1.0],
        )

    def joined(self, *parts: str) -> str:
        held = self._tensors[parts[0]]
        shape = (*held.shape[:-1], sum(self.shape(part)[-1] for part in parts))
        name = self.node("concat", parts, shape, 1.0, axis=len(shape) - 1)
        self._tensors[name] = type(held)(name, shape, held.dtype, held.quantization)
        return name

    def sigmoid(self, x: str) -> str:
        held = self._tensors[x].quantization
        assert held is not None
        elements = np.arange(256, dtype=np.uint8).view(self._dtype).astype(np.float32)
        real = (elements - np.float32(held.zero_point[0])) * np.float32(held.scale[0])
        zero = int(np.iinfo(self._dtype).min)
        steps = np.rint(256 / (1 + np.exp(-real.clip(-80, 80)))) + zero
        limits = np.iinfo(self._dtype)
        table = self.constant(np.clip(steps, limits.min, limits.max).astype(self._dtype))
        return self._ended("table", (x, table))

    def softmax(self, x: str) -> str:
        return self._ended("softmax", (x,), axis=len(self.shape(x)) - 1)

    def _ended(self, operator: str, inputs: tuple[str, ...], **how: Any) -> str:
        """Results from 0 to 1, in the scale that TFLite demands of them."""
        made = self.node(operator, inputs, self.shape(inputs[0]), 1.0, **how)
        held = self._tensors[made]
        scale = Quantization.of(1 / 256, int(np.iinfo(self._dtype).min))
        self._tensors[made] = type(held)(made, held.shape, held.dtype, scale)
        return made


def mobilenet_block(**how: Any) -> Graph:
    """The ends of a MobileNetV2, and two of its blocks."""
    m = ChannelsLast(11, **how)
    x = m.convolved(m.input(1, 16, 16, 3), 16, stride=2, clip=RELU6)
    y = m.depthwise(m.convolved(x, 48, 1, clip=RELU6))
    x = m.sum(x, m.convolved(y, 16, 1))
    y = m.depthwise(m.convolved(x, 48, 1, clip=RELU6), stride=2)
    x = m.convolved(y, 24, 1)
    pooled = m.mean(m.convolved(x, 64, 1, clip=RELU6))
    found = m.full(m.alike("reshape", pooled, (1, 64), shape=[1, 64]), 10)
    return m.graph("block", m.softmax(found), found)


def u_net(**how: Any) -> Graph:
    """Down, up again by resizing, and what was there before beside it."""
    m = ChannelsLast(12, **how)
    first = m.convolved(m.input(1, 12, 12, 4), 16, clip=RELU)
    low = m.pooled(first, "max_pool")
    high = m.resized(m.convolved(low, 16, clip=RELU), 2, "nearest", "asymmetric")
    # Concatenated tensors have one scale in TFLite.
    both = m.joined(m.pooled(first, "max_pool", 3, 1), first)
    x = m.sum(m.convolved(both, 16, 1), high, RELU)
    x = m.resized(m.convolved(x, 8, group=2), 2, "linear", "half_pixel")
    return m.graph("u_net", m.sigmoid(m.pooled(x, "average_pool")), low)


NETWORKS: Mapping[str, Callable[..., Graph]] = {"block": mobilenet_block, "u_net": u_net}
"""By name. Each takes the dtype of activations, and whether to clip results, and to scale weights
by channel."""
