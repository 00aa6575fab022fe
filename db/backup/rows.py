"""Tables as lines of JSON: the same whichever database they are in, and at whatever schema.

The tables are what the database says they are, not the models of this code, so that a backup of an
older schema is read as it is and then migrated like a database of that age.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from gzip import GzipFile
from itertools import islice
from typing import Any

from sqlalchemy import JSON, Connection, Integer, MetaData, Table, insert, select, text

from db.backup.layout import NOT_KEPT, damaged

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


def write_rows(connection: Connection, table: Table, lines: GzipFile) -> int:
    """Writes the table; returns its number of rows."""
    lines.write(_line([column.name for column in table.columns]))
    rows = select(table).order_by(*table.primary_key.columns)
    count = 0
    for row in connection.execution_options(yield_per=_BATCH).execute(rows):
        lines.write(_line(list(row)))
        count += 1
    return count


def read_rows(connection: Connection, table: Table, lines: GzipFile) -> int:
    """Fills the table, which is empty; returns its number of rows. ``UserError`` if a line is not
    a row of it."""
    where = f"table {table.name}"
    parsed = _parsed(lines, where)
    names = next(parsed, None)
    known = {column.name for column in table.columns}
    if names is None or not all(isinstance(n, str) for n in names) or set(names) != known:
        raise damaged(f"{where} has other columns than its schema")
    count = 0
    rows = (_record(names, row, where) for row in parsed)
    while batch := list(islice(rows, _BATCH)):
        connection.execute(insert(table), batch)
        count += len(batch)
    _number_on(connection, table)
    return count


def _line(values: list[Any]) -> bytes:
    return json.dumps(values, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _parsed(lines: GzipFile, where: str) -> Iterator[list[Any]]:
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
