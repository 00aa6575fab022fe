"""Plain records of a network's plan: which unit runs which layer when, and what lies in its VTCM.

Layers go by their positions in the record of the network (:class:`tuner.records.batch.Batch`).
All times are modelled: what was measured or declared of each layer, as a planner put it together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import accumulate, chain
from math import isfinite
from typing import Any, Literal

from tuner.records.documents import read_record

PlanObjective = Literal["latency", "calls", "throughput"]
BarKind = Literal["task", "copy", "call"]
VERSION = 1
"""Of :meth:`NetworkPlan.document`."""
MOST_BARS = 20_000
ELSEWHERE = "in another call"
"""The source of the time of a layer that is done in the call of another: it has none."""


@dataclass(frozen=True)
class PlannedUnit:
    """A unit of the topology. ``target`` is empty, and ``cycles_per_us`` 0, for one whose speeds
    were declared; ``call_us`` is the cost of a call in microseconds."""

    name: str
    host: bool
    target: str
    cycles_per_us: float
    call_us: float


@dataclass(frozen=True)
class PlannedLayer:
    """The unit that runs a layer, its time there (microseconds), and where that is from:
    ``measured``, ``estimated``, ``declared``, ``no work`` or :data:`ELSEWHERE`."""

    unit: str
    time_us: float
    source: str


@dataclass(frozen=True)
class Bar:
    """A bar of the Gantt chart: a layer that ``runs_on`` a unit, its output copied, or a call,
    from ``start_us`` to ``end_us``. ``stream_input`` numbers the inputs of a stream."""

    runs_on: str
    kind: BarKind
    layer: int | None
    start_us: float
    end_us: float
    stream_input: int = 0


@dataclass(frozen=True)
class PlacedTensor:
    """The output of ``layer`` in VTCM, from the step ``first`` of a call through ``last``."""

    layer: int
    offset_bytes: int
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class VtcmOfCall:
    """The VTCM of ``unit`` during one call, or one round of a stream: its steps are layers."""

    unit: str
    capacity_bytes: int
    steps: tuple[int, ...]
    tensors: tuple[PlacedTensor, ...]

    @property
    def used_bytes(self) -> list[int]:
        """Bytes placed at each step."""
        changes = [0] * (len(self.steps) + 1)
        for one in self.tensors:
            changes[one.first] += one.size_bytes
            changes[one.last + 1] -= one.size_bytes
        return list(accumulate(changes[:-1]))


@dataclass(frozen=True)
class NetworkPlan:
    """A plan as stored with its network.

    ``time_us`` is that of ``objective``: the latency of one input, units taking turns, or
    the interval between inputs of a stream. No plan can be below ``bound_us``. ``bars`` are those
    of one input, or of a stream in steady state for two intervals. ``made_at`` is in Unix seconds.
    """

    objective: PlanObjective
    units: tuple[PlannedUnit, ...]
    layers: tuple[PlannedLayer, ...]
    bars: tuple[Bar, ...]
    vtcm: tuple[VtcmOfCall, ...]
    calls: int
    time_us: float
    bound_us: float
    latency_us: float
    made_at: float

    def __post_init__(self) -> None:
        names = [unit.name for unit in self.units]
        times = [self.time_us, self.bound_us, self.latency_us, self.made_at]
        times += [one.time_us for one in self.layers]
        times += chain.from_iterable((one.start_us, one.end_us) for one in self.bars)
        if len(set(names)) < len(names) or not all(one.name for one in self.units):
            raise ValueError(f"units {', '.join(names)}, not of distinct names")
        used = {one.unit for one in self.layers} | {one.unit for one in self.vtcm}
        if unknown := used - set(names):
            raise ValueError(f"units {', '.join(sorted(unknown))}, not among those of the plan")
        if not all(isfinite(one) and one >= 0 for one in times):
            raise ValueError("a time that is negative or not finite")
        if len(self.bars) > MOST_BARS:
            raise ValueError(f"{len(self.bars)} bars, more than {MOST_BARS}")
        if any(one.end_us < one.start_us for one in self.bars):
            raise ValueError("a bar that ends before it starts")
        tensors = [tensor.layer for call in self.vtcm for tensor in call.tensors]
        steps = [step for call in self.vtcm for step in call.steps]
        positions = [one.layer for one in self.bars if one.layer is not None]
        if any(not 0 <= one < len(self.layers) for one in (*tensors, *steps, *positions)):
            raise ValueError(f"a position of a layer beyond the {len(self.layers)} of the plan")
        for call in self.vtcm:
            if any(
                not 0 <= one.first <= one.last < len(call.steps) or one.size_bytes < 0
                for one in call.tensors
            ):
                raise ValueError(f"a tensor in VTCM of {call.unit} beyond the steps of its call")

    @property
    def gap(self) -> float:
        """The share that a better plan could still save at most."""
        return 1 - self.bound_us / self.time_us if self.time_us else 0.0

    def unit(self, name: str) -> PlannedUnit:
        """The unit called ``name``."""
        return next(unit for unit in self.units if unit.name == name)

    def document(self) -> dict[str, Any]:
        """JSON form."""
        return {"version": VERSION, "plan": asdict(self)}


def plan_from_document(document: Any) -> NetworkPlan:
    """The plan of a :meth:`NetworkPlan.document`; ``ValueError`` if it is not one."""
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ValueError(f"the plan is not of version {VERSION}")
    return read_record(NetworkPlan, document.get("plan"), "the plan")
