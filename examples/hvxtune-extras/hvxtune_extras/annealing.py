"""Simulated annealing: changes one knob at a time, and accepts worse configs ever more rarely."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tuner.search.encoding import distributions
from tuner.search.samplers import Sampler
from tuner.space import Space

_FIRST_TEMPERATURE = 0.3
"""At first a config 1.35 times as slow (exp 0.3) is accepted with probability 1/e."""
_COOLING = 0.95
"""Of the temperature, at each result: after 60 the same chance is left to one 1.4 % slower."""


class Annealing(Sampler):
    """Simulated annealing over the knobs of a space (Kirkpatrick et al., *Science* 220, 1983)."""

    def make(self, space: Space, seed: int) -> BaseSampler:
        return _AnnealingSampler(space, seed)


class _AnnealingSampler(BaseSampler):
    """Follows the walk through the study's results anew at each proposal.

    So it needs no state of its own: a resumed job, whose study is rebuilt from its trials, goes on
    where it was.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._distributions = distributions(space)
        self._seed = seed
        self._choice = Random(seed)
        self._random = RandomSampler(seed=seed)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """All knobs of the current config but one.

        That one is drawn by :meth:`sample_independent`, and with it knobs that it activates.
        """
        current = self._current(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        if not current:
            return {}
        changed = self._choice.choice(sorted(current))
        return {name: value for name, value in current.items() if name != changed}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def _current(self, results: list[FrozenTrial]) -> dict[str, Any]:
        """The parameters of the config at which the walk through ``results`` stands."""
        luck, temperature = Random(self._seed), _FIRST_TEMPERATURE
        params: dict[str, Any] = {}
        cycles = math.inf
        for trial in results:
            found = trial.values[0]
            chance = math.exp(min(0.0, math.log(cycles / found) / temperature))
            if luck.random() < chance:
                params, cycles = trial.params, found
            temperature *= _COOLING
        return params
