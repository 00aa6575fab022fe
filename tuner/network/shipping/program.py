"""The steps of a network as operations in one memory: of a DSP that is its own host.

:mod:`tuner.network.running.steps` copies tensors between a host and a DSP. Here both are one: a
copy is a conversion between the network's layout of a tensor and a kernel's, and all that lies
between the caller's inputs and outputs is in one arena at fixed offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import numpy as np

from tuner.errors import UserError
from tuner.network.graph import Array, Graph, Node, Tensor
from tuner.network.layers import Layer
from tuner.network.moves import VIEWS, moves_only
from tuner.network.operators import HOST
from tuner.network.running import views
from tuner.network.running.image import REPACK
from tuner.network.running.steps import (
    CONSTANTS,
    Allocate,
    CopyIn,
    CopyOut,
    Fetch,
    OnHost,
    Part,
    Release,
    Run,
    Step,
    steps_of,
)
from tuner.network.running.storage import Storage, loops
from tuner.network.shipping.arena import Arena, Lifetime, planned
from tuner.problem.target import Target
from tuner.problem.workload import Workload

FLIP = 0x80
"""The sign bit, which kernels hold the other way round in elements of i8."""
MOST_LOOPS = 6
"""Of a copy: as many as ``copy.h`` has."""
RENAMING = ("reshape", "reinterpret")
"""Operators of the host that leave all bytes where they are."""


class Memory(Enum):
    """Where a tensor lies."""

    ARENA = auto()
    CONSTANTS = auto()
    INPUT = auto()
    OUTPUT = auto()


@dataclass(frozen=True)
class Place:
    """Bytes from ``offset_bytes`` on: of the arena's buffer ``number``, of the constants, or of the
    caller's input or output ``number``."""

    memory: Memory
    number: int = 0
    offset_bytes: int = 0


@dataclass(frozen=True)
class Call:
    """A call of ``function`` (from 0) for the layer at ``layer`` in the graph's order."""

    function: int
    arguments: tuple[Place, ...]
    layer: int


@dataclass(frozen=True)
class Copy:
    """Bytes of ``tensor`` from one layout to another, each with the sign bit changed by ``flip``:
    in loops of ``extents`` over both ``strides`` (bytes), the innermost last."""

    tensor: str
    source: Place
    target: Place
    extents: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]
    flip: int


@dataclass(frozen=True)
class Fill:
    """The byte ``value`` in all ``size_bytes`` of a buffer for ``tensor``, which is copied there
    next: what lies around an image counts."""

    tensor: str
    target: Place
    size_bytes: int
    value: int


@dataclass(frozen=True)
class Outside:
    """The layer at ``layer``, which has no kernel: its operands and results lie dense, in the
    order of dimensions that the network has."""

    layer: int
    operands: tuple[Place, ...]
    results: tuple[Place, ...]


Operation = Call | Copy | Fill | Outside


@dataclass(frozen=True)
class Program:
    """``operations`` in order, the workload of each function, the bytes of all constants, and the
    arena whose offsets are those of the buffers that places name. ``fetches`` has, by the number of
    an operation, the constants (offset and bytes) that come to L2 while it runs."""

    operations: tuple[Operation, ...]
    functions: tuple[Workload, ...]
    constants: Array = field(repr=False)
    arena: Arena
    fetches: Mapping[int, tuple[int, int]]

    def places(self) -> list[Place]:
        """All places of all operations."""
        return [place for operation in self.operations for place in places_of(operation)]


def places_of(operation: Operation) -> list[Place]:
    """The places that an operation reads or writes."""
    match operation:
        case Call():
            return [*operation.arguments]
        case Copy():
            return [operation.source, operation.target]
        case Fill():
            return [operation.target]
        case Outside():
            return [*operation.operands, *operation.results]


