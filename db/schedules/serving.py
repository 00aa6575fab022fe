"""The look-up behind the best-query: every stored schedule of one workload, as raw rows.

Written as one SQL statement and not through the models: the ORM makes objects of six tables for
each row, which takes ten times as long as SQLite takes to find them, and this query decides how
many builds a service can answer at once. Rows come back as plain tuples that can be compared:
an answer stays right as long as its rows are equal.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from db.database import Database
from db.engine import connect_to_read
from db.failure import translated
from db.models import ProblemRow, ScheduleRow, TargetRow, WorkloadRow
from tuner.keeping.best import Lookup, Standing, in_order
from tuner.problem.contract import Contract
from tuner.records.candidate import Fidelity, Preference

_log = logging.getLogger("hvxtune.db")


class ServingRow(NamedTuple):
    """The columns that an answer is made of. JSON columns are the text as stored."""

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
    seal: str
    overhead_cycles: int | None
    judged: str
    prefer: Preference
    expected_cycles: int | None
    lowest_cycles: int | None
    highest_cycles: int | None

    def standing(self, prefer: Preference) -> Standing:
        """The figures by which schedules are put in order."""
        figure = self.cycles if prefer == "fastest" else (self.expected_cycles or self.cycles)
        return (
            *(self.fidelity, self.toolchain_used_at, self.toolchain_digest),
            *(figure, self.contract),
        )


_COLUMNS = """
    s.id, {contract}, s.public_id, s.fidelity, s.cycles, {toolchain},
    CAST(s.config AS TEXT), s.config_digest, s.generator, s.symbol,
    CAST(s.provenance AS TEXT), s.updated_at,
    a.digest, a.file_digest, a.object_bytes, a.stored_bytes,
    m.device, m.packets, m.stalls, m.core_cycles, m.code_bytes, CAST(m.breakdown AS TEXT),
    CAST(m.samples AS TEXT), m.temperature_c, m.vtcm_bytes, s.seal,
    m.overhead_cycles, s.judged, s.prefer, m.expected_cycles, m.lowest_cycles, m.highest_cycles
