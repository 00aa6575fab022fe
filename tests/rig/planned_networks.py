"""Networks in a store as a tuning and a plan leave them, without either's time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import onnx

from db.jobs.batches import keep_plan
from db.sql_store import SqlStore
from tests.rig.models import published
from tests.rig.models.comparison import graph_of
from tests.rig.models.quantized import Quantizing, quantized
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.network import Graph
from tuner.network.layers import recorded
from tuner.network.layouts import laid_out
from tuner.network.planning.topology import Topology, read_topology
from tuner.network.planning.whole import SequencePlanned, StreamPlanned, planned
from tuner.records.batch import Batch, BatchPlan, NewJob
from tuner.records.network_plan import PlanObjective
from tuner.records.trial import Submission

PHONE = """
[units.arm_cpu]
host = true
macs_per_us = 200.0
moved_bytes_per_us = 800.0
[units.hexagon_cdsp]
target = "hexagon-v66"
cycles_per_us = 500.0
call_us = 35.0
[units.hexagon_cdsp.scopes]
ddr = { bytes_per_us = 1000.0 }
vtcm = { bytes = 32768, bytes_per_us = 40000.0 }
[[links]]
between = ["arm_cpu", "hexagon_cdsp"]
bytes_per_us = 4000.0
latency_us = 2.0
dma = true
"""
"""A slow host, so that the DSP is worth its calls for small networks."""


@cache
def graph(name: str) -> Graph:
    """A transformer block, or MobileNetV2 for images of 32x32 and 10 classes."""
    made: onnx.ModelProto
    if name == "transformer_block":
        made = published.transformer_block(8, 16, 2)
    else:
        made = published.mobilenet_v2(32, 10)
    return graph_of(quantized(made, Quantizing()))


def phone(folder: Path) -> Topology:
    """The units of :data:`PHONE`."""
    path = folder / "phone.toml"
    path.write_text(PHONE)
    return read_topology(path)


def plan_for(
    name: str, folder: Path, objective: PlanObjective = "latency"
) -> SequencePlanned | StreamPlanned:
    """A plan by estimates."""
    network, units = graph(name), phone(folder)
    found = laid_out(network)
    return planned(network, found, units, lambda _: None, objective=objective, seconds=10.0)


def stored_network(store: SqlStore, name: str) -> Batch:
    """The network with one job, which nobody runs."""
    own = recorded(laid_out(graph(name)))
    plan = BatchPlan(name=name, kind="network", layers=own)
    first = next(layer.name for layer in own if layer.kernel)
    return store.create_batch(plan, [NewJob(spec(), SPACE, TOOLCHAIN, (first,), Submission())])


def stored_plan(
    store: SqlStore, name: str, folder: Path, objective: PlanObjective = "latency"
) -> Batch:
    """The network with a plan."""
    batch = stored_network(store, name)
    keep_plan(store, batch, plan_for(name, folder, objective).record)
    return batch
