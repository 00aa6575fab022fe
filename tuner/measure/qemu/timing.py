"""What the plugin counted, as cycles by cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.errors import InternalError
from tuner.measure.qemu.rules import Rules
from tuner.measure.qemu.session import Results


@dataclass(frozen=True)
class Timing:
    """The timed call. ``cycles`` is ``packets`` plus ``stalls``; ``stalls_by_cause`` adds up to
    ``stalls``. All in packet times of one hardware thread."""

    packets: int
    stalls: int
    stalls_by_cause: dict[str, int]

    @property
    def cycles(self) -> int:
        return self.packets + self.stalls

    @property
    def breakdown(self) -> dict[str, int]:
        """Parts of the cycles by cause, the largest first."""
        parts = {"issue": self.packets, **self.stalls_by_cause}
        return dict(sorted(parts.items(), key=lambda part: -part[1]))


def timing_of(results: Results, rules: Rules) -> Timing:
    """Adds up a run whose timed call came to its end.

    Raises ``InternalError`` if the tables do not add up to the plugin's own sums.
    """
    entered = results.transitions
    counts = entered["count"]
    lengths = results.blocks["packets"][entered["block"]]
    packets = int(counts @ lengths)
    stalls = int(counts @ entered["stalls"])
    if (packets, packets + stalls) != (results.packets, results.cycles):
        raise InternalError(
            f"the plugin counted {results.packets} packets and {results.cycles} cycles, its tables "
            f"{packets} and {packets + stalls}"
        )
    return Timing(packets, stalls, _by_cause(results, lengths, rules))


def _by_cause(results: Results, lengths: NDArray[Any], rules: Rules) -> dict[str, int]:
    """Each transition's details, one per packet of its block, lie in the order of transitions."""
    per_packet = np.repeat(results.transitions["count"], lengths)
    booked = per_packet * results.details["stalls"]
    sums = np.bincount(
        results.details["cause"], weights=booked.astype(np.float64), minlength=len(rules.causes)
    )
    return {name: int(sums[i]) for i, name in enumerate(rules.causes) if sums[i]}
