"""The look-up behind the best-query: every stored schedule of one workload, as raw rows.

Written as one SQL statement and not through the models: the ORM makes objects of six tables for
each row, which takes ten times as long as SQLite takes to find them, and this query decides how
many builds a service can answer at once. Rows come back as plain tuples that can be compared:
an answer stays right as long as its rows are equal.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import select, text

from db.engine import connect_to_read
from db.failure import translated
from db.models import MeasurementRow, ProblemRow, ScheduleRow, TargetRow, WorkloadRow
from db.sql_store import SqlStore
from tuner.candidate import FIDELITIES, CacheState, Fidelity
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
    packets: int | None
    stalls: int | None
    core_cycles: int
    code_bytes: int
    breakdown: str
    samples: str
    temperature_c: float | None
    vtcm_bytes: int | None


_COLUMNS = """
    s.id, p.contract, s.public_id, s.fidelity, s.cycles,
    t.last_used_at, t.digest, CAST(t.fingerprint AS TEXT),
    CAST(s.config AS TEXT), s.config_digest, s.generator, s.symbol,
    CAST(s.provenance AS TEXT), s.updated_at,
    a.digest, a.file_digest, a.object_bytes, a.stored_bytes,
    m.device, m.packets, m.stalls, m.core_cycles, m.code_bytes, CAST(m.breakdown AS TEXT),
    CAST(m.samples AS TEXT), m.temperature_c, m.vtcm_bytes
"""

# CROSS JOIN fixes SQLite's order of look-ups (each by an index), whatever its statistics say;
# PostgreSQL plans by itself, and takes the conditions for those of an inner join.
_FITTING = """
FROM workloads w
CROSS JOIN targets g
CROSS JOIN problems p
CROSS JOIN schedules s
CROSS JOIN measurements m
CROSS JOIN toolchains t
{more}
WHERE w.digest = :workload AND g.digest = :target
  AND p.workload_id = w.id AND p.target_id = g.id
  AND p.contract IN (:contract_0, :contract_1, :contract_2, :contract_3, :contract_4)
  AND s.problem_id = p.id AND s.quarantined_at IS NULL
  AND s.fidelity IN (:fidelity_0, :fidelity_1, :fidelity_2)
  AND s.audience IN ('', :owner)
  AND m.id = s.measurement_id AND m.cache = :cache
  AND t.id = s.toolchain_id
"""

# The highest fidelity, then the toolchain used last: cycles are compared only within both. There
# the fewest cycles win, under whichever contract, and at the same cycles the contract that
# demands most: it is what the caller keeps anyway.
_BEST_FIRST = """
ORDER BY
  CASE s.fidelity {fidelities} END DESC, t.last_used_at DESC, t.digest, s.cycles,
  CASE p.contract {contracts} END DESC
""".format(
    fidelities=" ".join(f"WHEN '{name}' THEN {rank}" for rank, name in enumerate(FIDELITIES)),
    contracts=" ".join(f"WHEN '{contract}' THEN {contract.level}" for contract in Contract),
)

_ALL = (
    f"SELECT {_COLUMNS}"
    + _FITTING.format(more="CROSS JOIN artifacts a")
    + "AND a.digest = s.artifact_digest"
    + _BEST_FIRST
)  # nothing in it comes from a caller

# The order is found without carrying the wide columns along.
_FIRST = f"""
SELECT {_COLUMNS}
FROM (SELECT s.id {_FITTING.format(more="")} {_BEST_FIRST} LIMIT 1) AS first
CROSS JOIN schedules s
CROSS JOIN problems p
CROSS JOIN measurements m
CROSS JOIN toolchains t
CROSS JOIN artifacts a
WHERE s.id = first.id AND p.id = s.problem_id AND m.id = s.measurement_id
  AND t.id = s.toolchain_id AND a.digest = s.artifact_digest
