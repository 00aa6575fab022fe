"""A quantized model as a graph: tensors, nodes, and constants kept apart as data.

Logical shapes follow the model's own order of dimensions; a node that slides windows says where
its channels are (``layout``). A real number of a quantized tensor is ``scale * (q - zero_point)``.
Scales, zero points, ranges and constants are data: nodes that differ in nothing else have one
:meth:`Graph.signature`, so one workload, one schedule, one tuning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.errors import UserError
from tuner.identity import canonical_json, digest_of
from tuner.network.operators import HOST, MOST_ELEMENTS, OPERATORS, ShapeError
from tuner.plain_text import plain

Array = NDArray[Any]
Shape = tuple[int, ...]

DTYPES = (
    *("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64", "bool"),
)
"""NumPy names of all dtypes a tensor may have."""
DATA_ATTRIBUTES = frozenset({"low", "high", "value"})
"""Attributes that are data, like zero points: the range a sum is clipped to, what padding holds."""


@dataclass(frozen=True)
class Quantization:
    """Scales (as exact float32 values) and zero points: one of each, or one for each index along
    ``axis``."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    @classmethod
    def of(cls, scale: float | np.floating[Any], zero_point: int) -> Quantization:
        """One scale and zero point for the whole tensor."""
        return cls((float(np.float32(scale)),), (int(zero_point),))

    @property
    def per_channel(self) -> bool:
        """Whether channels have scales of their own."""
        return self.axis is not None

    def along(self, rank: int) -> tuple[Array, Array]:
        """Scales (float32) and zero points (int32) that broadcast over ``rank`` dimensions."""
        shape = [1] * rank
        if self.axis is not None:
            shape[self.axis] = len(self.scale)
        elif rank == 0:
            return np.float32(self.scale[0]), np.int32(self.zero_point[0])  # type: ignore[return-value]
        return (
            np.array(self.scale, np.float32).reshape(shape),
            np.array(self.zero_point, np.int32).reshape(shape),
        )


@dataclass(frozen=True)
class Tensor:
    """A tensor of ``shape`` and ``dtype`` (NumPy's name). ``data`` is the digest of a constant."""

    name: str
    shape: Shape
    dtype: str
    quantization: Quantization | None = None
    data: str | None = None

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the elements, without any padding."""
        return self.elements * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Node:
    """One operator of :data:`tuner.network.operators.OPERATORS`. An input named ``""`` is left out.

    ``source`` is the operator of the model it was made from; ``reason`` says why it stays on the
    host, and is empty otherwise.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Work:
    """The work of a node, or of several: multiply-accumulates, and bytes of all operands once."""

    macs: int
    moved_bytes: int


