"""Gaussian-process regression over configs, small and quick enough to be fitted at every trial.

The covariance of two configs mixes two terms. One falls with the weighted sum of how far apart they
are in each knob: by rank for an ordered knob, same or not for a categorical one. The other is a sum
over the knobs (Duvenaud, Nickisch and Rasmussen 2011, additive Gaussian processes): the worth of a
choice whatever the others are shows in a few trials, long before any of them is repeated. The
weights (how much a knob matters) and the mix are fitted to the data.

Some of the rows may be results of another job, on a similar problem. Their covariance with the own
ones is multiplied by the correlation of both jobs (Bonilla, Chai and Williams 2007, multi-task
Gaussian processes), which is fitted, too: what does not agree with the own results tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tuner.search.samplers.points import INACTIVE, Rows
from tuner.space import Space

Floats = NDArray[np.float64]
Features = NDArray[np.float32]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
_Real = TypeVar("_Real", np.float32, np.float64)

_MAIN_DECAY = 2.0
"""By how much a knob's own term falls from one end of the knob to the other, a logarithm."""
_STEP = 0.1
"""Of the distance of an ordered knob, the share for being different at all: a size that divides
the extent and one that does not lie side by side."""
_WEIGHT_SPREAD = 1.3
_NOISE_MEAN, _NOISE_SPREAD = -5.0, 1.5
"""Priors of the logarithms."""
_BALANCE_SPREAD = 1.0
"""Prior of the log odds of the two terms of the covariance; the mean is even odds."""
_KINSHIP_MEAN, _KINSHIP_SPREAD = math.log(9.0), 2.0
"""Prior of the log odds of the correlation of two jobs; the mean is 0.9."""
_JITTER = 1e-6
"""Added to the diagonal of a covariance: rounding must not make it singular."""
_FIRST_LENGTH, _LENGTHS = 0.3, (0.01, 0.6)
_LONGER, _SHORTER = 1.3, 0.5
_BOUNDS = (-9.0, 6.0)
"""Of the steps of a fit, and of the logarithms fitted."""
_DRAW_JITTER = 1e-5
_WHOLE = 32
"""Rows of a triangle up to which NumPy's general inverse is as quick as halving."""


@dataclass(frozen=True)
class Pairwise:
    """Distances between all pairs of some configs, each pair once.

    ``later`` and ``earlier`` are the rows of a pair, shape (pairs,): the lower triangle of the
    matrix of all rows with all. ``distances`` and ``mains`` have shape (knobs, pairs): the squared
    distance in each knob, and the knob's own term of the covariance. ``across``, shape (pairs,),
    is 1 for a pair of two jobs, else 0.
    """

    rows: int
    later: Indices
    earlier: Indices
    distances: Floats
    mains: Floats
    across: Floats


@lru_cache(maxsize=256)
def _lower_triangle(rows: int) -> tuple[Indices, Indices]:
    return np.tril_indices(rows, -1)


class Metric:
    """Squared distances of configs in each knob, as a product of feature vectors.

    A row becomes one-hot features; the weighted distance of two rows is then a bilinear form of
    them, which BLAS does for all pairs at once.
    """

    def __init__(self, space: Space) -> None:
        self._sizes = np.array([len(knob.choices) + 1 for knob in space.knobs], np.intp)
        self._starts = np.cumsum([0, *self._sizes])
        self._blocks = [_distances(len(k.choices), ordered=k.ordered) for k in space.knobs]
        self._mains = [np.asarray(np.exp(-_MAIN_DECAY * block)) for block in self._blocks]
        self._tables = [
            np.concatenate([block.ravel() for block in blocks])
            for blocks in (self._blocks, self._mains)
        ]
        self._tables_starts = np.cumsum([0, *(self._sizes**2)])[:-1]

    def features(self, rows: Rows) -> Features:
        """One-hot features of each row."""
        found = np.zeros((len(rows), self._starts[-1]), np.float32)
        np.put_along_axis(found, self._places(rows) + self._starts[:-1], 1.0, axis=1)
        return found

    def _places(self, rows: Rows) -> Indices:
        """Where the choices are in the knobs' blocks; an inactive knob has the last place."""
        return np.where(rows == INACTIVE, self._sizes - 1, rows).astype(np.intp)

    def form(self, weights: Floats) -> Features:
        """The bilinear form for these weights, one a knob."""
        return self._form(weights, self._blocks)

    def main_form(self, shares: Floats) -> Features:
        """The bilinear form of the sum of the knobs' own terms, each with its share."""
        return self._form(shares, self._mains)

    def _form(self, factors: Floats, blocks: Sequence[Floats]) -> Features:
        form = np.zeros((self._starts[-1], self._starts[-1]), np.float32)
        for block, start, size, factor in zip(
            blocks, self._starts, self._sizes, factors, strict=False
        ):
            form[start : start + size, start : start + size] = factor * block
        return form

    def pairs(self, rows: Rows, others: Mask | None = None) -> Pairwise:
        """The distances between all pairs of rows; ``others`` marks those of another job."""
        later, earlier = _lower_triangle(len(rows))
        places = self._places(rows).T
        starts = (places * self._sizes[:, None] + self._tables_starts[:, None])[:, later]
        entries = starts + places[:, earlier]
        distances, mains = (table[entries] for table in self._tables)
        marked = np.zeros(len(rows), bool) if others is None else others
        across = (marked[later] != marked[earlier]).astype(np.float64)
        return Pairwise(len(rows), later, earlier, distances, mains, across)


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


