"""Plans: which unit runs which task of a network, in which order, in how few calls.

Units take turns. A plan is a sequence of groups; each runs on one unit, and one call from the host
begins it where that is not the host. A tensor moves once to each unit that reads it.

As a program for OR-Tools' CP-SAT solver: groups are slots whose units alternate, and a task lies in
one slot, none before those of the tasks it needs. Within a slot, any order that respects
dependencies is as good as another. A heuristic's plan bounds the number of slots, and is the
solver's first.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tuner.errors import InternalError, ToolchainError, UserError
from tuner.network.graph import Graph, Node
from tuner.network.topology import Topology

Objective = Literal["latency", "calls"]
_NS = 1000
"""Nanoseconds in a microsecond: costs are whole numbers of them."""


@dataclass(frozen=True)
class Task:
    """A node, or several that stay together: its time on each unit that can run it, the tasks whose
    outputs it reads, and the bytes of its own output."""

    name: str
    time_us: Mapping[str, float]
    needs: tuple[str, ...] = ()
    output_bytes: int = 0


@dataclass(frozen=True)
class Group:
    """Tasks that one unit runs in this order, in one call."""

    unit: str
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """Groups in order. ``calls`` counts those off the host; ``bound_us`` is what no plan with as
    few calls as the objective asks for can be below, as the solver proved."""

    groups: tuple[Group, ...]
    calls: int
    latency_us: float
    bound_us: float

    @property
    def gap(self) -> float:
        """The share of the latency that a better plan could still save at most."""
        return 1 - self.bound_us / self.latency_us if self.latency_us else 0.0

    @property
    def order(self) -> tuple[str, ...]:
        """All tasks in order."""
        return tuple(task for group in self.groups for task in group.tasks)


def tasks_of(graph: Graph, time_us: Callable[[Node], Mapping[str, float]]) -> list[Task]:
    """Each node of ``graph`` as a task; ``time_us`` gives its time on the units that can run it."""
    names = {
        output: f"{n} {node.name}" for n, node in enumerate(graph.nodes) for output in node.outputs
    }
    return [
        Task(
            names[node.outputs[0]],
            time_us(node),
            tuple(dict.fromkeys(names[name] for name in node.inputs if name in names)),
            sum(graph.tensors[name].payload_bytes for name in node.outputs),
        )
        for node in graph.nodes
    ]


def require_ortools() -> None:
    """Raises ``ToolchainError`` with the command that installs the solver if it is missing."""
    if importlib.util.find_spec("ortools") is None:
        raise ToolchainError(
            "planning needs the Python package 'ortools', which is missing",
            next_step="run `pip install ortools` in the environment of hvxtune, "
            "or install hvxtune[plan]",
        )


def cost_of(
    groups: Sequence[Group], tasks: Sequence[Task], topology: Topology
) -> tuple[int, float]:
    """Calls and latency (microseconds) of a plan.

    Raises ``UserError`` if a task runs before one it needs, more or less than once, on a unit that
    cannot run it, or reads across units without a link.
    """
    by_name = {task.name: task for task in tasks}
    calls_us = {unit.name: unit.call_us for unit in topology.units}
    host = topology.units[0].name
    placed: dict[str, str] = {}
    moved: set[tuple[str, str]] = set()
    latency_us = 0.0
    for group in groups:
        latency_us += calls_us[group.unit]
        for name in group.tasks:
            task = by_name[name]
            if name in placed or group.unit not in task.time_us:
                raise UserError(f"task '{name}' runs twice, or on {group.unit}, which cannot")
            placed[name] = group.unit
            latency_us += task.time_us[group.unit]
            for need in task.needs:
                if need not in placed:
                    raise UserError(f"task '{name}' runs before '{need}', which it needs")
                if (need, group.unit) not in moved:
                    moved.add((need, group.unit))
                    size = by_name[need].output_bytes
                    took = topology.transfer_us(size, placed[need], group.unit)
                    if took is None:
                        raise UserError(f"no link from {placed[need]} to {group.unit}")
                    latency_us += took
    if len(placed) < len(by_name):
        raise UserError(f"task '{min(by_name.keys() - placed.keys())}' does not run")
    return sum(group.unit != host for group in groups), latency_us


def plan(
    tasks: Sequence[Task],
    topology: Topology,
    *,
    objective: Objective = "latency",
    seconds: float = 60.0,
) -> Plan:
    """The plan of least latency, or of least calls and then least latency; of several, one of the
    fewest groups. It is the best found within ``seconds``, with a bound.

    Raises ``UserError`` for tasks that no unit of ``topology`` runs, needs that do not exist,
    cycles, and ``ToolchainError`` without OR-Tools.
    """
    require_ortools()
    ordered = _sorted(tasks, topology)
    if not ordered:
        return Plan((), 0, 0.0, 0.0)
    start = _heuristic(ordered, topology, objective)
    return _Program(ordered, topology, objective, start).solved(seconds)


def _sorted(tasks: Sequence[Task], topology: Topology) -> list[Task]:
    """``tasks``, each after those it needs."""
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


def grouped(tasks: Sequence[Task], units: Mapping[str, str]) -> list[Group]:
    """Groups for tasks whose units are chosen: one unit runs all it can, then the one with most
    tasks ready."""
    left = {task.name: task for task in tasks}
    groups: list[Group] = []
    while left:
        ready = [units[name] for name, task in left.items() if not left.keys() & set(task.needs)]
        last = groups[-1].unit if groups else ""
        # What still needs others of its unit waits with them.
        unit = max(sorted(set(ready) - {last}), key=ready.count)
        done: list[str] = []
        for name, task in list(left.items()):  # in an order that respects dependencies
            if units[name] == unit and not left.keys() & set(task.needs):
                done.append(name)
                del left[name]
        groups.append(Group(unit, tuple(done)))
    return groups


def _heuristic(tasks: Sequence[Task], topology: Topology, objective: Objective) -> list[Group]:
    """The best of a few simple plans: each task where it is fastest, or all on one unit as far as
    that can run them."""
    choices = [{task.name: min(task.time_us, key=task.time_us.__getitem__) for task in tasks}]
    choices += [
        {t.name: unit.name if unit.name in t.time_us else choices[0][t.name] for t in tasks}
        for unit in topology.units
    ]
    found = []
    for units in choices:
        groups = grouped(tasks, units)
        try:
            calls, latency_us = cost_of(groups, tasks, topology)
        except UserError:  # no link: the solver may know another way
            continue
        found.append(((calls if objective == "calls" else 0, latency_us), groups))
    return min(found, key=lambda one: one[0])[1] if found else []


class _Program:
    """The program of one planning."""

    def __init__(
        self,
        tasks: Sequence[Task],
        topology: Topology,
        objective: Objective,
        start: Sequence[Group],
    ) -> None:
        from ortools.sat.python import cp_model

        self._tasks, self._topology, self._objective = tasks, topology, objective
        self._units = [unit.name for unit in topology.units]
        self._model = cp_model.CpModel()
        self._slots = range(self._slots_needed(start))
        self._in = {
            (task.name, slot): self._model.new_bool_var(f"{task.name} in {slot}")
            for task in tasks
            for slot in self._slots
            if self._unit(slot) in task.time_us
        }
        self._used = [self._model.new_bool_var(f"slot {slot}") for slot in self._slots]
        self._place()
        self._calls = sum(
            self._used[slot] for slot in self._slots if not topology.units[slot % self._count].host
        )
        self._latency_ns = self._times() + self._transfers()
        # Of plans as good, the one with the fewest groups: its order is the plainest.
        cost = (len(self._slots) + 1) * self._latency_ns + sum(self._used)
        if objective == "calls":
            cost = self._weight() * self._calls + cost
        self._model.minimize(cost)
        self._hint(start)

    @property
    def _count(self) -> int:
        return len(self._units)

    def _unit(self, slot: int) -> str:
        return self._units[slot % self._count]

    def _slots_needed(self, start: Sequence[Group]) -> int:
        """Enough slots for every plan that is no worse than ``start``."""
        groups = len(self._tasks)
        if start:
            calls, latency_us = cost_of(start, self._tasks, self._topology)
            if self._objective == "latency":
                least = sum(min(task.time_us.values()) for task in self._tasks)
                dear = [unit.call_us for unit in self._topology.units if not unit.host]
                cheapest = min(dear, default=0.0)
                calls = int((latency_us - least) / cheapest + 1e-6) if cheapest else groups
            groups = min(groups, 2 * calls + 1)
        # From one slot to that of another unit it is at most one less than there are units.
        return max(1, self._count - 1) * groups + 1

    def _place(self) -> None:
        numbers: dict[str, Any] = {}
        for task in self._tasks:
            own = {slot: self._in[task.name, slot] for slot in self._slots_of(task)}
            self._model.add_exactly_one(own.values())
            numbers[task.name] = sum(slot * chosen for slot, chosen in own.items())
            for slot, chosen in own.items():
                self._model.add_implication(chosen, self._used[slot])
            for need in task.needs:
                self._model.add(numbers[need] <= numbers[task.name])

    def _slots_of(self, task: Task) -> list[int]:
        return [slot for slot in self._slots if (task.name, slot) in self._in]

    def _on(self, task: Task, unit: str) -> Any:
        """Whether ``task`` runs on ``unit``, as a sum."""
        return sum(
            self._in[task.name, slot] for slot in self._slots_of(task) if self._unit(slot) == unit
        )

    def _times(self) -> Any:
        times = sum(
            round(task.time_us[self._unit(slot)] * _NS) * self._in[task.name, slot]
            for task in self._tasks
            for slot in self._slots_of(task)
        )
        calls = [round(unit.call_us * _NS) for unit in self._topology.units]
        return times + sum(calls[slot % self._count] * self._used[slot] for slot in self._slots)

    def _transfers(self) -> Any:
        by_name = {task.name: task for task in self._tasks}
        moves: dict[tuple[str, str, str], Any] = {}
        total: Any = 0
        for reader in self._tasks:
            for need in reader.needs:
                for source in by_name[need].time_us:
                    for target in reader.time_us.keys() - {source}:
                        both = self._on(by_name[need], source) + self._on(reader, target) - 1
                        size = by_name[need].output_bytes
                        took = self._topology.transfer_us(size, source, target)
                        if took is None:
                            self._model.add(both <= 0)
                        elif cost := round(took * _NS):
                            key = need, source, target
                            if key not in moves:
                                moves[key] = self._model.new_bool_var(f"{need} to {target}")
                                total += cost * moves[key]
                            self._model.add(moves[key] >= both)
        return total

    def _weight(self) -> int:
        """More than any plan can cost in all but calls."""
        slowest = sum(max(task.time_us.values()) for task in self._tasks)
        calls = len(self._slots) * max(unit.call_us for unit in self._topology.units)
        speeds = self._topology.bandwidth.values()
        moved = sum(task.output_bytes for task in self._tasks) * self._count
        moves = moved / min(speeds) if speeds else 0.0
        return (len(self._slots) + 1) * (int((slowest + calls + moves) * _NS) + len(self._tasks))

    def _hint(self, start: Sequence[Group]) -> None:
        slot = 0
        chosen = set()
        for group in start:
            while self._unit(slot) != group.unit:
                slot += 1
            chosen |= {(name, slot) for name in group.tasks}
            slot += 1
        for key, variable in self._in.items():
            if chosen:
                self._model.add_hint(variable, key in chosen)

    def solved(self, seconds: float) -> Plan:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 1  # so that a plan found in time is the same every time
        status = solver.solve(self._model)
        if status == cp_model.INFEASIBLE:
            raise UserError(
                "no plan keeps all tensors on linked units",
                next_step="add the links that are missing to the topology",
            )
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            raise InternalError(f"the solver ended with {solver.status_name(status)}")
        groups: list[Group] = []
        for slot in self._slots:
            names = [
                task.name
                for task in self._tasks
                if (task.name, slot) in self._in and solver.value(self._in[task.name, slot])
            ]
            if names and groups and groups[-1].unit == self._unit(slot):
                groups[-1] = Group(groups[-1].unit, (*groups[-1].tasks, *names))
            elif names:
                groups.append(Group(self._unit(slot), tuple(names)))
        calls, latency_us = cost_of(groups, self._tasks, self._topology)
        bound = solver.best_objective_bound
        if self._objective == "calls":
            bound -= self._weight() * calls
        least_us = max(0.0, bound // (len(self._slots) + 1) / _NS)
        return Plan(tuple(groups), calls, latency_us, min(latency_us, least_us))
