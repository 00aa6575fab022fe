"""Where integer operators of a QDQ model end: how the result of a node on real numbers is quantized
by the nodes after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from tuner.network.graph import Quantization
from tuner.network.reading import onnx_file
from tuner.network.reading.building import BYTES, StaysError, steps_of
from tuner.network.reading.onnx_values import OnnxBuilder, Stored

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Target:
    """How the result of a node on real numbers is quantized, and what that absorbs."""

    quantization: Quantization
    dtype: str
    values: tuple[str, ...]
    absorbed: tuple[int, ...]
    low: float = -inf
    high: float = inf


def target_of(builder: OnnxBuilder, node: onnx.NodeProto, *, clipped: bool = True) -> Target:
    """How the result of ``node`` is quantized. Raises :class:`StaysError` if it is not."""
    name, low, high = node.output[0], -inf, inf
    absorbed: list[int] = []
    nodes = builder.model.graph.node
    while True:
        users = [nodes[position] for position in builder.users[name]]
        if name in builder.outputs or not users:
            raise StaysError("its result leaves the network as real numbers")
        if len(users) > 1 or users[0].op_type not in ("Relu", "Clip") or not clipped:
            break
        low, high = _clip_of(builder, users[0], low, high)
        absorbed += builder.users[name]
        name = users[0].output[0]
    found = set()
    for user in users:
        if user.op_type != "QuantizeLinear" or user.input[0] != name:
            raise StaysError(f"its result goes to {user.op_type} as real numbers")
        found.add(builder.quantization(user.input[1:3], 1))
    if len(found) > 1:
        raise StaysError("its result is quantized in more than one way")
    quantization, dtype = found.pop()
    if dtype not in BYTES or quantization.per_channel:
        raise StaysError("its result is not quantized to 8 bits with one scale")
    absorbed += builder.users[name]
    values = tuple(user.output[0] for user in users)
    return Target(quantization, dtype, values, tuple(absorbed), low, high)


def _clip_of(
    builder: OnnxBuilder, node: onnx.NodeProto, low: float, high: float
) -> tuple[float, float]:
    """``low`` and ``high`` after a Relu or Clip."""
    if node.op_type == "Relu":
        return max(low, 0.0), max(high, 0.0)
    attributes = onnx_file.attributes_of(node)
    bounds = [attributes.get("min", -inf), attributes.get("max", inf)]
    for place in (1, 2):
        if len(node.input) > place and node.input[place]:
            array = builder.real_array(node.input[place])
            if array is None:
                raise StaysError("the bounds of its Clip are not constant")
            bounds[place - 1] = float(array.reshape(-1)[0])
    return min(max(low, bounds[0]), bounds[1]), max(min(high, bounds[1]), bounds[0])


def add_result(
    builder: OnnxBuilder,
    target: Target,
    operator: str,
    inputs: Sequence[str],
    attributes: Mapping[str, Any],
) -> None:
    """Adds the node that makes ``target``."""
    bounds = steps_of(target.low, target.high, target.quantization, target.dtype)
    made = builder.emit(
        operator,
        inputs,
        target.values[0],
        target.quantization,
        target.dtype,
        {**attributes, **bounds},
    )
    for name in target.values:
        builder.values[name] = Stored(made)
    builder.absorbed.update(target.absorbed)