@dataclass
class Settings:
    """The fitted settings: logarithms of the knobs' weights and of the noise, the mix, and the
    correlation with another job."""

    weights: Floats
    noise: float
    balance: float
    """Log odds of the sum over knobs against the product."""
    kinship: float
    """Log odds of the correlation of two jobs."""
    typical_weight: float
    """The mean of the prior of weights."""

    @classmethod
    def typical(cls, knobs: int, weight: float) -> Settings:
        """The settings without data; ``weight`` is a logarithm."""
        return cls(np.full(knobs, weight), _NOISE_MEAN, 0.0, _KINSHIP_MEAN, weight)

    @property
    def main_share(self) -> float:
        """The part of the variance that is a sum over the knobs."""
        return 1.0 / (1.0 + math.exp(-self.balance))

    @property
    def correlation(self) -> float:
        """Of the results of two jobs, 0 to 1."""
        return 1.0 / (1.0 + math.exp(-self.kinship))

    @property
    def shares(self) -> Floats:
        """Each knob's part of that sum: a knob that matters in one term matters in the other."""
        weights = np.exp(self.weights)
        return np.asarray(weights / weights.sum())

    def moved(self, moves: Floats) -> Settings:
        """These less ``moves`` (weights, noise, balance, kinship), within bounds."""
        moved = np.clip(self._fitted() - moves, *_BOUNDS)
        noise, balance, kinship = map(float, moved[-3:])
        return Settings(moved[:-3], noise, balance, kinship, self.typical_weight)

    def penalty(self) -> float:
        """Minus the logarithm of the prior."""
        return 0.5 * float((self._from_prior() ** 2).sum())

    def penalty_slope(self) -> Floats:
        """The slope of :meth:`penalty` in all that is fitted, in the order of :meth:`moved`."""
        return np.asarray(self._from_prior() / self._spreads())

    def _fitted(self) -> Floats:
        return np.array([*self.weights, self.noise, self.balance, self.kinship])

    def _from_prior(self) -> Floats:
        weights = [self.typical_weight] * len(self.weights)
        means = np.array([*weights, _NOISE_MEAN, 0.0, _KINSHIP_MEAN])
        return np.asarray((self._fitted() - means) / self._spreads())

    def _spreads(self) -> Floats:
        weights = [_WEIGHT_SPREAD] * len(self.weights)
        return np.array([*weights, _NOISE_SPREAD, _BALANCE_SPREAD, _KINSHIP_SPREAD])


