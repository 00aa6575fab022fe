"""The figures in what the simulator says of a run: its last lines, and its file of PMU counters.

Both are printed for people and differ between versions; only what is found for certain counts::

    Done!
            T0: Insns=15694 Packets=7874
            T1: Insns=0 Packets=0
            Total: Insns=15694 Pcycles=15750

A line of the file is a counter's name or number and a value, with anything between them.
"""

from __future__ import annotations

import re
from pathlib import Path

PMU_FILE = "pmu_stats.txt"
MOST_TEXT_BYTES = 1 << 20
_COUNT = r"(\d{1,19})(?!\d)"
_PCYCLES = re.compile(rf"Pcycles\s*[=:]\s*{_COUNT}")
_COUNTER = re.compile(
    rf"^\s*([A-Za-z_][\w .()/-]{{0,79}}?|0x[0-9a-fA-F]+)\s*[=:,\s]\s*{_COUNT}\s*$"
)


def read_pcycles(text: str) -> int | None:
    """The clock cycles of a whole run, from the end of what the simulator printed, if it says. The
    last hit counts: what a candidate prints itself comes before."""
    found = _PCYCLES.findall(text[-MOST_TEXT_BYTES:])
    return int(found[-1]) if found else None


def read_counters(text: str) -> dict[str, int]:
    """The file of ``--pmu_statsfile``: counters by the name or number they stand under, the last
    value of each. Other lines are passed over."""
    lines = (_COUNTER.match(line) for line in text[-MOST_TEXT_BYTES:].splitlines())
    return {found[1].strip(): int(found[2]) for found in lines if found is not None}


def counters_in(folder: Path) -> dict[str, int]:
    """The counters of the run in ``folder``; none if it wrote none, as one that was killed."""
    try:
        with (folder / PMU_FILE).open(encoding="utf-8", errors="replace") as file:
            return read_counters(file.read(MOST_TEXT_BYTES))
    except FileNotFoundError:
        return {}