"""  # noqa: S608 - nothing in it comes from a caller


@dataclass(frozen=True)
class Lookup:
    """Which schedules fit: those of the workload and on the target with these digests, under one
    of ``contracts``, measured with caches in state ``cache``, at ``min_fidelity`` or higher; shared
    ones, and what ``owner`` keeps private."""

    workload: str
    target: str
    contracts: tuple[Contract, ...]
    cache: CacheState
    min_fidelity: Fidelity
    owner: str = ""

    @property
    def values(self) -> Values:
        """For the statements, in the order of their parameters. Their lists have a fixed length,
        and repeat a value to fill it."""
        return (
            self.workload,
            self.target,
            *_listed_contracts(self.contracts),
            *_LISTED_FIDELITIES[self.min_fidelity],
            self.owner,
            self.cache,
        )


Values = tuple[str, ...]


@lru_cache(maxsize=64)
def _listed_contracts(contracts: tuple[Contract, ...]) -> Values:
    return _filled([contract.value for contract in contracts], len(Contract))


def _filled(values: Sequence[str], length: int) -> Values:
    return tuple([values[min(i, len(values) - 1)] for i in range(length)])


_LISTED_FIDELITIES = {
    least: _filled(FIDELITIES[rank:], len(FIDELITIES)) for rank, least in enumerate(FIDELITIES)
}

_PRIVATE: Final = "SELECT DISTINCT audience FROM schedules WHERE audience <> ''"

_PARAMETER: Final = re.compile(r":(\w+)")
_PARAMETERS: Final = _PARAMETER.findall(_FITTING)
_STATEMENT: Final = text(_ALL)
# SQLite looks names of parameters up at each execution, places it does not.
_FIRST_BY_PLACE: Final = _PARAMETER.sub("?", _FIRST)


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
        with self._store.reading() as session:
            parameters = dict(zip(_PARAMETERS, lookup.values, strict=True))
            found = session.execute(_STATEMENT, parameters)
            return [ServingRow._make(row) for row in found]

    def set_aside(self, lookup: Lookup) -> list[tuple[str, str]]:
        """Public id and reason of every schedule that would fit, but is quarantined. Blocks."""
        wanted = (
            select(ScheduleRow.public_id, ScheduleRow.quarantine_reason)
            .join(ProblemRow, ScheduleRow.problem_id == ProblemRow.id)
            .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
            .join(TargetRow, ProblemRow.target_id == TargetRow.id)
            .join(MeasurementRow, ScheduleRow.measurement_id == MeasurementRow.id)
            .where(WorkloadRow.digest == lookup.workload, TargetRow.digest == lookup.target)
            .where(ProblemRow.contract.in_(lookup.contracts))
            .where(MeasurementRow.cache == lookup.cache)
            .where(ScheduleRow.fidelity.in_(FIDELITIES[FIDELITIES.index(lookup.min_fidelity) :]))
            .where(ScheduleRow.quarantined_at.is_not(None))
            .where(ScheduleRow.audience.in_(("", lookup.owner)))
            .order_by(ScheduleRow.cycles, ScheduleRow.id)
        )
        with self._store.reading() as session:
            return [(name or "", reason) for name, reason in session.execute(wanted)]

    def first_now(self, values: Values) -> tuple[Any, ...] | None:
        """What the first of them, a ``ServingRow``, is made of, by the ``values`` of a lookup; on
        SQLite and from the one thread that asks for it always."""
        try:
            row: tuple[Any, ...] | None = self._own().execute(_FIRST_BY_PLACE, values).fetchone()
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise translated(error, self._store.place) from error
        return row

    def keep_private(self) -> frozenset[str]:
        """Who has private schedules, which the fast route knows nothing of. As :meth:`first_now`:
        on SQLite, and from that thread."""
        try:
            rows = self._own().execute(_PRIVATE).fetchall()
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise translated(error, self._store.place) from error
        return frozenset(row[0] for row in rows)

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
