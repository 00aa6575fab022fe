"""One description, both formats: a graph with channels last as a TFLite and as an ONNX model.

TFLite has its own names for attributes, pads by rule and has other orders of weights; the ONNX
model is in QOperator form with ``channels_last``, as onnxruntime saves its optimized models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tuner.network import Graph, Node
from tuner.network.graph import Array, Quantization
from tuner.network.reading.building import same_pads
from tuner.network.reading.tflite_file import TfliteModel, TfliteOperator, TfliteTensor
from tuner.network.reading.tflite_writing import written

SAME, VALID = 0, 1
ACTIVATIONS = {(None, None): 0, ("low", None): 1, ("low", "high"): 3}
"""None, Relu and Relu6, by the ends of the range that they set."""


class TfliteWriter:
    """A TFLite model of ``graph``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.tensors: list[TfliteTensor] = []
        self.operators: list[TfliteOperator] = []
        self._places: dict[str, int] = {}

    def model(self) -> TfliteModel:
        inputs = tuple(self.place(name) for name in self._graph.inputs)
        for node in self._graph.nodes:
            getattr(self, f"_{node.operator}")(node, dict(node.attributes))
        outputs = tuple(self.place(name) for name in self._graph.outputs)
        return TfliteModel(tuple(self.tensors), tuple(self.operators), inputs, outputs)

    def place(self, name: str) -> int:
        """The tensor ``name`` of the graph."""
        if name not in self._places:
            held = self._graph.tensors[name]
            data = self._graph.constant(name)
            self._places[name] = self.tensor(name, held.shape, held.dtype, held.quantization, data)
        return self._places[name]

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        quantization: Quantization | None = None,
        data: Array | None = None,
    ) -> int:
        self.tensors.append(TfliteTensor(name, tuple(shape), dtype, quantization, data))
        return len(self.tensors) - 1

    def constant(self, values: Any, dtype: str = "int32") -> int:
        array = np.asarray(values, dtype)
        return self.tensor(f"n{len(self.tensors)}", array.shape, dtype, None, array)

    def add(
        self, operator: str, inputs: Sequence[int], node: Node, kind: str = "", **options: Any
    ) -> None:
        outputs = tuple(self.place(name) for name in node.outputs)
        self.operators.append(TfliteOperator(operator, tuple(inputs), outputs, kind, options))

    def _activation(self, attributes: Mapping[str, Any]) -> dict[str, int]:
        ends = tuple(key if key in attributes else None for key in ("low", "high"))
        return {"FusedActivationFunction": ACTIVATIONS[ends]}  # type: ignore[index]

    def _weights(self, node: Node, order: Sequence[int]) -> int:
        held = self._graph.tensors[node.inputs[1]]
        array = self._graph.constant(node.inputs[1])
        assert array is not None
        quantization = held.quantization
        assert quantization is not None
        axis = quantization.axis
        zeros, dtype = quantization.zero_point, held.dtype
        if self._graph.tensors[node.inputs[0]].dtype == "uint8" and dtype == "int8":
            # TFLite multiplies bytes of one kind alone.
            array, dtype = array.view(np.uint8) ^ 128, "uint8"
            zeros = tuple(zero + 128 for zero in zeros)
        axis = None if axis is None else tuple(order).index(axis)
        quantization = Quantization(quantization.scale, zeros, axis)
        turned = np.ascontiguousarray(array.transpose(order))
        name = f"{held.name}:tflite"
        return self.tensor(name, turned.shape, dtype, quantization, turned)

    def _bias(self, node: Node, image: str) -> list[int]:
        """In units of the sums, which TFLite's interpreter insists on."""
        if len(node.inputs) < 3:
            return []
        array = self._graph.constant(node.inputs[2])
        of, weights = (self._graph.tensors[name].quantization for name in (image, node.inputs[1]))
        assert array is not None
        assert of is not None
        assert weights is not None
        scale = np.float32(of.scale[0]) * np.array(weights.scale, np.float32)
        axis = None if len(scale) == 1 else 0
        held = Quantization(tuple(map(float, scale)), (0,) * len(scale), axis)
        return [self.tensor(f"{node.inputs[2]}:bias", array.shape, "int32", held, array)]

    def _window(self, node: Node, attributes: Mapping[str, Any]) -> dict[str, Any]:
        assert attributes["layout"] == "nhwc"
        extents = self._graph.tensors[node.inputs[0]].shape[1:3]
        pads = list(attributes["pads"])
        how = [attributes[key] for key in ("kernel", "strides", "dilations")]
        same = same_pads(extents, *how)
        assert pads in (same, [0] * 4), "TFLite pads by rule"
        high, wide = attributes["strides"]
        return {"Padding": VALID if pads == [0] * 4 else SAME, "StrideH": high, "StrideW": wide}

    def _conv(self, node: Node, attributes: dict[str, Any]) -> None:
        image, group = node.inputs[0], attributes["group"]
        outer, inner = self._graph.tensors[node.inputs[1]].shape[:2]
        depthwise = group > 1 and inner == 1
        weights = self._weights(node, (1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
        high, wide = attributes["dilations"]
        options = {
            **self._window(node, attributes),
            **self._activation(attributes),
            "DilationHFactor": high,
            "DilationWFactor": wide,
        }
        if depthwise:
            options["DepthMultiplier"] = outer // group
        name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        kind = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
        inputs = [self.place(image), weights, *self._bias(node, image)]
        self.add(name, inputs, node, kind, **options)

    def _matmul(self, node: Node, attributes: dict[str, Any]) -> None:
        if self._graph.constant(node.inputs[1]) is None:
            inputs = [self.place(name) for name in node.inputs]
            kind = "BatchMatMulOptions"
            self.add("BATCH_MATMUL", inputs, node, kind, AdjX=False, AdjY=False)
            return
        image = node.inputs[0]
        inputs = [self.place(image), self._weights(node, (1, 0)), *self._bias(node, image)]
        self.add(
            "FULLY_CONNECTED",
            inputs,
            node,
            "FullyConnectedOptions",
            **self._activation(attributes),
            KeepNumDims=len(self._graph.tensors[image].shape) != 2,
        )

    def _two(self, name: str, node: Node, attributes: Mapping[str, Any]) -> None:
        inputs = [self.place(tensor) for tensor in node.inputs]
        kind = f"{name.title()}Options"
        self.add(name, inputs, node, kind, **self._activation(attributes))

    def _add(self, node: Node, attributes: dict[str, Any]) -> None:
        self._two("ADD", node, attributes)

    def _mul(self, node: Node, attributes: dict[str, Any]) -> None:
        self._two("MUL", node, attributes)

    def _pool(self, name: str, node: Node, attributes: dict[str, Any]) -> None:
        high, wide = attributes["kernel"]
        self.add(
            name,
            [self.place(node.inputs[0])],
            node,
            "Pool2DOptions",
            **self._window(node, attributes),
            **self._activation(attributes),
            FilterHeight=high,
            FilterWidth=wide,
        )

    def _max_pool(self, node: Node, attributes: dict[str, Any]) -> None:
        self._pool("MAX_POOL_2D", node, attributes)

    def _average_pool(self, node: Node, attributes: dict[str, Any]) -> None:
        """A window of the whole image is a mean, which may have a scale of its own."""
        if attributes["kernel"] != list(self._graph.tensors[node.inputs[0]].shape[1:3]):
            self._pool("AVERAGE_POOL_2D", node, attributes)
            return
        inputs = [self.place(node.inputs[0]), self.constant([1, 2])]
        self.add("MEAN", inputs, node, "ReducerOptions", KeepDims=True)

    def _concat(self, node: Node, attributes: dict[str, Any]) -> None:
        inputs = [self.place(name) for name in node.inputs]
        kind = "ConcatenationOptions"
        self.add(
            "CONCATENATION", inputs, node, kind, Axis=attributes["axis"], FusedActivationFunction=0
        )

    def _resize(self, node: Node, attributes: dict[str, Any]) -> None:
        nearest = attributes["mode"] == "nearest"
        self.add(
            "RESIZE_NEAREST_NEIGHBOR" if nearest else "RESIZE_BILINEAR",
            [self.place(node.inputs[0]), self.constant(attributes["shape"][1:3])],
            node,
            "ResizeNearestNeighborOptions" if nearest else "ResizeBilinearOptions",
            AlignCorners=attributes["coordinates"] == "align_corners",
            HalfPixelCenters=attributes["coordinates"] == "half_pixel",
        )

    def _softmax(self, node: Node, attributes: dict[str, Any]) -> None:
        self.add("SOFTMAX", [self.place(node.inputs[0])], node, "SoftmaxOptions", Beta=1.0)

    def _table(self, node: Node, attributes: dict[str, Any]) -> None:
        self.add("LOGISTIC", [self.place(node.inputs[0])], node)

    def _reshape(self, node: Node, attributes: dict[str, Any]) -> None:
        shape = attributes["shape"]
        inputs = [self.place(node.inputs[0]), self.constant(shape)]
        self.add("RESHAPE", inputs, node, "ReshapeOptions", NewShape=np.array(shape, np.int32))

    def _transpose(self, node: Node, attributes: dict[str, Any]) -> None:
        inputs = [self.place(node.inputs[0]), self.constant(attributes["order"])]
        self.add("TRANSPOSE", inputs, node, "TransposeOptions")

    def _pad(self, node: Node, attributes: dict[str, Any]) -> None:
        widths = np.stack([attributes["before"], attributes["after"]], 1)
        inputs = [self.place(node.inputs[0]), self.constant(widths)]
        if attributes["mode"] == "reflect":
            self.add("MIRROR_PAD", inputs, node, "MirrorPadOptions", Mode=0)
            return
        self.add("PAD", inputs, node, "PadOptions")

    def _slice(self, node: Node, attributes: dict[str, Any]) -> None:
        parts = [attributes[name] for name in ("starts", "stops", "steps")]
        inputs = [self.place(node.inputs[0]), *map(self.constant, parts)]
        masks = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
        self.add("STRIDED_SLICE", inputs, node, "StridedSliceOptions", **dict.fromkeys(masks, 0))

    def _quantize(self, node: Node, attributes: dict[str, Any]) -> None:
        self.add("QUANTIZE", [self.place(node.inputs[0])], node, "QuantizeOptions")

    def _dequantize(self, node: Node, attributes: dict[str, Any]) -> None:
        self.add("DEQUANTIZE", [self.place(node.inputs[0])], node, "DequantizeOptions")


def as_tflite(graph: Graph) -> bytes:
    """``graph`` as a TFLite file."""
    return written(TfliteWriter(graph).model())


class _OnnxWriter:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._initializers: list[TensorProto] = []
        self._nodes: list[onnx.NodeProto] = []

    def model(self) -> onnx.ModelProto:
        graph = self._graph
        for node in graph.nodes:
            self._write(node, dict(node.attributes))
        used = {name for node in graph.nodes for name in node.inputs}
        for name in used:
            if (array := graph.constant(name)) is not None:
                self._initializers.append(numpy_helper.from_array(array, name))
        ends = [
            [helper.make_tensor_value_info(n, self._type(n), graph.tensors[n].shape) for n in names]
            for names in (graph.inputs, graph.outputs)
        ]
        made = helper.make_graph(self._nodes, "twin", *ends, self._initializers)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(made, opset_imports=opsets, ir_version=9)

    def _type(self, name: str) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(self._graph.tensors[name].dtype))

    def _scale(self, name: str) -> list[str]:
        """The names of the scale and zero point of a tensor."""
        held = self._graph.tensors[name]
        assert held.quantization is not None
        one = not held.quantization.per_channel
        scale = np.array(held.quantization.scale, np.float32)
        zero = np.array(held.quantization.zero_point, held.dtype)
        names = [f"{name}:scale", f"{name}:zero"]
        known = {tensor.name for tensor in self._initializers}
        for label, array in zip(names, (scale, zero), strict=True):
            if label not in known:
                array = array.reshape(()) if one else array
                self._initializers.append(numpy_helper.from_array(array, label))
        return names

    def _add(self, operator: str, inputs: Sequence[str], node: Node, **attributes: Any) -> None:
        domain = "" if operator in _OWN else "com.microsoft"
        made = helper.make_node(
            operator, inputs, node.outputs, node.name, domain=domain, **attributes
        )
        self._nodes.append(made)

    def _scaled(self, name: str) -> list[str]:
        return [name, *self._scale(name)]

    def _write(self, node: Node, attributes: dict[str, Any]) -> None:
        (made,) = node.outputs
        first = node.inputs[0]
        match node.operator:
            case "conv":
                inputs = [*self._scaled(first), *self._scaled(node.inputs[1]), *self._scale(made)]
                window = self._window(attributes)
                group = attributes["group"]
                inputs += node.inputs[2:]
                self._add("QLinearConv", inputs, node, group=group, channels_last=1, **window)
            case "matmul" if len(node.inputs) == 3:
                inputs = [*self._scaled(first), *self._scaled(node.inputs[1]), node.inputs[2]]
                self._add("QGemm", [*inputs, *self._scale(made)], node)
            case "matmul" | "add" | "mul":
                name = {"matmul": "QLinearMatMul", "add": "QLinearAdd", "mul": "QLinearMul"}
                inputs = [*self._scaled(first), *self._scaled(node.inputs[1]), *self._scale(made)]
                self._add(name[node.operator], inputs, node)
            case "average_pool":
                inputs = [*self._scaled(first), *self._scale(made)]
                window = self._window(attributes)
                del window["dilations"]
                self._add("QLinearAveragePool", inputs, node, channels_last=1, **window)
            case "max_pool":
                self._add("NhwcMaxPool", [first], node, **self._window(attributes))
            case "concat":
                parts = [text for name in node.inputs for text in self._scaled(name)]
                inputs = [*self._scale(made), *parts]
                self._add("QLinearConcat", inputs, node, axis=attributes["axis"])
            case "softmax":
                inputs = [*self._scaled(first), *self._scale(made)]
                self._add("QLinearSoftmax", inputs, node, axis=attributes["axis"], opset=17)
            case "table":
                self._add("QLinearSigmoid", [*self._scaled(first), *self._scale(made)], node)
            case "reshape":
                shape = self._numbers(f"{made}:shape", attributes["shape"])
                self._add("Reshape", [first, shape], node)
            case "resize":
                sizes = self._numbers(f"{made}:sizes", attributes["shape"])
                self._add(
                    "Resize",
                    [first, "", "", sizes],
                    node,
                    mode=attributes["mode"],
                    coordinate_transformation_mode=attributes["coordinates"],
                    nearest_mode=attributes["nearest"],
                )
            case other:
                raise NotImplementedError(other)

    def _numbers(self, name: str, values: Sequence[int]) -> str:
        self._initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def _window(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        assert not {"low", "high"} & attributes.keys(), "QOperator form clips by ranges alone"
        return {
            "kernel_shape": attributes["kernel"],
            "strides": attributes["strides"],
            "dilations": attributes["dilations"],
            "pads": attributes["pads"],
        }


_OWN = ("Reshape", "Resize", "QLinearMatMul")


def as_onnx(graph: Graph) -> bytes:
    """``graph`` as an ONNX file in QOperator form."""
    made: bytes = _OnnxWriter(graph).model().SerializeToString()
    return made
