"""Plans of networks, as ``network plan`` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from service.cli.output import print_line, print_table

if TYPE_CHECKING:
    from tuner.network import Graph
    from tuner.network.layers import Layer
    from tuner.network.planning.costs import Cost
    from tuner.network.planning.sequence import Plan
    from tuner.network.planning.simulation import Operation, Simulation
    from tuner.network.planning.stream import StreamPlan
    from tuner.network.planning.vtcm import Placement
    from tuner.network.planning.whole import SequencePlanned, StreamPlanned

    ByTask = Mapping[str, tuple[Layer, Mapping[str, Cost]]]
    """Each task's layer, with its cost by unit."""


def show_plan(graph: Graph, done: SequencePlanned | StreamPlanned) -> None:
    """Print a plan of either kind."""
    from tuner.network.planning.whole import StreamPlanned

    if isinstance(done, StreamPlanned):
        show_stream(graph, done)
    else:
        show_sequence(graph, done)


def _by_task(done: SequencePlanned | StreamPlanned) -> ByTask:
    from tuner.network.planning.whole import by_task

    return by_task(done.tasks, done.costed)


def show_sequence(graph: Graph, done: SequencePlanned) -> None:
    """Print a sequential plan and the tensors in VTCM."""
    made, placed, by_task = done.made, done.placed, _by_task(done)
    print_table(
        ["call", "unit", "layer", "operator", "us", "from"],
        _plan_rows(made, by_task),
        numeric=["us"],
    )
    print_line()
    print_line(
        f"{graph.name}: {made.latency_us:,.1f} us in {made.calls} calls; "
        f"a better plan saves {made.gap:.1%} at most"
    )
    _show_vtcm(placed)


def _plan_rows(made: Plan, by_task: ByTask) -> list[list[object]]:
    rows: list[list[object]] = []
    for number, group in enumerate(made.groups, start=1):
        for name in group.tasks:
            layer, own = by_task[name]
            cost, first = own[group.unit], layer.fit.first
            if first is not None:
                where = f"in {layer.node.name}"
                rows.append([number, group.unit, first.name, first.operator, "", where])
            node, took = layer.node, f"{cost.time_us:,.2f}"
            rows.append([number, group.unit, node.name, node.operator, took, cost.source])
    return rows


def show_stream(graph: Graph, done: StreamPlanned) -> None:
    """Print a plan for a stream, its meshes, the tensors in VTCM, and what a simulation says."""
    made, ran, placed, meshes = done.made, done.ran, done.placed, done.meshes
    by_task = _by_task(done)
    print_table(
        ["stage", "runs on", "layers", "us", "of interval"],
        [
            [stage + 1, resource, _layers_text(by_task, own), f"{us:,.1f}", f"{share:.1%}"]
            for stage, resource, own, us, share in _stages(made)
        ],
        numeric=["us", "of interval"],
    )
    print_line()
    print_line(
        f"{graph.name}: an input every {made.interval_us:,.1f} us, done {ran.latency_us:,.1f} us "
        f"after it arrives; a better plan saves {made.gap:.1%} at most"
    )
    print_line(
        f"simulated over {ran.inputs} inputs: one every {ran.interval_us:,.1f} us, "
        f"{_of_bound(made, ran):.1%} of what the busiest unit or link can do"
    )
    for name, mesh in meshes.items():
        used = sum(bool(own) for own in mesh.coordinators)
        print_line(
            f"{name}: {used} coordinators; an input every {mesh.interval_us:,.1f} us, "
            f"{mesh.latency_us:,.1f} us through its layers; a better plan saves {mesh.gap:.1%} "
            "at most"
        )
    _show_vtcm(placed)


def shares_of(done: SequencePlanned | StreamPlanned) -> dict[str, Any]:
    """What each coordinator of each mesh gives its elements, with the names of layers."""
    layers = {task: layer.node.name for task, (layer, _) in _by_task(done).items()}
    return {
        name: [
            [{**asdict(share), "layer": layers[share.layer]} for share in own]
            for own in made.coordinators
        ]
        for name, made in getattr(done, "meshes", {}).items()
    }


def _show_vtcm(placed: Sequence[Placement]) -> None:
    """One line for each unit with VTCM."""
    for unit in dict.fromkeys(one.unit for one in placed):
        own = [one for one in placed if one.unit == unit]
        print_line(
            f"VTCM of {unit}: {sum(len(one.tensors) for one in own)} tensors, "
            f"{max(one.peak_bytes for one in own):,} of {own[0].capacity_bytes:,} bytes at most; "
            f"they save {sum(one.saved_us for one in own):,.1f} us of transfers, and the best "
            f"placement {sum(one.bound_us for one in own):,.1f} us at most"
        )


def _stages(made: StreamPlan) -> Iterator[tuple[int, str, list[Operation], float, float]]:
    """The operations of each unit and DMA in each stage, their time (microseconds), and its share
    of the interval."""
    for stage in range(made.stages):
        for resource in made.busy_us:
            own = [o for o in made.operations if (o.stage, o.resource) == (stage, resource)]
            if own:
                time_us = sum(one.time_us for one in own)
                yield stage, resource, own, time_us, time_us / (made.interval_us or 1)


def _layers_text(by_task: ByTask, operations: list[Operation]) -> str:
    names = [by_task[one.key.task][0].node.name for one in operations if one.key.kind == "task"]
    if not names:
        copies = sum(one.key.kind == "copy" for one in operations)
        return f"{copies} copies" if copies > 1 else "1 copy" if copies else "call"
    return names[0] if len(names) == 1 else f"{len(names)}, {names[0]} to {names[-1]}"


def _of_bound(made: StreamPlan, ran: Simulation) -> float:
    """The share that the simulation reaches of the throughput of the busiest unit or DMA."""
    return made.interval_us / ran.interval_us if ran.interval_us else 1.0
