"""Schedules that are never handed out: why, since when, and back again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import Select, delete, select, update
from sqlalchemy.orm import Session

from db.catalogue import rows_changed
from db.jobs.results import offer_schedule
from db.models import ScheduleRow
from db.schedules.next_best import next_best

if TYPE_CHECKING:
    from db.schedules.serving import ServingRow
    from db.sql_store import SqlStore


def quarantine_row(store: SqlStore, row: ServingRow, reason: str) -> bool:
    """Quarantines the schedule that was read as ``row``, unless it has been replaced since. The
    next best trial takes its place, if there is one."""
    with store.writing() as session:
        same = (
            select(ScheduleRow)
            .where(ScheduleRow.id == row.id, ScheduleRow.updated_at == row.updated_at)
            .where(ScheduleRow.artifact_digest == row.artifact_digest)
            .where(ScheduleRow.config_digest == row.config_digest)
            .where(ScheduleRow.quarantined_at.is_(None))
        )
        found = session.scalar(same)
        return found is not None and _withdraw(session, found, reason)


def quarantine(store: SqlStore, public_id: str, reason: str) -> bool:
    """Quarantines what clients know as ``public_id``; whether there is such a schedule. The next
    best trial takes its place, if there is one."""
    with store.writing() as session:
        found = session.scalars(_named(public_id)).all()
        for row in found:
            if row.quarantined_at is None:
                _withdraw(session, row, reason)
            else:
                _set(session, row, row.quarantined_at, reason)
        return bool(found)


def release(store: SqlStore, public_id: str) -> bool:
    """Lets a schedule be handed out again, if it is faster than what took its place; whether there
    is such a schedule."""
    with store.writing() as session:
        found = session.scalars(_named(public_id)).all()
        for row in found:
            if row.quarantined_at is not None:
                _bring_back(session, row)
        return bool(found)


def _named(public_id: str) -> Select[ScheduleRow]:
    return select(ScheduleRow).where(ScheduleRow.public_id == public_id)


def _withdraw(session: Session, row: ScheduleRow, reason: str) -> bool:
    """Sets ``row`` aside and offers the next best; whether nobody else did just now."""
    if not _set(session, row, time.time(), reason):
        return False
    other = next_best(session, row)
    if other is not None:
        offer_schedule(session, other)
    return True


def _bring_back(session: Session, row: ScheduleRow) -> None:
    instead = session.scalar(
        select(ScheduleRow)
        .where(ScheduleRow.problem_id == row.problem_id, ScheduleRow.fidelity == row.fidelity)
        .where(ScheduleRow.toolchain_id == row.toolchain_id)
        .where(ScheduleRow.audience == row.audience)
        .where(ScheduleRow.quarantined_at.is_(None))
    )
    if instead is None:
        _set(session, row, None, "")
        return
    faster = row if row.cycles < instead.cycles else instead
    slower = instead if faster is row else row
    session.execute(delete(ScheduleRow).where(ScheduleRow.id == slower.id))
    if faster is row:
        _set(session, row, None, "")


def _set(session: Session, row: ScheduleRow, since: float | None, reason: str) -> bool:
    """Marks ``row`` unless its mark has changed meanwhile."""
    marked = update(ScheduleRow).where(
        ScheduleRow.id == row.id,
        ScheduleRow.quarantined_at.is_not_distinct_from(row.quarantined_at),
    )
    values = {"quarantined_at": since, "quarantine_reason": reason}
    changed = rows_changed(session, marked.values(**values)) == 1
    session.refresh(row)
    return changed
