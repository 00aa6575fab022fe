"""Conductors as they list themselves: alive while they renew their row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from db.clock import database_now
from db.database import Database
from db.jobs.claims import Owner, lease_s
from db.service_models import ConductorRow
from tuner.machine.fitness import Abilities, Capacity, Lack, Worker

KEPT_S = 86400.0
"""Rows of conductors that were killed are deleted after this long."""


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
        session.merge(
            ConductorRow(
                id=one.id,
                host=one.owner.host,
                pid=one.owner.pid,
                started_at=one.owner.started_at,
                seen_at=now,
                expires_at=now + lease_s(),
                slots=one.slots,
                version=one.version,
                artifacts=one.artifacts,
                report=_report(one),
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


def _report(one: Conductor) -> dict[str, Any]:
    return {
        "lacks": [asdict(lack) for lack in one.lacks],
        "without": [asdict(lack) for lack in one.without],
        "measurers": list(one.abilities.measurers),
        "devices": [list(tags) for tags in one.abilities.devices],
        "clock_offset_s": one.clock_offset_s,
        "executor": one.executor,
        "capacity": asdict(one.capacity),
        "workers": [asdict(worker) for worker in one.workers],
    }


def _conductor(row: ConductorRow) -> Conductor:
    report: Mapping[str, Any] = row.report
    return Conductor(
        id=row.id,
        owner=Owner(row.host, row.pid, row.started_at),
        slots=row.slots,
        version=row.version,
        artifacts=row.artifacts,
        abilities=Abilities(
            tuple(report["measurers"]), tuple(tuple(tags) for tags in report["devices"])
        ),
        lacks=tuple(Lack(**lack) for lack in report["lacks"]),
        without=tuple(Lack(**lack) for lack in report["without"]),
        clock_offset_s=report["clock_offset_s"],
        executor=report["executor"],
        capacity=Capacity(**report["capacity"]),
        workers=tuple(
            Worker(
                worker["name"],
                worker["slots"],
                tuple(worker["measurers"]),
                tuple(Lack(**lack) for lack in worker["lacks"]),
            )
            for worker in report["workers"]
        ),
        seen_at=row.seen_at,
    )
