"""Sequential plans: which unit runs which task, in which order, in how few calls.

Units take turns. A plan is a sequence of groups; each runs on one unit, and one call from the host
begins it where that is not the host; one for each task where calls are not queued. A tensor moves
once to each unit that reads it.

As a program for OR-Tools' CP-SAT solver: groups are slots whose units alternate, and a task lies in
one slot, none before those of the tasks it needs. Within a slot, any order that respects
dependencies is as good as another. A heuristic's plan bounds the number of slots, and is the
solver's first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tuner.errors import UserError
from tuner.network.planning import solver
from tuner.network.planning.cut import best_cut
from tuner.network.planning.solver import NS
from tuner.network.planning.tasks import Task, in_order
from tuner.network.planning.topology import Topology

Objective = Literal["latency", "calls"]
MOST_EXACT = 300
"""Tasks that the solver is given; more are left to the heuristic."""


@dataclass(frozen=True)
class Group:
    """Tasks that one unit runs in this order."""

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


def cost_of(
    groups: Sequence[Group], tasks: Sequence[Task], topology: Topology
) -> tuple[int, float]:
    """Calls and latency (microseconds) of a plan.

    Raises ``UserError`` if a task runs before one it needs, more or less than once, on a unit that
    cannot run it, or reads across units without a link.
    """
    by_name = {task.name: task for task in tasks}
    placed: dict[str, str] = {}
    moved: set[tuple[str, str]] = set()
    calls, latency_us = 0, 0.0
    for group in groups:
        unit = topology.unit(group.unit)
        own = 1 if unit.queued else len(group.tasks)
        calls += 0 if unit.host else own
        latency_us += own * unit.call_us
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
    return calls, latency_us


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
    solver.require_ortools()
    ordered = in_order(tasks, topology)
    if not ordered:
        return Plan((), 0, 0.0, 0.0)
    units, least_ns = best_cut(ordered, topology)
    start = _heuristic(ordered, topology, objective, units)
    if len(ordered) > MOST_EXACT and start:
        calls, latency_us = cost_of(start, ordered, topology)
        return Plan(tuple(start), calls, latency_us, min(latency_us, least_ns / NS))
    return _Program(ordered, topology, objective, start, least_ns).solved(seconds)


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


def _heuristic(
    tasks: Sequence[Task], topology: Topology, objective: Objective, cut: Mapping[str, str]
) -> list[Group]:
    """The best of a few simple plans: each task where it is fastest, all on one unit as far as that
    can run them, or as ``cut`` has them."""
    choices = [{task.name: min(task.time_us, key=task.time_us.__getitem__) for task in tasks}]
    choices += [
        {t.name: unit.name if unit.name in t.time_us else choices[0][t.name] for t in tasks}
        for unit in topology.units
    ]
    choices += [dict(cut)] if cut else []
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
        least_ns: int,
    ) -> None:
        from ortools.sat.python import cp_model

        self._tasks, self._topology, self._objective = tasks, topology, objective
        self._start, self._least_ns = start, least_ns
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
            begun for slot, begun in self._begun() if not topology.units[slot % self._count].host
        )
        self._latency_ns = self._times() + self._transfers()
        self._model.add(self._latency_ns >= least_ns)  # it is; the solver is spared the proof
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
            round(task.time_us[self._unit(slot)] * NS) * self._in[task.name, slot]
            for task in self._tasks
            for slot in self._slots_of(task)
        )
        calls = [round(unit.call_us * NS) for unit in self._topology.units]
        return times + sum(calls[slot % self._count] * begun for slot, begun in self._begun())

    def _begun(self) -> list[tuple[int, Any]]:
        """Slots, and what begins a call there: the slot itself, or each task in it."""
        queued = [self._topology.units[slot % self._count].queued for slot in self._slots]
        slots = [(slot, used) for slot, used in enumerate(self._used) if queued[slot]]
        return slots + [(slot, one) for (_, slot), one in self._in.items() if not queued[slot]]

    def _transfers(self) -> Any:
        moves = solver.moves(self._model, self._tasks, self._topology, self._on)
        return sum(cost * moved for _, _, cost, moved in moves)

    def _weight(self) -> int:
        """More than any plan can cost in all but calls."""
        slowest = sum(max(task.time_us.values()) for task in self._tasks)
        most = len(self._slots) + len(self._tasks)
        calls = most * max(unit.call_us for unit in self._topology.units)
        moves = sum(
            (link.latency_us + task.output_bytes / link.bytes_per_us) * 2
            for link in self._topology.links.values()
            for task in self._tasks
        )
        return (len(self._slots) + 1) * (int((slowest + calls + moves) * NS) + len(self._tasks))

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
        found = solver.solved(self._model, seconds)
        if found is None:
            if self._start:
                calls, latency_us = cost_of(self._start, self._tasks, self._topology)
                least_us = min(latency_us, self._least_ns / NS)
                return Plan(tuple(self._start), calls, latency_us, least_us)
            raise UserError(
                f"no plan of {len(self._tasks)} tasks was found in {seconds:g} s",
                next_step="give the solver more time",
            )
        groups: list[Group] = []
        for slot in self._slots:
            names = [
                task.name
                for task in self._tasks
                if (task.name, slot) in self._in and found.value(self._in[task.name, slot])
            ]
            if names and groups and groups[-1].unit == self._unit(slot):
                groups[-1] = Group(groups[-1].unit, (*groups[-1].tasks, *names))
            elif names:
                groups.append(Group(self._unit(slot), tuple(names)))
        calls, latency_us = cost_of(groups, self._tasks, self._topology)
        bound = found.best_objective_bound
        if self._objective == "calls":
            bound -= self._weight() * calls
        least_us = max(0.0, bound // (len(self._slots) + 1) / NS)
        return Plan(tuple(groups), calls, latency_us, min(latency_us, least_us))
