"""Gives an empty database the tables of the models, or refuses one with others.

No release has left databases behind, so nothing is migrated: whoever changes the models raises
:data:`SCHEMA_VERSION`, and schedules come over by `hvxtune db export` and `import`.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    String,
    Table,
    insert,
    inspect,
    select,
    text,
)

from db.engine import WRITING, without_time_limits
from db.place import Place
from tuner.errors import StoreError

SCHEMA_VERSION: Final = "0002"
_VERSION = Table("schema_version", MetaData(), Column("version", String(32), nullable=False))
_LOCK_KEY = 0x68767874756E65
"""Among PostgreSQL's advisory locks: the letters of hvxtune's name."""


def ensure_schema(engine: Engine, place: Place) -> str | None:
    """Creates the tables of an empty database. Returns the version that was found, ``None`` for an
    empty one.

    Several processes may do it at once: one does the work, wholly or not at all, the others wait.
    Raises ``StoreError`` if the database was made by another hvxtune or holds somebody else's
    tables.
    """
    with engine.connect() as connection:
        found = _stored_version(connection, place)
    if found is not None:
        return found
    with engine.execution_options(**WRITING).begin() as connection:
        without_time_limits(connection)
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        found = _stored_version(connection, place)
        if found is None:
            create(connection)
    return found


def require_schema(engine: Engine, place: Place) -> None:
    """``StoreError`` unless the database is at the schema of this code. Changes nothing."""
    with engine.connect() as connection:
        if _stored_version(connection, place) is None:
            raise StoreError(
                f"the database {place.name} is empty",
                accepted=f"a database of schema {SCHEMA_VERSION}",
                next_step="check its address",
            )


def _stored_version(connection: Connection, place: Place) -> str | None:
    """The version of the database, which is that of this code, or ``None`` if it is empty."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if _VERSION.name not in tables:
        raise StoreError(
            f"the database {place.name} holds tables that are not hvxtune's ({tables[0]})",
            next_step="give hvxtune a database of its own",
        )
    version = stored_schema(connection)
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"the database {place.name} was made by another hvxtune (its schema is {version})",
            accepted=f"schema {SCHEMA_VERSION}",
            next_step="use the hvxtune that made it, or set HVXTUNE_STATE_DIR to another directory",
        )
    return version


def stored_schema(connection: Connection) -> str:
    """The version that the database is at."""
    return str(connection.execute(select(_VERSION.c.version)).scalar_one())


STILL_OURS = select(_VERSION.c.version).scalar_subquery() == SCHEMA_VERSION
"""The condition, as a term of statements, for which :func:`require_still_ours` asks."""


def require_still_ours(connection: Connection) -> None:
    """``StoreError`` once another hvxtune has changed the schema since the database was opened.

    A job begun before may go on, as rows that are merely wider do no harm; nothing new is begun.
    """
    found = stored_schema(connection)
    if found != SCHEMA_VERSION:
        raise StoreError(
            f"the database is at schema {found}, this hvxtune knows {SCHEMA_VERSION}",
            next_step="install the hvxtune that upgraded it",
        )


def create(connection: Connection) -> None:
    """Creates all tables within the caller's transaction."""
    from db import device_models, file_models, models, service_models  # noqa: F401
    from db.base import Base

    Base.metadata.create_all(connection)
    _VERSION.create(connection)
    connection.execute(insert(_VERSION).values(version=SCHEMA_VERSION))
