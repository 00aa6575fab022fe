"""The record of a plan agrees with the plan."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tests.rig.planned_networks import graph, phone, plan_for
from tuner.network.planning.recorded import bars_of
from tuner.network.planning.sequence import Group, cost_of
from tuner.network.planning.tasks import Task
from tuner.network.planning.topology import Link, Topology, Unit
from tuner.records.network_plan import NetworkPlan, plan_from_document


@pytest.mark.parametrize("queued", [True, False])
@pytest.mark.parametrize("dma", [True, False])
def test_bars_take_turns_and_add_up_to_the_latency(queued: bool, dma: bool) -> None:
    units = (Unit("arm", host=True), Unit("dsp", call_us=35.0, queued=queued))
    links = {frozenset(("arm", "dsp")): Link(100.0, 2.0, dma)}
    topology = Topology(units, links)
    both = {"arm": 7.0, "dsp": 3.0}
    tasks = [
        Task("a", both, (), 500),
        Task("b", both, ("a",), 100),
        Task("c", both, ("a",), 300),
        Task("d", both, ("b", "c", "a")),
    ]
    groups = [Group("arm", ("a",)), Group("dsp", ("b", "c")), Group("arm", ("d",))]
    calls, latency_us = cost_of(groups, tasks, topology)
    bars = bars_of(groups, tasks, topology, {name: n for n, name in enumerate("abcd")})
    assert bars[0].start_us == 0
    assert all(one.end_us == two.start_us for one, two in pairwise(bars))
    assert bars[-1].end_us == pytest.approx(latency_us)
    assert sum(bar.kind == "call" for bar in bars) == calls
    copied = [(bar.runs_on, bar.layer) for bar in bars if bar.kind == "copy"]
    assert [layer for _, layer in copied] == [0, 1, 2]
    assert ("DMA arm - dsp" in dict(copied)) == dma


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_the_record_of_a_network_agrees_with_its_plan(objective: str, tmp_path: Path) -> None:
    done = plan_for("transformer_block", tmp_path, objective)  # type: ignore[arg-type]
    kept = done.record
    assert plan_from_document(_as_stored(kept)) == kept
    assert len(kept.layers) == len(graph("transformer_block").nodes)
    if objective == "latency":
        assert kept.time_us == pytest.approx(kept.bars[-1].end_us)
        tasks = [bar for bar in kept.bars if bar.kind == "task"]
        assert sum(bar.end_us - bar.start_us for bar in tasks) == pytest.approx(
            sum(layer.time_us for layer in kept.layers)
        )
    else:
        assert max(bar.start_us for bar in kept.bars) < 2 * kept.time_us
        ends: dict[str, float] = defaultdict(float)
        for bar in sorted(kept.bars, key=lambda bar: bar.start_us):
            assert bar.start_us >= ends[bar.runs_on] - 1e-6, "a unit does one thing at a time"
            ends[bar.runs_on] = bar.end_us
    by_name = {unit.name: unit for unit in phone(tmp_path).units}
    for call in kept.vtcm:
        capacity = by_name[call.unit].scopes["vtcm"].capacity_bytes
        assert call.capacity_bytes == capacity
        assert max(call.used_bytes, default=0) <= capacity
        assert all(kept.layers[step].unit == call.unit for step in call.steps)


def _as_stored(plan: NetworkPlan) -> object:
    return json.loads(json.dumps(plan.document()))
