"""Uniformly random choices of each knob: the baseline every search must beat."""

from __future__ import annotations

from optuna.samplers import BaseSampler, RandomSampler

from tuner.space import Space

SEVERAL_GOALS = True


def make(space: Space, seed: int) -> BaseSampler:
    """Optuna's random sampler."""
    return RandomSampler(seed=seed)
