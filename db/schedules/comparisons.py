"""What pages set side by side: the best of every workload by target or toolchain, and the farm."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from db.jobs.claims import is_held, owner_of
from db.models import (
    JobRow,
    MeasurementRow,
    ProblemRow,
    ScheduleRow,
    TargetRow,
    ToolchainRow,
    TrialRow,
    WorkloadRow,
)
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState

if TYPE_CHECKING:
    from db.sql_store import SqlStore

MOST_BESTS = 5000


@dataclass(frozen=True)
class Best:
    """A stored best: what it is of, its cycles and every sample of them."""

    kernel: str
    params: Mapping[str, int] = field(hash=False)
    contract: str = ""
    target: str = ""
    fidelity: str = ""
    cache: str = ""
    cycles: int = 0
    samples: tuple[int, ...] = ()
    public_id: str | None = None
    label: str = ""
    """What people call the kernel, if that is not its name."""


@dataclass(frozen=True)
class Toolchain:
    """A toolchain that schedules were made with."""

    digest: str
    fingerprint: Mapping[str, str] = field(hash=False)
    last_used_at: float = 0.0


def bests(store: SqlStore, *, target: str = "", toolchain: str = "") -> list[Best]:
    """The best schedules on a target, or of a toolchain (by digest), that are not quarantined."""
    wanted = (
        select(
            WorkloadRow.kernel,
            WorkloadRow.params,
            ProblemRow.contract,
            TargetRow.name,
            ScheduleRow.fidelity,
            MeasurementRow.cache,
            ScheduleRow.cycles,
            MeasurementRow.samples,
            ScheduleRow.public_id,
            MeasurementRow.overhead_cycles,
            ScheduleRow.provenance,
        )
        .join(ProblemRow, ScheduleRow.problem_id == ProblemRow.id)
        .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        .join(TargetRow, ProblemRow.target_id == TargetRow.id)
        .join(MeasurementRow, ScheduleRow.measurement_id == MeasurementRow.id)
        .join(ToolchainRow, ScheduleRow.toolchain_id == ToolchainRow.id)
        .where(ScheduleRow.quarantined_at.is_(None))
        .order_by(ToolchainRow.last_used_at.desc(), ScheduleRow.id)
        .limit(MOST_BESTS)
    )
    if target:
        wanted = wanted.where(TargetRow.name == target)
    if toolchain:
        wanted = wanted.where(ToolchainRow.digest == toolchain)
    with store.reading() as session:
        return [
            Best(
                row[0],
                row[1],
                row[2].value,
                *row[3:7],
                _net(row[7], row[9]),
                row[8],
                str(row[10].get("kernel_label", "")),
            )
            for row in session.execute(wanted)
        ]


def _net(samples: Sequence[int], overhead_cycles: int | None) -> tuple[int, ...]:
    """As :attr:`tuner.records.candidate.Measurement.net_samples`."""
    return tuple(max(sample - (overhead_cycles or 0), 1) for sample in samples)


def toolchains(store: SqlStore) -> list[Toolchain]:
    """Every toolchain that a job was created with, the current one first."""
    wanted = select(ToolchainRow).order_by(ToolchainRow.last_used_at.desc()).limit(100)
    with store.reading() as session:
        return [
            Toolchain(row.digest, row.fingerprint, row.last_used_at)
            for row in session.scalars(wanted)
        ]


@dataclass(frozen=True)
class RunningJob:
    """A job that a process works on, or did: ``held`` says whether it still does."""

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
    """What a measurer did lately. ``failed`` counts what is the machine's fault, not the
    candidate's."""

    name: str
    finished: int
    failed: int
    last_finished_at: float | None


@dataclass(frozen=True)
class Farm:
    """Who measures what now, and what waits."""

    running: tuple[RunningJob, ...]
    queued: int
    paused: int
    loads: tuple[MeasurerLoad, ...]


def farm(store: SqlStore, window_s: float) -> Farm:
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
    with store.reading() as session:
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
                held=is_held(row),
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
