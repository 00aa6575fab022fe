"""Optuna's own samplers, set up for the spaces of schedules."""

from __future__ import annotations

import importlib.util
import random
import warnings

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, CmaEsSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from tuner.errors import ToolchainError, UserError
from tuner.search.encoding import distributions
from tuner.search.samplers.sampler import Sampler
from tuner.space import Space

_LEAST_KNOBS = 2
"""CMA-ES adapts a covariance; one knob has none."""
_LOOKED_AT = 200
"""Sampled configs that show CMA-ES which knobs are always active."""


class Random(Sampler):
    """Uniformly random choices of each knob: the baseline every search must beat."""

    several_objectives = True

    def make(self, space: Space, seed: int) -> BaseSampler:
        return RandomSampler(seed=seed)


class Tpe(Sampler):
    """The tree-structured Parzen estimator over knobs jointly, aware of candidates in flight.

    ``multivariate`` because knobs interact (a tile and its unroll); ``group`` because knobs come
    and go with their conditions; ``constant_liar`` because several candidates are in flight.
    """

    several_objectives = True

    def make(self, space: Space, seed: int) -> BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)


class CmaEs(Sampler):
    """CMA-ES over the ordered knobs, TPE over the others; needs the package ``cmaes``."""

    def require_fits(self, space: Space) -> None:
        """``UserError`` for too few ordered knobs, ``ToolchainError`` without cmaes."""
        if importlib.util.find_spec("cmaes") is None:
            raise ToolchainError(
                "the sampler cmaes needs the Python package 'cmaes', which is missing",
                next_step="run `pip install cmaes` in the environment of hvxtune, "
                "or install hvxtune[cmaes]",
            )
        ordered = len(_always_ordered(space))
        if ordered < _LEAST_KNOBS:
            raise UserError(
                f"the sampler cmaes does not fit {space.kernel}: "
                f"of its knobs {ordered} are ordered and in every config",
                accepted=f"a space with at least {_LEAST_KNOBS} such knobs",
                next_step="choose another sampler, or a single generator such as halide: "
                "those of a portfolio have few knobs in common",
            )

    def make(self, space: Space, seed: int) -> BaseSampler:
        self.require_fits(space)
        return _OrderedKnobs(_always_ordered(space), space, seed)


class _OrderedKnobs(CmaEsSampler):
    """CMA-ES in the same dimensions throughout: it gives up for good where they change."""

    def __init__(self, ordered: dict[str, BaseDistribution], space: Space, seed: int) -> None:
        super().__init__(
            seed=seed, independent_sampler=Tpe().make(space, seed), warn_independent_sampling=False
        )
        self._ordered = ordered

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._ordered


def _always_ordered(space: Space) -> dict[str, BaseDistribution]:
    """The ordered knobs that every config looked at has."""
    drawn = random.Random(0)  # noqa: S311 - a search, not a secret
    configs = [space.sample(drawn) for _ in range(_LOOKED_AT)]
    every = distributions(space)
    return {
        knob.name: every[knob.name]
        for knob in space.knobs
        if knob.ordered and knob.name in every and all(knob.name in c for c in configs)
    }
