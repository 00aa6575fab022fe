"""Layers in channel blocks: which are, what they are worth, and that results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tuner.network.reading.small_graphs import Making, inputs_of
from tests.tuner.network.running.test_steps import (
    TARGET,
    Machine,
    expected,
    nothing_beside,
    repacks,
)
from tuner.kernels import find_kernel
from tuner.kernels.blocked import BlockedConv, BlockedExpandedConv
from tuner.network import Graph, layouts
from tuner.network.layers import Layer, layers
from tuner.network.layouts import laid_out
from tuner.network.planning.costs import DECLARED, ESTIMATED, OF_PEAK, costs
from tuner.network.planning.recorded import of_sequence
from tuner.network.planning.sequence import Group, Plan, cost_of
from tuner.network.planning.tasks import tasks_of
from tuner.network.planning.topology import Link, Topology, Unit
from tuner.network.running import offload
from tuner.network.running.steps import steps_of
from tuner.records.network_plan import ELSEWHERE

SUMS_MANY = 0
"""Multiply-accumulates of a converted byte, if conversions cost nothing."""


def residuals(*, with_windows_of_a_sum: bool = False) -> Graph:
    """Two inverted residuals that a sum joins, as far as the second has windows. The image has
    another reader, and with ``with_windows_of_a_sum`` so has the sum."""
    m = Making(7, "int8")
    image = m.input(1, 3, 24, 24)
    other = m.conv(image, 16, size=1)
    x = m.conv(image, 16, stride=2)
    inner = m.conv(m.conv(x, 32, size=1), 32, depthwise=True)
    z = m.add(m.conv(inner, 16, size=1), m.conv(inner, 16, size=1))
    last = m.conv(m.conv(z, 24, size=1), 24, stride=2, depthwise=True)
    outputs = [m.conv(z, 16, depthwise=True)] if with_windows_of_a_sum else []
    return m.graph("residuals", last, other, *outputs)


def kernels(found: list[Layer]) -> list[str]:
    return [layer.fit.workload.kernel if layer.fit.workload else "" for layer in found]


def test_what_reads_and_writes_blocks_has_them_and_expansions_are_fused() -> None:
    found = laid_out(residuals())
    assert kernels(found) == [
        "qconv2d_u8",
        BlockedConv.name,
        "",
        BlockedExpandedConv.name,
        *[BlockedConv.name] * 2,
        "qadd_u8",
        "",
        BlockedExpandedConv.name,
    ]
    assert found[2].fit.within == found[3].node.name
    assert found[3].fit.first == found[2].node


def test_a_plan_has_two_layers_of_one_call_as_one_task() -> None:
    """It takes the cycles of their function on the DSP, and what both take elsewhere."""
    graph = residuals()
    found = laid_out(graph)
    host = Unit("arm", host=True, macs_per_us=100.0, moved_bytes_per_us=10.0)
    dsp = Unit("dsp", target=TARGET.name, cycles_per_us=500.0)
    speeds = {"macs_per_us": 100.0, "moved_bytes_per_us": 10.0, "exchange_bytes_per_us": 50.0}
    mesh = Unit("mesh", elements=4, **speeds)
    units = Topology((host, dsp, mesh), {frozenset(("arm", "dsp")): Link(100.0)})
    costed = costs(graph, found, units, lambda _: None)
    assert [not own for _, own in costed] == [bool(layer.fit.within) for layer in found]
    (first, _), (second, own) = costed[2:4]
    workload = second.fit.workload
    assert workload is not None
    work = find_kernel(workload.kernel).work(workload.params)
    assert own["dsp"].source == ESTIMATED
    assert own["dsp"].time_us == pytest.approx(OF_PEAK * work.peak_cycles(TARGET) / 500.0)
    assert own["arm"].source == own["mesh"].source == DECLARED
    alone = {
        layer.node.name: times
        for layer, times in costs(graph, layers(graph), units, lambda _: None)
    }
    for unit in ("arm", "mesh"):
        both = sum(alone[layer.node.name][unit].time_us for layer in (first, second))
        assert own[unit].time_us == pytest.approx(both)
    times = {id(layer.node): {"dsp": own["dsp"].time_us} if own else {} for layer, own in costed}
    tasks = tasks_of(graph, found, lambda layer: times[id(layer.node)])
    assert len(tasks) == len(found) - 2
    of_call = next(task for task in tasks if task.name.endswith(second.node.name))
    assert [need.split()[0] for need in of_call.needs] == ["1"]
    groups = [Group("dsp", tuple(task.name for task in tasks))]
    made = Plan(tuple(groups), *cost_of(groups, tasks, units), 0.0)
    on_dsp = [(layer, {"dsp": own["dsp"]} if own else {}) for layer, own in costed]
    kept = of_sequence(made, "latency", [], tasks, units, on_dsp)
    assert (kept.layers[2].unit, kept.layers[2].time_us) == ("dsp", 0.0)
    assert kept.layers[2].source == ELSEWHERE
    assert kept.layers[3].source == ESTIMATED
    assert [bar.layer for bar in kept.bars if bar.kind == "task"] == [0, 1, 3, 4, 5, 6, 8]


@pytest.mark.parametrize("with_windows_of_a_sum", [False, True])
def test_results_are_those_of_channels_last(
    monkeypatch: pytest.MonkeyPatch, with_windows_of_a_sum: bool
) -> None:
    """What a conversion leaves around an image is not read by windows."""
    monkeypatch.setattr(layouts, "_MACS_OF_REPACKED_BYTE", SUMS_MANY)
    graph = residuals(with_windows_of_a_sum=with_windows_of_a_sum)
    found = laid_out(graph)
    assert BlockedExpandedConv.name in kernels(found)
    steps = steps_of(graph, found, TARGET, nothing_beside)
    assert len(repacks(steps)) == with_windows_of_a_sum
    machine = Machine(graph, steps, inputs_of(graph))
    machine.run()
    right = expected(graph, inputs_of(graph))
    for output in graph.outputs:
        np.testing.assert_array_equal(machine.values[output], right[output])
        assert right[output].std() > 0


def test_windows_of_a_sum_or_of_what_was_converted_have_channels_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layouts, "_MACS_OF_REPACKED_BYTE", SUMS_MANY)
    graph = residuals(with_windows_of_a_sum=True)
    assert kernels(laid_out(graph))[-1] == "qdepthwise_conv2d_u8"
    m = Making(8)
    pooled = m.pool("max_pool", m.input(1, 16, 24, 24))
    graph = m.graph("pooled", m.conv(pooled, 16, depthwise=True), m.conv(pooled, 16, size=1))
    assert kernels(laid_out(graph))[1:] == [
        "qdepthwise_conv2d_u8",
        BlockedConv.name,
    ]


@pytest.mark.slow
def test_one_image_runs_layers_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_MACS_OF_REPACKED_BYTE", SUMS_MANY)
    graph = residuals(with_windows_of_a_sum=True)
    done, plain = (
        offload.run(graph, inputs_of(graph), target=TARGET, channels_last=channels_last)
        for channels_last in (False, True)
    )
    for output in graph.outputs:
        np.testing.assert_array_equal(done.outputs[output], plain.outputs[output])
    assert done.counts.calls == plain.counts.calls - 1
    assert done.repack_cycles
    fused = [run for run in done.layers if run.layer.fit.within]
    assert [(run.origin, run.calls, run.cycles) for run in fused] == [
        (run.layer.fit.within, 0, None) for run in fused
    ]
    assert all(run.cycles for run in done.layers if not run.layer.fit.within)