def loss_and_slope(pairs: Pairwise, targets: Floats, settings: Settings) -> tuple[float, Floats]:
    """Minus the logarithm of likelihood times prior, and its slope in each setting.

    Rasmussen and Williams 2006, equations 5.8 and 5.9. Infinite where rounding leaves the
    covariance not positive definite.
    """
    weights, shares, main_share = np.exp(settings.weights), settings.shares, settings.main_share
    root = np.sqrt(5.0 * (weights @ pairs.distances))
    decay = np.exp(-root)
    product = (1.0 + root + root * root / 3.0) * decay
    apart = shares @ pairs.mains - product
    noise = math.exp(settings.noise)
    correlation = settings.correlation
    related = 1.0 - (1.0 - correlation) * pairs.across
    own = product + main_share * apart
    kernel = np.zeros((pairs.rows, pairs.rows))
    kernel[pairs.later, pairs.earlier] = related * own
    kernel[np.diag_indices_from(kernel)] = 1.0 + noise + _JITTER
    try:
        half = inverse_root(kernel)
    except np.linalg.LinAlgError:
        return math.inf, np.zeros(len(weights) + 3)
    inverse = half.T @ half
    alpha = inverse @ targets
    value = 0.5 * float(targets @ alpha) - float(np.log(np.diag(half)).sum())
    # Both triangles count; on the diagonal distances and what the terms differ in are nothing.
    misfit = 2.0 * (inverse[pairs.later, pairs.earlier] - alpha[pairs.later] * alpha[pairs.earlier])
    by_kinship = correlation * (1.0 - correlation) * float((pairs.across * own) @ misfit)
    misfit *= related

    # Of the product by the squared distance: -5/6 (1 + root) exp(-root).
    by_distance = misfit * ((-5.0 / 6.0) * (1.0 + root) * decay)
    by_weight = weights * (pairs.distances @ by_distance)
    by_share = pairs.mains @ misfit
    by_share = shares * (by_share - shares @ by_share)
    by_noise = noise * float(np.trace(inverse) - alpha @ alpha)
    by_balance = main_share * (1.0 - main_share) * float(apart @ misfit)
    by_weight = (1.0 - main_share) * by_weight + main_share * by_share
    slope = 0.5 * np.append(by_weight, (by_noise, by_balance, by_kinship))
    return value + settings.penalty(), slope + settings.penalty_slope()


class Fitter:
    """Settings that follow the data: some steps downhill each time there is more of it.

    Steps go by the signs of the slope alone (Riedmiller and Braun 1993, resilient propagation):
    the optimum moves little from trial to trial, and lengths of steps are remembered.
    """

    def __init__(self, knobs: int, typical_weight: float) -> None:
        self.settings = Settings.typical(knobs, typical_weight)
        self._lengths = np.full(knobs + 3, _FIRST_LENGTH)
        self._signs = np.zeros(knobs + 3)

    def fit(self, pairs: Pairwise, targets: Floats, steps: int) -> Settings:
        """The best settings met in ``steps`` steps from those of the last time."""
        tried = lowest = self.settings
        least = math.inf
        for step in range(steps + 1):
            value, slope = loss_and_slope(pairs, targets, tried)
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
        return settings.moved(self._lengths * signs)


def covariance(distance: NDArray[_Real]) -> NDArray[_Real]:
    """Matérn 5/2 of squared distances (Rasmussen and Williams 2006, equation 4.17)."""
    root = np.sqrt(5.0 * np.maximum(distance, 0.0), dtype=distance.dtype)
    return np.asarray((1.0 + root + root * root / 3.0) * np.exp(-root), distance.dtype)


class GaussianProcess:
    """The posterior for some rows and standardized targets.

    Rows beyond the targets count as measured at what is expected of them: that leaves the mean
    where it is everywhere, and takes from the deviation. ``others`` marks rows of another job.
    """

    def __init__(
        self,
        metric: Metric,
        rows: Rows,
        targets: Floats,
        settings: Settings,
        others: Mask | None = None,
    ) -> None:
        self._form = metric.form(np.exp(settings.weights))
        self._mixed = 1.0 - settings.main_share
        self._main_form = metric.main_form(settings.main_share * settings.shares)
        self._known = metric.features(rows)
        self._related = np.ones(len(rows), np.float32)
        kernel = self._covariance(self._known, self._known).astype(np.float64)
        if others is not None:
            self._related[others] = settings.correlation
            kernel[others[:, None] != others] *= settings.correlation
        kernel[np.diag_indices_from(kernel)] = 1.0 + np.exp(settings.noise) + _JITTER
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
        cross = self._covariance(features, self._known) * self._related
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
        cross = (self._covariance(features, self._known) * self._related).astype(np.float64)
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


def inverse_root(covariance: Floats) -> Floats:
    """The inverse of the lower Cholesky factor of a covariance, whose lower triangle alone is read.
    Raises ``LinAlgError`` if rounding left it not positive definite."""
    return lower_inverse(np.asarray(np.linalg.cholesky(covariance)))


def lower_inverse(lower: Floats) -> Floats:
    """The inverse of a lower triangular matrix, shape (n, n), by halves (Higham 2002, *Accuracy and
    Stability of Numerical Algorithms*, section 14.2): a third of the time of NumPy's general
    inverse, which is all it has for triangles."""
    rows = len(lower)
    if rows <= _WHOLE:
        return np.asarray(np.linalg.inv(lower))
    half = rows // 2
    found = np.zeros_like(lower)
    found[:half, :half] = first = lower_inverse(lower[:half, :half])
    found[half:, half:] = last = lower_inverse(lower[half:, half:])
    found[half:, :half] = -(last @ (lower[half:, :half] @ first))
    return found
