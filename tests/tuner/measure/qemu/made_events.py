"""Events of schedules that nobody compiled, and samples made from them with known parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tuner.measure.qemu.calibration import Observation
from tuner.measure.qemu.cycles import cycles_of
from tuner.measure.qemu.events import EVENT_COUNT, INDEX, LEADS, WAITS, WINDOWS, Counts, Events
from tuner.measure.qemu.model import Parameters

CONTEXTS = 4
KINDS: Mapping[str, Mapping[str, float]] = {
    "misses apart": {"l2_misses": 0.04},
    "misses in bursts": {"l2_misses": 0.2},
    "branches": {"mispredicts": 0.2},
    "scalar": {"l1_misses": 0.15},
    "vector loads": {"l2_accesses": 3.0},
    "gathers": {"gathers": 0.2},
    "scatters": {"scatters": 0.6},
    "streaming": {"ddr_read_bytes": 60.0},
}
"""Kinds of serial code: events a packet, at most."""
PARALLEL_KINDS: Mapping[str, Mapping[str, float]] = {
    "loops that do little": {"l2_accesses": 0.1},
    "many small tasks": {"l2_accesses": 0.1},
    "loads of all threads": {"l2_accesses": 3.0},
}


def made_events(rng: np.random.Generator, kind: str) -> Events:
    """A schedule of one of ``KINDS`` or ``PARALLEL_KINDS``, somewhat mixed with all the others."""
    if kind in KINDS:
        return Events(_stretch(rng, kind, rng.uniform(2e4, 2e5))[np.newaxis], np.zeros(1, np.int64))
    tasks, packets = {
        "loops that do little": (4, 300.0),
        "many small tasks": (60, 60.0),
        "loads of all threads": (8, 20_000.0),
    }[kind]
    rows = [_stretch(rng, "branches", 300)]
    rows[0][INDEX["parallel_loops"]] = 1
    for _ in range(tasks):
        row = _stretch(rng, kind, packets * rng.uniform(0.9, 1.1))
        row[INDEX["tasks"]] = 1
        rows.append(row)
    return Events(np.array(rows), np.array([0] + [1] * tasks, np.int64))


def _stretch(rng: np.random.Generator, kind: str, packets: float) -> Counts:
    counts = np.zeros(EVENT_COUNT)
    counts[INDEX["packets"]] = packets
    counts[INDEX["stalls"]] = round(packets * rng.uniform(0, 0.2))
    counts[INDEX["vector_packets"]] = packets / 2
    for name, most in {**KINDS, **PARALLEL_KINDS}[kind].items():
        counts[INDEX[name]] = round(rng.uniform(0.5, 1.0) * most * packets)
    if kind in KINDS:
        for events in KINDS.values():
            for name, most in events.items():
                counts[INDEX[name]] += round(rng.uniform(0, 0.02) * most * packets)
    _add_waits(rng, counts, apart=4 if kind == "misses in bursts" else 64)
    return counts


def _add_waits(rng: np.random.Generator, counts: Counts, apart: float) -> None:
    """Groups of misses: those ``apart`` packets from each other fall together in wide windows."""
    misses = counts[INDEX["l2_misses"]]
    apart *= rng.uniform(0.5, 2)
    for i, window in enumerate(WINDOWS):
        groups = round(misses / (1 + window / apart))
        ahead = round(groups * 0.2)
        counts[WAITS + i * len(LEADS)] = groups - ahead
        counts[WAITS + i * len(LEADS) + LEADS.index(32)] = ahead


def observed(
    rng: np.random.Generator,
    parameters: Parameters,
    kinds: Sequence[str],
    *,
    noise: float = 0.03,
    outliers: Mapping[int, float] | None = None,
) -> list[Observation]:
    """A sample of each of ``kinds``, with cycles as ``parameters`` give them and lognormal noise.

    ``outliers`` maps lines to factors that somebody's mistake put on their cycles.
    """
    made = []
    for line, kind in enumerate(kinds, start=1):
        events = made_events(rng, kind)
        cycles = cycles_of(events, parameters, CONTEXTS).total
        cycles *= float(np.exp(noise * rng.standard_normal())) * (outliers or {}).get(line, 1.0)
        made.append(Observation(line, f"object {line}", cycles, events, CONTEXTS))
    return made
