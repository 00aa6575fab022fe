"""The look-up behind the best-query: every stored schedule of one workload, as raw rows.

Written as one SQL statement and not through the models: the ORM makes objects of six tables for
each row, which takes ten times as long as SQLite takes to find them, and this query decides how
many builds a service can answer at once. Rows come back as plain tuples that can be compared:
an answer stays right as long as its rows are equal.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import select, text

from db.engine import connect_to_read
from db.failure import translated
from db.models import ProblemRow, ScheduleRow, TargetRow, WorkloadRow
from db.sql_store import SqlStore
from tuner.candidate import FIDELITIES, CacheState, Fidelity
from tuner.contract import Contract
from tuner.standing import Rank, rank


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
    packets: int | None
    stalls: int | None
    core_cycles: int
    code_bytes: int
    breakdown: str
    samples: str
    temperature_c: float | None
    vtcm_bytes: int | None

    def rank(self) -> Rank:
        """Where it stands among those handed out for the same workload."""
        return rank(
            *(self.fidelity, self.toolchain_used_at, self.toolchain_digest),
            *(self.cycles, self.contract),
        )


_COLUMNS = """
    s.id, {contract}, s.public_id, s.fidelity, s.cycles,
    t.last_used_at, t.digest, CAST(t.fingerprint AS TEXT),
    CAST(s.config AS TEXT), s.config_digest, s.generator, s.symbol,
    CAST(s.provenance AS TEXT), s.updated_at,
    a.digest, a.file_digest, a.object_bytes, a.stored_bytes,
    m.device, m.packets, m.stalls, m.core_cycles, m.code_bytes, CAST(m.breakdown AS TEXT),
    CAST(m.samples AS TEXT), m.temperature_c, m.vtcm_bytes
"""

# What is handed out for a workload on a target, with caches in a state: a handful of rows, by
# index alone. Contracts and fidelities are chosen from them in Python, and so is the best, by the
# one order there is. Who may see which schedule is another condition here, and nowhere else.
# CROSS JOIN fixes SQLite's order of look-ups, whatever its statistics say; PostgreSQL plans by
# itself, and takes the conditions for those of an inner join.
_HANDED_OUT = """
FROM workloads w
CROSS JOIN targets g
CROSS JOIN problems p
CROSS JOIN schedules s
CROSS JOIN toolchains t
{more}
WHERE w.digest = :workload AND g.digest = :target
  AND p.workload_id = w.id AND p.target_id = g.id
  AND s.problem_id = p.id AND s.cache = :cache AND s.quarantined_at IS NULL
  AND t.id = s.toolchain_id
"""
_WHOLE = """
  AND m.id = s.measurement_id AND m.cache = s.cache AND a.digest = s.artifact_digest
