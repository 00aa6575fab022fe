"""Statements that are built once and sent together: what a submission, a claim and a trial cost.

To build a statement takes SQLAlchemy longer than the database takes to execute it, and each that is
waited for is a round trip to a server. So the frequent writes execute statements made at import, on
a session's bare connection, and wait once for those that do not need each other's results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, CursorResult, Integer, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from db.base import Base

Upsert = postgresql.Insert | sqlite.Insert


def table_of(model: type[Base]) -> Table:
    """The table of a model, whose statements the ORM takes no part in."""
    return cast("Table", model.__table__)


@lru_cache(maxsize=64)
def insert_or_skip(dialect: str, model: type[Base], keys: tuple[str, ...]) -> Upsert:
    """Inserts a row unless one with the same ``keys`` exists."""
    return inserting(dialect, model).on_conflict_do_nothing(index_elements=keys)


def upsert(
    dialect: str, model: type[Base], keys: Sequence[str], where: ColumnElement[bool], **given: Any
) -> Upsert:
    """Inserts a row, or overwrites the one with the same ``keys`` if ``where`` holds of it.
    ``given`` are columns whose value is a term rather than a parameter."""
    made = inserting(dialect, model).values(**given)
    others = [one.name for one in table_of(model).columns if one.name not in keys]
    overwritten = {name: made.excluded[name] for name in others}
    return made.on_conflict_do_update(index_elements=keys, set_=overwritten, where=where)


def inserting(dialect: str, model: type[Base]) -> Upsert:
    """An insert in the words of ``dialect``, which may say what to do about a conflict."""
    made = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return made(table_of(model)).inline()  # does not ask for the new key


class LastId(FunctionElement[int]):
    """The number that the connection's last insert gave its row, as a term of the next one."""

    inherit_cache = True
    type = Integer()


@compiles(LastId, "postgresql")
def _on_postgresql(_element: LastId, _compiler: SQLCompiler, **_: Any) -> str:
    return "lastval()"


@compiles(LastId, "sqlite")
def _on_sqlite(_element: LastId, _compiler: SQLCompiler, **_: Any) -> str:
    return "last_insert_rowid()"


@contextmanager
def together(connection: Connection) -> Iterator[None]:
    """Sends the statements executed within in one go, where the database is a server (PostgreSQL's
    pipeline mode). They return no rows; :func:`changed` tells what they did, after the end.

    They are executed in order. The error of the first that fails is raised, at the end if not
    before, and those after it are not executed.
    """
    if connection.dialect.name == "sqlite":
        yield
        return
    import psycopg

    driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
    try:
        with driver.pipeline():
            yield
    except psycopg.Error as error:  # raised by the driver, not by SQLAlchemy
        raise DBAPIError("statements sent together", None, error) from error


def changed(result: CursorResult[Any]) -> int:
    """The rows that a statement inserted or changed, once it is no longer under way."""
    return int(result.context.cursor.rowcount)
