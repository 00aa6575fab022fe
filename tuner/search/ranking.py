"""Predictions at a higher fidelity for candidates measured at the lower one only.

The lower fidelity ranks well and is off by a factor (the model's clock is not the machine's),
and by more where its assumptions matter more: caches, stalls. So, from candidates measured at both,
the logarithm of the factor is fitted by a line in the logarithm of the cycles and in the shares of
the cycles that the lower fidelity books under each cause. With few such pairs a line in that many
figures follows noise: its slopes are held back by a ridge, whose strength is chosen by leaving out
one pair at a time (Allen's PRESS, *Technometrics* 16, 1974); at infinite strength one factor for
all remains, and the order is that of the lower fidelity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.records.candidate import Measurement

LEAST_PAIRS = 3
"""The fewest for which slopes are fitted; below, one factor is."""
_STRENGTHS = (0.1, 1.0, 10.0, 100.0, math.inf)
"""Strengths of the ridge, on figures scaled to a variance of 1; infinite: one factor for all."""
Row = NDArray[np.float64]


@dataclass(frozen=True)
class FidelityPair:
    """One candidate's measurements, at the lower and at the higher fidelity. ``trial`` names it."""

    trial: int
    low: Measurement
    high: Measurement


@dataclass(frozen=True)
class Agreement:
    """How far the higher fidelity confirms the lower one, over ``pairs`` candidates.

    ``factor`` is the median of higher over lower cycles. ``tau`` is Kendall's tau-b of both
    orders, ``None`` without two candidates that differ. ``fitted_tau`` is the tau of predictions
    for each candidate from the others alone, and ``error`` their median relative error; both
    ``None`` below :data:`LEAST_PAIRS` + 1 pairs.
    """

    pairs: int
    factor: float | None
    tau: float | None
    fitted_tau: float | None
    error: float | None

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Ranking:
    """A fit, made by :func:`fit`. ``strength`` is the chosen one of the ridge."""

    causes: tuple[str, ...]
    mean: Row = field(repr=False)
    scale: Row = field(repr=False)
    slopes: Row = field(repr=False)
    level: float
    strength: float

    def predict(self, low: Measurement) -> float:
        """Cycles expected at the higher fidelity of a candidate that took ``low``."""
        scaled = (_figures(low, self.causes) - self.mean) / self.scale
        return float(low.cycles * math.exp(self.level + float(scaled @ self.slopes)))


def fit(pairs: Sequence[FidelityPair]) -> Ranking:
    """The ranking that ``pairs`` support; without any, the lower fidelity's own."""
    if not pairs:
        return Ranking((), np.zeros(1), np.ones(1), np.zeros(1), 0.0, math.inf)
    causes = tuple(sorted({cause for pair in pairs for cause in pair.low.breakdown}))
    figures = np.array([_figures(pair.low, causes) for pair in pairs])
    factors = np.array([math.log(pair.high.cycles / pair.low.cycles) for pair in pairs])
    mean, scale = figures.mean(axis=0), figures.std(axis=0)
    scale[scale < 1e-9] = 1.0  # the same for all: it says nothing, and must not divide
    scaled = (figures - mean) / scale
    strength = math.inf
    if len(pairs) >= LEAST_PAIRS:
        strength = min(_STRENGTHS, key=lambda s: (_press(scaled, factors, s), -s))
    slopes = _slopes(scaled, factors, strength)
    return Ranking(causes, mean, scale, slopes, float(factors.mean()), strength)


def _figures(low: Measurement, causes: Sequence[str]) -> Row:
    shares = [low.breakdown.get(cause, 0) / low.cycles for cause in causes]
    return np.array([math.log(low.cycles), *shares])


def _slopes(scaled: Row, factors: Row, strength: float) -> Row:
    count = scaled.shape[1]
    if math.isinf(strength):
        return np.zeros(count)
    held = scaled.T @ scaled + strength * np.eye(count)
    return np.linalg.solve(held, scaled.T @ (factors - factors.mean()))


def _press(scaled: Row, factors: Row, strength: float) -> float:
    """Sum of squared errors at each pair of the fit without that pair.

    By the hat matrix, without refitting (``e_i / (1 - h_ii)``; the mean is fitted as well).
    """
    count = len(factors)
    hat = np.full((count, count), 1 / count)
    if not math.isinf(strength):
        held = scaled.T @ scaled + strength * np.eye(scaled.shape[1])
        hat += scaled @ np.linalg.solve(held, scaled.T)
    residuals = factors - hat @ factors
    return float(np.sum((residuals / (1 - np.diag(hat)).clip(1e-9)) ** 2))


def agreement(pairs: Sequence[FidelityPair]) -> Agreement:
    """How well the fidelities agree, and how well the fit predicts the higher one."""
    low = [float(pair.low.cycles) for pair in pairs]
    high = [float(pair.high.cycles) for pair in pairs]
    factor = float(np.median(np.array(high) / np.array(low))) if pairs else None
    fitted_tau = error = None
    if len(pairs) > LEAST_PAIRS:
        predicted = [
            fit([other for other in pairs if other is not pair]).predict(pair.low) for pair in pairs
        ]
        fitted_tau = kendall_tau(predicted, high)
        error = float(np.median(np.abs(np.array(predicted) / np.array(high) - 1)))
    return Agreement(len(pairs), factor, kendall_tau(low, high), fitted_tau, error)


def kendall_tau(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Kendall's tau-b of two orders of the same things: 1 the same, -1 the reverse.

    ``None`` where it is undefined: all equal in one of them, or fewer than two.
    """
    first, second = (np.sign(np.subtract.outer(x, x)) for x in (np.array(one), np.array(other)))
    untied = math.sqrt(float(np.sum(first**2)) * float(np.sum(second**2)))
    return float(np.sum(first * second)) / untied if untied else None
