"""The clock of the database, by which leases end: those of machines that share it may be wrong.

SQLite's is that of the machine, which all its users are on.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Double, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class DatabaseClock(FunctionElement[float]):
    """Unix seconds, now and not at the begin of the transaction, as a term of statements."""

    inherit_cache = True
    type = Double()


@compiles(DatabaseClock, "postgresql")
def _on_postgresql(_element: DatabaseClock, _compiler: SQLCompiler, **_: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


@compiles(DatabaseClock, "sqlite")
def _on_sqlite(_element: DatabaseClock, _compiler: SQLCompiler, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


def database_now(session: Session) -> float:
    """Unix seconds by the clock of the database."""
    return session.execute(select(DatabaseClock())).scalar_one()


def database_time(session: Session) -> float:
    """The same as of the first time that this session asked: enough for whether leases have ended,
    of which it may have many to judge."""
    now = session.info.get(_ASKED)
    if now is None:
        now = session.info[_ASKED] = database_now(session)
    return float(now)


_ASKED = "database_time"
