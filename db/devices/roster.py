"""The roster of devices over SQL: what ``tuner.measure.farm.roster.Roster`` promises."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, cast

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from db.catalogue import insert_unless_there
from db.devices.models import DeviceEventRow, DeviceRow
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
from tuner.records.candidate import Fidelity
from tuner.records.trial import JobState


class Transactions(Protocol):
    """What a store has to offer for a roster in its database."""

    def reading(self) -> AbstractContextManager[Session]:
        """A transaction for queries."""

    def writing(self) -> AbstractContextManager[Session]:
        """A transaction that writes."""


class SqlRoster(Roster):
    """Devices in the database of ``store``, which stays the caller's to close.

    Safe from several threads and with other processes on the same database.
    """

    def __init__(self, store: Transactions, clock: Clock = time.time) -> None:
        super().__init__(clock)
        self._store = store

    def devices(self) -> list[DeviceRecord]:
        now = self.clock()
        with self._store.reading() as session:
            rows = session.scalars(select(DeviceRow).order_by(DeviceRow.name))
            return [lapsed(_record(row), now) for row in rows]

    def events(self, name: str, limit: int = 50, before: int | None = None) -> list[DeviceEvent]:
        wanted = (
            select(DeviceEventRow)
            .where(DeviceEventRow.device == name)
            .order_by(DeviceEventRow.id.desc())
            .limit(limit)
        )
        if before is not None:
            wanted = wanted.where(DeviceEventRow.id < before)
        with self._store.reading() as session:
            if session.get(DeviceRow, name) is None:
                raise _unknown(session, name)
            return [
                DeviceEvent(row.id, row.device, row.at, row.before, row.after, row.reason)
                for row in session.scalars(wanted)
            ]

    def _add(self, record: DeviceRecord) -> bool:
        with self._store.writing() as session:
            values = {"name": record.name, **_columns(record)}
            if not insert_unless_there(session, DeviceRow, values, ["name"]):
                return False
            self._tell(session, None, record)
            return True

    def _change(self, name: str, step: Step) -> DeviceRecord:
        with self._store.writing() as session:
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


def _unknown(session: Session, name: str) -> Exception:
    return unknown_device(name, list(session.scalars(select(DeviceRow.name).order_by("name"))))


def _columns(record: DeviceRecord) -> dict[str, Any]:
    lease = record.lease
    return {
        "kind": record.kind,
        "fidelity": record.fidelity,
        "tags": list(record.tags),
        "state": record.state,
        "reason": record.reason,
        "since": record.since,
        "token": record.token,
        "lease_holder": None if lease is None else lease.holder,
        "lease_purpose": None if lease is None else lease.purpose,
        "lease_expires_at": None if lease is None else lease.expires_at,
        "recent": record.recent,
        "failed_checks": record.failed_checks,
        "last_check_at": record.last_check_at,
        "last_check": record.last_check,
        "temperature_c": record.temperature_c,
        "gold_cycles": record.gold_cycles,
        "fingerprint": None if record.fingerprint is None else dict(record.fingerprint),
        "details": dict(record.details),
        "trials": record.trials,
        "faults": record.faults,
        "busy_s": record.busy_s,
        "minutes": [list(minute) for minute in record.minutes],
    }


def _record(row: DeviceRow) -> DeviceRecord:
    lease = None
    if row.lease_holder is not None and row.lease_purpose and row.lease_expires_at is not None:
        lease = Lease(
            row.name, row.token, row.lease_holder, row.lease_purpose, row.lease_expires_at
        )
    return DeviceRecord(
        name=row.name,
        kind=row.kind,
        fidelity=cast(Fidelity, row.fidelity),
        tags=tuple(row.tags),
        state=row.state,
        reason=row.reason,
        since=row.since,
        token=row.token,
        lease=lease,
        recent=row.recent,
        failed_checks=row.failed_checks,
        last_check_at=row.last_check_at,
        last_check=row.last_check,
        temperature_c=row.temperature_c,
        gold_cycles=row.gold_cycles,
        fingerprint=row.fingerprint,
        details=row.details,
        trials=row.trials,
        faults=row.faults,
        busy_s=row.busy_s,
        minutes=tuple((at, runs, faults) for at, runs, faults in row.minutes),
    )


@dataclass(frozen=True)
class FarmQueue:
    """What waits for devices: jobs that nobody has taken up, and trials of those that run which
    are handed out and have no result yet."""

    jobs_queued: int
    trials_pending: int


def farm_queue(store: Transactions) -> FarmQueue:
    """What the jobs that the farm measures for have in store for it."""
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
    with store.reading() as session:
        return FarmQueue(session.scalar(queued) or 0, session.scalar(pending) or 0)
