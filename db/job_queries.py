"""Jobs and their trials in pages, and each job's standing, counted by the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select, tuple_
from sqlalchemy.orm import Session

from db.claims import is_held
from db.models import (
    JobRow,
    MeasurementRow,
    ProblemRow,
    PromotionRow,
    TargetRow,
    TrialRow,
    WorkloadRow,
)
from db.owner import Owner
from db.promotions import promotions_of
from db.records import trial_record
from db.sql_store import SqlStore
from db.summary import JobSummary, summaries_of
from tuner.contract import Contract
from tuner.outcome import Outcome
from tuner.promotion import Promotion
from tuner.trial import JobState, Trial

_BATCH = 500
"""Trials read at once for an export: what it holds in memory."""


@dataclass(frozen=True)
class JobFilters:
    """Which jobs are meant; ``None`` means all."""

    state: JobState | None = None
    kernel: str | None = None
    target: str | None = None
    contract: Contract | None = None
    user: str | None = None
    batch: str | None = None
    interrupted: bool | None = None


@dataclass(frozen=True)
class JobStanding:
    """A job's summary with the cycles of its first two trials, for comparison."""

    summary: JobSummary
    default_cycles: int | None
    textbook_cycles: int | None


@dataclass(frozen=True)
class KeyTrials:
    """The trials of a job that people look at first."""

    default: Trial | None
    textbook: Trial | None
    best: Trial | None


@dataclass(frozen=True)
class ConductorAtWork:
    """A process and the jobs it works on."""

    owner: Owner
    jobs: tuple[str, ...]


def jobs_page(
    store: SqlStore, filters: JobFilters, before: tuple[float, str] | None, limit: int
) -> list[JobStanding]:
    """At most ``limit`` jobs, newest first, older than the one made at ``before`` (time, id)."""
    with store.reading() as session:
        wanted = select(JobRow).order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit)
        if before is not None:
            wanted = wanted.where(tuple_(JobRow.created_at, JobRow.id) < before)
        wanted = _filtered(session, wanted, filters)
        return _standings(session, session.scalars(wanted).all())


def _filtered(session: Session, wanted: Select[JobRow], filters: JobFilters) -> Select[JobRow]:
    columns: Mapping[str, ColumnElement[Any] | Any] = {
        "state": JobRow.state,
        "kernel": WorkloadRow.kernel,
        "target": TargetRow.name,
        "contract": ProblemRow.contract,
        "user": JobRow.submitted_by,
        "batch": JobRow.batch_id,
    }
    given = {f.name: getattr(filters, f.name) for f in fields(filters)}
    if any(given[name] is not None for name in ("kernel", "target", "contract")):
        wanted = (
            wanted.join(ProblemRow, JobRow.problem_id == ProblemRow.id)
            .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
            .join(TargetRow, ProblemRow.target_id == TargetRow.id)
        )
    for name, column in columns.items():
        if given[name] is not None:
            wanted = wanted.where(column == given[name])
    if filters.interrupted is not None:
        among = JobRow.id.in_(_interrupted(session))
        wanted = wanted.where(among if filters.interrupted else ~among)
    return wanted


def _interrupted(session: Session) -> list[str]:
    """The jobs that run and have no living owner: only this machine can tell, not the database.
    There are no more running jobs than slots of conductors."""
    running = session.scalars(select(JobRow).where(JobRow.state == JobState.RUNNING))
    return [row.id for row in running if not is_held(row)]


def job_standing(store: SqlStore, job_id: str) -> JobStanding:
    """One job; ``UserError`` if there is none."""
    found = store.job(job_id).id
    with store.reading() as session:
        return _standings(session, [session.get_one(JobRow, found)])[0]


def _standings(session: Session, rows: Sequence[JobRow]) -> list[JobStanding]:
    """In two more queries, however many jobs they are."""
    first = (
        select(TrialRow.job_id, TrialRow.origin, func.min(MeasurementRow.cycles))
        .join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id.in_([row.id for row in rows]))
        .where(TrialRow.origin.in_(("default", "textbook")))
        .group_by(TrialRow.job_id, TrialRow.origin)
    )
    cycles = {(job_id, origin): least for job_id, origin, least in session.execute(first)}
    return [
        JobStanding(summary, cycles.get((row.id, "default")), cycles.get((row.id, "textbook")))
        for row, summary in zip(rows, summaries_of(session, rows), strict=True)
    ]


def key_trials(store: SqlStore, job_id: str) -> KeyTrials:
    """Default, textbook and best trial of a job (its whole id), those that are there."""
    finished = select(TrialRow).where(TrialRow.job_id == job_id, TrialRow.outcome.is_not(None))
    best = (
        finished.join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .order_by(MeasurementRow.cycles, TrialRow.number)
        .limit(1)
    )
    with store.reading() as session:

        def first(wanted: Select[TrialRow]) -> Trial | None:
            row = session.scalars(wanted).first()
            return None if row is None else trial_record(row)

        def seed(origin: str) -> Trial | None:
            return first(finished.where(TrialRow.origin == origin).order_by(TrialRow.number))

        return KeyTrials(seed("default"), seed("textbook"), first(best))


def trials_page(
    store: SqlStore, job_id: str, outcome: Outcome | None, after: int, limit: int
) -> list[Trial]:
    """At most ``limit`` finished trials of a job (its whole id) with numbers above ``after``."""
    wanted = (
        select(TrialRow)
        .where(TrialRow.job_id == job_id, TrialRow.number > after)
        .order_by(TrialRow.number)
        .limit(limit)
    )
    is_meant = TrialRow.outcome.is_not(None) if outcome is None else TrialRow.outcome == outcome
    with store.reading() as session:
        return [trial_record(row) for row in session.scalars(wanted.where(is_meant))]


def each_trial(store: SqlStore, job_id: str, outcome: Outcome | None) -> Iterator[Trial]:
    """All of them, a few at a time in memory."""
    after = -1
    while batch := trials_page(store, job_id, outcome, after, _BATCH):
        yield from batch
        after = batch[-1].number


def conductors_at_work(store: SqlStore) -> list[ConductorAtWork]:
    """The processes that hold jobs now, here and elsewhere."""
    with store.reading() as session:
        running = session.scalars(select(JobRow).where(JobRow.state == JobState.RUNNING)).all()
        jobs: dict[Owner, list[str]] = {}
        for summary in summaries_of(session, running):
            if summary.owner is not None:
                jobs.setdefault(summary.owner, []).append(summary.job.id)
    return [ConductorAtWork(owner, tuple(sorted(held))) for owner, held in jobs.items()]


@dataclass(frozen=True)
class PromotedTrials:
    """The trials of a job that were promoted, and what became of that, both by number."""

    trials: Sequence[Trial]
    promotions: Sequence[Promotion]


def promoted_trials(store: SqlStore, job_id: str) -> PromotedTrials:
    """Those of the job with exactly this id."""
    wanted = (
        select(TrialRow)
        .join(
            PromotionRow,
            (PromotionRow.job_id == TrialRow.job_id)
            & (PromotionRow.trial_number == TrialRow.number),
        )
        .where(TrialRow.job_id == job_id)
        .order_by(TrialRow.number)
    )
    with store.reading() as session:
        trials = [trial_record(row) for row in session.scalars(wanted)]
        return PromotedTrials(trials, promotions_of(session, job_id))
