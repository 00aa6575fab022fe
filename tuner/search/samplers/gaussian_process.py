"""Gaussian-process regression over configs, small and quick enough to be fitted at every trial.

The covariance of two configs mixes two terms. One falls with the weighted sum of how far apart they
are in each knob: by rank for an ordered knob, same or not for a categorical one. The other is a sum
over the knobs (Duvenaud, Nickisch and Rasmussen 2011, additive Gaussian processes): what a choice
is worth whatever the others are shows in a few trials, long before any of them is repeated. Weights
(how much a knob matters) and the mix are fitted to the data; how strongly is what separates this
from nearest neighbours.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tuner.search.samplers.fitting import JITTER, Settings
from tuner.search.samplers.metric import Features, Floats, Metric
from tuner.search.samplers.points import Rows
from tuner.search.samplers.triangles import inverse_root

_Real = TypeVar("_Real", np.float32, np.float64)

_DRAW_JITTER = 1e-5


def covariance(distance: NDArray[_Real]) -> NDArray[_Real]:
    """Matérn 5/2 of squared distances (Rasmussen and Williams 2006, equation 4.17)."""
    root = np.sqrt(5.0 * np.maximum(distance, 0.0), dtype=distance.dtype)
    return np.asarray((1.0 + root + root * root / 3.0) * np.exp(-root), distance.dtype)


class GaussianProcess:
    """The posterior for some rows and standardized targets.

    Rows beyond the targets count as measured at what is expected of them: that leaves the mean
    where it is everywhere, and takes from the deviation.
    """

    def __init__(self, metric: Metric, rows: Rows, targets: Floats, settings: Settings) -> None:
        self._form = metric.form(np.exp(settings.weights))
        self._mixed = 1.0 - settings.main_share
        self._main_form = metric.main_form(settings.main_share * settings.shares)
        self._known = metric.features(rows)
        kernel = self._covariance(self._known, self._known).astype(np.float64)
        kernel[np.diag_indices_from(kernel)] = 1.0 + np.exp(settings.noise) + JITTER
        self._root = inverse_root(kernel)
        told = self._root[: len(targets), : len(targets)]
        self._alpha = np.zeros(len(rows))
        self._alpha[: len(targets)] = told.T @ (told @ targets)

    def _covariance(self, one: Features, other: Features) -> Features:
        """Of each row of the one with each row of the other, without noise."""
        found = covariance(one @ (other @ self._form).T)
        found *= np.float32(self._mixed)
        found += one @ (other @ self._main_form).T
        return found

    def predict(self, features: Features) -> tuple[Floats, Floats]:
        """Mean and standard deviation at each row of features."""
        cross = self._covariance(features, self._known)
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
        cross = self._covariance(features, self._known).astype(np.float64)
        half = cross @ self._root.T
        joint = self._covariance(features, features).astype(np.float64) - half @ half.T
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
