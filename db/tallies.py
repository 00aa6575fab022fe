"""Counts over the whole database, for monitoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.devices.models import DeviceRow
from db.models import JobRow, ScheduleRow, TrialRow
from db.sql_store import SqlStore
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState

PAUSED = "paused"
"""A queued job that waits for somebody, not for a conductor, counts as this."""


@dataclass(frozen=True)
class Tallies:
    """``jobs`` by state (and :data:`PAUSED`), finished ``trials`` by outcome, each with zeros;
    ``schedules`` that can be handed out and those that are ``quarantined``; ``devices`` of the
    farm by kind and state, zeros left out."""

    jobs: Mapping[str, int] = field(hash=False)
    trials: Mapping[str, int] = field(hash=False)
    schedules: int
    quarantined: int
    devices: Mapping[tuple[str, str], int] = field(hash=False)


def count_all(store: SqlStore) -> Tallies:
    """Counts everything, at one moment."""
    with store.reading() as session:
        schedules, quarantined = session.execute(
            select(func.count(), func.count(ScheduleRow.quarantined_at)).select_from(ScheduleRow)
        ).one()
        return Tallies(
            _jobs(session),
            _trials(session),
            schedules - quarantined,
            quarantined,
            _devices(session),
        )


def _jobs(session: Session) -> dict[str, int]:
    counts = dict.fromkeys([*(state.value for state in JobState), PAUSED], 0)
    grouped = select(JobRow.state, JobRow.paused, func.count()).group_by(
        JobRow.state, JobRow.paused
    )
    for state, paused, count in session.execute(grouped):
        counts[PAUSED if paused and state is JobState.QUEUED else state.value] += count
    return counts


def _trials(session: Session) -> dict[str, int]:
    counts = dict.fromkeys((outcome.value for outcome in Outcome), 0)
    grouped = (
        select(TrialRow.outcome, func.count())
        .where(TrialRow.outcome.is_not(None))
        .group_by(TrialRow.outcome)
    )
    for outcome, count in session.execute(grouped):
        if outcome is not None:
            counts[outcome.value] = count
    return counts


def _devices(session: Session) -> dict[tuple[str, str], int]:
    grouped = select(DeviceRow.kind, DeviceRow.state, func.count()).group_by(
        DeviceRow.kind, DeviceRow.state
    )
    return {(kind, state.value): count for kind, state, count in session.execute(grouped)}
