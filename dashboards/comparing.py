"""Ratios with the uncertainty that the data allow, and no more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from db.comparisons import Best

LEAST_SAMPLES = 3
"""Fewer samples say nothing about their spread that could be relied upon."""
NOISE = 0.01
"""Ratios nearer to 1 than this are no change, whatever the interval says."""

# Student's t, two-sided 95 %, by degrees of freedom; 1.96 is that of infinitely many.
_T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306,
        9: 2.262, 10: 2.228, 12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.0}  # fmt: skip


@dataclass(frozen=True)
class Ratio:
    """``value``, and the bounds of its 95 % confidence interval if there are data for one."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> str:
        """``slower``, ``faster``, ``same``, or ``unclear`` if the interval holds 1."""
        if abs(math.log(self.value)) < NOISE:
            return "same"
        if self.low is not None and self.high is not None and self.low <= 1 <= self.high:
            return "unclear"
        return "slower" if self.value > 1 else "faster"


def t95(degrees: float) -> float:
    """The quantile for at most ``degrees`` of freedom: between two table rows, the wider one."""
    fitting = [quantile for known, quantile in _T95.items() if known <= degrees]
    return fitting[-1] if fitting else _T95[1]


def ratio_of(own: Sequence[float], other: Sequence[float]) -> Ratio:
    """How many times larger ``own`` is than ``other``, by the geometric means of their samples.

    The interval is Welch's on logarithms, from :data:`LEAST_SAMPLES` samples of each on.
    """
    logs = [[math.log(sample) for sample in side] for side in (own, other)]
    middle = fmean(logs[0]) - fmean(logs[1])
    if min(len(side) for side in logs) < LEAST_SAMPLES:
        return Ratio(math.exp(middle))
    parts = [variance(side) / len(side) for side in logs]
    error = math.sqrt(sum(parts))
    degrees = (
        sum(parts) ** 2 / sum(p**2 / (len(side) - 1) for p, side in zip(parts, logs, strict=True))
        if error
        else min(len(side) for side in logs) - 1
    )
    return _around(middle, t95(degrees) * error)


def overall(ratios: Sequence[Ratio]) -> Ratio | None:
    """The geometric mean of ratios of different workloads, with its interval over them."""
    if not ratios:
        return None
    logs = [math.log(ratio.value) for ratio in ratios]
    if len(logs) < LEAST_SAMPLES:
        return Ratio(math.exp(fmean(logs)))
    return _around(fmean(logs), t95(len(logs) - 1) * math.sqrt(variance(logs) / len(logs)))


def _around(middle: float, margin: float) -> Ratio:
    return Ratio(math.exp(middle), math.exp(middle - margin), math.exp(middle + margin))


@dataclass(frozen=True)
class Compared:
    """A workload on both sides, or on one: then there is no ratio."""

    kernel: str
    params: Mapping[str, int]
    detail: str
    own: Best | None
    other: Best | None
    ratio: Ratio | None


def compared(own: Sequence[Best], other: Sequence[Best], *, across_targets: bool) -> list[Compared]:
    """Every workload of both sides, slowest against the other first, then those of one side."""

    def key(best: Best) -> tuple[str, ...]:
        params = " ".join(f"{k}={v}" for k, v in best.params.items())
        place = "" if across_targets else best.target
        return (best.kernel, params, best.contract, place, best.fidelity, best.cache)

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
                params=both.params,
                detail=" · ".join(part for part in each[2:] if part),
                own=mine,
                other=theirs,
                ratio=ratio_of(_samples(mine), _samples(theirs)) if mine and theirs else None,
            )
        )
    return sorted(rows, key=lambda row: -row.ratio.value if row.ratio else math.inf)


def _samples(best: Best) -> Sequence[float]:
    return best.samples or (best.cycles,)
