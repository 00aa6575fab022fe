"""Which tensors lie in VTCM during a call, and where.

VTCM is a unit's for the time of a call. A tensor is in it from the step (the task) that makes or
first reads it to the last that reads it. Placing some for the most time saved is dynamic storage
allocation with a choice: rectangles of steps by addresses that do not overlap, by OR-Tools' CP-SAT
solver; a greedy placement is its first, and stays where its time ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tuner.network.planning import solver
from tuner.network.planning.sequence import Group
from tuner.network.planning.simulation import Operation
from tuner.network.planning.solver import NS
from tuner.network.planning.tasks import Task
from tuner.network.planning.topology import Topology, Unit
from tuner.problem.target import find_target


@dataclass(frozen=True)
class Lifetime:
    """A tensor that a call could keep in VTCM: the output of ``task``, from the step ``first``
    through the step ``last``, and the nanoseconds that would save."""

    task: str
    size_bytes: int
    first: int
    last: int
    saved_ns: int


@dataclass(frozen=True)
class Placement:
    """Tensors in the VTCM of ``unit`` during one call or round of ``steps``, each with its offset
    in bytes. None could save more than ``bound_us`` (microseconds)."""

    unit: str
    steps: tuple[str, ...]
    tensors: tuple[tuple[Lifetime, int], ...]
    capacity_bytes: int
    bound_us: float

    @property
    def saved_us(self) -> float:
        """Microseconds that moving fewer bytes outside VTCM saves, at the declared speeds."""
        return sum(lifetime.saved_ns for lifetime, _ in self.tensors) / NS

    @property
    def peak_bytes(self) -> int:
        """The end of the highest tensor."""
        return max((offset + own.size_bytes for own, offset in self.tensors), default=0)


def of_sequence(
    groups: Sequence[Group], tasks: Sequence[Task], topology: Topology, seconds: float
) -> list[Placement]:
    """The placement of each group on a unit with VTCM."""
    calls = [(group.unit, [(name, 0) for name in group.tasks]) for group in groups]
    return _of_calls(calls, tasks, topology, seconds)


def of_stream(
    operations: Sequence[Operation], tasks: Sequence[Task], topology: Topology, seconds: float
) -> list[Placement]:
    """The placement of each unit's round. What a later round reads is not kept."""
    rounds: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for one in operations:
        if one.key.kind == "task":
            rounds[one.key.unit].append((one.key.task, one.stage))
    return _of_calls(list(rounds.items()), tasks, topology, seconds)


def _of_calls(
    calls: Sequence[tuple[str, Sequence[tuple[str, int]]]],
    tasks: Sequence[Task],
    topology: Topology,
    seconds: float,
) -> list[Placement]:
    with_vtcm = [
        (topology.unit(name), steps)
        for name, steps in calls
        if "vtcm" in topology.unit(name).scopes and topology.unit(name).queued
    ]
    return [
        place(
            unit, [name for name, _ in steps], lifetimes(unit, steps, tasks), seconds / len(calls)
        )
        for unit, steps in with_vtcm
    ]


def lifetimes(
    unit: Unit, steps: Sequence[tuple[str, int]], tasks: Sequence[Task]
) -> list[Lifetime]:
    """The tensors worth a place in VTCM in a call of ``unit`` that runs ``steps``: tasks, each with
    the stage that tells which input of a stream it works on."""
    by_name = {task.name: task for task in tasks}
    made = {step: place for place, step in enumerate(steps)}
    reads: dict[tuple[str, int], list[int]] = defaultdict(list)
    for (name, stage), place in made.items():
        for need in by_name[name].needs:
            reads[need, stage].append(place)
    readers = {task.name: 0 for task in tasks}
    for task in tasks:
        for need in task.needs:
            readers[need] += 1
    found = []
    for (name, stage), places in reads.items():
        begin = made.get((name, stage))
        kept = begin is not None and len(places) == readers[name] and not by_name[name].result
        saved_ns = _saved_ns(unit, by_name[name].output_bytes, len(places), begin is not None, kept)
        if saved_ns > 0:
            first = min(places) if begin is None else begin
            found.append(Lifetime(name, by_name[name].output_bytes, first, max(places), saved_ns))
    return found


