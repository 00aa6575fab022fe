"""Ratios with the uncertainty that the data allow, and no more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from db.schedules.queries import StoredBest
from tuner.measure.statistics import CONFIDENCE, least_samples, median, median_interval
from tuner.records.candidate import Fidelity

CONFIDENCE_OF_EACH = 1 - (1 - CONFIDENCE) / 2
"""Of each of a ratio's two medians, so that both intervals hold with :data:`CONFIDENCE`."""
LEAST_SAMPLES = least_samples(CONFIDENCE_OF_EACH)
LEAST_WORKLOADS = least_samples(CONFIDENCE)
NOISE = 0.01
"""Ratios that are not exact and closer to 1 than this count as unchanged, whatever the interval
says."""


@dataclass(frozen=True)
class Ratio:
    """``value``, and the bounds of its 95 % confidence interval if there are data for one. An
    ``exact`` one is of two simulations, which repeat to the cycle."""

    value: float
    low: float | None = None
    high: float | None = None
    exact: bool = False

    @property
    def verdict(self) -> str:
        """``slower``, ``faster``, ``same``, or ``unclear`` if the interval holds 1."""
        if self.value == 1 or (not self.exact and abs(math.log(self.value)) < NOISE):
            return "same"
        if self.low is not None and self.high is not None and self.low <= 1 <= self.high:
            return "unclear"
        return "slower" if self.value > 1 else "faster"


def ratio_of(own: Sequence[float], other: Sequence[float]) -> Ratio:
    """How many times larger the median of ``own`` is than that of ``other``.

    The interval needs :data:`LEAST_SAMPLES` of each, and no assumption of how they are
    distributed: it reaches from where both medians are nearest to where they are farthest.
    """
    value = median(own) / median(other)
    if min(len(own), len(other)) < LEAST_SAMPLES:
        return Ratio(value)
    mine, theirs = (median_interval(side, CONFIDENCE_OF_EACH) for side in (own, other))
    return Ratio(value, mine.low / theirs.high, mine.high / theirs.low)


def overall(ratios: Sequence[Ratio]) -> Ratio | None:
    """The median of ratios of different workloads, with its interval over them from
    :data:`LEAST_WORKLOADS` on."""
    if not ratios:
        return None
    if len(ratios) == 1:
        return ratios[0]
    values = [ratio.value for ratio in ratios]
    if len(values) < LEAST_WORKLOADS:
        return Ratio(median(values))
    within = median_interval(values)
    return Ratio(median(values), within.low, within.high)


@dataclass(frozen=True)
class Compared:
    """A workload on both sides, or on one: then there is no ratio."""

    kernel: str
    name: str
    params: Mapping[str, int]
    detail: str
    own: StoredBest | None
    other: StoredBest | None
    ratio: Ratio | None


HARDWARE: Fidelity = "hardware"
"""The fidelity whose measurements vary; simulators count."""
PLACE = ("contract", "target", "fidelity", "cache")
"""Parts of a result's purpose, beside its workload."""
JOBS_MAY_DIFFER = ("contract", "target")


def compared(
    own: Sequence[StoredBest], other: Sequence[StoredBest], *, may_differ: Sequence[str] = ()
) -> list[Compared]:
    """Every workload of both sides, slowest against the other first, then those of one side.

    Results are compared if all of :data:`PLACE` is the same, except what ``may_differ``. Those of
    different fidelity never are.
    """
    same = [name for name in PLACE if name not in may_differ]

    def key(best: StoredBest) -> tuple[str, ...]:
        params = " ".join(f"{k}={v}" for k, v in best.params.items())
        return (best.kernel, params, *(getattr(best, name) for name in same))

    sides = [{key(best): best for best in reversed(side)} for side in (own, other)]
    rows = []
    for each in dict.fromkeys([*sides[0], *sides[1]]):
        mine, theirs = sides[0].get(each), sides[1].get(each)
        both = mine or theirs
        if both is None:
            continue
        rows.append(
            Compared(
                kernel=both.kernel,
                name=both.label or both.kernel,
                params=both.params,
                detail=_detail(mine or both, theirs or both),
                own=mine,
                other=theirs,
                ratio=_ratio(mine, theirs) if mine and theirs else None,
            )
        )
    return sorted(rows, key=lambda row: -row.ratio.value if row.ratio else math.inf)


def _detail(own: StoredBest, other: StoredBest) -> str:
    """The purpose of both results, and their differences."""
    parts = []
    for name in PLACE:
        mine, theirs = (str(getattr(side, name)) for side in (own, other))
        parts.append(mine if mine == theirs else f"{mine} against {theirs}")
    return " · ".join(part for part in parts if part)


def _ratio(mine: StoredBest, theirs: StoredBest) -> Ratio:
    if HARDWARE not in (mine.fidelity, theirs.fidelity):
        return Ratio(mine.cycles / theirs.cycles, exact=True)
    return ratio_of(_samples(mine), _samples(theirs))


def _samples(best: StoredBest) -> Sequence[float]:
    return best.samples or (best.cycles,)
