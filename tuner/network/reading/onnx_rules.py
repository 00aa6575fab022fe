"""How each node of an ONNX model becomes one of the graph's.

In QDQ form a node computes on real numbers between DequantizeLinear and QuantizeLinear: where all
operands are quantized and the result is at once (a Relu or Clip between aside), it becomes an
integer node. The QLinear operators have their scales as inputs. Elements that only move do so on
quantized tensors as on the real numbers they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import UserError
from tuner.network import reference
from tuner.network.graph import Array, Quantization, Tensor
from tuner.network.operators import ShapeError, pixels
from tuner.network.reading import onnx_file
from tuner.network.reading.building import BYTES, StaysError, same_pads, whole_image
from tuner.network.reading.onnx_results import add_result, target_of
from tuner.network.reading.onnx_values import Constant, OnnxBuilder, Real, Stored, Value

if TYPE_CHECKING:
    import onnx

_MICROSOFT = "com.microsoft"
_TABLES = frozenset(
    (
        *("Abs", "Celu", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu"),
        *("Mish", "Neg", "Relu", "Clip", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh"),
    )
)
"""Functions of one element: of 8 bits, a table of 256."""
_COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")


def _quantize(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    if attributes.get("block_size"):
        raise StaysError("it quantizes in blocks")
    source = builder.values[node.input[0]]
    shape = builder.shape(source)
    quantization, dtype = builder.quantization(
        node.input[1:3], max(len(shape), 1), attributes.get("axis", 1), shape
    )
    if len(node.input) < 3 and attributes.get("output_dtype"):
        dtype = onnx_file.dtype_name(attributes["output_dtype"], f"node '{builder.label}'")
    name = node.output[0]
    if isinstance(source, Constant):
        array = reference.quantize_array(source.array, quantization, dtype)
        made = builder.constant(name, array, quantization)
    elif isinstance(source, Real):
        made = _requantized(builder, node.input[0], source.tensor, name, quantization, dtype)
    else:
        made = builder.emit("quantize", [source.tensor], name, quantization, dtype)
    builder.values[name] = Stored(made)


def _requantized(
    builder: OnnxBuilder, real: str, tensor: str, name: str, quantization: Quantization, dtype: str
) -> str:
    """``tensor`` in another scale: itself, by a table, or by way of real numbers."""
    held = builder.tensors[tensor]
    if held.quantization == quantization and held.dtype == dtype:
        return tensor
    assert held.quantization is not None  # noqa: S101 - a Real is of a quantized tensor
    plain = not (held.quantization.per_channel or quantization.per_channel)
    if plain and held.dtype in BYTES and dtype in BYTES:
        table = reference.quantize_array(builder.entries(tensor), quantization, dtype)
        return builder.looked_up(tensor, table, name, quantization)
    return builder.emit("quantize", [builder.materialized(real)], name, quantization, dtype)


def _dequantize(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    if attributes.get("block_size"):
        raise StaysError("it dequantizes in blocks")
    value = builder.values[node.input[0]]
    shape = builder.shape(value)
    quantization, _ = builder.quantization(
        node.input[1:3], max(len(shape), 1), attributes.get("axis", 1), shape
    )
    tensor = builder.with_quantization(node.input[0], quantization)
    if builder.tensors[tensor].dtype not in (*BYTES, "int32"):
        raise StaysError(f"its input is {builder.tensors[tensor].dtype}")
    builder.values[node.output[0]] = Real(tensor)


def _conv(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    image, weights = builder.operand(node.input[0]), _weights(builder, node.input[1], 0)
    target = target_of(builder, node)
    inputs = [image, weights, *_bias(builder, node, 2, image, weights)]
    add_result(builder, target, "conv", inputs, _window(builder, attributes, inputs, "nchw"))


def _qlinear_conv(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    image = builder.scaled(node, 0, 4)
    weights = builder.scaled(node, 3, 4, 0)
    quantization, dtype = builder.quantization(node.input[6:8], 4)
    inputs = [image, weights]
    if len(node.input) > 8 and node.input[8]:
        inputs.append(builder.constant(node.input[8], builder.known(node.input[8], "bias")))
    layout = "nhwc" if attributes.get("channels_last") else "nchw"
    window = _window(builder, attributes, inputs, layout)
    _store(builder, node, builder.emit("conv", inputs, node.output[0], quantization, dtype, window))


def _weights(builder: OnnxBuilder, name: str, axis: int) -> str:
    tensor = builder.operand(name, per_channel=True)
    quantization = builder.tensors[tensor].quantization
    if quantization and quantization.axis not in (None, axis):
        raise StaysError(f"its weights have scales along axis {quantization.axis}")
    return tensor


def _bias(
    builder: OnnxBuilder, node: onnx.NodeProto, place: int, image: str, weights: str
) -> list[str]:
    """The bias in units of the sums, as i32, if there is one."""
    if len(node.input) <= place or not node.input[place]:
        return []
    name = node.input[place]
    unit = builder.scale(image)[0] * builder.scale(weights)
    value = builder.values[name]
    if isinstance(value, Real):
        tensor = builder.tensors[value.tensor]
        held = builder.scale(value.tensor)
        if tensor.data and tensor.dtype == "int32" and np.allclose(held, unit, 1e-5, 0):
            return [builder.constant(f"{name}:sums", builder.data[tensor.data].reshape(-1))]
    real = builder.real_array(name)
    if real is None:
        raise StaysError("its bias is not constant")
    steps = np.rint(real.reshape(-1).astype(np.float64) / unit)
    limits = np.iinfo(np.int32)
    array = np.clip(steps, limits.min, limits.max).astype(np.int32)
    return [builder.constant(f"{name}:sums", array)]


def _window(
    builder: OnnxBuilder, attributes: Mapping[str, Any], inputs: Sequence[str], layout: str
) -> dict[str, Any]:
    """Attributes of a window over images; ``inputs`` has the weights if it is a convolution."""
    shape = builder.tensors[inputs[0]].shape
    if len(shape) != 4:
        raise StaysError(f"its windows have {len(shape) - 2} axes, not 2")
    weights = builder.tensors[inputs[1]].shape if len(inputs) > 1 else ()
    kernel = list(attributes.get("kernel_shape") or weights[2:])
    strides = list(attributes.get("strides") or [1, 1])
    dilations = list(attributes.get("dilations") or [1, 1])
    if not len(kernel) == len(strides) == len(dilations) == 2:
        raise StaysError(f"its windows have {len(kernel)} axes, not 2")
    if attributes.get("ceil_mode"):
        raise StaysError("its output is rounded up (ceil_mode)")
    made = {
        "kernel": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": _pads(attributes, pixels(shape, layout), kernel, strides, dilations),
        "layout": layout,
    }
    return {**made, "group": attributes.get("group", 1)} if weights else made


def _matmul(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    left = builder.operand(node.input[0])
    rank = len(builder.shape(builder.values[node.input[1]]))
    right = _weights(builder, node.input[1], rank - 1)
    if rank < 2 or len(builder.tensors[left].shape) < 2:
        raise StaysError("it multiplies vectors")
    add_result(builder, target_of(builder, node), "matmul", [left, right], {})


def _gemm(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    if attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0:
        raise StaysError("it has an alpha or beta other than 1")
    left = builder.operand(node.input[0])
    right = builder.operand(node.input[1], per_channel=True)
    target = target_of(builder, node)
    left, right = _turned(builder, left, right, attributes)
    bias = _bias(builder, node, 2, left, right)
    add_result(builder, target, "matmul", [left, right, *bias], {})


def _turned(
    builder: OnnxBuilder, left: str, right: str, attributes: Mapping[str, Any]
) -> tuple[str, str]:
    """Both operands of a Gemm as rows of the first and columns of the second."""
    if attributes.get("transA"):
        left = builder.transposed(left, [1, 0], f"{left}:turned")
    if attributes.get("transB"):
        right = builder.transposed(right, [1, 0], f"{right}:turned")
    quantization = builder.tensors[right].quantization
    if quantization and quantization.axis not in (None, 1):
        raise StaysError(f"its weights have scales along axis {quantization.axis}")
    return left, right


def _qlinear_matmul(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    rank = max(len(builder.shape(builder.values[node.input[3]])), 1)
    left = builder.scaled(node, 0, 2)
    right = builder.scaled(node, 3, rank, -1)
    quantization, dtype = builder.quantization(node.input[6:8], 2)
    if rank < 2 or len(builder.tensors[left].shape) < 2:
        raise StaysError("it multiplies vectors")
    made = builder.emit("matmul", [left, right], node.output[0], quantization, dtype)
    _store(builder, node, made)


def _qgemm(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    if attributes.get("alpha", 1.0) != 1.0 or len(node.input) < 9:
        raise StaysError("it has an alpha other than 1, or makes real numbers")
    left = builder.scaled(node, 0, 2)
    axis = 0 if attributes.get("transB") else 1
    right = builder.scaled(node, 3, 2, axis)
    quantization, dtype = builder.quantization(node.input[7:9], 2)
    left, right = _turned(builder, left, right, attributes)
    inputs = [left, right]
    if node.input[6]:
        bias = builder.known(node.input[6], "bias").reshape(-1)
        inputs.append(builder.constant(node.input[6], bias))
    _store(builder, node, builder.emit("matmul", inputs, node.output[0], quantization, dtype))


def _binary(builder: OnnxBuilder, operator: str, node: onnx.NodeProto) -> None:
    inputs = [builder.operand(name) for name in node.input]
    add_result(builder, target_of(builder, node), operator, inputs, {})


def _add(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    _binary(builder, "add", node)


def _mul(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    _binary(builder, "mul", node)


def _qlinear_binary(builder: OnnxBuilder, operator: str, node: onnx.NodeProto) -> None:
    a = builder.scaled(node, 0, 1)
    b = builder.scaled(node, 3, 1)
    quantization, dtype = builder.quantization(node.input[6:8], 1)
    _store(builder, node, builder.emit(operator, [a, b], node.output[0], quantization, dtype))


def _qlinear_add(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    _qlinear_binary(builder, "add", node)


def _qlinear_mul(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    _qlinear_binary(builder, "mul", node)


def _average_pool(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    image = builder.operand(node.input[0])
    window = _window(builder, attributes, [image], "nchw")
    window["count_padding"] = bool(attributes.get("count_include_pad"))
    add_result(builder, target_of(builder, node), "average_pool", [image], window)


def _qlinear_average_pool(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    image = builder.scaled(node, 0, 4)
    quantization, dtype = builder.quantization(node.input[3:5], 1)
    layout = "nhwc" if attributes.get("channels_last") else "nchw"
    window = _window(builder, attributes, [image], layout)
    window["count_padding"] = bool(attributes.get("count_include_pad"))
    made = builder.emit("average_pool", [image], node.output[0], quantization, dtype, window)
    _store(builder, node, made)


def _global_average_pool(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    image = builder.operand(node.input[0])
    window = whole_image(builder.tensors[image].shape, "nchw")
    add_result(builder, target_of(builder, node), "average_pool", [image], window)


def _qlinear_global_average_pool(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    image = builder.scaled(node, 0, 4)
    quantization, dtype = builder.quantization(node.input[3:5], 1)
    window = whole_image(
        builder.tensors[image].shape, "nhwc" if attributes.get("channels_last") else "nchw"
    )
    made = builder.emit("average_pool", [image], node.output[0], quantization, dtype, window)
    _store(builder, node, made)


def _softmax(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    source = builder.operand(node.input[0])
    axis = _softmax_axis(builder, source, attributes.get("axis"), builder.opset)
    add_result(
        builder, target_of(builder, node, clipped=False), "softmax", [source], {"axis": axis}
    )


def _softmax_axis(builder: OnnxBuilder, source: str, axis: int | None, opset: int) -> int:
    """The axis of a softmax. Before opset 13 it ran over all axes from ``axis`` on."""
    rank = len(builder.tensors[source].shape)
    place = (-1 if opset >= 13 else 1) if axis is None else axis
    place %= rank
    if opset < 13 and place != rank - 1:
        raise StaysError("it runs over several axes")
    return place


def _qlinear_softmax(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    source = builder.scaled(node, 0, 1)
    quantization, dtype = builder.quantization(node.input[3:5], 1)
    opset = attributes.get("opset", builder.opset)
    axis = _softmax_axis(builder, source, attributes.get("axis"), opset)
    made = builder.emit("softmax", [source], node.output[0], quantization, dtype, {"axis": axis})
    _store(builder, node, made)


def _table(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    source = builder.operand(node.input[0])
    target = target_of(builder, node)
    entries = _function(builder, node, builder.entries(source))
    bounded = np.clip(entries, target.low, target.high)
    table = reference.quantize_array(bounded, target.quantization, target.dtype)
    made = builder.looked_up(source, table, target.values[0], target.quantization)
    for name in target.values:
        builder.values[name] = Stored(made)
    builder.absorbed.update(target.absorbed)


def _function(builder: OnnxBuilder, node: onnx.NodeProto, entries: Array) -> Array:
    """``node``, a function of one element, of real numbers (float32)."""
    constants = {}
    for name in filter(None, node.input[1:]):
        array = builder.real_array(name)
        if array is None:
            raise StaysError(f"its input '{name}' is not constant")
        constants[name] = array
    name = node.input[0]
    operands = {name: ("float32", entries.shape)}
    model = onnx_file.alone(node, builder.model.opset_import, operands, constants)
    return onnx_file.run_alone(model, {name: entries})[0].astype(np.float32)


def _qlinear_table(
    builder: OnnxBuilder, node: onnx.NodeProto, function: Callable[[Array], Array]
) -> None:
    source = builder.scaled(node, 0, 1)
    quantization, dtype = builder.quantization(node.input[3:5], 1)
    table = reference.quantize_array(function(builder.entries(source)), quantization, dtype)
    _store(builder, node, builder.looked_up(source, table, node.output[0], quantization))


def _qlinear_sigmoid(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    _qlinear_table(builder, node, lambda x: 1 / (1 + np.exp(-x)))


def _qlinear_leaky_relu(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    slope = np.float32(attributes.get("alpha", 0.01))
    _qlinear_table(builder, node, lambda x: np.where(x < 0, slope * x, x))


def _store(builder: OnnxBuilder, node: onnx.NodeProto, tensor: str) -> None:
    builder.values[node.output[0]] = Stored(tensor)


def _moved(
    builder: OnnxBuilder,
    node: onnx.NodeProto,
    operator: str,
    attributes: Mapping[str, Any],
    output: int = 0,
) -> None:
    """Applies ``operator`` to the bytes of the first input."""
    value = builder.values[node.input[0]]
    tensor = _moving(builder, node)
    name = node.output[output]
    held = builder.tensors[tensor]
    label = _moved_name(builder, name, value)
    made = builder.emit(operator, [tensor], label, held.quantization, held.dtype, attributes)
    builder.values[name] = type(value)(made)  # type: ignore[arg-type]


def _moved_name(builder: OnnxBuilder, name: str, value: Value) -> str:
    """The name of the bytes of the value ``name``, which may have to be dequantized."""
    return name if isinstance(value, Stored) else f"{name}:bytes"


def _moving(builder: OnnxBuilder, node: onnx.NodeProto) -> str:
    """The first input as 8-bit tensor, whose scale does not vary."""
    value = builder.values[node.input[0]]
    if isinstance(value, Constant):
        raise StaysError(f"its input '{node.input[0]}' is constant")
    tensor = builder.tensors[value.tensor]
    if tensor.dtype not in BYTES:
        raise StaysError(f"its input '{node.input[0]}' is not quantized")
    if tensor.quantization and tensor.quantization.per_channel and node.op_type != "Transpose":
        raise StaysError(f"its input '{node.input[0]}' has a scale for each channel")
    return tensor.name


def _reshape(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    """Also Flatten, Squeeze, Unsqueeze and Identity, by ONNX's own inference."""
    if node.op_type == "Reshape":
        builder.known(node.input[1], "shape")
    tensor = builder.tensors[_moving(builder, node)]
    constants = {name: builder.known(name, "second input") for name in filter(None, node.input[1:])}
    operands = {node.input[0]: (tensor.dtype, tensor.shape)}
    model = onnx_file.alone(node, builder.model.opset_import, operands, constants)
    found = onnx_file.inferred_shapes(model).get(node.output[0])
    if found is None:
        raise UserError(
            f"node '{builder.label}' ({node.op_type}) cannot give {list(tensor.shape)} its shape"
        )
    _moved(builder, node, "reshape", {"shape": list(found[1])})


