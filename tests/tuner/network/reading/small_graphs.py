"""Networks of a few layers: what can lie between two kernels, and between a kernel and the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod, sqrt
from typing import Any

import numpy as np

from tuner.network import Graph, Node, Quantization, Tensor, checked
from tuner.network.graph import Array, data_digest

SPREAD = 40.0
"""Standard deviation that sums of products are scaled to, in steps."""


class Making:
    """A graph being made. Weights are seeded, and scaled to use the range of the output."""

    def __init__(self, seed: int, dtype: str = "uint8") -> None:
        self._rng = np.random.default_rng(seed)
        self._dtype = dtype
        self._tensors: dict[str, Tensor] = {}
        self._nodes: list[Node] = []
        self._data: dict[str, Array] = {}
        self._inputs: list[str] = []

    def input(self, *shape: int) -> str:
        name = self._tensor(shape, 0.05)
        self._inputs.append(name)
        return name

    def constant(self, array: Array, quantization: Quantization | None = None) -> str:
        name = f"c{len(self._tensors)}"
        digest = data_digest(array)
        self._data[digest] = array
        self._tensors[name] = Tensor(name, array.shape, array.dtype.name, quantization, digest)
        return name

    def bytes(self, *shape: int) -> str:
        """A constant like an activation."""
        limits = np.iinfo(self._dtype)
        array = self._rng.integers(limits.min, limits.max, shape, self._dtype, endpoint=True)
        return self.constant(array, Quantization.of(0.05, limits.min + 120))

    def _tensor(self, shape: tuple[int, ...], scale: float, zero: int | None = None) -> str:
        name = f"t{len(self._tensors)}"
        start = int(np.iinfo(self._dtype).min) + 120 if zero is None else zero
        self._tensors[name] = Tensor(name, shape, self._dtype, Quantization.of(scale, start))
        return name

    def scale(self, name: str) -> float:
        """Of a tensor."""
        quantization = self._tensors[name].quantization
        assert quantization is not None
        return quantization.scale[0]

    def node(
        self, operator: str, inputs: tuple[str, ...], made_shape: tuple[int, ...], scale: float,
        **how: Any,
    ) -> str:  # fmt: skip
        made = self._tensor(made_shape, scale)
        self._nodes.append(Node(f"{operator}_{len(self._nodes)}", operator, inputs, (made,), how))
        return made

    def _weights(self, *shape: int) -> tuple[str, float]:
        """Signed weights, and how many times the scale of a sum the output's is."""
        array = self._rng.integers(-128, 128, shape, np.int8)
        name = self.constant(array, Quantization.of(0.01, 0))
        return name, sqrt(prod(shape[1:])) * 74 * 74 / SPREAD

    def conv(
        self, x: str, outer: int, size: int = 3, stride: int = 1, *, depthwise: bool = False,
        layout: str = "nchw",
    ) -> str:  # fmt: skip
        shape = self._tensors[x].shape
        at, (row, column) = (1, (2, 3)) if layout == "nchw" else (3, (1, 2))
        weights, factor = self._weights(outer, 1 if depthwise else shape[at], size, size)
        bias = self.constant(self._rng.integers(-500, 500, outer, np.int32))
        made = list(shape)
        made[at] = outer
        made[row], made[column] = (-(-shape[axis] // stride) for axis in (row, column))
        before = size // 2
        return self.node(
            "conv",
            (x, weights, bias),
            tuple(made),
            self.scale(x) * 0.01 * factor,
            kernel=[size, size],
            strides=[stride, stride],
            dilations=[1, 1],
            pads=[before, before, before, before],
            layout=layout,
            group=outer if depthwise else 1,
        )

    def pool(self, operator: str, x: str, **how: Any) -> str:
        """Of 2 by 2 pixels."""
        batch, depth, rows, columns = self._tensors[x].shape
        window = {"kernel": [2, 2], "strides": [2, 2], "dilations": [1, 1], "pads": [0] * 4}
        shape = (batch, depth, rows // 2, columns // 2)
        return self.node(operator, (x,), shape, self.scale(x), **window, layout="nchw", **how)

    def dense(self, x: str, outer: int) -> str:
        """A product with constant weights."""
        shape = self._tensors[x].shape
        weights = self._rng.integers(-128, 128, (shape[-1], outer), np.int8)
        name = self.constant(weights, Quantization.of(0.01, 0))
        scale = self.scale(x) * 0.01 * sqrt(shape[-1]) * 74 * 74 / SPREAD
        return self.node("matmul", (x, name), (*shape[:-1], outer), scale)

    def product(self, a: str, b: str) -> str:
        """Of two activations."""
        left, right = self._tensors[a].shape, self._tensors[b].shape
        scale = self.scale(a) * self.scale(b) * sqrt(left[-1]) * 74 * 74 / SPREAD
        return self.node("matmul", (a, b), (*left[:-1], right[-1]), scale)

    def add(self, a: str, b: str) -> str:
        return self.node("add", (a, b), self._tensors[a].shape, self.scale(a) * 1.3)

    def mul(self, a: str, b: str) -> str:
        """No kernel has it."""
        scale = self.scale(a) * self.scale(b) * SPREAD
        return self.node("mul", (a, b), self._tensors[a].shape, scale)

    def table(self, x: str) -> str:
        """Which makes neighbours of neighbours, as functions do."""
        table = np.arange(255, -1, -1).astype(np.uint8).view(self._dtype)
        return self.node("table", (x, self.constant(table)), self._tensors[x].shape, 0.05)

    def reshape(self, x: str, *shape: int) -> str:
        made = self.node("reshape", (x,), shape, 1.0, shape=list(shape))
        self._tensors[made] = Tensor(made, shape, self._dtype, self._tensors[x].quantization)
        return made

    def graph(self, name: str, *outputs: str) -> Graph:
        return checked(
            name, list(self._tensors.values()), self._nodes, self._inputs, outputs, self._data
        )


def residual_block() -> Graph:
    m = Making(1, "int8")
    x = m.conv(m.input(1, 3, 8, 8), 24, stride=2)
    y = m.conv(m.conv(x, 24, depthwise=True), 24, size=1)
    return m.graph("residual block", m.add(x, y))


def two_branches() -> Graph:
    """In the model's order: off the host, on it, off, off."""
    m = Making(2)
    image = m.input(1, 4, 8, 8)
    first = m.conv(image, 16)
    host = m.mul(first, first)
    second = m.conv(image, 16, size=1)
    return m.graph("two branches", m.add(second, host))


def pools_and_tables() -> Graph:
    """A constant that is added, and outputs that other layers read."""
    m = Making(5, "int8")
    x = m.table(m.conv(m.input(1, 8, 8, 8), 16, layout="nchw"))
    sum_ = m.add(x, m.bytes(1, 16, 8, 8))
    pooled = m.pool("max_pool", sum_)
    return m.graph("pools and tables", m.conv(pooled, 16, size=1), pooled, sum_)


def averaged() -> Graph:
    """The mean of an image, in its scale and in another one, and the host in between."""
    m = Making(7)
    x = m.conv(m.input(1, 3, 10, 9), 16, layout="nchw")
    whole = {"kernel": [10, 9], "strides": [1, 1], "dilations": [1, 1], "pads": [0] * 4}
    window = {"kernel": [3, 2], "strides": [1, 1], "dilations": [1, 1], "pads": [1, 0, 1, 1]}
    near = m.node("average_pool", (x,), (1, 16, 10, 9), 0.02, **window, layout="nchw",
                  count_padding=0)  # fmt: skip
    how = {**whole, "layout": "nchw", "count_padding": 0}
    first = m.node("average_pool", (near,), (1, 16, 1, 1), 0.02, **how)
    second = m.node("average_pool", (x,), (1, 16, 1, 1), 0.05, **how)
    return m.graph("averaged", m.dense(m.reshape(second, 1, 16), 16), first)


def narrow() -> Graph:
    """Fewer channels than kernels have; their padding differs, and the host takes it off."""
    m = Making(6)
    x = m.conv(m.conv(m.input(1, 6, 6, 3), 10, layout="nhwc"), 5, size=1, layout="nhwc")
    return m.graph("narrow", m.table(x), x)


def moves() -> Graph:
    """Slices, one of them backwards, a concatenation, and transposes, one of them of an input
    straight to an output."""
    m = Making(10, "int8")
    image = m.input(1, 8, 6, 6)
    x = m.conv(image, 16, size=1)
    part = {"starts": [0, 2, 5, 1], "stops": [1, 14, -7, 6], "steps": [1, 3, -2, 1]}
    part = m.node("slice", (x,), (1, 4, 3, 5), 1.0, **part)
    other = m.node(
        "slice", (x,), (1, 4, 3, 5), 1.0,
        starts=[0, 0, 0, 0], stops=[1, 4, 3, 5], steps=[1] * 4,
    )  # fmt: skip
    whole = m.node("concat", (part, other, part), (1, 12, 3, 5), 1.0, axis=1)
    turned = m.node("transpose", (whole,), (1, 5, 12, 3), 1.0, order=[0, 3, 1, 2])
    straight = m.node("transpose", (image,), (6, 8, 1, 6), 1.0, order=[3, 1, 0, 2])
    return m.graph("moves", m.table(turned), straight, whole)


def enlarged() -> Graph:
    """Pixels that are repeated, of an image in blocks and of rows alone, and then joined."""
    m = Making(13)
    image = m.input(1, 4, 8, 8)
    how = {"mode": "nearest", "nearest": "round_prefer_floor", "coordinates": "half_pixel"}
    shape, scales = [1, 16, 24, 16], [1.0, 1.0, 3.0, 2.0]
    x = m.conv(image, 16)
    large = m.node("resize", (x,), tuple(shape), m.scale(x), shape=shape, scales=scales, **how)
    y = m.conv(large, 8)
    shape, scales = [1, 8, 24, 64], [1.0, 1.0, 1.0, 4.0]
    wide = m.node("resize", (y,), tuple(shape), m.scale(y), shape=shape, scales=scales, **how)
    return m.graph("enlarged", m.conv(wide, 8, size=1), large)


def heads() -> Graph:
    """Products of parts of rows, matrices that lie across each other, and a constant row added."""
    m = Making(12, "int8")
    x = m.dense(m.input(1, 6, 16), 48)
    x = m.node("add", (x, m.bytes(48)), (1, 6, 48), 0.6)
    parts = []
    for place in range(3):
        bounds = {"starts": [0, 0, 16 * place], "stops": [1, 6, 16 * (place + 1)]}
        part = m.node("slice", (x,), (1, 6, 16), 0.6, **bounds, steps=[1, 1, 1])
        parts.append(m.reshape(part, 1, 6, 2, 8))
    order = {"order": [0, 2, 1, 3]}
    queries, values = (m.node("transpose", (p,), (1, 2, 6, 8), 0.6, **order) for p in parts[::2])
    keys = m.node("transpose", (parts[1],), (1, 2, 8, 6), 0.6, order=[0, 2, 3, 1])
    mixed = m.product(m.product(queries, keys), values)
    mixed = m.node("transpose", (mixed,), (1, 6, 2, 8), m.scale(mixed), **order)
    return m.graph("heads", m.dense(m.reshape(mixed, 1, 6, 16), 16), mixed)


GRAPHS: Mapping[str, Callable[[], Graph]] = {
    "residual block": residual_block,
    "two branches": two_branches,
    "pools and tables": pools_and_tables,
    "averaged": averaged,
    "narrow": narrow,
    "moves": moves,
    "enlarged": enlarged,
    "heads": heads,
}
"""By name."""


def inputs_of(graph: Graph) -> dict[str, Array]:
    """Seeded elements over the whole range."""
    rng = np.random.default_rng(9)
    found = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        limits = np.iinfo(tensor.dtype)
        found[name] = rng.integers(
            limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True
        )
    return found
