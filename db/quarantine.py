"""Schedules that are never handed out: why, since when, and back again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from db.catalogue import rows_changed
from db.models import ScheduleRow
from db.sql_store import SqlStore

if TYPE_CHECKING:
    from db.serving import ServingRow


def quarantine_row(store: SqlStore, row: ServingRow, reason: str) -> bool:
    """Quarantines the schedule that was read as ``row``, unless it has been replaced since."""
    with store.writing() as session:
        same = (
            update(ScheduleRow)
            .where(ScheduleRow.id == row.id, ScheduleRow.updated_at == row.updated_at)
            .where(ScheduleRow.artifact_digest == row.artifact_digest)
            .where(ScheduleRow.config_digest == row.config_digest)
            .where(ScheduleRow.quarantined_at.is_(None))
        )
        values = {"quarantined_at": time.time(), "quarantine_reason": reason}
        return rows_changed(session, same.values(**values)) == 1


def quarantine(store: SqlStore, public_id: str, reason: str) -> bool:
    """Quarantines what clients know as ``public_id``; whether there is such a schedule."""
    return _set(store, public_id, time.time(), reason)


def release(store: SqlStore, public_id: str) -> bool:
    """Lets a schedule be handed out again; whether there is such a schedule."""
    return _set(store, public_id, None, "")


def _set(store: SqlStore, public_id: str, since: float | None, reason: str) -> bool:
    with store.writing() as session:
        found = select(ScheduleRow.id).where(ScheduleRow.public_id == public_id)
        if session.scalars(found).first() is None:
            return False
        named = update(ScheduleRow).where(ScheduleRow.public_id == public_id)
        rows_changed(session, named.values(quarantined_at=since, quarantine_reason=reason))
        return True
