"""Jobs and batches by what a person typed: an id, or the start of one."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.jobs.ids import as_typed
from db.models import BatchRow, JobRow
from db.records import batch_record
from tuner.keeping.store import pick_batch_id, pick_job_id
from tuner.records.batch import Batch

_SHOWN = 6
"""Ids that an error looks at: one more than it names."""


def find_job(session: Session, given: str) -> JobRow:
    """The job with the id, or the only one whose id begins with it; ``UserError`` without one."""
    start = as_typed(given)
    row = session.get(JobRow, start)
    if row is not None:
        return row
    alike = _jobs_alike(session, start)
    batches = [] if alike else _batches_alike(session, start)
    return session.get_one(JobRow, pick_job_id(start, alike or _jobs_alike(session, ""), batches))


def find_batch(session: Session, given: str) -> Batch:
    """The same of a batch."""
    start = as_typed(given)
    alike = _batches_alike(session, start)
    if start not in alike and len(alike) != 1:
        jobs = [] if alike else [id_ for id_ in _jobs_alike(session, start) if id_ == start]
        typed = start if alike or jobs else given
        pick_batch_id(typed, alike or _batches_alike(session, ""), jobs)
    return batch_of(session, start if start in alike else alike[0])


def batch_of(session: Session, batch_id: str) -> Batch:
    """The batch whose whole id is ``batch_id``, which jobs name."""
    return batch_record(session.get_one(BatchRow, batch_id))


def _jobs_alike(session: Session, start: str) -> Sequence[str]:
    """The newest jobs whose ids begin so."""
    newest = select(JobRow.id).order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(_SHOWN)
    return session.scalars(newest.where(JobRow.id.startswith(start, autoescape=True))).all()


def _batches_alike(session: Session, start: str) -> list[str]:
    """The newest batches whose ids begin so; the one of that very id first."""
    latest = (BatchRow.created_at.desc(), BatchRow.id.desc())
    newest = (
        select(BatchRow.id)
        .where(BatchRow.id.startswith(start, autoescape=True))
        .order_by((BatchRow.id == start).desc(), *latest)
        .limit(_SHOWN)
    )
    return list(session.scalars(newest))
