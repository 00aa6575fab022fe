"""The events of a run in a few rows: what is kept of every trial.

A parallel schedule has a stretch for each task, which may be thousands. Cycles of one limit add up,
so stretches that the same limit binds are added: serial code that computes, and serial code that
waits for DDR's bandwidth; of parallel loops, those with the same limit, thread by thread. At the
costs they were condensed with, the cycles are exactly those of all events. At other costs they can
differ where the limit, or the thread that takes a task, would be another.
"""

from __future__ import annotations

import heapq

import numpy as np

from tuner.measure.qemu.cycles import Floats, busy_times, moved_bytes, shared_needs, weights
from tuner.measure.qemu.events import EVENT_COUNT, Counts, Events
from tuner.measure.qemu.model import Parameters


def condensed(events: Events, parameters: Parameters, contexts: int) -> Events:
    """``events`` in at most two rows of serial code, and ``contexts`` rows for each of the four
    limits of parallel loops: threads, HVX contexts, L2, DDR."""
    serial = events.counts[events.loops == 0]
    cost = weights(parameters)
    bound = moved_bytes(serial) / parameters.ddr_bandwidth > busy_times(serial, cost)
    rows = [part.sum(axis=0) for part in (serial[~bound], serial[bound]) if part.any()]
    loops = [0] * len(rows)
    by_limit: dict[int, Counts] = {}
    for loop in np.unique(events.loops[events.loops > 0]):
        threads = _threads(events.counts[events.loops == loop], cost, contexts)
        limit = _limit(threads, cost, parameters, contexts)
        by_limit[limit] = by_limit.get(limit, 0) + threads
    for number, limit in enumerate(sorted(by_limit), 1):
        used = [row for row in by_limit[limit] if row.any()]
        rows += used
        loops += [number] * len(used)
    return Events(np.array(rows).reshape(-1, EVENT_COUNT), np.array(loops, np.int64))


def _threads(tasks: Counts, cost: Floats, contexts: int) -> Counts:
    """The events of each thread, the slowest first, if each task goes to the first that is free:
    as :func:`tuner.measure.qemu.cycles.makespan` has it."""
    threads = np.zeros((contexts, EVENT_COUNT))
    free = [(0.0, thread) for thread in range(contexts)]
    for counts, time in zip(tasks, (tasks @ cost).tolist(), strict=True):
        end, thread = free[0]
        heapq.heapreplace(free, (end + time, thread))
        threads[thread] += counts
    slowest_first: Counts = threads[np.argsort(-(threads @ cost), kind="stable")]
    return slowest_first


def _limit(threads: Counts, cost: Floats, parameters: Parameters, contexts: int) -> int:
    """Which of the four a loop waits for, by number."""
    shared = shared_needs(
        threads.sum(axis=0), contexts, parameters.l2_bandwidth, parameters.ddr_bandwidth
    )
    return int(np.argmax([float((threads @ cost).max()), *map(float, shared.values())]))
