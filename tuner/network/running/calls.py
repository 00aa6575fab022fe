"""A layer as calls of its kernel: arguments from the network's tensors, and its output from theirs.

Kernels have channels last and elements as u8: those of i8 tensors are held with 128 added. Weights
are packed, and biases take up zero points, as when a network is compiled. An argument is either
such data, or a tensor of the network in the storage that the kernel reads or writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tuner.errors import InternalError
from tuner.kernels import channel_scale, find_kernel
from tuner.kernels.blocked import BlockedConv, BlockedDepthwiseConv, BlockedExpandedConv
from tuner.kernels.conv2d_u8 import QUAD
from tuner.network import fixed_point
from tuner.network.graph import Array, Graph, Node, Tensor
from tuner.network.layers import Fit, limits_of, scale_of_mean, scale_of_sums, settings_of_sum
from tuner.network.running.storage import Storage

_FLIP = 0x80
"""The sign bit: flipped in i8 elements that are held as u8, and back."""


@dataclass(frozen=True)
class Operand:
    """A tensor of the network as a buffer of a call: held in ``storage``, from ``offset_bytes`` of
    it on."""

    tensor: str
    storage: Storage
    offset_bytes: int = 0


@dataclass(frozen=True)
class Call:
    """One call of a kernel: its inputs in the order of its buffers, and its output."""

    inputs: tuple[Operand | Array, ...]
    output: Operand


@dataclass(frozen=True)
class _Layer:
    """A layer, for the rules here. ``operands`` are its inputs where they are known, ``blocks``
    and ``first`` are as in :class:`tuner.network.layers.Fit`."""

    graph: Graph
    node: Node
    params: Mapping[str, int]
    operands: Sequence[Array | None]
    like: Storage | None
    alignment_bytes: int
    blocks: str = ""
    first: Node | None = None

    def known(self, position: int) -> Array:
        """An input that becomes data of the call."""
        found = self.operands[position]
        if found is None:
            raise InternalError(f"node '{self.node.name}': input {position} is not known")
        return found

    def bias(self) -> list[Array]:
        """The bias, if the layer has one."""
        return [self.known(2)] if len(self.operands) > 2 else []

    def input(self, position: int) -> Tensor:
        """The tensor of an input."""
        return self.graph.tensors[[name for name in self.node.inputs if name][position]]

    @property
    def output(self) -> Tensor:
        """The tensor it makes."""
        return self.graph.tensors[self.node.outputs[0]]

    def image(self, tensor: Tensor, channels: int) -> Operand:
        """An image with channels last, in the room of ``channels``, or in blocks of them."""
        nhwc = (self.blocks or self.node.attributes["layout"]) == "nhwc"
        order = (0, 1, 2, 3) if nhwc else (0, 2, 3, 1)
        if self.blocks:
            return Operand(tensor.name, Storage.in_blocks(tensor.shape, order, _zero(tensor)))
        return Operand(tensor.name, Storage.of(tensor.shape, order, innermost=channels))

    def anyhow(self, tensor: Tensor) -> Operand:
        """Elements that may lie in any order, as those of the layer's other tensors do."""
        if self.blocks:
            return self.image(tensor, 0)
        like = self.like
        fits = like is not None and like.is_dense and like.shape == tensor.shape
        return Operand(tensor.name, like if fits and like else Storage.of(tensor.shape))


def takes_constants(graph: Graph, node: Node, fit: Fit) -> bool:
    """Whether :func:`calls` needs no more than the constants of ``graph``."""
    assert fit.workload is not None  # noqa: S101 - callers ask can_call first
    first = 2 if fit.workload.kernel == "qgemm_u8" else 1
    needed = [] if fit.workload.kernel == "qadd_u8" else fit.inputs(node)[first:]
    return all(graph.constant(name) is not None for name in needed if name)


