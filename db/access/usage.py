"""What a user has used of what tokens limit by the day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.access.audience import EVERYBODYS
from db.models import JobRow, TrialRow
from db.service_models import AuditRow, PipelineRow, TokenRow

if TYPE_CHECKING:
    from db.sql_store import SqlStore

Use = list[tuple[float, int]]
"""Unix time and amount of each use, oldest first."""

_ONE_OF_A_USER = 0x4876_7155
"""PostgreSQL: the advisory locks under which the use of a user is read. SQLite has one writer."""


def _wait_for_others(session: Session, user: str) -> None:
    """Lets no other transaction read what ``user`` has used before this one is committed: what is
    refused or taken on in between is decided by all that was taken on before."""
    if session.get_bind().dialect.name == "postgresql":
        key = func.hashtext(user)
        session.execute(select(func.pg_advisory_xact_lock(_ONE_OF_A_USER, key)))


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
        .execution_options(**EVERYBODYS)  # private ones cost as much
    )
    with store.reading() as session:
        _wait_for_others(session, user)
        return [(at, trials) for at, trials in session.execute(wanted)]


def bytes_uploaded(store: SqlStore, user: str, since: float) -> Use:
    """The pipelines that ``user`` uploaded since then, and the files of schedules that were taken
    over: those the audit knows."""
    pipelines = (
        select(PipelineRow.created_at, PipelineRow.upload_bytes)
        .where(PipelineRow.submitted_by == user, PipelineRow.created_at > since)
        .execution_options(**EVERYBODYS)
    )
    imports = (
        select(AuditRow.at, AuditRow.detail)
        .join(TokenRow, AuditRow.token_id == TokenRow.id)
        .where(AuditRow.action == IMPORT_ACTION, AuditRow.at > since, TokenRow.name == user)
    )
    with store.reading() as session:
        _wait_for_others(session, user)
        found = [(at, size) for at, size in session.execute(pipelines)]
        found += [(at, int(detail["bytes"])) for at, detail in session.execute(imports)]
    return sorted(found)


IMPORT_ACTION = "schedule.import"
"""What the audit calls the taking over of a file, whose size its detail has as ``bytes``."""
