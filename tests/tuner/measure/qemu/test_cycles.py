"""Events and parameters to cycles: the function that calibration and sensitivity build on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tuner.measure.qemu.microbenchmark import MODEL, TARGET
from tests.tuner.measure.qemu.test_budget import BODIES
from tuner.measure.qemu import simulator
from tuner.measure.qemu.cycles import CAUSES, cycles_of, weights
from tuner.measure.qemu.events import (
    EVENT_COUNT,
    EVENTS,
    INDEX,
    LEADS,
    WAITS,
    WINDOWS,
    Events,
)
from tuner.measure.qemu.model import PARAMETER_NAMES, Parameters

NOMINAL = MODEL.parameters


def events(*stretches: dict[str, float], loops: tuple[int, ...] = ()) -> Events:
    counts = np.zeros((len(stretches), EVENT_COUNT))
    for row, named in zip(counts, stretches, strict=True):
        for name, count in named.items():
            row[INDEX[name]] = count
    return Events(counts, np.array(loops or (0,) * len(stretches)))


def wait(window: int, lead: int) -> int:
    return WAITS + WINDOWS.index(window) * len(LEADS) + LEADS.index(lead)


def total(found: Events, parameters: Parameters = NOMINAL, contexts: int = 4) -> float:
    return cycles_of(found, parameters, contexts).total


# Mirrors of the plugin's headers


def test_events_have_the_names_and_order_of_the_plugin() -> None:
    header = (simulator.PLUGIN.sources[0].parent / "events.h").read_text()
    body = re.search(r"enum event \{(.*?)\};", header, re.DOTALL)[1]  # type: ignore[index]
    names = [name.lower() for name in re.findall(r"^ *EVENT_([A-Z0-9_]+),", body, re.MULTILINE)]
    assert tuple(names) == (*EVENTS, "waits")
    assert f"EVENT_WINDOWS {len(WINDOWS)}" in header
    assert f"EVENT_LEADS {len(LEADS)}" in header


# The cost of events


def test_every_cost_counts_for_its_event() -> None:
    costs = {
        "mispredicts": NOMINAL.mispredict,
        "line_splits": NOMINAL.line_split,
        "l1_misses": NOMINAL.l1_miss,
        "gathers": NOMINAL.gather,
        "scatters": NOMINAL.scatter,
        "store_to_load": 1,
        "packets": 1,
        "stalls": 1,
    }
    for name, cost in costs.items():
        assert total(events({name: 7})) == 7 * cost


def test_transfers_hide_behind_the_work_or_the_work_behind_them() -> None:
    moved = {"ddr_read_bytes": 3000 * NOMINAL.ddr_bandwidth, "ddr_written_bytes": 0}
    assert total(events({"packets": 5000, **moved})) == 5000
    assert total(events({"packets": 2000, **moved})) == 3000


@pytest.mark.parametrize(("overlap", "groups"), [(4, 80), (12, 30)])
def test_groups_of_waits_are_interpolated_between_the_distances_counted(
    overlap: float, groups: float
) -> None:
    found = events({})
    for window, count in zip(WINDOWS, (80, 40, 20, 10, 5, 5), strict=True):
        found.counts[0, wait(window, 0)] = count
    parameters = replace(NOMINAL, ddr_overlap=float(overlap))
    assert total(found, parameters) == pytest.approx(groups * NOMINAL.ddr_latency)


@pytest.mark.parametrize("name", PARAMETER_NAMES)
def test_more_costly_parameters_never_make_a_call_cheaper(name: str) -> None:
    found = events({"packets": 1000, "vector_packets": 900, **dict.fromkeys(EVENTS[3:], 50)})
    found.counts[0, WAITS:] = 3
    spec = MODEL.specs[name]
    values = np.linspace(spec.low, spec.high, 9)
    costs = [total(found, replace(NOMINAL, **{name: float(v)})) for v in values]
    cheaper_when_more = name.endswith("bandwidth") or name == "ddr_overlap"
    # Here fewer groups are counted where more overlaps.
    found.counts[0, WAITS:] = np.repeat([32, 16, 8, 4, 2, 1], len(LEADS))
    costs = [total(found, replace(NOMINAL, **{name: float(v)})) for v in values]
    assert costs == sorted(costs, reverse=cheaper_when_more)


# Parallel loops


def test_a_parallel_loop_takes_as_long_as_its_slowest_context() -> None:
    tasks = [{"packets": n} for n in (100, 200, 300, 400, 500)]
    found = events(*tasks, loops=(1,) * 5)
    assert total(found, contexts=1) == 1500
    assert total(found, contexts=2) == 900  # 1 3 5 and 2 4: the first one free takes the next
    assert total(found, contexts=4) == 600
    assert total(found, contexts=8) == 500


def test_contexts_share_ddr_and_l2() -> None:
    moved = {"packets": 100.0, "ddr_read_bytes": 100 * NOMINAL.ddr_bandwidth}
    found = events(*[moved] * 4, loops=(1,) * 4)
    assert total(found, contexts=4) == 400
    assert cycles_of(found, NOMINAL, 4).core == 100
    lines = {"packets": 100.0, "l2_accesses": 200.0}
    found = events(*[lines] * 4, loops=(1,) * 4)
    assert total(found, contexts=4) == max(100, 800 / NOMINAL.l2_bandwidth)


# Whole cycles, storage


# Against the simulation


@pytest.mark.parametrize(("caches", "body"), BODIES.values(), ids=list(BODIES))
def test_other_costs_need_no_new_run(tmp_path: Path, caches: str, body: str) -> None:
    """The events of a run do not depend on the costs it was made with."""
    from tests.tuner.measure.qemu import microbenchmark
    from tuner.measure.qemu.model import ParameterSpec

    dearer = {
        name: ParameterSpec(value=spec.value * 1.5 + 1, low=0, high=1e6, source="assumed")
        for name, spec in MODEL.specs.items()
        if name not in ("ddr_bandwidth", "l2_bandwidth")
    }
    other = replace(MODEL, specs={**MODEL.specs, **dearer})
    first = microbenchmark.run_packets(body, tmp_path, caches).timing  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(microbenchmark, "MODEL", other)
        again = microbenchmark.run_packets(body, tmp_path, caches).timing  # type: ignore[arg-type]
    assert again.cycles != first.cycles or not np.any(
        first.events.total * (weights(other.parameters) - weights(NOMINAL))
    )
    predicted = cycles_of(first.events, other.parameters, TARGET.hvx_contexts).total
    assert again.cycles == pytest.approx(predicted, abs=len(CAUSES))
