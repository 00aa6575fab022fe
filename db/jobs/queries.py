"""Jobs in pages, with their progress and who works on them; counted by the database."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import ColumnElement, Select, String, cast, exists, func, or_, select, tuple_
from sqlalchemy.orm import Session

from db.audience import EVERYBODYS
from db.database import Database
from db.jobs import waiting
from db.jobs.annotations import annotations_of, has_tag
from db.jobs.claims import Owner, is_held, owner_of
from db.jobs.finding import find_job
from db.jobs.trials import BASELINES, UNSEARCHED
from db.leaders import Leader, best_cycles, best_of, leaders
from db.models import (
    AnnotationRow,
    BatchRow,
    JobRow,
    ProblemRow,
    PromotionRow,
    TargetRow,
    TrialRow,
    WorkloadRow,
)
from db.records import job_record
from tuner.jobs.headline import Headline, headline, textbook_is_unscheduled
from tuner.problem.contract import Contract
from tuner.records.annotation import Annotation
from tuner.records.candidate import CacheState, Cycles, Problem
from tuner.records.outcome import Outcome
from tuner.records.trial import Job, JobState


@dataclass(frozen=True)
class JobSummary:
    """A job with its trials counted, not loaded.

    ``outcomes`` has the outcomes that occurred, ``pending`` counts trials handed out and not
    finished, ``best`` is the best verified trial. ``owner`` is the process that works
    on it now. ``interrupted`` means that the job says ``running`` but its process is gone: it
    can be resumed. ``waits`` is why nobody works on it, or what its work waits for
    (:mod:`db.jobs.waiting`). ``annotation`` is its comment and tags.
    """

    job: Job
    outcomes: Mapping[Outcome, int] = field(hash=False)
    pending: int
    best: Leader | None
    owner: Owner | None
    interrupted: bool
    waits: str = ""
    annotation: Annotation = field(default_factory=Annotation)

    @property
    def best_cycles(self) -> int | None:
        """Those of the best."""
        return None if self.best is None else self.best.cycles

    @property
    def finished(self) -> int:
        """Trials of every outcome."""
        return sum(self.outcomes.values())


class _Tally(NamedTuple):
    """The trials of a job with one outcome, ``None`` for those in flight, and from one origin."""

    outcome: Outcome | None
    origin: str
    trials: int
    last_finished_at: float | None
    object_digest: str | None
    """Of one of them."""
    leader: Leader | None = None


Tallies = Mapping[str, Sequence[_Tally]]

_MOST_KEPT = 4096
_kept: WeakKeyDictionary[Any, dict[tuple[str, int], Sequence[_Tally]]] = WeakKeyDictionary()
"""By engine, of jobs that have ended, with their number of events: whatever adds a trial is one."""
_one_keeps = threading.Lock()


def _tallies(session: Session, rows: Sequence[JobRow]) -> Tallies:
    """Of each of ``rows``, by the id of the job."""
    kept = _kept.setdefault(session.get_bind(), {})
    ended = [(row.id, row.event_count) for row in rows if row.state.ended]
    known = {key[0]: kept[key] for key in ended if key in kept}
    found = {**known, **_counted(session, [row.id for row in rows if row.id not in known])}
    with _one_keeps:
        kept.update({key: found[key[0]] for key in ended})
        while len(kept) > _MOST_KEPT:
            del kept[next(iter(kept))]
    return found


def _counted(session: Session, job_ids: Sequence[str]) -> Tallies:
    """One pass over the trials of these jobs."""
    found: dict[str, list[_Tally]] = {job_id: [] for job_id in job_ids}
    if not found:
        return found
    parts = (TrialRow.job_id, TrialRow.outcome, TrialRow.origin)
    of_jobs = TrialRow.job_id.in_(found)
    latest, one_object = func.max(TrialRow.finished_at), func.min(TrialRow.artifact_digest)
    grouped = select(*parts, func.count(), latest, one_object).where(of_jobs).group_by(*parts)
    best = leaders(session, of_jobs)
    for job_id, outcome, origin, count, at, digest in session.execute(grouped):
        of_origin = (one for one in best.get(job_id, ()) if one.origin == origin)
        leader = next(of_origin, None) if outcome is Outcome.OK else None
        found[job_id].append(_Tally(outcome, origin, count, at, digest, leader))
    return found


def _least(tallies: Sequence[_Tally], origins: Container[str]) -> Cycles | None:
    """The cycles of the best trial from ``origins``."""
    return best_cycles(one.leader for one in tallies if one.leader and one.origin in origins)


def summaries_of(
    session: Session, rows: Sequence[JobRow], tallies: Tallies | None = None
) -> list[JobSummary]:
    """The summaries of ``rows``, in their order, in a few more queries however many they are."""
    tallies = _tallies(session, rows) if tallies is None else tallies
    waits = waiting.reasons(session, rows)
    annotations = annotations_of(session, tallies)
    return [
        _summary(session, row, tallies[row.id], waits[row.id], annotations[row.id]) for row in rows
    ]


def _summary(
    session: Session,
    row: JobRow,
    tallies: Sequence[_Tally],
    waits: str,
    annotation: Annotation,
) -> JobSummary:
    held = is_held(session, row)
    counts: Counter[Outcome | None] = Counter()
    for each in tallies:
        counts[each.outcome] += each.trials
    searched = {each.origin for each in tallies}.difference(UNSEARCHED)
    return JobSummary(
        job=job_record(row),
        outcomes={outcome: counts[outcome] for outcome in Outcome if outcome in counts},
        pending=counts[None],
        best=best_of(one.leader for one in tallies if one.leader and one.origin in searched),
        owner=owner_of(row) if held else None,
        interrupted=row.state is JobState.RUNNING and not held,
        waits=waits,
        annotation=annotation,
    )


MOST_WORDS = 8
"""Of a search; more than anybody types."""


@dataclass(frozen=True)
class JobFilters:
    """Which jobs are meant; ``None`` means all. Those that are ``paused`` are ``queued`` too.

    ``kernel`` is its name or its display name, as an upload has. Each word of ``text`` is part of
    the kernel's name or display name, the name of the network or set, the id, the user, the
    target, the contract or the comment, or a whole tag. Those that are ``measured`` have a
    trial that was.
    """

    state: JobState | None = None
    kernel: str | None = None
    target: str | None = None
    contract: Contract | None = None
    user: str | None = None
    batch: str | None = None
    interrupted: bool | None = None
    paused: bool | None = None
    text: str | None = None
    tag: str | None = None
    measured: bool | None = None

    @property
    def any(self) -> bool:
        """Whether they leave some jobs out."""
        return self != JobFilters()


@dataclass(frozen=True)
class JobOverview:
    """A job's summary with the cycles of trials to compare with, and when its last trial ended.

    ``default``, ``textbook`` and ``baseline`` are ``None`` until they are measured; where
    ``textbook_is_unscheduled`` there is no textbook but the default. Where configs are the same
    there is one trial for them.
    """

    summary: JobSummary
    default: Cycles | None
    textbook: Cycles | None
    last_finished_at: float | None
    promotions: tuple[int, int] = (0, 0)
    """How many were handed out, and how many have come back."""
    baseline: Cycles | None = None
    textbook_is_unscheduled: bool = False

    @property
    def headline(self) -> Headline | None:
        """The opponent of its best."""
        best = self.summary.best
        return headline({"baseline": self.baseline, "textbook": self.textbook}, best and best.taken)

    @property
    def job(self) -> Job:
        """The job itself."""
        return self.summary.job

    @property
    def rate_per_s(self) -> float | None:
        """Trials a second over all sessions of the job."""
        spent_s, finished = self.job.spent_s, self.summary.finished
        return finished / spent_s if finished and spent_s > 0 else None

    @property
    def progress(self) -> float | None:
        """Share of the budget that is used: of trials or of seconds, whichever is nearer its end.
        ``None`` for a job that only patience ends."""
        budget = self.job.spec.budget
        parts = []
        if budget.trials is not None:
            parts.append(self.summary.finished / budget.trials)
        if budget.seconds is not None:
            parts.append(self.job.spent_s / budget.seconds)
        return min(1.0, max(parts)) if parts else None

    @property
    def eta_s(self) -> float | None:
        """Seconds to the end of the budget at the rate so far, while somebody works on it."""
        if self.job.state is not JobState.RUNNING or self.summary.interrupted:
            return None
        budget, rate = self.job.spec.budget, self.rate_per_s
        left = []
        if budget.trials is not None and rate is not None:
            left.append((budget.trials - self.summary.finished) / rate)
        if budget.seconds is not None:
            left.append(budget.seconds - self.job.spent_s)
        return max(0.0, min(left)) if left else None


@dataclass(frozen=True)
class ConductorAtWork:
    """A process and the jobs it works on."""

    owner: Owner
    jobs: tuple[str, ...]


def jobs_page(
    database: Database, filters: JobFilters, before: tuple[float, str] | None, limit: int
) -> list[JobOverview]:
    """At most ``limit`` jobs, newest first, older than the one made at ``before`` (time, id)."""
    with database.reading() as session:
        wanted = select(JobRow).order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit)
        if before is not None:
            wanted = wanted.where(tuple_(JobRow.created_at, JobRow.id) < before)
        wanted = filtered(session, wanted, filters)
        return overviews_of(session, session.scalars(wanted).all())


def filtered(
    session: Session, wanted: Select[Any], filters: JobFilters, jobs: type[JobRow] = JobRow
) -> Select[Any]:
    """``wanted``, a query about ``jobs``, of those alone that pass ``filters``."""
    columns: Mapping[str, ColumnElement[Any] | Any] = {
        "state": jobs.state,
        "target": TargetRow.name,
        "contract": ProblemRow.contract,
        "user": jobs.submitted_by,
        "batch": jobs.batch_id,
        "paused": jobs.paused,
    }
    given = {f.name: getattr(filters, f.name) for f in fields(filters)}
    if any(given[name] is not None for name in ("kernel", "target", "contract", "text")):
        wanted = (
            wanted.join(ProblemRow, jobs.problem_id == ProblemRow.id)
            .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
            .join(TargetRow, ProblemRow.target_id == TargetRow.id)
        )
    for name, column in columns.items():
        if given[name] is not None:
            wanted = wanted.where(column == given[name])
    if filters.kernel is not None:
        names = (WorkloadRow.kernel, jobs.kernel_label)
        wanted = wanted.where(or_(*(name == filters.kernel for name in names)))
    if filters.tag is not None:
        wanted = wanted.where(has_tag(jobs.id, filters.tag))
    if filters.text is not None:
        wanted = wanted.outerjoin(BatchRow, jobs.batch_id == BatchRow.id)
        wanted = wanted.outerjoin(AnnotationRow, AnnotationRow.job_id == jobs.id)
        texts: list[ColumnElement[str] | Any] = [
            *(WorkloadRow.kernel, jobs.kernel_label, BatchRow.name, jobs.id),
            *(jobs.submitted_by, TargetRow.name, cast(ProblemRow.contract, String)),
            AnnotationRow.comment,
        ]
        for word in filters.text.replace("\0", "").split()[:MOST_WORDS]:
            found = (one.icontains(word, autoescape=True) for one in texts)
            wanted = wanted.where(or_(*found, has_tag(jobs.id, word.lower())))
    if filters.measured is not None:
        trials = exists().where(TrialRow.job_id == jobs.id, TrialRow.measurement_id.is_not(None))
        wanted = wanted.where(trials if filters.measured else ~trials)
    if filters.interrupted is not None:
        among = jobs.id.in_(_interrupted(session))
        wanted = wanted.where(among if filters.interrupted else ~among)
    return wanted


def _interrupted(session: Session) -> list[str]:
    """The jobs that run and have no living owner: only this machine can tell, not the database.
    There are no more running jobs than slots of conductors."""
    running = session.scalars(select(JobRow).where(JobRow.state == JobState.RUNNING))
    return [row.id for row in running if not is_held(session, row)]


def open_jobs_on(database: Database, kernel: str) -> list[str]:
    """All jobs on workloads of ``kernel`` that wait or run, private ones included."""
    wanted = (
        select(JobRow.id)
        .join(ProblemRow, JobRow.problem_id == ProblemRow.id)
        .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        .where(WorkloadRow.kernel == kernel, JobRow.state.in_([JobState.QUEUED, JobState.RUNNING]))
        .order_by(JobRow.id)
    )
    with database.reading() as session:
        return list(session.scalars(wanted.execution_options(**EVERYBODYS)))


def job_overview(database: Database, job_id: str) -> JobOverview:
    """One job; ``UserError`` without it."""
    with database.reading() as session:
        return overviews_of(session, [find_job(session, job_id)])[0]


def job_overviews(database: Database, job_ids: Sequence[str]) -> list[JobOverview]:
    """The jobs with these whole ids, in the order given; unknown ones are left out."""
    with database.reading() as session:
        found = session.scalars(select(JobRow).where(JobRow.id.in_(job_ids)))
        rows = {row.id: row for row in found}
        return overviews_of(session, [rows[job_id] for job_id in job_ids if job_id in rows])


def overviews_of(session: Session, rows: Sequence[JobRow]) -> list[JobOverview]:
    """The overviews of ``rows``, in as many queries as their summaries, or one more if some
    promote, however many jobs they are."""
    tallies = _tallies(session, rows)
    promotions: dict[str, tuple[int, int]] = {}
    if any(row.promote_to for row in rows):
        counts = select(PromotionRow.job_id, func.count(), func.count(PromotionRow.outcome))
        counts = counts.where(PromotionRow.job_id.in_([row.id for row in rows]))
        for job_id, begun, back in session.execute(counts.group_by(PromotionRow.job_id)):
            promotions[job_id] = (begun, back)
    return [
        _overview(summary, tallies[row.id], promotions.get(row.id, (0, 0)))
        for row, summary in zip(rows, summaries_of(session, rows, tallies), strict=True)
    ]


def _overview(
    summary: JobSummary, tallies: Sequence[_Tally], promotions: tuple[int, int]
) -> JobOverview:
    unscheduled = textbook_is_unscheduled(
        summary.job.spec, {one.origin: one.object_digest for one in tallies}
    )
    return JobOverview(
        summary,
        _least(tallies, ("default",)),
        None if unscheduled else _least(tallies, ("textbook",)),
        max(filter(None, (one.last_finished_at for one in tallies)), default=None),
        promotions,
        next(filter(None, (_least(tallies, (one,)) for one in BASELINES)), None),
        unscheduled,
    )


def conductors_at_work(database: Database) -> list[ConductorAtWork]:
    """The processes that hold jobs now, here and elsewhere."""
    with database.reading() as session:
        running = session.scalars(select(JobRow).where(JobRow.state == JobState.RUNNING)).all()
        jobs: dict[Owner, list[str]] = {}
        for summary in summaries_of(session, running):
            if summary.owner is not None:
                jobs.setdefault(summary.owner, []).append(summary.job.id)
    return [ConductorAtWork(owner, tuple(sorted(held))) for owner, held in jobs.items()]


def open_job(
    database: Database,
    problem: Problem,
    cache: CacheState,
    kinds: Sequence[str] = (),
    owner: str = "",
) -> Job | None:
    """The oldest job for ``problem`` that has not ended, if there is one.

    With ``kinds`` of devices, one that measures on devices of such a kind or promotes to them: a
    search on the model never answers who asks for more. Nor does a private job, but ``owner``'s.
    """
    wanted = (
        select(JobRow)
        .join(ProblemRow, JobRow.problem_id == ProblemRow.id)
        .where(ProblemRow.digest == problem.digest, JobRow.cache == cache)
        .where(JobRow.audience.in_(("", owner)))
        .where(JobRow.state.in_((JobState.QUEUED, JobState.RUNNING)), JobRow.paused.is_(False))
        .order_by(JobRow.created_at)
        .limit(1)
    )
    if kinds:
        above = (JobRow.promote_to, JobRow.device_tags, JobRow.measurer)
        wanted = wanted.where(or_(*(column.in_(kinds) for column in above)))
    with database.reading() as session:
        row = session.scalar(wanted)
        return None if row is None else job_record(row)