"""
_MORE: Final = "CROSS JOIN measurements m CROSS JOIN artifacts a"

_ROWS: Final = text(
    f"SELECT {_COLUMNS.format(contract='p.contract')} {_HANDED_OUT.format(more=_MORE)} {_WHOLE}"
)  # nothing in it comes from a caller

_PARAMETER: Final = re.compile(r":\w+")


def _by_place(statement: str) -> str:
    """``statement`` with places for parameters: SQLite looks their names up at each execution."""
    return _PARAMETER.sub("?", statement)


_STANDINGS: Final = _by_place(
    "SELECT s.fidelity, t.last_used_at, t.digest, s.cycles, p.contract,"
    f" s.problem_id, s.toolchain_id, s.id {_HANDED_OUT.format(more='')}"  # noqa: S608 - as above
)
"""The arguments of :func:`tuner.standing.rank`, and what finds the whole row again."""

# Unless it has changed since: SQLite gives the id of a deleted row to another.
_THE_ROW: Final = _by_place(
    f"SELECT {_COLUMNS.format(contract=':contract')}"  # noqa: S608 - as above
    f" FROM schedules s CROSS JOIN toolchains t {_MORE}"
    " WHERE s.id = :id AND s.problem_id = :problem AND s.toolchain_id = :toolchain"
    " AND s.fidelity = :fidelity AND s.cycles = :cycles AND s.cache = :cache"
    f" AND s.quarantined_at IS NULL AND t.id = s.toolchain_id {_WHOLE}"
)

Values = tuple[str, str, str, tuple[str, ...], tuple[str, ...]]
"""Digests of workload and target, state of the caches, contracts, fidelities."""


@dataclass(frozen=True)
class Lookup:
    """Which schedules fit: those of the workload and on the target with these digests, under one
    of ``contracts``, measured with caches in state ``cache``, at ``min_fidelity`` or higher."""

    workload: str
    target: str
    contracts: tuple[Contract, ...]
    cache: CacheState
    min_fidelity: Fidelity

    @property
    def values(self) -> Values:
        """The same as plain tuples of plain texts."""
        return (
            self.workload,
            self.target,
            self.cache,
            _texts(self.contracts),
            _NO_LOWER[self.min_fidelity],
        )

    def fits(self, row: ServingRow) -> bool:
        """Whether ``row``, handed out for the workload, target and caches, is one of those."""
        return row.contract in self.contracts and row.fidelity in _NO_LOWER[self.min_fidelity]


@lru_cache(maxsize=64)
def _texts(contracts: tuple[Contract, ...]) -> tuple[str, ...]:
    return tuple([contract.value for contract in contracts])


_NO_LOWER: Final = {least: FIDELITIES[height:] for height, least in enumerate(FIDELITIES)}


class ScheduleReads:
    """Reads the schedules of workloads. Threads may share :meth:`rows`, and nothing else.

    On SQLite, :meth:`first_now` and :meth:`version` use a connection of their own, for one thread:
    a look-up takes some tens of microseconds, less than handing it to another thread would.
    """

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._connection: sqlite3.Connection | None = None

    @cached_property
    def in_process(self) -> bool:
        """Whether the database is a file here, and :meth:`first_now` can be used."""
        return self._store.place.path is not None

    def rows(self, lookup: Lookup) -> list[ServingRow]:
        """Every schedule that fits and is not quarantined, best first. Blocks."""
        workload, target, cache, *_ = lookup.values
        cell = {"workload": workload, "target": target, "cache": cache}
        with self._store.reading() as session:
            rows = [ServingRow._make(row) for row in session.execute(_ROWS, cell)]
        return sorted(filter(lookup.fits, rows), key=ServingRow.rank)

    def set_aside(self, lookup: Lookup) -> list[tuple[str, str]]:
        """Public id and reason of every schedule that would fit, but is quarantined. Blocks."""
        wanted = (
            select(ScheduleRow.public_id, ScheduleRow.quarantine_reason)
            .join(ProblemRow, ScheduleRow.problem_id == ProblemRow.id)
            .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
            .join(TargetRow, ProblemRow.target_id == TargetRow.id)
            .where(WorkloadRow.digest == lookup.workload, TargetRow.digest == lookup.target)
            .where(ProblemRow.contract.in_(lookup.contracts))
            .where(ScheduleRow.cache == lookup.cache)
            .where(ScheduleRow.fidelity.in_(_NO_LOWER[lookup.min_fidelity]))
            .where(ScheduleRow.quarantined_at.is_not(None))
            .order_by(ScheduleRow.cycles, ScheduleRow.id)
        )
        with self._store.reading() as session:
            return [(name or "", reason) for name, reason in session.execute(wanted)]

    def first_now(self, values: Values) -> tuple[Any, ...] | None:
        """What the first of them, a ``ServingRow``, is made of, by the ``values`` of a lookup; on
        SQLite and from the one thread that asks for it always. ``None`` if there is none, or if it
        was replaced just now: :meth:`rows` tells."""
        workload, target, cache, contracts, fidelities = values
        try:
            execute = self._own().execute
            best = None
            for standing in execute(_STANDINGS, (workload, target, cache)).fetchall():
                if standing[4] in contracts and standing[0] in fidelities:
                    ranked = (rank(*standing[:5]), standing)
                    best = ranked if best is None or ranked < best else best
            if best is None:
                return None
            fidelity, _, _, cycles, contract, problem, toolchain, schedule = best[1]
            the_row = (contract, schedule, problem, toolchain, fidelity, cycles, cache)
            row: tuple[Any, ...] | None = execute(_THE_ROW, the_row).fetchone()
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise translated(error, self._store.place) from error
        return row

    def version(self) -> int:
        """A number that differs from the last one if anything was committed in between, by any
        process (SQLite's ``PRAGMA data_version``)."""
        try:
            return cast(int, self._own().execute("PRAGMA data_version").fetchone()[0])
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise translated(error, self._store.place) from error

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
