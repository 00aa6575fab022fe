"""Events and parameters to cycles: one pure function, so that other parameters need no new run.

A stretch of serial code costs what issue, dependency stalls and waits for DDR cost, or what its
transfers from and to DDR take if that is longer (a load waits for just such a transfer: both at
once, not one after the other), plus a cost for each of the other events. Waits for DDR are counted
in groups that overlap. The tasks of a parallel loop go to the first thread that is free;
the loop takes as long as its slowest thread, but no less than HVX contexts, L2 and DDR need for
all tasks together.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuner.measure.qemu.events import (
    EVENT_COUNT,
    INDEX,
    LEADS,
    WAITS,
    WINDOWS,
    Counts,
    Events,
)
from tuner.measure.qemu.model import Parameters

Floats = NDArray[np.float64]

ISSUE, DEPENDENCY, DDR_LATENCY = "issue", "dependency", "DDR latency"
DDR_BANDWIDTH, L2_BANDWIDTH, CONTEXTS = "DDR bandwidth", "L2 bandwidth", "HVX contexts"

_CAUSE_OF_EVENT = {
    "packets": ISSUE,
    "stalls": DEPENDENCY,
    "mispredicts": "branch",
    "loop_ends": "branch",
    "line_splits": "line split",
    "store_to_load": "store to load",
    "l1_misses": "L1 miss",
    "l2_accesses": "L2 access",
    "vtcm_accesses": "VTCM access",
    "gathers": "gather and scatter",
    "scatters": "gather and scatter",
    "tasks": "parallel loop",
    "parallel_loops": "parallel loop",
}
CAUSES = (
    *dict.fromkeys(_CAUSE_OF_EVENT.values()),
    DDR_LATENCY,
    DDR_BANDWIDTH,
    L2_BANDWIDTH,
    CONTEXTS,
)
"""All causes of cycles."""
_DDR_CAUSES = (DDR_LATENCY, DDR_BANDWIDTH)

_BUSY = [INDEX["packets"], INDEX["stalls"]]
_MOVED = [INDEX["ddr_read_bytes"], INDEX["ddr_written_bytes"]]


@dataclass(frozen=True)
class CycleBreakdown:
    """Cycles by cause, in packet times. ``core_parts`` are those the call would take if DDR had
    neither latency nor limits."""

    parts: Mapping[str, float]
    core_parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """All causes together."""
        return sum(self.parts.values())

    @property
    def core(self) -> float:
        """The total without what DDR adds."""
        return sum(self.core_parts.values())


def whole(parts: Mapping[str, float]) -> dict[str, int]:
    """``parts`` as whole cycles, the largest first; those that are nothing left out.

    Rounded up, so that the lower bound by which the plugin stops slow candidates stays one.
    """
    # Sums of binary fractions may lie a hair above the whole number they mean.
    rounded = {cause: math.ceil(round(part, 6)) for cause, part in parts.items()}
    return dict(sorted(((c, n) for c, n in rounded.items() if n), key=lambda part: -part[1]))


def weights(parameters: Parameters) -> Floats:
    """The cost of one event of each kind in packet times: shape (``EVENT_COUNT``,).

    Of the groups of waits only those count that overlap within ``ddr_overlap``; between two
    counted distances their numbers are interpolated. The transfer of bytes is not in here.
    """
    cost = np.zeros(EVENT_COUNT)
    for name, value in (
        ("packets", 1.0),
        ("stalls", 1.0),
        ("store_to_load", 1.0),
        ("mispredicts", parameters.mispredict),
        ("loop_ends", parameters.loop_end),
        ("line_splits", parameters.line_split),
        ("l1_misses", parameters.l1_miss),
        ("l2_accesses", parameters.l2_access),
        ("vtcm_accesses", parameters.vtcm_access),
        ("gathers", parameters.gather),
        ("scatters", parameters.scatter),
        ("tasks", parameters.task),
        ("parallel_loops", parameters.parallel_loop),
    ):
        cost[INDEX[name]] = value
    ahead = (np.array(LEADS[:-1]) + np.maximum(np.array(LEADS[1:]) - 1, 0)) / 2
    waits = np.append(np.maximum(parameters.ddr_latency - ahead, 0), 0.0)
    cost[WAITS:] = np.outer(_window_shares(parameters.ddr_overlap), waits).ravel()
    return cost


def _window_shares(overlap: float) -> Floats:
    """How much each counted window contributes: a linear interpolation between two of them."""
    shares = np.zeros(len(WINDOWS))
    upper = int(np.clip(np.searchsorted(WINDOWS, overlap), 1, len(WINDOWS) - 1))
    low, high = WINDOWS[upper - 1], WINDOWS[upper]
    shares[upper] = (overlap - low) / (high - low)
    shares[upper - 1] = 1 - shares[upper]
    return shares


def serial_parts(counts: Counts, parameters: Parameters) -> dict[str, Floats]:
    """Cycles by cause of stretches that run alone, for ``counts`` of shape (..., EVENT_COUNT)."""
    costs = counts * weights(parameters)
    parts = {cause: np.zeros(counts.shape[:-1]) for cause in CAUSES}
    for name, cause in _CAUSE_OF_EVENT.items():
        parts[cause] = parts[cause] + costs[..., INDEX[name]]
    parts[DDR_LATENCY] = costs[..., WAITS:].sum(axis=-1)
    busy = busy_times(counts, weights(parameters))
    parts[DDR_BANDWIDTH] = np.maximum(moved_bytes(counts) / parameters.ddr_bandwidth - busy, 0)
    return parts


def busy_times(counts: Counts, cost: Floats) -> Floats:
    """Packet times of stretches that go on beside their transfers from and to DDR: issue, stalls
    and waits. ``cost`` as :func:`weights` gives it, or several side by side, shape
    (``EVENT_COUNT``, n)."""
    issued = counts[..., _BUSY].sum(axis=-1)
    times: Floats = counts[..., WAITS:] @ cost[WAITS:]
    times += issued[..., np.newaxis] if cost.ndim > 1 else issued
    return times


def moved_bytes(counts: Counts) -> Floats:
    """Bytes that stretches read from DDR and write to it."""
    moved: Floats = counts[..., _MOVED].sum(axis=-1)
    return moved


def shared_needs(
    sums: Counts, contexts: int, l2_bandwidth: Floats | float, ddr_bandwidth: Floats | float
) -> dict[str, Floats | float]:
    """Packet times that the parts which all tasks of a parallel loop share need for their ``sums``
    of events, shape (``EVENT_COUNT``,), by the cause they are booked under."""
    return {
        CONTEXTS: sums[INDEX["vector_packets"]] / contexts,
        L2_BANDWIDTH: sums[INDEX["l2_accesses"]] / l2_bandwidth,
        DDR_BANDWIDTH: moved_bytes(sums) / ddr_bandwidth,
    }


def cycles_of(events: Events, parameters: Parameters, contexts: int) -> CycleBreakdown:
    """The cycles of a call on a target with ``contexts`` HVX contexts."""
    parts = _parts(events, parameters, contexts)
    if events.has_parallel_loops:
        # Another cause may bind once DDR does not.
        without_ddr = replace(parameters, ddr_latency=0.0, ddr_bandwidth=math.inf)
        core_parts = _parts(events, without_ddr, contexts)
    else:
        core_parts = {cause: part for cause, part in parts.items() if cause not in _DDR_CAUSES}
    return CycleBreakdown(parts, core_parts)


def _parts(events: Events, parameters: Parameters, contexts: int) -> dict[str, float]:
    serial = serial_parts(events.counts[events.loops == 0], parameters)
    parts = {cause: float(values.sum()) for cause, values in serial.items()}
    for loop in np.unique(events.loops[events.loops > 0]):
        counts = events.counts[events.loops == loop]
        for cause, part in _loop_parts(counts, parameters, contexts).items():
            parts[cause] += part
    return parts


def _loop_parts(counts: Counts, parameters: Parameters, contexts: int) -> dict[str, float]:
    """A parallel loop with one task in each row of ``counts``.

    What is booked under the causes of the tasks is the slowest thread's time, split as the work of
    all tasks is; what shared parts take longer than that is booked under them.
    """
    alone = serial_parts(counts, parameters)
    del alone[DDR_BANDWIDTH]  # shared: below, for all tasks together
    times = np.sum(list(alone.values()), axis=0)
    work = float(times.sum())
    slowest = makespan(times, contexts)
    share = slowest / work if work else 0.0
    parts = {cause: float(values.sum()) * share for cause, values in alone.items()}
    needs = shared_needs(
        counts.sum(axis=0), contexts, parameters.l2_bandwidth, parameters.ddr_bandwidth
    )
    spent = slowest
    for cause, needed in needs.items():
        parts[cause] = parts.get(cause, 0.0) + max(float(needed) - spent, 0.0)
        spent = max(spent, float(needed))
    return parts


def makespan(times: Floats, threads: int) -> float:
    """The end of the last task if each goes to the first thread that is free, in order."""
    ends = [0.0] * min(threads, len(times))
    for time in times:
        heapq.heapreplace(ends, ends[0] + float(time))
    return max(ends, default=0.0)
