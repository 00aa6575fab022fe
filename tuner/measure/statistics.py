"""Repeated samples of one candidate: their summary, and when more of them are needed.

Pure functions. Samples are in cycles (any unit will do as long as one call gets one unit), and
come from a device with noise: a phone's clock, its other processes, its heat. Noise there only
ever adds, seldom but much, so the middle is the median and the spread the median absolute
deviation (MAD): neither moves far while fewer than half of the samples are off.

Sources: the interval of a median by order statistics is Conover, *Practical Nonparametric
Statistics*, 3rd ed., 3.2; the scale 1.4826 makes the MAD of normal noise its standard deviation,
and the limit 3.5 of a modified z-score is Iglewicz and Hoaglin, *How to Detect and Handle
Outliers*, 1993. A device is taken as throttled when a reference workload runs more than 10 %
slower than it did on the cool device: the rule of AndroidX Benchmark's ``ThrottleDetector``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
"""How often an interval is to hold the median, where nothing else is asked for."""
RESOLUTION = 0.002
"""Share of the cycles that nobody chooses a schedule by: an interval as narrow is narrow enough."""
MOST_SAMPLES = 101
"""Repeats of one candidate in all, where nothing else is asked for."""
THROTTLED_AT = 1.10
"""Reference over what it takes on the cool device, above which a device is throttled."""
DRIFTED_AT = 1.05
"""Change of the reference from the first to the second half of a batch, in either direction, above
which candidates early and late in it cannot be compared. Half the way to throttled; ours."""
_NORMAL_SCALE = 1.4826
_OUTLIER_Z = 3.5


@dataclass(frozen=True)
class Interval:
    """Bounds in cycles, both included, and how often (0 to 1) such an interval holds the median.

    ``coverage`` is what order statistics guarantee whatever the distribution; with few samples it
    falls short of what was asked for.
    """

    low: float
    high: float
    coverage: float

    def holds(self, cycles: float) -> bool:
        """Whether ``cycles`` lies within."""
        return self.low <= cycles <= self.high


@dataclass(frozen=True)
class Summary:
    """Samples in a few figures: cycles, except ``count`` and ``outliers``, which count samples."""

    count: int
    median: float
    mad: float
    interval: Interval
    outliers: int

    @property
    def spread(self) -> float:
        """Noise as a share of the median: the MAD, scaled to a normal distribution's standard
        deviation."""
        return _NORMAL_SCALE * self.mad / self.median if self.median else 0.0


@dataclass(frozen=True)
class Throttled:
    """The reason not to use samples taken next to a reference.

    ``slowdown`` is the reference's median over what it should take, ``drift`` that of its second
    half over that of its first.
    """

    slowdown: float
    drift: float
    reason: str


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the middle two. ``ValueError`` without samples."""
    return float(statistics.median(samples))


def mad(samples: Sequence[float]) -> float:
    """Median absolute deviation from the median, unscaled. ``ValueError`` without samples."""
    middle = median(samples)
    return median([abs(sample - middle) for sample in samples])


def summarize(samples: Sequence[float], confidence: float = CONFIDENCE) -> Summary:
    """The :class:`Summary` of ``samples``. ``ValueError`` without any."""
    return Summary(
        len(samples),
        median(samples),
        mad(samples),
        median_interval(samples, confidence),
        outliers(samples),
    )


