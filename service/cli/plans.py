"""Plans of networks, as ``network plan`` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from service.cli.output import print_json, print_line, print_table
from tuner.records.network_plan import ELSEWHERE

if TYPE_CHECKING:
    from tuner.network import Graph
    from tuner.network.layers import Layer
    from tuner.network.planning.costs import Cost
    from tuner.network.planning.mesh import MeshPlan
    from tuner.network.planning.sequence import Plan
    from tuner.network.planning.simulation import Operation, Simulation
    from tuner.network.planning.stream import StreamPlan
    from tuner.network.planning.vtcm import Placement
    from tuner.network.planning.whole import SequencePlanned, StreamPlanned

    ByTask = Mapping[str, tuple[Layer, Mapping[str, Cost]]]
    """Each task's layer, with its cost by unit."""

_SHOWN_PERIODS = 3
"""Intervals of the Gantt chart after the pipeline has filled."""


def show_plan(graph: Graph, done: SequencePlanned | StreamPlanned, *, as_json: bool) -> None:
    """Print a plan of either kind."""
    from tuner.network.planning.whole import StreamPlanned

    if isinstance(done, StreamPlanned):
        show_stream(graph, done, as_json)
    else:
        show_sequence(graph, done, as_json)


def _by_task(done: SequencePlanned | StreamPlanned) -> ByTask:
    from tuner.network.planning.whole import by_task

    return by_task(done.tasks, done.costed)


def show_sequence(graph: Graph, done: SequencePlanned, as_json: bool) -> None:
    """Print a sequential plan and the tensors in VTCM."""
    made, placed, by_task = done.made, done.placed, _by_task(done)
    if as_json:
        print_json(_plan_json(graph, made, by_task) | {"vtcm": _vtcm_json(placed, by_task)})
        return
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


def _plan_json(graph: Graph, made: Plan, by_task: ByTask) -> dict[str, Any]:
    return {
        "name": graph.name,
        "digest": graph.digest,
        "latency_us": made.latency_us,
        "bound_us": made.bound_us,
        "calls": made.calls,
        "groups": [
            {
                "unit": group.unit,
                "layers": [
                    form for name in group.tasks for form in _layers_json(by_task, name, group.unit)
                ],
            }
            for group in made.groups
        ],
    }


def _layers_json(by_task: ByTask, task: str, unit: str) -> Iterator[dict[str, Any]]:
    """The layer of a task, after one that is done in its call."""
    layer, own = by_task[task]
    if layer.fit.first is not None:
        yield {"name": layer.fit.first.name, "time_us": 0.0, "source": ELSEWHERE}
    yield {
        "name": layer.node.name,
        "time_us": own[unit].time_us,
        "source": own[unit].source,
    }


def show_stream(graph: Graph, done: StreamPlanned, as_json: bool) -> None:
    """Print a plan for a stream, its meshes, the tensors in VTCM, and what a simulation says."""
    made, ran, placed, meshes = done.made, done.ran, done.placed, done.meshes
    by_task = _by_task(done)
    if as_json:
        more = {"vtcm": _vtcm_json(placed, by_task), "meshes": _meshes_json(meshes, by_task)}
        print_json(_stream_json(graph, made, by_task, ran) | more)
        return
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


def _meshes_json(meshes: Mapping[str, MeshPlan], by_task: ByTask) -> list[dict[str, Any]]:
    return [
        {
            "unit": name,
            "interval_us": mesh.interval_us,
            "latency_us": mesh.latency_us,
            "bound_us": mesh.bound_us,
            "coordinators": [
                [
                    {
                        "layer": by_task[share.layer][0].node.name,
                        "first_element": share.first_element,
                        "elements": share.elements,
                        "first_part": share.first_part,
                        "parts_of_each": share.parts,
                    }
                    for share in own
                ]
                for own in mesh.coordinators
            ],
        }
        for name, mesh in meshes.items()
    ]


def _vtcm_json(placed: Sequence[Placement], by_task: ByTask) -> list[dict[str, Any]]:
    def layer(task: str) -> str:
        return by_task[task][0].node.name

    return [
        {
            "unit": one.unit,
            "first_layer": layer(one.steps[0]),
            "capacity_bytes": one.capacity_bytes,
            "peak_bytes": one.peak_bytes,
            "saved_us": one.saved_us,
            "bound_us": one.bound_us,
            "tensors": [
                {
                    "made_by": layer(own.task),
                    "offset_bytes": offset,
                    "size_bytes": own.size_bytes,
                    "from_layer": layer(one.steps[own.first]),
                    "to_layer": layer(one.steps[own.last]),
                }
                for own, offset in one.tensors
            ],
        }
        for one in placed
    ]


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


def _stream_json(
    graph: Graph, made: StreamPlan, by_task: ByTask, ran: Simulation
) -> dict[str, Any]:
    return {
        "name": graph.name,
        "digest": graph.digest,
        "interval_us": made.interval_us,
        "bound_us": made.bound_us,
        "latency_us": ran.latency_us,
        "busy_us": dict(made.busy_us),
        "stages": [
            {
                "stage": stage + 1,
                "runs_on": resource,
                "time_us": time_us,
                "layers": [
                    form
                    for one in own
                    if one.key.kind == "task"
                    for form in _layers_json(by_task, one.key.task, one.key.unit)
                ],
            }
            for stage, resource, own, time_us, _ in _stages(made)
        ],
        "simulation": {
            "inputs": ran.inputs,
            "interval_us": ran.interval_us,
            "of_bound": _of_bound(made, ran),
            "gantt": [
                {
                    "runs_on": one.operation.resource,
                    "kind": one.operation.key.kind,
                    "layer": by_task[one.operation.key.task][0].node.name
                    if one.operation.key.task
                    else None,
                    "input": one.stream_input,
                    "start_us": one.start_us,
                    "end_us": one.end_us,
                }
                for one in ran.ran
                if one.stream_input < made.stages + _SHOWN_PERIODS
            ],
        },
    }