def _saved_ns(unit: Unit, size_bytes: int, reads: int, made: bool, kept: bool) -> int:
    """Outside VTCM, a tensor is read ``reads`` times, and written if the call has ``made`` it. In
    VTCM, all that happens there; one read or write outside fills it or, unless ``kept``, saves it
    for others."""
    l2 = unit.scopes.get("l2")
    outside = l2 if l2 is not None and size_bytes <= l2.capacity_bytes else unit.scopes["ddr"]
    before = (reads + made) * size_bytes / outside.bytes_per_us
    after = (reads + 1) * size_bytes / unit.scopes["vtcm"].bytes_per_us
    if not kept:
        after += size_bytes / outside.bytes_per_us
    return round((before - after) * NS)


def place(
    unit: Unit, steps: Sequence[str], wanted: Sequence[Lifetime], seconds: float
) -> Placement:
    """The placement that saves the most time, or the best found within ``seconds``."""
    capacity = unit.scopes["vtcm"].capacity_bytes
    grain = find_target(unit.target).vector_alignment_bytes if unit.target else 1
    slots = {own: -(-own.size_bytes // grain) for own in wanted}  # sizes in aligned addresses
    fits = [own for own in wanted if slots[own] <= capacity // grain]
    placed = _greedy(fits, slots, capacity // grain)
    bound_ns = _most_saved_ns(fits, slots, capacity // grain)
    if len(placed) < len(fits):
        solver.require_ortools()
        placed, bound_ns = _solved(fits, slots, capacity // grain, placed, bound_ns, seconds)
    tensors = tuple((own, placed[own] * grain) for own in fits if own in placed)
    return Placement(unit.name, tuple(steps), tensors, capacity, bound_ns / NS)


def _greedy(
    wanted: Sequence[Lifetime], slots: Mapping[Lifetime, int], capacity: int
) -> dict[Lifetime, int]:
    """Those that save most for their addresses and steps first, each at the lowest free one."""
    placed: dict[Lifetime, int] = {}
    for own in sorted(wanted, key=lambda own: -Fraction(own.saved_ns, _area(own, slots))):
        at = 0
        for other, offset in sorted(placed.items(), key=lambda one: one[1]):
            if other.first <= own.last and own.first <= other.last and offset < at + slots[own]:
                at = max(at, offset + slots[other])
        if at + slots[own] <= capacity:
            placed[own] = at
    return placed


def _area(own: Lifetime, slots: Mapping[Lifetime, int]) -> int:
    return max(1, slots[own] * (own.last - own.first + 1))


def _most_saved_ns(wanted: Sequence[Lifetime], slots: Mapping[Lifetime, int], capacity: int) -> int:
    """A bound without a solver: as if tensors could be cut along addresses and steps."""
    steps = {step for own in wanted for step in range(own.first, own.last + 1)}
    left, most = Fraction(capacity * len(steps)), Fraction(0)
    for own in sorted(wanted, key=lambda own: -Fraction(own.saved_ns, _area(own, slots))):
        part = min(Fraction(1), left / _area(own, slots))
        most += part * own.saved_ns
        left -= part * _area(own, slots)
    return int(most)


def _solved(
    wanted: Sequence[Lifetime],
    slots: Mapping[Lifetime, int],
    capacity: int,
    start: Mapping[Lifetime, int],
    bound_ns: int,
    seconds: float,
) -> tuple[dict[Lifetime, int], int]:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    inside, offsets, times, addresses = [], [], [], []
    for n, own in enumerate(wanted):
        present = model.new_bool_var(f"{n} is inside")
        offset = model.new_int_var(0, capacity - slots[own], f"offset {n}")
        steps = own.last - own.first + 1
        times.append(model.new_optional_fixed_size_interval_var(own.first, steps, present, f"t{n}"))
        addresses.append(
            model.new_optional_fixed_size_interval_var(offset, slots[own], present, f"a{n}")
        )
        model.add_hint(present, own in start)
        model.add_hint(offset, start.get(own, 0))
        inside.append(present)
        offsets.append(offset)
    model.add_no_overlap_2d(times, addresses)
    model.add_cumulative(times, [slots[own] for own in wanted], capacity)
    saved: Any = sum(own.saved_ns * one for own, one in zip(wanted, inside, strict=True))
    model.maximize(saved)
    found = solver.solved(model, seconds)
    if found is None:
        return dict(start), bound_ns
    placed = {
        own: found.value(offset)
        for own, present, offset in zip(wanted, inside, offsets, strict=True)
        if found.value(present)
    }
    return placed, min(bound_ns, int(found.best_objective_bound))
