"""Uniformly random choices of each knob: the baseline every search must beat."""

from __future__ import annotations

from optuna.samplers import BaseSampler, RandomSampler

from tuner.search.samplers.sampler import Sampler
from tuner.space import Space


class Random(Sampler):
    """Optuna's random sampler."""

    several_objectives = True

    def make(self, space: Space, seed: int) -> BaseSampler:
        return RandomSampler(seed=seed)
