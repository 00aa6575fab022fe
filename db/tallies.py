"""Counts over the whole database, for monitoring."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import SQLColumnExpression, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from db.clock import database_now
from db.database import Database
from db.device_models import DeviceRow
from db.jobs.conductors import Conductor, present
from db.models import JobRow, ScheduleRow, TrialRow
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState

PAUSED = "paused"
"""A queued job that waits for somebody, not for a conductor, counts as this."""
BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True)
class Times:
    """How long something took: ``counts`` of times up to each of :data:`BUCKETS_S` and not up to
    the one before, last those beyond; their sum."""

    counts: Sequence[int]
    sum_s: float


@dataclass(frozen=True)
class DeviceWork:
    """The work of all devices of a kind."""

    trials: int
    faults: int
    busy_s: float


@dataclass(frozen=True)
class Tallies:
    """``jobs`` by state (and :data:`PAUSED`), finished ``trials`` by outcome, each with zeros;
    ``schedules`` that can be handed out and those that are ``quarantined``; ``devices`` of the
    farm by kind and state, zeros left out. ``oldest_s`` is how long the oldest job of the queue has
    waited, 0 if it is empty; ``in_flight`` the candidates of running jobs without an outcome;
    ``compile`` is by code generator, ``measure`` (link, run, verify) by measurer."""

    jobs: Mapping[str, int] = field(hash=False)
    trials: Mapping[str, int] = field(hash=False)
    schedules: int
    quarantined: int
    devices: Mapping[tuple[str, str], int] = field(hash=False)
    work: Mapping[str, DeviceWork] = field(hash=False)
    oldest_s: float
    in_flight: int
    compile: Mapping[str, Times] = field(hash=False)
    measure: Mapping[str, Times] = field(hash=False)
    conductors: Sequence[Conductor] = field(hash=False)


def count_all(database: Database) -> Tallies:
    """Counts everything, at one moment."""
    with database.reading() as session:
        schedules, quarantined = session.execute(
            select(func.count(), func.count(ScheduleRow.quarantined_at)).select_from(ScheduleRow)
        ).one()
        return Tallies(
            _jobs(session),
            _trials(session),
            schedules - quarantined,
            quarantined,
            _devices(session),
            _work(session),
            _oldest_s(session),
            _in_flight(session),
            _times(session, JobRow.generator, TrialRow.compile_s),
            _times(session, JobRow.measurer, TrialRow.link_s + TrialRow.run_s),
            present(session),
        )


def count_jobs(database: Database) -> dict[str, int]:
    """Jobs by state, those that are paused apart."""
    with database.reading() as session:
        return _jobs(session)


def _jobs(session: Session) -> dict[str, int]:
    counts = dict.fromkeys([*(state.value for state in JobState), PAUSED], 0)
    grouped = select(JobRow.state, JobRow.paused, func.count()).group_by(
        JobRow.state, JobRow.paused
    )
    for state, paused, count in session.execute(grouped):
        counts[PAUSED if paused and state is JobState.QUEUED else state.value] += count
    return counts


def _oldest_s(session: Session) -> float:
    queued = select(func.min(JobRow.created_at)).where(
        JobRow.state == JobState.QUEUED, JobRow.paused.is_(False)
    )
    created_at = session.scalar(queued)
    return 0.0 if created_at is None else max(0.0, database_now(session) - created_at)


def _in_flight(session: Session) -> int:
    flying = (
        select(func.count())
        .select_from(TrialRow)
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(JobRow.state == JobState.RUNNING, TrialRow.outcome.is_(None))
    )
    return session.scalar(flying) or 0


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


def _times(
    session: Session, by: InstrumentedAttribute[str], seconds: SQLColumnExpression[float]
) -> dict[str, Times]:
    """Times that are not 0, as those of trials that never came so far are."""
    steps = [(seconds <= limit, number) for number, limit in enumerate(BUCKETS_S)]
    bucket = case(*steps, else_=len(BUCKETS_S))
    grouped = (
        select(by, bucket, func.count(), func.sum(seconds))
        .join(TrialRow, TrialRow.job_id == JobRow.id)
        .where(TrialRow.outcome.is_not(None), seconds > 0)
        .group_by(by, bucket)
    )
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS_S) + 1))
    sums: dict[str, float] = defaultdict(float)
    for name, number, count, sum_s in session.execute(grouped):
        counts[name][number] = count
        sums[name] += sum_s
    return {name: Times(found, sums[name]) for name, found in counts.items()}


def _devices(session: Session) -> dict[tuple[str, str], int]:
    grouped = select(DeviceRow.kind, DeviceRow.state, func.count()).group_by(
        DeviceRow.kind, DeviceRow.state
    )
    return {(kind, state.value): count for kind, state, count in session.execute(grouped)}


def _work(session: Session) -> dict[str, DeviceWork]:
    grouped = select(
        DeviceRow.kind,
        func.sum(DeviceRow.trials),
        func.sum(DeviceRow.faults),
        func.sum(DeviceRow.busy_s),
    ).group_by(DeviceRow.kind)
    return {
        kind: DeviceWork(trials, faults, busy_s)
        for kind, trials, faults, busy_s in session.execute(grouped)
    }
