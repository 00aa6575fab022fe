"""A layer as calls of its kernel: arguments from the network's tensors, and its output from theirs.

Kernels have channels last and elements as u8: those of i8 tensors are held with 128 added. Weights
are packed, and biases take up zero points, as when a network is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from tuner.errors import InternalError
from tuner.kernels import channel_scale
from tuner.kernels.conv2d_u8 import QUAD
from tuner.network import fixed_point
from tuner.network.graph import Array, Graph, Node, Tensor
from tuner.network.layers import Fit, limits_of, scale_of_sums, settings_of_sum
from tuner.network.reference import from_nhwc, to_nhwc

_FLIP = 0x80
"""The sign bit: flipped in i8 elements that are held as u8, and back."""


def can_call(node: Node, fit: Fit) -> bool:
    """Whether :func:`arguments` are known for ``node`` by its kernel."""
    return fit.workload is not None and fit.steps is not None and fit.workload.kernel in _ARGUMENTS


def arguments(graph: Graph, node: Node, fit: Fit, operands: Sequence[Array]) -> list[list[Array]]:
    """The inputs of each of the layer's calls, in the order of the kernel's buffers, for the
    ``operands`` of ``node`` (constants included) as the network has them."""
    assert fit.workload is not None  # noqa: S101 - callers ask can_call first
    return _ARGUMENTS[fit.workload.kernel](graph, node, fit.workload.params, operands)


def result(graph: Graph, node: Node, outputs: Sequence[Array]) -> Array:
    """The output of ``node`` as the network has it, from those of its calls."""
    made = graph.tensors[node.outputs[0]]
    layout = node.attributes.get("layout")
    whole = np.stack([*outputs])
    if layout is not None:
        extents = to_nhwc(np.empty(made.shape, np.uint8), layout).shape
        # Channels that only pad are left out.
        whole = from_nhwc(whole.reshape(*extents[:-1], -1)[..., : extents[-1]], layout)
    elif node.operator == "matmul":
        whole = whole.reshape(*made.shape[:-1], -1)[..., : made.shape[-1]]
    if whole.size != prod(made.shape):
        raise InternalError(f"node '{node.name}' made {whole.shape}, not {made.shape}")
    return unheld(whole.reshape(made.shape), made.dtype)


def held(elements: Array) -> Array:
    """u8 or i8 elements as u8."""
    if elements.dtype == np.int8:
        return elements.view(np.uint8) ^ np.uint8(_FLIP)
    return elements


def unheld(elements: Array, dtype: str) -> Array:
    """The inverse of :func:`held`."""
    return (elements ^ np.uint8(_FLIP)).view(np.int8) if dtype == "int8" else elements


def _zero(tensor: Tensor) -> int:
    assert tensor.quantization is not None  # noqa: S101 - integer nodes are quantized
    return tensor.quantization.zero_point[0] + _FLIP * (tensor.dtype == "int8")


def _signed(weights: Array) -> Array:
    """Weights less their zero point, as i8: those in u8 have 128."""
    return (weights ^ np.uint8(_FLIP)).view(np.int8) if weights.dtype == np.uint8 else weights


def _settings(
    graph: Graph, node: Node, sums_of_weights: Array, bias: Sequence[Array], channels: int
) -> list[Array]:
    """``bias``, ``multiplier`` and ``numbers`` of a kernel for ``channels``, of which the last may
    only pad."""
    image = _zero(graph.tensors[node.inputs[0]])
    made = len(sums_of_weights)
    folded = -image * sums_of_weights.astype(np.int64)
    if bias:
        folded += bias[0]
    found = fixed_point.multipliers(scale_of_sums(graph, node))
    assert found is not None  # noqa: S101 - the fit says so
    padding = (0, channels - made)
    multiplier = np.broadcast_to(found, (made,))
    numbers = [image, _zero(graph.tensors[node.outputs[0]]), *limits_of(graph, node)]
    return [
        np.pad(folded.astype(np.int32), padding),
        np.pad(multiplier, padding),
        np.array(numbers, np.uint8),
    ]


def _packed(weights: Array, inner: int, outer: int) -> Array:
    """Weights (out, in, rows, columns) in quads of input channels, with zeros up to ``inner`` and
    ``outer`` channels."""
    made, depth, rows, columns = weights.shape
    padded = np.pad(weights, ((0, outer - made), (0, inner - depth), (0, 0), (0, 0)))
    quads = padded.transpose(2, 3, 1, 0).reshape(rows, columns, inner // QUAD, QUAD, outer)
    shape = (rows, columns, inner // QUAD, QUAD * outer)
    return np.ascontiguousarray(quads.transpose(0, 1, 2, 4, 3).reshape(shape))


def _dense(
    graph: Graph, node: Node, params: Mapping[str, int], operands: Sequence[Array]
) -> list[list[Array]]:
    image, weights, *bias = operands
    if node.operator == "matmul":
        pixels = image.reshape(1, -1, image.shape[-1])
        weights = weights.T[:, :, None, None]
    else:
        pixels = to_nhwc(image, node.attributes["layout"])[0]
    inner, outer = params["channels_in"], params["channels_out"]
    pixels = np.pad(held(pixels), ((0, 0), (0, 0), (0, inner - pixels.shape[-1])))
    taps = _signed(weights)
    sums = taps.astype(np.int64).sum(axis=(1, 2, 3))
    settings = _settings(graph, node, sums, bias, outer)
    return [[np.ascontiguousarray(pixels), _packed(taps, inner, outer), *settings]]


def _depthwise(
    graph: Graph, node: Node, params: Mapping[str, int], operands: Sequence[Array]
) -> list[list[Array]]:
    image, weights, *bias = operands
    pixels = np.ascontiguousarray(held(to_nhwc(image, node.attributes["layout"])[0]))
    taps = _signed(weights)[:, 0].transpose(1, 2, 0)
    sums = taps.astype(np.int64).sum(axis=(0, 1))
    settings = _settings(graph, node, sums, bias, params["channels"])
    return [[pixels, np.ascontiguousarray(taps), *settings]]


def _product(
    graph: Graph, node: Node, params: Mapping[str, int], operands: Sequence[Array]
) -> list[list[Array]]:
    left, right, *bias = operands
    none = np.zeros(params["n"], np.int64)
    start, multiplier, numbers = _settings(graph, node, none, bias, params["n"])
    numbers = np.append(numbers, np.uint8(_zero(graph.tensors[node.inputs[1]])))
    if len(numbers) != channel_scale.NUMBERS + 1:
        raise InternalError(f"{len(numbers)} numbers of a product")
    rows = held(left).reshape(-1, params["m"], params["k"])
    columns = held(right).reshape(-1, params["k"], params["n"])
    return [[a, b, start, multiplier, numbers] for a, b in zip(rows, columns, strict=True)]


def _sum(
    graph: Graph, node: Node, params: Mapping[str, int], operands: Sequence[Array]
) -> list[list[Array]]:
    shape = (params["height"], params["width"])
    settings = settings_of_sum(graph, node)
    assert settings is not None  # noqa: S101 - the fit says so
    return [[*(held(operand).reshape(shape) for operand in operands), *settings]]


def _table(
    graph: Graph, node: Node, params: Mapping[str, int], operands: Sequence[Array]
) -> list[list[Array]]:
    elements, table = operands
    bytes_ = elements.view(np.uint8).reshape(params["height"], params["width"])
    return [[bytes_, held(table)]]


def _pool(
    graph: Graph, node: Node, params: Mapping[str, int], operands: Sequence[Array]
) -> list[list[Array]]:
    pixels = held(to_nhwc(operands[0], node.attributes["layout"])[0])
    return [[np.ascontiguousarray(pixels)]]


_ARGUMENTS: Mapping[
    str, Callable[[Graph, Node, Mapping[str, int], Sequence[Array]], list[list[Array]]]
] = {
    "qconv2d_u8": _dense,
    "qdepthwise_conv2d_u8": _depthwise,
    "qgemm_u8": _product,
    "qadd_u8": _sum,
    "lut_u8": _table,
    "max_pool_u8": _pool,
}
"""By kernel. Others run on the host, exactly."""