"""
_GIVEN = ":used_at, :toolchain_digest, :toolchain"
_TOOLCHAIN = "t.last_used_at, t.digest, CAST(t.fingerprint AS TEXT)"

# All that is handed out for a workload on a target, with caches in a state: a handful of rows, by
# index alone. Python chooses among them by audience, contract and fidelity, and finds the best by
# the one order there is.
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
    f"SELECT {_COLUMNS.format(contract='p.contract', toolchain=_TOOLCHAIN)}"
    f" {_HANDED_OUT.format(more=_MORE)} {_WHOLE} AND s.audience IN ('', :owner)"
)  # nothing in it comes from a caller

_PARAMETER: Final = re.compile(r":\w+")


def _by_place(statement: str) -> str:
    """``statement`` with places for parameters: SQLite looks their names up at each execution."""
    return _PARAMETER.sub("?", statement)


_RANKED: Final = _by_place(
    "SELECT s.fidelity, t.last_used_at, t.digest, s.cycles, p.contract,"
    f" s.problem_id, s.toolchain_id, s.id, s.audience, s.expected_cycles"
    f" {_HANDED_OUT.format(more='')}"
)
"""Its standing in :func:`tuner.keeping.best.in_order`, and what finds the whole row again."""


def _fastest(ranked: tuple[Any, ...]) -> Standing:
    return cast(Standing, ranked[:5])


def _robust(ranked: tuple[Any, ...]) -> Standing:
    return cast(Standing, (*ranked[:3], ranked[9], ranked[4]))


@lru_cache(maxsize=64)
def _parsed(fingerprint: str) -> dict[str, str]:
    return cast(dict[str, str], json.loads(fingerprint))


# Unless it has changed since: SQLite gives the id of a deleted row to another. Columns that are
# known already come back as given.
_THE_ROW: Final = _by_place(
    f"SELECT {_COLUMNS.format(contract=':contract', toolchain=_GIVEN)}"  # noqa: S608 - as above
    f" FROM schedules s {_MORE}"
    " WHERE s.id = :id AND s.problem_id = :problem AND s.toolchain_id = :toolchain_id"
    " AND s.fidelity = :fidelity AND s.cycles = :cycles AND s.cache = :cache"
    f" AND s.quarantined_at IS NULL {_WHOLE}"
)
_FINGERPRINT: Final = "SELECT CAST(fingerprint AS TEXT) FROM toolchains WHERE digest = ?"

_KEPT_FINGERPRINTS: Final = 1024

Values = tuple[str, str, str, tuple[str, ...], tuple[str, ...], str, str, Preference]
"""A lookup as plain texts: digests of workload and target, state of the caches, contracts,
fidelities, audience, digest of the toolchain, the rule."""
_NOTHING: Final[Values] = ("", "", "warm", (), (), "", "", "robust")


def values_of(lookup: Lookup) -> Values:
    """``lookup`` as plain texts."""
    problem, contracts, cache, _, toolchain, audience, prefer = lookup
    names, fidelities = _texts(contracts), lookup.fidelities
    workload, target = problem.workload.digest, problem.target.digest
    return (workload, target, cache, names, fidelities, audience, toolchain, prefer)


@lru_cache(maxsize=64)
def _texts(contracts: tuple[Contract, ...]) -> tuple[str, ...]:
    return tuple([contract.value for contract in contracts])


def fitting_rows(session: Session, lookup: Lookup) -> list[ServingRow]:
    """Every schedule that fits and is not quarantined, best first."""
    workload, target, cache, contracts, fidelities, audience, toolchain, prefer = values_of(lookup)
    cell = {"workload": workload, "target": target, "cache": cache, "owner": audience}
    rows = [ServingRow._make(row) for row in session.execute(_ROWS, cell)]
    fitting = [
        row
        for row in rows
        if row.contract in contracts
        and row.fidelity in fidelities
        and toolchain in ("", row.toolchain_digest)
    ]
    fingerprints = {row.toolchain_digest: row.toolchain for row in fitting}
    return in_order(
        fitting, lambda row: row.standing(prefer), lambda digest: _parsed(fingerprints[digest])
    )


def quarantined(session: Session, lookup: Lookup) -> list[tuple[str, str]]:
    """Public id and reason of every schedule that would fit, but is quarantined."""
    problem = lookup.problem
    wanted = (
        select(ScheduleRow.public_id, ScheduleRow.quarantine_reason)
        .join(ProblemRow, ScheduleRow.problem_id == ProblemRow.id)
        .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        .join(TargetRow, ProblemRow.target_id == TargetRow.id)
        .where(WorkloadRow.digest == problem.workload.digest)
        .where(TargetRow.digest == problem.target.digest)
        .where(ProblemRow.contract.in_(lookup.contracts))
        .where(ScheduleRow.cache == lookup.cache)
        .where(ScheduleRow.fidelity.in_(lookup.fidelities))
        .where(ScheduleRow.quarantined_at.is_not(None))
        .where(ScheduleRow.audience.in_(("", lookup.audience)))
        .order_by(ScheduleRow.cycles, ScheduleRow.id)
    )
    return [(name or "", reason) for name, reason in session.execute(wanted)]


class FirstRows:
    """Finds the first of :func:`fitting_rows` on SQLite within tens of microseconds.

    It has a connection of its own, for one thread: handing the look-up to another takes longer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._fingerprints: dict[str, str] = {}

    @cached_property
    def in_process(self) -> bool:
        """Whether the database is a file here, and :meth:`first_now` can be used."""
        return self._database.place.path is not None

    def warm(self) -> None:
        """Prepares :meth:`first_now`, from its thread, for an existing database."""
        if self._database.place.path is not None:
            self.first_now(_NOTHING)  # maps the file

    def first_now(self, values: Values) -> tuple[Any, ...] | None:
        """The columns of the first ``ServingRow`` for the :func:`values_of` a lookup; on SQLite,
        and always from the same thread. ``None`` if nothing fits, or if the row was replaced just
        now: :func:`fitting_rows` tells."""
        workload, target, cache, contracts, fidelities, owner, chain, prefer = values
        seen = ("", owner)
        try:
            cursor = self._own()
            ranked = cursor.execute(_RANKED, (workload, target, cache)).fetchall()
            fitting = [
                one
                for one in ranked
                if one[4] in contracts and one[0] in fidelities and one[8] in seen
                if not chain or one[2] == chain
            ]
            if not fitting:
                return None
            best = fitting[0]
            if len(fitting) > 1:
                standing = _fastest if prefer == "fastest" else _robust
                best = in_order(fitting, standing, lambda digest: _parsed(self._toolchain(digest)))[
                    0
                ]
            fidelity, used_at, digest, cycles, contract, problem, toolchain, schedule = best[:8]
            known = (contract, used_at, digest, self._toolchain(digest))
            same = (schedule, problem, toolchain, fidelity, cycles, cache)
            rows = cursor.execute(_THE_ROW, known + same).fetchall()
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise translated(error, self._database.place) from error
        return rows[0] if rows else None

    def version(self) -> int:
        """A number that differs from the last one if anything was committed in between, by any
        process (SQLite's ``PRAGMA data_version``)."""
        try:
            return cast(int, self._own().execute("PRAGMA data_version").fetchall()[0][0])
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise translated(error, self._database.place) from error

    def _toolchain(self, digest: str) -> str:
        """The fingerprint with ``digest``, which never changes."""
        known = self._fingerprints.get(digest)
        if known is None:
            if len(self._fingerprints) >= _KEPT_FINGERPRINTS:
                self._fingerprints.clear()
            known = self._own().execute(_FINGERPRINT, (digest,)).fetchall()[0][0]
            self._fingerprints[digest] = known
        return known

    def _own(self) -> sqlite3.Cursor:
        """One cursor for all look-ups, each of which reads its rows to the end: that ends its
        transaction."""
        if self._cursor is None:
            assert self._database.place.path is not None  # noqa: S101 - as documented
            self._connection = connect_to_read(self._database.place.path)
            self._cursor = self._connection.cursor()
        return self._cursor

    def close(self) -> None:
        """Closes the connection of its own."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._cursor = None
