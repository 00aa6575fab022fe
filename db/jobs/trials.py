"""The finished trials of a job: in pages, in order, one by one, and as the points of a chart.

The functions take the whole id of a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Select, String, func, select, type_coerce
from sqlalchemy.orm import Session

from db.database import Database, Part
from db.jobs.finding import find_job
from db.leaders import RANKED
from db.models import JobRow, MeasurementRow, ProblemRow, PromotionRow, TrialRow, WorkloadRow
from db.records import (
    job_record,
    measurement_record,
    pending_record,
    problem_record,
    toolchain_record,
    trial_record,
)
from tuner.jobs.headline import textbook_is_unscheduled
from tuner.keeping.store import problem_distance
from tuner.problem.objectives import front_of
from tuner.records.candidate import Problem
from tuner.records.failures import EXPECTED, FailedTrial, Failure, commonest
from tuner.records.outcome import Outcome
from tuner.records.trial import CountedTrial, Job, JobSpec, PendingTrial, Promotion, Trial
from tuner.space.config import KnobValue

BASELINES = ("baseline", "baseline:object", "baseline:schedule")
KNOWN_ORIGINS = ("default", "textbook", *BASELINES)
"""Origins of the trials that others are compared with."""
UNSEARCHED = BASELINES[1:]
SEARCHED = TrialRow.origin.not_in(UNSEARCHED)
"""Of trials of the space: baselines outside of it are compared with, and never the best."""
_MOST_FAILED, _REASON = 5000, 400
"""Failures that are looked at for a job, and characters of each error."""
_BATCH = 500
"""Trials read at once for an export: what it holds in memory."""


@dataclass(frozen=True)
class KeyTrials:
    """The trials of a job that people look at first. Where the default, the textbook config and
    the baseline are the same there is one trial for them. A textbook schedule that is the
    unscheduled default is none."""

    default: Trial | None
    textbook: Trial | None
    best: Trial | None
    baseline: Trial | None = None

    @property
    def by_name(self) -> dict[str, Trial]:
        """The ones that exist, by name."""
        return {name: trial for name, trial in vars(self).items() if trial is not None}


@dataclass(frozen=True)
class PromotedTrials:
    """The promoted trials of a job and their promotions, both by number."""

    trials: Sequence[Trial]
    promotions: Sequence[Promotion]


class TrialPoint(NamedTuple):
    """A finished trial as a chart needs it: without ``cycles`` it was not measured, for the reason
    that ``outcome`` names. The best has the least ``ranked``."""

    number: int
    started_at: float
    finished_at: float
    cycles: int | None
    ranked: int | None
    outcome: str = Outcome.OK.value


class Trials(Part):
    """The trials of the jobs of a database, finished or not, by what people type for a job."""

    def finished(self, job_id: str) -> list[Trial]:
        with self._database.reading() as session:
            wanted = _finished(find_job(session, job_id).id).order_by(TrialRow.number)
            return [trial_record(row) for row in session.scalars(wanted)]

    def counted(self, job_id: str) -> list[CountedTrial]:
        wanted = (
            select(
                TrialRow.number,
                MeasurementRow.artifact_digest,
                MeasurementRow.cycles,
                MeasurementRow.event_counts,
            )
            .join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
            .where(SEARCHED, MeasurementRow.fidelity == "model")
            .order_by(TrialRow.number)
        )
        with self._database.reading() as session:
            of_job = wanted.where(TrialRow.job_id == find_job(session, job_id).id)
            return [CountedTrial(*row) for row in session.execute(of_job)]

    def pending(self, job_id: str) -> list[PendingTrial]:
        wanted = select(TrialRow).where(TrialRow.outcome.is_(None)).order_by(TrialRow.number)
        with self._database.reading() as session:
            of_job = wanted.where(TrialRow.job_id == find_job(session, job_id).id)
            return [pending_record(row) for row in session.scalars(of_job)]

    def promotions(self, job_id: str) -> list[Promotion]:
        with self._database.reading() as session:
            return _promotions(session, find_job(session, job_id).id)

    def near(
        self, spec: JobSpec, *, before: float, least: int, most: int, audience: str = ""
    ) -> list[Job]:
        measured = func.count()
        wanted = (
            select(TrialRow.job_id)
            .join(JobRow, TrialRow.job_id == JobRow.id)
            .where(JobRow.generator == spec.generator, JobRow.cache == spec.cache)
            .where(JobRow.audience.in_(("", audience)))
            .where(TrialRow.measurement_id.is_not(None), TrialRow.finished_at <= before)
            .group_by(TrialRow.job_id)
            .having(measured >= least)
            .order_by(measured.desc(), TrialRow.job_id)
            .limit(1)
        )
        found: list[Job] = []
        with self._database.reading() as session:
            for problem in _tuned(session, spec.problem):
                job_id = session.scalar(wanted.where(JobRow.problem_id == problem))
                if job_id is not None:
                    found.append(job_record(find_job(session, job_id)))
                if len(found) == most:
                    break
        return found


def find_trial(database: Database, job_id: str, number: int) -> Trial | None:
    """One of them."""
    with database.reading() as session:
        row = session.get(TrialRow, (job_id, number))
        return None if row is None or row.outcome is None else trial_record(row)


def key_trials(database: Database, job_id: str) -> KeyTrials:
    """The default, textbook, best and baseline trials of a job, where they exist."""
    finished = _finished(job_id)
    known = finished.where(TrialRow.origin.in_(KNOWN_ORIGINS)).order_by(TrialRow.number.desc())
    fastest = (
        finished.join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(SEARCHED)
        .order_by(RANKED, TrialRow.number)
        .limit(1)
    )
    with database.reading() as session:
        found = {row.origin: trial_record(row) for row in session.scalars(known)}
        best = [trial_record(row) for row in session.scalars(fastest)]
        spec = job_record(find_job(session, job_id)).spec
        objects = {origin: trial.artifact_digest for origin, trial in found.items()}
        return KeyTrials(
            found.get("default"),
            None if textbook_is_unscheduled(spec, objects) else found.get("textbook"),
            best[0] if best else None,
            next((found[origin] for origin in BASELINES if origin in found), None),
        )


def failures(database: Database, job_id: str) -> list[Failure]:
    """The causes of most failures of a job, among its first :data:`_MOST_FAILED`."""
    wanted = (
        select(TrialRow.number, TrialRow.outcome, func.substr(TrialRow.error, 1, _REASON))
        .where(TrialRow.job_id == job_id, TrialRow.outcome.not_in(EXPECTED))
        .order_by(TrialRow.number)
        .limit(_MOST_FAILED)
    )
    with database.reading() as session:
        rows = session.execute(wanted)
        return commonest(
            FailedTrial(number, outcome, error or "") for number, outcome, error in rows
        )


def front_trials(database: Database, job: Job) -> list[Trial]:
    """The trials on the job's Pareto front, the fastest first."""
    goals = [getattr(MeasurementRow, goal) for goal in job.spec.objectives]
    measured = (
        select(TrialRow.number, *goals)
        .join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id == job.id, SEARCHED, *(goal.is_not(None) for goal in goals))
        .order_by(TrialRow.number)
    )
    if len(goals) == 1:
        measured = measured.order_by(None).order_by(*goals, TrialRow.number).limit(1)
    with database.reading() as session:
        found = [tuple(row) for row in session.execute(measured)]
        numbers = [row[0] for row in front_of(found, lambda row: row[1:])]
        wanted = _finished(job.id).where(TrialRow.number.in_(numbers))
        trials = {row.number: trial_record(row) for row in session.scalars(wanted)}
        return [trials[number] for number in numbers]


