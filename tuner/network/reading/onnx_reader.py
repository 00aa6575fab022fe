"""Quantized ONNX models as graphs: QDQ and QOperator form, as onnxruntime's static quantizer writes
them.

Nodes are visited once, in an order that respects their dependencies. Those that have no integer
form (``onnx_rules``) stay on the host as they are, between explicit ``quantize`` and
``dequantize``, with the reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import UserError
from tuner.network.graph import Graph, Shape, Tensor
from tuner.network.operators import ShapeError
from tuner.network.reading import onnx_file
from tuner.network.reading.building import StaysError
from tuner.network.reading.onnx_rules import RULES
from tuner.network.reading.onnx_values import Constant, OnnxBuilder, Stored

if TYPE_CHECKING:
    import onnx

_MALFORMED = (KeyError, IndexError, ValueError, TypeError, OverflowError)


def read(
    content: bytes,
    path: str,
    axes: Mapping[str, int] | None = None,
    external: onnx_file.ExternalData = onnx_file.no_external_data,
) -> Graph:
    """The network in ``content``, that of the ONNX file ``path``; ``axes`` gives the extents of its
    dynamic axes by name, or as ``INPUT:POSITION``, and ``external`` reads what lies beside it.

    Raises ``UserError`` naming the node, tensor or axis, and ``ToolchainError`` without the package
    onnx.
    """
    model = onnx_file.load(content, path)
    reader = _Reader(model, Path(path).stem, dict(axes or {}), external)
    try:
        with np.errstate(all="ignore"):  # scales may be anything; tables saturate
            return reader.read()
    except _MALFORMED as error:
        # Text that is not UTF-8 is bytes in fields that else are str, for one.
        raise UserError(
            f"{path} is malformed at {reader.place}: {type(error).__name__} {error}",
            accepted="models that onnx.checker accepts",
        ) from None


class _Reader(OnnxBuilder):
    def __init__(
        self,
        model: onnx.ModelProto,
        name: str,
        axes: dict[str, int],
        external: onnx_file.ExternalData,
    ) -> None:
        super().__init__(model, name)
        self._axes, self._external = axes, external
        self._stated = {value.name: value for value in model.graph.value_info}
        self._stated |= {value.name: value for value in model.graph.output}

    def read(self) -> Graph:
        """The graph of all nodes."""
        graph = self.model.graph
        if graph.sparse_initializer:
            raise UserError(
                f"the constant '{graph.sparse_initializer[0].values.name}' is sparse",
                accepted="dense constants",
            )
        for tensor in graph.initializer:
            self.values[tensor.name] = Constant(onnx_file.constant_of(tensor, self._external))
        inputs = self._read_inputs()
        for position, node in enumerate(graph.node):
            for name in filter(None, node.input):
                self.users[name].append(position)
        for position in self._order():
            if position not in self.absorbed:
                self._visit(graph.node[position], position)
        outputs = [self.materialized(value.name) for value in graph.output]
        return self.finished(inputs, outputs)

    def _read_inputs(self) -> list[str]:
        named: set[str] = set()
        made = []
        for value in self.model.graph.input:
            if value.name in self.values:
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
            self.tensors[value.name] = Tensor(value.name, tuple(shape), dtype)
            self.values[value.name] = Stored(value.name)
            made.append(value.name)
        for key in self._axes.keys() - named:
            raise UserError(
                f"the model has no dynamic axis '{key}'",
                accepted=", ".join(sorted(named)) or "none: all its shapes are fixed",
            )
        return made

    def _order(self) -> list[int]:
        """Positions of nodes, each after those it needs. ``UserError`` names a node of a cycle."""
        nodes = self.model.graph.node
        producers: dict[str, int] = {}
        for position, node in enumerate(nodes):
            for name in filter(None, node.output):
                if name in producers or name in self.values:
                    raise UserError(f"tensor '{name}' has more than one producer")
                producers[name] = position
        missing = [0] * len(nodes)
        for position, node in enumerate(nodes):
            for name in filter(None, node.input):
                if name in producers:
                    missing[position] += 1
                elif name not in self.values:
                    raise UserError(
                        f"node '{_label(node, position)}' reads '{name}', which nothing makes"
                    )
        ready = deque(position for position, count in enumerate(missing) if not count)
        ordered = []
        while ready:
            position = ready.popleft()
            ordered.append(position)
            for name in filter(None, nodes[position].output):
                for user in self.users[name]:
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

    def _visit(self, node: onnx.NodeProto, position: int) -> None:
        self.label, self.source = _label(node, position), node.op_type
        if self._folded(node):
            return
        domain = "" if node.domain == "ai.onnx" else node.domain
        rule = RULES.get((domain, node.op_type))
        try:
            if rule is None:
                raise StaysError(f"no integer form of {node.op_type} is known")
            attributes = onnx_file.attributes_of(node)
            rule(self, node, attributes)
        except StaysError as stays:
            self._to_host(node, str(stays))
        except ShapeError as error:
            raise UserError(f"node '{self.label}' ({node.op_type}): {error}") from None

    def _folded(self, node: onnx.NodeProto) -> bool:
        """Computes a node all of whose inputs are plain constants, or are their shapes alone."""
        if (node.domain, node.op_type) in (("", "QuantizeLinear"), ("", "DequantizeLinear")):
            return False
        if node.op_type == "Shape" and not node.domain:
            value = self.values[node.input[0]]
            shape = value.array.shape if isinstance(value, Constant) else self.shape(value)
            attributes = onnx_file.attributes_of(node)
            part = shape[slice(attributes.get("start", 0), attributes.get("end"))]
            self.values[node.output[0]] = Constant(np.array(part, np.int64))
            return True
        values = {name: self.values[name] for name in node.input if name}
        constants = {n: v.array for n, v in values.items() if isinstance(v, Constant)}
        if len(constants) < len(values) or node.domain or node.op_type.startswith("Random"):
            return False
        model = onnx_file.alone(node, self.model.opset_import, {}, constants)
        shapes = onnx_file.inferred_shapes(model)
        size = sum(prod(shape) for _, shape in shapes.values())
        if len(shapes) < len(list(filter(None, node.output))):
            raise UserError(
                f"node '{self.label}' ({node.op_type}) has no shape",
                next_step="fold its constants before exporting the model",
            )
        self.charge(size)
        names = [name for name in node.output if name]
        for name, array in zip(names, onnx_file.run_alone(model, {}), strict=True):
            self.values[name] = Constant(array)
        return True

    def _to_host(self, node: onnx.NodeProto, reason: str) -> None:
        """Keeps ``node`` as it is, on real numbers where the model has these."""
        constants = {
            name: value.array
            for name in node.input
            if name and isinstance(value := self.values[name], Constant)
        }
        names = [name for name in dict.fromkeys(node.input) if name and name not in constants]
        tensors = [self.materialized(name) for name in names]
        operands = {
            name: (self.tensors[tensor].dtype, self.tensors[tensor].shape)
            for name, tensor in zip(names, tensors, strict=True)
        }
        model = onnx_file.alone(node, self.model.opset_import, operands, constants)
        found = onnx_file.inferred_shapes(model)
        made = []
        for name in filter(None, node.output):
            dtype, shape = found.get(name) or self._stated_type(name, node)
            made.append(Tensor(name, shape, dtype))
            self.values[name] = Stored(name)
        shapes = [
            constants[name].shape if name in constants else operands[name][1]
            for name in node.input
            if name
        ]
        self.kept_on_host(
            dict(zip(names, tensors, strict=True)),
            model.SerializeToString(),
            made,
            _real_macs(node.op_type, shapes, made[0].shape),
            reason,
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
            f"node '{self.label}' ({node.op_type}) makes '{name}' without a shape",
            accepted="operators whose shapes follow from their inputs or are stated",
            next_step="run onnx.shape_inference on the model, or export it with fixed shapes",
        )


def _label(node: onnx.NodeProto, position: int) -> str:
    return node.name or f"{node.op_type} {position}"


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
