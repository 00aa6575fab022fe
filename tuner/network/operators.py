"""The operators of a network: attributes, shapes and work. :mod:`tuner.network.reference` says
what each computes, exactly.

Attributes are plain JSON. Of windows: ``kernel``, ``strides``, ``dilations`` (rows, columns),
``pads`` (top, left, bottom, right) and ``layout``, ``nchw`` or ``nhwc``. Weights of a convolution
are (out, in / group, rows, columns) in either layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]
HOST = "host"
"""The operator of nodes that stay on the host: one node of the model as it was, in ``data``."""
LAYOUTS = ("nchw", "nhwc")
MOST_ELEMENTS = (1 << 31) - 1
"""Of a tensor: addresses have 32 bits, and sizes a sign."""


class ShapeError(Exception):
    """An operator cannot have operands of these shapes."""


@dataclass(frozen=True)
class Operator:
    """``shape`` derives the output's shape from the attributes and the inputs' shapes; ``macs``
    counts multiply-accumulates from these and the output's shape."""

    summary: str
    shape: Callable[[Attributes, Sequence[Shape]], Shape]
    macs: Callable[[Attributes, Sequence[Shape], Shape], int] = lambda attributes, shapes, made: 0


def pixels(shape: Shape, layout: str) -> tuple[int, int]:
    """Rows and columns of an image of a batch."""
    return shape[2:4] if layout == "nchw" else shape[1:3]  # type: ignore[return-value]


def channels(shape: Shape, layout: str) -> int:
    """Channels of an image of a batch."""
    return shape[1] if layout == "nchw" else shape[3]


def image_shape(batch: int, extents: tuple[int, int], depth: int, layout: str) -> Shape:
    """The shape of a batch of images."""
    return (batch, depth, *extents) if layout == "nchw" else (batch, *extents, depth)


def require_positive(attributes: Attributes) -> None:
    """Raises :class:`ShapeError` for windows of no size, or that do not move on."""
    for name in ("kernel", "strides", "dilations"):
        if min(attributes.get(name, (1,))) < 1:
            raise ShapeError(f"its {name} are {list(attributes[name])}, and none may be below 1")


