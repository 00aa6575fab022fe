"""Quantized ONNX models as graphs: QDQ and QOperator form, as onnxruntime's static quantizer writes
them.

Nodes are visited once, in an order that respects their dependencies. In QDQ form a node computes on
real numbers between DequantizeLinear and QuantizeLinear: where all operands are quantized and the
result is at once (a Relu or Clip between aside), it becomes an integer node. All others stay on the
host as they are, between explicit ``quantize`` and ``dequantize``, with the reason.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import UserError
from tuner.network import reference
from tuner.network.graph import Array, Graph, Node, Quantization, Shape, Tensor, checked
from tuner.network.graph import data_digest as digest_of_data
from tuner.network.operators import HOST, OPERATORS, ShapeError, pixels
from tuner.network.reading import onnx_file

if TYPE_CHECKING:
    import onnx

_BYTES = ("uint8", "int8")
"""The dtypes of quantized tensors that integer nodes take and make."""
_MICROSOFT = "com.microsoft"
_TABLES = frozenset(
    (
        *("Abs", "Celu", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu"),
        *("Mish", "Neg", "Relu", "Clip", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh"),
    )
)
"""Functions of one element: of 8 bits, a table of 256."""
_MALFORMED = (KeyError, IndexError, ValueError, TypeError, OverflowError)
_COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")


class _StaysError(Exception):
    """A node stays on the host; the text says why."""


@dataclass(frozen=True)
class _Constant:
    """A value known while reading that is not quantized."""

    array: Array


@dataclass(frozen=True)
class _Stored:
    """A value that is a tensor of the graph."""

    tensor: str


@dataclass(frozen=True)
class _Real:
    """The real numbers that a quantized tensor of the graph stands for."""

    tensor: str


_Value = _Constant | _Stored | _Real


@dataclass(frozen=True)
class _Target:
    """How the result of a node on real numbers is quantized, and what that absorbs."""

    quantization: Quantization
    dtype: str
    values: tuple[str, ...]
    absorbed: tuple[int, ...]
    low: float = -inf
    high: float = inf


def read(path: Path, axes: Mapping[str, int] | None = None) -> Graph:
    """The network in the ONNX file ``path``; ``axes`` gives the extents of its dynamic axes by
    name, or as ``INPUT:POSITION``.

    Raises ``UserError`` naming the node, tensor or axis, and ``ToolchainError`` without the package
    onnx.
    """
    model = onnx_file.load(path)
    reader = _Reader(model, path.parent, path.stem, dict(axes or {}))
    try:
        with np.errstate(all="ignore"):  # scales may be anything; tables saturate
            return reader.read()
    except _MALFORMED as error:
        # Text that is not UTF-8 is bytes in fields that else are str, for one.
        raise UserError(
            f"{path} is malformed at {reader.place}: {type(error).__name__} {error}",
            accepted="models that onnx.checker accepts",
        ) from None


class _Reader:
    def __init__(
        self, model: onnx.ModelProto, folder: Path, name: str, axes: dict[str, int]
    ) -> None:
        self._model, self._folder, self._name, self._axes = model, folder, name, axes
        self._opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
        self._tensors: dict[str, Tensor] = {}
        self._data: dict[str, Array] = {}
        self._nodes: list[Node] = []
        self._values: dict[str, _Value] = {}
        self._absorbed: set[int] = set()
        self._dequantized: dict[str, str] = {}
        self._users: dict[str, list[int]] = defaultdict(list)
        self._outputs = {value.name for value in model.graph.output}
        self._stated = {value.name: value for value in model.graph.value_info}
        self._stated |= {value.name: value for value in model.graph.output}
        self._computed = 0
        self._label = ""
        self._source = ""

    @property
    def place(self) -> str:
        """The node being read, for error messages."""
        return f"node '{self._label}' ({self._source})" if self._label else "its inputs"

    def read(self) -> Graph:
        graph = self._model.graph
        if graph.sparse_initializer:
            raise UserError(
                f"the constant '{graph.sparse_initializer[0].values.name}' is sparse",
                accepted="dense constants",
            )
        for tensor in graph.initializer:
            self._values[tensor.name] = _Constant(onnx_file.constant_of(tensor, self._folder))
        inputs = self._read_inputs()
        for position, node in enumerate(graph.node):
            for name in filter(None, node.input):
                self._users[name].append(position)
        for position in self._order():
            if position not in self._absorbed:
                self._visit(graph.node[position], position)
        outputs = [self._materialized(value.name) for value in graph.output]
        return checked(self._name, self._tensors.values(), self._nodes, inputs, outputs, self._data)

    # Inputs and order

    def _read_inputs(self) -> list[str]:
        named: set[str] = set()
        made = []
        for value in self._model.graph.input:
            if value.name in self._values:
                continue
            what = f"the input '{value.name}'"
            if not value.type.HasField("tensor_type"):
                raise UserError(f"{what} is not a tensor", accepted="tensors")
            kind = value.type.tensor_type
            if not kind.HasField("shape"):
                raise UserError(f"{what} has no shape", next_step="export it with one")
            shape = []
            for place, extent in enumerate(kind.shape.dim):
                keys = [key for key in (extent.dim_param, f"{value.name}:{place}") if key]
                named.update(keys)
                given = [self._axes[key] for key in keys if key in self._axes]
                if extent.HasField("dim_value"):
                    given = [extent.dim_value]
                if not given:
                    raise UserError(
                        f"axis {place} of {what} has no value ({extent.dim_param or 'no name'})",
                        accepted="a positive extent for every axis",
                        next_step=f"add --axis {keys[0]}=1",
                    )
                if not 0 < given[0] < 1 << 31:
                    raise UserError(
                        f"axis {place} of {what} is {given[0]}", accepted="1 to 2147483647"
                    )
                shape.append(given[0])
            dtype = onnx_file.dtype_name(kind.elem_type, what)
            self._tensors[value.name] = Tensor(value.name, tuple(shape), dtype)
            self._values[value.name] = _Stored(value.name)
            made.append(value.name)
        for key in self._axes.keys() - named:
            raise UserError(
                f"the model has no dynamic axis '{key}'",
                accepted=", ".join(sorted(named)) or "none: all its shapes are fixed",
            )
        return made

    def _order(self) -> list[int]:
        """Positions of nodes, each after those it needs. ``UserError`` names a node of a cycle."""
        nodes = self._model.graph.node
        producers: dict[str, int] = {}
        for position, node in enumerate(nodes):
            for name in filter(None, node.output):
                if name in producers or name in self._values:
                    raise UserError(f"tensor '{name}' has more than one producer")
                producers[name] = position
        missing = [0] * len(nodes)
        for position, node in enumerate(nodes):
            for name in filter(None, node.input):
                if name in producers:
                    missing[position] += 1
                elif name not in self._values:
                    raise UserError(
                        f"node '{_label(node, position)}' reads '{name}', which nothing makes"
                    )
        ready = deque(position for position, count in enumerate(missing) if not count)
        ordered = []
        while ready:
            position = ready.popleft()
            ordered.append(position)
            for name in filter(None, nodes[position].output):
                for user in self._users[name]:
                    missing[user] -= 1
                    if not missing[user]:
                        ready.append(user)
        if len(ordered) < len(nodes):
            stuck = next(position for position, count in enumerate(missing) if count)
            raise UserError(
                f"node '{_label(nodes[stuck], stuck)}' is part of a cycle, or needs one",
                accepted="a graph without cycles",
                next_step="unroll the loop before exporting the model",
            )
        return ordered

    # One node

    def _visit(self, node: onnx.NodeProto, position: int) -> None:
        self._label, self._source = _label(node, position), node.op_type
        if self._folded(node):
            return
        domain = "" if node.domain == "ai.onnx" else node.domain
        rule = _RULES.get((domain, node.op_type))
        try:
            if rule is None:
                raise _StaysError(f"no integer form of {node.op_type} is known")
            attributes = onnx_file.attributes_of(node)
            rule(self, node, attributes)
        except _StaysError as stays:
            self._to_host(node, str(stays))
        except ShapeError as error:
            raise UserError(f"node '{self._label}' ({node.op_type}): {error}") from None

    def _folded(self, node: onnx.NodeProto) -> bool:
        """Computes a node all of whose inputs are plain constants, or are their shapes alone."""
        if (node.domain, node.op_type) in (("", "QuantizeLinear"), ("", "DequantizeLinear")):
            return False
        if node.op_type == "Shape" and not node.domain:
            value = self._values[node.input[0]]
            shape = value.array.shape if isinstance(value, _Constant) else self._shape(value)
            attributes = onnx_file.attributes_of(node)
            part = shape[slice(attributes.get("start", 0), attributes.get("end"))]
            self._values[node.output[0]] = _Constant(np.array(part, np.int64))
            return True
        values = {name: self._values[name] for name in node.input if name}
        constants = {n: v.array for n, v in values.items() if isinstance(v, _Constant)}
        if len(constants) < len(values) or node.domain or node.op_type.startswith("Random"):
            return False
        model = onnx_file.alone(node, self._model.opset_import, {}, constants)
        shapes = onnx_file.inferred_shapes(model)
        size = sum(prod(shape) for _, shape in shapes.values())
        if len(shapes) < len(list(filter(None, node.output))):
            raise UserError(
                f"node '{self._label}' ({node.op_type}) has no shape",
                next_step="fold its constants before exporting the model",
            )
        self._charge(size)
        names = [name for name in node.output if name]
        for name, array in zip(names, onnx_file.run_alone(model, {}), strict=True):
            self._values[name] = _Constant(array)
        return True

    def _charge(self, elements: int) -> None:
        """Counts elements of constants that are computed while reading."""
        self._computed += elements
        if self._computed > onnx_file.MOST_FOLDED_ELEMENTS:
            raise UserError(
                f"node '{self._label}' ({self._source}) makes {elements} constant elements",
                accepted=f"at most {onnx_file.MOST_FOLDED_ELEMENTS} in the whole model",
                next_step="fold its constants before exporting the model",
            )

    def _to_host(self, node: onnx.NodeProto, reason: str) -> None:
        """Keeps ``node`` as it is, on real numbers where the model has these."""
        constants = {
            name: value.array
            for name in node.input
            if name and isinstance(value := self._values[name], _Constant)
        }
        names = [name for name in dict.fromkeys(node.input) if name and name not in constants]
        tensors = [self._materialized(name) for name in names]
        operands = {
            name: (self._tensors[tensor].dtype, self._tensors[tensor].shape)
            for name, tensor in zip(names, tensors, strict=True)
        }
        model = onnx_file.alone(node, self._model.opset_import, operands, constants)
        found = onnx_file.inferred_shapes(model)
        outputs = [name for name in node.output if name]
        for name in outputs:
            dtype, shape = found.get(name) or self._stated_type(name, node)
            self._tensors[name] = Tensor(name, shape, dtype)
            self._values[name] = _Stored(name)
        stored = self._constant(
            f"{outputs[0]}:model", np.frombuffer(model.SerializeToString(), np.uint8)
        )
        shape = self._tensors[outputs[0]].shape
        shapes = [
            constants[name].shape if name in constants else operands[name][1]
            for name in node.input
            if name
        ]
        macs = _real_macs(node.op_type, shapes, shape)
        attributes = {"inputs": names, "shape": list(shape), "macs": macs}
        self._nodes.append(
            Node(
                self._label,
                HOST,
                (*tensors, stored),
                tuple(outputs),
                attributes,
                self._source,
                reason,
            )
        )

    def _stated_type(self, name: str, node: onnx.NodeProto) -> tuple[str, Shape]:
        """Dtype and shape of a tensor as the model states them."""
        value = self._stated.get(name)
        if value is not None and value.type.tensor_type.HasField("shape"):
            kind = value.type.tensor_type
            shape = tuple(
                e.dim_value if e.HasField("dim_value") else self._axes.get(e.dim_param, -1)
                for e in kind.shape.dim
            )
            if min(shape, default=0) >= 0:
                return onnx_file.dtype_name(kind.elem_type, f"tensor '{name}'"), shape
        raise UserError(
            f"node '{self._label}' ({node.op_type}) makes '{name}' without a shape",
            accepted="operators whose shapes follow from their inputs or are stated",
            next_step="run onnx.shape_inference on the model, or export it with fixed shapes",
        )

    # Tensors

    def _shape(self, value: _Value) -> Shape:
        if isinstance(value, _Constant):
            return value.array.shape
        return self._tensors[value.tensor].shape

    def _fresh(self, name: str) -> str:
        while name in self._tensors:
            name += "'"
        return name

    def _constant(self, name: str, array: Array, quantization: Quantization | None = None) -> str:
        """A constant tensor of the graph."""
        name = self._fresh(name)
        digest = digest_of_data(array)
        self._data[digest] = array
        self._tensors[name] = Tensor(name, array.shape, array.dtype.name, quantization, digest)
        return name

    def _emit(
        self,
        operator: str,
        inputs: Sequence[str],
        name: str,
        quantization: Quantization | None,
        dtype: str,
        attributes: Mapping[str, Any] | None = None,
    ) -> str:
        """Adds a node and the tensor ``name`` it makes; of constants, makes the constant."""
        name = self._fresh(name)
        given = dict(attributes or {})
        shapes = [self._tensors[tensor].shape for tensor in inputs]
        shape = OPERATORS[operator].shape(given, shapes)
        self._tensors[name] = Tensor(name, shape, dtype, quantization)
        node = Node(self._label, operator, tuple(inputs), (name,), given, self._source)
        if all(self._tensors[tensor].data is not None for tensor in inputs):
            self._charge(self._tensors[name].elements)
            tensors = [self._tensors[tensor] for tensor in (*inputs, name)]
            alone = Graph("", {t.name: t for t in tensors}, (node,), (), (name,), self._data)
            del self._tensors[name]
            return self._constant(name, reference.run(alone, {})[name], quantization)
        self._nodes.append(node)
        return name

    def _materialized(self, name: str) -> str:
        """The tensor of the graph that holds the value ``name`` as the model has it."""
        value = self._values.get(name)
        if value is None:
            raise UserError(f"no node makes the output '{name}'")
        if isinstance(value, _Constant):
            made = self._constant(name, value.array)
            self._values[name] = _Stored(made)
            return made
        if isinstance(value, _Stored):
            return value.tensor
        if value.tensor not in self._dequantized:
            self._dequantized[value.tensor] = self._emit(
                "dequantize", [value.tensor], name, None, "float32"
            )
        return self._dequantized[value.tensor]

    def _real_array(self, name: str) -> Array | None:
        """The real numbers of a value if it is constant."""
        value = self._values[name]
        if isinstance(value, _Constant):
            return value.array
        tensor = self._tensors[value.tensor]
        if not isinstance(value, _Real) or tensor.data is None or tensor.quantization is None:
            return None
        return reference.dequantize_array(self._data[tensor.data], tensor.quantization)

    def _known(self, name: str, what: str) -> Array:
        """The elements of an input that must be constant."""
        value = self._values[name]
        if not isinstance(value, _Constant):
            raise _StaysError(f"its {what} is not constant")
        return value.array

    def _optional(self, node: onnx.NodeProto, place: int, what: str) -> Array | None:
        if len(node.input) <= place or not node.input[place]:
            return None
        return self._known(node.input[place], what)

    def _quantization(
        self, names: Sequence[str], rank: int, axis: int = 1
    ) -> tuple[Quantization, str]:
        """Scales and zero points by the names of these constants, and the dtype of the second (u8
        if left out)."""
        scales = self._known(names[0], "scale").astype(np.float32)
        zero = names[1] if len(names) > 1 else ""
        zeros = self._known(zero, "zero point") if zero else np.zeros(scales.shape, np.uint8)
        if scales.ndim > 1 or zeros.size not in (1, scales.size):
            raise _StaysError(f"its scales are {list(scales.shape)}, in blocks")
        if not np.isfinite(scales).all() or (scales <= 0).any():
            raise UserError(
                f"node '{self._label}' has a scale of {scales.min()}",
                accepted="positive finite numbers",
            )
        if zeros.dtype.name not in (*_BYTES, "int32"):
            raise _StaysError(
                f"its quantized dtype is {zeros.dtype.name}, not {' or '.join(_BYTES)}"
            )
        count = scales.size
        points = np.broadcast_to(zeros.reshape(-1), (count,))
        place = None if scales.ndim == 0 or count == 1 else axis % rank
        made = Quantization(tuple(map(float, scales.reshape(-1))), tuple(map(int, points)), place)
        return made, zeros.dtype.name

    def _with_quantization(self, name: str, quantization: Quantization) -> str:
        """The tensor of the value ``name`` read with ``quantization``."""
        value = self._values[name]
        if isinstance(value, _Constant):
            return self._constant(name, value.array, quantization)
        if isinstance(value, _Real):
            raise _StaysError(f"its input '{name}' is not quantized")
        tensor = self._tensors[value.tensor]
        if tensor.quantization is None:
            self._tensors[value.tensor] = replace(tensor, quantization=quantization)
        elif tensor.quantization != quantization:
            return self._emit(
                "reinterpret", [value.tensor], f"{name}:again", quantization, tensor.dtype
            )
        return value.tensor

    def _scaled(self, node: onnx.NodeProto, place: int, rank: int, axis: int = 1) -> str:
        """The tensor of input ``place``, whose scale and zero point are the next two inputs."""
        found, _ = self._quantization(node.input[place + 1 : place + 3], rank, axis)
        return self._with_quantization(node.input[place], found)

    def _operand(self, name: str, *, per_channel: bool = False) -> str:
        """The 8-bit tensor that a value on real numbers stands for."""
        value = self._values[name]
        if not isinstance(value, _Real):
            raise _StaysError(f"its input '{name}' is not quantized")
        tensor = self._tensors[value.tensor]
        if tensor.dtype not in _BYTES:
            raise _StaysError(f"its input '{name}' is {tensor.dtype}, not {' or '.join(_BYTES)}")
        if tensor.quantization and tensor.quantization.per_channel and not per_channel:
            raise _StaysError(f"its input '{name}' has a scale for each channel")
        return value.tensor

    def _scale(self, tensor: str) -> Array:
        quantization = self._tensors[tensor].quantization
        assert quantization is not None  # noqa: S101 - operands are quantized
        return np.array(quantization.scale, np.float32)

    # Results on real numbers

    def _target(self, node: onnx.NodeProto, *, clipped: bool = True) -> _Target:
        """How the result of ``node`` is quantized. Raises :class:`_StaysError` if it is not."""
        name, low, high = node.output[0], -inf, inf
        absorbed: list[int] = []
        nodes = self._model.graph.node
        while True:
            users = [nodes[position] for position in self._users[name]]
            if name in self._outputs or not users:
                raise _StaysError("its result leaves the network as real numbers")
            if len(users) > 1 or users[0].op_type not in ("Relu", "Clip") or not clipped:
                break
            low, high = self._clip_of(users[0], low, high)
            absorbed += self._users[name]
            name = users[0].output[0]
        found = set()
        for user in users:
            if user.op_type != "QuantizeLinear" or user.input[0] != name:
                raise _StaysError(f"its result goes to {user.op_type} as real numbers")
            found.add(self._quantization(user.input[1:3], 1))
        if len(found) > 1:
            raise _StaysError("its result is quantized in more than one way")
        quantization, dtype = found.pop()
        if dtype not in _BYTES or quantization.per_channel:
            raise _StaysError("its result is not quantized to 8 bits with one scale")
        absorbed += self._users[name]
        values = tuple(user.output[0] for user in users)
        return _Target(quantization, dtype, values, tuple(absorbed), low, high)

    def _clip_of(self, node: onnx.NodeProto, low: float, high: float) -> tuple[float, float]:
        """``low`` and ``high`` after a Relu or Clip."""
        if node.op_type == "Relu":
            return max(low, 0.0), max(high, 0.0)
        attributes = onnx_file.attributes_of(node)
        bounds = [attributes.get("min", -inf), attributes.get("max", inf)]
        for place in (1, 2):
            if len(node.input) > place and node.input[place]:
                array = self._real_array(node.input[place])
                if array is None:
                    raise _StaysError("the bounds of its Clip are not constant")
                bounds[place - 1] = float(array.reshape(-1)[0])
        return min(max(low, bounds[0]), bounds[1]), max(min(high, bounds[1]), bounds[0])

    def _range(self, target: _Target) -> dict[str, int]:
        """``low`` and ``high`` of a clipped result, in its own steps; without them if they do
        nothing."""
        limits = np.iinfo(target.dtype)
        made = {}
        for key, bound, limit in (
            ("low", target.low, limits.min),
            ("high", target.high, limits.max),
        ):
            if np.isfinite(bound):
                real = np.array(bound, np.float32)
                value = int(reference.quantize_array(real, target.quantization, target.dtype))
                if value != limit:
                    made[key] = value
        return made

    def _result(
        self,
        target: _Target,
        operator: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any],
    ) -> None:
        """Adds the node that makes ``target``."""
        made = self._emit(
            operator,
            inputs,
            target.values[0],
            target.quantization,
            target.dtype,
            {**attributes, **self._range(target)},
        )
        for name in target.values:
            self._values[name] = _Stored(made)
        self._absorbed.update(target.absorbed)

    # QuantizeLinear and DequantizeLinear

    def quantize(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        if attributes.get("block_size"):
            raise _StaysError("it quantizes in blocks")
        source = self._values[node.input[0]]
        rank = len(self._shape(source))
        quantization, dtype = self._quantization(
            node.input[1:3], max(rank, 1), attributes.get("axis", 1)
        )
        if len(node.input) < 3 and attributes.get("output_dtype"):
            dtype = onnx_file.dtype_name(attributes["output_dtype"], f"node '{self._label}'")
        name = node.output[0]
        if isinstance(source, _Constant):
            array = reference.quantize_array(source.array, quantization, dtype)
            made = self._constant(name, array, quantization)
        elif isinstance(source, _Real):
            made = self._requantized(node.input[0], source.tensor, name, quantization, dtype)
        else:
            made = self._emit("quantize", [source.tensor], name, quantization, dtype)
        self._values[name] = _Stored(made)

    def _requantized(
        self, real: str, tensor: str, name: str, quantization: Quantization, dtype: str
    ) -> str:
        """``tensor`` in another scale: itself, by a table, or by way of real numbers."""
        held = self._tensors[tensor]
        if held.quantization == quantization and held.dtype == dtype:
            return tensor
        assert held.quantization is not None  # noqa: S101 - a _Real is of a quantized tensor
        plain = not (held.quantization.per_channel or quantization.per_channel)
        if plain and held.dtype in _BYTES and dtype in _BYTES:
            table = reference.quantize_array(self._entries(tensor), quantization, dtype)
            return self._looked_up(tensor, table, name, quantization)
        return self._emit("quantize", [self._materialized(real)], name, quantization, dtype)

    def _entries(self, tensor: str) -> Array:
        """The real numbers (float32) of all 256 bytes of ``tensor``, as if unsigned."""
        held = self._tensors[tensor]
        assert held.quantization is not None  # noqa: S101 - operands are quantized
        elements = np.arange(256, dtype=np.uint8).view(held.dtype)
        return reference.dequantize_array(elements, held.quantization)

    def _looked_up(self, tensor: str, table: Array, name: str, quantization: Quantization) -> str:
        stored = self._constant(f"{name}:table", table)
        return self._emit("table", [tensor, stored], name, quantization, table.dtype.name)

    def dequantize(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        if attributes.get("block_size"):
            raise _StaysError("it dequantizes in blocks")
        value = self._values[node.input[0]]
        rank = max(len(self._shape(value)), 1)
        quantization, _ = self._quantization(node.input[1:3], rank, attributes.get("axis", 1))
        tensor = self._with_quantization(node.input[0], quantization)
        if self._tensors[tensor].dtype not in (*_BYTES, "int32"):
            raise _StaysError(f"its input is {self._tensors[tensor].dtype}")
        self._values[node.output[0]] = _Real(tensor)

    # Sums of products

    def conv(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        image, weights = self._operand(node.input[0]), self._weights(node.input[1], 0)
        target = self._target(node)
        inputs = [image, weights, *self._bias(node, 2, image, weights)]
        self._result(target, "conv", inputs, self._window(attributes, inputs, "nchw"))

    def qlinear_conv(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        image = self._scaled(node, 0, 4)
        weights = self._scaled(node, 3, 4, 0)
        quantization, dtype = self._quantization(node.input[6:8], 4)
        inputs = [image, weights]
        if len(node.input) > 8 and node.input[8]:
            inputs.append(self._constant(node.input[8], self._known(node.input[8], "bias")))
        layout = "nhwc" if attributes.get("channels_last") else "nchw"
        window = self._window(attributes, inputs, layout)
        self._store(node, self._emit("conv", inputs, node.output[0], quantization, dtype, window))

    def _weights(self, name: str, axis: int) -> str:
        tensor = self._operand(name, per_channel=True)
        quantization = self._tensors[tensor].quantization
        if quantization and quantization.axis not in (None, axis):
            raise _StaysError(f"its weights have scales along axis {quantization.axis}")
        return tensor

    def _bias(self, node: onnx.NodeProto, place: int, image: str, weights: str) -> list[str]:
        """The bias in units of the sums, as i32, if there is one."""
        if len(node.input) <= place or not node.input[place]:
            return []
        name = node.input[place]
        unit = self._scale(image)[0] * self._scale(weights)
        value = self._values[name]
        if isinstance(value, _Real):
            tensor = self._tensors[value.tensor]
            held = self._scale(value.tensor)
            if tensor.data and tensor.dtype == "int32" and np.allclose(held, unit, 1e-5, 0):
                return [self._constant(f"{name}:sums", self._data[tensor.data].reshape(-1))]
        real = self._real_array(name)
        if real is None:
            raise _StaysError("its bias is not constant")
        steps = np.rint(real.reshape(-1).astype(np.float64) / unit)
        limits = np.iinfo(np.int32)
        array = np.clip(steps, limits.min, limits.max).astype(np.int32)
        return [self._constant(f"{name}:sums", array)]

    def _window(
        self, attributes: Mapping[str, Any], inputs: Sequence[str], layout: str
    ) -> dict[str, Any]:
        """Attributes of a window over images; ``inputs`` has the weights if it is a convolution."""
        shape = self._tensors[inputs[0]].shape
        if len(shape) != 4:
            raise _StaysError(f"its windows have {len(shape) - 2} axes, not 2")
        weights = self._tensors[inputs[1]].shape if len(inputs) > 1 else ()
        kernel = list(attributes.get("kernel_shape") or weights[2:])
        strides = list(attributes.get("strides") or [1, 1])
        dilations = list(attributes.get("dilations") or [1, 1])
        if not len(kernel) == len(strides) == len(dilations) == 2:
            raise _StaysError(f"its windows have {len(kernel)} axes, not 2")
        if attributes.get("ceil_mode"):
            raise _StaysError("its output is rounded up (ceil_mode)")
        made = {
            "kernel": kernel,
            "strides": strides,
            "dilations": dilations,
            "pads": _pads(attributes, pixels(shape, layout), kernel, strides, dilations),
            "layout": layout,
        }
        return {**made, "group": attributes.get("group", 1)} if weights else made

    def matmul(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        left = self._operand(node.input[0])
        rank = len(self._shape(self._values[node.input[1]]))
        right = self._weights(node.input[1], rank - 1)
        if rank < 2 or len(self._tensors[left].shape) < 2:
            raise _StaysError("it multiplies vectors")
        self._result(self._target(node), "matmul", [left, right], {})

    def gemm(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        if attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0:
            raise _StaysError("it has an alpha or beta other than 1")
        left = self._operand(node.input[0])
        right = self._operand(node.input[1], per_channel=True)
        target = self._target(node)
        left, right = self._turned(left, right, attributes)
        bias = self._bias(node, 2, left, right)
        self._result(target, "matmul", [left, right, *bias], {})

    def _turned(self, left: str, right: str, attributes: Mapping[str, Any]) -> tuple[str, str]:
        """Both operands of a Gemm as rows of the first and columns of the second."""
        if attributes.get("transA"):
            left = self._transposed(left, [1, 0], f"{left}:turned")
        if attributes.get("transB"):
            right = self._transposed(right, [1, 0], f"{right}:turned")
        quantization = self._tensors[right].quantization
        if quantization and quantization.axis not in (None, 1):
            raise _StaysError(f"its weights have scales along axis {quantization.axis}")
        return left, right

    def qlinear_matmul(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        rank = max(len(self._shape(self._values[node.input[3]])), 1)
        left = self._scaled(node, 0, 2)
        right = self._scaled(node, 3, rank, -1)
        quantization, dtype = self._quantization(node.input[6:8], 2)
        if rank < 2 or len(self._tensors[left].shape) < 2:
            raise _StaysError("it multiplies vectors")
        made = self._emit("matmul", [left, right], node.output[0], quantization, dtype)
        self._store(node, made)

    def qgemm(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        if attributes.get("alpha", 1.0) != 1.0 or len(node.input) < 9:
            raise _StaysError("it has an alpha other than 1, or makes real numbers")
        left = self._scaled(node, 0, 2)
        axis = 0 if attributes.get("transB") else 1
        right = self._scaled(node, 3, 2, axis)
        quantization, dtype = self._quantization(node.input[7:9], 2)
        left, right = self._turned(left, right, attributes)
        inputs = [left, right]
        if node.input[6]:
            bias = self._known(node.input[6], "bias").reshape(-1)
            inputs.append(self._constant(node.input[6], bias))
        self._store(node, self._emit("matmul", inputs, node.output[0], quantization, dtype))

    # Two operands, and pools

    def _binary(self, operator: str, node: onnx.NodeProto) -> None:
        inputs = [self._operand(name) for name in node.input]
        self._result(self._target(node), operator, inputs, {})

    def add(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        self._binary("add", node)

    def mul(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        self._binary("mul", node)

    def _qlinear_binary(self, operator: str, node: onnx.NodeProto) -> None:
        a = self._scaled(node, 0, 1)
        b = self._scaled(node, 3, 1)
        quantization, dtype = self._quantization(node.input[6:8], 1)
        self._store(node, self._emit(operator, [a, b], node.output[0], quantization, dtype))

    def qlinear_add(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        self._qlinear_binary("add", node)

    def qlinear_mul(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        self._qlinear_binary("mul", node)

    def average_pool(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        image = self._operand(node.input[0])
        window = self._window(attributes, [image], "nchw")
        window["count_padding"] = bool(attributes.get("count_include_pad"))
        self._result(self._target(node), "average_pool", [image], window)

    def qlinear_average_pool(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        image = self._scaled(node, 0, 4)
        quantization, dtype = self._quantization(node.input[3:5], 1)
        layout = "nhwc" if attributes.get("channels_last") else "nchw"
        window = self._window(attributes, [image], layout)
        window["count_padding"] = bool(attributes.get("count_include_pad"))
        made = self._emit("average_pool", [image], node.output[0], quantization, dtype, window)
        self._store(node, made)

    def _whole(self, image: str, layout: str) -> dict[str, Any]:
        """The window of a pooling over whole images."""
        shape = self._tensors[image].shape
        if len(shape) != 4:
            raise _StaysError(f"its images have {len(shape) - 2} axes, not 2")
        kernel = list(pixels(shape, layout))
        window = {"kernel": kernel, "strides": [1, 1], "dilations": [1, 1], "pads": [0] * 4}
        return {**window, "layout": layout, "count_padding": False}

    def global_average_pool(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        image = self._operand(node.input[0])
        window = self._whole(image, "nchw")
        self._result(self._target(node), "average_pool", [image], window)

    def qlinear_global_average_pool(
        self, node: onnx.NodeProto, attributes: Mapping[str, Any]
    ) -> None:
        image = self._scaled(node, 0, 4)
        quantization, dtype = self._quantization(node.input[3:5], 1)
        window = self._whole(image, "nhwc" if attributes.get("channels_last") else "nchw")
        made = self._emit("average_pool", [image], node.output[0], quantization, dtype, window)
        self._store(node, made)

    def softmax(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        source = self._operand(node.input[0])
        axis = self._softmax_axis(source, attributes.get("axis"), self._opset)
        self._result(self._target(node, clipped=False), "softmax", [source], {"axis": axis})

    def _softmax_axis(self, source: str, axis: int | None, opset: int) -> int:
        """The axis of a softmax. Before opset 13 it ran over all axes from ``axis`` on."""
        rank = len(self._tensors[source].shape)
        place = (-1 if opset >= 13 else 1) if axis is None else axis
        place %= rank
        if opset < 13 and place != rank - 1:
            raise _StaysError("it runs over several axes")
        return place

    def qlinear_softmax(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        source = self._scaled(node, 0, 1)
        quantization, dtype = self._quantization(node.input[3:5], 1)
        opset = attributes.get("opset", self._opset)
        axis = self._softmax_axis(source, attributes.get("axis"), opset)
        made = self._emit("softmax", [source], node.output[0], quantization, dtype, {"axis": axis})
        self._store(node, made)

    # Tables

    def table(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        source = self._operand(node.input[0])
        target = self._target(node)
        entries = self._function(node, self._entries(source))
        bounded = np.clip(entries, target.low, target.high)
        table = reference.quantize_array(bounded, target.quantization, target.dtype)
        made = self._looked_up(source, table, target.values[0], target.quantization)
        for name in target.values:
            self._values[name] = _Stored(made)
        self._absorbed.update(target.absorbed)

    def _function(self, node: onnx.NodeProto, entries: Array) -> Array:
        """``node``, a function of one element, of real numbers (float32)."""
        constants = {}
        for name in filter(None, node.input[1:]):
            array = self._real_array(name)
            if array is None:
                raise _StaysError(f"its input '{name}' is not constant")
            constants[name] = array
        name = node.input[0]
        operands = {name: ("float32", entries.shape)}
        model = onnx_file.alone(node, self._model.opset_import, operands, constants)
        return onnx_file.run_alone(model, {name: entries})[0].astype(np.float32)

    def _qlinear_table(self, node: onnx.NodeProto, function: Callable[[Array], Array]) -> None:
        source = self._scaled(node, 0, 1)
        quantization, dtype = self._quantization(node.input[3:5], 1)
        table = reference.quantize_array(function(self._entries(source)), quantization, dtype)
        self._store(node, self._looked_up(source, table, node.output[0], quantization))

    def qlinear_sigmoid(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        self._qlinear_table(node, lambda x: 1 / (1 + np.exp(-x)))

    def qlinear_leaky_relu(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        slope = np.float32(attributes.get("alpha", 0.01))
        self._qlinear_table(node, lambda x: np.where(x < 0, slope * x, x))

    # Elements that move: on quantized tensors as on the real numbers they stand for

    def _store(self, node: onnx.NodeProto, tensor: str) -> None:
        self._values[node.output[0]] = _Stored(tensor)

    def _moved(
        self,
        node: onnx.NodeProto,
        operator: str,
        attributes: Mapping[str, Any],
        output: int = 0,
    ) -> None:
        """Applies ``operator`` to the bytes of the first input."""
        value = self._values[node.input[0]]
        tensor = self._moving(node)
        name = node.output[output]
        held = self._tensors[tensor]
        label = self._moved_name(name, value)
        made = self._emit(operator, [tensor], label, held.quantization, held.dtype, attributes)
        self._values[name] = type(value)(made)  # type: ignore[arg-type]

    def _moved_name(self, name: str, value: _Value) -> str:
        """The name of the bytes of the value ``name``, which may have to be dequantized."""
        return name if isinstance(value, _Stored) else f"{name}:bytes"

    def _moving(self, node: onnx.NodeProto) -> str:
        """The first input as 8-bit tensor, whose scale does not vary."""
        value = self._values[node.input[0]]
        if isinstance(value, _Constant):
            raise _StaysError(f"its input '{node.input[0]}' is constant")
        tensor = self._tensors[value.tensor]
        if tensor.dtype not in _BYTES:
            raise _StaysError(f"its input '{node.input[0]}' is not quantized")
        if tensor.quantization and tensor.quantization.per_channel and node.op_type != "Transpose":
            raise _StaysError(f"its input '{node.input[0]}' has a scale for each channel")
        return tensor.name

    def reshape(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        """Also Flatten, Squeeze, Unsqueeze and Identity, by ONNX's own inference."""
        if node.op_type == "Reshape":
            self._known(node.input[1], "shape")
        tensor = self._tensors[self._moving(node)]
        constants = {
            name: self._known(name, "second input") for name in filter(None, node.input[1:])
        }
        operands = {node.input[0]: (tensor.dtype, tensor.shape)}
        model = onnx_file.alone(node, self._model.opset_import, operands, constants)
        found = onnx_file.inferred_shapes(model).get(node.output[0])
        if found is None:
            raise UserError(
                f"node '{self._label}' ({node.op_type}) cannot give {list(tensor.shape)} its shape"
            )
        self._moved(node, "reshape", {"shape": list(found[1])})

    def transpose(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        tensor = self._moving(node)
        rank = len(self._tensors[tensor].shape)
        order = [int(n) for n in attributes.get("perm") or reversed(range(rank))]
        value = self._values[node.input[0]]
        made = self._transposed(tensor, order, self._moved_name(node.output[0], value))
        self._values[node.output[0]] = type(value)(made)  # type: ignore[arg-type]

    def _transposed(self, tensor: str, order: list[int], name: str) -> str:
        held = self._tensors[tensor]
        quantization = held.quantization
        if quantization is not None and quantization.axis is not None:
            quantization = replace(quantization, axis=order.index(quantization.axis))
        return self._emit("transpose", [tensor], name, quantization, held.dtype, {"order": order})

    def max_pool(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        if len(list(filter(None, node.output))) > 1 or attributes.get("storage_order"):
            raise _StaysError("it returns the places of its maxima")
        layout = "nhwc" if node.op_type == "NhwcMaxPool" else "nchw"
        self._moved(node, "max_pool", self._window(attributes, [self._moving(node)], layout))

    def concat(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        values = [self._values[name] for name in node.input]
        axis = attributes["axis"] % len(self._shape(values[0]))
        if all(isinstance(value, _Stored) for value in values):
            inputs = [self._materialized(name) for name in node.input]
            held = {self._tensors[n].quantization for n in inputs}
            first = self._tensors[inputs[0]]
            if first.dtype not in _BYTES or len(held) > 1:
                raise _StaysError("its inputs are not quantized alike")
            name = node.output[0]
            quantization = first.quantization
            made = self._emit("concat", inputs, name, quantization, first.dtype, {"axis": axis})
            self._store(node, made)
            return
        inputs = [self._operand(name) for name in node.input]
        self._result(self._target(node), "concat", inputs, {"axis": axis})

    def qlinear_concat(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        quantization, dtype = self._quantization(node.input[0:2], 1)
        inputs = [self._scaled(node, n, 1) for n in range(2, len(node.input), 3)]
        axis = attributes["axis"] % len(self._tensors[inputs[0]].shape)
        made = self._emit("concat", inputs, node.output[0], quantization, dtype, {"axis": axis})
        self._store(node, made)

    def pad(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        tensor = self._tensors[self._moving(node)]
        pads = self._optional(node, 1, "pads")
        widths = attributes.get("pads") if pads is None else pads.tolist()
        if widths is None or len(widths) != 2 * len(tensor.shape) or min(widths, default=0) < 0:
            raise _StaysError("it pads some axes, or takes elements away")
        rank = len(tensor.shape)
        made = {
            "mode": attributes.get("mode", "constant"),
            "before": widths[:rank],
            "after": widths[rank:],
            "value": 0,
        }
        if made["mode"] not in ("constant", "edge", "reflect"):
            raise _StaysError(f"its mode is {made['mode']}")
        if made["mode"] == "constant":
            made["value"] = self._pad_value(node, tensor)
        self._moved(node, "pad", made)

    def _pad_value(self, node: onnx.NodeProto, tensor: Tensor) -> int:
        given = len(node.input) > 2 and node.input[2]
        array = self._real_array(node.input[2]) if given else np.zeros((), np.float32)
        if array is None:
            raise _StaysError("its value is not constant")
        if isinstance(self._values[node.input[0]], _Stored):
            return int(array.reshape(-1)[0])
        assert tensor.quantization is not None  # noqa: S101 - a _Real is of a quantized tensor
        real = array.reshape(-1)[:1].astype(np.float32)
        value = reference.quantize_array(real, tensor.quantization, tensor.dtype)
        if reference.dequantize_array(value, tensor.quantization)[0] != real[0]:
            raise _StaysError(f"it pads with {real[0]}, which is not a step of its input")
        return int(value[0])

    def slice(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        shape = self._tensors[self._moving(node)].shape
        if self._opset < 10:
            raise _StaysError("it is of an old opset")
        starts = self._known(node.input[1], "start").tolist()
        stops = self._known(node.input[2], "end").tolist()
        axes = self._optional(node, 3, "axes")
        steps = self._optional(node, 4, "steps")
        whole = [(0, extent, 1) for extent in shape]
        for n, axis in enumerate(range(len(starts)) if axes is None else axes.tolist()):
            step = 1 if steps is None else int(steps[n])
            if step < 1:
                raise _StaysError("it runs backwards")
            bounds = slice(int(starts[n]), int(stops[n]), step).indices(shape[axis])
            whole[axis % len(shape)] = bounds
        self._sliced(node, whole)

    def _sliced(
        self, node: onnx.NodeProto, bounds: Sequence[tuple[int, int, int]], output: int = 0
    ) -> None:
        starts, stops, steps = (list(part) for part in zip(*bounds, strict=True))
        attributes = {"starts": starts, "stops": stops, "steps": steps}
        self._moved(node, "slice", attributes, output)

    def split(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        shape = self._tensors[self._moving(node)].shape
        axis = attributes.get("axis", 0) % len(shape)
        given = self._optional(node, 1, "split")
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
            self._sliced(node, bounds, output)
            begin += size

    def resize(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        tensor = self._tensors[self._moving(node)]
        made = self._resizing(node, attributes, tensor)
        if made["mode"] == "nearest":
            self._moved(node, "resize", made)
        elif isinstance(self._values[node.input[0]], _Real):
            self._result(self._target(node), "resize", [tensor.name], made)
        else:
            self._moved(node, "resize", made)

    def _resizing(
        self, node: onnx.NodeProto, attributes: Mapping[str, Any], tensor: Tensor
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
            raise _StaysError(odd[0] if odd else f"it resizes {mode}, {coordinates}")
        scales, sizes = (self._optional(node, n, "size") for n in (2, 3))
        if sizes is not None and sizes.size:
            shape = [int(size) for size in sizes]
            factors = [size / extent for size, extent in zip(shape, tensor.shape, strict=True)]
        elif scales is not None and scales.size:
            factors = [float(scale) for scale in scales]
            pairs = zip(tensor.shape, factors, strict=True)
            shape = [int(np.floor(np.float32(extent) * np.float32(f))) for extent, f in pairs]
        else:
            raise _StaysError("it has neither scales nor sizes")
        return {
            "mode": mode,
            "coordinates": coordinates,
            "nearest": attributes.get("nearest_mode", "round_prefer_floor"),
            "shape": shape,
            "scales": factors,
        }


def _label(node: onnx.NodeProto, position: int) -> str:
    return node.name or f"{node.op_type} {position}"


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
    before, after = [0, 0], [0, 0]
    if mode != "VALID":
        for n in range(2):
            reach = (kernel[n] - 1) * dilations[n] + 1
            total = max(0, (-(-extents[n] // strides[n]) - 1) * strides[n] + reach - extents[n])
            less, more = total // 2, total - total // 2
            before[n], after[n] = (less, more) if mode == "SAME_UPPER" else (more, less)
    return [*before, *after]


def _real_macs(operator: str, shapes: Sequence[Shape], made: Shape) -> int:
    """Multiply-accumulates of a node on the host; 0 where these are not what it does."""
    if "MatMul" in operator and shapes[0]:
        return prod(made) * shapes[0][-1]
    if operator == "Gemm" and len(shapes) > 1:
        return prod(shapes[0]) * made[1]
    if operator in ("Conv", "ConvInteger", "QLinearConv") and len(shapes) > 1:
        weights = next(shape for shape in shapes[1:] if len(shape) > 2)
        return prod(made) * prod(weights[1:])
    return 0


_Rule = Callable[[_Reader, "onnx.NodeProto", Mapping[str, Any]], None]
_RULES: Mapping[tuple[str, str], _Rule] = {
    ("", "QuantizeLinear"): _Reader.quantize,
    ("", "DequantizeLinear"): _Reader.dequantize,
    (_MICROSOFT, "QuantizeLinear"): _Reader.quantize,
    (_MICROSOFT, "DequantizeLinear"): _Reader.dequantize,
    ("", "Conv"): _Reader.conv,
    ("", "QLinearConv"): _Reader.qlinear_conv,
    (_MICROSOFT, "QLinearConv"): _Reader.qlinear_conv,
    ("", "MatMul"): _Reader.matmul,
    ("", "Gemm"): _Reader.gemm,
    ("", "QLinearMatMul"): _Reader.qlinear_matmul,
    (_MICROSOFT, "QGemm"): _Reader.qgemm,
    ("", "Add"): _Reader.add,
    ("", "Mul"): _Reader.mul,
    (_MICROSOFT, "QLinearAdd"): _Reader.qlinear_add,
    (_MICROSOFT, "QLinearMul"): _Reader.qlinear_mul,
    ("", "AveragePool"): _Reader.average_pool,
    (_MICROSOFT, "QLinearAveragePool"): _Reader.qlinear_average_pool,
    ("", "GlobalAveragePool"): _Reader.global_average_pool,
    (_MICROSOFT, "QLinearGlobalAveragePool"): _Reader.qlinear_global_average_pool,
    ("", "Softmax"): _Reader.softmax,
    (_MICROSOFT, "QLinearSoftmax"): _Reader.qlinear_softmax,
    **{("", name): _Reader.table for name in _TABLES},
    (_MICROSOFT, "QLinearSigmoid"): _Reader.qlinear_sigmoid,
    (_MICROSOFT, "QLinearLeakyRelu"): _Reader.qlinear_leaky_relu,
    **{
        ("", name): _Reader.reshape
        for name in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
    },
    ("", "Transpose"): _Reader.transpose,
    ("", "MaxPool"): _Reader.max_pool,
    (_MICROSOFT, "NhwcMaxPool"): _Reader.max_pool,
    ("", "Concat"): _Reader.concat,
    (_MICROSOFT, "QLinearConcat"): _Reader.qlinear_concat,
    ("", "Pad"): _Reader.pad,
    ("", "Slice"): _Reader.slice,
    ("", "Split"): _Reader.split,
    ("", "Resize"): _Reader.resize,
}
"""By domain and operator: how a node becomes one of the graph's."""
