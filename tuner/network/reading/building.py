"""A graph while it is being made of a model: what readers of all formats do alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tuner.errors import UserError
from tuner.network import reference
from tuner.network.graph import Array, Graph, Node, Quantization, Shape, Tensor, checked
from tuner.network.graph import data_digest as digest_of_data
from tuner.network.operators import HOST, OPERATORS, pixels, require_positive
from tuner.network.reading import limits

BYTES = ("uint8", "int8")
"""The dtypes of quantized tensors that integer nodes take and make."""


class StaysError(Exception):
    """A node stays on the host; the text says why."""


class GraphBuilder:
    """Tensors, constants and nodes made so far. ``label`` and ``source`` are the name and operator
    of the model's node that is being read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        self.data: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.label = ""
        self.source = ""
        self._computed = 0

    @property
    def place(self) -> str:
        """The node being read, for error messages."""
        return f"node '{self.label}' ({self.source})" if self.label else "its inputs"

    def charge(self, elements: int) -> None:
        """Counts elements of constants that are computed while reading."""
        self._computed += elements
        if self._computed > limits.MOST_FOLDED_ELEMENTS:
            raise UserError(
                f"node '{self.label}' ({self.source}) makes {elements} constant elements",
                accepted=f"at most {limits.MOST_FOLDED_ELEMENTS} in the whole model",
                next_step="fold its constants before exporting the model",
            )

    def fresh(self, name: str) -> str:
        """``name``, or one like it that no tensor has."""
        while name in self.tensors:
            name += "'"
        return name

    def constant(self, name: str, array: Array, quantization: Quantization | None = None) -> str:
        """A constant tensor of the graph."""
        name = self.fresh(name)
        digest = digest_of_data(array)
        self.data[digest] = array
        self.tensors[name] = Tensor(name, array.shape, array.dtype.name, quantization, digest)
        return name

    def emit(
        self,
        operator: str,
        inputs: Sequence[str],
        name: str,
        quantization: Quantization | None,
        dtype: str,
        attributes: Mapping[str, Any] | None = None,
    ) -> str:
        """Adds a node and the tensor ``name`` it makes; of constants, makes the constant.

        What is a function of one element becomes a table: a sum or product with one constant
        element, and the change of scale of an operand of a concatenation.
        """
        name = self.fresh(name)
        given = dict(attributes or {})
        if quantization is not None and operator == "concat":
            inputs = [
                self._rescaled(tensor, f"{name}:{place}", quantization, dtype, given)
                for place, tensor in enumerate(inputs)
            ]
        if quantization is not None and operator in ("add", "mul"):
            place = self._one_varying(inputs)
            if place is not None:
                table = self._table(operator, inputs, place, quantization, dtype, given)
                return self.looked_up(inputs[place], table, name, quantization)
        shapes = [self.tensors[tensor].shape for tensor in inputs]
        shape = OPERATORS[operator].shape(given, shapes)
        self.tensors[name] = Tensor(name, shape, dtype, quantization)
        node = Node(self.label, operator, tuple(inputs), (name,), given, self.source)
        if all(self.tensors[tensor].data is not None for tensor in inputs):
            self.charge(self.tensors[name].elements)
            tensors = [self.tensors[tensor] for tensor in (*inputs, name)]
            alone = Graph("", {t.name: t for t in tensors}, (node,), (), (name,), self.data)
            del self.tensors[name]
            return self.constant(name, reference.run(alone, {})[name], quantization)
        self.nodes.append(node)
        return name

    def _rescaled(
        self,
        tensor: str,
        name: str,
        quantization: Quantization,
        dtype: str,
        attributes: Mapping[str, Any],
    ) -> str:
        """``tensor`` as an operand of a concatenation in ``quantization``."""
        held = self.tensors[tensor]
        same = held.quantization == quantization and held.dtype == dtype
        if same or held.quantization is None or held.dtype not in BYTES:
            return tensor
        given = {**attributes, "axis": 0}
        table = self._table("concat", [tensor], 0, quantization, dtype, given)
        return self.looked_up(tensor, table, name, quantization)

    def _one_varying(self, inputs: Sequence[str]) -> int | None:
        """The place of the one input of bytes that varies, if the other is one constant element."""
        tensors = [self.tensors[name] for name in inputs]
        varying = [place for place, tensor in enumerate(tensors) if tensor.data is None]
        if len(tensors) != 2 or len(varying) != 1:
            return None
        (place,) = varying
        source, other = tensors[place], tensors[1 - place]
        fits = other.elements == 1 and len(other.shape) <= len(source.shape)
        return place if fits and source.dtype in BYTES else None

    def _table(
        self,
        operator: str,
        inputs: Sequence[str],
        place: int,
        quantization: Quantization,
        dtype: str,
        attributes: Mapping[str, Any],
    ) -> Array:
        """``operator`` of all 256 bytes as the input at ``place``, as if unsigned; the others are
        constants."""
        source = self.tensors[inputs[place]]
        elements = np.arange(256, dtype=np.uint8).view(source.dtype)
        one = Tensor(source.name, elements.shape, source.dtype, source.quantization)
        made = Tensor("", elements.shape, dtype, quantization)
        constants = [self.tensors[name] for n, name in enumerate(inputs) if n != place]
        tensors = {tensor.name: tensor for tensor in (one, made, *constants)}
        node = Node(self.label, operator, tuple(inputs), ("",), attributes)
        alone = Graph("", tensors, (node,), (one.name,), ("",), self.data)
        return reference.run(alone, {one.name: elements})[""].reshape(-1)

    def scale(self, tensor: str) -> Array:
        """The scales (float32) of a quantized tensor."""
        quantization = self.tensors[tensor].quantization
        assert quantization is not None  # noqa: S101 - operands are quantized
        return np.array(quantization.scale, np.float32)

    def entries(self, tensor: str) -> Array:
        """The real numbers (float32) of all 256 bytes of ``tensor``, as if unsigned."""
        held = self.tensors[tensor]
        assert held.quantization is not None  # noqa: S101 - operands are quantized
        elements = np.arange(256, dtype=np.uint8).view(held.dtype)
        return reference.dequantize_array(elements, held.quantization)

    def looked_up(self, tensor: str, table: Array, name: str, quantization: Quantization) -> str:
        """The bytes of ``tensor`` looked up in ``table``, of 256 elements."""
        stored = self.constant(f"{name}:table", table)
        return self.emit("table", [tensor, stored], name, quantization, table.dtype.name)

    def transposed(self, tensor: str, order: list[int], name: str) -> str:
        """``tensor`` with its dimensions in ``order``."""
        held = self.tensors[tensor]
        quantization = held.quantization
        if quantization is not None and quantization.axis is not None:
            quantization = replace(quantization, axis=order.index(quantization.axis))
        return self.emit("transpose", [tensor], name, quantization, held.dtype, {"order": order})

    def kept_on_host(
        self,
        inputs: Mapping[str, str],
        model: bytes,
        outputs: Sequence[Tensor],
        macs: int,
        reason: str,
    ) -> None:
        """Adds a node that stays on the host: ``model`` is the file of a model of it alone, whose
        inputs are ``inputs``, each with the tensor that it takes."""
        for tensor in outputs:
            self.tensors[tensor.name] = tensor
        first = outputs[0]
        stored = self.constant(f"{first.name}:model", np.frombuffer(model, np.uint8))
        self.nodes.append(
            Node(
                self.label,
                HOST,
                (*inputs.values(), stored),
                tuple(tensor.name for tensor in outputs),
                {"inputs": list(inputs), "shape": list(first.shape), "macs": macs},
                self.source,
                reason,
            )
        )

    def finished(self, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """The graph, checked."""
        return checked(self.name, self.tensors.values(), self.nodes, inputs, outputs, self.data)


def steps_of(low: float, high: float, quantization: Quantization, dtype: str) -> dict[str, int]:
    """``low`` and ``high`` of a result that is clipped to these real numbers, in its own steps;
    without those that do nothing."""
    ends = np.iinfo(dtype)
    made = {}
    for key, bound, end in (("low", low, ends.min), ("high", high, ends.max)):
        if np.isfinite(bound):
            real = np.array(bound, np.float32)
            value = int(reference.quantize_array(real, quantization, dtype))
            if value != end:
                made[key] = value
    return made


def same_pads(
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    more_after: bool = True,
) -> list[int]:
    """Padding (top, left, bottom, right) by which windows are as many as strides in the image. An
    odd pixel comes behind it, or else before."""
    require_positive({"kernel": kernel, "strides": strides, "dilations": dilations})
    before, after = [0, 0], [0, 0]
    for n in range(2):
        reach = (kernel[n] - 1) * dilations[n] + 1
        total = max(0, (-(-extents[n] // strides[n]) - 1) * strides[n] + reach - extents[n])
        less, more = total // 2, total - total // 2
        before[n], after[n] = (less, more) if more_after else (more, less)
    return [*before, *after]


def whole_image(shape: Shape, layout: str) -> dict[str, Any]:
    """Attributes of a pooling by means whose one window is the image."""
    if len(shape) != 4:
        raise StaysError(f"its images have {len(shape) - 2} axes, not 2")
    kernel = list(pixels(shape, layout))
    window = {"kernel": kernel, "strides": [1, 1], "dilations": [1, 1], "pads": [0] * 4}
    return {**window, "layout": layout, "count_padding": False}


def macs_of_product(left: Shape, made: Shape) -> int:
    """Multiply-accumulates of a product of matrices."""
    return prod(made) * left[-1] if left else 0
