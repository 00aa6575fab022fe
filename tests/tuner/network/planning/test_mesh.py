"""Layers on a mesh: each part once, and the shortest interval of all plans in order."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.network.planning.mesh import (
    MeshLayer,
    MeshPlan,
    plan_mesh,
    require_room,
)
from tuner.network.planning.topology import Unit


def mesh(elements: int, coordinators: int = 1, element_bytes: int = 0) -> Unit:
    return Unit("mesh", elements=elements, coordinators=coordinators, element_bytes=element_bytes)


def chain(seed: int, count: int, most_parts: int) -> list[MeshLayer]:
    rng = np.random.default_rng(seed)
    return [
        MeshLayer(
            f"l{n}",
            int(rng.integers(1, most_parts + 1)),
            float(rng.integers(1, 100)),
            float(rng.integers(0, 20)),
            part_bytes=float(rng.integers(1, 20)),
            weight_bytes=int(rng.integers(0, 200)),
            columns=int(rng.integers(1, 5)),
            needs=(f"l{n - 1}",) * (n > 0),
        )
        for n in range(count)
    ]


def parts_of(made: MeshPlan) -> dict[int, list[tuple[str, int, int]]]:
    """Of each element: layers, first parts and numbers of parts."""
    found: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for share in itertools.chain.from_iterable(made.coordinators):
        for n in range(share.elements):
            first = share.first_part + n * share.parts
            found[share.first_element + n].append((share.layer, first, share.parts))
    return found


def require_possible(made: MeshPlan, layers: list[MeshLayer], unit: Unit) -> None:
    """Every part once; time, memory and the elements of each coordinator as they are."""
    by_name = {layer.name: layer for layer in layers}
    elements = parts_of(made)
    reached = dict.fromkeys(by_name, 0)
    for _, own in sorted(elements.items()):
        for layer, first, count in own:
            assert first == reached[layer]
            reached[layer] += count
    assert reached == {layer.name: layer.parts for layer in layers}
    loads = {
        element: sum(by_name[layer].time_us(count) for layer, _, count in own)
        for element, own in elements.items()
    }
    assert max(loads.values()) == pytest.approx(made.interval_us)
    if unit.element_bytes:
        for own in elements.values():
            held = sum(by_name[layer].held_bytes(count) for layer, _, count in own)
            assert held <= unit.element_bytes + 1e-6
    for n, own in enumerate(made.coordinators):
        for share in own:
            assert share.first_element >= unit.elements * n // unit.coordinators
            last = share.first_element + share.elements
            assert last <= unit.elements * (n + 1) // unit.coordinators
    assert made.bound_us <= made.interval_us * 1.000001


def best_by_trial(layers: list[MeshLayer], elements: int) -> float:
    """The shortest interval of all ways to cut the row of parts into runs."""
    row = [layer for layer in layers for _ in range(layer.parts)]
    best = float("inf")
    for count in range(min(elements, len(row))):
        for cuts in itertools.combinations(range(1, len(row)), count):
            runs = itertools.pairwise((0, *cuts, len(row)))
            busiest = max(
                sum(layer.time_us(n) for layer, n in Counter(row[a:b]).items()) for a, b in runs
            )
            best = min(best, busiest)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_the_interval_is_the_shortest_of_all_plans_in_order(seed: int) -> None:
    layers = chain(seed, 3, 4)
    elements = 2 + seed % 4
    made = plan_mesh(layers, mesh(elements, coordinators=1 + seed % 2))
    assert made.interval_us == pytest.approx(best_by_trial(layers, elements), rel=1e-5)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 8), st.booleans())
def test_every_part_is_done_once_within_time_and_memory(
    seed: int, elements: int, coordinators: int, tight: bool
) -> None:
    layers = chain(seed, 6, 300)
    held = sum(layer.held_bytes(layer.parts) for layer in layers)
    unit = mesh(elements, min(coordinators, elements), int(held / elements * 1.5) * tight)
    try:
        made = plan_mesh(layers, unit)
    except UserError:
        assert tight
        return
    require_possible(made, layers, unit)


def test_what_the_memory_cannot_hold_is_refused() -> None:
    layers = [MeshLayer("l", 100, 1.0, part_bytes=50.0)]
    assert plan_mesh(layers, mesh(4, element_bytes=1250)).interval_us == pytest.approx(25.0)
    with pytest.raises(UserError, match=r"5,000 bytes do not fit on the 4 elements of mesh"):
        plan_mesh(layers, mesh(4, element_bytes=1249))
    require_room(layers, mesh(4, element_bytes=1250))
    with pytest.raises(UserError, match="take 2,500 bytes of each, of 2,499"):
        require_room([*layers, *layers], mesh(4, element_bytes=2499))
