"""Plans as they are kept with a network: each with the times of what it does."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Literal

from tuner.network.layers import Layer
from tuner.network.planning.costs import Cost
from tuner.network.planning.sequence import Group, Plan
from tuner.network.planning.simulation import Simulation
from tuner.network.planning.stream import StreamPlan, dma_name
from tuner.network.planning.tasks import Task, places_of
from tuner.network.planning.topology import Topology
from tuner.network.planning.vtcm import Placement
from tuner.records.network_plan import (
    ELSEWHERE,
    MOST_BARS,
    Bar,
    NetworkPlan,
    PlacedTensor,
    PlannedLayer,
    PlannedUnit,
    VtcmOfCall,
)

Costed = Sequence[tuple[Layer, Mapping[str, Cost]]]
"""The layers of a network with their costs, as :func:`tuner.network.planning.costs.costs` has
them."""
_PERIODS = 2
"""Intervals of a stream that are shown."""


def of_sequence(
    made: Plan,
    objective: Literal["latency", "calls"],
    placed: Sequence[Placement],
    tasks: Sequence[Task],
    topology: Topology,
    costed: Costed,
) -> NetworkPlan:
    """The record of a plan in which units take turns."""
    units = {name: group.unit for group in made.groups for name in group.tasks}
    positions = _positions(tasks, costed)
    return NetworkPlan(
        objective,
        _units(topology),
        _layers(units, positions, costed),
        tuple(bars_of(made.groups, tasks, topology, positions)),
        _vtcm(placed, positions),
        made.calls,
        made.latency_us,
        made.bound_us,
        made.latency_us,
        time.time(),
    )


def of_stream(
    made: StreamPlan,
    ran: Simulation,
    placed: Sequence[Placement],
    tasks: Sequence[Task],
    topology: Topology,
    costed: Costed,
) -> NetworkPlan:
    """The record of a plan for a stream that was simulated."""
    positions = _positions(tasks, costed)
    begin_us = made.stages * made.interval_us
    end_us = begin_us + _PERIODS * made.interval_us
    bars = [
        Bar(
            one.operation.resource,
            one.operation.key.kind,
            positions.get(one.operation.key.task),
            one.start_us - begin_us,
            one.end_us - begin_us,
            one.stream_input,
        )
        for one in ran.ran
        if begin_us <= one.start_us < end_us and one.end_us > one.start_us
    ]
    hosts = {unit.name for unit in topology.units if unit.host}
    called = [o for o in made.operations if o.key.kind == "task" and o.key.unit not in hosts]
    queued = {unit.name for unit in topology.units if unit.queued}
    return NetworkPlan(
        "throughput",
        _units(topology),
        _layers(made.units, positions, costed),
        tuple(bars[:MOST_BARS]),
        _vtcm(placed, positions),
        len({o.key.unit if o.key.unit in queued else o.key for o in called}),
        made.interval_us,
        made.bound_us,
        ran.latency_us,
        time.time(),
    )


def bars_of(
    groups: Sequence[Group],
    tasks: Sequence[Task],
    topology: Topology,
    positions: Mapping[str, int],
) -> list[Bar]:
    """Calls, copies and tasks of a sequence, one after the other; together its latency.
    ``positions`` are those of the tasks' layers."""
    by_name = {task.name: task for task in tasks}
    ran_on: dict[str, str] = {}
    moved: set[tuple[str, str]] = set()
    bars: list[Bar] = []
    now = 0.0

    def add(runs_on: str, kind: Literal["task", "copy", "call"], task: str, took_us: float) -> None:
        nonlocal now
        if took_us:
            bars.append(Bar(runs_on, kind, positions.get(task), now, now + took_us))
            now += took_us

    for group in groups:
        unit = topology.unit(group.unit)
        for place, name in enumerate(group.tasks):
            if not place or not unit.queued:
                add(unit.name, "call", "" if unit.queued else name, unit.call_us)
            for need in by_name[name].needs:
                if ran_on[need] != unit.name and (need, unit.name) not in moved:
                    moved.add((need, unit.name))
                    ends = frozenset((ran_on[need], unit.name))
                    size = by_name[need].output_bytes
                    took_us = topology.transfer_us(size, ran_on[need], unit.name) or 0.0
                    copier = dma_name(ends) if topology.links[ends].dma else unit.name
                    add(copier, "copy", need, took_us)
            add(unit.name, "task", name, by_name[name].time_us[unit.name])
            ran_on[name] = unit.name
    return bars


def _positions(tasks: Sequence[Task], costed: Costed) -> dict[str, int]:
    places = places_of([layer for layer, _ in costed])
    return {task.name: place for task, place in zip(tasks, places, strict=True)}


def _units(topology: Topology) -> tuple[PlannedUnit, ...]:
    return tuple(
        PlannedUnit(unit.name, unit.host, unit.target, unit.cycles_per_us, unit.call_us)
        for unit in topology.units
    )


def _layers(
    units: Mapping[str, str], positions: Mapping[str, int], costed: Costed
) -> tuple[PlannedLayer, ...]:
    unit_of = {position: units[name] for name, position in positions.items()}
    called_at = {layer.node.name: unit_of.get(n) for n, (layer, _) in enumerate(costed)}
    made = []
    for position, (layer, own) in enumerate(costed):
        unit = unit_of.get(position) or called_at[layer.fit.within] or ""
        cost = own.get(unit)
        made.append(
            PlannedLayer(unit, cost.time_us, cost.source)
            if cost
            else PlannedLayer(unit, 0.0, ELSEWHERE)
        )
    return tuple(made)


def _vtcm(placed: Sequence[Placement], positions: Mapping[str, int]) -> tuple[VtcmOfCall, ...]:
    return tuple(
        VtcmOfCall(
            call.unit,
            call.capacity_bytes,
            tuple(positions[step] for step in call.steps),
            tuple(
                PlacedTensor(positions[own.task], offset, own.size_bytes, own.first, own.last)
                for own, offset in call.tensors
            ),
        )
        for call in placed
    )
