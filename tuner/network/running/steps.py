"""A network as the steps of a host that queues calls on a DSP, for ``tuner.network.running.image``.

Layers whose kernel takes their numbers run on the DSP, all others on the host. Groups of layers of
one unit take turns, as in a plan (:func:`tuner.network.planning.sequence.grouped`): what a group
on the DSP needs of the host is copied in before its first call, what the host needs is copied out
before its first layer. So each group on the DSP is one crossing with calls. A buffer lives from the
first step that needs it to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from tuner.kernels import find_kernel
from tuner.network.graph import Array, Graph, Node
from tuner.network.layers import Layer
from tuner.network.moves import VIEWS, moves_on_dsp
from tuner.network.planning.sequence import Group, grouped
from tuner.network.planning.tasks import places_of, tasks_of
from tuner.network.running import calls, views
from tuner.network.running.calls import Operand, held
from tuner.network.running.image import REPACK
from tuner.network.running.storage import Storage
from tuner.problem.buffers import BufferSpec
from tuner.problem.target import Target
from tuner.problem.workload import Workload

DSP, HOST_UNIT = "dsp", "host"
CONSTANTS = 0
"""The buffer of all constants; those of tensors follow it."""
_ALIASES = ("reshape", "reinterpret")
"""Operators that leave all bytes where they are."""


@dataclass(frozen=True)
class Allocate:
    """A new buffer."""

    buffer: int
    size_bytes: int


@dataclass(frozen=True)
class Release:
    """A buffer that no later step needs."""

    buffer: int


@dataclass(frozen=True)
class CopyIn:
    """A tensor of the host's into a buffer."""

    tensor: str
    storage: Storage
    buffer: int


@dataclass(frozen=True)
class CopyOut:
    """A tensor in a buffer to the host."""

    tensor: str
    storage: Storage
    buffer: int


@dataclass(frozen=True)
class Part:
    """An argument: a buffer as a kernel has it, from ``offset_bytes`` on, or a whole tensor in its
    storage."""

    buffer: int
    form: BufferSpec | Storage
    offset_bytes: int = 0


@dataclass(frozen=True)
class Fetch:
    """Constants that come to L2 while the next call runs, for those after it."""

    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class Run:
    """A call of ``function`` for the layer at ``place`` in the graph's order."""

    function: int
    arguments: tuple[Part, ...]
    place: int


@dataclass(frozen=True)
class OnHost:
    """The layer at ``place`` computed on the host."""

    place: int


Step = Allocate | Release | CopyIn | CopyOut | Fetch | Run | OnHost


@dataclass(frozen=True)
class Steps:
    """All steps in order, the ``groups`` they are made from (tasks of
    :func:`tuner.network.planning.tasks.tasks_of`), the workload of each function from 1 on, and the
    bytes of the buffer of constants."""

    steps: tuple[Step, ...]
    groups: tuple[Group, ...]
    functions: tuple[Workload, ...]
    constants: Array = field(repr=False)


def units_of(graph: Graph, found: Sequence[Layer]) -> list[str]:
    """The unit of each layer: the DSP for those it has a function for, and for those that only
    rename a tensor on it or move its elements."""
    made_on: dict[str, str] = {}
    units = []
    for layer in found:
        node = layer.node
        on_dsp = calls.can_call(node, layer.fit) and calls.takes_constants(graph, node, layer.fit)
        if node.operator in _ALIASES:
            on_dsp = made_on.get(node.inputs[0]) == DSP
        if moves_on_dsp(graph, node):
            on_dsp = DSP in {made_on.get(name) for name in node.inputs}
        on_dsp = on_dsp or bool(layer.fit.within)
        units.append(DSP if on_dsp else HOST_UNIT)
        made_on.update(dict.fromkeys(node.outputs, units[-1]))
    return units


def steps_of(
    graph: Graph,
    found: Sequence[Layer],
    target: Target,
    bytes_during: Callable[[Workload], float],
) -> Steps:
    """The steps of ``graph``, whose layers are ``found``, for the DSP of ``target``.
    ``bytes_during`` says how much DDR can bring while a call runs."""
    units = units_of(graph, found)
    tasks = tasks_of(graph, found, lambda layer: {HOST_UNIT: 0.0, DSP: 0.0})
    places = dict(zip((task.name for task in tasks), places_of(found), strict=True))
    groups = tuple(grouped(tasks, {name: units[place] for name, place in places.items()}))
    making = _Making(graph, found, target.vector_alignment_bytes)
    for group in groups:
        making.group(group.unit, [places[name] for name in group.tasks])
    making.end()
    functions = tuple(making.functions)
    steps = _with_fetches(making.steps, functions, target.l2_bytes, bytes_during)
    return Steps(
        tuple(_with_releases(steps)),
        groups,
        functions,
        making.constants.contents(),
    )