def outliers(samples: Sequence[float]) -> int:
    """The number of samples too far from the median, by the MAD, to be of the same distribution.

    0 where at least half of the samples are equal: then the MAD has no scale to judge by.
    """
    middle, deviation = median(samples), mad(samples)
    limit = _OUTLIER_Z * _NORMAL_SCALE * deviation
    return sum(abs(sample - middle) > limit for sample in samples) if deviation else 0


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Where the median of what was sampled lies, whatever its distribution.

    The narrowest pair of order statistics, the same number of places from either end, that holds
    it with probability ``confidence`` (above 0, below 1): each sample is below the median with
    probability 1/2, so how many are is binomial. With too few samples for that, the extremes with
    the coverage they have: 1 - 2**(1 - n). ``ValueError`` without samples.
    """
    if not samples:
        raise ValueError("no samples")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence}: accepted are values between 0 and 1")
    ordered = sorted(samples)
    skipped, coverage = _order(len(ordered), confidence)
    return Interval(float(ordered[skipped]), float(ordered[-1 - skipped]), coverage)


def _order(count: int, confidence: float) -> tuple[int, float]:
    """How many of ``count`` ordered samples lie outside of the interval at each end, and the
    interval's coverage."""
    skipped, outside = 0, 2.0 ** (1 - count)
    while skipped + 1 < count - 1 - (skipped + 1):
        wider = outside + math.comb(count, skipped + 1) * 2.0 ** (1 - count)
        if 1 - wider < confidence:
            break
        skipped, outside = skipped + 1, wider
    return skipped, 1 - outside


def least_samples(confidence: float = CONFIDENCE) -> int:
    """How many samples an interval with this coverage takes: 6 for 0.95."""
    return math.ceil(1 - math.log2(1 - confidence))


def more_repeats(
    samples: Sequence[float],
    incumbent_cycles: float | None,
    *,
    confidence: float = CONFIDENCE,
    resolution: float = RESOLUTION,
    most: int = MOST_SAMPLES,
) -> int:
    """How many more samples to take before a candidate can be told from the incumbent; 0: none.

    Samples enough are there once the interval of the median leaves ``incumbent_cycles`` out, or is
    narrower than ``resolution`` (a share of the cycles), or ``most`` samples in all are taken. A
    candidate that is clearly slower needs none beyond its first few: extremes that leave the
    incumbent out by more than the distance between them are believed at once. Without an incumbent
    the interval only has to have its coverage.

    What is asked for at once is what the distance to the incumbent calls for (an interval narrows
    by the root of the number of samples), but no more than as many as there are already, so that
    an estimate from few samples cannot waste many. ``ValueError`` without samples.
    """
    count, needed = len(samples), least_samples(confidence)
    interval, middle = median_interval(samples, confidence), median(samples)
    left = max(0, most - count)
    missing = min(left, max(0, needed - count))
    if incumbent_cycles is None:
        return missing
    width = interval.high - interval.low
    if count < needed:
        beyond = max(interval.low - incumbent_cycles, incumbent_cycles - interval.high)
        clear = count > 1 and beyond > max(width, resolution * middle)
        return 0 if clear else missing
    if not interval.holds(incumbent_cycles) or width <= resolution * middle:
        return 0
    gap = max(abs(middle - incumbent_cycles), resolution * middle / 2)
    wanted = math.ceil(count * (width / 2 / gap) ** 2) - count if gap else left
    return min(left, count, max(1, wanted))


def throttled(
    reference_cycles: Sequence[float],
    expected_cycles: float,
    *,
    limit: float = THROTTLED_AT,
    drift_limit: float = DRIFTED_AT,
) -> Throttled | None:
    """Whether a reference workload, run before, between and after others, shows a slow device.

    ``reference_cycles`` are its samples, oldest first; ``expected_cycles`` what it takes on the
    cool device. The unit must be one that grows when clocks fall: ticks of a timer with a constant
    rate do, a core's own cycles only as far as memory is concerned. ``None`` if all is well, or
    nothing was sampled. A device that is faster than expected is not throttled, but one whose
    speed changed meanwhile, in either direction, makes the batch unfair within itself.
    """
    if not reference_cycles:
        return None
    slowdown = median(reference_cycles) / expected_cycles
    half = len(reference_cycles) // 2
    before = reference_cycles[:half] or reference_cycles
    drift = median(reference_cycles[-half or None :]) / median(before)
    reason = ""
    if slowdown > limit:
        reason = f"the reference takes {slowdown:.2f} times as long as on the cool device"
    elif max(drift, 1 / drift) > drift_limit:
        reason = f"the reference takes {drift:.2f} times as long late in the batch as early"
    return Throttled(slowdown, drift, reason) if reason else None
