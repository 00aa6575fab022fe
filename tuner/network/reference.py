"""Exact outputs of a network in NumPy: what every other form of it is compared with.

Sums are integers, in i32 (modulo 2**32). A requantization is float32, as onnxruntime defines it::

    q = saturate(rint(float32(sum) * (scale_in * scale_weights / scale_out)) + zero_point)

with halves to even, scales multiplied in this order in float32, and the result clipped to the
node's ``low`` and ``high``. Operators with more than one scale (add, concat, table) take each
element to a real number in float32 first. HVX code requantizes in fixed point
(:mod:`tuner.network.fixed_point`); the network's definition is this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tuner.errors import UserError
from tuner.network.graph import Array, Graph, Node, Quantization, Tensor
from tuner.network.operators import HOST, channels, window_extents

HostOperator = Callable[[Graph, Node, list[Array]], list[Array]]
"""Runs a node that stays on the host: :func:`tuner.network.reading.model_file.run_host_node`."""


class DLPackTensor(Protocol):
    """A tensor of any library that exports it by DLPack, on the CPU."""

    def __dlpack__(self, **how: Any) -> Any:
        """A capsule of the tensor."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Kind and number of the device that has it."""


Inputs = Mapping[str, Array | DLPackTensor]
"""By name: arrays, or tensors of another library, which are read where they are."""


def run(graph: Graph, inputs: Inputs, *, host: HostOperator | None = None) -> dict[str, Array]:
    """The outputs of ``graph`` by name, for ``inputs`` of the shapes and dtypes it states.

    Raises ``UserError`` for inputs that do not fit, and for nodes that stay on the host if ``host``
    is not given.
    """
    return {
        name: kept
        for name, kept in trace(graph, inputs, host=host).items()
        if name in graph.outputs
    }


def trace(graph: Graph, inputs: Inputs, *, host: HostOperator | None = None) -> dict[str, Array]:
    """All tensors of :func:`run` by name, constants included."""
    values: dict[str, Array] = {}
    for name in graph.inputs:
        values[name] = _input(graph.tensors[name], inputs)
    for name, tensor in graph.tensors.items():
        if tensor.data is not None:
            values[name] = graph.data[tensor.data]
    for node in graph.nodes:
        operands = [values[name] for name in node.inputs if name]
        made = outputs_of(graph, node, operands, host)
        values.update(zip(node.outputs, made, strict=True))
    return values


def outputs_of(
    graph: Graph, node: Node, operands: Sequence[Array], host: HostOperator | None
) -> list[Array]:
    """The outputs of any ``node`` of ``graph`` for ``operands``.

    Raises ``UserError`` if it stays on the host and ``host`` is not given.
    """
    if node.operator != HOST:
        return [computed(graph, node, operands)]
    if host is None:
        raise UserError(
            f"node '{node.name}' stays on the host: {node.reason}",
            next_step="give what runs it as host=",
        )
    return host(graph, node, [*operands])


def computed(graph: Graph, node: Node, operands: Sequence[Array]) -> Array:
    """The output of one ``node`` of ``graph`` for ``operands``; not for nodes on the host."""
    return _RULES[node.operator](_Call(graph, node), *operands)


def _input(tensor: Tensor, inputs: Inputs) -> Array:
    given = inputs.get(tensor.name)
    accepted = f"{tensor.dtype}{list(tensor.shape)}"
    if given is not None and not isinstance(given, np.ndarray):
        try:
            given = np.from_dlpack(given)
        except (AttributeError, TypeError, ValueError, BufferError, RuntimeError) as error:
            raise UserError(
                f"the input '{tensor.name}' is given as {type(given).__name__}: {error}",
                accepted=f"a NumPy array, or a tensor with DLPack on the CPU, of {accepted}",
            ) from None
    if given is None or given.shape != tensor.shape or given.dtype.name != tensor.dtype:
        found = "nothing" if given is None else f"{given.dtype.name}{list(given.shape)}"
        raise UserError(f"the input '{tensor.name}' is given {found}", accepted=accepted)
    return given


