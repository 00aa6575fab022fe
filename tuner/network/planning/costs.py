"""The time of each layer on each unit of a topology, and where the figure comes from.

A unit with a target runs what kernels do: at the cycles of the best stored schedule, or of an
estimate. The others run every operator, at the speeds that the topology declares; a mesh on all its
elements, as far as a layer can be split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from tuner.errors import UserError
from tuner.keeping.best import lookup_of
from tuner.keeping.store import TrialStore
from tuner.measure.qemu.model import find_model
from tuner.measure.roofline import roofline_of
from tuner.network.graph import Graph, Node, Shape, Work
from tuner.network.layers import Layer
from tuner.network.moves import VIEWS, moves_on_dsp
from tuner.network.operators import HOST, channels, pixels
from tuner.network.planning.mesh import MeshLayer
from tuner.network.planning.topology import Topology, Unit
from tuner.problem.contract import Contract
from tuner.problem.target import Target, find_target
from tuner.problem.workload import Problem, Workload

OF_ROOFLINE = 2.0
"""An estimate in times of the roofline (:mod:`tuner.measure.roofline`): textbook schedules of
``qconv2d_u8`` and ``qdepthwise_conv2d_u8`` in their default shapes take 1.8 and 3.2 times it in the
timing model, tuned ones less."""
COPIED_BYTE_CYCLES = 1.0
"""An estimate for bytes that the DSP copies, in words: an image of 7x7x1280 takes 0.9 from channel
blocks to channels last in the timing model."""
MEASURED, ESTIMATED, DECLARED, NOTHING = "measured", "estimated", "declared", "no work"
"""Sources of a time; ``no work`` is that of operators that leave all bytes where they are."""
BestCycles = Callable[[Problem], float | None]
"""The cycles of the best schedule for a problem; ``None`` without one."""
_WITHOUT_WORK = ("reshape", "reinterpret")


@dataclass(frozen=True)
class Cost:
    """A layer's time on a unit (microseconds), and its source."""

    time_us: float
    source: str


def stored_cycles(store: TrialStore) -> BestCycles:
    """The cycles of the best schedules in ``store``."""

    def cycles_of(problem: Problem) -> float | None:
        best = store.best(lookup_of(problem))
        return None if best is None else best.measurement.cycles

    return cycles_of


def costs(
    graph: Graph, layers: Sequence[Layer], topology: Topology, cycles_of: BestCycles
) -> list[tuple[Layer, Mapping[str, Cost]]]:
    """Each of the ``layers`` of ``graph``, in its order, with its cost on each unit that can run
    it. Of two that are one call, the later one has the cost of both, the other none.

    Raises ``UserError`` naming the key of the topology that a unit lacks.
    """
    for unit in topology.units:
        needed: tuple[str, ...] = ("macs_per_us", "moved_bytes_per_us")
        if unit.target:
            needed = ("cycles_per_us",)
        if unit.elements > 1:
            needed += ("exchange_bytes_per_us",)
        for key in needed:
            if not getattr(unit, key):
                raise UserError(
                    f"units.{unit.name} does not state {key}",
                    next_step="docs/networks.md shows a topology with speeds",
                )
    known: dict[tuple[str, str], Cost] = {}
    found: list[tuple[Layer, Mapping[str, Cost]]] = []
    for layer in layers:
        units = () if layer.fit.within else topology.units
        own = {unit.name: _cost(graph, layer, unit, cycles_of, known) for unit in units}
        found.append((layer, {name: cost for name, cost in own.items() if cost is not None}))
    return found


def _cost(
    graph: Graph,
    layer: Layer,
    unit: Unit,
    cycles_of: BestCycles,
    known: dict[tuple[str, str], Cost],
) -> Cost | None:
    if layer.node.operator in _WITHOUT_WORK:
        return Cost(0.0, NOTHING)
    if unit.elements > 1:
        split = mesh_layer(graph, layer, unit)
        parts = ceil(split.parts / unit.elements)
        fits = not unit.element_bytes or split.held_bytes(parts) <= unit.element_bytes
        return Cost(split.time_us(parts), DECLARED) if fits else None
    if not unit.target:
        return Cost(sum(_declared_us(work, unit) for work in _works(graph, layer)), DECLARED)
    fit = layer.fit
    if moves_on_dsp(graph, layer.node):
        copied = 0 if layer.node.operator in VIEWS else layer.output_bytes
        return Cost(copied * COPIED_BYTE_CYCLES / unit.cycles_per_us, ESTIMATED)
    if fit.workload is None or fit.steps is None:
        return None
    key = unit.name, fit.workload.digest
    if key not in known:
        problem = Problem(fit.workload, Contract.STATIC, find_target(unit.target))
        cycles, source = cycles_of_call(problem, cycles_of)
        known[key] = Cost(cycles / unit.cycles_per_us, source)
    once = known[key]
    return Cost(once.time_us * fit.calls, once.source)


