"""Optuna's tree-structured Parzen estimator."""

from __future__ import annotations

import warnings

import optuna
from optuna.samplers import BaseSampler, TPESampler

from tuner.search.samplers.sampler import Sampler
from tuner.space import Space


class Tpe(Sampler):
    """TPE over knobs jointly, aware of candidates in flight.

    ``multivariate`` because knobs interact (a tile and its unroll); ``group`` because knobs come
    and go with their conditions; ``constant_liar`` because several candidates are in flight.
    """

    several_objectives = True

    def make(self, space: Space, seed: int) -> BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)
