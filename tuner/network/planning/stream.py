"""Plans for a stream of inputs: units work at the same time, each on an input of its own.

Each unit runs its tasks in rounds, once per input, in one call for all of them where calls are
queued. A task whose operands another unit makes works on an input that is older by a round; by two
where DMA copies them, in the round between. So units wait for nothing within a round, and the time
between inputs, the interval, is that of the busiest unit or DMA (modulo scheduling: Rau, "Iterative
modulo scheduling", 1996, where this bound is called the resource-constrained interval).

Only the unit of each task is left to choose, by OR-Tools' CP-SAT solver: first for the shortest
interval; then, of plans near it, for the fewest rounds from an input to its results, as each adds
an interval to the latency; last for the least work of all units together.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tuner.errors import UserError
from tuner.network.planning import solver
from tuner.network.planning.simulation import Key, Operation
from tuner.network.planning.solver import NS
from tuner.network.planning.tasks import Task, in_order
from tuner.network.planning.topology import Topology

_FOR_INTERVAL = 0.5
"""Of the solver's time; the rest is for few stages and little work."""


@dataclass(frozen=True)
class StreamPlan:
    """The unit of each task, all operations of a round, and an interval (microseconds) that no plan
    can be below."""

    units: Mapping[str, str]
    operations: tuple[Operation, ...]
    bound_us: float

    @cached_property
    def busy_us(self) -> Mapping[str, float]:
        """The time of each unit and DMA for one input."""
        return busy_us(self.operations)

    @property
    def interval_us(self) -> float:
        """The time from one input to the next."""
        return max(self.busy_us.values(), default=0.0)

    @property
    def gap(self) -> float:
        """The share of the interval that a better plan could still save at most."""
        return 1 - self.bound_us / self.interval_us if self.interval_us else 0.0

    @property
    def stages(self) -> int:
        """Rounds from the begin of an input to its end."""
        return 1 + max((one.stage for one in self.operations), default=-1)


def busy_us(operations: Sequence[Operation]) -> dict[str, float]:
    """The time (microseconds) that each resource takes for one input."""
    busy: dict[str, float] = defaultdict(float)
    for one in operations:
        busy[one.resource] += one.time_us
    return dict(busy)


def plan_stream(
    tasks: Sequence[Task], topology: Topology, *, slack: float = 0.0, seconds: float = 60.0
) -> StreamPlan:
    """The plan of the shortest interval, or the best found within ``seconds``, with a bound. For
    fewer rounds from an input to its results, the interval may be longer by the share ``slack``.

    Raises ``UserError`` for tasks that no unit of ``topology`` runs, needs that do not exist,
    cycles, units without a link, and ``ToolchainError`` without OR-Tools.
    """
    solver.require_ortools()
    ordered = in_order(tasks, topology)
    if not ordered:
        return StreamPlan({}, (), 0.0)
    begun = time.monotonic()
    units = _heuristic(ordered, topology)
    found = _Assignment(ordered, topology, units).shortest(seconds * _FOR_INTERVAL)
    bound_us = _least_us(ordered, topology)
    if found is not None:
        units, bound_us = found
    elif not units:
        raise UserError(
            f"no plan of {len(ordered)} tasks was found in {seconds:g} s",
            next_step="give the solver more time",
        )
    made = StreamPlan(units, operations_of(ordered, units, topology), 0.0)
    most_us = made.interval_us * (1 + slack)
    for last in range(made.stages):
        if (left := seconds - (time.monotonic() - begun)) <= 0:
            break
        try:
            limited = _Assignment(ordered, topology, units).limited(last, most_us, left / 2)
        except UserError:  # it takes more stages
            continue
        if limited is not None:
            made = StreamPlan(limited, operations_of(ordered, limited, topology), 0.0)
        break
    return replace(made, bound_us=min(made.interval_us, bound_us))


