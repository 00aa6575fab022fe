"""The audit: who changed what, or was refused, in the order of writing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from sqlalchemy import delete, insert, select, update

from db.catalogue import rows_changed
from db.database import Database
from db.service_models import AuditRow


@dataclass(frozen=True)
class AuditEntry:
    """One row. ``number`` rises; ``token_id`` is ``None`` where no valid token was shown."""

    number: int
    at: float
    token_id: str | None
    action: str
    subject: str
    detail: Mapping[str, Any] = field(hash=False)
    client: str
    request_id: str = ""


_COLUMNS = tuple(one.name for one in fields(AuditEntry) if one.name != "number")


def add_entry(
    database: Database,
    *,
    token_id: str | None,
    action: str,
    subject: str,
    detail: Mapping[str, Any],
    client: str,
    request_id: str = "",
) -> int:
    """Writes a row and returns its number. ``detail`` is a JSON object."""
    values = {
        "at": time.time(),
        "token_id": token_id,
        "action": action[:100],
        "subject": subject,
        "detail": dict(detail),
        "client": client[:100],
        "request_id": request_id,
    }
    with database.writing() as session:
        return session.scalars(insert(AuditRow).values(**values).returning(AuditRow.id)).one()


def amend_entry(database: Database, number: int, detail: Mapping[str, Any]) -> None:
    """Replaces the detail of an entry: the progress of work in several transactions."""
    with database.writing() as session:
        session.execute(update(AuditRow).where(AuditRow.id == number).values(detail=dict(detail)))


def newest_entries(database: Database, limit: int, before: int | None = None) -> list[AuditEntry]:
    """At most ``limit`` entries, newest first; with ``before``, those with smaller numbers."""
    wanted = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(AuditRow.id < before)
    with database.reading() as session:
        return [
            AuditEntry(row.id, **{name: getattr(row, name) for name in _COLUMNS})
            for row in session.scalars(wanted)
        ]


def prune_entries(database: Database, older_than: float) -> int:
    """Deletes entries from before the time ``older_than``; returns their number."""
    with database.writing() as session:
        return rows_changed(session, delete(AuditRow).where(AuditRow.at < older_than))
