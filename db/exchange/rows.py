"""Tables as lines of JSON: the same whichever database they are in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    collate,
    insert,
    select,
    text,
)

from tuner.keeping.archive import Lines, damaged

NOT_KEPT = frozenset(
    {"schema_version", "sessions", "heartbeats", "artifact_bytes", "artifact_marks", "conductors"}
)
"""Tables that are left out: the manifest has the schema; a restore must not bring back a session
that has ended since; heartbeats and conductors belong to machines; and artifacts are files of the
backup wherever they lay, so that it can be restored to another storage."""
_BATCH = 500
_MOST_LINE_BYTES = 256 << 20


def kept_tables(connection: Connection) -> list[Table]:
    """The tables that a backup holds, each after those that it refers to."""
    found = MetaData()
    found.reflect(connection)
    tables = [table for table in found.sorted_tables if table.name not in NOT_KEPT]
    for table in tables:
        for column in table.columns:
            if isinstance(column.type, JSON):
                column.type.none_as_null = True  # else an absent document comes back as `null`
    return tables


def names_of(table: Table) -> list[str]:
    """The columns in the order of lines, whatever order a database has them in."""
    return sorted(column.name for column in table.columns)


def rows_of(connection: Connection, table: Table) -> Iterator[dict[str, Any]]:
    """The rows, in the order of their keys, which is the same in all databases."""
    keys = [_as_bytes(connection, column) for column in table.primary_key.columns]
    wanted = select(*(table.c[name] for name in names_of(table))).order_by(*keys)
    found = connection.execute(wanted, execution_options={"yield_per": _BATCH})
    for row in found.mappings():
        yield dict(row)


def _as_bytes(connection: Connection, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Languages order text in their own ways; SQLite compares its bytes."""
    is_server = connection.dialect.name == "postgresql"
    return collate(column, "C") if is_server and isinstance(column.type, String) else column


def line_of(values: Iterable[Any]) -> bytes:
    """A row, or the names of its columns, as a line."""
    return json.dumps(list(values), separators=(",", ":"), allow_nan=False).encode() + b"\n"


def write_rows(connection: Connection, table: Table, lines: Lines) -> int:
    """Writes the table; returns its number of rows."""
    lines.write(line_of(names_of(table)))
    count = 0
    for row in rows_of(connection, table):
        lines.write(line_of(row.values()))
        count += 1
    return count


def read_rows(connection: Connection, table: Table, lines: IO[bytes]) -> int:
    """Fills the table, which is empty; returns its number of rows. ``UserError`` if a line is not
    a row of it."""
    where = f"table {table.name}"
    parsed = _parsed(lines, where)
    names = next(parsed, None)
    known = {column.name for column in table.columns}
    if names is None or not all(isinstance(n, str) for n in names) or set(names) != known:
        raise damaged(f"{where} has other columns than its schema")
    return insert_rows(connection, table, (_record(names, row, where) for row in parsed))


def insert_rows(connection: Connection, table: Table, rows: Iterator[dict[str, Any]]) -> int:
    """Fills the table, which is empty; returns its number of rows."""
    count = 0
    while batch := list(islice(rows, _BATCH)):
        connection.execute(insert(table), batch)
        count += len(batch)
    _number_on(connection, table)
    return count


def _parsed(lines: IO[bytes], where: str) -> Iterator[list[Any]]:
    for number, line in enumerate(iter(lambda: lines.readline(_MOST_LINE_BYTES), b""), 1):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            raise damaged(f"{where}, line {number} cannot be read") from None
        if not isinstance(values, list):
            raise damaged(f"{where}, line {number} is not a row")
        yield values


def _record(names: list[str], row: list[Any], where: str) -> dict[str, Any]:
    if len(row) != len(names):
        raise damaged(f"{where} has a row of {len(row)} values, and {len(names)} columns")
    return dict(zip(names, row, strict=True))


def _number_on(connection: Connection, table: Table) -> None:
    """Lets PostgreSQL number new rows after those inserted with their numbers."""
    if connection.dialect.name != "postgresql":
        return
    for column in table.primary_key.columns:
        if isinstance(column.type, Integer):
            found = {"table": table.name, "column": column.name}
            sequence = connection.scalar(
                text("SELECT pg_get_serial_sequence(:table, :column)"), found
            )
            if sequence is not None:
                connection.execute(
                    text(
                        f"SELECT setval(:sequence, GREATEST(MAX({column.name}), 1),"  # noqa: S608
                        f" MAX({column.name}) IS NOT NULL) FROM {table.name}"
                    ),
                    {"sequence": sequence},
                )
