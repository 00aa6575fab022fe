"""Quantized TFLite models as graphs.

Operators are read in the order they run in. Whole numbers that follow from shapes and constants are
computed while reading; what has no integer form (``tflite_rules``) stays on the host as it is, with
the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np

from tuner.errors import UserError
from tuner.network.graph import Array, Graph, Shape, Tensor
from tuner.network.operators import ShapeError
from tuner.network.reading import tflite_file
from tuner.network.reading.building import StaysError, macs_of_product
from tuner.network.reading.tflite_file import TfliteModel, TfliteOperator
from tuner.network.reading.tflite_rules import RULES, new_shape, strided
from tuner.network.reading.tflite_values import TfliteBuilder
from tuner.network.reading.tflite_writing import alone

_MALFORMED = (KeyError, IndexError, ValueError, TypeError, OverflowError)


def read(content: bytes, path: str, axes: Mapping[str, int] | None = None) -> Graph:
    """The network in ``content``, that of the TFLite file ``path``; ``axes`` gives the extents of
    its dynamic axes as ``INPUT:POSITION``.

    Raises ``UserError`` naming the operator, tensor or axis, and ``ToolchainError`` without the
    package tflite.
    """
    reader = _Reader(tflite_file.load(content, path), Path(path).stem, dict(axes or {}))
    try:
        with np.errstate(all="ignore"):  # scales may be anything; tables saturate
            return reader.read()
    except _MALFORMED as error:
        raise UserError(
            f"{path} is malformed at {reader.place}: {type(error).__name__} {error}",
            accepted="models that TFLite's interpreter takes",
        ) from None


class _Reader(TfliteBuilder):
    def __init__(self, model: TfliteModel, name: str, axes: dict[str, int]) -> None:
        super().__init__(model, name)
        self._axes = axes

    def read(self) -> Graph:
        """The graph of all operators."""
        inputs = self._read_inputs()
        for position, operator in enumerate(self.model.operators):
            kind = operator.code or operator.operator
            self.label, self.source = f"{kind} {position}", kind
            for index in operator.outputs:
                if index in self.stored or index in self.known:
                    raise UserError(
                        f"tensor '{self.stated(index).name}' has more than one producer"
                    )
            try:
                self._visit(operator)
            except ShapeError as error:
                raise UserError(f"node '{self.label}' ({kind}): {error}") from None
        self.label, self.source = "outputs", "the network's"
        return self.finished(inputs, [self.tensor(index) for index in self.model.outputs])

    def _read_inputs(self) -> list[str]:
        named: set[str] = set()
        made = []
        for index in dict.fromkeys(self.model.inputs):
            held = self.stated(index)
            if index in self.known:
                raise UserError(f"the input '{held.name}' is constant", accepted="tensors without")
            name = self.fresh(held.name)
            shape = list(held.shape)
            for axis in held.dynamic:
                key = f"{name}:{axis}"
                named.add(key)
                if key not in self._axes:
                    raise UserError(
                        f"axis {axis} of the input '{name}' has no value",
                        accepted="a positive extent for every axis",
                        next_step=f"add --axis {key}=1",
                    )
                shape[axis] = self._axes[key]
            for axis, extent in enumerate(shape):
                if not 0 < extent < 1 << 31:
                    raise UserError(
                        f"axis {axis} of the input '{name}' is {extent}",
                        accepted="1 to 2147483647",
                    )
            self.tensors[name] = Tensor(name, tuple(shape), held.dtype, held.quantization)
            self.stored[index] = name
            made.append(name)
        for key in self._axes.keys() - named:
            raise UserError(
                f"the model has no dynamic axis '{key}'",
                accepted=", ".join(sorted(named)) or "none: all its shapes are fixed",
            )
        return made

    def _visit(self, operator: TfliteOperator) -> None:
        try:
            if self._folded(operator):
                return
            rule = RULES.get(operator.operator)
            if rule is None:
                raise StaysError(f"no integer form of {self.source} is known")
            rule(self, operator)
        except StaysError as stays:
            self._to_host(operator, str(stays))

    def _folded(self, operator: TfliteOperator) -> bool:
        """Computes whole numbers that follow from constants and shapes."""
        fold = _FOLDS.get(operator.operator)
        if fold is None or not operator.inputs or len(operator.outputs) > 1:
            return False
        if operator.operator != "SHAPE":
            given = [self.known.get(index) for index in operator.inputs if index >= 0]
            if any(array is None or array.dtype.name not in _WHOLE for array in given):
                return False
        array = fold(self, operator)
        self.charge(array.size)
        self.known[operator.outputs[0]] = array
        return True

    def _to_host(self, operator: TfliteOperator, reason: str) -> None:
        """Keeps ``operator`` as it is: on integers, if that is what it computes on."""
        operands: dict[int, str] = {}
        tensors = {}
        for index in dict.fromkeys(n for n in operator.inputs if n >= 0):
            held, array = self.stated(index), self.known.get(index)
            if array is None:
                operands[index] = self.tensor(index)
                shape = self.tensors[operands[index]].shape
                tensors[index] = replace(
                    held, name=operands[index], shape=shape, data=None, dynamic=()
                )
            else:
                tensors[index] = replace(held, shape=array.shape, data=array, dynamic=())
        made = []
        for index in operator.outputs:
            held = self.stated(index)
            if held.dynamic or min(held.shape, default=0) < 0:
                raise UserError(
                    f"node '{self.label}' ({self.source}) makes '{held.name}' without a shape",
                    accepted="operators with an integer form, or whose results state their shapes",
                    next_step="convert the model with fixed shapes",
                )
            tensors[index] = replace(held, data=None)
            made.append(Tensor(self.fresh(held.name), held.shape, held.dtype, held.quantization))
            self.stored[index] = made[-1].name
        shapes = [tensors[index].shape for index in operator.inputs if index >= 0]
        self.kept_on_host(
            {name: name for name in operands.values()},
            alone(operator, tensors),
            made,
            _macs(operator.operator, shapes, made[0].shape),
            reason,
        )


_WHOLE = ("int32", "int64")


def _macs(operator: str, shapes: Sequence[Shape], made: Shape) -> int:
    """Multiply-accumulates of an operator on the host; 0 where these are not what it does."""
    if operator in ("FULLY_CONNECTED", "BATCH_MATMUL") and shapes:
        inner = shapes[1][-1:] if operator == "FULLY_CONNECTED" else shapes[0]
        return macs_of_product(inner, made)
    if operator in ("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D") and len(shapes) > 1:
        taps = shapes[1][1:-1] if operator == "DEPTHWISE_CONV_2D" else shapes[1][1:]
        return prod(made) * prod(taps)
    if operator == "TRANSPOSE_CONV" and len(shapes) > 2:
        return prod(shapes[2]) * prod(shapes[1][:-1])
    return 0


def _shape(reader: _Reader, operator: TfliteOperator) -> Array:
    return np.array(reader.shape(operator.inputs[0]), np.int32)


def _arrays(reader: _Reader, operator: TfliteOperator) -> list[Array]:
    return [reader.known[index] for index in operator.inputs if index >= 0]


def _reshaped(reader: _Reader, operator: TfliteOperator) -> Array:
    array = _arrays(reader, operator)[0]
    return array.reshape(new_shape(reader, operator, array.shape))


def _part(reader: _Reader, operator: TfliteOperator) -> Array:
    array = _arrays(reader, operator)[0]
    bounds, left_out = strided(reader, operator, array.shape)
    part = array[tuple(slice(*bound) for bound in bounds)]
    return part.reshape([e for n, e in enumerate(part.shape) if n not in left_out])


def _packed(reader: _Reader, operator: TfliteOperator) -> Array:
    return np.stack(_arrays(reader, operator), reader.option(operator, "Axis"))


def _joined(reader: _Reader, operator: TfliteOperator) -> Array:
    return np.concatenate(_arrays(reader, operator), reader.option(operator, "Axis"))


_FOLDS: Mapping[str, Callable[[_Reader, TfliteOperator], Array]] = {
    "SHAPE": _shape,
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), _reshaped),
    "STRIDED_SLICE": _part,
    "PACK": _packed,
    "CONCATENATION": _joined,
}
"""By operator: what it makes of constants. Those that exporters leave to compute shapes."""
