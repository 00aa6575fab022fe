"""Warm start: a job begins with what jobs on near problems found best.

Their configs are projected into the space of the new problem and tried first, before its default
and textbook configs: one of them is often near the best already. The samplers learn from them as
from any other trial.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.codegen import starts_of
from tuner.kernels import Kernel
from tuner.records.trial import Job, PastTrial
from tuner.space import Config, Space
from tuner.store import TrialStore

ORIGIN = "transfer"
_PROBLEMS, _EACH = 2, 4
"""Four configs, because the order of the best ones changes from shape to shape, and of two
problems, because the nearest may have been searched badly."""


def transferred(
    store: TrialStore, job: Job, kernel: Kernel, space: Space, *, improved: bool = False
) -> list[tuple[Config, str]]:
    """What ``job`` begins with, and the origin ``transfer:JOB-TRIAL`` of each; none if it says so.

    The same on every call: only what was stored when the job was submitted counts. With
    ``improved`` only what was faster than the textbook config of its own job does.
    """
    if not job.spec.transfer:
        return []
    past = store.near_trials(
        job.spec.problem,
        before=job.created_at,
        problems=_PROBLEMS,
        each=_EACH,
        cache=job.spec.cache,
        audience=job.submission.audience,
    )
    if improved:
        past = _before_textbook(past)
    default = starts_of(job.spec.generator, kernel, job.spec.problem)["default"]
    found: dict[Config, str] = {}
    for one in past:
        origin = f"{ORIGIN}:{one.job}-{one.trial.number}"
        found.setdefault(project(space, one.trial.config, default), origin)
    return list(found.items())


def _before_textbook(past: Sequence[PastTrial]) -> list[PastTrial]:
    """Of trials that are fastest first for each problem, those faster than a textbook config."""
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

    Knobs that ``config`` has not are as in ``default``.
    """
    wanted = {**default.as_dict(), **config.as_dict()}
    return space.nearest_config(wanted, numbers_by_ratio=True)
