"""Float ONNX models, layer by layer, with seeded weights that keep the sizes of activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Adds nodes to one graph; each method returns the name of its result."""

    def __init__(self, seed: int, opset: int = 17) -> None:
        self.rng = np.random.default_rng(seed)
        self._opset = opset
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: tuple[int | str, ...]) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def floats(self, *values: float) -> str:
        return self.constant(np.array(values, np.float32))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator}_{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(operator, list(inputs), [f"{name}_out"], name, **attributes)
        )
        return f"{name}_out"

    def split(self, source: str, sizes: str) -> tuple[str, str]:
        """Two parts of the channels."""
        name = f"Split_{len(self._nodes)}"
        outputs = (f"{name}_first", f"{name}_second")
        self._nodes.append(helper.make_node("Split", [source, sizes], outputs, name, axis=1))
        return outputs

    def weights(self, *shape: int) -> str:
        """Normal, of the variance that keeps that of activations (He et al., 2015)."""
        inner = int(np.prod(shape[1:]))
        drawn = self.rng.normal(0, np.sqrt(2 / inner), shape)
        return self.constant(drawn.astype(np.float32))

    def conv(
        self,
        source: str,
        channels_in: int,
        channels_out: int,
        size: int = 1,
        stride: int = 1,
        group: int = 1,
        dilation: int = 1,
    ) -> str:
        """Convolution with a bias, padded to keep the extents (but for the stride)."""
        pad = dilation * (size - 1) // 2
        return self.node(
            "Conv",
            source,
            self.weights(channels_out, channels_in // group, size, size),
            self.constant(self.rng.normal(0, 0.1, channels_out).astype(np.float32)),
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[pad] * 4,
            dilations=[dilation, dilation],
            group=group,
        )

    def relu(self, source: str) -> str:
        return self.node("Relu", source)

    def relu6(self, source: str) -> str:
        bounds = [self.constant(np.array(bound, np.float32)) for bound in (0, 6)]
        return self.node("Clip", source, *bounds)

    def max_pool(self, source: str, size: int, stride: int, pad: int = 0) -> str:
        return self.node(
            "MaxPool", source, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4
        )

    def dense(self, source: str, channels_in: int, channels_out: int) -> str:
        weights = self.weights(channels_out, channels_in)
        bias = self.constant(self.rng.normal(0, 0.1, channels_out).astype(np.float32))
        return self.node("Gemm", source, weights, bias, transB=1)

    def model(self, *outputs: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self._nodes,
            "model",
            self._inputs,
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            self._constants,
        )
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self._opset)], ir_version=9
        )
        return onnx.shape_inference.infer_shapes(made, strict_mode=True, data_prop=True)
