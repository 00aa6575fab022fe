"""Jobs as pages list and draw them: figures counted by the database, few queries for any number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy.orm import Session

from db.models import JobRow, MeasurementRow, ProblemRow, TargetRow, TrialRow, WorkloadRow
from db.records import trial_record
from db.sql_store import SqlStore
from db.summary import JobSummary, summaries_of
from tuner.contract import Contract
from tuner.outcome import Outcome
from tuner.trial import JobState, Trial

KNOWN_ORIGINS = ("default", "textbook")


@dataclass(frozen=True)
class JobFilter:
    """Which jobs; an empty field means all. ``state`` is a state or ``paused``."""

    state: str = ""
    kernel: str = ""
    target: str = ""
    contract: str = ""
    user: str = ""

    @property
    def any(self) -> bool:
        """Whether it leaves some jobs out."""
        return any((self.state, self.kernel, self.target, self.contract, self.user))


@dataclass(frozen=True)
class JobFigures:
    """A job with its counts, the cycles of its two known configs, and when its last trial ended.

    ``default_cycles`` and ``textbook_cycles`` are ``None`` until they are measured. Where both
    configs are the same there is one trial for them.
    """

    summary: JobSummary
    default_cycles: int | None
    textbook_cycles: int | None
    last_finished_at: float | None

    @property
    def rate_per_s(self) -> float | None:
        """Finished trials in a second of the job's wall time."""
        spent, finished = self.summary.job.spent_s, self.summary.finished
        return finished / spent if spent > 0 and finished else None

    @property
    def progress(self) -> float | None:
        """Share of the budget that is used: of trials or of seconds, whichever is nearer its end.
        ``None`` for a job that only patience ends."""
        budget = self.summary.job.spec.budget
        parts = []
        if budget.trials is not None:
            parts.append(self.summary.finished / budget.trials)
        if budget.seconds is not None:
            parts.append(self.summary.job.spent_s / budget.seconds)
        return min(1.0, max(parts)) if parts else None

    @property
    def eta_s(self) -> float | None:
        """Seconds to the end of the budget at the rate so far, for a running job."""
        job = self.summary.job
        if job.state is not JobState.RUNNING:
            return None
        left = []
        if job.spec.budget.trials is not None and self.rate_per_s:
            left.append((job.spec.budget.trials - self.summary.finished) / self.rate_per_s)
        if job.spec.budget.seconds is not None:
            left.append(job.spec.budget.seconds - job.spent_s)
        return max(0.0, min(left)) if left else None


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """A finished trial as a chart needs it; without ``cycles`` it was not measured."""

    number: int
    started_at: float
    finished_at: float
    cycles: int | None


def list_jobs(
    store: SqlStore, wanted: JobFilter, after: str = "", limit: int = 50
) -> tuple[list[JobFigures], bool]:
    """The newest jobs older than job ``after`` (all, if empty), and whether there are more."""
    with store.reading() as session:
        query = _filtered(select(JobRow), wanted)
        last = session.get(JobRow, after) if after else None
        if last is not None:
            query = query.where(
                or_(
                    JobRow.created_at < last.created_at,
                    and_(JobRow.created_at == last.created_at, JobRow.id < last.id),
                )
            )
        ordered = query.order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit + 1)
        rows = list(session.scalars(ordered))
        return _figures(session, rows[:limit]), len(rows) > limit


def job_figures(store: SqlStore, job_ids: Sequence[str]) -> list[JobFigures]:
    """The figures of these jobs, in the order given; unknown ids are left out."""
    with store.reading() as session:
        rows = {
            row.id: row for row in session.scalars(select(JobRow).where(JobRow.id.in_(job_ids)))
        }
        return _figures(session, [rows[job_id] for job_id in job_ids if job_id in rows])


