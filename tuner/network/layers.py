"""The layers of a network: the work of each, and the kernel that can do it.

A kernel fits a layer's shape, or not; whether its results are the network's is decided by numbers
that are data: scales, zero points and ranges. Kernels requantize in fixed point: how many steps
that is apart from the network's definition at most is known (:mod:`tuner.network.fixed_point`), or
counted over all values that a layer can meet.
Activations in i8 are held as u8, with 128 added to them and their zero point.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from tuner.errors import UserError
from tuner.kernels import find_kernel
from tuner.kernels.conv2d_u8 import QUAD
from tuner.kernels.qadd_u8 import MOST_SHIFT, MULTIPLIER_BITS
from tuner.network import fixed_point
from tuner.network.graph import Array, Graph, Node, Tensor, Work
from tuner.network.operators import HOST, channels, pixels
from tuner.problem.workload import Workload
from tuner.records.batch import NetworkLayer

FEWEST_CHANNELS = 16
"""Output channels of a dense layer: with fewer, Halide 21 reads beyond the weights."""
_FLIP = 128
"""Added to i8 elements that are held as u8."""


@dataclass(frozen=True)
class Fit:
    """The workload that has a layer's shape, if a kernel has.

    ``steps`` is how far its results are from the network's at most, 0 if they are the same;
    ``None`` if the kernel cannot take the layer's numbers at all. ``note`` says why. ``calls`` is
    the number of calls that the layer takes. ``blocks`` is the order of dimensions that the network
    has its images in, ``nchw`` or ``nhwc``, if the kernel has them in channel blocks; else empty.
    A call may do the work of two layers: the fit of the later one then has the node ``first``, and
    that of the earlier one says ``within`` which layer it is done, and has no workload. ``steps``
    is then that of each by itself.
    """

    workload: Workload | None = None
    steps: int | None = None
    note: str = ""
    calls: int = 1
    blocks: str = ""
    first: Node | None = None
    within: str = ""

    def inputs(self, node: Node) -> list[str]:
        """The tensors that the call for ``node`` reads."""
        own = [name for name in node.inputs if name]
        return [*filter(None, self.first.inputs), *own[1:]] if self.first else own


@dataclass(frozen=True)
class Layer:
    """A node with the shape of its first output, the bytes of all, its work, its share of the
    network's (of multiply-accumulates, and of bytes moved), the number of layers that differ from
    it in data alone, itself included, and the kernel that fits."""

    node: Node
    shape: tuple[int, ...]
    output_bytes: int
    work: Work
    share_of_macs: float
    share_of_bytes: float
    signature: str
    alike: int
    fit: Fit


class _UnfitError(Exception):
    """No kernel has the layer's shape; the text says why."""


def layers(graph: Graph) -> list[Layer]:
    """All nodes of ``graph`` as layers, in its order."""
    works = [graph.work(node) for node in graph.nodes]
    macs = sum(work.macs for work in works) or 1
    moved = sum(work.moved_bytes for work in works) or 1
    signatures = [graph.signature(node) for node in graph.nodes]
    alike = Counter(signatures)
    return [
        Layer(
            node,
            graph.tensors[node.outputs[0]].shape,
            sum(graph.tensors[name].payload_bytes for name in node.outputs),
            work,
            work.macs / macs,
            work.moved_bytes / moved,
            signature,
            alike[signature],
            fit(graph, node),
        )
        for node, work, signature in zip(graph.nodes, works, signatures, strict=True)
    ]


def calls_of(found: Iterable[Layer]) -> list[tuple[str, Workload]]:
    """Each call of the layers that a kernel has the shape of, by name, with its workload."""
    return [
        (layer.node.name + (f", call {call + 1}" if call else ""), layer.fit.workload)
        for layer in found
        if layer.fit.workload is not None
        for call in range(layer.fit.calls)
    ]


