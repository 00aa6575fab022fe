"""Sessions of browsers: those that were begun with a token and have not ended.

A session is named by a secret that only its browser has; here is the SHA-256 of it. A session that
has no row does not exist, so one that was ended stays so, wherever its cookie was copied to.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from db.catalogue import rows_changed
from db.service_models import SessionRow

if TYPE_CHECKING:
    from db.sql_store import SqlStore

MOST_OF_A_TOKEN = 100
"""More than people have browsers; who logs in over and over ends their own oldest sessions."""


def begin_session(store: SqlStore, digest: str, token_id: str, lifetime_s: float) -> None:
    """Stores a new session of the token; sweeps those that have expired."""
    now = time.time()
    with store.writing() as session:
        session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
        newest = (
            select(SessionRow.digest)
            .where(SessionRow.token_id == token_id)
            .order_by(SessionRow.created_at.desc())
            .limit(MOST_OF_A_TOKEN - 1)
        )
        session.execute(
            delete(SessionRow).where(
                SessionRow.token_id == token_id, SessionRow.digest.not_in(newest)
            )
        )
        session.execute(
            insert(SessionRow).values(
                digest=digest, token_id=token_id, created_at=now, expires_at=now + lifetime_s
            )
        )


def token_of_session(store: SqlStore, digest: str) -> str | None:
    """The id of the token that the session was begun with; ``None`` if it is not, or no longer,
    one. Whether the token is still valid is another question."""
    wanted = select(SessionRow.token_id).where(
        SessionRow.digest == digest, SessionRow.expires_at > time.time()
    )
    with store.reading() as session:
        return session.scalar(wanted)


def end_session(store: SqlStore, digest: str) -> bool:
    """Ends a session for good; whether there was one."""
    with store.writing() as session:
        return rows_changed(session, delete(SessionRow).where(SessionRow.digest == digest)) > 0
