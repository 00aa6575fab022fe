"""Neighbour transfer: a search begins with the best configs found for near problems.

Their configs are projected into the space of the new problem and tried first, before its default
and textbook configs: one of them is often near the best already. The samplers learn from them as
from any other trial.

A job takes them from the store, of jobs that ended before. The searches of a workload set also
take them from each other while they run (:class:`Relative`). There a config is judged by its gain
over the textbook config on every problem it was tried on, similar problems counting most: one that
helped a single layer is tried on those like it, and its gain there decides whether it is tried on
the rest. To have something to hand on, each search of a set begins near its best known config,
with changes of one knob, other ones in each: random configs of the space are seldom better than a
textbook's, and no search of a set has the trials to find the few that are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random

from tuner.codegen import starts_of
from tuner.executor.baselines import is_foreign
from tuner.keeping.store import TrialStore, problem_distance
from tuner.kernels import Kernel
from tuner.problem.workload import Problem
from tuner.records.trial import Job, PastTrial, Trial
from tuner.space import Config, Space

ORIGIN = "transfer"
_PROBLEMS, _EACH = 2, 4
"""Four configs, because the order of the best ones changes from shape to shape, and of two
problems, because the nearest may have been searched badly."""
_LOOKED_AT = 32
"""Trials of a problem that the four are chosen from."""
_APART = 3
"""Knobs in which they differ from each other, at least. The four fastest are often one schedule but
for a knob: where that is not near the best here, they cost four trials and taught the search what
one would have."""
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


def transferred(
    store: TrialStore, job: Job, kernel: Kernel, space: Space, *, improved: bool = False
) -> list[tuple[Config, str]]:
    """The stored configs that ``job`` begins with, and the origin ``transfer:JOB-TRIAL`` of each;
    none if the job asks for none.

    The same on every call: only trials stored when the job was submitted count, and with
    ``improved`` only those faster than the textbook config of their own job.
    """
    if not job.spec.transfer:
        return []
    past = store.near_trials(
        job.spec.problem,
        before=job.created_at,
        problems=_PROBLEMS,
        each=_LOOKED_AT,
        cache=job.spec.cache,
        audience=job.submission.audience,
        prefer=job.spec.prefer,
    )
    if improved:
        past = _before_textbook(past)
    default = starts_of(job.spec.generator, kernel, job.spec.problem)["default"]
    found: dict[Config, str] = {}
    for _, trials in groupby(past, key=lambda one: one.problem.digest):
        own: dict[Config, str] = {}
        for one in trials:
            if not is_foreign(one.trial.origin):
                config = project(space, one.trial.config, default)
                own.setdefault(config, f"{ORIGIN}:{one.job}-{one.trial.number}")
        chosen = unlike([*own], found)
        found |= {config: own[config] for config in chosen}
    return list(found.items())


def unlike(ranked: Sequence[Config], taken: Iterable[Config] = ()) -> list[Config]:
    """The first few of ``ranked`` that are well apart from each other and from those ``taken``."""
    before, found = list(taken), list[Config]()
    for config in ranked:
        if len(found) < _EACH and all(_differing(config, o) >= _APART for o in (*before, *found)):
            found.append(config)
    return found


def _differing(one: Config, other: Config) -> int:
    return sum(one.get(name) != other.get(name) for name in one.keys() | other.keys())


def _before_textbook(past: Sequence[PastTrial]) -> list[PastTrial]:
    """Of trials sorted fastest first for each problem, those faster than a textbook config."""
    kept: list[PastTrial] = []
    reached: set[str] = set()
    for one in past:
        if one.trial.origin == "textbook":
            reached.add(one.problem.digest)
        elif one.problem.digest not in reached:
            kept.append(one)
    return kept


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
