"""Running and waiting work: the farm as the database sees it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from db.database import Database
from db.jobs.claims import is_held, owner_of
from db.models import JobRow, TrialRow
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState


@dataclass(frozen=True)
class RunningJob:
    """A job that a process works on, or did; ``held`` says whether it still does."""

    id: str
    name: str
    measurer: str
    workers: int
    pending: int
    host: str
    pid: int
    held: bool
    lease_expires_at: float


@dataclass(frozen=True)
class MeasurerLoad:
    """Trials that a measurer finished lately. ``failed`` counts those that the machine, not the
    candidate, is to blame for."""

    name: str
    finished: int
    failed: int
    last_finished_at: float | None


@dataclass(frozen=True)
class Farm:
    """The jobs that run and wait, and the load of each measurer."""

    running: tuple[RunningJob, ...]
    queued: int
    paused: int
    loads: tuple[MeasurerLoad, ...]


def farm(database: Database, window_s: float) -> Farm:
    """The farm as the database sees it, with trials of the last ``window_s`` seconds."""
    since = time.time() - window_s
    waiting = (
        select(JobRow.paused, func.count())
        .where(JobRow.state == JobState.QUEUED)
        .group_by(JobRow.paused)
    )
    pending = (
        select(TrialRow.job_id, func.count())
        .join(JobRow, TrialRow.job_id == JobRow.id)
        .where(JobRow.state == JobState.RUNNING, TrialRow.outcome.is_(None))
        .group_by(TrialRow.job_id)
    )
    recent = (
        select(JobRow.measurer, TrialRow.outcome, func.count(), func.max(TrialRow.finished_at))
        .join(JobRow, TrialRow.job_id == JobRow.id)
        .where(TrialRow.finished_at >= since)
        .group_by(JobRow.measurer, TrialRow.outcome)
    )
    running = select(JobRow).where(JobRow.state == JobState.RUNNING).limit(500)
    with database.reading() as session:
        counts: dict[str, Any] = {row[0]: row[1] for row in session.execute(pending)}
        queue = {row[0]: row[1] for row in session.execute(waiting)}
        loads: dict[str, list[Any]] = {}
        for measurer, outcome, count, last in session.execute(recent):
            load = loads.setdefault(measurer, [0, 0, None])
            load[0] += count
            load[1] += count if outcome is Outcome.DEVICE_ERROR else 0
            load[2] = max(load[2] or 0.0, last or 0.0)
        jobs = tuple(
            RunningJob(
                id=row.id,
                name=row.kernel_label or row.problem.workload.kernel,
                measurer=row.measurer,
                workers=row.workers,
                pending=counts.get(row.id, 0),
                host=owner.host,
                pid=owner.pid,
                held=is_held(session, row),
                lease_expires_at=row.lease_expires_at or 0.0,
            )
            for row in session.scalars(running)
            if (owner := owner_of(row)) is not None
        )
    return Farm(
        running=jobs,
        queued=queue.get(False, 0),
        paused=queue.get(True, 0),
        loads=tuple(MeasurerLoad(name, *load) for name, load in sorted(loads.items())),
    )