def calls(
    graph: Graph,
    node: Node,
    fit: Fit,
    operands: Sequence[Array | None],
    *,
    like: Storage | None = None,
    alignment_bytes: int = 1,
) -> list[Call]:
    """The calls of a layer whose inputs are ``operands`` as far as they are known: constants, in
    the network's own layout. Where elements may lie in any order, they lie as in ``like``; each
    buffer begins at a multiple of ``alignment_bytes`` in its tensor's storage."""
    assert fit.workload is not None  # noqa: S101 - callers ask can_call first
    params = fit.workload.params
    layer = _Layer(graph, node, params, operands, like, alignment_bytes, fit.blocks, fit.first)
    return _RULES[fit.workload.kernel](layer)


def can_call(node: Node, fit: Fit) -> bool:
    """Whether :func:`calls` are known for ``node`` by its kernel."""
    return fit.workload is not None and fit.steps is not None and fit.workload.kernel in _RULES


def arguments(graph: Graph, node: Node, fit: Fit, operands: Sequence[Array]) -> list[list[Array]]:
    """The inputs of each of the layer's calls, in the order of the kernel's buffers, for the
    ``operands`` of the call (constants included) as the network has them."""
    assert fit.workload is not None  # noqa: S101 - callers ask can_call first
    specs = find_kernel(fit.workload.kernel).buffers(fit.workload.params)
    values = dict(zip(fit.inputs(node), operands, strict=True))
    memories: dict[Operand, Array] = {}

    def elements(given: Operand | Array, shape: tuple[int, ...]) -> Array:
        if not isinstance(given, Operand):
            return given
        whole = Operand(given.tensor, given.storage)
        if whole not in memories:
            memories[whole] = given.storage.placed(held(values[given.tensor]))
        return memories[whole][given.offset_bytes :][: prod(shape)].reshape(shape)

    return [
        [elements(given, spec.shape) for given, spec in zip(call.inputs, specs, strict=False)]
        for call in calls(graph, node, fit, operands)
    ]


def result(
    graph: Graph, node: Node, fit: Fit, operands: Sequence[Array], outputs: Sequence[Array]
) -> Array:
    """The output of ``node`` as the network has it, from those of its calls."""
    made = [call.output for call in calls(graph, node, fit, operands)]
    memory = np.zeros(made[0].storage.size_bytes, np.uint8)
    for operand, output in zip(made, outputs, strict=True):
        memory[operand.offset_bytes :][: output.size] = output.reshape(-1)
    return unheld(made[0].storage.taken(memory), graph.tensors[node.outputs[0]].dtype)


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


def _dense(layer: _Layer) -> list[Call]:
    weights, inner, outer = (
        layer.known(1),
        layer.params["channels_in"],
        layer.params["channels_out"],
    )
    source, made = layer.input(0), layer.output
    if layer.node.operator == "matmul":
        weights = weights.T[:, :, None, None]
        pixels = Operand(source.name, Storage.of(source.shape, innermost=inner))
        output = Operand(made.name, Storage.of(made.shape, innermost=outer))
    else:
        pixels, output = layer.image(source, inner), layer.image(made, outer)
    taps = _signed(weights)
    sums = taps.astype(np.int64).sum(axis=(1, 2, 3))
    settings = _settings(layer.graph, layer.node, sums, layer.bias(), outer)
    return [Call((pixels, _packed(taps, inner, outer), *settings), output)]


def _depthwise(layer: _Layer) -> list[Call]:
    depth = layer.params["channels"]
    taps = _signed(layer.known(1))[:, 0].transpose(1, 2, 0)
    sums = taps.astype(np.int64).sum(axis=(0, 1))
    settings = _settings(layer.graph, layer.node, sums, layer.bias(), depth)
    pixels = layer.image(layer.input(0), depth)
    packed = np.ascontiguousarray(taps)
    if layer.blocks:
        packed = BlockedDepthwiseConv().packed_weights(layer.params, taps)
    return [Call((pixels, packed, *settings), layer.image(layer.output, depth))]


def _expanded(layer: _Layer) -> list[Call]:
    """The depthwise layer after the one that makes its input."""
    assert layer.first is not None  # noqa: S101 - layouts pair them
    own = sum(bool(name) for name in layer.first.inputs)
    params = layer.params
    made = replace(layer, node=layer.first, first=None, operands=layer.operands[:own])
    windows = replace(
        layer,
        first=None,
        params={"channels": params["channels_out"]},
        operands=[None, *layer.operands[own:]],
    )
    (one,), (two,) = _dense(made), _depthwise(windows)
    return [Call((*one.inputs, *two.inputs[1:]), two.output)]