def recorded(found: Iterable[Layer]) -> tuple[NetworkLayer, ...]:
    """The layers of a network, in its order, as the record of a batch keeps them."""
    layers = list(found)
    made_by = {name: n for n, layer in enumerate(layers) for name in layer.node.outputs}
    return tuple(
        NetworkLayer(
            name=layer.node.name,
            operator=layer.node.source if layer.node.operator == HOST else layer.node.operator,
            workload=layer.fit.workload.digest if layer.fit.workload else None,
            kernel=layer.fit.workload.kernel if layer.fit.workload else None,
            calls=layer.fit.calls,
            macs=layer.work.macs,
            share_of_macs=layer.share_of_macs,
            steps=layer.fit.steps,
            on_host=layer.node.operator == HOST,
            note=layer.fit.note,
            reads=tuple(sorted({made_by[name] for name in layer.node.inputs if name in made_by})),
            output_bytes=layer.output_bytes,
            within=layer.fit.within,
        )
        for layer in layers
    )


def workload_set(graph: Graph, found: Sequence[Layer]) -> str:
    """:func:`calls_of` as the text of a set for ``tune --set`` (:mod:`tuner.workload_sets`)."""
    tables = [f"summary = {_toml(f'{graph.name}, as imported')}"]
    for name, workload in calls_of(found):
        params = ", ".join(f"{key} = {value}" for key, value in workload.params.items())
        kernel = _toml(workload.kernel)
        tables.append(
            f"[[layers]]\nname = {_toml(name)}\nkernel = {kernel}\nparams = {{ {params} }}"
        )
    return "\n\n".join(tables) + "\n"


def _toml(text: str) -> str:
    """``text`` as a basic string of TOML, which takes JSON's except for one character."""
    return json.dumps(text).replace("\x7f", "\\u007F")


def fit(graph: Graph, node: Node) -> Fit:
    """The kernel for ``node``."""
    if node.operator == HOST:
        return Fit(note=node.reason)
    rule = _RULES.get(node.operator)
    if rule is None:
        return Fit(note=_WITHOUT.get(node.operator, "no kernel yet"))
    try:
        return rule(graph, node)
    except _UnfitError as unfit:
        return Fit(note=str(unfit))
    except UserError as error:
        return Fit(note=error.message)


def _workload(kernel: str, **params: int) -> Workload:
    return find_kernel(kernel).workload(params)


def _zero(tensor: Tensor) -> int:
    """The zero point of a tensor held as u8."""
    assert tensor.quantization is not None  # noqa: S101 - integer nodes are quantized
    return tensor.quantization.zero_point[0] + (_FLIP if tensor.dtype == "int8" else 0)


def _scale(tensor: Tensor) -> np.float32:
    assert tensor.quantization is not None  # noqa: S101 - integer nodes are quantized
    return np.float32(tensor.quantization.scale[0])


def _one_image(tensor: Tensor) -> None:
    if tensor.shape[0] != 1:
        raise _UnfitError(f"a batch of {tensor.shape[0]} images, not 1")


def _square(node: Node) -> tuple[int, int]:
    """Size and stride of a window that is alike both ways."""
    (rows, columns), (down, across) = node.attributes["kernel"], node.attributes["strides"]
    if rows != columns or down != across:
        raise _UnfitError(f"windows of {rows}x{columns}, {down}x{across} apart, not square")
    if any(dilation != 1 for dilation in node.attributes["dilations"]):
        raise _UnfitError("dilated windows")
    return rows, down


def _centred(graph: Graph, node: Node, before: int, stride: int) -> tuple[int, int]:
    """Rows and columns of the input of windows that begin ``before`` pixels outside it."""
    source, made = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    layout = node.attributes["layout"]
    extents = pixels(source.shape, layout)
    top, left, _, _ = node.attributes["pads"]
    if (top, left) != (before, before):
        raise _UnfitError(f"windows begin {top} rows and {left} columns outside, not {before}")
    wanted = tuple(ceil(extent / stride) for extent in extents)
    if pixels(made.shape, layout) != wanted:
        raise _UnfitError(
            f"{'x'.join(map(str, pixels(made.shape, layout)))} windows, "
            f"not {'x'.join(map(str, wanted))}"
        )
    return extents


