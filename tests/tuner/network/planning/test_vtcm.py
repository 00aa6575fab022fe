"""Tensors in VTCM: as many moves saved as by trying all placements, and never over capacity."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.network.planning.test_stream import random_tasks
from tuner.network.planning import vtcm
from tuner.network.planning.sequence import grouped
from tuner.network.planning.stream import operations_of
from tuner.network.planning.topology import Link, Scope, Topology, Unit
from tuner.network.planning.vtcm import Lifetime, Placement, place
from tuner.problem.target import find_target

CPU, DSP = "arm_cpu", "hexagon_cdsp"
GRAIN = find_target("hexagon-v66").vector_alignment_bytes


def dsp(capacity_bytes: int, **more: Scope) -> Unit:
    scopes = {"ddr": Scope(10_000.0), "vtcm": Scope(40_000.0, capacity_bytes), **more}
    return Unit(DSP, call_us=35.0, target="hexagon-v66", scopes=scopes)


def phone(unit: Unit) -> Topology:
    return Topology((Unit(CPU, host=True), unit), {frozenset((CPU, DSP)): Link(4000.0)})


def require_possible(made: Placement) -> None:
    """At each step the tensors alive lie within the capacity, aligned, and apart."""
    for step in range(len(made.steps)):
        alive = sorted(
            (offset, own.size_bytes)
            for own, offset in made.tensors
            if own.first <= step <= own.last
        )
        end = 0
        for offset, size_bytes in alive:
            assert offset >= end
            assert offset % GRAIN == 0
            end = offset + size_bytes
        assert end <= made.peak_bytes <= made.capacity_bytes
    assert made.saved_us <= made.bound_us + 1e-9


def random_lifetimes(seed: int, most: int, steps: int, largest: int) -> list[Lifetime]:
    rng = np.random.default_rng(seed)
    found = []
    for n in range(int(rng.integers(1, most + 1))):
        first = int(rng.integers(steps))
        last = int(rng.integers(first, steps))
        size = int(rng.integers(1, largest + 1))
        found.append(Lifetime(f"t{n}", size, first, last, int(rng.integers(1, 1000))))
    return found


def best_by_trial(wanted: list[Lifetime], slots: int) -> int:
    """The most that any choice of tensors and offsets saves; ``slots`` aligned addresses."""

    def fit(rest: list[Lifetime], placed: list[tuple[Lifetime, int]]) -> bool:
        if not rest:
            return True
        own = rest[0]
        size = -(-own.size_bytes // GRAIN)
        for at in range(slots - size + 1):
            apart = all(
                other.last < own.first
                or own.last < other.first
                or at + size <= offset
                or offset - (-other.size_bytes // GRAIN) <= at
                for other, offset in placed
            )
            if apart and fit(rest[1:], [*placed, (own, at)]):
                return True
        return False

    choices = [
        (sum(own.saved_ns for own in chosen), list(chosen))
        for count in range(len(wanted) + 1)
        for chosen in itertools.combinations(wanted, count)
    ]
    return next(
        saved for saved, chosen in sorted(choices, key=lambda one: -one[0]) if fit(chosen, [])
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_placement_saves_as_much_as_the_best_of_all(seed: int) -> None:
    wanted = random_lifetimes(seed, most=6, steps=5, largest=4 * GRAIN)
    made = place(dsp(5 * GRAIN), [f"t{n}" for n in range(5)], wanted, 60.0)
    require_possible(made)
    best = best_by_trial(wanted, 5)
    assert made.saved_us * 1000 == pytest.approx(best)
    assert made.bound_us * 1000 == pytest.approx(best)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 40), st.booleans())
def test_vtcm_is_never_over_capacity(seed: int, capacity_slots: int, sequential: bool) -> None:
    """At any step of any plan, and nothing overlaps."""
    unit = dsp(max(1, capacity_slots * 10 * GRAIN))
    topology = phone(unit)
    tasks = random_tasks(seed, topology, 14)
    rng = np.random.default_rng(seed)
    units = {task.name: str(rng.choice(sorted(task.time_us))) for task in tasks}
    if sequential:
        placed = vtcm.of_sequence(grouped(tasks, units), tasks, topology, 20.0)
    else:
        placed = vtcm.of_stream(operations_of(tasks, units, topology), tasks, topology, 20.0)
    assert {one.unit for one in placed} <= {DSP}
    for made in placed:
        require_possible(made)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_without_the_solver_what_is_placed_fits_within_its_bound(seed: int) -> None:
    wanted = random_lifetimes(seed, most=20, steps=10, largest=6 * GRAIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vtcm.solver, "solved", lambda model, seconds: None)
        found = place(dsp(8 * GRAIN), [f"t{n}" for n in range(10)], wanted, 1.0)
    require_possible(found)
    assert found.saved_us > 0 or all(own.size_bytes > 8 * GRAIN for own in wanted)
