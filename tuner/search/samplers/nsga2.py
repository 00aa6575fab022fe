"""Optuna's genetic algorithm, here with one objective."""

from __future__ import annotations

from optuna.samplers import BaseSampler, NSGAIISampler

from tuner.space import Space

_POPULATION = 20
"""Optuna's 50 would spend most of a job's trials on the first, random generation."""


def make(space: Space, seed: int) -> BaseSampler:
    """NSGA-II; crossover and mutation work on the knobs of both kinds."""
    return NSGAIISampler(population_size=_POPULATION, seed=seed)
