"""The roster of devices (:class:`tuner.measure.farm.roster.Roster`) over SQL."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from db.audience import as_seen
from db.catalogue import insert_unless_there
from db.database import Database
from db.device_models import DeviceEventRow, DeviceRow
from db.models import JobRow, TrialRow
from tuner.measure import FARM
from tuner.measure.farm.roster import (
    Clock,
    DeviceEvent,
    DeviceRecord,
    Lease,
    Roster,
    Step,
    is_told,
    lapsed,
    unknown_device,
)
from tuner.records.trial import JobState


class SqlRoster(Roster):
    """Devices in ``database``, which stays the caller's to close.

    Safe from several threads and with other processes on the same database.
    """

    def __init__(self, database: Database, clock: Clock = time.time) -> None:
        super().__init__(clock)
        self._database = database

    def devices(self) -> list[DeviceRecord]:
        now = self.clock()
        with self._database.reading() as session:
            rows = session.scalars(select(DeviceRow).order_by(DeviceRow.name))
            return [lapsed(_as_seen(session, _record(row)), now) for row in rows]

    def events(self, name: str, limit: int = 50, before: int | None = None) -> list[DeviceEvent]:
        wanted = (
            select(DeviceEventRow)
            .where(DeviceEventRow.device == name)
            .order_by(DeviceEventRow.id.desc())
            .limit(limit)
        )
        if before is not None:
            wanted = wanted.where(DeviceEventRow.id < before)
        with self._database.reading() as session:
            if session.get(DeviceRow, name) is None:
                raise _unknown(session, name)
            return [
                DeviceEvent(row.id, row.device, row.at, row.before, row.after, reason)
                for row in session.scalars(wanted).all()
                for reason in (as_seen(session, row.reason),)
            ]

    def _add(self, record: DeviceRecord) -> bool:
        with self._database.writing() as session:
            if not insert_unless_there(session, DeviceRow, _columns(record), ["name"]):
                return False
            self._tell(session, None, record)
            return True

    def _change(self, name: str, step: Step) -> DeviceRecord:
        with self._database.writing() as session:
            row = session.get(DeviceRow, name, populate_existing=True, with_for_update=True)
            if row is None:
                raise _unknown(session, name)
            before = _record(row)
            after = step(before)
            for column, value in _columns(after).items():
                setattr(row, column, value)
            self._tell(session, before, after)
            return after

    def _tell(self, session: Session, before: DeviceRecord | None, after: DeviceRecord) -> None:
        if not is_told(before, after):
            return
        session.execute(
            insert(DeviceEventRow).values(
                device=after.name,
                at=self.clock(),
                before=None if before is None else before.state,
                after=after.state,
                reason=after.reason,
            )
        )


def _as_seen(session: Session, record: DeviceRecord) -> DeviceRecord:
    lease = record.lease
    if lease is not None:
        lease = replace(lease, holder=as_seen(session, lease.holder))
    return replace(record, lease=lease, reason=as_seen(session, record.reason))


def _unknown(session: Session, name: str) -> Exception:
    return unknown_device(name, list(session.scalars(select(DeviceRow.name).order_by("name"))))


_PLAIN = tuple(one.name for one in fields(DeviceRecord) if one.name not in ("lease", "minutes"))
"""Fields of a record that are columns as they are, except that tuples become lists."""


def _columns(record: DeviceRecord) -> dict[str, Any]:
    lease = record.lease
    return {
        **{name: getattr(record, name) for name in _PLAIN},
        "tags": list(record.tags),
        "details": dict(record.details),
        "fingerprint": None if record.fingerprint is None else dict(record.fingerprint),
        "minutes": [list(minute) for minute in record.minutes],
        "lease_holder": None if lease is None else lease.holder,
        "lease_purpose": None if lease is None else lease.purpose,
        "lease_expires_at": None if lease is None else lease.expires_at,
    }


def _record(row: DeviceRow) -> DeviceRecord:
    lease = None
    if row.lease_holder is not None and row.lease_purpose and row.lease_expires_at is not None:
        lease = Lease(
            row.name, row.token, row.lease_holder, row.lease_purpose, row.lease_expires_at
        )
    plain: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}
    minutes = tuple((at, runs, faults) for at, runs, faults in row.minutes)
    return DeviceRecord(**{**plain, "tags": tuple(row.tags)}, lease=lease, minutes=minutes)


@dataclass(frozen=True)
class FarmQueue:
    """The work that waits for devices: jobs nobody has taken up, and trials of running jobs that
    are handed out and have no result yet."""

    jobs_queued: int
    trials_pending: int


def farm_queue(database: Database) -> FarmQueue:
    """The work that jobs measured by the farm have for it."""
    ours = JobRow.measurer == FARM
    queued = select(func.count()).where(
        ours, JobRow.state == JobState.QUEUED, JobRow.paused.is_(False)
    )
    pending = (
        select(func.count())
        .select_from(TrialRow)
        .join(JobRow, TrialRow.job_id == JobRow.id)
        .where(ours, JobRow.state == JobState.RUNNING, TrialRow.outcome.is_(None))
    )
    with database.reading() as session:
        return FarmQueue(session.scalar(queued) or 0, session.scalar(pending) or 0)
