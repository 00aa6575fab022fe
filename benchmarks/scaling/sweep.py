"""Many laboratories: by size and by run time, with one cost changed, with one remedy tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.scaling.cluster import CALLS_EACH, SLEEP_S, Scale
from benchmarks.scaling.costs import Costs
from benchmarks.scaling.model import Lab, Result, simulate

SIZES = (10, 100, 1_000, 7_296)
"""The last is 114 groups of 64."""
PHONE_RUN_S = 1.0
"""What TVM repeats a measurement for on a device (``min_repeat_ms`` of tvmc's tune, apache/tvm pull
request 7823): no phone was at hand, an emulated one takes 52 ms for a small kernel."""
RUNS_S = (0.25, PHONE_RUN_S, 4.0)
FACTORS = (0.5, 2.0)
LARGEST = Lab(SIZES[-1], PHONE_RUN_S)
SENSITIVE = (
    "row_cpu_s",
    "commit_cpu_s",
    "scheduler_cpu_s",
    "search_cpu_s",
    "commit_client_cpu_s",
    "compile_s",
)
_WARM_UP_RUNS, _COUNTED_RUNS, _LEAST_S = 6, 8, 4.0


def settled(lab: Lab, costs: Costs) -> Result:
    """``lab`` once its queues have filled."""
    return simulate(
        lab,
        costs,
        warm_up_s=_WARM_UP_RUNS * lab.run_s + _LEAST_S,
        seconds=_COUNTED_RUNS * lab.run_s + _LEAST_S,
    )


def by_size(costs: Costs) -> Iterator[Result]:
    """Every size with every run time; last with the simulator for a device, which compiles too."""
    for run_s in RUNS_S:
        for devices in SIZES:
            yield settled(Lab(devices, run_s), costs)
    share = 1.25 * costs.compile_s / costs.simulate_s
    for devices in SIZES:
        lab = Lab(devices, costs.simulate_s, costs.simulate_cv, compilers_per_device=share)
        yield settled(replace(lab, ahead=1.25 + share), costs)


def by_cost(costs: Costs) -> Iterator[tuple[str, float, Result]]:
    """The largest laboratory with one cost times a factor."""
    for name in SENSITIVE:
        for factor in FACTORS:
            changed = replace(costs, **{name: getattr(costs, name) * factor})
            yield name, factor, settled(LARGEST, changed)


def remedies(costs: Costs) -> Iterator[tuple[str, Result]]:
    """The largest laboratory as it is, and with one thing changed, for better or worse."""
    within = replace(costs, row_cpu_s=costs.row_cpu_s + costs.object_cpu_s)
    yield "as it is", settled(LARGEST, costs)
    yield "8 database processors", settled(replace(LARGEST, database_processors=8), costs)
    yield "a commit waits 0.25 s for more", settled(replace(LARGEST, commit_every_s=0.25), costs)
    yield "objects in the database", settled(LARGEST, within)
    yield "one scheduler for all", settled(replace(LARGEST, devices_per_scheduler=7_296), costs)
    yield "a conductor for 64 devices", settled(replace(LARGEST, devices_per_job=64), costs)
    yield "nothing ahead", settled(replace(LARGEST, ahead=1.0), costs)
    yield "a quarter ahead", settled(replace(LARGEST, ahead=1.25), costs)


def bottleneck(result: Result) -> str:
    """The kind of server that is busiest."""
    return max(result.visits, key=result.use)


def simulated(measured: Iterable[Scale], costs: Costs) -> Iterator[tuple[Scale, float]]:
    """Each measured cluster with its efficiency in the model: calls that sleep, without a search,
    a compiler or a database."""
    calls_alone = Costs(
        **{
            **dict.fromkeys(vars(costs), 0.0),
            "call_cpu_s": costs.call_cpu_s,
            "scheduler_cpu_s": costs.scheduler_cpu_s,
        }
    )
    for one in measured:
        lab = Lab(
            one.workers,
            SLEEP_S,
            run_cv=0.0,
            devices_per_scheduler=one.workers,
            devices_per_job=one.workers,
            trials_per_job=one.workers * CALLS_EACH,
        )
        yield one, simulate(lab, calls_alone).efficiency
