"""The time of each layer on each unit of a topology, and where the figure comes from.

A unit with a target runs what kernels do: at the cycles of the best stored schedule, or of an
estimate. The others run every operator, at the speeds that the topology declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.best import lookup_of
from tuner.errors import UserError
from tuner.kernels import find_kernel
from tuner.network.graph import Graph
from tuner.network.layers import Layer, layers
from tuner.network.topology import Topology, Unit
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.problem.workload import Problem
from tuner.store import TrialStore

OF_PEAK = 2.0
"""An estimate in cycles at the HVX peak (:meth:`tuner.kernels.WorkCounts.peak_cycles`): textbook
schedules of ``qconv2d_u8`` and ``qdepthwise_conv2d_u8`` in their default shapes take 1.8 and 3.2
times those in the timing model, tuned ones less."""
MEASURED, ESTIMATED, DECLARED, NOTHING = "measured", "estimated", "declared", "no work"
"""Sources of a time; ``no work`` is that of operators that leave all bytes where they are."""
_WITHOUT_WORK = ("reshape", "reinterpret")


@dataclass(frozen=True)
class Cost:
    """A layer's time on a unit (microseconds), and its source."""

    time_us: float
    source: str


def costs(
    graph: Graph, topology: Topology, store: TrialStore
) -> list[tuple[Layer, Mapping[str, Cost]]]:
    """Each layer of ``graph``, in its order, with its cost on each unit that can run it.

    Raises ``UserError`` naming the key of the topology that a unit lacks.
    """
    for unit in topology.units:
        needed = ("cycles_per_us",) if unit.target else ("macs_per_us", "moved_bytes_per_us")
        for key in needed:
            if not getattr(unit, key):
                raise UserError(
                    f"units.{unit.name} does not state {key}",
                    next_step="docs/networks.md shows a topology with speeds",
                )
    known: dict[tuple[str, str], Cost] = {}
    found: list[tuple[Layer, Mapping[str, Cost]]] = []
    for layer in layers(graph):
        own = {unit.name: _cost(layer, unit, store, known) for unit in topology.units}
        found.append((layer, {name: cost for name, cost in own.items() if cost is not None}))
    return found


def _cost(
    layer: Layer, unit: Unit, store: TrialStore, known: dict[tuple[str, str], Cost]
) -> Cost | None:
    if layer.node.operator in _WITHOUT_WORK:
        return Cost(0.0, NOTHING)
    if not unit.target:
        arithmetic = layer.work.macs / unit.macs_per_us
        return Cost(arithmetic + layer.work.moved_bytes / unit.moved_bytes_per_us, DECLARED)
    fit = layer.fit
    if fit.workload is None or fit.steps is None:
        return None
    key = unit.name, fit.workload.digest
    if key not in known:
        known[key] = _of_call(
            Problem(fit.workload, Contract.STATIC, find_target(unit.target)), unit, store
        )
    once = known[key]
    return Cost(once.time_us * fit.calls, once.source)


def _of_call(problem: Problem, unit: Unit, store: TrialStore) -> Cost:
    best = store.best(lookup_of(problem))
    if best is not None:
        return Cost(best.measurement.cycles / unit.cycles_per_us, MEASURED)
    work = find_kernel(problem.workload.kernel).work(problem.workload.params)
    return Cost(OF_PEAK * work.peak_cycles(problem.target) / unit.cycles_per_us, ESTIMATED)
