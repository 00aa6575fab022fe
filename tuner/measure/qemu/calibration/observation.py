"""Measured cycles beside simulated events, and what the model makes of the events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.measure.qemu.cycles import makespan, weights
from tuner.measure.qemu.events import INDEX, Events
from tuner.measure.qemu.parameters import Parameters

Floats = NDArray[np.float64]

_BUSY = [INDEX["packets"], INDEX["stalls"]]
_MOVED = [INDEX["ddr_read_bytes"], INDEX["ddr_written_bytes"]]


@dataclass(frozen=True)
class Observation:
    """One sample: the ``cycles`` somebody measured, in packet times of one hardware thread, and
    the ``events`` of the same call under the simulator.

    ``line`` is where it stands in its file, counted from 1. Observations with one ``object_digest``
    are repeats of each other. ``contexts`` are the HVX contexts of the target.
    """

    line: int
    object_digest: str
    cycles: float
    events: Events
    contexts: int


class Predictor:
    """The model's cycles of many observations at once: what a fit asks for thousands of times.

    The sums of :func:`~tuner.measure.qemu.cycles.cycles_of` without its split by cause; a test
    holds that they are equal.
    """

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._count = len(observations)
        self._counts = np.concatenate([seen.events.counts for seen in observations])
        self._busy = self._counts[:, _BUSY].sum(axis=1)
        self._moved = self._counts[:, _MOVED].sum(axis=1)
        lengths = [len(seen.events.counts) for seen in observations]
        begins = np.cumsum([0, *lengths])
        loops = np.concatenate([seen.events.loops for seen in observations])
        self._serial = loops == 0
        self._owners = np.repeat(np.arange(self._count), lengths)[self._serial]
        self._loops = [
            self._loop(i, seen, begins[i] + np.flatnonzero(seen.events.loops == loop))
            for i, seen in enumerate(observations)
            for loop in np.unique(seen.events.loops[seen.events.loops > 0])
        ]

    def _loop(self, owner: int, seen: Observation, tasks: NDArray[np.int64]) -> _Loop:
        sums = self._counts[tasks].sum(axis=0)
        return _Loop(
            owner,
            tasks,
            seen.contexts,
            contexts_need=float(sums[INDEX["vector_packets"]]) / seen.contexts,
            l2_lines=float(sums[INDEX["l2_accesses"]]),
            ddr_bytes=float(sums[_MOVED].sum()),
        )

    def log_cycles(self, parameters: Parameters) -> Floats:
        """Natural logarithms of the model's cycles, one for each observation."""
        alone = self._counts @ weights(parameters)
        serial = alone + np.maximum(self._moved / parameters.ddr_bandwidth - self._busy, 0)
        totals = np.bincount(self._owners, serial[self._serial], self._count)
        for loop in self._loops:
            totals[loop.owner] += max(
                makespan(alone[loop.tasks], loop.contexts),
                loop.contexts_need,
                loop.l2_lines / parameters.l2_bandwidth,
                loop.ddr_bytes / parameters.ddr_bandwidth,
            )
        logs: Floats = np.log(np.maximum(totals, 1.0))
        return logs


@dataclass(frozen=True)
class _Loop:
    """A parallel loop of the observation ``owner``: its tasks, and what they need together."""

    owner: int
    tasks: NDArray[np.int64]
    contexts: int
    contexts_need: float
    l2_lines: float
    ddr_bytes: float


def measured_logs(observations: Sequence[Observation]) -> Floats:
    """Natural logarithms of the measured cycles."""
    logs: Floats = np.log([seen.cycles for seen in observations])
    return logs