def program_of(
    graph: Graph,
    found: Sequence[Layer],
    target: Target,
    bytes_during: Callable[[Workload], float],
) -> Program:
    """The program of ``graph``, whose layers are ``found``, on ``target``; ``bytes_during`` as of
    :func:`tuner.network.running.steps.steps_of`.

    Raises ``UserError`` if no layer has a kernel, or one without needs a tensor that C has no type
    for.
    """
    for name in (*graph.inputs, *graph.outputs):
        if graph.tensors[name].dtype not in C_TYPES:
            raise UserError(f"'{name}' is {graph.tensors[name].dtype}", accepted=", ".join(C_TYPES))
    steps = steps_of(graph, found, target, bytes_during)
    if not steps.functions:
        raise UserError(
            f"no layer of {graph.name} has a kernel that takes its numbers",
            next_step="see `hvxtune network import`",
        )
    making = _Making(graph, found, steps.constants, target.vector_alignment_bytes)
    for step in steps.steps:
        making.step(step)
    making.end()
    lives: dict[int, list[int]] = {}
    for number, operation in enumerate(making.operations):
        for place in places_of(operation):
            if place.memory is Memory.ARENA:
                lives.setdefault(place.number, []).append(number)
    buffers = [
        Lifetime(size, min(lives[number]), max(lives[number])) if number in lives else _UNUSED
        for number, size in enumerate(making.sizes)
    ]
    return Program(
        tuple(making.operations),
        steps.functions,
        making.constants(),
        planned(buffers, target.vector_alignment_bytes),
        making.fetches,
    )


_UNUSED = Lifetime(0, 0, 0)


class _Making:
    """Operations being made. ``_buffers`` has the place of each buffer of the steps, ``_known``
    where the network's own layout of a tensor is. ``sizes`` are those of the arena's buffers."""

    def __init__(
        self, graph: Graph, found: Sequence[Layer], constants: Array, alignment_bytes: int
    ) -> None:
        self._graph, self._layers = graph, found
        self._alignment_bytes = alignment_bytes
        self._constants = [constants]
        self._buffers: dict[int, Place] = {}
        self._known = {
            name: Place(Memory.INPUT, number) for number, name in enumerate(graph.inputs)
        }
        self.operations: list[Operation] = []
        self.fetches: dict[int, tuple[int, int]] = {}
        self.sizes: list[int] = []

    def constants(self) -> Array:
        """Those of all operations."""
        return np.concatenate(self._constants)

    def step(self, step: Step) -> None:
        """Adds the operations of a step; the arena is planned from them."""
        match step:
            case Allocate():
                self._buffers[step.buffer] = self._new(step.size_bytes)
            case CopyIn():
                place = self._buffers[step.buffer]
                own, dense = self._own(step.tensor), Storage.of(step.storage.shape)
                if step.storage.block is not None:
                    storage = step.storage
                    fill = Fill(step.tensor, place, storage.size_bytes, storage.fill)
                    self.operations.append(fill)
                flip = self._flip(step.tensor)
                self._copy(step.tensor, own, dense, place, step.storage, flip)
            case CopyOut():
                place = self._buffers[step.buffer]
                dense = Storage.of(step.storage.shape)
                own = self._result(step.tensor)
                flip = self._flip(step.tensor)
                self._copy(step.tensor, place, step.storage, own, dense, flip)
            case Fetch():
                self.fetches[len(self.operations)] = step.offset_bytes, step.size_bytes
            case Run():
                self._run(step)
            case OnHost():
                self._outside(step.place)
            case Release():
                pass

    def end(self) -> None:
        """Copies what is not where the caller wants it: a renamed tensor, an input or a constant
        that is an output, too."""
        for number, name in enumerate(self._graph.outputs):
            wanted = Place(Memory.OUTPUT, number)
            own = self._own(name)
            if own != wanted:
                dense = Storage.of((self._graph.tensors[name].payload_bytes,))
                self._copy(name, own, dense, wanted, dense, 0)

    def _new(self, size_bytes: int) -> Place:
        self.sizes.append(size_bytes)
        return Place(Memory.ARENA, len(self.sizes) - 1)

    def _flip(self, name: str) -> int:
        return FLIP if self._graph.tensors[name].dtype == "int8" else 0

    def _own(self, name: str) -> Place:
        """Where the network's layout of a tensor is: a constant is put there now."""
        if name not in self._known:
            data = self._graph.constant(name)
            assert data is not None  # noqa: S101 - steps copy out what the DSP makes
            self._known[name] = self._constant(data)
        return self._known[name]

    def _constant(self, data: Array) -> Place:
        offset = sum(part.size for part in self._constants)
        content = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        self._constants.append(np.pad(content, (0, -content.size % self._alignment_bytes)))
        return Place(Memory.CONSTANTS, 0, offset)

    def _result(self, name: str) -> Place:
        """Where the network's layout of a tensor will be."""
        outputs = self._graph.outputs
        self._known[name] = (
            Place(Memory.OUTPUT, outputs.index(name))
            if name in outputs
            else self._new(self._graph.tensors[name].payload_bytes)
        )
        return self._known[name]

    def _copy(
        self, tensor: str, source: Place, held: Storage, target: Place, wanted: Storage, flip: int
    ) -> None:
        found = loops(held, wanted)
        if len(found) > MOST_LOOPS:
            raise UserError(
                f"tensor '{tensor}' has more than {MOST_LOOPS} dimensions that move apart",
                next_step="reshape it before that layer",
            )
        extents, source_strides, target_strides = zip(*found, strict=True)
        ends = _later(source, held.offset_bytes), _later(target, wanted.offset_bytes)
        self.operations.append(Copy(tensor, *ends, extents, source_strides, target_strides, flip))

    def _run(self, step: Run) -> None:
        if step.function != REPACK:
            places = tuple(self._part(part) for part in step.arguments)
            self.operations.append(Call(step.function - 1, places, step.place))
            return
        source, target = step.arguments
        assert isinstance(source.form, Storage)  # noqa: S101 - steps repack storages
        assert isinstance(target.form, Storage)  # noqa: S101
        layer = self._layers[step.place].node.name
        self._copy(
            f"an operand of {layer}",
            *(self._part(source), source.form, self._part(target), target.form, 0),
        )

    def _part(self, part: Part) -> Place:
        if part.buffer == CONSTANTS:
            return Place(Memory.CONSTANTS, 0, part.offset_bytes)
        return replace(self._buffers[part.buffer], offset_bytes=part.offset_bytes)

    def _outside(self, layer: int) -> None:
        node = self._layers[layer].node
        operands = operands_of(node)
        if node.operator in RENAMING:
            self._known[node.outputs[0]] = self._own(operands[0])
            return
        found = moves_of(self._graph, node)
        if found:
            whole = self._result(node.outputs[0])
            for move in found:
                source = self._own(move.operand)
                self._copy(move.operand, source, move.source, whole, move.target, 0)
            return
        require_types(node, [self._graph.tensors[n] for n in (*operands, *node.outputs)])
        given = tuple(self._own(name) for name in operands)
        made = tuple(self._result(name) for name in node.outputs)
        self.operations.append(Outside(layer, given, made))


