"""The model's cycles of many runs at many costs: one matrix product, and what is not linear.

Events do not depend on costs, so neither calibration nor :mod:`tuner.search.doubt` runs anything
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from tuner.measure.qemu.cycles import (
    Floats,
    busy_times,
    makespan,
    moved_bytes,
    shared_needs,
    weights,
)
from tuner.measure.qemu.events import Counts, Events
from tuner.measure.qemu.model import Parameters


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
    """The model's cycles of many observations at once: what a fit asks for thousands of times, and
    what shows how a choice depends on assumed costs (:mod:`tuner.search.doubt`).

    The sums of :func:`~tuner.measure.qemu.cycles.cycles_of` without its split by cause; a test
    holds that they are equal.
    """

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._count = len(observations)
        self._counts = np.concatenate([seen.events.counts for seen in observations])
        self._moved = moved_bytes(self._counts)
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
        return _Loop(owner, tasks, seen.contexts, self._counts[tasks].sum(axis=0))

    def log_cycles(self, parameters: Parameters) -> Floats:
        """Natural logarithms of the model's cycles, one for each observation."""
        logs: Floats = np.log(self.cycles([parameters])[:, 0])
        return logs

    def cycles(self, costs: Sequence[Parameters]) -> Floats:
        """The model's cycles at each of ``costs``, at least 1: shape (observations, costs)."""
        ddr_bandwidth = np.array([one.ddr_bandwidth for one in costs])
        l2_bandwidth = np.array([one.l2_bandwidth for one in costs])
        each = _weights(tuple(costs))
        alone = self._counts @ each
        busy = busy_times(self._counts, each)
        serial = alone + np.maximum(self._moved[:, np.newaxis] / ddr_bandwidth - busy, 0)
        totals = np.zeros((self._count, len(costs)))
        np.add.at(totals, self._owners, serial[self._serial])
        for loop in self._loops:
            slowest = _makespans(alone[loop.tasks], loop.contexts)
            shared = shared_needs(loop.sums, loop.contexts, l2_bandwidth, ddr_bandwidth)
            totals[loop.owner] += reduce(np.maximum, shared.values(), slowest)
        return np.maximum(totals, 1.0)


@lru_cache(maxsize=16)
def _weights(costs: tuple[Parameters, ...]) -> Floats:
    """Those of one event of each kind, in columns; trial after trial is priced at the same costs,
    and this takes most of the time."""
    each: Floats = np.array([weights(one) for one in costs]).T
    each.flags.writeable = False
    return each


def _makespans(times: Floats, threads: int) -> Floats:
    """:func:`makespan` of each column of ``times``, of shape (tasks, columns)."""
    if len(times) <= threads:
        ends: Floats = times.max(axis=0)
        return ends
    return np.array([makespan(column, threads) for column in times.T])


@dataclass(frozen=True)
class _Loop:
    """A parallel loop of the observation ``owner``: its tasks, and what they need together."""

    owner: int
    tasks: NDArray[np.int64]
    contexts: int
    sums: Counts
