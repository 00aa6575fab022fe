"""Layers in channel blocks: which are, what they are worth, and that results stay the same."""

from __future__ import annotations

import sys

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
from tuner.kernels.blocked import BlockedConv, BlockedExpandedConv
from tuner.network import Graph, layouts
from tuner.network.layers import Layer
from tuner.network.layouts import laid_out
from tuner.network.running import offload
from tuner.network.running.steps import steps_of

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


def calls_to_lay_out(sums: int) -> int:
    """Of functions, for a chain whose first sum has no operand in blocks, so that none has."""
    m = Making(7, "int8")
    y = m.input(1, 16, 8, 8)
    for _ in range(sums):
        y = m.add(y, y)
    graph, count = m.graph("chain", y), 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        found = laid_out(graph)
    finally:
        sys.setprofile(None)
    assert not any(layer.fit.blocks for layer in found)
    return count


def test_a_chain_takes_time_in_proportion_to_its_length() -> None:
    assert calls_to_lay_out(120) < 1.5 * 3 * calls_to_lay_out(40)
