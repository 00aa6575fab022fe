"""The simulated laboratory obeys what is known of queues."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
import simpy

from benchmarks.scaling.costs import Costs
from benchmarks.scaling.model import KINDS, Lab, Result, Station, Visits, drawn, simulate
from benchmarks.scaling.sweep import bottleneck

COSTS = Costs(
    search_cpu_s=0.007,
    call_cpu_s=0.001,
    scheduler_cpu_s=0.002,
    commit_client_cpu_s=0.006,
    row_client_cpu_s=0.003,
    commit_cpu_s=0.001,
    row_cpu_s=0.0005,
    commit_wait_s=0.001,
    heartbeat_cpu_s=0.0001,
    object_cpu_s=0.0002,
    compile_s=0.2,
    compile_cv=0.5,
    simulate_s=0.05,
    simulate_cv=0.2,
)
LAB = Lab(24, 0.5, devices_per_scheduler=8, devices_per_job=4)


def whole(**changes: object) -> Result:
    """All of a laboratory's jobs, from the first trial to the last."""
    return simulate(replace(LAB, trials_per_job=50, **changes), COSTS)


@pytest.mark.parametrize("commit_every_s", [0.3])
def test_every_trial_begins_and_ends_once(commit_every_s: float) -> None:
    done = whole(commit_every_s=commit_every_s)
    assert done.begun == done.trials == 6 * 50
    assert done.visits["devices"].count == done.visits["compilers"].count == 300
    assert done.visits["schedulers"].count == 2 * 300


@pytest.mark.parametrize("kind", KINDS)
def test_littles_law_holds_at_every_station(kind: str) -> None:
    done = whole()
    visits = done.visits[kind]
    present = visits.present_s / done.seconds
    rate, stay = visits.count / done.seconds, visits.stayed_s / visits.count
    assert visits.count > 0
    assert present == pytest.approx(rate * stay)


def waits(servers: int, load: float, cv: float, customers: int = 20_000) -> float:
    """Mean wait in the queue of one station, of service times 1, with random arrivals."""
    env, rng, visits = simpy.Environment(), random.Random(5), Visits()
    station = Station(env, servers, visits)

    def arrive() -> Iterator[simpy.Event]:
        for _ in range(customers):
            yield env.timeout(rng.expovariate(servers * load))
            env.process(station.serve(drawn(rng, 1.0, cv)))

    env.process(arrive())
    env.run()
    return visits.waited_s / visits.count


def erlang_c(servers: int, load: float) -> float:
    """Mean wait of M/M/c with service times 1 (Erlang, 1917)."""
    offered = servers * load
    last = offered**servers / math.factorial(servers) / (1 - load)
    others = sum(offered**n / math.factorial(n) for n in range(servers))
    return last / (others + last) / (servers * (1 - load))


@pytest.mark.parametrize(("servers", "load"), [(4, 0.8)])
def test_a_station_waits_as_erlang_says(servers: int, load: float) -> None:
    assert waits(servers, load, 1.0) == pytest.approx(erlang_c(servers, load), rel=0.1)


def running(lab: Lab, costs: Costs = COSTS) -> Result:
    return simulate(lab, costs, warm_up_s=5.0, seconds=20.0)


def test_no_laboratory_beats_its_narrowest_resource() -> None:
    for lab in (LAB, replace(LAB, database_processors=1), replace(LAB, run_s=0.01)):
        done = running(lab)
        limits = {kind: done.visits[kind].servers / done.cost_s(kind) for kind in KINDS}
        assert 0 < done.throughput <= min(limits.values()) * (1 + 1e-9)
        assert all(done.use(kind) <= 1 + 1e-9 for kind in KINDS)


@pytest.mark.parametrize("name", ["row_cpu_s", "compile_s"])
def test_a_higher_cost_never_makes_it_faster_and_in_the_end_is_the_bottleneck(name: str) -> None:
    kinds = {
        "row_cpu_s": "database",
        "scheduler_cpu_s": "schedulers",
        "search_cpu_s": "conductors",
        "compile_s": "compilers",
    }
    found = [
        running(LAB, replace(COSTS, **{name: getattr(COSTS, name) * factor}))
        for factor in (1, 10, 500)
    ]
    speeds = [one.throughput for one in found]
    assert all(later <= 1.02 * former for former, later in pairwise(speeds)), speeds
    assert speeds[-1] < speeds[0] / 2
    assert bottleneck(found[-1]) == kinds[name]
