"""What a user has used of what tokens limit by the day."""

from __future__ import annotations

from sqlalchemy import func, select

from db.models import JobRow, TrialRow
from db.service_models import PipelineRow
from db.sql_store import SqlStore

Use = list[tuple[float, int]]
"""Unix time and amount of each use, oldest first."""


def trials_asked_for(store: SqlStore, user: str, since: float) -> Use:
    """The trials that each job which ``user`` submitted since then may take: its budget, or for
    a job that is limited only by time or patience, the trials that it has made so far."""
    made = (
        select(func.count())
        .select_from(TrialRow)
        .where(TrialRow.job_id == JobRow.id)
        .scalar_subquery()
    )
    wanted = (
        select(JobRow.created_at, func.coalesce(JobRow.budget_trials, made))
        .where(JobRow.submitted_by == user, JobRow.created_at > since)
        .order_by(JobRow.created_at)
    )
    with store.reading() as session:
        return [(at, trials) for at, trials in session.execute(wanted)]


def bytes_uploaded(store: SqlStore, user: str, since: float) -> Use:
    """The pipelines that ``user`` uploaded since then."""
    wanted = (
        select(PipelineRow.created_at, PipelineRow.upload_bytes)
        .where(PipelineRow.submitted_by == user, PipelineRow.created_at > since)
        .order_by(PipelineRow.created_at)
    )
    with store.reading() as session:
        return [(at, size) for at, size in session.execute(wanted)]
