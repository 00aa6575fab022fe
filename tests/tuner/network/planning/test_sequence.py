"""Sequential plans: as good as the best of all plans, found by trying them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from tuner.errors import UserError
from tuner.network.planning import sequence
from tuner.network.planning.sequence import Group, cost_of, plan
from tuner.network.planning.tasks import Task
from tuner.network.planning.topology import Link, Topology, Unit, read_topology

CPU, DSP = "arm_cpu", "hexagon_cdsp"
LINKED = frozenset((CPU, DSP))
PHONE = Topology((Unit(CPU, host=True), Unit(DSP, call_us=35.0)), {LINKED: Link(4000.0)})
EACH_A_CALL = Topology(
    (Unit(CPU, host=True), Unit(DSP, call_us=3.0, queued=False)), {LINKED: Link(4000.0, 2.5)}
)


def random_tasks(seed: int, most: int = 12) -> list[Task]:
    """Two to ``most`` tasks; a third each run on the host, on the DSP, or on both."""
    rng = np.random.default_rng(seed)
    tasks: list[Task] = []
    for n in range(int(rng.integers(2, most + 1))):
        units = [(CPU,), (DSP,), (CPU, DSP)][int(rng.integers(3))]
        times = {unit: float(rng.integers(1, 100)) for unit in units}
        before = [task.name for task in tasks if rng.random() < 0.3]
        tasks.append(Task(f"t{n}", times, tuple(before), int(rng.integers(0, 200_000))))
    return tasks


def best_by_trial(
    tasks: list[Task], topology: Topology = PHONE, *, calls_first: bool
) -> tuple[float, float]:
    """The least cost over all assignments, and for each over all orders: as sets of tasks that are
    done, and the unit that did the last."""
    dsp, link = topology.unit(DSP), topology.links[LINKED]
    place = {task.name: n for n, task in enumerate(tasks)}
    needs = [sum(1 << place[name] for name in task.needs) for task in tasks]
    every = (1 << len(tasks)) - 1
    found = []
    for units in itertools.product(*(task.time_us for task in tasks)):
        fewest = {(0, ""): 0}
        waiting = [(0, "")]
        for state in waiting:  # grows by one task after the other: costs read are final
            done, last = state
            for n, unit in enumerate(units):
                if done >> n & 1 or needs[n] & ~done:
                    continue
                later = (done | 1 << n, unit)
                calls = fewest[state] + (unit == DSP and not (dsp.queued and last == DSP))
                if later not in fewest:
                    waiting.append(later)
                if calls < fewest.get(later, calls + 1):
                    fewest[later] = calls
        calls = min(count for (done, _), count in fewest.items() if done == every)
        times = sum(task.time_us[unit] for task, unit in zip(tasks, units, strict=True))
        moved = {
            (need, unit)
            for task, unit in zip(tasks, units, strict=True)
            for need in task.needs
            if units[place[need]] != unit
        }
        sizes = [tasks[place[need]].output_bytes for need, _ in moved]
        moves = sum(link.latency_us + size / link.bytes_per_us for size in sizes if size)
        latency = times + moves + dsp.call_us * calls
        found.append((calls if calls_first else 0, latency))
    return min(found)


def test_offloaded_nodes_of_the_four_node_example_form_one_group() -> None:
    tasks = [
        Task("f0", {DSP: 5.0}),
        Task("f1", {CPU: 5.0}, ("f0",)),
        Task("f2", {DSP: 5.0}),
        Task("f3", {CPU: 5.0}, ("f1", "f2")),
    ]
    for objective in ("latency", "calls"):
        made = plan(tasks, PHONE, objective=objective)
        assert made.order == ("f0", "f2", "f1", "f3")
        assert made.groups == (Group(DSP, ("f0", "f2")), Group(CPU, ("f1", "f3")))
        assert made.calls == 1
        assert made.gap < 1e-6


def require_best(seed: int) -> None:
    tasks = random_tasks(seed)
    topology = EACH_A_CALL if seed % 3 == 2 else PHONE
    made = plan(tasks, topology)
    best = best_by_trial(tasks, topology, calls_first=False)[1]
    assert made.latency_us == pytest.approx(best, abs=0.02)
    assert made.bound_us == pytest.approx(made.latency_us, abs=0.05)
    fewest = plan(tasks, topology, objective="calls")
    calls, latency = best_by_trial(tasks, topology, calls_first=True)
    assert (fewest.calls, fewest.latency_us) == (calls, pytest.approx(latency, abs=0.02))


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_of_a_random_graph_is_the_best_of_all(seed: int) -> None:
    require_best(seed)


def test_more_tasks_than_the_solver_takes_have_a_plan_with_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequence, "MOST_EXACT", 5)
    for seed in range(6):
        tasks = random_tasks(seed)
        made = plan(tasks, PHONE)
        assert cost_of(made.groups, tasks, PHONE) == (made.calls, made.latency_us)
        assert made.bound_us <= best_by_trial(tasks, calls_first=False)[1] + 0.02
        assert made.latency_us >= made.bound_us


LINK = """
[[links]]
between = ["arm_cpu", "hexagon_cdsp"]
bytes_per_us = 4000.0
"""
FILE = f"""
[units.hexagon_cdsp]
call_us = 35.0

[units.arm_cpu]
host = true
{LINK}"""


def test_a_topology_file_is_read_with_the_host_first(tmp_path) -> None:
    path = tmp_path / "phone.toml"
    path.write_text(FILE)
    assert read_topology(path) == PHONE
    path.write_text(FILE.replace("35.0", "3.0\nqueued = false") + "latency_us = 2.5\n")
    assert read_topology(path) == EACH_A_CALL


def test_the_page_on_networks_works_as_shown(tmp_path, monkeypatch, capsys) -> None:
    """Its programs run one after the other, and each prints what its comments say."""
    page = (Path(__file__).parents[4] / "docs" / "networks.md").read_text()
    blocks = re.findall(r"^```(toml|python)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("phone.toml").write_text(next(text for kind, text in blocks if kind == "toml"))
    names: dict[str, object] = {}
    programs = [text for kind, text in blocks if kind == "python"]
    assert len(programs) >= 2
    for program in programs:
        exec(program, names)  # noqa: S102 - the page is ours
        shown = re.findall(r"^print\(.*\)  # (.*)", program, re.MULTILINE)
        assert shown
        assert capsys.readouterr().out.splitlines() == shown


SCOPES = """
[units.hexagon_cdsp.scopes]
ddr = { bytes_per_us = 12000 }
l2 = { bytes_per_us = 30000, bytes = 8192 }
vtcm = { bytes_per_us = 60000, bytes = 4096 }
"""


MESH = """
[units.mesh]
elements = 7296
coordinators = 64
element_bytes = 65536
exchange_bytes_per_us = 1000
exchange_latency_us = 0.5
"""


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("host = true", "hots = true", "units.arm_cpu.hots"),
        ("ddr = { bytes_per_us = 12000 }", "", "units.hexagon_cdsp.scopes lacks ddr"),
        ("7296", "63", "units.mesh.coordinators is 64"),
    ],
)
def test_a_wrong_topology_names_the_key(tmp_path, old: str, new: str, named: str) -> None:
    path = tmp_path / "board.toml"
    path.write_text((FILE + SCOPES + MESH).replace(old, new))
    with pytest.raises(UserError) as refused:
        read_topology(path)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)
