"""The audit: who changed what, or was refused, in the order in which it was written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update

from db.catalogue import rows_changed
from db.service_models import AuditRow

if TYPE_CHECKING:
    from db.sql_store import SqlStore


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


def add_entry(
    store: SqlStore,
    *,
    token_id: str | None,
    action: str,
    subject: str,
    detail: Mapping[str, Any],
    client: str,
    request_id: str = "",
) -> int:
    """Writes one row and gives its number. ``detail`` is a JSON object."""
    values = {
        "at": time.time(),
        "token_id": token_id,
        "action": action[:100],
        "subject": subject,
        "detail": dict(detail),
        "client": client[:100],
        "request_id": request_id,
    }
    with store.writing() as session:
        return session.execute(
            insert(AuditRow).values(**values).returning(AuditRow.id)
        ).scalar_one()


def amend_entry(store: SqlStore, number: int, detail: Mapping[str, Any]) -> None:
    """Gives an entry another detail: for what takes several transactions, and has got further."""
    with store.writing() as session:
        session.execute(update(AuditRow).where(AuditRow.id == number).values(detail=dict(detail)))


def newest_entries(store: SqlStore, limit: int, before: int | None = None) -> list[AuditEntry]:
    """At most ``limit`` entries, newest first; with ``before``, those with smaller numbers."""
    wanted = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(AuditRow.id < before)
    with store.reading() as session:
        return [
            AuditEntry(
                row.id,
                row.at,
                row.token_id,
                row.action,
                row.subject,
                row.detail,
                row.client,
                row.request_id,
            )
            for row in session.scalars(wanted)
        ]


def prune_entries(store: SqlStore, older_than: float) -> int:
    """Deletes entries from before the time ``older_than``; the number of those deleted."""
    with store.writing() as session:
        return rows_changed(session, delete(AuditRow).where(AuditRow.at < older_than))
