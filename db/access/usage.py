"""A user's recent use of what tokens limit by the day."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.audience import EVERYBODYS
from db.database import Database
from db.models import JobRow, TrialRow
from db.service_models import AuditRow, PipelineRow, TokenRow

Use = list[tuple[float, int]]
"""Unix time and amount of each use, oldest first."""

_ONE_OF_A_USER = 0x4876_7155
"""PostgreSQL: the advisory locks under which a user's use is read. SQLite has one writer."""


def _wait_for_others(session: Session, user: str) -> None:
    """Blocks other transactions that read the use of ``user`` until this one is committed, so that
    each decision counts everything accepted before it."""
    if session.get_bind().dialect.name == "postgresql":
        key = func.hashtext(user)
        session.execute(select(func.pg_advisory_xact_lock(_ONE_OF_A_USER, key)))


def trials_asked_for(database: Database, user: str, since: float) -> Use:
    """The trials of each job that ``user`` submitted since then: its budget, or for a job limited
    only by time or patience, the trials made so far."""
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
    with database.reading() as session:
        _wait_for_others(session, user)
        return [(at, trials) for at, trials in session.execute(wanted)]


def bytes_uploaded(database: Database, user: str, since: float) -> Use:
    """The bytes of pipelines that ``user`` uploaded since then, and by the audit those of files of
    schedules imported, of packages registered and of models read."""
    pipelines = (
        select(PipelineRow.created_at, PipelineRow.upload_bytes)
        .where(PipelineRow.submitted_by == user, PipelineRow.created_at > since)
        .execution_options(**EVERYBODYS)
    )
    others = (
        select(AuditRow.at, AuditRow.detail)
        .join(TokenRow, AuditRow.token_id == TokenRow.id)
        .where(AuditRow.action.in_(COUNTED), AuditRow.at > since, TokenRow.name == user)
    )
    with database.reading() as session:
        _wait_for_others(session, user)
        found = [(at, size) for at, size in session.execute(pipelines)]
        found += [(at, int(detail["bytes"])) for at, detail in session.execute(others)]
    return sorted(found)


IMPORT_ACTION, PACKAGE_ACTION, MODEL_ACTION = "schedule.import", "package.register", "model.read"
COUNTED = (IMPORT_ACTION, PACKAGE_ACTION, MODEL_ACTION)
"""The audit's names for what is sent here; their details have its size as ``bytes``."""
