"""Why a job waits: the one answer that commands, routes and pages give.

The first reason that holds is told, from those of the job itself to those of everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.access.tokens import most_at_once
from db.audience import EVERYBODYS, as_seen
from db.clock import database_now
from db.database import Database
from db.device_models import DeviceRow
from db.jobs.claims import is_held
from db.jobs.conductors import Conductor, present
from db.models import JobRow
from tuner.machine.fitness import split_tags
from tuner.measure import FARM, measurer_names
from tuner.measure.farm.roster import DeviceState
from tuner.records.trial import JobState

_MOST_NAMED = 2
_IN_SERVICE = (DeviceState.READY, DeviceState.LEASED, DeviceState.SUSPECT)
_START = "start one with `hvxtune serve` or `hvxtune cluster conductor`"


def reason(database: Database, job_id: str) -> str:
    """Why the job with this whole id waits; empty if it does not."""
    with database.reading() as session:
        row = session.get_one(JobRow, job_id)
        return reasons(session, [row])[row.id]


def reasons(session: Session, rows: Sequence[JobRow]) -> dict[str, str]:
    """Why each job of ``rows`` waits; empty for one that does not. A few queries, however many
    they are, and none if all have ended."""
    found = {row.id: "" for row in rows}
    waiting = [row for row in rows if _waits(session, row)]
    measured = [row for row in rows if row.state is JobState.RUNNING and _devices_of(row)]
    if not waiting and not measured:
        return found
    situation = _Situation.of(session, {row.submitted_by for row in waiting})
    found |= {row.id: situation.reason(row) for row in waiting}
    found |= {row.id: situation.busy_devices(row) for row in measured if not found[row.id]}
    return found


def _waits(session: Session, row: JobRow) -> bool:
    return not row.state.ended and not is_held(session, row)


def _devices_of(row: JobRow) -> list[str]:
    """The tags of each farm that the job measures on; empty for all devices."""
    wanted = [row.device_tags] if row.measurer == FARM else []
    if row.promote_to and row.promote_to not in measurer_names():
        wanted.append(row.promote_to)
    elif row.promote_to == FARM:
        wanted.append("")
    return wanted


@dataclass(frozen=True)
class _Device:
    name: str
    tags: frozenset[str]
    state: DeviceState
    reason: str
    holder: str | None


@dataclass(frozen=True)
class _Situation:
    """The causes for which jobs may wait, at one moment. ``running`` counts the jobs of users now
    at work, ``most`` are the quotas of users who have one."""

    conductors: Sequence[Conductor]
    devices: Sequence[_Device]
    running: Mapping[str, int]
    most: Mapping[str, int]
    held: int

    @classmethod
    def of(cls, session: Session, users: set[str]) -> _Situation:
        """The situation now, for jobs of ``users``. It concerns everybody's jobs, private ones
        included, of which only numbers are told."""
        devices = [
            _Device(
                row.name,
                frozenset(row.tags),
                row.state,
                as_seen(session, row.reason),
                row.lease_holder and as_seen(session, row.lease_holder),
            )
            for row in session.scalars(select(DeviceRow).order_by(DeviceRow.name)).all()
        ]
        at_work = select(JobRow).where(JobRow.state == JobState.RUNNING)
        held = [
            row
            for row in session.scalars(at_work.execution_options(**EVERYBODYS))
            if is_held(session, row)
        ]
        running: dict[str, int] = {}
        for row in held:
            running[row.submitted_by] = running.get(row.submitted_by, 0) + 1
        return cls(
            conductors=present(session),
            devices=devices,
            running=running,
            most=most_at_once(session, users & running.keys(), database_now(session)),
            held=sum(1 for row in held if row.submitted_by),
        )

    def reason(self, row: JobRow) -> str:
        """Why the job of ``row``, which nobody works on, waits."""
        if row.paused:
            return "paused: `hvxtune job resume` lets it go on"
        if not row.submitted_by:
            return "it belongs to the command that made it: `hvxtune job resume` continues it"
        return (
            self._nobody()
            or self._unable(row)
            or self._no_device(row)
            or self._over_quota(row)
            or self._after_a_fault(row)
            or self._no_slot()
            or "a conductor takes it up in a moment"
        )

    def _nobody(self) -> str:
        if not self.conductors:
            return f"no conductor runs: {_START}"
        if any(one.fit for one in self.conductors):
            return ""
        return f"no conductor is fit: {_named((one, one.reason) for one in self.conductors)}"

    def _unable(self, row: JobRow) -> str:
        """The measurer or device that no fit conductor has, with the reason of each that could."""
        fit = [one for one in self.conductors if one.fit]
        lacking = [
            one.abilities.lacking(row.measurer, row.device_tags, row.promote_to) for one in fit
        ]
        if not all(lacking):
            return ""
        why = [
            (one, lack.reason)
            for one, part in zip(fit, lacking, strict=True)
            for lack in one.without
            if lack.part == part
        ]
        why += [(one, one.reason) for one in self.conductors if not one.fit]
        return f"no conductor has {lacking[0]}" + (f": {_named(why)}" if why else "")

    def _no_device(self, row: JobRow) -> str:
        for tags in _devices_of(row):
            found = self._with(tags)
            if found and not any(one.state in _IN_SERVICE for one in found):
                each = [f"{one.name} is {one.state.value} ({one.reason})" for one in found]
                return f"no device{_tagged(tags)} is in service: {_first(each)}"
        return self.busy_devices(row)

    def busy_devices(self, row: JobRow) -> str:
        """That others hold every device of a job, if they do."""
        for tags in _devices_of(row):
            found = [one for one in self._with(tags) if one.state in _IN_SERVICE]
            others = [one for one in found if one.holder and f"job {row.id} " not in one.holder]
            if found and len(others) == len(found):
                each = [f"{one.name} by {one.holder}" for one in found]
                return f"all devices{_tagged(tags)} are busy: {_first(each)}"
        return ""

    def _with(self, tags: str) -> list[_Device]:
        wanted = split_tags(tags)
        return [one for one in self.devices if wanted <= one.tags]

    def _over_quota(self, row: JobRow) -> str:
        most = self.most.get(row.submitted_by)
        if most is None or self.running.get(row.submitted_by, 0) < most:
            return ""
        return f"{row.submitted_by} has {most} running jobs, as many as the quota allows"

    def _after_a_fault(self, row: JobRow) -> str:
        """The note of a job that was given back, other than in turn."""
        return "" if row.note.startswith("waits: ") else row.note

    def _no_slot(self) -> str:
        slots = sum(one.slots for one in self.conductors if one.fit)
        if self.held < slots:
            return ""
        return f"all {slots} slots of the conductors are busy"


def _tagged(tags: str) -> str:
    wanted = sorted(split_tags(tags))
    if not wanted:
        return ""
    return f" of tag{'s' if len(wanted) > 1 else ''} {', '.join(wanted)}"


def _named(why: Iterable[tuple[Conductor, str]]) -> str:
    return _first([f"{one.label}: {text}" for one, text in why])


def _first(each: Sequence[str]) -> str:
    more = len(each) - _MOST_NAMED
    shown = "; ".join(each[:_MOST_NAMED])
    return f"{shown}; and {more} more" if more > 0 else shown