def _transpose(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    tensor = _moving(builder, node)
    rank = len(builder.tensors[tensor].shape)
    order = [int(n) for n in attributes.get("perm") or reversed(range(rank))]
    value = builder.values[node.input[0]]
    made = builder.transposed(tensor, order, _moved_name(builder, node.output[0], value))
    builder.values[node.output[0]] = type(value)(made)  # type: ignore[arg-type]


def _max_pool(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    if len(list(filter(None, node.output))) > 1 or attributes.get("storage_order"):
        raise StaysError("it returns the places of its maxima")
    layout = "nhwc" if node.op_type == "NhwcMaxPool" else "nchw"
    _moved(
        builder, node, "max_pool", _window(builder, attributes, [_moving(builder, node)], layout)
    )


def _concat(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    values = [builder.values[name] for name in node.input]
    axis = attributes["axis"] % len(builder.shape(values[0]))
    if all(isinstance(value, Stored) for value in values):
        inputs = [builder.materialized(name) for name in node.input]
        held = {builder.tensors[n].quantization for n in inputs}
        first = builder.tensors[inputs[0]]
        if first.dtype not in BYTES or len(held) > 1:
            raise StaysError("its inputs are not quantized alike")
        name = node.output[0]
        quantization = first.quantization
        made = builder.emit("concat", inputs, name, quantization, first.dtype, {"axis": axis})
        _store(builder, node, made)
        return
    inputs = [builder.operand(name) for name in node.input]
    add_result(builder, target_of(builder, node), "concat", inputs, {"axis": axis})


def _qlinear_concat(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]
) -> None:
    quantization, dtype = builder.quantization(node.input[0:2], 1)
    inputs = [builder.scaled(node, n, 1) for n in range(2, len(node.input), 3)]
    axis = attributes["axis"] % len(builder.tensors[inputs[0]].shape)
    made = builder.emit("concat", inputs, node.output[0], quantization, dtype, {"axis": axis})
    _store(builder, node, made)


def _pad(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    tensor = builder.tensors[_moving(builder, node)]
    pads = builder.optional(node, 1, "pads")
    widths = attributes.get("pads") if pads is None else pads.tolist()
    if widths is None or len(widths) != 2 * len(tensor.shape) or min(widths, default=0) < 0:
        raise StaysError("it pads some axes, or takes elements away")
    rank = len(tensor.shape)
    made = {
        "mode": attributes.get("mode", "constant"),
        "before": widths[:rank],
        "after": widths[rank:],
        "value": 0,
    }
    if made["mode"] not in ("constant", "edge", "reflect"):
        raise StaysError(f"its mode is {made['mode']}")
    if made["mode"] == "constant":
        made["value"] = _pad_value(builder, node, tensor)
    _moved(builder, node, "pad", made)


def _pad_value(builder: OnnxBuilder, node: onnx.NodeProto, tensor: Tensor) -> int:
    given = len(node.input) > 2 and node.input[2]
    array = builder.real_array(node.input[2]) if given else np.zeros((), np.float32)
    if array is None:
        raise StaysError("its value is not constant")
    if isinstance(builder.values[node.input[0]], Stored):
        return int(array.reshape(-1)[0])
    assert tensor.quantization is not None  # noqa: S101 - a Real is of a quantized tensor
    real = array.reshape(-1)[:1].astype(np.float32)
    value = reference.quantize_array(real, tensor.quantization, tensor.dtype)
    if reference.dequantize_array(value, tensor.quantization)[0] != real[0]:
        raise StaysError(f"it pads with {real[0]}, which is not a step of its input")
    return int(value[0])


def _slice(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    shape = builder.tensors[_moving(builder, node)].shape
    if builder.opset < 10:
        raise StaysError("it is of an old opset")
    starts = builder.known(node.input[1], "start").tolist()
    stops = builder.known(node.input[2], "end").tolist()
    axes = builder.optional(node, 3, "axes")
    steps = builder.optional(node, 4, "steps")
    whole = [(0, extent, 1) for extent in shape]
    for n, axis in enumerate(range(len(starts)) if axes is None else axes.tolist()):
        step = 1 if steps is None else int(steps[n])
        if step < 1:
            raise StaysError("it runs backwards")
        bounds = slice(int(starts[n]), int(stops[n]), step).indices(shape[axis])
        whole[axis % len(shape)] = bounds
    _sliced(builder, node, whole)


def _sliced(
    builder: OnnxBuilder,
    node: onnx.NodeProto,
    bounds: Sequence[tuple[int, int, int]],
    output: int = 0,
) -> None:
    starts, stops, steps = (list(part) for part in zip(*bounds, strict=True))
    attributes = {"starts": starts, "stops": stops, "steps": steps}
    _moved(builder, node, "slice", attributes, output)


def _split(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    shape = builder.tensors[_moving(builder, node)].shape
    axis = attributes.get("axis", 0) % len(shape)
    given = builder.optional(node, 1, "split")
    sizes = attributes.get("split") if given is None else given.tolist()
    if sizes is None:
        each = -(-shape[axis] // len(node.output))
        ends = [min(shape[axis], each * (n + 1)) for n in range(len(node.output))]
        sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    if sum(sizes) != shape[axis] or len(sizes) != len(node.output):
        raise ShapeError(f"{shape[axis]} elements split into {sizes}")
    begin = 0
    for output, size in enumerate(sizes):
        bounds = [(0, extent, 1) for extent in shape]
        bounds[axis] = (begin, begin + size, 1)
        _sliced(builder, node, bounds, output)
        begin += size


def _resize(builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
    tensor = builder.tensors[_moving(builder, node)]
    made = _resizing(builder, node, attributes, tensor)
    if made["mode"] == "nearest":
        _moved(builder, node, "resize", made)
    elif isinstance(builder.values[node.input[0]], Real):
        add_result(builder, target_of(builder, node), "resize", [tensor.name], made)
    else:
        _moved(builder, node, "resize", made)


def _resizing(
    builder: OnnxBuilder, node: onnx.NodeProto, attributes: Mapping[str, Any], tensor: Tensor
) -> dict[str, Any]:
    mode = attributes.get("mode", "nearest")
    coordinates = attributes.get("coordinate_transformation_mode", "half_pixel")
    odd = [
        f"its {name} is {attributes[name]}"
        for name, usual in (
            ("axes", None),
            ("antialias", 0),
            ("keep_aspect_ratio_policy", "stretch"),
            ("exclude_outside", 0),
        )
        if attributes.get(name, usual) != usual
    ]
    if mode not in ("nearest", "linear") or coordinates not in _COORDINATES or odd:
        raise StaysError(odd[0] if odd else f"it resizes {mode}, {coordinates}")
    scales, sizes = (builder.optional(node, n, "size") for n in (2, 3))
    if sizes is not None and sizes.size:
        shape = [int(size) for size in sizes]
        factors = [size / extent for size, extent in zip(shape, tensor.shape, strict=True)]
    elif scales is not None and scales.size:
        factors = [float(scale) for scale in scales]
        pairs = zip(tensor.shape, factors, strict=True)
        shape = [int(np.floor(np.float32(extent) * np.float32(f))) for extent, f in pairs]
    else:
        raise StaysError("it has neither scales nor sizes")
    return {
        "mode": mode,
        "coordinates": coordinates,
        "nearest": attributes.get("nearest_mode", "round_prefer_floor"),
        "shape": shape,
        "scales": factors,
    }


def _pads(
    attributes: Mapping[str, Any],
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Padding (top, left, bottom, right), that of ``auto_pad`` included."""
    mode = attributes.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = list(attributes.get("pads") or [0] * 4)
        if len(pads) != 4 or min(pads) < 0:
            raise ShapeError(f"pads {pads}")
        return pads
    if mode == "VALID":
        return [0] * 4
    return same_pads(extents, kernel, strides, dilations, more_after=mode == "SAME_UPPER")


_Rule = Callable[[OnnxBuilder, "onnx.NodeProto", Mapping[str, Any]], None]
RULES: Mapping[tuple[str, str], _Rule] = {
    ("", "QuantizeLinear"): _quantize,
    ("", "DequantizeLinear"): _dequantize,
    (_MICROSOFT, "QuantizeLinear"): _quantize,
    (_MICROSOFT, "DequantizeLinear"): _dequantize,
    ("", "Conv"): _conv,
    ("", "QLinearConv"): _qlinear_conv,
    (_MICROSOFT, "QLinearConv"): _qlinear_conv,
    ("", "MatMul"): _matmul,
    ("", "Gemm"): _gemm,
    ("", "QLinearMatMul"): _qlinear_matmul,
    (_MICROSOFT, "QGemm"): _qgemm,
    ("", "Add"): _add,
    ("", "Mul"): _mul,
    (_MICROSOFT, "QLinearAdd"): _qlinear_add,
    (_MICROSOFT, "QLinearMul"): _qlinear_mul,
    ("", "AveragePool"): _average_pool,
    (_MICROSOFT, "QLinearAveragePool"): _qlinear_average_pool,
    ("", "GlobalAveragePool"): _global_average_pool,
    (_MICROSOFT, "QLinearGlobalAveragePool"): _qlinear_global_average_pool,
    ("", "Softmax"): _softmax,
    (_MICROSOFT, "QLinearSoftmax"): _qlinear_softmax,
    **{("", name): _table for name in _TABLES},
    (_MICROSOFT, "QLinearSigmoid"): _qlinear_sigmoid,
    (_MICROSOFT, "QLinearLeakyRelu"): _qlinear_leaky_relu,
    **{("", name): _reshape for name in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")},
    ("", "Transpose"): _transpose,
    ("", "MaxPool"): _max_pool,
    (_MICROSOFT, "NhwcMaxPool"): _max_pool,
    ("", "Concat"): _concat,
    (_MICROSOFT, "QLinearConcat"): _qlinear_concat,
    ("", "Pad"): _pad,
    ("", "Slice"): _slice,
    ("", "Split"): _split,
    ("", "Resize"): _resize,
}
"""By domain and operator: how a node becomes one of the graph's."""
