"""Optuna's genetic algorithm for one goal or several."""

from __future__ import annotations

from optuna.samplers import BaseSampler, NSGAIISampler

from tuner.space import Space

SEVERAL_GOALS = True
_POPULATION = 20
"""Optuna's 50 would spend most of a job's trials on the first, random generation."""


class _Resumable(NSGAIISampler):
    """What earlier sessions found is its first generation, however much that is."""

    @property
    def replayed_notes(self) -> dict[str, int]:
        """Of the generation of trials that this sampler did not propose itself."""
        return {self._get_generation_key(): 0}


def make(space: Space, seed: int) -> BaseSampler:
    """NSGA-II; crossover and mutation work on the knobs of both kinds."""
    return _Resumable(population_size=_POPULATION, seed=seed)