def window_extents(attributes: Attributes, shape: Shape) -> tuple[int, int]:
    """Rows and columns of windows that lie within an image and its padding."""
    require_positive(attributes)
    top, left, bottom, right = attributes["pads"]
    dilations = attributes.get("dilations", (1, 1))
    made = []
    for extent, padding, size, stride, dilation in zip(
        pixels(shape, attributes["layout"]),
        (top + bottom, left + right),
        attributes["kernel"],
        attributes["strides"],
        dilations,
        strict=True,
    ):
        reach = (size - 1) * dilation + 1
        if not 0 <= padding <= MOST_ELEMENTS:
            raise ShapeError(f"its pads are {list(attributes['pads'])}, beyond {MOST_ELEMENTS}")
        if extent + padding < reach:
            raise ShapeError(f"a window of {reach} does not fit {extent} pixels padded {padding}")
        made.append((extent + padding - reach) // stride + 1)
    return made[0], made[1]


def _image(shape: Shape, attributes: Attributes) -> None:
    if len(shape) != 4:
        raise ShapeError(f"the input has {len(shape)} dimensions, not 4")
    if attributes["layout"] not in LAYOUTS:
        raise ShapeError(f"layout {attributes['layout']!r} is neither nchw nor nhwc")


def _conv(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    image, weights = shapes[0], shapes[1]
    layout, group = attributes["layout"], attributes["group"]
    _image(image, attributes)
    if len(weights) != 4 or tuple(weights[2:]) != tuple(attributes["kernel"]):
        raise ShapeError(f"weights are {list(weights)}")
    depth = channels(image, layout)
    if group < 1 or weights[0] % group or weights[1] * group != depth:
        raise ShapeError(f"weights {list(weights)} in {group} groups do not fit {depth} channels")
    if len(shapes) > 2 and shapes[2] not in ((), (weights[0],)):
        raise ShapeError(f"the bias is {list(shapes[2])}, not [{weights[0]}]")
    return image_shape(image[0], window_extents(attributes, image), weights[0], layout)


def _conv_macs(attributes: Attributes, shapes: Sequence[Shape], made: Shape) -> int:
    return prod(made) * prod(shapes[1][1:])


def _pool(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    image = shapes[0]
    _image(image, attributes)
    layout = attributes["layout"]
    extents = window_extents(attributes, image)
    return image_shape(image[0], extents, channels(image, layout), layout)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape operands broadcast to, as NumPy does it."""
    rank = max(len(shape) for shape in shapes)
    made = []
    for extents in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            raise ShapeError(f"shapes {' and '.join(str(list(s)) for s in shapes)} do not fit")
        made.append(wide.pop() if wide else 1)
    return tuple(made)


def _matmul(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    left, right = shapes[0], shapes[1]
    if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
        raise ShapeError(f"a product of {list(left)} and {list(right)}")
    if len(shapes) > 2 and shapes[2] not in ((), (right[-1],)):
        raise ShapeError(f"the bias is {list(shapes[2])}, not [{right[-1]}]")
    return (*broadcast([left[:-2], right[:-2]]), left[-2], right[-1])


def _matmul_macs(attributes: Attributes, shapes: Sequence[Shape], made: Shape) -> int:
    return prod(made) * shapes[0][-1]


def _same(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    return shapes[0]


def _concat(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    axis, first = attributes["axis"], shapes[0]
    if not 0 <= axis < len(first):
        raise ShapeError(f"axis {axis} of {len(first)} dimensions")
    for shape in shapes:
        if len(shape) != len(first) or any(
            mine != its for n, (mine, its) in enumerate(zip(first, shape, strict=True)) if n != axis
        ):
            raise ShapeError(f"{list(first)} and {list(shape)} along axis {axis}")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def _reshape(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    shape = tuple(attributes["shape"])
    if min(shape, default=1) < 0 or prod(shape) != prod(shapes[0]):
        raise ShapeError(f"{list(shapes[0])} does not fill {list(shape)}")
    return shape


def _transpose(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    order = attributes["order"]
    if sorted(order) != list(range(len(shapes[0]))):
        raise ShapeError(f"order {list(order)} of {len(shapes[0])} dimensions")
    return tuple(shapes[0][axis] for axis in order)


def _pad(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    before, after = attributes["before"], attributes["after"]
    shape = tuple(b + extent + a for b, extent, a in zip(before, shapes[0], after, strict=True))
    if min(*before, *after, 0) < 0:
        raise ShapeError("negative padding")
    return shape


def _slice(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    steps = zip(
        attributes["starts"], attributes["stops"], attributes["steps"], shapes[0], strict=True
    )
    return tuple(len(range(*slice(start, stop, step).indices(n))) for start, stop, step, n in steps)


def _resize(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    shape = tuple(attributes["shape"])
    if len(shape) != len(shapes[0]) or min(*shape, *shapes[0], 1) < 1:
        raise ShapeError(f"{list(shapes[0])} resized to {list(shape)}")
    return shape


def _resize_macs(attributes: Attributes, shapes: Sequence[Shape], made: Shape) -> int:
    resized = sum(a != b for a, b in zip(shapes[0], made, strict=True))
    return 2 * resized * prod(made) if attributes["mode"] == "linear" else 0


def _host(attributes: Attributes, shapes: Sequence[Shape]) -> Shape:
    return tuple(attributes["shape"])


def _host_macs(attributes: Attributes, shapes: Sequence[Shape], made: Shape) -> int:
    return int(attributes["macs"])


OPERATORS: Mapping[str, Operator] = {
    "conv": Operator("convolution, in groups, with bias, requantized", _conv, _conv_macs),
    "matmul": Operator("matrix product of batches, with bias, requantized", _matmul, _matmul_macs),
    "add": Operator("sum, requantized", lambda attributes, shapes: broadcast(shapes)),
    "mul": Operator(
        "product, requantized",
        lambda attributes, shapes: broadcast(shapes),
        lambda attributes, shapes, made: prod(made),
    ),
    "max_pool": Operator("maximum over windows", _pool),
    "average_pool": Operator("mean over windows, requantized", _pool),
    "concat": Operator("operands one after the other, each requantized", _concat),
    "resize": Operator("nearest or linear resizing, requantized", _resize, _resize_macs),
    "transpose": Operator("dimensions in another order", _transpose),
    "reshape": Operator("the same elements in another shape", _reshape),
    "pad": Operator("constant, edge or reflected padding", _pad),
    "slice": Operator("a part of each dimension", _slice),
    "table": Operator("each element looked up in 256 bytes", _same),
    "softmax": Operator("softmax along one axis, requantized", _same),
    "reinterpret": Operator("the same bytes read with another scale and zero point", _same),
    "quantize": Operator("real numbers to integers", _same),
    "dequantize": Operator("integers to real numbers", _same),
    HOST: Operator("an operator of the model that stays on the host", _host, _host_macs),
}
"""By name."""
