"""Neighbour transfer: a search learns from what was measured for a near problem.

A job takes the results of the most similar job in the store, their configs projected into its own
space and their cycles relative to the textbook config's (:func:`source_of`). The sampler decides
how far to believe them.

The searches of a workload set also take configs from each other while they run (:class:`Relative`).
There a config is judged by its gain
over the textbook config on every problem it was tried on, similar problems counting most: one that
helped a single layer is tried on those like it, and its gain there decides whether it is tried on
the rest. To have something to hand on, each search of a set without a near job begins near its best
known config, with changes of one knob, other ones in each: random configs of the space are seldom
better than a textbook's, and no search of a set has the trials to find the few that are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from tuner.codegen import starts_of
from tuner.executor.baselines import is_foreign
from tuner.keeping.store import TrialStore, problem_distance
from tuner.kernels import Kernel
from tuner.problem.workload import Problem
from tuner.records.trial import Job, Trial
from tuner.search.samplers import Source
from tuner.space import Config, Space

ORIGIN = "transfer"
_LEAST_KNOWN, _MOST_KNOWN = 10, 100
"""Results of a job that is learned from: fewer say too little, more cost too much time."""
_JOBS = 3
"""Near jobs that are looked at: the first may have no textbook config."""
TEXTBOOK = "textbook"
"""The origin of the baseline trial, which all others are compared with."""
NEIGHBOUR = "neighbour"
"""The origin of a trial that changes one knob of the best before it."""
_LEAST_GAIN = 0.01
"""Less than a hundredth is not worth a trial elsewhere. Gains are logarithms of speed-ups."""
_CUT_OFF = -math.log(2)
"""Counted as the gain of a config that was cut off or failed."""
_DOUBT = 0.25
"""The weight of a prior gain of zero: that of one problem at distance 1."""


def source_of(store: TrialStore, job: Job, kernel: Kernel, space: Space) -> Source | None:
    """What ``job`` learns from; ``None`` if it asks for nothing, or no job is near.

    The same on every call: only trials stored when the job was submitted count. Their cycles are
    those that ``job`` ranks by.
    """
    if not job.spec.transfer:
        return None
    near = store.near_jobs(
        job.spec,
        before=job.created_at,
        least=_LEAST_KNOWN,
        most=_JOBS,
        audience=job.submission.audience,
    )
    own = starts_of(job.spec.generator, kernel, job.spec.problem)
    for past in near:
        cycles = {
            t.config: t.measurement.ranked_cycles(job.spec.prefer)
            for t in store.trials(past.id)
            if t.measurement and t.finished_at <= job.created_at and not is_foreign(t.origin)
        }
        textbook = starts_of(past.spec.generator, kernel, past.spec.problem)[TEXTBOOK]
        if textbook in cycles:
            projected = partial(project, space, default=own["default"])
            return source_for(cycles, textbook, own[TEXTBOOK], projected)
    return None


def source_for(
    cycles: Mapping[Config, int],
    textbook: Config,
    own: Config,
    projected: Callable[[Config], Config],
) -> Source:
    """What another search measured, for one whose textbook config is ``own``: ``projected`` gives
    the nearest config of its space. Of many results it is the better half, and others evenly."""
    ranked = sorted(cycles, key=lambda config: cycles[config])
    half = _MOST_KNOWN // 2
    rest = ranked[half:]
    some = [*ranked[:half], *rest[:: max(1, math.ceil(len(rest) / half))]]
    results: dict[Config, float] = {}
    for config in some:
        results.setdefault(projected(config), cycles[config] / cycles[textbook])
    return Source(own, tuple(results.items()))


def project(space: Space, config: Config, default: Config) -> Config:
    """The config of ``space`` nearest to ``config`` of another space.

    Knobs that ``config`` lacks are as in ``default``.
    """
    wanted = {**default.as_dict(), **config.as_dict()}
    return space.nearest_config(wanted, numbers_by_ratio=True)


@dataclass
class Relative:
    """One search of a set. ``default`` is the default config of its space."""

    job: str
    problem: Problem
    space: Space
    default: Config
    _gains: dict[Config, float] = field(default_factory=dict)
    _numbers: dict[Config, int] = field(default_factory=dict)
    _projected: dict[Config, Config] = field(default_factory=dict)

    def learn(self, trials: Sequence[Trial]) -> None:
        """``trials`` are all so far. Without a valid textbook trial they teach nothing."""
        textbook = next((t.measurement for t in trials if t.origin == TEXTBOOK), None)
        if textbook is None:
            return
        for trial in trials:
            cycles = trial.measurement.cycles if trial.measurement else None
            self._gains[trial.config] = math.log(textbook.cycles / cycles) if cycles else _CUT_OFF
            self._numbers.setdefault(trial.config, trial.number)

    @property
    def gained(self) -> dict[Config, str]:
        """The configs that gained something here, with the origin they have elsewhere."""
        return {
            config: f"{ORIGIN}:{self.job}-{self._numbers[config]}"
            for config, gain in self._gains.items()
            if gain > _LEAST_GAIN
        }

    @property
    def trials(self) -> int:
        """The number of trials it has learned from."""
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
        """The gain here of a ``config`` of another space; ``None`` if it was not tried."""
        return self._gains.get(self.own(config))


def proposals(relative: Relative, others: Iterable[Relative]) -> list[tuple[Config, str]]:
    """The configs found by ``others`` that ``relative`` is to try, with origins, the most promising
    first; without those it has tried."""
    family = list(others)
    weights = [1.0 / (1.0 + problem_distance(one.problem, relative.problem)) ** 2 for one in family]
    found: dict[Config, tuple[float, str]] = {}
    for one in family:
        for config, origin in one.gained.items():
            own = relative.own(config)
            if own in found or relative.gain(config) is not None:
                continue
            gain = _expected_gain(config, family, weights)
            if gain > _LEAST_GAIN:
                found[own] = gain, origin
    ranked = sorted(found.items(), key=lambda item: -item[1][0])
    return [(config, origin) for config, (_, origin) in ranked]


def _expected_gain(config: Config, family: list[Relative], weights: list[float]) -> float:
    """The weighted mean of the gains known."""
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
