"""Brings a database to the schema of this code, or refuses it.

The usual case, a database that is already current, costs one query; Alembic is imported only to
change something.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, column, inspect, select, table, text

from db.engine import WRITING, without_time_limits
from db.place import Place
from tuner.errors import StoreError

SCHEMA_VERSION = "0001"
"""The newest revision in ``db/migrations/versions``; a test keeps the two equal."""

MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION_TABLE = "alembic_version"
_LOCK_KEY = 0x68767874756E65
"""Names hvxtune's migrations among PostgreSQL's advisory locks: the letters of its name."""


def ensure_schema(engine: Engine, place: Place) -> str | None:
    """Creates the tables, or brings them to this schema. Returns the revision that was found,
    ``None`` for an empty database.

    Several processes may do it at once: one does the work, the others wait. A migration happens
    wholly or not at all. Raises ``StoreError`` if the database was made by another
    hvxtune or holds somebody else's tables.
    """
    with engine.connect() as connection:
        found = _stored_version(connection, place)
    if found == SCHEMA_VERSION:
        return found
    with engine.execution_options(**WRITING).begin() as connection:
        without_time_limits(connection)
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        found = _stored_version(connection, place)
        if found != SCHEMA_VERSION:
            upgrade(connection)
    return found


def require_schema(engine: Engine, place: Place) -> None:
    """``StoreError`` unless the database is at the schema of this code. Changes nothing."""
    with engine.connect() as connection:
        found = _stored_version(connection, place)
    if found != SCHEMA_VERSION:
        raise StoreError(
            f"the database {place.name} {f'has schema {found}' if found else 'is empty'}",
            accepted=f"a database of schema {SCHEMA_VERSION}",
            next_step="hvxtune db upgrade URL" if found else "check its address",
        )


def _stored_version(connection: Connection, place: Place) -> str | None:
    """The revision of the database, or ``None`` if it is empty."""
    inspector = inspect(connection)
    if not inspector.has_table(_VERSION_TABLE):
        tables = inspector.get_table_names()
        if tables:
            raise StoreError(
                f"the database {place.name} holds tables that are not hvxtune's ({tables[0]})",
                next_step="give hvxtune a database of its own",
            )
        return None
    stored = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()  # noqa: S608
    version = None if stored is None else str(stored)
    # Revisions are numbered in order, so that an older program can tell a newer database.
    if version is not None and version > SCHEMA_VERSION:
        raise StoreError(
            f"the database {place.name} was made by another hvxtune (its schema is {version})",
            accepted=f"schemas up to {SCHEMA_VERSION}",
            next_step="use the hvxtune that made it, or set HVXTUNE_STATE_DIR to another directory",
        )
    return version


def stored_schema(connection: Connection) -> str:
    """The revision that the database is at."""
    query = text(f"SELECT version_num FROM {_VERSION_TABLE}")  # noqa: S608
    return str(connection.execute(query).scalar_one())


STILL_OURS = (
    select(column("version_num")).select_from(table(_VERSION_TABLE)).scalar_subquery()
    == SCHEMA_VERSION
)
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


def upgrade(connection: Connection) -> None:
    """Runs the migrations that the database lacks within the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
