"""A network on the simulator, layer by layer, against what it is defined to compute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.tuner.network.reading.small_graphs import GRAPHS, inputs_of
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel
from tuner.measure.roofline import roofline_of_work
from tuner.network.layers import layers
from tuner.network.planning.costs import (
    ESTIMATED,
    MEASURED,
    OF_ROOFLINE,
    costs,
    stored_cycles,
)
from tuner.network.planning.topology import Link, Topology, Unit
from tuner.network.running import execution
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")
BLOCK = GRAPHS["residual block"]()
LAYERS = ["conv_0", "conv_1", "conv_2", "add_3"]


@pytest.mark.slow
def test_every_layer_with_a_kernel_runs_and_makes_what_the_network_does() -> None:
    told: list[execution.LayerRun] = []
    done = execution.run(BLOCK, inputs_of(BLOCK), target=TARGET, on_layer=told.append)
    assert told == list(done.layers)
    assert [run.layer.node.name for run in done.layers if run.cycles] == LAYERS
    assert {run.origin for run in done.layers} == {execution.TEXTBOOK}
    assert done.cycles == sum(run.cycles or 0 for run in done.layers) > 1000
    assert all(run.apart.steps <= 1 for run in done.layers)
    (output,) = BLOCK.outputs
    assert done.outputs[output].std() > 1
    assert done.apart[output].steps <= 2
    assert done.apart[output].elements <= done.apart[output].of // 50


UNITS = Topology(
    (
        Unit("arm", host=True, macs_per_us=1000.0, moved_bytes_per_us=100.0),
        Unit("dsp", call_us=35.0, target=TARGET.name, cycles_per_us=500.0),
    ),
    {frozenset(("arm", "dsp")): Link(4000.0)},
)


class _WithBest(MemoryStore):
    """Has a schedule of 5,000 cycles for every dense layer."""

    def best(self, lookup: Any) -> Any:
        if lookup.problem.workload.kernel != "qconv2d_u8":
            return None
        return cast(Any, SimpleNamespace(measurement=SimpleNamespace(cycles=5000)))


def test_costs_are_measured_where_a_schedule_is_stored_and_else_estimated() -> None:
    found = costs(BLOCK, layers(BLOCK), UNITS, stored_cycles(_WithBest()))
    layer, own = found[0]
    assert (own["dsp"].time_us, own["dsp"].source) == (10.0, MEASURED)
    assert own["arm"].time_us == pytest.approx(
        layer.work.macs / 1000 + layer.work.moved_bytes / 100
    )
    layer, own = found[1]
    assert layer.fit.workload is not None
    work = find_kernel(layer.fit.workload.kernel).work(layer.fit.workload.params)
    least = roofline_of_work(work, TARGET).cycles
    assert own["dsp"].source == ESTIMATED
    assert own["dsp"].time_us == OF_ROOFLINE * least / 500
