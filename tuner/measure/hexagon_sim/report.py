"""What the simulator says of a run: the last lines it prints, and its file of PMU counters.

Both are printed for people, and differ between versions; only what is found for certain counts::

    Done!
            T0: Insns=15694 Packets=7874
            T1: Insns=0 Packets=0
            Total: Insns=15694 Pcycles=15750

A line of the file is a counter's name or number and a value, with whatever between them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_TEXT_BYTES = 1 << 20
_COUNT = r"(\d{1,19})(?!\d)"
_THREAD = re.compile(rf"^\s*T(\d{{1,3}}):\s+Insns=\s*{_COUNT}\s+Packets=\s*{_COUNT}\s*$", re.M)
_INSTRUCTIONS = re.compile(rf"^\s*Total:\s+Insns=\s*{_COUNT}", re.M)
_PCYCLES = re.compile(rf"Pcycles\s*[=:]\s*{_COUNT}")
_COUNTER = re.compile(
    rf"^\s*([A-Za-z_][\w .()/-]{{0,79}}?|0x[0-9a-fA-F]+)\s*[=:,\s]\s*{_COUNT}\s*$"
)


@dataclass(frozen=True)
class SimulatorReport:
    """Counts of a whole run, from boot to end; ``None`` where the simulator does not say.

    ``packets`` are summed over threads. ``pcycles`` are clock cycles of the core.
    """

    instructions: int | None
    packets: int | None
    pcycles: int | None


@dataclass(frozen=True)
class PmuStatistics:
    """Counters by the name or number they stand under, the last value of each."""

    counters: Mapping[str, int] = field(hash=False)


def read_report(text: str) -> SimulatorReport:
    """Reads the end of what the simulator printed. The last hit of each counts: what a candidate
    prints itself comes before."""
    tail = text[-MOST_TEXT_BYTES:]
    totals, cycles = _INSTRUCTIONS.findall(tail), _PCYCLES.findall(tail)
    threads = {int(number): int(packets) for number, _, packets in _THREAD.findall(tail)}
    return SimulatorReport(
        instructions=int(totals[-1]) if totals else None,
        packets=sum(threads.values()) if threads else None,
        pcycles=int(cycles[-1]) if cycles else None,
    )


def read_pmu_statistics(text: str) -> PmuStatistics:
    """Reads the file of ``--pmu_statsfile``; lines that are no counter are passed over."""
    counters: dict[str, int] = {}
    for line in text[-MOST_TEXT_BYTES:].splitlines():
        found = _COUNTER.match(line)
        if found is not None:
            counters[found[1].strip()] = int(found[2])
    return PmuStatistics(counters)
