"""The tensors of a TFLite model while its graph is made: each has its scale, so integer operators
are found as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from tuner.errors import UserError
from tuner.network import reference
from tuner.network.graph import Array, Quantization, Shape
from tuner.network.operators import ShapeError
from tuner.network.reading.building import BYTES, GraphBuilder, StaysError, steps_of
from tuner.network.reading.tflite_file import TfliteModel, TfliteOperator, TfliteTensor, names_of

_BOUNDS: Mapping[str, tuple[float, float]] = {
    "NONE": (-inf, inf),
    "RELU": (0.0, inf),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
}
"""Real numbers that a fused activation leaves."""


class TfliteBuilder(GraphBuilder):
    """A graph being made of ``model``. ``stored`` has the graph's tensors for the model's so far,
    ``known`` the elements of constants, those computed while reading included."""

    def __init__(self, model: TfliteModel, name: str) -> None:
        super().__init__(name)
        self.model = model
        self.stored: dict[int, str] = {}
        self.known: dict[int, Array] = {
            index: tensor.data
            for index, tensor in enumerate(model.tensors)
            if tensor.data is not None
        }

    def option(self, operator: TfliteOperator, name: str) -> Any:
        """An option of ``operator``. Raises ``UserError`` if it states none."""
        if name not in operator.options:
            raise UserError(
                f"node '{self.label}' ({self.source}) has no option {name}, its options are "
                f"{operator.kind or 'left out'}",
                accepted=f"the options of {self.source}",
            )
        return operator.options[name]

    def stated(self, index: int) -> TfliteTensor:
        """A tensor as the model states it."""
        return self.model.tensors[index]

    def index(self, operator: TfliteOperator, place: int) -> int:
        """The tensor of input ``place``. Raises ``UserError`` if it is left out."""
        if len(operator.inputs) <= place or operator.inputs[place] < 0:
            raise UserError(
                f"node '{self.label}' ({self.source}) has no input {place}",
                accepted=f"the inputs of {self.source}",
            )
        return operator.inputs[place]

    def tensor(self, index: int) -> str:
        """The graph's tensor for the model's; constants are made when they are needed."""
        if index not in self.stored:
            held = self.stated(index)
            array = self.known.get(index)
            if array is None:
                raise UserError(
                    f"node '{self.label}' ({self.source}) reads '{held.name}', which nothing "
                    "before it makes",
                    accepted="operators in the order they run in, without cycles",
                )
            self.stored[index] = self.constant(held.name, array, held.quantization)
        return self.stored[index]

    def shape(self, index: int) -> Shape:
        """The shape of a tensor that was made or is constant."""
        array = self.known.get(index)
        return self.tensors[self.tensor(index)].shape if array is None else array.shape

    def operand(self, operator: TfliteOperator, place: int, *, per_channel: bool = False) -> str:
        """Input ``place`` as 8-bit tensor with its scale.

        Raises :class:`StaysError` for other dtypes, and ``UserError`` without a scale.
        """
        tensor = self.tensors[self.tensor(self.index(operator, place))]
        self._quantized(tensor.name, tensor.dtype, tensor.quantization, per_channel=per_channel)
        return tensor.name

    def _quantized(
        self, name: str, dtype: str, quantization: Quantization | None, *, per_channel: bool
    ) -> Quantization:
        if dtype not in BYTES:
            raise StaysError(f"its tensor '{name}' is {dtype}, not {' or '.join(BYTES)}")
        if quantization is None:
            raise UserError(
                f"tensor '{name}' of node '{self.label}' ({self.source}) is {dtype} without a "
                "scale",
                accepted="a scale and a zero point for each 8-bit tensor",
                next_step="convert the model with full integer quantization",
            )
        if quantization.per_channel and not per_channel:
            raise StaysError(f"its tensor '{name}' has a scale for each channel")
        return quantization

    def target(self, operator: TfliteOperator, output: int = 0) -> tuple[Quantization, str]:
        """Scale and dtype of an 8-bit result; raises as :meth:`operand`."""
        held = self.stated(operator.outputs[output])
        found = self._quantized(held.name, held.dtype, held.quantization, per_channel=False)
        return found, held.dtype

    def numbers(self, operator: TfliteOperator, place: int, what: str) -> list[int]:
        """The elements of an input of whole numbers that must be constant."""
        array = self.known.get(self.index(operator, place))
        if array is None:
            raise StaysError(f"its {what} is not constant")
        if array.dtype.kind not in "iu":
            raise ShapeError(f"its {what} is {array.dtype}, not whole numbers")
        return [int(number) for number in array.reshape(-1)]

    def bounds(
        self, operator: TfliteOperator, quantization: Quantization, dtype: str
    ) -> dict[str, int]:
        """``low`` and ``high`` of a result after the activation that is fused with it."""
        number = self.option(operator, "FusedActivationFunction")
        name = names_of("ActivationFunctionType").get(number, f"number {number}")
        if name not in _BOUNDS:
            raise StaysError(f"its fused activation is {name}")
        return steps_of(*_BOUNDS[name], quantization, dtype)

    def require_no_activation(self, operator: TfliteOperator) -> None:
        """Raises :class:`StaysError` if a fused activation changes what ``operator`` makes."""
        if self.bounds(operator, *self.target(operator)):
            raise StaysError("an activation is fused with it")

    def make(
        self,
        operator: TfliteOperator,
        kind: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Adds the node that makes the first output."""
        quantization, dtype = self.target(operator)
        name = self.stated(operator.outputs[0]).name
        self.stored[operator.outputs[0]] = self.emit(
            kind, inputs, name, quantization, dtype, attributes
        )

    def move(
        self,
        operator: TfliteOperator,
        kind: str,
        source: str,
        attributes: Mapping[str, Any],
        output: int = 0,
    ) -> None:
        """Applies ``kind`` to the bytes of ``source``: TFLite moves them as they are, also where
        the result states another scale."""
        quantization, dtype = self.target(operator, output)
        held = self.tensors[source]
        if held.dtype != dtype:
            raise StaysError(f"it makes {dtype} of {held.dtype}")
        name = self.stated(operator.outputs[output]).name
        alike = held.quantization == quantization
        made = self.emit(
            kind, [source], name if alike else f"{name}:bytes", held.quantization, dtype, attributes
        )
        if not alike:
            made = self.emit("reinterpret", [made], name, quantization, dtype)
        self.stored[operator.outputs[output]] = made

    def turned(
        self, operator: TfliteOperator, place: int, order: Sequence[int], suffix: str
    ) -> str:
        """Constant weights with their dimensions in ``order``, made while reading."""
        self.operand(operator, place, per_channel=True)
        index = self.index(operator, place)
        array, held = self.known.get(index), self.stated(index)
        if array is None:
            raise StaysError("its weights are not constant")
        if array.ndim != len(order):
            raise ShapeError(f"weights are {list(array.shape)}")
        quantization = held.quantization
        if quantization is not None and quantization.axis is not None:
            quantization = replace(quantization, axis=order.index(quantization.axis))
        turned = np.ascontiguousarray(array.transpose(order))
        return self.constant(f"{held.name}:{suffix}", turned, quantization)

    def bias(self, operator: TfliteOperator, place: int) -> list[str]:
        """The bias, in units of the sums, if there is one."""
        if len(operator.inputs) <= place or operator.inputs[place] < 0:
            return []
        index = operator.inputs[place]
        array, held = self.known.get(index), self.stated(index)
        if array is None:
            raise StaysError("its bias is not constant")
        if array.dtype != np.int32:
            raise StaysError(f"its bias is {array.dtype}, not int32")
        return [self.constant(f"{held.name}:sums", array.reshape(-1))]

    def look_up(self, operator: TfliteOperator, entries: Array) -> None:
        """Makes the first output a table: of the real numbers (float32) that the bytes of the
        first input become."""
        quantization, dtype = self.target(operator)
        table = reference.quantize_array(entries, quantization, dtype)
        name = self.stated(operator.outputs[0]).name
        source = self.operand(operator, 0)
        self.stored[operator.outputs[0]] = self.looked_up(source, table, name, quantization)
