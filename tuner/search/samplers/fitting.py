"""Settings of a Gaussian process, fitted to what is known of some configs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tuner.search.samplers.metric import Floats, Pairs
from tuner.search.samplers.triangles import inverse_root

_WEIGHT_SPREAD = 1.3
_NOISE_MEAN, _NOISE_SPREAD = -5.0, 1.5
"""Priors of the logarithms."""
_BALANCE_SPREAD = 1.0
"""Prior of the log odds of the two terms of the covariance; the mean is even odds."""
JITTER = 1e-6
"""Added to the diagonal of a covariance: rounding must not make it singular."""
_FIRST_LENGTH, _LENGTHS = 0.3, (0.01, 0.6)
_LONGER, _SHORTER = 1.3, 0.5
_BOUNDS = (-9.0, 6.0)
"""Of the steps of a fit, and of the logarithms fitted."""


@dataclass
class Settings:
    """What is fitted: logarithms of the weights of the knobs and of the noise, and the mix."""

    weights: Floats
    noise: float
    balance: float
    """Log odds of the sum over knobs against the product."""
    typical_weight: float
    """The mean of the prior of weights."""

    @classmethod
    def typical(cls, knobs: int, weight: float) -> Settings:
        """What holds without data; ``weight`` is a logarithm."""
        return cls(np.full(knobs, weight), _NOISE_MEAN, 0.0, weight)

    @property
    def main_share(self) -> float:
        """The part of the variance that is a sum over the knobs."""
        return 1.0 / (1.0 + math.exp(-self.balance))

    @property
    def shares(self) -> Floats:
        """What part each knob has in that sum: what matters in the one term does in the other."""
        weights = np.exp(self.weights)
        return np.asarray(weights / weights.sum())

    def moved(self, moves: Floats) -> Settings:
        """These less ``moves`` (weights, noise, balance), within bounds."""
        return Settings(
            np.clip(self.weights - moves[:-2], *_BOUNDS),
            float(np.clip(self.noise - moves[-2], *_BOUNDS)),
            float(np.clip(self.balance - moves[-1], *_BOUNDS)),
            self.typical_weight,
        )

    def penalty(self) -> float:
        """Minus the logarithm of the prior."""
        return 0.5 * float((self._from_prior() ** 2).sum())

    def penalty_slope(self) -> Floats:
        """The slope of :meth:`penalty` in each weight, in the noise and in the balance."""
        return np.asarray(self._from_prior() / self._spreads())

    def _from_prior(self) -> Floats:
        away = [*(self.weights - self.typical_weight), self.noise - _NOISE_MEAN, self.balance]
        return np.asarray(np.array(away) / self._spreads())

    def _spreads(self) -> Floats:
        weights = [_WEIGHT_SPREAD] * len(self.weights)
        return np.array([*weights, _NOISE_SPREAD, _BALANCE_SPREAD])


def loss_and_slope(pairs: Pairs, targets: Floats, settings: Settings) -> tuple[float, Floats]:
    """Minus the logarithm of likelihood times prior, and its slope in each setting.

    Rasmussen and Williams 2006, equations 5.8 and 5.9. Infinite where rounding makes the covariance
    no covariance.
    """
    weights, shares, main_share = np.exp(settings.weights), settings.shares, settings.main_share
    root = np.sqrt(5.0 * (weights @ pairs.distances))
    decay = np.exp(-root)
    product = (1.0 + root + root * root / 3.0) * decay
    apart = shares @ pairs.mains - product
    noise = math.exp(settings.noise)
    kernel = np.zeros((pairs.rows, pairs.rows))
    kernel[pairs.later, pairs.earlier] = product + main_share * apart
    kernel[np.diag_indices_from(kernel)] = 1.0 + noise + JITTER
    try:
        half = inverse_root(kernel)
    except np.linalg.LinAlgError:
        return math.inf, np.zeros(len(weights) + 2)
    inverse = half.T @ half
    alpha = inverse @ targets
    value = 0.5 * float(targets @ alpha) - float(np.log(np.diag(half)).sum())
    # Both triangles count; on the diagonal distances and what the terms differ in are nothing.
    misfit = 2.0 * (inverse[pairs.later, pairs.earlier] - alpha[pairs.later] * alpha[pairs.earlier])

    # Of the product by the squared distance: -5/6 (1 + root) exp(-root).
    by_distance = misfit * ((-5.0 / 6.0) * (1.0 + root) * decay)
    by_weight = weights * (pairs.distances @ by_distance)
    by_share = pairs.mains @ misfit
    by_share = shares * (by_share - shares @ by_share)
    by_noise = noise * float(np.trace(inverse) - alpha @ alpha)
    by_balance = main_share * (1.0 - main_share) * float(apart @ misfit)
    by_weight = (1.0 - main_share) * by_weight + main_share * by_share
    slope = 0.5 * np.append(by_weight, (by_noise, by_balance))
    return value + settings.penalty(), slope + settings.penalty_slope()


class Fitter:
    """Settings that follow the data: some steps downhill each time there is more of it.

    Steps go by the signs of the slope alone (Riedmiller and Braun 1993, resilient propagation):
    what is most likely moves little from trial to trial, and lengths of steps are remembered.
    """

    def __init__(self, knobs: int, typical_weight: float) -> None:
        self.settings = Settings.typical(knobs, typical_weight)
        self._lengths = np.full(knobs + 2, _FIRST_LENGTH)
        self._signs = np.zeros(knobs + 2)

    def fit(self, pairs: Pairs, targets: Floats, steps: int) -> Settings:
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
