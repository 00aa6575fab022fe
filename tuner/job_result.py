"""The result of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.best import lookup_of
from tuner.codegen import starts_of
from tuner.kernels import find_kernel
from tuner.objectives import figures_of, front_of
from tuner.records.trial import Job, Promotion, Schedule, Trial
from tuner.space import Config
from tuner.store import TrialStore


@dataclass(frozen=True)
class TuneResult:
    """The result of a job. ``default``, ``textbook`` and ``best`` are ``None`` where not reached.

    ``interrupted`` is true if the job was told to stop and can be resumed.
    """

    job: Job
    outcomes: Mapping[str, int]
    default: Trial | None
    textbook: Trial | None
    best: Trial | None
    schedule: Schedule | None
    interrupted: bool
    promoted: Sequence[Trial] = ()
    promotions: Sequence[Promotion] = ()
    """The promotions of the trials in ``promoted``."""
    pareto: Sequence[Trial] = ()
    """The trials that no other trial beats in every objective, the fastest first: ``best`` alone
    for a job with one objective."""


def result(job_id: str, store: TrialStore) -> TuneResult:
    """The result of a stored job so far."""
    job = store.job(job_id)
    trials = store.trials(job.id)
    promotions = store.promotions(job.id)
    problem = job.spec.problem
    kernel = find_kernel(problem.workload.kernel)
    starts = starts_of(job.spec.generator, kernel, problem)
    measured = [t for t in trials if t.measurement is not None]
    best = min(measured, key=lambda t: (t.measurement.cycles, t.number), default=None)  # type: ignore[union-attr]

    def trial_of(config: Config) -> Trial | None:
        return next((t for t in trials if t.config == config), None)

    return TuneResult(
        job=job,
        outcomes=Counter(t.outcome.value for t in trials),
        default=trial_of(starts["default"]),
        textbook=trial_of(starts["textbook"]),
        best=best,
        schedule=store.best(
            lookup_of(problem, cache=job.spec.cache, audience=job.submission.audience)
        ),
        interrupted=not job.state.ended,
        promoted=[trial for trial in trials if trial.number in {p.trial for p in promotions}],
        promotions=promotions,
        pareto=front_of(trials, lambda trial: figures_of(trial.measurement, job.spec.objectives)),
    )
