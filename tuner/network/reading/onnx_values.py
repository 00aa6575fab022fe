"""The values of an ONNX model while its graph is made: what each name stands for, and how it is
quantized."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import UserError
from tuner.network import reference
from tuner.network.graph import Array, Quantization, Shape
from tuner.network.reading.building import BYTES, GraphBuilder, StaysError

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Constant:
    """A value known while reading that is not quantized."""

    array: Array


@dataclass(frozen=True)
class Stored:
    """A value that is a tensor of the graph."""

    tensor: str


@dataclass(frozen=True)
class Real:
    """The real numbers that a quantized tensor of the graph stands for."""

    tensor: str


Value = Constant | Stored | Real


class OnnxBuilder(GraphBuilder):
    """A graph being made of ``model``. ``values`` has what is known of names so far, ``users`` the
    positions of nodes that read a name, ``absorbed`` those that others have done besides."""

    def __init__(self, model: onnx.ModelProto, name: str) -> None:
        super().__init__(name)
        self.model = model
        self.opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
        self.values: dict[str, Value] = {}
        self.absorbed: set[int] = set()
        self.users: dict[str, list[int]] = defaultdict(list)
        self.outputs = {value.name for value in model.graph.output}
        self._dequantized: dict[str, str] = {}

    def shape(self, value: Value) -> Shape:
        """The shape of a value."""
        if isinstance(value, Constant):
            return value.array.shape
        return self.tensors[value.tensor].shape

    def materialized(self, name: str) -> str:
        """The tensor of the graph that holds the value ``name`` as the model has it."""
        value = self.values.get(name)
        if value is None:
            raise UserError(f"no node makes the output '{name}'")
        if isinstance(value, Constant):
            made = self.constant(name, value.array)
            self.values[name] = Stored(made)
            return made
        if isinstance(value, Stored):
            return value.tensor
        if value.tensor not in self._dequantized:
            self._dequantized[value.tensor] = self.emit(
                "dequantize", [value.tensor], name, None, "float32"
            )
        return self._dequantized[value.tensor]

    def real_array(self, name: str) -> Array | None:
        """The real numbers of a value if it is constant."""
        value = self.values[name]
        if isinstance(value, Constant):
            return value.array
        tensor = self.tensors[value.tensor]
        if not isinstance(value, Real) or tensor.data is None or tensor.quantization is None:
            return None
        return reference.dequantize_array(self.data[tensor.data], tensor.quantization)

    def known(self, name: str, what: str) -> Array:
        """The elements of an input that must be constant."""
        value = self.values[name]
        if not isinstance(value, Constant):
            raise StaysError(f"its {what} is not constant")
        return value.array

    def optional(self, node: onnx.NodeProto, place: int, what: str) -> Array | None:
        """The elements of an input that is left out, or must be constant."""
        if len(node.input) <= place or not node.input[place]:
            return None
        return self.known(node.input[place], what)

    def quantization(
        self, names: Sequence[str], rank: int, axis: int = 1, shape: Shape | None = None
    ) -> tuple[Quantization, str]:
        """Scales and zero points by the names of these constants, and the dtype of the second (u8
        if left out). Several must be as many as the tensor, of ``shape`` where that is known, has
        elements along ``axis``."""
        scales = self.known(names[0], "scale").astype(np.float32)
        zero = names[1] if len(names) > 1 else ""
        zeros = self.known(zero, "zero point") if zero else np.zeros(scales.shape, np.uint8)
        if scales.ndim > 1:
            raise StaysError(f"its scales are {list(scales.shape)}, in blocks")
        self._require_as_many(scales.size, zeros.size, axis, shape)
        if not np.isfinite(scales).all() or (scales <= 0).any():
            raise UserError(
                f"node '{self.label}' has a scale of {scales.min()}",
                accepted="positive finite numbers",
            )
        if zeros.dtype.name not in (*BYTES, "int32"):
            raise StaysError(f"its quantized dtype is {zeros.dtype.name}, not {' or '.join(BYTES)}")
        count = scales.size
        points = np.broadcast_to(zeros.reshape(-1), (count,))
        place = None if scales.ndim == 0 or count == 1 else axis % rank
        made = Quantization(tuple(map(float, scales.reshape(-1))), tuple(map(int, points)), place)
        return made, zeros.dtype.name

    def _require_as_many(self, scales: int, zeros: int, axis: int, shape: Shape | None) -> None:
        wanted, what = scales, f"node '{self.label}' has {scales} scales"
        if shape is not None and scales > 1:
            if not -len(shape) <= axis < len(shape):
                raise UserError(
                    f"{what} along axis {axis} of a tensor of {list(shape)}",
                    accepted=f"{-len(shape)} to {len(shape) - 1}",
                )
            wanted = shape[axis]
        if scales != wanted or zeros not in (1, wanted):
            raise UserError(
                f"{what} and {zeros} zero points along axis {axis}",
                accepted=f"{wanted} of each, or one",
            )

    def with_quantization(self, name: str, quantization: Quantization) -> str:
        """The tensor of the value ``name`` read with ``quantization``."""
        value = self.values[name]
        if isinstance(value, Constant):
            return self.constant(name, value.array, quantization)
        if isinstance(value, Real):
            raise StaysError(f"its input '{name}' is not quantized")
        tensor = self.tensors[value.tensor]
        if tensor.quantization is None:
            self.tensors[value.tensor] = replace(tensor, quantization=quantization)
        elif tensor.quantization != quantization:
            return self.emit(
                "reinterpret", [value.tensor], f"{name}:again", quantization, tensor.dtype
            )
        return value.tensor

    def scaled(self, node: onnx.NodeProto, place: int, rank: int, axis: int = 1) -> str:
        """The tensor of input ``place``, whose scale and zero point are the next two inputs."""
        shape = self.shape(self.values[node.input[place]])
        rank = len(shape) or rank
        found, _ = self.quantization(node.input[place + 1 : place + 3], rank, axis % rank, shape)
        return self.with_quantization(node.input[place], found)

    def operand(self, name: str, *, per_channel: bool = False) -> str:
        """The 8-bit tensor that a value on real numbers stands for."""
        value = self.values[name]
        if not isinstance(value, Real):
            raise StaysError(f"its input '{name}' is not quantized")
        tensor = self.tensors[value.tensor]
        if tensor.dtype not in BYTES:
            raise StaysError(f"its input '{name}' is {tensor.dtype}, not {' or '.join(BYTES)}")
        if tensor.quantization and tensor.quantization.per_channel and not per_channel:
            raise StaysError(f"its input '{name}' has a scale for each channel")
        return value.tensor