def operations_of(
    tasks: Sequence[Task], units: Mapping[str, str], topology: Topology
) -> tuple[Operation, ...]:
    """The operations of a round, with their stages, for ``tasks`` in an order that respects
    dependencies. Raises ``UserError`` for a tensor that needs a link that does not exist."""
    by_name = {task.name: task for task in tasks}
    made: dict[Key, Operation] = {}
    for task in tasks:
        unit = topology.unit(units[task.name])
        needs: list[Key] = []
        for need in task.needs:
            if units[need] != unit.name:
                needs.append(_moved(made, by_name[need], units[need], unit.name, topology))
            else:
                needs.append(Key("task", need, unit.name))
        stage = max((_earliest(made[need], unit.name) for need in needs), default=0)
        if unit.call_us:
            call = Key("call", "" if unit.queued else task.name, unit.name)
            made.setdefault(call, Operation(call, unit.name, unit.call_us, stage))
        key = Key("task", task.name, unit.name)
        made[key] = Operation(key, unit.name, task.time_us[unit.name], stage, tuple(needs))
    return tuple(made.values())


def _earliest(need: Operation, resource: str) -> int:
    """The stage from which on ``resource`` can read what ``need`` makes."""
    return need.stage if need.resource == resource else need.stage + 1


def _moved(
    made: dict[Key, Operation], need: Task, source: str, target: str, topology: Topology
) -> Key:
    """The operation that brings the output of ``need`` to ``target``, made if it is the first."""
    own = Key("task", need.name, source)
    took = topology.transfer_us(need.output_bytes, source, target)
    if took is None:
        raise UserError(f"no link from {source} to {target}")
    if not took:
        return own
    ends = frozenset((source, target))
    resource = dma_name(ends) if topology.links[ends].dma else target
    key = Key("copy", need.name, target)
    made.setdefault(key, Operation(key, resource, took, made[own].stage + 1, (own,)))
    return key


def dma_name(ends: frozenset[str]) -> str:
    """The DMA of a link, as a resource."""
    return "DMA " + " - ".join(sorted(ends))


