"""Sessions of browsers, begun with a token and not ended since.

A session is named by a secret that only its browser has; its SHA-256 is kept here. Without a row
there is no session, so one that has ended stays so, wherever its cookie was copied to.
"""

from __future__ import annotations

import time

from sqlalchemy import delete, insert, select

from db.catalogue import rows_changed
from db.database import Database
from db.service_models import SessionRow

MOST_OF_A_TOKEN = 100
"""More than people have browsers; a further login ends the oldest session."""


def begin_session(database: Database, digest: str, token_id: str, lifetime_s: float) -> None:
    """Stores a new session of the token; sweeps those that have expired."""
    now = time.time()
    with database.writing() as session:
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


def token_of_session(database: Database, digest: str) -> str | None:
    """The id of the token that began the session, valid or not; ``None`` without a session."""
    wanted = select(SessionRow.token_id).where(
        SessionRow.digest == digest, SessionRow.expires_at > time.time()
    )
    with database.reading() as session:
        return session.scalar(wanted)


def end_session(database: Database, digest: str) -> bool:
    """Ends a session for good; false without one."""
    with database.writing() as session:
        return rows_changed(session, delete(SessionRow).where(SessionRow.digest == digest)) > 0
