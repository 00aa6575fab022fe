"""Searches for several problems of one kernel, side by side: what one found, the others try.

A config is judged by what it gained against the textbook config on every problem it was tried on,
problems alike counting most. One that helped a single layer is tried on those like it; how it fares
there decides whether it is tried on the rest. So that there is something to hand on, each search
begins near the best it knows, with changes of one knob, other ones in each: what is anywhere in the
space is seldom better than a textbook, and no search of a set has the trials to find it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from tuner.records.candidate import Problem
from tuner.records.trial import Trial
from tuner.search.transfer import ORIGIN, project
from tuner.space import Config, Space
from tuner.store import problem_distance

TEXTBOOK = "textbook"
"""The origin of the trial that all others are compared with."""
NEIGHBOUR = "neighbour"
"""The origin of a trial that changes one knob of the best before it."""
_LEAST_GAIN = 0.01
"""Less than a hundredth is not worth a trial elsewhere. Gains are logarithms of speed-ups."""
_CUT_OFF = -math.log(2)
"""Counted as the gain of a config that was cut off or failed."""
_DOUBT = 0.25
"""How much a gain of zero is expected beforehand: as if a problem had shown it whose distance is
1."""


@dataclass
class Relative:
    """One of the searches. ``default`` is the default config of its space."""

    job: str
    problem: Problem
    space: Space
    default: Config
    _gains: dict[Config, float] = field(default_factory=dict)
    _numbers: dict[Config, int] = field(default_factory=dict)
    _projected: dict[Config, Config] = field(default_factory=dict)

    def learn(self, trials: Sequence[Trial]) -> None:
        """``trials`` are all so far. Without a valid one of the textbook they teach nothing."""
        textbook = next((t.measurement for t in trials if t.origin == TEXTBOOK), None)
        if textbook is None:
            return
        for trial in trials:
            cycles = trial.measurement.cycles if trial.measurement else None
            self._gains[trial.config] = math.log(textbook.cycles / cycles) if cycles else _CUT_OFF
            self._numbers.setdefault(trial.config, trial.number)

    @property
    def gained(self) -> dict[Config, str]:
        """The configs that gained something here, and their origin for others."""
        return {
            config: f"{ORIGIN}:{self.job}-{self._numbers[config]}"
            for config, gain in self._gains.items()
            if gain > _LEAST_GAIN
        }

    @property
    def trials(self) -> int:
        """How many it has learned from."""
        return len(self._gains)

    @property
    def best(self) -> Config | None:
        """The config that gained most, the textbook one if none gained anything."""
        return max(self._gains, key=lambda config: self._gains[config], default=None)

    def own(self, config: Config) -> Config:
        """The config of this space nearest to ``config`` of another."""
        if config not in self._projected:
            self._projected[config] = project(self.space, config, self.default)
        return self._projected[config]

    def gain(self, config: Config) -> float | None:
        """What a ``config`` of another space gained in this one; ``None`` if it was not tried."""
        return self._gains.get(self.own(config))


def proposals(relative: Relative, others: Iterable[Relative]) -> list[tuple[Config, str]]:
    """What ``relative`` is to try of what ``others`` found, with origins, the most promising first.

    What it has tried itself is left out.
    """
    family = list(others)
    weights = [1.0 / (1.0 + problem_distance(one.problem, relative.problem)) ** 2 for one in family]
    found: dict[Config, tuple[float, str]] = {}
    for one in family:
        for config, origin in one.gained.items():
            own = relative.own(config)
            if own in found or relative.gain(config) is not None:
                continue
            promise = _promise(config, family, weights)
            if promise > _LEAST_GAIN:
                found[own] = promise, origin
    ranked = sorted(found.items(), key=lambda item: -item[1][0])
    return [(config, origin) for config, (_, origin) in ranked]


def _promise(config: Config, family: list[Relative], weights: list[float]) -> float:
    """The gain to expect: the weighted mean of those known."""
    total, weight_sum = 0.0, _DOUBT
    for one, weight in zip(family, weights, strict=True):
        gain = one.gain(config)
        if gain is not None:
            total += weight * gain
            weight_sum += weight
    return total / weight_sum


def moves(relative: Relative) -> list[tuple[Config, str]]:
    """Changes of one knob of the best config, in an order of the search's own, not tried yet."""
    best = relative.best
    if best is None:
        return []
    near = {
        relative.space.nearest_config({**best, knob.name: choice})
        for knob in relative.space.walk(best)
        for choice in knob.choices
        if choice != best[knob.name]
    }
    fresh = sorted((c for c in near if relative.gain(c) is None), key=lambda c: c.digest)
    Random(relative.job).shuffle(fresh)  # noqa: S311 - a search, not a secret
    return [(config, NEIGHBOUR) for config in fresh]
