"""How far the best of a job lies from the roofline, in a sentence: what is left beside the rest of
the space that was searched.

A space may be used up far from what the hardware can do. Beyond :data:`FAR` times the roofline the
sentence says so, and what the cycles go into as far as the run of the best tells. Where memory is
the limit, and the best is near it, it says what is left below that: computing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tuner.records.candidate import Measurement, cycles_unit
from tuner.records.roofline import TITLES, Roofline

FAR = 3.0
"""Times the roofline from which on a space is said not to reach the hardware."""
_NEAR = 1.25
_MANY_SCALARS, _MANY_VECTORS, _MANY_WAITS, _NAMED_WAIT = 0.1, 2.0, 0.25, 0.1
_ISSUE = "issue"
_OWN_CODE = (
    "code of your own in C as a package (docs/packages.md), or the same result spelt otherwise"
)
_OTHER_CODE = "other code, or the same result by another algorithm"


@dataclass(frozen=True)
class Distance:
    """``times`` is the cycles of the best over ``least_cycles``, those of the roofline, where
    ``binds`` is the limit; computing alone would take ``compute_cycles``."""

    times: float
    binds: str
    least_cycles: float
    compute_cycles: float
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        rounded = {"times": round(self.times, 3), "least_cycles": round(self.least_cycles)}
        return {**asdict(self), **rounded, "compute_cycles": round(self.compute_cycles)}


def distance_of(
    roofline: Roofline,
    best: Measurement,
    counts: Mapping[str, int] | None = None,
    *,
    is_package: bool = False,
) -> Distance:
    """The distance of the ``best`` measured; ``counts`` are its events by name
    (:data:`tuner.measure.qemu.events.EVENTS`), if anybody kept them."""
    told = roofline if best.fidelity == "model" else roofline.without_memory
    times = best.cycles / told.cycles
    if told.memory_binds and times <= _NEAR:
        sentence = _limited_by_memory(told, best)
    else:
        sentence = f"{times_text(times)} times the roofline: {_limit(told, best)}"
        if times > FAR:
            why = "; ".join(_reasons(told, best, counts or {}))
            sentence += (
                f". This space does not reach the hardware: {why}. "
                f"Ways out: {_OTHER_CODE if is_package else _OWN_CODE}"
            )
    return Distance(times, told.binding.resource, told.cycles, told.compute_cycles, sentence)


def times_text(times: float) -> str:
    """``1.04``, ``3.1`` or ``133``."""
    return f"{times:.2f}" if times < 2 else f"{times:.1f}" if times < 100 else f"{times:.0f}"


def _limit(roofline: Roofline, best: Measurement) -> str:
    title = TITLES[roofline.binding.resource]
    return f"{title} need at least {roofline.cycles:,.0f} {cycles_unit(best.fidelity)}"


def _limited_by_memory(roofline: Roofline, best: Measurement) -> str:
    binding = roofline.binding
    moved = binding.work if best.ddr_bytes is None else best.ddr_bytes
    return (
        f"memory is the limit: {moved / 1e6:.1f} MB go through {TITLES[binding.resource]}, and "
        f"at least {binding.work / 1e6:.1f} MB must, in {roofline.cycles:,.0f} model cycles; "
        f"computing alone would take {roofline.compute_cycles:,.0f}"
    )


def _reasons(roofline: Roofline, best: Measurement, counts: Mapping[str, int]) -> Iterator[str]:
    """What the cycles of the best go into, as far as that is counted."""
    packets = best.packets or 0
    found = False
    scalars = counts.get("scalar_accesses", 0)
    if packets and scalars > _MANY_SCALARS * packets:
        found = True
        yield f"{scalars:,} scalar loads and stores in {packets:,} packets"
    moved = counts.get("l2_accesses", 0) + counts.get("vtcm_accesses", 0)
    least = sum(one.cycles for one in roofline.bounds if one.resource in ("load", "store"))
    if least and moved > _MANY_VECTORS * least:
        found = True
        yield (
            f"{moved / least:.1f} times the vectors of its buffers are loaded and stored (windows, "
            "intermediate results, spills)"
        )
    waits = {cause: n for cause, n in best.breakdown.items() if cause != _ISSUE}
    if sum(waits.values()) > _MANY_WAITS * best.cycles:
        found = True
        named = ", ".join(
            f"{cause} {n / best.cycles:.0%}"
            for cause, n in waits.items()
            if n > _NAMED_WAIT * best.cycles
        )
        share = f"{sum(waits.values()) / best.cycles:.0%} of the cycles are waits"
        yield f"{share} ({named})" if named else share
    if not found:
        yield (
            f"its {packets:,} packets permute and compute more than the algorithm asks for"
            if packets
            else "nobody counted what its cycles go into"
        )
