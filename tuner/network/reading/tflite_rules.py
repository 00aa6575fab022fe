"""How each operator of a TFLite model becomes one of the graph's.

Images have their channels last, and stay so. Weights are turned from TFLite's order (out, rows,
columns, in) into the graph's while reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf, prod, sqrt
from typing import Any

import numpy as np

from tuner.network.graph import Array, Shape
from tuner.network.operators import ShapeError, pixels
from tuner.network.reading.building import BYTES, StaysError, same_pads, whole_image
from tuner.network.reading.tflite_file import TfliteOperator, names_of
from tuner.network.reading.tflite_values import TfliteBuilder

_LAYOUT = "nhwc"

# Sums of products


def _conv(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    image = builder.operand(operator, 0)
    weights = builder.turned(operator, 1, (0, 3, 1, 2), "oihw")
    depth, inner = builder.tensors[image].shape[-1], builder.tensors[weights].shape[1]
    if not inner or depth % inner:
        raise ShapeError(f"weights of {inner} channels do not fit {depth} channels")
    _convolution(builder, operator, image, weights, depth // inner)


def _depthwise(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    image = builder.operand(operator, 0)
    weights = builder.turned(operator, 1, (3, 0, 1, 2), "oihw")
    _convolution(builder, operator, image, weights, builder.tensors[image].shape[-1])


def _convolution(
    builder: TfliteBuilder, operator: TfliteOperator, image: str, weights: str, group: int
) -> None:
    bounds = builder.bounds(operator, *builder.target(operator))
    kernel = builder.tensors[weights].shape[2:]
    dilations = [builder.option(operator, f"Dilation{axis}Factor") for axis in "HW"]
    window = _window(builder, operator, image, kernel, dilations)
    inputs = [image, weights, *builder.bias(operator, 2)]
    builder.make(operator, "conv", inputs, {**window, "group": group, **bounds})


def _window(
    builder: TfliteBuilder,
    operator: TfliteOperator,
    image: str,
    kernel: Sequence[int],
    dilations: Sequence[int],
) -> dict[str, Any]:
    """Attributes of a window over images."""
    shape = builder.tensors[image].shape
    strides = [builder.option(operator, f"Stride{axis}") for axis in "HW"]
    if len(shape) != 4 or min(*kernel, *strides, *dilations) < 1:
        raise ShapeError(
            f"windows of {list(kernel)}, {strides} apart and dilated {list(dilations)} "
            f"over {list(shape)}"
        )
    padding = names_of("Padding").get(builder.option(operator, "Padding"))
    if padding is None:
        raise ShapeError("its padding is neither SAME nor VALID")
    extents = pixels(shape, _LAYOUT)
    same = same_pads(extents, kernel, strides, dilations)
    return {
        "kernel": list(kernel),
        "strides": strides,
        "dilations": list(dilations),
        "pads": same if padding == "SAME" else [0] * 4,
        "layout": _LAYOUT,
    }


def _fully_connected(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    if builder.option(operator, "WeightsFormat"):
        raise StaysError("its weights are shuffled")
    left = builder.operand(operator, 0)
    weights = builder.turned(operator, 1, (1, 0), "columns")
    bounds = builder.bounds(operator, *builder.target(operator))
    shape, inner = builder.tensors[left].shape, builder.tensors[weights].shape[0]
    if not builder.option(operator, "KeepNumDims") and len(shape) != 2:
        if not inner or prod(shape) % inner:
            raise ShapeError(f"{list(shape)} is not rows of {inner}")
        held = builder.tensors[left]
        rows = {"shape": [prod(shape) // inner, inner]}
        left = builder.emit("reshape", [left], f"{left}:rows", held.quantization, held.dtype, rows)
    builder.make(operator, "matmul", [left, weights, *builder.bias(operator, 2)], bounds)


def _batch_matmul(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    operands = []
    for place, option in enumerate(("AdjX", "AdjY")):
        tensor = builder.operand(operator, place)
        rank = len(builder.tensors[tensor].shape)
        if rank < 2:
            raise ShapeError(f"a product of {rank} dimensions")
        if builder.option(operator, option):
            order = [*range(rank - 2), rank - 1, rank - 2]
            tensor = builder.transposed(tensor, order, f"{tensor}:turned")
        operands.append(tensor)
    builder.make(operator, "matmul", operands)


# Two operands, and pools


def _binary(kind: str) -> Rule:
    def rule(builder: TfliteBuilder, operator: TfliteOperator) -> None:
        bounds = builder.bounds(operator, *builder.target(operator))
        inputs = [builder.operand(operator, place) for place in (0, 1)]
        builder.make(operator, kind, inputs, bounds)

    return rule


def _pool_window(builder: TfliteBuilder, operator: TfliteOperator, image: str) -> dict[str, Any]:
    kernel = [builder.option(operator, f"Filter{axis}") for axis in ("Height", "Width")]
    return _window(builder, operator, image, kernel, (1, 1))


def _max_pool(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    builder.require_no_activation(operator)
    image = builder.operand(operator, 0)
    builder.move(operator, "max_pool", image, _pool_window(builder, operator, image))


def _average_pool(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    bounds = builder.bounds(operator, *builder.target(operator))
    image = builder.operand(operator, 0)
    window = {**_pool_window(builder, operator, image), "count_padding": False}
    builder.make(operator, "average_pool", [image], {**window, **bounds})


def _mean(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    image = builder.operand(operator, 0)
    shape = builder.tensors[image].shape
    axes = {_axis(axis, shape) for axis in builder.numbers(operator, 1, "axes")}
    if len(shape) != 4 or axes != {1, 2}:
        raise StaysError(f"it takes means over axes {sorted(axes)}, not of whole images")
    window = whole_image(shape, _LAYOUT)
    if builder.option(operator, "KeepDims"):
        builder.make(operator, "average_pool", [image], window)
        return
    quantization, dtype = builder.target(operator)
    name = f"{builder.stated(operator.outputs[0]).name}:image"
    mean = builder.emit("average_pool", [image], name, quantization, dtype, window)
    builder.make(operator, "reshape", [mean], {"shape": [shape[0], shape[3]]})


def _axis(axis: int, shape: Shape) -> int:
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(f"axis {axis} of {len(shape)} dimensions")
    return axis % len(shape)


def _softmax(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    source = builder.operand(operator, 0)
    beta = builder.option(operator, "Beta")
    if beta != 1.0:
        raise StaysError(f"its beta is {beta}, not 1")
    rank = len(builder.tensors[source].shape)
    if not rank:
        raise ShapeError("a softmax of no dimension")
    builder.make(operator, "softmax", [source], {"axis": rank - 1})


def _concat(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    builder.require_no_activation(operator)
    inputs = [builder.operand(operator, place) for place in range(len(operator.inputs))]
    if not inputs:
        raise ShapeError("it has no inputs")
    shape = builder.tensors[inputs[0]].shape
    axis = _axis(builder.option(operator, "Axis"), shape)
    builder.make(operator, "concat", inputs, {"axis": axis})


# Scales, and functions of one element


def _quantize(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    source = builder.tensors[builder.tensor(builder.index(operator, 0))]
    if source.dtype == "float32":
        builder.make(operator, "quantize", [source.name])
        return
    builder.look_up(operator, builder.entries(builder.operand(operator, 0)))


def _dequantize(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    source = builder.tensors[builder.tensor(builder.index(operator, 0))]
    if source.dtype not in (*BYTES, "int32"):
        raise StaysError(f"its input is {source.dtype}")
    if source.quantization is None:
        builder.operand(operator, 0)  # says what is missing
        raise StaysError(f"its input '{source.name}' has no scale")
    held = builder.stated(operator.outputs[0])
    if held.dtype != "float32":
        raise StaysError(f"it makes {held.dtype}, not float32")
    builder.stored[operator.outputs[0]] = builder.emit(
        "dequantize", [source.name], held.name, None, "float32"
    )


def _gelu(x: Array, operator: TfliteOperator) -> Array:
    if operator.options.get("Approximate"):
        inner: Array = np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    else:
        inner = np.array([erf(value / sqrt(2)) for value in x.tolist()])
    made: Array = 0.5 * x * (1 + inner)
    return made


def _hard_swish(x: Array, operator: TfliteOperator) -> Array:
    made: Array = x * np.clip(x + 3, 0, 6) / 6
    return made


_FUNCTIONS: Mapping[str, Callable[[Array, TfliteOperator], Array]] = {
    "ABS": lambda x, operator: np.abs(x),
    "ELU": lambda x, operator: np.where(x < 0, np.expm1(x), x),
    "EXP": lambda x, operator: np.exp(x),
    "GELU": _gelu,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": lambda x, operator: np.where(x < 0, operator.options.get("Alpha", 0.0) * x, x),
    "LOGISTIC": lambda x, operator: 1 / (1 + np.exp(-x)),
    "RELU": lambda x, operator: np.maximum(x, 0),
    "RELU6": lambda x, operator: np.clip(x, 0, 6),
    "RELU_N1_TO_1": lambda x, operator: np.clip(x, -1, 1),
    "TANH": lambda x, operator: np.tanh(x),
}
"""Of real numbers, by the operator; of 8 bits, a table of 256."""


def _function(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    entries = builder.entries(builder.operand(operator, 0)).astype(np.float64)
    made = _FUNCTIONS[operator.operator](entries, operator)
    builder.look_up(operator, made.astype(np.float32))


# Elements that move


def _reshape(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    """Also Squeeze and ExpandDims."""
    source = builder.operand(operator, 0)
    shape = new_shape(builder, operator, builder.tensors[source].shape)
    builder.move(operator, "reshape", source, {"shape": shape})


def new_shape(builder: TfliteBuilder, operator: TfliteOperator, shape: Shape) -> list[int]:
    """The shape of the result of a Reshape, Squeeze or ExpandDims of ``shape``."""
    if operator.operator == "EXPAND_DIMS":
        (axis,) = builder.numbers(operator, 1, "axis") or [0]
        place = _axis(axis, (*shape, 1))
        return [*shape[:place], 1, *shape[place:]]
    if operator.operator == "SQUEEZE":
        found = builder.option(operator, "SqueezeDims").tolist()
        axes = {_axis(axis, shape) for axis in found} or {n for n, e in enumerate(shape) if e == 1}
        if any(shape[axis] != 1 for axis in axes):
            raise ShapeError(f"axes {sorted(axes)} of {list(shape)} are not of 1 element")
        return [extent for n, extent in enumerate(shape) if n not in axes]
    if len(operator.inputs) > 1 and operator.inputs[1] >= 0:
        wanted = builder.numbers(operator, 1, "shape")
    else:
        wanted = builder.option(operator, "NewShape").tolist()
    if wanted.count(-1) == 1:
        rest = -prod(wanted)
        if rest < 1 or prod(shape) % rest:
            raise ShapeError(f"{list(shape)} does not fill {wanted}")
        wanted[wanted.index(-1)] = prod(shape) // rest
    return wanted


def _transpose(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    source = builder.operand(operator, 0)
    order = builder.numbers(operator, 1, "order")
    rank = len(builder.tensors[source].shape)
    if sorted(order) != list(range(rank)):
        raise ShapeError(f"order {order} of {rank} dimensions")
    builder.move(operator, "transpose", source, {"order": order})


def _pad(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    """Also PadV2 and MirrorPad."""
    source = builder.operand(operator, 0)
    held = builder.tensors[source]
    widths = builder.numbers(operator, 1, "padding")
    if len(widths) != 2 * len(held.shape) or min(widths, default=0) < 0:
        raise ShapeError(f"padding {widths} of {len(held.shape)} dimensions")
    before, after = widths[::2], widths[1::2]
    if max(max(before, default=0), max(after, default=0)) >= 1 << 31:
        raise ShapeError(f"padding {widths}")
    made = {"mode": "constant", "before": before, "after": after, "value": 0}
    if operator.operator == "MIRROR_PAD":
        made["mode"] = _mirrored(builder, operator, held.shape, before, after)
    elif operator.operator == "PADV2":
        value = builder.known.get(builder.index(operator, 2))
        if value is None:
            raise StaysError("its value is not constant")
        if value.size != 1 or value.dtype.name != held.dtype:
            raise ShapeError(f"its value is {value.dtype.name}{list(value.shape)}")
        made["value"] = int(value.reshape(-1)[0])
    else:
        quantization, _ = builder.target(operator)
        made["value"] = quantization.zero_point[0]
    builder.move(operator, "pad", source, made)


def _mirrored(
    builder: TfliteBuilder,
    operator: TfliteOperator,
    shape: Shape,
    before: Sequence[int],
    after: Sequence[int],
) -> str:
    if names_of("MirrorPadMode").get(builder.option(operator, "Mode")) != "REFLECT":
        raise StaysError("it repeats the edge (SYMMETRIC)")
    if any(max(b, a) >= max(extent, 1) for b, a, extent in zip(before, after, shape, strict=True)):
        raise ShapeError(f"padding {list(before)} and {list(after)} reflects {list(shape)}")
    return "reflect"


Bounds = list[tuple[int, int, int]]
"""Start, stop and step of each dimension."""


def _slice(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    source = builder.operand(operator, 0)
    shape = builder.tensors[source].shape
    begins = builder.numbers(operator, 1, "begin")
    sizes = builder.numbers(operator, 2, "size")
    if not len(begins) == len(sizes) == len(shape):
        raise ShapeError(f"a part of {list(shape)} from {begins} of {sizes}")
    bounds: Bounds = []
    for begin, size, extent in zip(begins, sizes, shape, strict=True):
        stop = extent if size == -1 else begin + size
        if not 0 <= begin <= stop <= extent:
            raise ShapeError(f"a part of {list(shape)} from {begins} of {sizes}")
        bounds.append((begin, stop, 1))
    builder.move(operator, "slice", source, _sliced(bounds))


def _sliced(bounds: Bounds) -> dict[str, list[int]]:
    names = ("starts", "stops", "steps")
    return {name: [part[n] for part in bounds] for n, name in enumerate(names)}


def strided(
    builder: TfliteBuilder, operator: TfliteOperator, shape: Shape
) -> tuple[Bounds, list[int]]:
    """The part of ``shape`` that a StridedSlice takes, and the axes that it leaves out then."""
    if builder.option(operator, "EllipsisMask") or builder.option(operator, "NewAxisMask"):
        raise StaysError("it has an ellipsis or adds dimensions")
    named = enumerate(("begin", "end", "strides"), start=1)
    parts = [builder.numbers(operator, place, what) for place, what in named]
    if len({len(part) for part in parts}) > 1 or len(parts[0]) > len(shape):
        raise ShapeError(f"a part of {list(shape)} from {parts[0]} to {parts[1]}")
    masks = [builder.option(operator, f"{name}Mask") for name in ("Begin", "End", "ShrinkAxis")]
    bounds: Bounds = []
    left_out = []
    for axis, extent in enumerate(shape):
        if axis >= len(parts[0]):
            bounds.append((0, extent, 1))
            continue
        begin, end, step = (part[axis] for part in parts)
        free_begin, free_end, shrinks = (bool(mask >> axis & 1) for mask in masks)
        if step < 1:
            raise StaysError("it runs backwards")
        if shrinks:
            place = _axis(begin, (0,) * extent) if extent else 0
            bounds.append((place, place + 1, 1))
            left_out.append(axis)
            continue
        part = slice(None if free_begin else begin, None if free_end else end, step)
        start, stop, step = part.indices(extent)
        bounds.append((start, max(start, stop), step))
    return bounds, left_out


def _strided_slice(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    if operator.options.get("Offset"):
        raise StaysError("its end counts from its begin")
    source = builder.operand(operator, 0)
    held = builder.tensors[source]
    bounds, left_out = strided(builder, operator, held.shape)
    if not left_out:
        builder.move(operator, "slice", source, _sliced(bounds))
        return
    name = f"{builder.stated(operator.outputs[0]).name}:part"
    part = builder.emit("slice", [source], name, held.quantization, held.dtype, _sliced(bounds))
    shape = [e for n, e in enumerate(builder.tensors[part].shape) if n not in left_out]
    builder.move(operator, "reshape", part, {"shape": shape})


def _split(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    """Also SplitV. The axis comes first in the one and last in the other."""
    equal = operator.operator == "SPLIT"
    source = builder.operand(operator, 1 if equal else 0)
    shape = builder.tensors[source].shape
    (place,) = builder.numbers(operator, 0 if equal else 2, "axis") or [0]
    axis, count = _axis(place, shape), len(operator.outputs)
    if equal:
        sizes = [shape[axis] // count] * count
    else:
        sizes = builder.numbers(operator, 1, "sizes")
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    if min(sizes) < 0 or sum(sizes) != shape[axis] or len(sizes) != count:
        raise ShapeError(f"{shape[axis]} elements split into {sizes}")
    begin = 0
    for output, size in enumerate(sizes):
        bounds: Bounds = [(0, extent, 1) for extent in shape]
        bounds[axis] = (begin, begin + size, 1)
        builder.move(operator, "slice", source, _sliced(bounds), output)
        begin += size


def _resize(builder: TfliteBuilder, operator: TfliteOperator) -> None:
    source = builder.operand(operator, 0)
    shape = builder.tensors[source].shape
    size = builder.numbers(operator, 1, "size")
    if len(shape) != 4 or len(size) != 2 or min(*size, *shape) < 1 or max(size) >= 1 << 31:
        raise ShapeError(f"{list(shape)} resized to {size}")
    aligned = builder.option(operator, "AlignCorners")
    centred = builder.option(operator, "HalfPixelCenters")
    if aligned and centred:
        raise StaysError("it aligns corners and centres pixels")
    made_shape = [shape[0], *size, shape[3]]
    nearest = operator.operator == "RESIZE_NEAREST_NEIGHBOR"
    attributes = {
        "mode": "nearest" if nearest else "linear",
        "coordinates": "align_corners" if aligned else "half_pixel" if centred else "asymmetric",
        # TFLite adds half a pixel and cuts off: halves go up.
        "nearest": "round_prefer_ceil" if aligned or centred else "floor",
        "shape": made_shape,
        "scales": [made / extent for made, extent in zip(made_shape, shape, strict=True)],
    }
    builder.move(operator, "resize", source, attributes)


Rule = Callable[[TfliteBuilder, TfliteOperator], None]
RULES: Mapping[str, Rule] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "ADD": _binary("add"),
    "MUL": _binary("mul"),
    "MAX_POOL_2D": _max_pool,
    "AVERAGE_POOL_2D": _average_pool,
    "MEAN": _mean,
    "SOFTMAX": _softmax,
    "CONCATENATION": _concat,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    **dict.fromkeys(_FUNCTIONS, _function),
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), _reshape),
    "TRANSPOSE": _transpose,
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), _pad),
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    **dict.fromkeys(("SPLIT", "SPLIT_V"), _split),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _resize),
}
"""By operator: how it becomes one of the graph's."""
