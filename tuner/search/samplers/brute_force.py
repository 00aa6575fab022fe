"""Every valid config of a space, once."""

from __future__ import annotations

from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from tuner.search.samplers.points import ConfigSampler
from tuner.search.samplers.sampler import Sampler, SpaceExhaustedError
from tuner.space import Config, Space


class BruteForceSampler(ConfigSampler):
    """Walks a space in the order of its knobs and choices.

    Unlike ``optuna.samplers.BruteForceSampler`` it knows the constraints, so it never proposes
    an invalid config, and it raises ``SpaceExhaustedError`` at the end.
    """

    def __init__(self, space: Space) -> None:
        super().__init__(space, seed=0)
        self._configs = iter(space)

    def next_config(self, study: Study, trial: FrozenTrial) -> Config:
        for config in self._configs:
            return config
        raise SpaceExhaustedError


class BruteForce(Sampler):
    """The walk; the seed does not matter to it."""

    several_objectives = True
    walks_all = True

    def make(self, space: Space, seed: int) -> BaseSampler:
        return BruteForceSampler(space)