class _Call:
    """A node with its tensors at hand."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.attributes: Mapping[str, Any] = node.attributes
        self.inputs = [graph.tensors[name] for name in node.inputs if name]
        self.output = graph.tensors[node.outputs[0]]

    def scale(self, position: int) -> np.float32:
        """The one scale of an input."""
        return np.float32(_quantization(self.inputs[position]).scale[0])

    def centred(self, position: int, elements: Array) -> Array:
        """The elements of an input (i32) less their zero point."""
        tensor = self.inputs[position]
        _, zero = _quantization(tensor).along(len(tensor.shape))
        made: Array = elements.astype(np.int32) - zero
        return made

    def real(self, position: int, elements: Array) -> Array:
        """The real numbers (float32) that the elements of an input are."""
        tensor = self.inputs[position]
        scale, _ = _quantization(tensor).along(len(tensor.shape))
        return self.centred(position, elements).astype(np.float32) * scale

    def narrowed(self, scaled: Array) -> Array:
        """Numbers in units of the output's scale (float32) rounded, and saturated to the range."""
        _, zero = _quantization(self.output).along(0)
        limits = np.iinfo(self.output.dtype)
        low = self.attributes.get("low", limits.min)
        high = self.attributes.get("high", limits.max)
        # Clipped first: what float32 holds may be beyond i32.
        rounded = np.rint(np.clip(scaled, low - int(zero), high - int(zero)))
        made: Array = (rounded.astype(np.int32) + zero).astype(self.output.dtype)
        return made

    def quantized(self, real: Array) -> Array:
        """Real numbers (float32) as elements of the output."""
        return self.narrowed(real / np.float32(_quantization(self.output).scale[0]))

    def scale_of_sums(self, weights: Quantization, rank: int) -> Array:
        """Units of the output's scale in one of sums of products (float32); those of channels are
        shaped to broadcast over ``rank`` dimensions from the last one on."""
        made = self.scale(0) * np.array(weights.scale, np.float32)
        made = made / np.float32(_quantization(self.output).scale[0])
        return made if rank == 0 or len(made) == 1 else made.reshape((1,) * (rank - 1) + (-1,))


def _quantization(tensor: Tensor) -> Quantization:
    if tensor.quantization is None:
        raise UserError(f"tensor '{tensor.name}' has no scale, and its operator needs one")
    return tensor.quantization


def quantize_array(real: Array, quantization: Quantization, dtype: str) -> Array:
    """Real numbers as integers of ``dtype``: ``saturate(rint(real / scale) + zero_point)``."""
    scale, zero = quantization.along(real.ndim)
    limits = np.iinfo(dtype)
    steps = np.rint(real.astype(np.float32) / scale).astype(np.float64) + zero
    made: Array = np.clip(np.nan_to_num(steps, nan=0.0), limits.min, limits.max).astype(dtype)
    return made


def dequantize_array(elements: Array, quantization: Quantization) -> Array:
    """Integers as real numbers (float32): ``(q - zero_point) * scale``."""
    scale, zero = quantization.along(elements.ndim)
    made: Array = (elements.astype(np.int64) - zero).astype(np.float32) * scale
    return made


def _wrapped(sums: Array) -> Array:
    """Exact sums (float64) in i32."""
    made: Array = sums.astype(np.int64).astype(np.int32)
    return made


def to_nhwc(image: Array, layout: str) -> Array:
    """A batch of images with channels last."""
    return image if layout == "nhwc" else image.transpose(0, 2, 3, 1)


def from_nhwc(image: Array, layout: str) -> Array:
    """The inverse of :func:`to_nhwc`."""
    return image if layout == "nhwc" else np.ascontiguousarray(image.transpose(0, 3, 1, 2))


def _conv_sums(call: _Call, image: Array, weights: Array, *bias: Array) -> Array:
    attributes = call.attributes
    layout, group = attributes["layout"], attributes["group"]
    centred = to_nhwc(call.centred(0, image), layout).astype(np.float64)
    taps = call.centred(1, weights).astype(np.float64)
    rows, columns = window_extents(attributes, image.shape)
    outer, inner = weights.shape[0], weights.shape[1]
    padded = _padded(centred, attributes["pads"], 0)
    # Doubles hold the sums exactly (below 2**53), and are fast.
    sums = np.zeros((image.shape[0], rows, columns, outer))
    for (i, j), view in _windows(padded, attributes, rows, columns):
        tap = taps[:, :, i, j]
        if inner == 1 and outer == group:
            sums += view * tap[:, 0]
            continue
        for g in range(group):
            outs = slice(g * outer // group, (g + 1) * outer // group)
            ins = slice(g * inner, (g + 1) * inner)
            sums[..., outs] += view[..., ins] @ tap[outs].T
    if bias:
        sums += bias[0]
    return _wrapped(sums)


def _padded(image: Array, pads: list[int], value: float) -> Array:
    top, left, bottom, right = pads
    return np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)