def _filtered(query: Select[JobRow], wanted: JobFilter) -> Select[JobRow]:
    if wanted.state == "paused":
        query = query.where(JobRow.state == JobState.QUEUED, JobRow.paused.is_(True))
    elif wanted.state:
        query = query.where(JobRow.state == JobState(wanted.state))
        if wanted.state == JobState.QUEUED:
            query = query.where(JobRow.paused.is_(False))
    if wanted.user:
        query = query.where(JobRow.submitted_by == wanted.user)
    if wanted.kernel or wanted.target or wanted.contract:
        query = query.join(ProblemRow, JobRow.problem_id == ProblemRow.id)
    if wanted.kernel:
        query = query.join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        query = query.where(WorkloadRow.kernel == wanted.kernel)
    if wanted.target:
        query = query.join(TargetRow, ProblemRow.target_id == TargetRow.id)
        query = query.where(TargetRow.name == wanted.target)
    if wanted.contract:
        query = query.where(ProblemRow.contract == Contract(wanted.contract))
    return query


def _figures(session: Session, rows: Sequence[JobRow]) -> list[JobFigures]:
    ids = [row.id for row in rows]
    known: dict[tuple[str, str], int] = {}
    by_origin = (
        select(TrialRow.job_id, TrialRow.origin, func.min(MeasurementRow.cycles))
        .join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id.in_(ids), TrialRow.origin.in_(KNOWN_ORIGINS))
        .group_by(TrialRow.job_id, TrialRow.origin)
    )
    for job_id, origin, cycles in session.execute(by_origin):
        known[job_id, origin] = cycles
    latest = (
        select(TrialRow.job_id, func.max(TrialRow.finished_at))
        .where(TrialRow.job_id.in_(ids))
        .group_by(TrialRow.job_id)
    )
    last: dict[str, float | None] = {row[0]: row[1] for row in session.execute(latest)}
    return [
        JobFigures(
            summary,
            known.get((summary.job.id, "default")),
            known.get((summary.job.id, "textbook")),
            last.get(summary.job.id),
        )
        for summary in summaries_of(session, rows)
    ]


def trial_points(store: SqlStore, job_id: str) -> list[TrialPoint]:
    """Every finished trial of a job in the order in which they finished."""
    wanted = (
        select(
            TrialRow.number,
            TrialRow.started_at,
            TrialRow.finished_at,
            MeasurementRow.cycles,
        )
        .outerjoin(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id == job_id, TrialRow.outcome.is_not(None))
        .order_by(TrialRow.finished_at, TrialRow.number)
    )
    with store.reading() as session:
        return [TrialPoint(*row) for row in session.execute(wanted)]  # type: ignore[arg-type]


def list_trials(
    store: SqlStore,
    job_id: str,
    *,
    outcome: Outcome | None = None,
    by_cycles: bool = False,
    offset: int = 0,
    limit: int = 50,
) -> list[Trial]:
    """A page of a job's finished trials, the newest or the fastest first."""
    wanted = (
        select(TrialRow)
        .outerjoin(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id == job_id, TrialRow.outcome.is_not(None))
    )
    if outcome is not None:
        wanted = wanted.where(TrialRow.outcome == outcome)
    if by_cycles:
        wanted = wanted.order_by(
            MeasurementRow.cycles.is_(None), MeasurementRow.cycles, TrialRow.number
        )
    else:
        wanted = wanted.order_by(TrialRow.number.desc())
    with store.reading() as session:
        found = session.scalars(wanted.offset(offset).limit(limit))
        return [trial_record(row) for row in found]


def find_trial(store: SqlStore, job_id: str, number: int) -> Trial | None:
    """One finished trial of a job."""
    with store.reading() as session:
        row = session.get(TrialRow, (job_id, number))
        return None if row is None or row.outcome is None else trial_record(row)


def marked_trials(store: SqlStore, job_id: str) -> dict[str, Trial]:
    """The trials of the default and the textbook config and the fastest one, as far as there
    are: ``default``, ``textbook``, ``best``."""
    known = select(TrialRow).where(
        TrialRow.job_id == job_id,
        TrialRow.origin.in_(KNOWN_ORIGINS),
        TrialRow.outcome.is_not(None),
    )
    fastest = (
        select(TrialRow)
        .join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id == job_id)
        .order_by(MeasurementRow.cycles, TrialRow.number)
        .limit(1)
    )
    with store.reading() as session:
        found = {row.origin: trial_record(row) for row in session.scalars(known)}
        best = session.scalar(fastest)
        return found if best is None else {**found, "best": trial_record(best)}
