"""Optuna's genetic algorithm for one goal or several."""

from __future__ import annotations

from typing import Any

from optuna.samplers import BaseSampler, NSGAIISampler

from tuner.search.samplers.sampler import Sampler
from tuner.space import Space

_POPULATION = 20
"""Optuna's 50 would spend most of a job's trials on the first, random generation."""


class _Resumable(NSGAIISampler):
    """Takes what earlier sessions found as its first generation, however much that is."""

    @property
    def replayed_notes(self) -> dict[str, int]:
        """Of the generation of trials that this sampler did not propose itself."""
        return {self._get_generation_key(): 0}


class Nsga2(Sampler):
    """NSGA-II; crossover and mutation work on the knobs of both kinds."""

    several_objectives = True

    def make(self, space: Space, seed: int) -> BaseSampler:
        return _Resumable(population_size=_POPULATION, seed=seed)

    def notes_of_replayed(self, made: BaseSampler) -> dict[str, Any]:
        return made.replayed_notes if isinstance(made, _Resumable) else {}
