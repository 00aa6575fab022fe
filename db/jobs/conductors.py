"""Conductors as they list themselves: alive while they renew their row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from db.clock import database_now
from db.database import Database
from db.jobs.claims import Owner, lease_s
from db.service_models import ConductorRow
from tuner.machine.fitness import Abilities, Capacity, Lack, Worker
from tuner.records.documents import read_record

KEPT_S = 86400.0
"""Rows of conductors that were killed are deleted after this long."""
_COLUMNS = ("id", "slots", "version", "artifacts", "seen_at")
"""The fields that have columns of their own, beside the owner's."""


@dataclass(frozen=True)
class Conductor:
    """A conductor's report on itself.

    It is fit if it ``lacks`` nothing that every job needs. ``without`` are the measurers that do
    not work there. ``clock_offset_s`` is how far its clock is ahead of the database's.
    ``executor`` is the address of the one it uses, which several may share, of ``capacity`` and
    with these ``workers``.
    """

    id: str
    owner: Owner
    slots: int
    version: str
    artifacts: str
    abilities: Abilities
    lacks: tuple[Lack, ...] = ()
    without: tuple[Lack, ...] = ()
    clock_offset_s: float = 0.0
    executor: str = ""
    capacity: Capacity = field(default_factory=Capacity)
    workers: tuple[Worker, ...] = ()
    seen_at: float = field(default=0.0, compare=False)

    @property
    def fit(self) -> bool:
        """Whether it takes up jobs."""
        return not self.lacks

    @property
    def label(self) -> str:
        """``process 1234`` or ``process 1234 on lab7``."""
        return self.owner.label

    @property
    def reason(self) -> str:
        """Why it is unfit, in one line; empty if it is fit."""
        return "; ".join(lack.text for lack in self.lacks)


def renew(database: Database, one: Conductor) -> None:
    """Writes or renews the row of ``one``, and sweeps those that are long gone."""
    with database.writing() as session:
        now = database_now(session)
        report = asdict(replace(one, seen_at=now))
        owner = report.pop("owner")
        session.merge(
            ConductorRow(
                **owner,
                **{name: report.pop(name) for name in _COLUMNS},
                expires_at=now + lease_s(),
                report=report,
            )
        )
        session.execute(delete(ConductorRow).where(ConductorRow.expires_at < now - KEPT_S))


def leave(database: Database, conductor_id: str) -> None:
    """Takes a conductor off the list."""
    with database.writing() as session:
        session.execute(delete(ConductorRow).where(ConductorRow.id == conductor_id))


def present(session: Session) -> list[Conductor]:
    """The conductors that are alive, fit or not, the oldest first."""
    alive = select(ConductorRow).where(ConductorRow.expires_at > database_now(session))
    rows = session.scalars(alive.order_by(ConductorRow.started_at, ConductorRow.id))
    found = [_conductor(row) for row in rows]
    # Processes of this machine can be seen: one that was killed is gone at once.
    return [one for one in found if one.owner.is_alive is not False]


def conductors(database: Database) -> list[Conductor]:
    """:func:`present` in a transaction of its own."""
    with database.reading() as session:
        return present(session)


def _conductor(row: ConductorRow) -> Conductor:
    owner = {"host": row.host, "pid": row.pid, "started_at": row.started_at}
    columns = {name: getattr(row, name) for name in _COLUMNS}
    return read_record(Conductor, {**row.report, **columns, "owner": owner})