def _heuristic(tasks: Sequence[Task], topology: Topology) -> dict[str, str]:
    """The best of simple assignments: tasks on their fastest units, on one as far as it can run
    them, the next one always where the busiest unit stays least busy, and cut in two."""
    fastest = {task.name: min(task.time_us, key=task.time_us.__getitem__) for task in tasks}
    names = [unit.name for unit in topology.units]

    def on(first: str, second: str, cut: int) -> dict[str, str]:
        wanted = [first] * cut + [second] * (len(tasks) - cut)
        return {
            task.name: unit if unit in task.time_us else fastest[task.name]
            for task, unit in zip(tasks, wanted, strict=True)
        }

    busy = dict.fromkeys(names, 0.0)
    even = {}
    for task in sorted(tasks, key=lambda task: -min(task.time_us.values())):
        unit = min(task.time_us, key=lambda name: busy[name] + task.time_us[name])
        busy[unit] += task.time_us[unit]
        even[task.name] = unit
    step = max(1, len(tasks) // 50)
    choices = [fastest, even] + [
        on(first, second, cut)
        for first in names
        for second in names
        if first != second
        for cut in range(0, len(tasks), step)
    ]
    found = []
    for units in choices:
        try:
            busiest = busy_us(operations_of(tasks, units, topology))
        except UserError:  # no link: the solver may know another way
            continue
        found.append((max(busiest.values()), units))
    return min(found, key=lambda one: one[0])[1] if found else {}


def _least_us(tasks: Sequence[Task], topology: Topology) -> float:
    """A bound without a solver: all work spread evenly, and the longest task."""
    least = [min(task.time_us.values()) for task in tasks]
    return max(sum(least) / len(topology.units), *least)


class _Assignment:
    """The program of one planning."""

    def __init__(self, tasks: Sequence[Task], topology: Topology, start: Mapping[str, str]) -> None:
        from ortools.sat.python import cp_model

        self._tasks, self._topology = tasks, topology
        self._by_name = {task.name: task for task in tasks}
        self._model = cp_model.CpModel()
        self._on = {
            (task.name, unit): self._model.new_bool_var(f"{task.name} on {unit}")
            for task in tasks
            for unit in task.time_us
        }
        for task in tasks:
            self._model.add_exactly_one(self._on[task.name, unit] for unit in task.time_us)
        busy = self._busy()
        self._work = sum(ns * does for parts in busy.values() for ns, does in parts)
        most = sum(ns for parts in busy.values() for ns, _ in parts)
        self._interval = self._model.new_int_var(0, most, "interval")
        for parts in busy.values():
            self._model.add(sum(ns * does for ns, does in parts) <= self._interval)
        for (name, unit), chosen in self._on.items():
            if start:
                self._model.add_hint(chosen, start[name] == unit)

    def _busy(self) -> dict[str, list[tuple[int, Any]]]:
        """The parts of each resource's time: nanoseconds, and whether a plan has them."""
        busy: dict[str, list[tuple[int, Any]]] = defaultdict(list)
        for task in self._tasks:
            for name, time_us in task.time_us.items():
                busy[name].append((round(time_us * NS), self._on[task.name, name]))
        for unit in self._topology.units:
            own = [does for (_, name), does in self._on.items() if name == unit.name]
            if unit.queued and unit.call_us:
                used = self._model.new_bool_var(f"{unit.name} is called")
                for chosen in own:
                    self._model.add_implication(chosen, used)
                own = [used]
            busy[unit.name] += [(round(unit.call_us * NS), does) for does in own if unit.call_us]
        moves = solver.moves(
            self._model, self._tasks, self._topology, lambda task, unit: self._on[task.name, unit]
        )
        for source, target, ns, moved in moves:
            ends = frozenset((source, target))
            dma = self._topology.links[ends].dma
            busy[dma_name(ends) if dma else target].append((ns, moved))
        return busy

    def shortest(self, seconds: float) -> tuple[dict[str, str], float] | None:
        """Units of the shortest interval found, and the bound of it in microseconds."""
        self._model.minimize(self._interval)
        found = solver.solved(self._model, seconds)
        return None if found is None else (self._chosen(found), found.best_objective_bound / NS)

    def limited(self, last_stage: int, interval_us: float, seconds: float) -> dict[str, str] | None:
        """Units of the shortest interval found, of at most ``interval_us``, in stages up to
        ``last_stage``; then of the least work with it. Both take at most ``seconds``. Raises
        ``UserError`` if no units do."""
        rounding = len(self._tasks)  # a nanosecond for each time that was made whole
        self._model.add(self._interval <= round(interval_us * NS) + rounding)
        self._limit_stages(last_stage)
        self._model.minimize(self._interval)
        found = solver.solved(self._model, seconds)
        if found is None:
            return None
        units = self._chosen(found)
        self._model.add(self._interval <= found.value(self._interval))
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for (name, unit), chosen in self._on.items():
            self._model.add_hint(chosen, units[name] == unit)
        self._model.minimize(self._work)
        least = solver.solved(self._model, seconds)
        return units if least is None else self._chosen(least)

    def _limit_stages(self, last: int) -> None:
        """Let no task be in a stage, as :func:`operations_of` has it, after ``last``."""
        stages = {task.name: self._model.new_int_var(0, last, task.name) for task in self._tasks}
        for task in self._tasks:
            for need in task.needs:
                self._model.add(stages[need] <= stages[task.name])
                for source, target, apart in self._crossings(need, task):
                    later = self._model.add(stages[need] + apart <= stages[task.name])
                    later.only_enforce_if(self._on[need, source], self._on[task.name, target])

    def _crossings(self, need: str, reader: Task) -> Iterator[tuple[str, str, int]]:
        """Linked units that ``need`` and its reader can run on, and the rounds between these."""
        maker = self._by_name[need]
        for source in maker.time_us:
            for target in reader.time_us.keys() - {source}:
                link = self._topology.links.get(frozenset((source, target)))
                if link is not None:
                    took = self._topology.transfer_us(maker.output_bytes, source, target)
                    yield source, target, 2 if took and link.dma else 1

    def _chosen(self, found: Any) -> dict[str, str]:
        return {name: unit for (name, unit), chosen in self._on.items() if found.value(chosen)}
