"""The best assignment of tasks to two units if beginning a call costs nothing: a minimum cut
between the units (Stone, "Multiprocessor scheduling with the aid of network flow algorithms",
1977).

It is found for thousands of tasks at once. No sequential plan takes less time, and its groups are
often a good plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tuner.network.planning.solver import NS
from tuner.network.planning.tasks import Task
from tuner.network.planning.topology import Topology, Unit


def best_cut(tasks: Sequence[Task], topology: Topology) -> tuple[dict[str, str], int]:
    """The unit of each task, and the nanoseconds of tasks, transfers, and calls of single tasks.

    The units are none if ``topology`` does not have two, or lacks the links that tasks need; the
    nanoseconds are then those of each task where it is fastest.
    """
    fastest_ns = sum(min(round(us * NS) for us in task.time_us.values()) for task in tasks)
    if len(topology.units) != 2:
        return {}, fastest_ns
    from ortools.graph.python import max_flow

    here, there = topology.units
    costs = {task.name: (_cost_ns(task, here), _cost_ns(task, there)) for task in tasks}
    moves = {task.name: _move_ns(task, topology) for task in tasks}
    never = 1 + sum(c or 0 for pair in costs.values() for c in pair)
    never += 2 * sum(move or 0 for move in moves.values())
    nodes: dict[object, int] = defaultdict(lambda: len(nodes))
    flow = max_flow.SimpleMaxFlow()

    def arc(tail: object, head: object, capacity: int | None) -> None:
        flow.add_arc_with_capacity(
            nodes[tail], nodes[head], never if capacity is None else capacity
        )

    readers: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        own_here, own_there = costs[task.name]
        arc("here", ("task", task.name), own_there)  # cut, and paid, if the task is there
        arc(("task", task.name), "there", own_here)
        for need in task.needs:
            readers[need].append(task.name)
    for name, read_by in readers.items():
        arc(("task", name), ("to there", name), moves[name])
        arc(("to here", name), ("task", name), moves[name])
        for reader in read_by:
            arc(("to there", name), ("task", reader), None)
            arc(("task", reader), ("to here", name), None)
    flow.solve(nodes["here"], nodes["there"])
    if flow.optimal_flow() >= never:
        return {}, fastest_ns
    side = set(flow.get_source_side_min_cut())
    units = {
        task.name: here.name if nodes["task", task.name] in side else there.name for task in tasks
    }
    return units, flow.optimal_flow()


def _cost_ns(task: Task, unit: Unit) -> int | None:
    """Nanoseconds of ``task`` on ``unit``; ``None`` if it cannot run there."""
    if unit.name not in task.time_us:
        return None
    return round(task.time_us[unit.name] * NS) + (0 if unit.queued else round(unit.call_us * NS))


def _move_ns(task: Task, topology: Topology) -> int | None:
    here, there = topology.units
    took = topology.transfer_us(task.output_bytes, here.name, there.name)
    return None if took is None else round(took * NS)