class _Constants:
    """Data of calls, each kept once, one after the other."""

    def __init__(self, alignment_bytes: int) -> None:
        self._alignment_bytes = alignment_bytes
        self._offsets: dict[bytes, int] = {}
        self._size_bytes = 0

    def place(self, data: Array) -> int:
        """The offset of ``data``."""
        content = np.ascontiguousarray(data).tobytes()
        if content not in self._offsets:
            self._offsets[content] = self._size_bytes
            step = self._alignment_bytes
            self._size_bytes += -(-len(content) // step) * step
        return self._offsets[content]

    def contents(self) -> Array:
        """All of them: bytes."""
        made = np.zeros(self._size_bytes, np.uint8)
        for content, offset in self._offsets.items():
            made[offset : offset + len(content)] = np.frombuffer(content, np.uint8)
        return made


class _Making:
    """Steps being made. ``_resident`` has the buffers of each tensor on the DSP."""

    def __init__(self, graph: Graph, found: Sequence[Layer], alignment_bytes: int) -> None:
        self._graph, self._layers = graph, found
        self._alignment_bytes = alignment_bytes
        self.steps: list[Step] = []
        self.constants = _Constants(alignment_bytes)
        self.functions: dict[Workload, int] = {}
        self._resident: dict[str, dict[Storage, int]] = {}
        self._buffers = CONSTANTS
        self._on_host = {*graph.inputs, *(n for n, t in graph.tensors.items() if t.data)}
        self._copies: list[Step] = []
        self._work: list[Step] = []

    def group(self, unit: str, places: Sequence[int]) -> None:
        """Adds the layers at ``places``, copies first."""
        for place in places:
            if unit == DSP:
                self._on_dsp(place)
            else:
                self._host(place)
        self._finish()

    def end(self) -> None:
        """Copies out what the network makes."""
        for name in self._graph.outputs:
            self._copy_out(name)
        self._finish()

    def _finish(self) -> None:
        self.steps += self._copies + self._work
        self._copies, self._work = [], []

    def _host(self, place: int) -> None:
        node = self._layers[place].node
        for name in filter(None, node.inputs):
            self._copy_out(name)
        self._work.append(OnHost(place))
        self._on_host.update(node.outputs)

    def _copy_out(self, name: str) -> None:
        if name not in self._on_host:
            storage, buffer = next(iter(self._resident[name].items()))
            self._copies.append(CopyOut(name, storage, buffer))
            self._on_host.add(name)

    def _on_dsp(self, place: int) -> None:
        layer = self._layers[place]
        node = layer.node
        if node.operator in _ALIASES:
            self._rename(node, place)
            return
        if moves_on_dsp(self._graph, node):
            self._move(node, place)
            return
        assert layer.fit.workload is not None  # noqa: S101 - units_of says so
        function = self.functions.setdefault(layer.fit.workload, len(self.functions) + 1)
        specs = find_kernel(layer.fit.workload.kernel).buffers(layer.fit.workload.params)
        names = layer.fit.inputs(node)
        stored = [storage for name in names for storage in self._resident.get(name, ())]
        like = next((storage for storage in stored if storage.is_dense), None)
        for call in calls.calls(
            self._graph,
            node,
            layer.fit,
            [self._graph.constant(name) for name in names],
            like=like,
            alignment_bytes=self._alignment_bytes,
        ):
            parts = [
                self._input(given, spec, place)
                for given, spec in zip(call.inputs, specs, strict=False)
            ]
            output = call.output
            own = self._resident.setdefault(output.tensor, {})
            if output.storage not in own:
                own[output.storage] = self._allocate(output.storage.size_bytes, self._work)
            parts.append(Part(own[output.storage], specs[-1], output.offset_bytes))
            self._work.append(Run(function, tuple(parts), place))

    def _rename(self, node: Node, place: int) -> None:
        """The output of ``node`` in the buffer of its input, in the order that both share."""
        shape = self._graph.tensors[node.outputs[0]].shape
        source = node.inputs[0]
        if node.operator == "reinterpret":
            self._resident[node.outputs[0]] = self._resident[source]
            return
        dense = Storage.of(self._graph.tensors[source].shape)
        buffer = self._stored(source, dense, place)
        self._resident[node.outputs[0]] = {Storage.of(shape): buffer}

    def _move(self, node: Node, place: int) -> None:
        """A view of the operand's buffer, or a buffer with copies of operands."""
        made = node.outputs[0]
        if node.operator in VIEWS:
            (source,) = (name for name in node.inputs if name)
            stored, buffer = self._plain(source, place)
            self._resident[made] = {views.view(node, stored): buffer}
            return
        first = next(name for name in node.inputs if name in self._resident)
        given = {name: self._anywhere(name, place) for name in node.inputs if name}
        whole = views.in_order_of(given[first][0], self._graph.tensors[made].shape)
        target = self._allocate(whole.size_bytes, self._work)
        for name, inside in views.copies(self._graph, node, whole):
            stored, buffer = given[name]
            self._work.append(Run(REPACK, (Part(buffer, stored), Part(target, inside)), place))
        self._resident[made] = {whole: target}

    def _anywhere(self, name: str, place: int) -> tuple[Storage, int]:
        """A storage of a tensor that is on the DSP, and its buffer; copied in before."""
        own = self._resident.get(name)
        if own:
            return next(iter(own.items()))
        dense = Storage.of(self._graph.tensors[name].shape)
        return dense, self._stored(name, dense, place)

    def _plain(self, name: str, place: int) -> tuple[Storage, int]:
        """The same, not in blocks."""
        for stored, buffer in self._resident.get(name, {}).items():
            if stored.block is None:
                return stored, buffer
        stored, _ = self._anywhere(name, place)
        order = views.in_order_of(stored, stored.shape)
        return order, self._stored(name, order, place)

    def _input(self, given: Operand | Array, spec: BufferSpec, place: int) -> Part:
        if not isinstance(given, Operand):
            return Part(CONSTANTS, spec, self.constants.place(given))
        constant = self._graph.constant(given.tensor)
        if constant is not None:
            offset = self.constants.place(given.storage.placed(held(constant)))
            return Part(CONSTANTS, spec, offset + given.offset_bytes)
        return Part(self._stored(given.tensor, given.storage, place), spec, given.offset_bytes)

    def _stored(self, name: str, storage: Storage, place: int) -> int:
        """The buffer of a tensor in ``storage``: there, from another storage, or the host."""
        own = self._resident.setdefault(name, {})
        if storage in own:
            return own[storage]
        known = next(iter(own.items()), None)
        if storage.block and name in self._on_host:
            known = None  # a conversion leaves what is around an image as it was
        into = self._work if known else self._copies
        buffer = self._allocate(storage.size_bytes, into)
        if known:
            parts = (Part(known[1], known[0]), Part(buffer, storage))
            into.append(Run(REPACK, parts, place))
        else:
            into.append(CopyIn(name, storage, buffer))
        own[storage] = buffer
        return buffer

    def _allocate(self, size_bytes: int, into: list[Step]) -> int:
        self._buffers += 1
        into.append(Allocate(self._buffers, size_bytes))
        return self._buffers


def _buffers(step: Step) -> list[int]:
    match step:
        case Run():
            return [part.buffer for part in step.arguments if part.buffer != CONSTANTS]
        case CopyIn() | CopyOut() | Allocate():
            return [step.buffer]
        case _:
            return []


def _with_releases(steps: Sequence[Step]) -> list[Step]:
    """``steps``, each buffer released after the last that needs it."""
    last: Mapping[int, int] = {
        buffer: number for number, step in enumerate(steps) for buffer in _buffers(step)
    }
    made: list[Step] = []
    for number, step in enumerate(steps):
        made.append(step)
        made += [Release(b) for b in dict.fromkeys(_buffers(step)) if last[b] == number]
    return made


def _with_fetches(
    steps: Sequence[Step],
    functions: Sequence[Workload],
    l2_bytes: int,
    bytes_during: Callable[[Workload], float],
) -> list[Step]:
    """``steps``, in which calls find their constants in L2. These lie in the order of their use: a
    window moves over them, from what a call reads to what is fetched. While a call runs comes as
    much as DDR moves in that time, and what the next call needs in any case. At most a quarter of
    L2 is fetched ahead: what was used since stays there longer than what waits (LRU)."""
    runs = [number for number, step in enumerate(steps) if isinstance(step, Run)]
    ends = list(accumulate((_end_of_constants(steps[number]) for number in runs), max))
    made: list[Step] = []
    fetched, place = 0, -1
    for step in steps:
        if isinstance(step, Run):
            place += 1
            used, needed = ends[place], ends[min(place + 1, len(ends) - 1)]
            fetched = max(fetched, used)
            moved = 0 if step.function == REPACK else bytes_during(functions[step.function - 1])
            until = min(max(needed, fetched + moved), used + l2_bytes // 4, ends[-1])
            if until > fetched:
                made.append(Fetch(fetched, int(until) - fetched))
                fetched = int(until)
        made.append(step)
    return made


def _end_of_constants(step: Step) -> int:
    """Behind the last constant that a call reads."""
    parts = step.arguments if isinstance(step, Run) else ()
    return max(
        (
            part.offset_bytes + part.form.payload_bytes
            for part in parts
            if part.buffer == CONSTANTS and isinstance(part.form, BufferSpec)
        ),
        default=0,
    )
