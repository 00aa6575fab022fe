"""Optuna's CMA-ES over the ordered knobs of a space; the other knobs are drawn by TPE."""

from __future__ import annotations

import importlib.util
from random import Random

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, CmaEsSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from tuner.errors import ToolchainError, UserError
from tuner.search.encoding import distributions
from tuner.search.samplers.sampler import Sampler
from tuner.search.samplers.tpe import Tpe
from tuner.space import Space

_LEAST_KNOBS = 2
"""CMA-ES adapts a covariance; there is none of one knob."""
_LOOKED_AT = 200
"""Configs by which it is told which knobs are always active."""


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


class CmaEs(Sampler):
    """CMA-ES over the ordered knobs; needs the package ``cmaes``."""

    def require_fits(self, space: Space) -> None:
        """``UserError`` for too few ordered knobs, ``ToolchainError`` without cmaes."""
        if importlib.util.find_spec("cmaes") is None:
            raise ToolchainError(
                "the sampler cmaes needs the Python package 'cmaes', which is missing",
                next_step="run `pip install cmaes` in the environment of hvxtune, "
                "or install hvxtune[cmaes]",
            )
        ordered = len(_ordered(space))
        if ordered < _LEAST_KNOBS:
            raise UserError(
                f"the sampler cmaes does not fit {space.kernel}: "
                f"of its knobs {ordered} are ordered and in every config",
                accepted=f"a space with at least {_LEAST_KNOBS} such knobs",
                next_step="choose another with --sampler",
            )

    def make(self, space: Space, seed: int) -> BaseSampler:
        self.require_fits(space)
        return _OrderedKnobs(_ordered(space), space, seed)


def _ordered(space: Space) -> dict[str, BaseDistribution]:
    """The ordered knobs that every config has; of a large space, every config looked at."""
    random = Random(0)  # noqa: S311 - a search, not a secret
    configs = [space.sample(random) for _ in range(_LOOKED_AT)]
    every = distributions(space)
    return {
        knob.name: every[knob.name]
        for knob in space.knobs
        if knob.ordered and knob.name in every and all(knob.name in c for c in configs)
    }
