"""Plans for a stream: the shortest interval of all assignments, and reached when simulated."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.network.planning import stream
from tuner.network.planning.simulation import Simulation, simulate
from tuner.network.planning.stream import StreamPlan, plan_stream
from tuner.network.planning.tasks import Task
from tuner.network.planning.topology import Link, Topology, Unit

CPU, DSP, NPU = "arm_cpu", "hexagon_cdsp", "second_dsp"
BY_CPU, BETWEEN = frozenset((CPU, DSP)), frozenset((DSP, NPU))
PHONE = Topology((Unit(CPU, host=True), Unit(DSP, call_us=35.0)), {BY_CPU: Link(4000.0)})
"""Copies are made by the unit that reads."""
BOARD = Topology(
    (Unit(CPU, host=True), Unit(DSP, call_us=12.0), Unit(NPU, call_us=3.0, queued=False)),
    {BY_CPU: Link(4000.0, 2.0, dma=True), BETWEEN: Link(2500.0, 1.0)},
)
"""One link by DMA, one synchronous, none between the host and the second DSP."""


def random_tasks(seed: int, topology: Topology, most: int) -> list[Task]:
    """Two to ``most`` tasks, each on one unit or several; some outputs move nothing."""
    rng = np.random.default_rng(seed)
    names = [unit.name for unit in topology.units]
    tasks: list[Task] = []
    for n in range(int(rng.integers(2, most + 1))):
        own = [name for name in names if rng.random() < 0.6] or [
            names[int(rng.integers(len(names)))]
        ]
        times = {unit: float(rng.integers(1, 100)) for unit in own}
        before = [task.name for task in tasks if rng.random() < 0.3]
        size = int(rng.integers(0, 200_000)) * int(rng.random() < 0.8)
        tasks.append(Task(f"t{n}", times, tuple(before), size))
    return tasks


def best_by_trial(tasks: list[Task], topology: Topology) -> float | None:
    """The shortest interval over all assignments; ``None`` if links allow none."""
    size = {task.name: task.output_bytes for task in tasks}
    found = []
    for chosen in itertools.product(*(task.time_us for task in tasks)):
        units = {task.name: unit for task, unit in zip(tasks, chosen, strict=True)}
        busy: dict[object, float] = defaultdict(float)
        for task in tasks:
            busy[units[task.name]] += task.time_us[units[task.name]]
        for unit in topology.units:
            own = chosen.count(unit.name)
            busy[unit.name] += unit.call_us * (min(own, 1) if unit.queued else own)
        crossings = {
            (need, units[task.name])
            for task in tasks
            for need in task.needs
            if units[need] != units[task.name]
        }
        links = [topology.links.get(frozenset((units[need], unit))) for need, unit in crossings]
        if None in links:
            continue
        for (need, unit), link in zip(crossings, links, strict=True):
            if size[need]:
                took = link.latency_us + size[need] / link.bytes_per_us
                busy[id(link) if link.dma else unit] += took
        found.append(max(busy.values()))
    return min(found, default=None)


def require_best(seed: int) -> None:
    for topology, most in ((PHONE, 12), (BOARD, 7)):
        tasks = random_tasks(seed, topology, most)
        best = best_by_trial(tasks, topology)
        if best is None:
            with pytest.raises(UserError, match="links"):
                plan_stream(tasks, topology)
            continue
        made = plan_stream(tasks, topology)
        assert made.interval_us == pytest.approx(best, abs=0.02)
        assert made.bound_us == pytest.approx(best, abs=0.05)
        require_reached(made)


def require_reached(made: StreamPlan) -> None:
    """95 % of the bound, with inputs as they can be taken, and one every interval; then none takes
    longer than its stages."""
    inputs = max(50, 10 * made.stages)
    at_most = simulate(made.operations, inputs)
    assert made.interval_us >= 0.95 * at_most.interval_us
    paced = simulate(made.operations, inputs, every_us=made.interval_us)
    assert 0.95 * paced.interval_us <= made.interval_us <= paced.interval_us * 1.0001
    assert paced.latency_us <= made.stages * made.interval_us * 1.0001


@pytest.mark.parametrize("seed", range(4))
def test_the_plan_of_a_random_graph_is_the_best_of_all_and_is_reached(seed: int) -> None:
    require_best(seed)


def require_possible(ran: Simulation) -> None:
    """No resource does two things at a time, and nothing begins before its operands are there."""
    last: dict[str, float] = defaultdict(float)
    ended = {(one.operation.key, one.stream_input): one.end_us for one in ran.ran}
    for one in ran.ran:
        assert one.start_us >= last[one.operation.resource]
        last[one.operation.resource] = one.end_us
        assert one.end_us - one.start_us == pytest.approx(one.operation.time_us)
        for need in one.operation.needs:
            assert one.start_us >= ended[need, one.stream_input]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_any_assignment_is_simulated_at_its_busiest_resource(seed: int, random) -> None:
    """With every operand read after it was made, however often the units alternate."""
    linked = Topology(
        BOARD.units, {**BOARD.links, frozenset((CPU, NPU)): Link(3000.0, 0.5, dma=True)}
    )
    tasks = random_tasks(seed, linked, 10)
    units = {task.name: random.choice(sorted(task.time_us)) for task in tasks}
    made = StreamPlan(units, stream.operations_of(tasks, units, linked), 0.0)
    require_reached(made)
    require_possible(simulate(made.operations, 10))