def _windows(
    padded: Array, attributes: Mapping[str, Any], rows: int, columns: int
) -> Iterator[tuple[tuple[int, int], Array]]:
    """For each offset in a window, the pixels of all windows there: (batch, rows, columns,
    channels)."""
    down, across = attributes.get("dilations", (1, 1))
    step_y, step_x = attributes["strides"]
    for i in range(attributes["kernel"][0]):
        for j in range(attributes["kernel"][1]):
            view = padded[:, i * down :: step_y, j * across :: step_x][:, :rows, :columns]
            yield (i, j), view


def _conv(call: _Call, image: Array, weights: Array, *bias: Array) -> Array:
    sums = _conv_sums(call, image, weights, *bias)
    scale = call.scale_of_sums(_quantization(call.inputs[1]), 4)
    made = call.narrowed(sums.astype(np.float32) * scale)
    return from_nhwc(made, call.attributes["layout"])


def _matmul(call: _Call, left: Array, right: Array, *bias: Array) -> Array:
    a, b = (call.centred(n, x).astype(np.float64) for n, x in enumerate((left, right)))
    sums = _wrapped(np.matmul(a, b) + (bias[0] if bias else 0))
    scale = call.scale_of_sums(_quantization(call.inputs[1]), sums.ndim)
    return call.narrowed(sums.astype(np.float32) * scale)


def _add(call: _Call, a: Array, b: Array) -> Array:
    """In float32, by the ratios of scales, as onnxruntime's QLinearAdd."""
    out = np.float32(_quantization(call.output).scale[0])
    parts = [
        call.centred(n, elements).astype(np.float32) * (call.scale(n) / out)
        for n, elements in enumerate((a, b))
    ]
    return call.narrowed(parts[0] + parts[1])


def _mul(call: _Call, a: Array, b: Array) -> Array:
    products = call.centred(0, a) * call.centred(1, b)
    scale = call.scale(0) * call.scale(1) / np.float32(_quantization(call.output).scale[0])
    return call.narrowed(products.astype(np.float32) * scale)


def _max_pool(call: _Call, image: Array) -> Array:
    attributes = call.attributes
    rows, columns = window_extents(attributes, image.shape)
    lowest = np.iinfo(image.dtype).min
    padded = _padded(to_nhwc(image, attributes["layout"]), attributes["pads"], lowest)
    shape = (image.shape[0], rows, columns, padded.shape[3])
    made = np.full(shape, lowest, image.dtype)
    for _, view in _windows(padded, attributes, rows, columns):
        np.maximum(made, view, out=made)
    return from_nhwc(made, attributes["layout"])


def _average_pool(call: _Call, image: Array) -> Array:
    """Sums of elements less the zero point, in i32; padding adds nothing, and counts if
    ``count_padding``."""
    attributes = call.attributes
    layout = attributes["layout"]
    rows, columns = window_extents(attributes, image.shape)
    padded = _padded(to_nhwc(call.centred(0, image), layout), attributes["pads"], 0)
    sums = np.zeros((image.shape[0], rows, columns, channels(image.shape, layout)), np.int32)
    for _, view in _windows(padded, attributes, rows, columns):
        sums += view
    kernel_y, kernel_x = attributes["kernel"]
    counts = np.full((1, rows, columns, 1), kernel_y * kernel_x, np.float32)
    if not attributes["count_padding"]:
        inside = _padded(np.ones((1, *_pixels(image, layout), 1)), attributes["pads"], 0)
        views = (view for _, view in _windows(inside, attributes, rows, columns))
        counts = np.asarray(sum(views), np.float32)
    out = np.float32(_quantization(call.output).scale[0])
    scale = call.scale(0) / (out * np.maximum(counts, 1))
    return from_nhwc(call.narrowed(sums.astype(np.float32) * scale), layout)


def _pixels(image: Array, layout: str) -> tuple[int, int]:
    return image.shape[2:4] if layout == "nchw" else image.shape[1:3]


def _requantized(call: _Call, position: int, elements: Array) -> Array:
    """An operand in the output's scale; unchanged if it is the same."""
    tensor = call.inputs[position]
    if tensor.quantization == call.output.quantization and tensor.dtype == call.output.dtype:
        return elements
    return call.quantized(call.real(position, elements))


