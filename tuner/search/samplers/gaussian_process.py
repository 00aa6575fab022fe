"""Gaussian-process regression over configs, small and quick enough to be fitted at every trial.

The covariance of two configs falls with the weighted sum of how far apart they are in each knob:
by rank for an ordered knob, same or not for a categorical one. Weights (how much a knob matters)
are fitted to the data; how strongly is what separates this from nearest neighbours.
"""

from __future__ import annotations

import math
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
_JITTER, _DRAW_JITTER = 1e-6, 1e-5
_FIRST_LENGTH, _LENGTHS = 0.3, (0.01, 0.6)
_LONGER, _SHORTER = 1.3, 0.5
_BOUNDS = (-9.0, 6.0)
"""Of the steps of a fit, and of the logarithms fitted."""


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

    def penalty_slope(self) -> Floats:
        """The slope of :meth:`penalty` in each weight and in the noise."""
        weights = (self.weights - self.typical_weight) / _WEIGHT_SPREAD**2
        return np.append(weights, (self.noise - _NOISE_MEAN) / _NOISE_SPREAD**2)


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

    def draw(
        self, features: Features, draws: int, rng: np.random.Generator, wider: float
    ) -> Floats:
        """``draws`` joint draws (rows) of the values at each row of features (columns).

        Deviations from the mean are ``wider`` times those of the posterior.
        """
        weighted = features @ self._form
        cross = covariance((weighted @ self._known.T).astype(np.float64))
        half = cross @ self._root.T
        joint = covariance((weighted @ features.T).astype(np.float64)) - half @ half.T
        noise = rng.standard_normal((draws, len(features)))
        return np.asarray(cross @ self._alpha + wider * (noise @ _root_of(joint).T))


def _root_of(joint: Floats) -> Floats:
    """A matrix whose product with its transpose is ``joint``, which rounding may have spoilt."""
    joint[np.diag_indices_from(joint)] += _DRAW_JITTER
    try:
        return np.asarray(np.linalg.cholesky(joint))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(joint)  # takes ten times as long
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def loss_and_slope(by_knob: Floats, targets: Floats, settings: Settings) -> tuple[float, Floats]:
    """Minus the logarithm of likelihood times prior, and its slope in each setting.

    Rasmussen and Williams 2006, equations 5.8 and 5.9. Infinite where rounding makes the
    covariance no covariance.
    """
    weights = np.exp(settings.weights)
    distance = np.tensordot(weights, by_knob, axes=1)
    root = np.sqrt(5.0 * np.maximum(distance, 0.0))
    decay = np.exp(-root)
    kernel = (1.0 + root + root * root / 3.0) * decay
    noise = math.exp(settings.noise)
    kernel[np.diag_indices_from(kernel)] = 1.0 + noise + _JITTER
    try:
        half = np.linalg.inv(np.linalg.cholesky(kernel))
    except np.linalg.LinAlgError:
        return math.inf, np.zeros(len(weights) + 1)
    inverse = half.T @ half
    alpha = inverse @ targets
    value = 0.5 * float(targets @ alpha) - float(np.log(np.diag(half)).sum())
    misfit = inverse - np.outer(alpha, alpha)
    # Of the covariance by the squared distance: -5/6 (1 + root) exp(-root).
    by_distance = misfit * ((-5.0 / 6.0) * (1.0 + root) * decay)
    slope = 0.5 * weights * (by_knob.reshape(len(weights), -1) @ by_distance.ravel())
    by_noise = 0.5 * noise * float(np.trace(misfit))
    return value + settings.penalty(), np.append(slope, by_noise) + settings.penalty_slope()


class Fitter:
    """Settings that follow the data: some steps downhill each time there is more of it.

    Steps go by the signs of the slope alone (Riedmiller and Braun 1993, resilient propagation):
    what is most likely moves little from trial to trial, and lengths of steps are remembered.
    """

    def __init__(self, knobs: int, typical_weight: float) -> None:
        self.settings = Settings.typical(knobs, typical_weight)
        self._lengths = np.full(knobs + 1, _FIRST_LENGTH)
        self._signs = np.zeros(knobs + 1)

    def fit(self, by_knob: Floats, targets: Floats, steps: int) -> Settings:
        """The best settings met in ``steps`` steps from those of the last time."""
        tried = lowest = self.settings
        least = math.inf
        for step in range(steps + 1):
            value, slope = loss_and_slope(by_knob, targets, tried)
            if value < least:
                least, lowest = value, tried
            if step == steps or not math.isfinite(value):
                break
            tried = self._moved(tried, np.sign(slope))
        self.settings = lowest
        return lowest

    def _moved(self, settings: Settings, signs: Floats) -> Settings:
        turned = signs * self._signs
        self._lengths *= np.where(turned > 0, _LONGER, np.where(turned < 0, _SHORTER, 1.0))
        self._lengths = np.clip(self._lengths, *_LENGTHS)
        self._signs = signs
        moves = self._lengths * signs
        return Settings(
            np.clip(settings.weights - moves[:-1], *_BOUNDS),
            float(np.clip(settings.noise - moves[-1], *_BOUNDS)),
            settings.typical_weight,
        )