@dataclass(frozen=True)
class Graph:
    """A checked network: nodes in an order that respects their dependencies.

    Made by :func:`checked`. ``data`` holds the constants by the digests that tensors name.
    """

    name: str
    tensors: Mapping[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    data: Mapping[str, Array] = field(repr=False, compare=False, default_factory=dict)

    def constant(self, name: str) -> Array | None:
        """The elements of the tensor ``name`` if it is a constant."""
        digest = self.tensors[name].data
        return None if digest is None else self.data[digest]

    def operands(self, node: Node) -> list[Tensor]:
        """The tensors a node reads and writes, without inputs left out."""
        return [self.tensors[name] for name in (*node.inputs, *node.outputs) if name]

    def work(self, node: Node) -> Work:
        """The work of ``node``."""
        shapes = [self.tensors[name].shape if name else () for name in node.inputs]
        output = self.tensors[node.outputs[0]]
        macs = OPERATORS[node.operator].macs(node.attributes, shapes, output.shape)
        return Work(macs, sum(tensor.payload_bytes for tensor in self.operands(node)))

    def signature(self, node: Node) -> str:
        """A digest of all that decides code for ``node``: equal for nodes that differ in data."""
        tensors = (self.tensors[name] if name else None for name in (*node.inputs, *node.outputs))
        return digest_of(
            {
                "operator": node.operator,
                "attributes": {
                    key: value
                    for key, value in node.attributes.items()
                    if key not in DATA_ATTRIBUTES
                },
                "operands": [
                    tensor
                    and {
                        "shape": tensor.shape,
                        "dtype": tensor.dtype,
                        "constant": tensor.data is not None,
                        "axis": tensor.quantization and tensor.quantization.axis,
                    }
                    for tensor in tensors
                ],
            }
        )

    def as_dict(self) -> dict[str, Any]:
        """The graph as JSON; constants by their digests."""
        return {
            "name": self.name,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "tensors": [_tensor_json(tensor) for tensor in self.tensors.values()],
            "nodes": [
                {
                    "name": node.name,
                    "operator": node.operator,
                    "inputs": list(node.inputs),
                    "outputs": list(node.outputs),
                    "attributes": dict(node.attributes),
                    "source": node.source,
                    "reason": node.reason,
                }
                for node in self.nodes
            ],
        }

    @property
    def canonical(self) -> str:
        """The graph as canonical JSON."""
        return canonical_json(self.as_dict())

    @property
    def digest(self) -> str:
        """Names the network with its data: the SHA-256 of :attr:`canonical`."""
        return digest_of(self.as_dict())

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], data: Mapping[str, Array]) -> Graph:
        """The inverse of :meth:`as_dict`, checked. Raises ``UserError``."""
        try:
            tensors = [_tensor_from(entry) for entry in document["tensors"]]
            nodes = [
                Node(
                    entry["name"],
                    entry["operator"],
                    tuple(entry["inputs"]),
                    tuple(entry["outputs"]),
                    dict(entry["attributes"]),
                    entry["source"],
                    entry["reason"],
                )
                for entry in document["nodes"]
            ]
            ends = tuple(document["inputs"]), tuple(document["outputs"])
            name = str(document["name"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UserError(
                f"the graph lacks or misstates {error}", accepted="what Graph.as_dict() makes"
            ) from None
        return checked(name, tensors, nodes, *ends, data)


def _tensor_json(tensor: Tensor) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "data": tensor.data,
        "quantization": None,
    }
    if (found := tensor.quantization) is not None:
        made["quantization"] = {
            "scale": list(found.scale),
            "zero_point": list(found.zero_point),
            "axis": found.axis,
        }
    return made


def _tensor_from(entry: Mapping[str, Any]) -> Tensor:
    given = entry["quantization"]
    quantization = given and Quantization(
        tuple(given["scale"]), tuple(given["zero_point"]), given["axis"]
    )
    return Tensor(entry["name"], tuple(entry["shape"]), entry["dtype"], quantization, entry["data"])


def data_digest(array: Array) -> str:
    """The digest that names a constant: of its dtype, shape and bytes."""
    hashed = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()


def checked(
    name: str,
    tensors: Iterable[Tensor],
    nodes: Sequence[Node],
    inputs: Sequence[str],
    outputs: Sequence[str],
    data: Mapping[str, Array],
) -> Graph:
    """The graph of ``nodes``, sorted by their dependencies; what leads to no output is left out.

    Names get escapes for what is not printable in them. Raises ``UserError`` naming the node or
    tensor for a cycle, an unknown tensor or operator, two producers, a shape that does not follow
    from the inputs', or constants that are missing.
    """
    name, inputs, outputs = plain(name), tuple(map(plain, inputs)), tuple(map(plain, outputs))
    tensors = [replace(tensor, name=plain(tensor.name)) for tensor in tensors]
    nodes = [_plainly_named(node) for node in nodes]
    known: dict[str, Tensor] = {}
    for tensor in tensors:
        if tensor.name in known:
            raise UserError(f"tensor '{tensor.name}' is defined twice")
        _check_tensor(tensor, data)
        known[tensor.name] = tensor
    producers: dict[str, Node] = {}
    for node in nodes:
        for output in node.outputs:
            if output in producers or output in inputs:
                raise UserError(f"tensor '{output}' has more than one producer")
            producers[output] = node
    for end in (*inputs, *outputs):
        if end not in known:
            raise UserError(f"the network has no tensor '{end}', which it names as its end")
    ordered = sorted_nodes(nodes, producers, outputs)
    for node in ordered:
        _check_node(node, known, producers, inputs)
    used = {*inputs, *outputs, *(t for node in ordered for t in (*node.inputs, *node.outputs))}
    for output in outputs:
        if output not in producers and output not in inputs and known[output].data is None:
            raise UserError(f"no node makes the output '{output}'")
    kept = {name: tensor for name, tensor in known.items() if name in used}
    digests = {tensor.data for tensor in kept.values() if tensor.data}
    return Graph(
        name,
        kept,
        tuple(ordered),
        tuple(inputs),
        tuple(outputs),
        {digest: data[digest] for digest in sorted(digests)},
    )


def sorted_nodes(
    nodes: Sequence[Node], producers: Mapping[str, Node], outputs: Iterable[str]
) -> list[Node]:
    """The nodes that ``outputs`` need, each after those it needs, else in the order given.

    Raises ``UserError`` naming a node of a cycle.
    """
    needed: set[int] = set()
    waiting = [producers[name] for name in outputs if name in producers]
    while waiting:
        node = waiting.pop()
        if id(node) not in needed:
            needed.add(id(node))
            waiting += [producers[name] for name in node.inputs if name in producers]
    ordered: list[Node] = []
    state: dict[int, bool] = {}  # absent: unseen, False: under way, True: placed
    for start in (node for node in nodes if id(node) in needed):
        stack = [(start, False)]
        while stack:
            node, expanded = stack.pop()
            if expanded:
                state[id(node)] = True
                ordered.append(node)
                continue
            if id(node) in state:
                continue
            state[id(node)] = False
            stack.append((node, True))
            before = [producers[name] for name in node.inputs if name in producers]
            for other in before:
                if state.get(id(other)) is False:
                    raise UserError(
                        f"node '{other.name}' is part of a cycle",
                        accepted="a graph without cycles",
                        next_step="unroll the loop before exporting the model",
                    )
            stack += [(other, False) for other in reversed(before) if id(other) not in state]
    return ordered


def _plainly_named(node: Node) -> Node:
    return replace(
        node,
        name=plain(node.name),
        inputs=tuple(map(plain, node.inputs)),
        outputs=tuple(map(plain, node.outputs)),
        source=plain(node.source),
        reason=plain(node.reason),
    )


def _check_tensor(tensor: Tensor, data: Mapping[str, Array]) -> None:
    if tensor.dtype not in DTYPES:
        raise UserError(
            f"tensor '{tensor.name}' has the dtype {tensor.dtype}", accepted=", ".join(DTYPES)
        )
    if any(not isinstance(extent, int) or extent < 0 for extent in tensor.shape):
        raise UserError(f"tensor '{tensor.name}' has the shape {list(tensor.shape)}")
    if tensor.elements > MOST_ELEMENTS:
        raise UserError(
            f"tensor '{tensor.name}' has the shape {list(tensor.shape)}",
            accepted=f"at most {MOST_ELEMENTS} elements",
        )
    found = tensor.quantization
    if found is not None:
        wanted = 1 if found.axis is None else tensor.shape[found.axis]
        if len(found.scale) != wanted or len(found.zero_point) != wanted:
            raise UserError(
                f"tensor '{tensor.name}' has {len(found.scale)} scales and "
                f"{len(found.zero_point)} zero points",
                accepted=f"{wanted} of each",
            )
        if not all(0 < scale < float("inf") for scale in found.scale):
            raise UserError(
                f"tensor '{tensor.name}' has a scale of {min(found.scale)}",
                accepted="positive finite numbers",
            )
    if tensor.data is not None:
        array = data.get(tensor.data)
        if array is None:
            raise UserError(f"the elements of the constant '{tensor.name}' are missing")
        if array.shape != tensor.shape or array.dtype.name != tensor.dtype:
            raise UserError(
                f"the constant '{tensor.name}' is {array.dtype.name}{list(array.shape)}",
                accepted=f"{tensor.dtype}{list(tensor.shape)}",
            )


def _check_node(
    node: Node,
    tensors: Mapping[str, Tensor],
    producers: Mapping[str, Node],
    inputs: Sequence[str],
) -> None:
    if node.operator not in OPERATORS:
        raise UserError(
            f"node '{node.name}' has the operator '{node.operator}'",
            accepted=", ".join(OPERATORS),
        )
    for name in (*filter(None, node.inputs), *node.outputs):
        if name not in tensors:
            raise UserError(f"node '{node.name}' names the tensor '{name}', which does not exist")
    for name in filter(None, node.inputs):
        if name not in producers and name not in inputs and tensors[name].data is None:
            raise UserError(f"node '{node.name}' reads '{name}', which nothing makes")
    if node.operator == HOST:
        return
    operator = OPERATORS[node.operator]
    shapes = [tensors[name].shape if name else () for name in node.inputs]
    try:
        shape = operator.shape(node.attributes, shapes)
    except ShapeError as error:
        raise UserError(f"node '{node.name}' ({node.source or node.operator}): {error}") from None
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise UserError(
            f"node '{node.name}' ({node.source or node.operator}) misstates {error}"
        ) from None
    made = tensors[node.outputs[0]].shape
    if made != shape:
        raise UserError(
            f"node '{node.name}' ({node.source or node.operator}) makes {list(shape)}, "
            f"and '{node.outputs[0]}' is {list(made)}"
        )
