"""A network on the simulator, layer by layer, against what it is defined to compute."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel
from tuner.network import Graph, Node, Quantization, Tensor, checked
from tuner.network.graph import Array, data_digest
from tuner.network.layers import Layer, layers
from tuner.network.planning.costs import (
    ESTIMATED,
    MEASURED,
    OF_PEAK,
    BestCycles,
    Cost,
    costs,
    stored_cycles,
)
from tuner.network.planning.topology import Link, Topology, Unit
from tuner.network.running import execution
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")
WINDOW: dict[str, Any] = {"dilations": [1, 1], "layout": "nchw"}
IMAGE = (1, 3, 8, 8)
CHANNELS = 24


def constants(**arrays: Array) -> tuple[list[Tensor], dict[str, Array]]:
    """Weights with a scale for each channel, and biases, as tensors with their data."""
    rng = np.random.default_rng(3)
    tensors, data = [], {}
    for name, array in arrays.items():
        quantization = None
        if array.dtype == np.int8:
            scales = rng.uniform(0.002, 0.02, len(array)).astype(np.float32)
            quantization = Quantization(
                tuple(float(scale) for scale in scales), (0,) * len(array), 0
            )
        tensors.append(
            Tensor(name, array.shape, array.dtype.name, quantization, data_digest(array))
        )
        data[data_digest(array)] = array
    return tensors, data


def residual_block() -> Graph:
    """A dense, a depthwise and a pointwise convolution, and the sum of the first and the last, of
    i8 images with channels first; real numbers in and out."""
    rng = np.random.default_rng(2)

    def taps(*shape: int) -> Array:
        return rng.integers(-128, 128, shape, np.int8)

    def bias() -> Array:
        return rng.integers(-1000, 1000, CHANNELS, np.int32)

    known, data = constants(
        w0=taps(CHANNELS, 3, 3, 3),
        w1=taps(CHANNELS, 1, 3, 3),
        w2=taps(CHANNELS, CHANNELS, 1, 1),
        b0=bias(),
        b1=bias(),
        b2=bias(),
    )
    half = (1, CHANNELS, 4, 4)
    images = [
        Tensor("x", IMAGE, "float32"),
        Tensor("q", IMAGE, "int8", Quantization.of(0.03, 5)),
        *(
            Tensor(name, half, "int8", Quantization.of(scale, zero))
            for name, scale, zero in (("c0", 0.1, -20), ("c1", 0.2, 0), ("c2", 0.5, 9))
        ),
        Tensor("sum", half, "int8", Quantization.of(0.37, 0)),  # no sums are halves
        Tensor("y", half, "float32"),
    ]
    three = {**WINDOW, "kernel": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        Node("quantize", "quantize", ("x",), ("q",)),
        Node("dense", "conv", ("q", "w0", "b0"), ("c0",), {**three, "strides": [2, 2], "group": 1}),
        Node(
            "depthwise",
            "conv",
            ("c0", "w1", "b1"),
            ("c1",),
            {**three, "strides": [1, 1], "group": CHANNELS, "low": 0, "high": 60},
        ),
        Node(
            "pointwise",
            "conv",
            ("c1", "w2", "b2"),
            ("c2",),
            {**WINDOW, "kernel": [1, 1], "pads": [0] * 4, "strides": [1, 1], "group": 1},
        ),
        Node("sum", "add", ("c0", "c2"), ("sum",)),
        Node("dequantize", "dequantize", ("sum",), ("y",)),
    ]
    return checked("block", [*images, *known], nodes, ["x"], ["y"], data)


def image() -> dict[str, Array]:
    return {"x": np.random.default_rng(1).normal(0, 1, IMAGE).astype(np.float32)}


@pytest.mark.slow
def test_every_layer_with_a_kernel_runs_and_makes_what_the_network_does() -> None:
    told: list[execution.LayerRun] = []
    done = execution.run(residual_block(), image(), target=TARGET, on_layer=told.append)
    assert told == list(done.layers)
    ran = {run.layer.node.name: run for run in done.layers if run.cycles is not None}
    assert list(ran) == ["dense", "depthwise", "pointwise", "sum"]
    assert {run.origin for run in ran.values()} == {execution.TEXTBOOK}
    assert done.cycles == sum(run.cycles or 0 for run in ran.values()) > 1000
    assert all(run.apart.steps <= 1 for run in done.layers)
    assert done.outputs["y"].std() > 1
    assert done.apart["y"].steps <= 2
    assert done.apart["y"].elements <= done.apart["y"].of // 100


def units(**changed: Any) -> Topology:
    host = Unit("arm", host=True, macs_per_us=1000.0, moved_bytes_per_us=100.0)
    dsp = {"call_us": 35.0, "target": TARGET.name, "cycles_per_us": 500.0, **changed}
    return Topology((host, Unit("dsp", **dsp)), {frozenset(("arm", "dsp")): Link(4000.0)})


def of_block(topology: Topology, cycles_of: BestCycles) -> list[tuple[Layer, Mapping[str, Cost]]]:
    return costs(residual_block(), layers(residual_block()), topology, cycles_of)


class _WithBest(MemoryStore):
    """Has a schedule of 5,000 cycles for every dense layer."""

    def best(self, lookup: Any) -> Any:
        if lookup.problem.workload.kernel != "qconv2d_u8":
            return None
        return cast(Any, SimpleNamespace(measurement=SimpleNamespace(cycles=5000)))


def test_costs_are_measured_where_a_schedule_is_stored_and_else_estimated() -> None:
    found = {
        layer.node.name: (layer, own)
        for layer, own in of_block(units(), stored_cycles(_WithBest()))
    }
    layer, own = found["dense"]
    assert (own["dsp"].time_us, own["dsp"].source) == (10.0, MEASURED)
    assert own["arm"].time_us == pytest.approx(
        layer.work.macs / 1000 + layer.work.moved_bytes / 100
    )
    layer, own = found["depthwise"]
    assert layer.fit.workload is not None
    work = find_kernel(layer.fit.workload.kernel).work(layer.fit.workload.params)
    assert own["dsp"].source == ESTIMATED
    assert own["dsp"].time_us == OF_PEAK * work.peak_cycles(TARGET) / 500
    assert set(found["quantize"][1]) == {"arm"}