C_TYPES = {
    **{name: f"{name}_t" for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32")},
    "uint64": "uint64_t",
    "int64": "int64_t",
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
}
"""By NumPy's name."""


def operands_of(node: Node) -> list[str]:
    """The tensors that ``node`` computes with: not the model of a node that stays on the host."""
    names = [name for name in node.inputs if name]
    return names[:-1] if node.operator == HOST else names


def require_types(node: Node, tensors: Sequence[Tensor]) -> None:
    """``UserError`` if C has no type for an element of ``tensors`` of ``node``."""
    for tensor in tensors:
        if tensor.dtype not in C_TYPES:
            raise UserError(
                f"layer '{node.name}' has no kernel, and its tensor '{tensor.name}' is "
                f"{tensor.dtype}",
                accepted="layers with a kernel, or tensors of " + ", ".join(C_TYPES),
                next_step="end the model before that layer",
            )


@dataclass(frozen=True)
class Move:
    """The bytes of an operand, or a part of them, to their place in a result: both of one shape."""

    operand: str
    source: Storage
    target: Storage


def moves_of(graph: Graph, node: Node) -> list[Move]:
    """A layer as moves of bytes, if it does nothing else (:mod:`tuner.network.moves`).
    Else none."""
    if not moves_only(graph, node):
        return []
    names = [name for name in node.inputs if name]
    whole = _bytes_of(graph.tensors[node.outputs[0]])
    if node.operator in VIEWS:
        return [Move(names[0], views.view(node, _bytes_of(graph.tensors[names[0]])), whole)]
    return [
        Move(name, _bytes_of(graph.tensors[name]), inside)
        for name, inside in views.copies(graph, node, whole)
    ]


def _bytes_of(tensor: Tensor) -> Storage:
    """A dense tensor, each element as a row of bytes."""
    return Storage.of((*tensor.shape, np.dtype(tensor.dtype).itemsize))


def _later(place: Place, offset_bytes: int) -> Place:
    return replace(place, offset_bytes=place.offset_bytes + offset_bytes)