def promoted_trials(database: Database, job_id: str) -> PromotedTrials:
    """Those of a job."""
    wanted = (
        select(TrialRow)
        .join(
            PromotionRow,
            (PromotionRow.job_id == TrialRow.job_id)
            & (PromotionRow.trial_number == TrialRow.number),
        )
        .where(TrialRow.job_id == job_id)
        .order_by(TrialRow.number)
    )
    with database.reading() as session:
        trials = [trial_record(row) for row in session.scalars(wanted)]
        return PromotedTrials(trials, _promotions(session, job_id))


def trials_page(
    database: Database, job_id: str, outcome: Outcome | None, after: int, limit: int
) -> list[Trial]:
    """At most ``limit`` trials with numbers above ``after``, by number: pages stay whole while the
    job runs."""
    wanted = _finished(job_id, outcome).where(TrialRow.number > after).order_by(TrialRow.number)
    with database.reading() as session:
        return [trial_record(row) for row in session.scalars(wanted.limit(limit))]


def each_trial(database: Database, job_id: str, outcome: Outcome | None) -> Iterator[Trial]:
    """All of them by number, a few at a time in memory."""
    after = -1
    while batch := trials_page(database, job_id, outcome, after, _BATCH):
        yield from batch
        after = batch[-1].number


def ranked_trials(
    database: Database,
    job_id: str,
    *,
    outcome: Outcome | None = None,
    by_cycles: bool = False,
    offset: int = 0,
    limit: int = 50,
) -> list[Trial]:
    """At most ``limit`` trials from place ``offset`` on, the newest or the fastest first."""
    wanted = _finished(job_id, outcome)
    if by_cycles:
        cycles = MeasurementRow.cycles
        wanted = wanted.outerjoin(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        wanted = wanted.order_by(cycles.is_(None), cycles, TrialRow.number)
    else:
        wanted = wanted.order_by(TrialRow.number.desc())
    with database.reading() as session:
        found = session.scalars(wanted.offset(offset).limit(limit))
        return [trial_record(row) for row in found]


def trial_points(database: Database, job_id: str) -> list[TrialPoint]:
    """Every one of them, in the order in which they finished."""
    wanted = (
        select(
            TrialRow.number,
            TrialRow.started_at,
            TrialRow.finished_at,
            MeasurementRow.cycles,
            RANKED,
            type_coerce(TrialRow.outcome, String),  # twenty thousand members of an enum are slow
        )
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .outerjoin(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id == job_id, TrialRow.outcome.is_not(None))
        .order_by(TrialRow.finished_at, TrialRow.number)
    )
    with database.reading() as session:
        return [TrialPoint._make(row) for row in session.execute(wanted)]


def _finished(job_id: str, outcome: Outcome | None = None) -> Select[TrialRow]:
    """Those with ``outcome``, or with any."""
    wanted = select(TrialRow).where(TrialRow.job_id == job_id)
    if outcome is None:
        return wanted.where(TrialRow.outcome.is_not(None))
    return wanted.where(TrialRow.outcome == outcome)


@dataclass(frozen=True)
class AnalysedTrial:
    """A trial. Without ``outcome`` and ``finished_at`` it runs; without ``cycles`` it failed.

    ``samples`` are all repeats in cycles, ``config`` is as stored and not checked again.
    """

    number: int
    outcome: Outcome | None
    origin: str
    config: Mapping[str, KnobValue] = field(hash=False)
    started_at: float
    finished_at: float | None
    cycles: int | None
    code_bytes: int | None
    vtcm_bytes: int | None
    samples: tuple[int, ...]
    ddr_bytes: int | None = None
    config_digest: str = ""


def analysed_trials(database: Database, job_id: str, limit: int) -> list[AnalysedTrial]:
    """The last ``limit`` trials of a job by number, running ones included."""
    wanted = (
        select(
            TrialRow.number,
            TrialRow.outcome,
            TrialRow.origin,
            TrialRow.config,
            TrialRow.started_at,
            TrialRow.finished_at,
            MeasurementRow.cycles,
            MeasurementRow.code_bytes,
            MeasurementRow.vtcm_bytes,
            MeasurementRow.samples,
            MeasurementRow.ddr_bytes,
            TrialRow.config_digest,
        )
        .outerjoin(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id == job_id)
        .order_by(TrialRow.number.desc())
        .limit(limit)
    )
    with database.reading() as session:
        return [
            AnalysedTrial(
                **{name: value for name, value in row._mapping.items() if name != "samples"},
                samples=tuple(row.samples or ()),
            )
            for row in reversed(session.execute(wanted).all())
        ]


def _tuned(session: Session, problem: Problem) -> list[int]:
    """The rows of every other problem of the kernel that has a job, nearest first."""
    workload = problem.workload
    wanted = (
        select(ProblemRow)
        .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        .where(WorkloadRow.kernel == workload.kernel, WorkloadRow.version == workload.version)
        .where(ProblemRow.digest != problem.digest)
        .where(ProblemRow.id.in_(select(JobRow.problem_id)))
    )
    others = [(row.id, problem_record(row)) for row in session.scalars(wanted)]
    others.sort(key=lambda pair: (problem_distance(pair[1], problem), pair[1].digest))
    return [row_id for row_id, _ in others]


def _promotions(session: Session, job_id: str) -> list[Promotion]:
    """All of a job, pending ones too, by the numbers of their trials."""
    wanted = (
        select(PromotionRow)
        .where(PromotionRow.job_id == job_id)
        .order_by(PromotionRow.trial_number)
    )
    return [_promotion(row) for row in session.scalars(wanted)]


def _promotion(row: PromotionRow) -> Promotion:
    return Promotion(
        trial=row.trial_number,
        toolchain=toolchain_record(row.toolchain),
        outcome=row.outcome,
        measurement=None if row.measurement is None else measurement_record(row.measurement),
        error=row.error,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