def _works(graph: Graph, layer: Layer) -> list[Work]:
    """Of the layers that a call does."""
    first = layer.fit.first
    return [*([graph.work(first)] if first else []), layer.work]


def _declared_us(work: Work, unit: Unit) -> float:
    return work.macs / unit.macs_per_us + work.moved_bytes / unit.moved_bytes_per_us


def mesh_layer(graph: Graph, layer: Layer, unit: Unit) -> MeshLayer:
    """``layer`` as the elements of the mesh ``unit`` split it: a part is a row of a channel of an
    image, a row of a softmax, an element of anything else, and all of what stays on the host.

    Parts are in the order of rows, so that those of one row read the same operands: an element
    reads these whole, and for windows the rows around them. Of two layers that are one call, an
    element does its parts of the first, and then of the second.
    """
    made = _split(graph, layer.node, layer.shape, layer.work, unit)
    node = layer.fit.first
    if node is None:
        return made
    first = _split(graph, node, graph.tensors[node.outputs[0]].shape, graph.work(node), unit)
    share = first.parts / made.parts
    return replace(
        made,
        part_us=made.part_us + share * first.part_us,
        fixed_us=made.fixed_us + first.fixed_us,
        part_bytes=made.part_bytes + share * first.part_bytes,
        fixed_bytes=made.fixed_bytes + first.fixed_bytes,
        weight_bytes=made.weight_bytes + first.weight_bytes,
    )


def _split(graph: Graph, node: Node, shape: Shape, work: Work, unit: Unit) -> MeshLayer:
    """A node whose first output has ``shape``."""
    if node.operator in _WITHOUT_WORK:
        return MeshLayer(node.name, 1, 0.0)
    operands = [graph.tensors[name] for name in node.inputs if name]
    weight_bytes = sum(tensor.payload_bytes for tensor in operands if tensor.data is not None)
    read_bytes = sum(tensor.payload_bytes for tensor in operands if tensor.data is None)
    made_bytes = sum(graph.tensors[name].payload_bytes for name in node.outputs)
    parts, columns, overlap = max(1, prod(shape)), 1, 0.0
    if node.operator == HOST:
        parts = 1
    elif node.operator == "softmax":
        parts = prod(shape) // shape[node.attributes["axis"]]
    elif node.operator == "matmul":
        columns, overlap = shape[-1], 1.0
    elif "kernel" in node.attributes:
        layout = node.attributes["layout"]
        parts, columns = prod(shape) // pixels(shape, layout)[1], channels(shape, layout)
        overlap = node.attributes["kernel"][0] / node.attributes["strides"][0]
    # Two rows at most are begun or ended within; what their windows read is read whole.
    fixed_bytes = read_bytes * columns / parts * (1 + overlap) if overlap else 0.0
    part_bytes = (read_bytes + made_bytes) / parts
    return MeshLayer(
        node.name,
        parts,
        _declared_us(work, unit) / parts + part_bytes / unit.exchange_bytes_per_us,
        unit.exchange_latency_us + fixed_bytes / unit.exchange_bytes_per_us,
        part_bytes,
        fixed_bytes,
        weight_bytes,
        columns,
    )


def cycles_of_call(problem: Problem, cycles_of: BestCycles) -> tuple[float, str]:
    """The cycles of a call of ``problem``'s kernel, and their source."""
    best = cycles_of(problem)
    if best is not None:
        return best, MEASURED
    return OF_ROOFLINE * roofline_of(problem).cycles, ESTIMATED


def moved_during_call(workload: Workload, target: Target, store: TrialStore | None) -> float:
    """The bytes that DDR moves, by the timing model, in the time a call of ``workload`` takes."""
    cycles_of: BestCycles = (lambda _: None) if store is None else stored_cycles(store)
    cycles, _ = cycles_of_call(Problem(workload, Contract.STATIC, target), cycles_of)
    return moved_in(cycles, target)


def moved_in(cycles: float, target: Target) -> float:
    """The bytes that DDR moves, by the timing model, in ``cycles``."""
    return cycles * find_model(target.arch).parameters.ddr_bandwidth