def _mean(layer: _Layer) -> list[Call]:
    """Ones by the pixels of an image, rows with channels last."""
    depth, count = layer.params["n"], layer.params["k"]
    found = fixed_point.multipliers(scale_of_mean(layer.graph, layer.node))
    assert found is not None  # noqa: S101 - the fit says so
    source, made = layer.input(0), layer.output
    zeros = (_zero(made), *limits_of(layer.graph, layer.node), _zero(source))
    inputs = (
        np.ones((1, count), np.uint8),
        layer.image(source, depth),
        np.zeros(depth, np.int32),
        np.repeat(found, depth),
        np.array([0, *zeros], np.uint8),
    )
    return [Call(inputs, layer.image(made, depth))]


def _product(layer: _Layer) -> list[Call]:
    if layer.node.operator == "average_pool":
        return _mean(layer)
    left, right, made = layer.input(0), layer.input(1), layer.output
    n = layer.params["n"]
    start, multiplier, numbers = _settings(
        layer.graph, layer.node, np.zeros(n, np.int64), layer.bias(), n
    )
    numbers = np.append(numbers, np.uint8(_zero(right)))
    if len(numbers) != channel_scale.NUMBERS + 1:
        raise InternalError(f"{len(numbers)} numbers of a product")
    if len(right.shape) == 2:  # all rows of all batches at once
        inputs = [Operand(tensor.name, Storage.of(tensor.shape)) for tensor in (left, right)]
        output = Operand(made.name, Storage.of(made.shape))
        return [Call((*inputs, start, multiplier, numbers), output)]
    batches = [
        [
            Operand(tensor.name, storage, batch * (storage.size_bytes // prod(tensor.shape[:-2])))
            for batch in range(prod(made.shape[:-2]))
        ]
        for tensor in (left, right, made)
        for storage in [Storage.of_matrices(tensor.shape, layer.alignment_bytes)]
    ]
    return [
        Call((a, b, start, multiplier, numbers), output)
        for a, b, output in zip(*batches, strict=True)
    ]


def _sum(layer: _Layer) -> list[Call]:
    settings = settings_of_sum(layer.graph, layer.node)
    assert settings is not None  # noqa: S101 - the fit says so
    made = layer.anyhow(layer.output)
    inputs: list[Operand | Array] = []
    for position in range(2):
        source = layer.input(position)
        if source.shape == layer.output.shape:
            inputs.append(layer.anyhow(source))
        else:  # a constant, once for each element of the other one
            repeated = np.broadcast_to(held(layer.known(position)), layer.output.shape)
            matrix = (layer.params["height"], layer.params["width"])
            inputs.append(made.storage.placed(repeated).reshape(matrix))
    return [Call((*inputs, *settings), made)]


def _table(layer: _Layer) -> list[Call]:
    """Tables are by the bits of an element; of those held with 128 added, the other half comes
    first."""
    table, source = held(layer.known(1)), layer.input(0)
    if source.dtype == "int8":
        table = np.roll(table, _FLIP)
    return [Call((layer.anyhow(source), table), layer.anyhow(layer.output))]


def _pool(layer: _Layer) -> list[Call]:
    depth = layer.params["channels"]
    return [Call((layer.image(layer.input(0), depth),), layer.image(layer.output, depth))]


_RULES: Mapping[str, Callable[[_Layer], list[Call]]] = {
    "qconv2d_u8": _dense,
    "qdepthwise_conv2d_u8": _depthwise,
    BlockedConv.name: _dense,
    BlockedDepthwiseConv.name: _depthwise,
    BlockedExpandedConv.name: _expanded,
    "qgemm_u8": _product,
    "qadd_u8": _sum,
    "lut_u8": _table,
    "max_pool_u8": _pool,
    "avg_pool_u8": _pool,
}
"""By kernel. Others run on the host, exactly."""
