"""Graphs with channels last as TFLite models, which pad by rule and have names of attributes and
orders of weights of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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

    def _add(self, node: Node, attributes: dict[str, Any]) -> None:
        inputs = [self.place(tensor) for tensor in node.inputs]
        self.add("ADD", inputs, node, "AddOptions", **self._activation(attributes))

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


def as_tflite(graph: Graph) -> bytes:
    """``graph`` as a TFLite file."""
    return written(TfliteWriter(graph).model())
