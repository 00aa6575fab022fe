"""A network planned as a whole: its layers as tasks, their times, the plan, and what of it lies in
VTCM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.network.graph import Graph
from tuner.network.layers import Layer
from tuner.network.planning import mesh, vtcm
from tuner.network.planning.costs import BestCycles, Cost, costs, mesh_layer
from tuner.network.planning.recorded import Costed, of_sequence, of_stream
from tuner.network.planning.sequence import Plan, plan
from tuner.network.planning.simulation import Simulation, simulate
from tuner.network.planning.solver import require_ortools
from tuner.network.planning.stream import StreamPlan, plan_stream
from tuner.network.planning.tasks import Task, places_of, tasks_of
from tuner.network.planning.topology import Topology, Unit
from tuner.network.planning.vtcm import Placement
from tuner.records.network_plan import NetworkPlan, PlanObjective

SECONDS = 30.0
"""For the solver, unless the caller says otherwise."""
SLACK = 0.05
_FEWEST_INPUTS = 100
"""Of a simulated stream; deep pipelines take more: 10 for each stage."""


@dataclass(frozen=True)
class SequencePlanned:
    """A plan in which units take turns. ``costed`` are the layers, in the order of the network."""

    made: Plan
    placed: tuple[Placement, ...]
    tasks: tuple[Task, ...]
    costed: Costed
    record: NetworkPlan


@dataclass(frozen=True)
class StreamPlanned:
    """A plan for a stream, with what a simulation says of it, and its meshes by name."""

    made: StreamPlan
    ran: Simulation
    placed: tuple[Placement, ...]
    meshes: Mapping[str, mesh.MeshPlan]
    tasks: tuple[Task, ...]
    costed: Costed
    record: NetworkPlan


def require_plannable(graph: Graph, layers: Sequence[Layer], units: Topology) -> None:
    """Raises the errors of :func:`planned` that are known before anything is measured."""
    require_ortools()
    costs(graph, layers, units, lambda _: None)


def by_task(tasks: Sequence[Task], costed: Costed) -> dict[str, tuple[Layer, Mapping[str, Cost]]]:
    """The layer of each task, with its cost by unit."""
    places = places_of([layer for layer, _ in costed])
    return {task.name: costed[place] for task, place in zip(tasks, places, strict=True)}


def planned(
    graph: Graph,
    layers: Sequence[Layer],
    units: Topology,
    cycles_of: BestCycles,
    *,
    objective: PlanObjective = "latency",
    seconds: float = SECONDS,
    slack: float = SLACK,
) -> SequencePlanned | StreamPlanned:
    """The plan for ``graph``, which has these ``layers`` (:func:`tuner.network.layouts.laid_out`),
    on ``units``, the best found within about ``seconds``.

    ``slack`` is how much longer the interval of a stream may be for a shorter latency. Raises
    ``UserError`` for a topology that cannot hold the network or does not state a speed, and
    ``ToolchainError`` without OR-Tools.
    """
    require_ortools()
    found = costs(graph, layers, units, cycles_of)
    by_node = {id(layer.node): _times(own) for layer, own in found}
    tasks = tasks_of(graph, layers, lambda layer: by_node[id(layer.node)])
    layer_of = {name: layer for name, (layer, _) in by_task(tasks, found).items()}

    def on_mesh(task: str, unit: Unit) -> mesh.MeshLayer:
        return mesh_layer(graph, layer_of[task], unit)

    if objective == "throughput":
        tasks = mesh.with_even_times(tasks, units, on_mesh)
        stream = plan_stream(tasks, units, slack=slack, seconds=seconds)
        stream, meshes = mesh.split_stream(stream, tasks, units, on_mesh)
        placed = vtcm.of_stream(stream.operations, tasks, units, seconds)
        ran = _simulated(stream, meshes)
        kept = of_stream(stream, ran, placed, tasks, units, found)
        return StreamPlanned(stream, ran, tuple(placed), meshes, tuple(tasks), found, kept)
    made = plan(tasks, units, objective=objective, seconds=seconds)
    for unit in units.units:
        own = [name for group in made.groups if group.unit == unit.name for name in group.tasks]
        if unit.elements > 1:
            mesh.require_room([on_mesh(name, unit) for name in own], unit)
    placed = vtcm.of_sequence(made.groups, tasks, units, seconds)
    kept = of_sequence(made, objective, placed, tasks, units, found)
    return SequencePlanned(made, tuple(placed), tuple(tasks), found, kept)


def _times(own: Mapping[str, Cost]) -> dict[str, float]:
    return {unit: cost.time_us for unit, cost in own.items()}


def _simulated(made: StreamPlan, meshes: Mapping[str, mesh.MeshPlan]) -> Simulation:
    inputs = max(_FEWEST_INPUTS, 10 * made.stages)
    ran = simulate(made.operations, inputs, every_us=made.interval_us)
    # The simulation takes a mesh as one unit; an input takes its way from element to element.
    through_us = sum(mesh.latency_us - mesh.interval_us for mesh in meshes.values())
    return replace(ran, latency_us=ran.latency_us + through_us)