def _windows(graph: Graph, node: Node, size: int, stride: int) -> dict[str, int]:
    """The parameters of windows that may reach beyond the image, alike both ways."""
    source, made = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    layout = node.attributes["layout"]
    extents, wanted = pixels(source.shape, layout), pixels(made.shape, layout)
    top, left, _, _ = node.attributes["pads"]
    if top != left:
        raise _UnfitError(f"windows begin {top} rows and {left} columns outside, not alike")
    for after in range(size):
        made_of = [(extent + top + after - size) // stride + 1 for extent in extents]
        if tuple(made_of) == tuple(wanted):
            return {"stride": stride, "before": top, "after": after}
    raise _UnfitError(
        f"{'x'.join(map(str, wanted))} windows, which no padding alike both ways makes"
    )


def scale_of_sums(graph: Graph, node: Node) -> Array:
    """Units of the output in one of the sums of products of ``node``, one for each channel or one
    for all (float32): as the reference rounds them."""
    image, weights = (graph.tensors[name] for name in node.inputs[:2])
    made = graph.tensors[node.outputs[0]]
    assert weights.quantization is not None  # noqa: S101 - integer nodes are quantized
    scales = _scale(image) * np.array(weights.quantization.scale, np.float32)
    found: Array = scales / _scale(made)
    return found


def _requantized(graph: Graph, node: Node, kernel: str, shape: Mapping[str, int]) -> Fit:
    """``kernel`` in ``shape``, if it can have the numbers of ``node``."""
    workload = _workload(kernel, **shape)
    weights = graph.tensors[node.inputs[1]]
    if weights.data is not None:
        zeros = set(_zeros(weights))
        if kernel == "qgemm_u8" and len(zeros) > 1:
            return Fit(workload, None, "weights with a zero point for each channel")
        if kernel != "qgemm_u8" and zeros != {_symmetric(weights)}:
            return Fit(workload, None, "weights with a zero point")
    scales = scale_of_sums(graph, node)
    if fixed_point.multipliers(scales) is None:
        least, most = float(scales.min()), float(scales.max())
        return Fit(workload, None, f"scales {least:.3g} to {most:.3g}, not from 2**-20 to 1")
    return Fit(workload, 1)


def _symmetric(weights: Tensor) -> int:
    """The zero point of weights that are signed bytes, whichever way they are held."""
    return _FLIP if weights.dtype == "uint8" else 0


def _zeros(tensor: Tensor) -> tuple[int, ...]:
    return tensor.quantization.zero_point if tensor.quantization else ()


def _conv(graph: Graph, node: Node) -> Fit:
    image, weights = (graph.tensors[name] for name in node.inputs[:2])
    layout, group = node.attributes["layout"], node.attributes["group"]
    _one_image(image)
    size, stride = _square(node)
    rows, columns = pixels(image.shape, layout)
    depth, outer = channels(image.shape, layout), weights.shape[0]
    shape = {"height": rows, "width": columns, **_windows(graph, node, size, stride)}
    if group == 1:
        return _requantized(graph, node, "qconv2d_u8", {**shape, **_dense(depth, outer, size)})
    if not group == depth == outer:
        raise _UnfitError(f"{group} groups of {depth // group} channels, neither 1 nor depthwise")
    if size != 3:
        raise _UnfitError(f"a depthwise window of {size}x{size}, not 3x3")
    return _requantized(graph, node, "qdepthwise_conv2d_u8", {**shape, "channels": depth})


def _dense(depth: int, outer: int, size: int) -> dict[str, int]:
    """Channels as the kernel takes them: inputs in quads, and no fewer outputs than
    :data:`FEWEST_CHANNELS`. Those added have weights of zero."""
    return {
        "channels_in": -(-depth // QUAD) * QUAD,
        "channels_out": max(outer, FEWEST_CHANNELS),
        "size": size,
    }


def _matmul(graph: Graph, node: Node) -> Fit:
    left, right = (graph.tensors[name] for name in node.inputs[:2])
    rows, inner, outer = prod(left.shape[:-1]), left.shape[-1], right.shape[-1]
    if right.data is not None and len(right.shape) == 2:
        if set(_zeros(right)) == {_symmetric(right)}:
            # A convolution over one row of pixels, whose weights are constant.
            shape = {"height": 1, "width": rows, **_dense(inner, outer, 1)}
            return _requantized(graph, node, "qconv2d_u8", shape)
        return _requantized(graph, node, "qgemm_u8", {"m": rows, "n": outer, "k": inner})
    if left.shape[:-2] != right.shape[:-2]:
        raise _UnfitError(f"batches {list(left.shape[:-2])} and {list(right.shape[:-2])}")
    shape = {"m": left.shape[-2], "n": outer, "k": inner}
    found = _requantized(graph, node, "qgemm_u8", shape)
    return replace(found, calls=prod(left.shape[:-2]))


def _rows(tensor: Tensor) -> tuple[int, int]:
    """Height and width of a tensor as a matrix: an image's channels and columns are one row."""
    if len(tensor.shape) == 4:
        _one_image(tensor)
        return tensor.shape[2], tensor.shape[1] * tensor.shape[3]
    return prod(tensor.shape[:-1]), tensor.shape[-1]


def _add(graph: Graph, node: Node) -> Fit:
    a, b = (graph.tensors[name] for name in node.inputs)
    made = graph.tensors[node.outputs[0]]
    if any(tensor.shape != made.shape and tensor.data is None for tensor in (a, b)):
        raise _UnfitError(f"{list(a.shape)} and {list(b.shape)}, not of one shape")
    height, width = _rows(made)
    workload = _workload("qadd_u8", height=height, width=width)
    settings = settings_of_sum(graph, node)
    ratios = [_scale(tensor) / _scale(made) for tensor in (a, b)]
    if settings is None:
        note = f"scales {ratios[0]:.3g} and {ratios[1]:.3g} times the output's, more than 64"
        return Fit(workload, None, note)
    byte = np.arange(256, dtype=np.int32)
    first, second = byte[:, None] - _zero(a), byte[None, :] - _zero(b)
    exact = first.astype(np.float32) * ratios[0]
    low, high = limits_of(graph, node)
    exact = np.rint(exact + second.astype(np.float32) * ratios[1]) + _zero(made)
    pairs = [plane.astype(np.uint8) for plane in np.broadcast_arrays(byte[:, None], byte)]
    kernel = find_kernel("qadd_u8")
    (apart,) = kernel.reference({"height": 256, "width": 256}, [*pairs, *settings])
    return Fit(workload, _steps(np.clip(exact, low, high), apart))


def settings_of_sum(graph: Graph, node: Node) -> list[Array] | None:
    """``scales`` and ``limits`` of ``qadd_u8`` for an addition; ``None`` if a scale is more than 64
    times the output's."""
    a, b = (graph.tensors[name] for name in node.inputs)
    made = graph.tensors[node.outputs[0]]
    ratios = [float(_scale(tensor) / _scale(made)) for tensor in (a, b)]
    most = (1 << MULTIPLIER_BITS) - 1
    shift = next((s for s in range(MOST_SHIFT, 9, -1) if max(ratios) * 2**s <= most), None)
    if shift is None:
        return None
    multipliers = [round(ratio * 2**shift) for ratio in ratios]
    start = (_zero(made) << shift) + (1 << (shift - 1))
    start -= sum(_zero(t) * by for t, by in zip((a, b), multipliers, strict=True))
    return [np.array([*multipliers, start, shift], np.int32), limits_of(graph, node)]


def limits_of(graph: Graph, node: Node) -> Array:
    """The lowest and the highest output of ``node``, held as u8."""
    made = graph.tensors[node.outputs[0]]
    ends = np.iinfo(made.dtype)
    flip = _FLIP * (made.dtype == "int8")
    attributes = node.attributes
    found = (attributes.get("low", ends.min) + flip, attributes.get("high", ends.max) + flip)
    return np.array(found, np.uint8)


def _steps(exact: Array, made: Array) -> int:
    return int(np.abs(np.clip(exact, 0, 255) - made.astype(np.int64)).max())


def _max_pool(graph: Graph, node: Node) -> Fit:
    image = graph.tensors[node.inputs[0]]
    _one_image(image)
    size, stride = _square(node)
    rows, columns = _centred(graph, node, max(0, size - stride + 1) // 2, stride)
    depth = channels(image.shape, node.attributes["layout"])
    shape = {"height": rows, "width": columns, "channels": depth}
    return Fit(_workload("max_pool_u8", **shape, size=size, stride=stride), 0)


def _average_pool(graph: Graph, node: Node) -> Fit:
    image = graph.tensors[node.inputs[0]]
    _one_image(image)
    if any(node.attributes["pads"]):
        raise _UnfitError("windows that reach beyond the image")
    layout = node.attributes["layout"]
    depth = channels(image.shape, layout)
    whole = tuple(node.attributes["kernel"]) == tuple(pixels(image.shape, layout))
    try:
        found = _windowed_mean(graph, node)
    except (_UnfitError, UserError):
        if not whole:
            raise
        found = Fit()
    if found.steps is not None or not whole:
        return found
    # The mean of an image is a product: a row of ones by the matrix of its pixels.
    count = prod(node.attributes["kernel"])
    workload = _workload("qgemm_u8", m=1, n=depth, k=count)
    scale = scale_of_mean(graph, node)
    if fixed_point.multipliers(scale) is None:
        note = f"scale {float(scale[0] * count):.3g} times the output's, not from 2**-20 to 1"
        return Fit(workload, None, f"{note}, by {count} pixels")
    return Fit(workload, 1)


def scale_of_mean(graph: Graph, node: Node) -> Array:
    """Units of the output in the sum over a window of ``node``, as the reference has them: float32
    of shape (1,)."""
    image, made = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    count = np.float32(prod(node.attributes["kernel"]))
    return np.array([_scale(image) / (_scale(made) * count)], np.float32)


def _windowed_mean(graph: Graph, node: Node) -> Fit:
    image, made = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    size, stride = _square(node)
    layout = node.attributes["layout"]
    rows, columns = pixels(made.shape, layout)
    if (stride * (rows - 1) + size, stride * (columns - 1) + size) != pixels(image.shape, layout):
        raise _UnfitError("windows that leave out the last pixels")
    shape = {"height": rows, "width": columns, "channels": channels(image.shape, layout)}
    workload = _workload("avg_pool_u8", **shape, size=size, stride=stride)
    if (_scale(image), _zero(image)) != (_scale(made), _zero(made)):
        return Fit(workload, None, "the output has another scale, the kernel keeps the input's")
    low, high = limits_of(graph, node)
    if (low, high) != (0, 255):
        return Fit(workload, None, f"results are held within {low} and {high}")
    count = size * size
    totals = np.arange(255 * count + 1)
    centred = (totals - count * _zero(image)).astype(np.float32)
    exact = np.rint(centred * scale_of_mean(graph, node)) + _zero(made)
    return Fit(workload, _steps(exact, (totals + count // 2) // count))


def _table(graph: Graph, node: Node) -> Fit:
    height, width = _rows(graph.tensors[node.inputs[0]])
    return Fit(_workload("lut_u8", height=height, width=width), 0)


def _softmax(graph: Graph, node: Node) -> Fit:
    source, made = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if node.attributes["axis"] != len(source.shape) - 1:
        raise _UnfitError("it does not run along rows")
    workload = _workload("softmax_u8", height=prod(source.shape[:-1]), width=source.shape[-1])
    if (float(_scale(made)), _zero(made)) != (1 / 256, 0):
        return Fit(workload, None, "the output's scale is not 1/256 from 0")
    return Fit(workload, 1, "exponentials from a table, in fixed point")


def _resize(graph: Graph, node: Node) -> Fit:
    source, made = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    attributes = node.attributes
    if attributes["mode"] != "linear":
        raise _UnfitError("no kernel yet for nearest resizing")
    if len(source.shape) != 4 or source.shape[:2] != made.shape[:2]:
        raise _UnfitError("not rows and columns of images alone")
    if attributes["coordinates"] not in ("half_pixel", "pytorch_half_pixel"):
        raise _UnfitError(f"coordinates {attributes['coordinates']}, not half_pixel")
    scales = {
        f"scale_{axis}": round(2**14 * source.shape[n] / made.shape[n])
        for n, axis in ((2, "y"), (3, "x"))
    }
    workload = _workload("resize_bilinear_u8", height=made.shape[2], width=made.shape[3], **scales)
    planes = prod(made.shape[:2])
    if (_scale(source), _zero(source)) != (_scale(made), _zero(made)):
        note = "the output has another scale, the kernel keeps the input's"
        return Fit(workload, None, note, planes)
    return Fit(workload, 1, "weights of 7 bits", planes)


_RULES: Mapping[str, Callable[[Graph, Node], Fit]] = {
    "conv": _conv,
    "matmul": _matmul,
    "add": _add,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "table": _table,
    "softmax": _softmax,
    "resize": _resize,
}
_WITHOUT = {
    "reshape": "the same bytes: no work",
    "reinterpret": "the same bytes: no work",
    "quantize": "at the edge of the host",
    "dequantize": "at the edge of the host",
}
