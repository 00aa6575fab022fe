"""What jobs on near problems found best, for jobs that begin with it."""

from __future__ import annotations

from sqlalchemy import case, select
from sqlalchemy.orm import Session

from db.models import JobRow, MeasurementRow, ProblemRow, TrialRow, WorkloadRow
from db.records import problem_record, trial_record
from tuner.records.candidate import FIDELITIES, CacheState, Problem
from tuner.records.trial import PastTrial
from tuner.store import fastest_of, problem_distance

_MOST_TRIALS = 8
"""So many times the trials wanted are read of a problem: repeats of a config count once."""


def near(
    session: Session,
    problem: Problem,
    before: float,
    problems: int,
    each: int,
    cache: CacheState,
    audience: str,
) -> list[PastTrial]:
    """:meth:`tuner.store.TrialStore.near_trials`."""
    found: list[list[PastTrial]] = []
    for row_id, other in _tuned(session, problem):
        fastest = fastest_of(_trials(session, row_id, other, before, each, cache, audience), each)
        if fastest:
            found.append(fastest)
        if len(found) == problems:
            break
    return [past for fastest in found for past in fastest]


def _tuned(session: Session, problem: Problem) -> list[tuple[int, Problem]]:
    """Every other problem of the kernel that there is a job for, nearest first."""
    workload = problem.workload
    wanted = (
        select(ProblemRow)
        .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        .where(WorkloadRow.kernel == workload.kernel, WorkloadRow.version == workload.version)
        .where(ProblemRow.digest != problem.digest)
        .where(ProblemRow.id.in_(select(JobRow.problem_id)))
    )
    others = [(row.id, problem_record(row)) for row in session.scalars(wanted)]
    others.sort(key=lambda pair: (problem_distance(pair[1], problem), pair[1].digest))
    return others


def _trials(
    session: Session,
    row_id: int,
    problem: Problem,
    before: float,
    each: int,
    cache: CacheState,
    audience: str,
) -> list[PastTrial]:
    rank = case({f: i for i, f in enumerate(FIDELITIES)}, value=MeasurementRow.fidelity)
    wanted = (
        select(TrialRow)
        .join(JobRow, TrialRow.job_id == JobRow.id)
        .join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(JobRow.problem_id == row_id, MeasurementRow.cache == cache)
        .where(JobRow.audience.in_(("", audience)))
        .where(TrialRow.finished_at <= before)
        .order_by(rank.desc(), MeasurementRow.cycles, TrialRow.job_id, TrialRow.number)
        .limit(_MOST_TRIALS * each)
    )
    return [PastTrial(row.job_id, problem, trial_record(row)) for row in session.scalars(wanted)]
