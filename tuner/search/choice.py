"""The schedule that a job which prefers a robust one ends in."""

from __future__ import annotations

from tuner.keeping.store import TrialStore
from tuner.records.trial import Job, Schedule
from tuner.search.doubt import Doubt, doubt_of


def robust_schedule(job: Job, store: TrialStore) -> Schedule | None:
    """The most robust of the stored trials of ``job``, or the fastest where that cannot be told;
    ``None`` if it prefers the fastest anyway, or has no valid trial.

    It is offered when the job ends, not before: a later choice may take more cycles at the model's
    own costs than an earlier one, and stores keep what takes fewer.
    """
    if job.spec.prefer != "robust":
        return None
    counted = store.counted_trials(job.id)
    if not counted:
        return None
    found = doubt_of(counted, job.spec.problem.target, prefer="robust")
    fastest = min(counted, key=lambda one: (one.cycles, one.number))
    number = found.trial if isinstance(found, Doubt) else fastest.number
    trial = next(one for one in store.trials(job.id) if one.number == number)
    assert trial.measurement is not None  # noqa: S101 - it was counted
    artifact = store.artifact(str(trial.artifact_digest))
    return Schedule(
        problem=job.spec.problem,
        config=trial.config,
        generator=job.spec.generator,
        measurement=trial.measurement,
        artifact_digest=artifact.digest,
        symbol=artifact.symbol,
        provenance=job.provenance(trial.number, trial.finished_at),
    )
