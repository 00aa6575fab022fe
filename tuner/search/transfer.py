"""Warm start: a job begins with what jobs on near problems found best.

Their configs are projected into the space of the new problem and tried first, before its default
and textbook configs: one of them is often near the best already. The samplers learn from them as
from any other trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.candidate import Problem
from tuner.codegen import starts_of
from tuner.kernels import Kernel
from tuner.kernels.settle import settle
from tuner.space import Config, Space
from tuner.store import TrialStore, problem_distance
from tuner.trial import Job, Trial

ORIGIN = "transfer"
_PROBLEMS, _EACH = 2, 4
"""Four configs, because the order of the best ones changes from shape to shape, and of two
problems, because the nearest may have been searched badly."""


def transferred(
    store: TrialStore, job: Job, kernel: Kernel, space: Space
) -> list[tuple[Config, str]]:
    """What ``job`` begins with, and the origin ``transfer:JOB-TRIAL`` of each; none if it says so.

    The same on every call: only what was stored when the job was submitted counts.
    """
    if not job.spec.transfer:
        return []
    past = store.near_trials(
        job.spec.problem,
        before=job.created_at,
        problems=_PROBLEMS,
        each=_EACH,
        cache=job.spec.cache,
    )
    default = starts_of(job.spec.generator, kernel, job.spec.problem)["default"]
    found: dict[Config, str] = {}
    for one in past:
        origin = f"{ORIGIN}:{one.job}-{one.trial.number}"
        found.setdefault(project(space, one.trial.config, default), origin)
    return list(found.items())


@dataclass(frozen=True)
class Relative:
    """A search for another problem of the same kernel, and the best it has found so far."""

    job: str
    problem: Problem
    trial: Trial
    speedup: float
    """Of ``trial`` against the textbook config of its problem."""

    @property
    def origin(self) -> str:
        """What a trial says that takes the config over."""
        return f"{ORIGIN}:{self.job}-{self.trial.number}"


def of_relatives(
    relatives: Iterable[Relative], problem: Problem, space: Space, default: Config
) -> list[tuple[Config, str]]:
    """What others found better than their textbook, in ``space``, with origins.

    First what gains most, discounted by how unlike the problems are.
    """

    def promise(one: Relative) -> float:
        return math.log(one.speedup) / (1.0 + problem_distance(one.problem, problem))

    better = sorted((one for one in relatives if one.speedup > 1), key=promise, reverse=True)
    found: dict[Config, str] = {}
    for one in better:
        found.setdefault(project(space, one.trial.config, default), one.origin)
    return list(found.items())


def project(space: Space, config: Config, default: Config) -> Config:
    """The config of ``space`` nearest to ``config`` of another space.

    Knobs that ``config`` has not are as in ``default``.
    """
    return settle(space, {**default.as_dict(), **config.as_dict()}, nearest=True)
