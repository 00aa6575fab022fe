"""Gaussian-process regression over configs, small and quick enough to be fitted at every trial.

The covariance of two configs falls with the weighted sum of how far apart they are in each knob:
by rank for an ordered knob, same or not for a categorical one. Weights (how much a knob matters)
are fitted to the data; how strongly is what separates this from nearest neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tuner.search.samplers.points import INACTIVE, Rows
from tuner.space import Space

Floats = NDArray[np.float64]
Features = NDArray[np.float32]
_Real = TypeVar("_Real", np.float32, np.float64)

_WEIGHT_SPREAD = 1.3
_NOISE_MEAN, _NOISE_SPREAD = -5.0, 1.5
"""Priors of the logarithms."""
_STEP = 0.1
"""Of the distance of an ordered knob, the share for being different at all: a size that divides
the extent and one that does not lie side by side."""
_JITTER = 1e-6


class Metric:
    """Squared distances of configs in each knob, as a product of feature vectors.

    A row becomes one-hot features; the weighted distance of two rows is then a bilinear form of
    them, which BLAS does for all pairs at once.
    """

    def __init__(self, space: Space) -> None:
        self._sizes = [len(knob.choices) + 1 for knob in space.knobs]
        self._starts = np.cumsum([0, *self._sizes])
        self._blocks = [_distances(len(k.choices), ordered=k.ordered) for k in space.knobs]

    def features(self, rows: Rows) -> Features:
        """One-hot features of each row."""
        found = np.zeros((len(rows), self._starts[-1]), np.float32)
        # An inactive knob has the last place of its block.
        places = np.where(rows == INACTIVE, np.array(self._sizes) - 1, rows) + self._starts[:-1]
        np.put_along_axis(found, places.astype(np.intp), 1.0, axis=1)
        return found

    def form(self, weights: Floats) -> Features:
        """The bilinear form for these weights, one a knob."""
        form = np.zeros((self._starts[-1], self._starts[-1]), np.float32)
        for block, start, size, weight in zip(
            self._blocks, self._starts, self._sizes, weights, strict=False
        ):
            form[start : start + size, start : start + size] = weight * block
        return form

    def by_knob(self, rows: Rows) -> Floats:
        """Distances of all pairs of rows, for each knob."""
        return np.stack(
            [block[np.ix_(c, c)] for block, c in zip(self._blocks, rows.T, strict=True)]
        )


def _distances(choices: int, *, ordered: bool) -> Floats:
    """Squared distances between the choices of a knob; the last row is for "inactive"."""
    rank = np.arange(choices) / max(1, choices - 1)
    if ordered and choices > 2:
        near = (rank[:, None] - rank[None, :]) ** 2 * (1 - _STEP) + _STEP * (1 - np.eye(choices))
    else:
        near = 1 - np.eye(choices)
    block = np.ones((choices + 1, choices + 1))
    block[:choices, :choices] = near
    block[choices, choices] = 0.0
    return block


def covariance(distance: NDArray[_Real]) -> NDArray[_Real]:
    """Matérn 5/2 of squared distances (Rasmussen and Williams 2006, equation 4.17)."""
    root = np.sqrt(5.0 * np.maximum(distance, 0.0), dtype=distance.dtype)
    return np.asarray((1.0 + root + root * root / 3.0) * np.exp(-root), distance.dtype)


@dataclass
class Settings:
    """What is fitted: logarithms of the weights of the knobs and of the noise."""

    weights: Floats
    noise: float
    typical_weight: float
    """The mean of the prior of weights."""

    @classmethod
    def typical(cls, knobs: int, weight: float) -> Settings:
        """What holds without data; ``weight`` is a logarithm."""
        return cls(np.full(knobs, weight), _NOISE_MEAN, weight)

    def penalty(self) -> float:
        """Minus the logarithm of the prior."""
        weights = ((self.weights - self.typical_weight) / _WEIGHT_SPREAD) ** 2
        noise = ((self.noise - _NOISE_MEAN) / _NOISE_SPREAD) ** 2
        return 0.5 * float(weights.sum() + noise)


class GaussianProcess:
    """The posterior for some rows and standardized targets."""

    def __init__(self, metric: Metric, rows: Rows, targets: Floats, settings: Settings) -> None:
        self._metric = metric
        weights = np.exp(settings.weights)
        self._form = metric.form(weights)
        self._known = metric.features(rows)
        distance = (self._known @ self._form) @ self._known.T
        kernel = covariance(distance.astype(np.float64))
        kernel[np.diag_indices_from(kernel)] = 1.0 + np.exp(settings.noise) + _JITTER
        self._root = np.linalg.inv(np.linalg.cholesky(kernel))
        self._alpha = self._root.T @ (self._root @ targets)

    def predict(self, features: Features) -> tuple[Floats, Floats]:
        """Mean and standard deviation at each row of features."""
        distance = features @ (self._known @ self._form).T
        cross = covariance(distance)
        mean = cross @ self._alpha
        half = cross @ self._root.T.astype(np.float32)
        variance = 1.0 - np.einsum("ij,ij->i", half, half)
        return mean.astype(np.float64), np.sqrt(np.maximum(variance, 1e-10)).astype(np.float64)


def loss(by_knob: Floats, targets: Floats, settings: Settings) -> float:
    """Minus the logarithm of likelihood times prior."""
    kernel = covariance(np.tensordot(np.exp(settings.weights), by_knob, axes=1))
    kernel[np.diag_indices_from(kernel)] = 1.0 + np.exp(settings.noise) + _JITTER
    try:
        lower = np.linalg.cholesky(kernel)
    except np.linalg.LinAlgError:
        return float("inf")
    half = np.linalg.solve(lower, targets)
    fit = 0.5 * float(half @ half) + float(np.log(np.diag(lower)).sum())
    return fit + settings.penalty()


def fit(
    by_knob: Floats, targets: Floats, settings: Settings, rng: np.random.Generator, steps: int
) -> Settings:
    """Better settings, if ``steps`` random changes lead to any; a few at each trial do."""
    lowest = loss(by_knob, targets, settings)
    for step in range(steps):
        weights, noise = settings.weights.copy(), settings.noise
        if step % 2:
            weights += rng.normal(0.0, 0.3, len(weights))
        else:
            weights[rng.integers(len(weights))] += rng.normal(0.0, 1.0)
        if step % 4 == 3:
            noise += rng.normal(0.0, 0.7)
        tried = Settings(weights, noise, settings.typical_weight)
        found = loss(by_knob, targets, tried)
        if found < lowest:
            lowest, settings = found, tried
    return settings
