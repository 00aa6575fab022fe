"""The queue of jobs, as conductors see it: who waits, who goes next, who must give way.

Jobs without a user belong to the command line that made them (``hvxtune tune`` and ``resume`` run
them): conductors leave them alone.

The next job is chosen by priority, and in turn among users. First a user is chosen, then one of
their jobs. A user's claim is the highest priority of their waiting jobs, plus a point for every
minute in which none of them was served: a user who asks for little priority is not served first,
but is served in the end. Of users with equal claims, the one with the least service lately goes
first, so that one user's thousand jobs do not stand before another's single one. Of a user's own
jobs, the one with the highest priority goes first, plus a point for each minute it has waited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from sqlalchemy import and_, bindparam, func, or_, select
from sqlalchemy.orm import Session

from db.access.tokens import most_at_once
from db.database import Database
from db.jobs.claims import COLUMNS as CLAIM_COLUMNS
from db.jobs.claims import Claims, is_held, take
from db.models import JobRow, TrialRow
from tuner.errors import UserError
from tuner.records.trial import JobRequest, JobState

AGEING_S = 60.0
"""Waiting this long is worth one point of priority, of which there are -100 to 100."""
WINDOW_S = 600.0
"""How long service is remembered."""


@dataclass(frozen=True)
class Waiting:
    """A job that could be taken up. ``waited_s`` sums the seconds in which nobody worked on it."""

    job_id: str
    user: str
    priority: int
    created_at: float
    waited_s: float


@dataclass(frozen=True)
class Service:
    """The service a user got in the last :data:`WINDOW_S`: seconds of trials, and the last end."""

    trial_s: float = 0.0
    last_at: float | None = None


NO_SERVICE = Service()


def next_in_line(
    waiting: Iterable[Waiting], service: Mapping[str, Service], now: float
) -> Waiting | None:
    """The job to take up now; ``None`` if none waits."""
    by_user: dict[str, list[Waiting]] = {}
    for job in waiting:
        by_user.setdefault(job.user, []).append(job)
    if not by_user:
        return None

    def users_turn(user: str) -> tuple[int, float, float]:
        got = service.get(user, NO_SERVICE)
        claim = max(_points(job.priority, _unserved_s(job, got, now)) for job in by_user[user])
        return -claim, got.trial_s, min(job.created_at for job in by_user[user])

    def jobs_turn(job: Waiting) -> tuple[int, float, str]:
        return -_points(job.priority, job.waited_s), job.created_at, job.job_id

    return min(by_user[min(by_user, key=users_turn)], key=jobs_turn)


def _unserved_s(job: Waiting, got: Service, now: float) -> float:
    """Seconds since anything was done for the user of ``job``, and it waited."""
    if got.last_at is None:
        return job.waited_s
    return max(0.0, min(job.waited_s, now - got.last_at))


def _points(priority: int, waited_s: float) -> int:
    # Whole points: claims that differ by seconds are equal, and service decides.
    return priority + int(waited_s / AGEING_S)


_ONE_CHOOSES = 0x4876_7851
"""PostgreSQL: the advisory lock under which conductors take jobs of users with a quota, one at a
time. Otherwise two could each take a job of a user who may have one more. SQLite has one writer at
a time anyway."""

_LOCK_CHOICE = select(func.pg_advisory_xact_lock(_ONE_CHOOSES))
_COLUMNS = (
    *CLAIM_COLUMNS,
    JobRow.submitted_by,
    JobRow.priority,
    JobRow.created_at,
    JobRow.spent_s,
    JobRow.request_id,
    JobRow.toolchain_id,
    JobRow.measurer,
    JobRow.device_tags,
    JobRow.promote_to,
)

CanRun = Callable[[str, str, str], bool]
"""Whether a job can run here, by its measurer, device tags and where it promotes to."""


def _runs_any(measurer: str, on: str, promote_to: str) -> bool:
    return True


@dataclass(frozen=True)
class ClaimedJob:
    """A job taken up for this process, with the token to write with."""

    id: str
    token: int
    user: str
    request_id: str = ""


@dataclass(frozen=True)
class _Open:
    """Jobs that have not ended and are not paused: those somebody works on, and the rest."""

    held: Sequence[Any]
    free: Sequence[Any]

    def running(self, user: str) -> int:
        """How many jobs of a user somebody works on."""
        return sum(row.submitted_by == user for row in self.held)


@dataclass(frozen=True)
class _Line:
    """Jobs that wait, the service their users got, and how many jobs of those users that have a
    quota may run at once. ``rows`` has those of the jobs by id; ``left_behind`` are asked for what
    their owners died before doing."""

    waiting: Sequence[Waiting]
    rows: Mapping[str, Any]
    service: Mapping[str, Service]
    limits: Mapping[str, int]
    left_behind: Sequence[Any]


class JobQueue:
    """The jobs of ``database`` that wait for a conductor. Safe from several threads."""

    def __init__(self, database: Database, claims: Claims) -> None:
        self._database = database
        self._claims = claims
        self._lately = _Lately()

    def take_next(
        self, skip: Collection[str] = (), can_run: CanRun = _runs_any
    ) -> ClaimedJob | None:
        """Claims the job whose turn it is, except those in ``skip`` and those that cannot run
        here; ``None`` without one.

        Conductors choose side by side, from what they last saw. Who is first to write the row of a
        job takes it; others go on to the next in line. So no two take one job, nor more jobs of a
        user at once than their quota of running jobs allows.
        """
        line = self._line(skip, can_run)
        if line.left_behind:
            for row in line.left_behind:
                self._obey(row.id, JobRequest(row.requested))
            line = self._line(skip, can_run)
        if not line.waiting:
            return None  # polls must not take the write lock
        claimed = self._claims.claim_one(partial(_take_first, line))
        if claimed is None:
            return None
        row, (_, token) = line.rows[claimed[0]], claimed
        return ClaimedJob(row.id, token, row.submitted_by, row.request_id)

    def _line(self, skip: Collection[str], can_run: CanRun) -> _Line:
        with self._database.reading() as session:
            now_open = _open_jobs(session)
            left_behind = [row for row in now_open.free if row.requested is not None]
            return self._lined_up(session, now_open, skip, can_run, left_behind)

    def _lined_up(
        self,
        session: Session,
        now_open: _Open,
        skip: Collection[str],
        can_run: CanRun,
        left_behind: Sequence[Any] = (),
    ) -> _Line:
        waiting, limits = _allowed(session, now_open, skip, can_run)
        several = len({job.user for job in waiting}) > 1
        service = self._lately.service(session, time.time()) if several else {}
        rows = {row.id: row for row in now_open.free}
        return _Line(waiting, rows, service, limits, left_behind)

    def _obey(self, job_id: str, request: JobRequest) -> None:
        """Does what was asked of an owner that died before it did."""
        try:
            self._claims.request(job_id, request)
        except UserError:
            return  # it has ended meanwhile

    def must_give_way(
        self, running: ClaimedJob, skip: Collection[str] = (), can_run: CanRun = _runs_any
    ) -> bool:
        """Whether another user's job, or a more urgent one, would be taken up before ``running``
        if that were waiting now."""
        with self._database.reading() as session:
            now_open = _open_jobs(session)
            mine = next((row for row in now_open.held if row.id == running.id), None)
            if mine is None or not now_open.free:
                return False
            others = [row for row in now_open.held if row.id != running.id]
            line = self._lined_up(session, _Open(others, [*now_open.free, mine]), skip, can_run)
            found = next_in_line(line.waiting, line.service, time.time())
            if found is None or found.job_id == running.id:
                return False
            return found.user != running.user or found.priority > mine.priority

    def runs_elsewhere_with_same_toolchain(self, job_id: str) -> bool:
        """Whether somebody works on another job with the toolchain of this one."""
        with self._database.reading() as session:
            toolchain = session.scalar(select(JobRow.toolchain_id).where(JobRow.id == job_id))
            held = _open_jobs(session).held
            return any(row.toolchain_id == toolchain and row.id != job_id for row in held)


def _take_first(line: _Line, session: Session, mark: str) -> tuple[str, int] | None:
    """Claims the first job of ``line`` that nobody took meanwhile: its id and token. ``None`` if
    all are taken."""
    waiting, now, alone = list(line.waiting), time.time(), False
    while (found := next_in_line(waiting, line.service, now)) is not None:
        user = found.user
        if user in line.limits:
            if not alone:
                _choose_alone(session)
                alone = True
            if _open_jobs(session).running(user) >= line.limits[user]:
                waiting = [job for job in waiting if job.user != user]
                continue
        token = take(session.connection(), line.rows[found.job_id], mark)
        if token is not None:
            return found.job_id, token
        waiting = [job for job in waiting if job.job_id != found.job_id]
    return None


def _choose_alone(session: Session) -> None:
    if session.connection().dialect.name == "postgresql":
        session.connection().execute(_LOCK_CHOICE)


_OPEN = select(*_COLUMNS).where(
    JobRow.state.in_((JobState.QUEUED, JobState.RUNNING)),
    JobRow.paused.is_(False),
    JobRow.submitted_by != "",
)


def _open_jobs(session: Session) -> _Open:
    held: list[Any] = []
    free: list[Any] = []
    for row in session.connection().execute(_OPEN):
        (held if is_held(session, cast("JobRow", row)) else free).append(row)
    return _Open(held, free)


def _allowed(
    session: Session, now_open: _Open, skip: Collection[str], can_run: CanRun
) -> tuple[list[Waiting], Mapping[str, int]]:
    """The jobs that could be taken up now, within the quotas of their users, and those of these."""
    free = [
        row
        for row in now_open.free
        if row.id not in skip and can_run(row.measurer, row.device_tags, row.promote_to)
    ]
    if not free:
        return [], {}
    now = time.time()
    users = {row.submitted_by for row in free}
    limits = most_at_once(session, users, now)
    allowed = {u for u in users if u not in limits or now_open.running(u) < limits[u]}
    waiting = [
        Waiting(
            job_id=row.id,
            user=row.submitted_by,
            priority=row.priority,
            created_at=row.created_at,
            waited_s=max(0.0, now - row.created_at - row.spent_s),
        )
        for row in free
        if row.submitted_by in allowed
    ]
    return waiting, limits


_SETTLED_S = 10.0
"""Trials are committed within this time after they end, save for few."""


class _Lately:
    """The service that users got lately, summed up as time goes on: a busy lab ends tens of
    thousands of trials in :data:`WINDOW_S`, and to add them up takes longer than all the rest of a
    claim.

    Trials that ended before ``_until`` are in the sums; each time those since then are asked for,
    and those that the window leaves behind. What is committed too late for the sums counts once
    these are made from scratch.
    """

    def __init__(self) -> None:
        self._one_at_once = threading.Lock()
        self._made_at = self._since = self._until = float("-inf")
        self._sums: dict[str, Service] = {}

    def service(self, session: Session, now: float) -> Mapping[str, Service]:
        """By user."""
        with self._one_at_once:
            since, until = now - WINDOW_S, now - _SETTLED_S
            if not 0.0 <= since - self._made_at < WINDOW_S or since < self._since:
                self._made_at = self._since = self._until = since  # or the clock was set
                self._sums = {}
            gone, came, later = _service(
                session, (self._since, since), (self._until, until), (until, float("inf"))
            )
            left = {user: got.trial_s for user, got in gone.items()}
            self._sums = {
                user: replace(got, trial_s=max(0.0, got.trial_s - left.get(user, 0.0)))
                for user, got in _sum(self._sums, came).items()
                if (got.last_at or 0.0) > since
            }
            self._since, self._until = since, until
            return _sum(self._sums, later)


def _sum(one: Mapping[str, Service], later: Mapping[str, Service]) -> dict[str, Service]:
    both = dict(one)
    for user, got in later.items():
        before = one.get(user, NO_SERVICE)
        both[user] = Service(before.trial_s + got.trial_s, got.last_at)
    return both


_SPANS = range(3)


def _service(session: Session, *spans: tuple[float, float]) -> list[dict[str, Service]]:
    """The service by trials that ended after the first and not after the second of each of the
    :data:`_SPANS`."""
    bounds = {f"after{n}": spans[n][0] for n in _SPANS} | {f"until{n}": spans[n][1] for n in _SPANS}
    found: list[dict[str, Service]] = [{} for _ in _SPANS]
    for user, *got in session.connection().execute(_SERVICE, bounds):
        for n in _SPANS:
            spent, last_at = got[2 * n : 2 * n + 2]
            if last_at is not None:
                found[n][user] = Service(spent or 0.0, last_at)
    return found


_WITHIN = [
    and_(
        TrialRow.finished_at > bindparam(f"after{n}"),
        TrialRow.finished_at <= bindparam(f"until{n}"),
    )
    for n in _SPANS
]
_FIGURES = (func.sum(TrialRow.finished_at - TrialRow.started_at), func.max(TrialRow.finished_at))
_SERVICE = (
    select(JobRow.submitted_by, *(one.filter(span) for span in _WITHIN for one in _FIGURES))
    .join(JobRow, JobRow.id == TrialRow.job_id)
    .where(or_(*_WITHIN))
    .group_by(JobRow.submitted_by)
)
"""Of each user with trials that ended within, their seconds and the last end, span by span."""
