"""A plan for the units that a network ran on, beside what the run took."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import UserError
from tuner.keeping.store import TrialStore
from tuner.network.graph import Graph
from tuner.network.planning.costs import costs, stored_cycles
from tuner.network.planning.sequence import Group, cost_of
from tuner.network.planning.tasks import tasks_of
from tuner.network.planning.topology import Topology, Unit
from tuner.network.running.offload import OffloadedRun
from tuner.network.running.steps import DSP
from tuner.problem.target import Target


@dataclass(frozen=True)
class Compared:
    """Calls, model cycles of kernels and latency, as planned and as run.

    The run's latency has its own cycles, those of repacking included, a call's cost for every
    crossing, and every byte that was copied; layers on the host take the plan's time in both.
    """

    planned_calls: int
    planned_cycles: float
    planned_us: float
    ran_calls: int
    ran_cycles: int
    ran_us: float


def compared(
    graph: Graph, run: OffloadedRun, topology: Topology, target: Target, store: TrialStore
) -> Compared:
    """``run`` of ``graph`` beside the plan for the same groups by the costs of ``topology``.

    Raises ``UserError`` if no unit of it has ``target``, or is not linked to the host.
    """
    host, dsp = topology.units[0], _unit_of(topology, target)
    layers = [one.layer for one in run.layers]
    found = costs(graph, layers, topology, stored_cycles(store))
    by_node = {id(layer.node): own for layer, own in found}
    tasks = tasks_of(
        graph,
        layers,
        lambda layer: {name: one.time_us for name, one in by_node[id(layer.node)].items()},
    )
    units = {True: dsp.name, False: host.name}
    groups = [Group(units[group.unit == DSP], group.tasks) for group in run.groups]
    calls, planned_us = cost_of(groups, tasks, topology)
    times = {task.name: task.time_us for task in tasks}
    spent = {
        unit: sum(
            times[name][unit] for group in groups if group.unit == unit for name in group.tasks
        )
        for unit in units.values()
    }
    counts = run.counts
    link = topology.links.get(frozenset((host.name, dsp.name)))
    if link is None:
        raise UserError(
            f"no link from {host.name} to {dsp.name}", next_step="add it to the topology"
        )
    copies, copied_bytes = counts.copies_in + counts.copies_out, counts.bytes_in + counts.bytes_out
    moved_us = copies * link.latency_us + copied_bytes / link.bytes_per_us
    cycles = run.cycles + run.repack_cycles
    ran_us = spent[host.name] + cycles / dsp.cycles_per_us + counts.crossings * dsp.call_us
    return Compared(
        calls,
        spent[dsp.name] * dsp.cycles_per_us,
        planned_us,
        counts.batches,
        run.cycles,
        ran_us + moved_us,
    )


def _unit_of(topology: Topology, target: Target) -> Unit:
    for unit in topology.units:
        if unit.target == target.name:
            return unit
    raise UserError(
        f"no unit of the topology has the target {target.name}",
        accepted=", ".join(unit.target for unit in topology.units if unit.target),
        next_step="choose another target",
    )