def _concat(call: _Call, *operands: Array) -> Array:
    parts = [_requantized(call, n, elements) for n, elements in enumerate(operands)]
    return np.concatenate(parts, axis=call.attributes["axis"])


def _resize(call: _Call, elements: Array) -> Array:
    attributes = call.attributes
    if attributes["mode"] == "nearest":
        for axis, size in enumerate(attributes["shape"]):
            if size != elements.shape[axis]:
                places = nearest_places(attributes, axis, elements.shape[axis])
                elements = elements.take(places, axis)
        return elements
    real = call.real(0, elements)
    for axis, size in enumerate(attributes["shape"]):
        if size != real.shape[axis]:
            real = _linear(attributes, axis, real)
    return call.quantized(real)


def _positions(attributes: Mapping[str, Any], axis: int, extent: int) -> Array:
    """Where each index of the output lies in the input (float32), by ONNX's rules."""
    size = attributes["shape"][axis]
    scale = np.float32(attributes["scales"][axis])
    at = np.arange(size, dtype=np.float32)
    match attributes["coordinates"]:
        case "asymmetric":
            return at / scale
        case "align_corners":
            return at * np.float32((extent - 1) / (size - 1)) if size > 1 else at * 0
        case "pytorch_half_pixel" if size == 1:
            return at * 0
        case _:
            return (at + np.float32(0.5)) / scale - np.float32(0.5)


def nearest_places(attributes: Mapping[str, Any], axis: int, extent: int) -> Array:
    """The index along ``axis`` of an operand of ``extent`` that each index of a nearest resizing
    has."""
    at = _positions(attributes, axis, extent)
    rounded = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_floor": np.ceil(at - np.float32(0.5)),
        "round_prefer_ceil": np.floor(at + np.float32(0.5)),
    }[attributes["nearest"]]
    made: Array = np.clip(rounded, 0, extent - 1).astype(np.int64)
    return made


def _linear(attributes: Mapping[str, Any], axis: int, real: Array) -> Array:
    extent = real.shape[axis]
    at = np.clip(_positions(attributes, axis, extent), 0, extent - 1)
    first = np.floor(at).astype(np.int64)
    shape = [1] * real.ndim
    shape[axis] = -1
    weight = (at - first).astype(np.float32).reshape(shape)
    second = np.minimum(first + 1, extent - 1)
    made: Array = real.take(first, axis) * (1 - weight) + real.take(second, axis) * weight
    return made


def _pad(call: _Call, elements: Array) -> Array:
    attributes = call.attributes
    widths = list(zip(attributes["before"], attributes["after"], strict=True))
    if attributes["mode"] == "constant":
        return np.pad(elements, widths, constant_values=attributes["value"])
    return np.pad(elements, widths, mode=attributes["mode"])


def _slice(call: _Call, elements: Array) -> Array:
    attributes = call.attributes
    steps = zip(attributes["starts"], attributes["stops"], attributes["steps"], strict=True)
    return elements[tuple(slice(start, stop, step) for start, stop, step in steps)]


def _table(call: _Call, elements: Array, table: Array) -> Array:
    return table[elements.view(np.uint8)]


def _softmax(call: _Call, elements: Array) -> Array:
    real = call.real(0, elements)
    axis = call.attributes["axis"]
    powers = np.exp(real - real.max(axis=axis, keepdims=True))
    return call.quantized(powers / powers.sum(axis=axis, keepdims=True))


def _reinterpret(call: _Call, elements: Array) -> Array:
    return elements


def _quantize(call: _Call, real: Array) -> Array:
    return quantize_array(real, _quantization(call.output), call.output.dtype)


def _dequantize(call: _Call, elements: Array) -> Array:
    return dequantize_array(elements, _quantization(call.inputs[0]))


_RULES: Mapping[str, Callable[..., Array]] = {
    "conv": _conv,
    "matmul": _matmul,
    "add": _add,
    "mul": _mul,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "concat": _concat,
    "resize": _resize,
    "transpose": lambda call, x: np.ascontiguousarray(x.transpose(call.attributes["order"])),
    "reshape": lambda call, x: x.reshape(call.attributes["shape"]),
    "pad": _pad,
    "slice": _slice,
    "table": _table,
    "softmax": _softmax,
    "reinterpret": _reinterpret,
    "quantize": _quantize,
    "dequantize": _dequantize,
}
