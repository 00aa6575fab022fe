"""Hill climbing with random restarts: one knob at a time, downhill."""

from __future__ import annotations

import numpy as np
from optuna.samplers import BaseSampler

from tuner.search.samplers.points import History, PointSampler
from tuner.search.samplers.sampler import Sampler
from tuner.space import Space


class HillClimbingSampler(PointSampler):
    """Proposes configs that differ in the fewest knobs from the best of the climb.

    It moves as soon as one is better. Once all that differ in one knob (or two: a constraint can
    tie knobs together) have been tried, the climb is over and the next begins anywhere.
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._rng = np.random.default_rng(seed)
        self._first = 0
        """Number of the first trial of this climb."""

    def choose(self, history: History) -> int | None:
        climb = [
            (cycles, row)
            for cycles, row, number in zip(
                history.cycles, history.done, history.numbers, strict=True
            )
            if number >= self._first
        ]
        best = min(climb)[1] if climb else None
        self._points.grow([] if best is None else [best])
        free = np.ones(len(self._points.rows), bool)
        free[history.seen] = False
        if not free.any():
            return None
        if best is not None:
            away = self._points.differences(best)
            nearest = int(away[free].min())
            if nearest <= 2:
                return int(self._rng.choice(np.flatnonzero(free & (away == nearest))))
            self._first = max(history.numbers) + 1
        return int(self._rng.choice(np.flatnonzero(free)))


class HillClimbing(Sampler):
    """Hill climbing over the valid configs of a space."""

    def make(self, space: Space, seed: int) -> BaseSampler:
        return HillClimbingSampler(space, seed)
