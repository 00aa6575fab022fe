"""Tasks: the nodes of a network as planners take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tuner.errors import UserError
from tuner.network.graph import Graph
from tuner.network.layers import Layer
from tuner.network.planning.topology import Topology

MOST_US = 1e9
"""Of all times together (microseconds): as whole nanoseconds, weighted by calls, they stay within
the 64 bits of the solver."""


@dataclass(frozen=True)
class Task:
    """A node, or several that stay together: its time on each unit that can run it, the tasks whose
    outputs it reads, the bytes of its own output, and whether that is a result of the network."""

    name: str
    time_us: Mapping[str, float]
    needs: tuple[str, ...] = ()
    output_bytes: int = 0
    result: bool = False


def tasks_of(
    graph: Graph, found: Sequence[Layer], time_us: Callable[[Layer], Mapping[str, float]]
) -> list[Task]:
    """The layers of ``graph``, which are ``found``, as tasks: two that are one call are one.
    ``time_us`` gives the time of each on the units that can run it."""
    names = {
        output: f"{n} {layer.node.name}"
        for n, layer in enumerate(found)
        for output in layer.node.outputs
    }
    return [
        Task(
            names[layer.node.outputs[0]],
            time_us(layer),
            tuple(
                dict.fromkeys(names[name] for name in layer.fit.inputs(layer.node) if name in names)
            ),
            layer.output_bytes,
            not set(layer.node.outputs).isdisjoint(graph.outputs),
        )
        for layer in (found[place] for place in places_of(found))
    ]


def places_of(found: Sequence[Layer]) -> list[int]:
    """The positions of the layers that are tasks: those not done in the call of another."""
    return [place for place, layer in enumerate(found) if not layer.fit.within]


def in_order(tasks: Sequence[Task], topology: Topology) -> list[Task]:
    """``tasks``, each after those it needs.

    Raises ``UserError`` for tasks that no unit of ``topology`` runs, needs that do not exist,
    cycles, and times that are none or too long.
    """
    units = [unit.name for unit in topology.units]
    by_name = {task.name: task for task in tasks}
    if len(by_name) < len(tasks):
        raise UserError("two tasks have one name", accepted="distinct names")
    for task in tasks:
        if not task.time_us or task.time_us.keys() - set(units):
            found = ", ".join(task.time_us) or "no unit"
            raise UserError(f"task '{task.name}' runs on {found}", accepted=", ".join(units))
        for need in task.needs:
            if need not in by_name:
                raise UserError(f"task '{task.name}' needs '{need}', which does not exist")
    _require_times(tasks, topology)
    left = {task.name: set(task.needs) for task in tasks}
    ordered: list[Task] = []
    while left:
        ready = [name for name, needs in left.items() if not needs]
        if not ready:
            raise UserError(f"task '{min(left)}' is part of a cycle, or needs one")
        ordered += [by_name[name] for name in ready]
        for name in ready:
            del left[name]
        for needs in left.values():
            needs.difference_update(ready)
    return ordered


def _require_times(tasks: Sequence[Task], topology: Topology) -> None:
    total_us = 0.0
    for task in tasks:
        for unit, time_us in task.time_us.items():
            if not 0 <= time_us < inf:
                raise UserError(
                    f"task '{task.name}' takes {time_us} us on {unit}", accepted="0 or more"
                )
        links = sum(
            link.latency_us + task.output_bytes / link.bytes_per_us
            for link in topology.links.values()
        )
        calls = max(unit.call_us for unit in topology.units)
        total_us += max(task.time_us.values()) + calls + 2 * links
    if total_us > MOST_US:
        raise UserError(
            f"tasks, calls and transfers take up to {total_us:.3g} us in all",
            accepted=f"at most {MOST_US:.0e} us",
            next_step="check the speeds in the topology",
        )
