"""What the plugin counted, as events and as cycles by cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.errors import InternalError
from tuner.measure.qemu.cycles import DEPENDENCY, cycles_of, whole
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.model import TimingModel
from tuner.measure.qemu.rules import Rules
from tuner.measure.qemu.session import Results


@dataclass(frozen=True)
class Timing:
    """The timed call, in packet times of one hardware thread.

    ``breakdown`` adds up to ``cycles``; dependency stalls are in it under the class of the reader.
    ``core_cycles`` are what the call takes if DDR had neither latency nor limits.
    ``stalls_by_cause`` are the dependency stalls alone, of all threads.
    """

    events: Events
    stalls_by_cause: dict[str, int]
    breakdown: dict[str, int]
    core_cycles: int

    @property
    def cycles(self) -> int:
        return sum(self.breakdown.values())

    @property
    def packets(self) -> int:
        """Packets of all threads."""
        return self.events.count("packets")

    @property
    def ddr_bytes(self) -> int:
        """What was moved between DDR and L2, both ways."""
        return self.events.count("ddr_read_bytes") + self.events.count("ddr_written_bytes")


def timing_of(results: Results, model: TimingModel, contexts: int) -> Timing:
    """Works out a run whose timed call came to its end, on a target with ``contexts``.

    Raises ``InternalError`` if the tables do not add up to the plugin's own sums.
    """
    events = events_of(results)
    by_cause = _stalls_by_cause(results, model.rules)
    counted = (events.count("packets"), events.count("packets") + events.count("stalls"))
    if counted != (results.packets, results.cycles) or (
        sum(by_cause.values()) != events.count("stalls")
    ):
        raise InternalError(
            f"the plugin counted {results.packets} packets and {results.cycles} cycles, its tables "
            f"{counted[0]} and {counted[1]}, {sum(by_cause.values())} of them stalls"
        )
    cycles = cycles_of(events, model.parameters, contexts)
    return Timing(
        events,
        by_cause,
        breakdown=whole(_by_reader(cycles.parts, by_cause)),
        core_cycles=sum(whole(_by_reader(cycles.core_parts, by_cause)).values()),
    )


def _by_reader(parts: Mapping[str, float], stalls: Mapping[str, int]) -> dict[str, float]:
    """``parts`` with dependency stalls split by the class of the reader, as ``stalls`` are.

    The stalls are those of all threads; as much of each falls to the slowest one.
    """
    split = dict(parts)
    share = split.pop(DEPENDENCY) / max(sum(stalls.values()), 1)
    for cause, count in stalls.items():
        split[cause] = split.get(cause, 0.0) + count * share
    return split


def events_of(results: Results) -> Events:
    """The events of the timed call."""
    return Events(
        results.segments["counts"].astype(np.float64), results.segments["loop"].astype(np.int64)
    )


def _stalls_by_cause(results: Results, rules: Rules) -> dict[str, int]:
    """Each transition's details, one per packet of its block, lie in the order of transitions."""
    entered = results.transitions
    lengths: NDArray[Any] = results.blocks["packets"][entered["block"]]
    booked = np.repeat(entered["count"], lengths) * results.details["stalls"]
    sums = np.bincount(
        results.details["cause"], weights=booked.astype(np.float64), minlength=len(rules.causes)
    )
    return {name: int(sums[i]) for i, name in enumerate(rules.causes) if sums[i]}
