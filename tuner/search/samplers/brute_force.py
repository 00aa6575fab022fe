"""Every valid config of a space, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from tuner.search.encoding import distributions, encode
from tuner.search.samplers.sampler import Sampler, SpaceExhaustedError
from tuner.space import Config, Space


class BruteForceSampler(BaseSampler):
    """Walks a space in the order of its knobs and choices.

    Unlike ``optuna.samplers.BruteForceSampler`` it knows the constraints, so it never proposes
    an invalid config, and it says when it is through by raising ``SpaceExhaustedError``.
    """

    def __init__(self, space: Space) -> None:
        self._configs: Iterator[Config] = iter(space)
        self._space = space
        self._fallback = RandomSampler(seed=0)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return distributions(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if trial.system_attrs.get("fixed_params"):
            return {}
        for config in self._configs:
            return encode(self._space, config)
        raise SpaceExhaustedError

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self._fallback.sample_independent(study, trial, param_name, param_distribution)


class BruteForce(Sampler):
    """The walk; the seed does not matter to it."""

    several_objectives = True
    walks_all = True

    def make(self, space: Space, seed: int) -> BaseSampler:
        return BruteForceSampler(space)
