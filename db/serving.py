"""The look-up behind the best-query: every stored schedule of one workload, as raw rows.

Written as one SQL statement and not through the models: the ORM makes objects of six tables for
each row, which takes ten times as long as SQLite takes to find them, and this query decides how
many builds a service can answer at once. Rows come back as plain tuples that can be compared:
an answer stays right as long as its rows are equal.
"""

from __future__ import annotations

import sqlite3
from functools import cached_property
from typing import NamedTuple, cast

from sqlalchemy import text

from db.engine import connect_to_read
from db.failure import store_errors
from db.sql_store import SqlStore
from tuner.candidate import CacheState, Fidelity
from tuner.contract import Contract


class ServingRow(NamedTuple):
    """What an answer is made of. JSON columns are the text as stored."""

    id: int
    contract: Contract
    public_id: str
    fidelity: Fidelity
    cycles: int
    toolchain_used_at: float
    toolchain_digest: str
    toolchain: str
    config: str
    config_digest: str
    generator: str
    symbol: str
    provenance: str
    updated_at: float
    artifact_digest: str
    artifact_file_digest: str
    object_bytes: int
    stored_bytes: int
    device: str
    packets: int
    stalls: int
    core_cycles: int
    code_bytes: int
    breakdown: str


_COLUMNS = """
    s.id, p.contract, s.public_id, s.fidelity, s.cycles,
    t.last_used_at, t.digest, CAST(t.fingerprint AS TEXT),
    CAST(s.config AS TEXT), s.config_digest, s.generator, s.symbol,
    CAST(s.provenance AS TEXT), s.updated_at,
    a.digest, a.file_digest, a.object_bytes, a.stored_bytes,
    m.device, m.packets, m.stalls, m.core_cycles, m.code_bytes, CAST(m.breakdown AS TEXT)
"""

# CROSS JOIN fixes SQLite's order of look-ups (each by an index), whatever its statistics say;
# PostgreSQL plans by itself, and takes the conditions for those of an inner join.
_OF_WORKLOAD = f"""
SELECT {_COLUMNS}
FROM workloads w
CROSS JOIN targets g
CROSS JOIN problems p
CROSS JOIN schedules s
CROSS JOIN measurements m
CROSS JOIN toolchains t
CROSS JOIN artifacts a
WHERE w.digest = :workload AND g.digest = :target
  AND p.workload_id = w.id AND p.target_id = g.id
  AND s.problem_id = p.id AND s.quarantined_at IS NULL
  AND m.id = s.measurement_id AND m.cache = :cache
  AND t.id = s.toolchain_id
  AND a.digest = s.artifact_digest
"""  # noqa: S608 - nothing in it comes from a caller


class ScheduleReads:
    """Reads the schedules of workloads. Threads may share :meth:`rows`, and nothing else.

    On SQLite, :meth:`rows_now` and :meth:`version` use a connection of their own, for one thread:
    a look-up takes some tens of microseconds, less than handing it to another thread would.
    """

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._connection: sqlite3.Connection | None = None

    @cached_property
    def in_process(self) -> bool:
        """Whether the database is a file here, and :meth:`rows_now` can be used."""
        return self._store.place.path is not None

    def rows(self, workload: str, target: str, cache: CacheState) -> tuple[ServingRow, ...]:
        """Every schedule of the workload with digest ``workload`` on ``target`` (a digest too)
        that is not quarantined, in no order. Blocks."""
        asked = {"workload": workload, "target": target, "cache": cache}
        with self._store.reading() as session:
            return tuple(ServingRow._make(row) for row in session.execute(_STATEMENT, asked))

    def rows_now(self, workload: str, target: str, cache: CacheState) -> tuple[ServingRow, ...]:
        """The same, on SQLite and from the one thread that asks for it always."""
        asked = {"workload": workload, "target": target, "cache": cache}
        with store_errors(self._store.place):
            found = self._own().execute(_OF_WORKLOAD, asked)
            return tuple(map(ServingRow._make, found))

    def version(self) -> int:
        """A number that differs from the last one if anything was committed in between, by any
        process (SQLite's ``PRAGMA data_version``)."""
        with store_errors(self._store.place):
            return cast(int, self._own().execute("PRAGMA data_version").fetchone()[0])

    def _own(self) -> sqlite3.Connection:
        if self._connection is None:
            assert self._store.place.path is not None  # noqa: S101 - as documented
            self._connection = connect_to_read(self._store.place.path)
        return self._connection

    def close(self) -> None:
        """Closes the connection of its own."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_STATEMENT = text(_OF_WORKLOAD)
