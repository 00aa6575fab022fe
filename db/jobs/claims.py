"""Claims on jobs: one writer at a time, by fencing token.

A claim is a row's owner plus a token that rises with every claim. Each write names its token and
touches the job's row first, so a writer that lost its claim is refused in the very transaction in
which it tries. On this machine the owner's process tells whether the claim is alive; for owners
elsewhere the lease does, which heartbeats and commits extend.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Update, bindparam, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from db.clock import DatabaseClock, database_time
from db.database import Database, Part
from db.file_models import ArtifactMarkRow
from db.files.mark import DIGEST_OF_MARK, Mark
from db.jobs import events as job_events
from db.jobs.finding import find_job
from db.models import JobRow
from db.records import job_record
from db.schema import STILL_OURS, require_still_ours
from db.statements import changed, table_of, together
from tuner.errors import HvxtuneError, UserError
from tuner.keeping.store import as_requested, claim_lost, require_open
from tuner.records.trial import Job, JobRequest, JobState

_SAME_START_S = 2.0
"""Start times of one process may differ by this much between looks: the system derives them
from the time of boot, which moves when the clock is set."""


@dataclass(frozen=True)
class Owner:
    """One process. ``started_at`` (Unix time) tells it from a later one with the same ``pid``."""

    host: str
    pid: int
    started_at: float

    @property
    def key(self) -> tuple[str, int, int]:
        """The same for one process, at any time."""
        return self.host, self.pid, round(self.started_at)

    @property
    def label(self) -> str:
        """For people: ``process 1234`` or ``process 1234 on lab7``."""
        if self.host == this_host():
            return f"process {self.pid}"
        return f"process {self.pid} on {self.host.partition('/')[0]}"

    @property
    def is_this_process(self) -> bool:
        """Whether it is the process that asks, or was an earlier one with its number."""
        return (self.host, self.pid) == (this_host(), os.getpid())

    @property
    def is_alive(self) -> bool | None:
        """Whether the process still runs; ``None`` if it is on another machine."""
        if self.host != this_host():
            return None
        import psutil

        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_at) <= _SAME_START_S
            return bool(same and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.AccessDenied:
            return True  # somebody's process has that number; better wait than run a job twice
        except psutil.NoSuchProcess:
            return False


def this_process() -> Owner:
    """The process that asks."""
    import psutil

    return Owner(this_host(), os.getpid(), psutil.Process().create_time())


@lru_cache(maxsize=1)
def this_host() -> str:
    """Names the set of processes whose numbers mean something here: the machine and, where
    there are such, the namespace of process numbers (containers may share a host name)."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}/{namespace}"


LEASE_VARIABLE = "HVXTUNE_LEASE_S"
DEFAULT_LEASE_S = 60.0
SHORTEST_LEASE_S, LONGEST_LEASE_S = 5.0, 3600.0


@lru_cache(maxsize=1)
def lease_s() -> float:
    """A claim from another machine counts as abandoned after this long without a heartbeat. A wrong
    guess costs repeated trials, never wrong rows (fencing). ``UserError`` for a value of
    ``HVXTUNE_LEASE_S`` that cannot be used."""
    text = os.environ.get(LEASE_VARIABLE) or str(DEFAULT_LEASE_S)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not SHORTEST_LEASE_S <= seconds <= LONGEST_LEASE_S:
        raise UserError(
            f"{LEASE_VARIABLE} is '{text[:40]}'",
            accepted=f"seconds from {SHORTEST_LEASE_S:g} to {LONGEST_LEASE_S:g}",
        )
    return seconds


NO_OWNER = {
    "requested": None,
    "owner_host": None,
    "owner_pid": None,
    "owner_started_at": None,
    "lease_expires_at": None,
}

_held_here: set[tuple[str, int]] = set()
"""Job and token of the claims that stores of this process hold. A claim of this process that
is not among them was left behind by a store that is closed, and may be taken over."""


def owner_of(row: JobRow) -> Owner | None:
    """The process that claimed the job last and did not release it, alive or not."""
    if row.owner_host is None or row.owner_pid is None or row.owner_started_at is None:
        return None
    return Owner(row.owner_host, row.owner_pid, row.owner_started_at)


def is_held(session: Session, row: JobRow) -> bool:
    """Whether a live process holds the job. Its lease decides where the process is out of sight, by
    the clock of the database."""
    owner = owner_of(row)
    if owner is None:
        return False
    if owner.is_this_process:
        return (row.id, row.fencing_token) in _held_here
    alive = _lives(session, owner)
    if alive is None:
        return (row.lease_expires_at or 0.0) > database_time(session)
    return alive


def _lives(session: Session, owner: Owner) -> bool | None:
    """:attr:`Owner.is_alive`, asked once by a session: one process may hold many jobs."""
    known: dict[Owner, bool | None] = session.info.setdefault(_LIVES, {})
    if owner not in known:
        known[owner] = owner.is_alive
    return known[owner]


_LIVES = "owners that live"


def locked(session: Session, job_id: str) -> JobRow:
    """The job's row as it is now, and kept so until the transaction ends.

    Only that row: to lock what it refers to as well, which other jobs share, makes deadlocks.
    """
    return session.get_one(JobRow, job_id, populate_existing=True, with_for_update={"of": JobRow})


COLUMNS = (
    JobRow.id,
    JobRow.state,
    JobRow.paused,
    JobRow.requested,
    JobRow.fencing_token,
    JobRow.owner_host,
    JobRow.owner_pid,
    JobRow.owner_started_at,
    JobRow.lease_expires_at,
)
"""Of a job's row, those that tell about its claim."""


def locked_claim(session: Session, job_id: str) -> Any:
    """As :func:`locked`, but only :data:`COLUMNS`."""
    return session.connection().execute(_LOCKED_CLAIM, {"of_job": job_id}).one_or_none()


_JOBS = table_of(JobRow)
_LOCKED_CLAIM = select(*COLUMNS).where(JobRow.id == bindparam("of_job")).with_for_update()


def require_free(session: Session, row: Any) -> None:
    """``UserError`` if the job of ``row`` (:func:`locked_claim`) cannot be claimed."""
    if is_held(session, row):
        owner = owner_of(row)
        label = owner.label if owner else "another process"
        raise UserError(
            f"job {row.id} is running in {label}",
            next_step=f"wait until it ends, or end {label}",
        )
    if row.state.ended:  # since the caller looked
        raise UserError(f"job {row.id} is {row.state}", accepted="a job that has not ended")


def take(connection: Connection, row: Any, mark: str) -> int | None:
    """Claims the job of ``row`` (:data:`COLUMNS`), which was free when it was read, for this
    process, with the event that tells it. Returns the new token; ``None`` if the job was claimed,
    has ended, was paused or asked for anything since, its owner came back, or another writes its
    row just now; or if the mark of the artifacts (:mod:`db.files.mark`) has another digest than
    ``mark`` since.

    ``StoreError`` if a newer hvxtune has upgraded the database meanwhile: its jobs are its own.
    """
    me = this_process()
    values = {
        "of_job": row.id,
        "of_token": row.fencing_token,
        "of_paused": row.paused,
        "of_request": row.requested,
        "of_lease": row.lease_expires_at,
        "of_mark": mark,
        "lease_s": lease_s(),
        "fencing_token": row.fencing_token + 1,
        "state": JobState.RUNNING,
        "paused": False,
        "requested": None,
        "note": "",
        "owner_host": me.host,
        "owner_pid": me.pid,
        "owner_started_at": me.started_at,
    }
    with together(connection):
        taken = connection.execute(_TAKE, values)
        job_events.add(connection, row.id, [job_events.of_state(JobState.RUNNING)])
    if changed(taken):
        return int(values["fencing_token"])
    require_still_ours(connection)
    return None


_END_OF_LEASE = DatabaseClock() + bindparam("lease_s")
"""Of one that begins now."""
_AS_SEEN = (
    select(JobRow.id)
    .where(JobRow.id == bindparam("of_job"), JobRow.fencing_token == bindparam("of_token"))
    .where(JobRow.state.in_((JobState.QUEUED, JobState.RUNNING)))
    .where(STILL_OURS, bindparam("of_mark") == DIGEST_OF_MARK)
    .where(JobRow.paused == bindparam("of_paused"))
    .where(JobRow.requested.is_not_distinct_from(bindparam("of_request")))
    .where(JobRow.lease_expires_at.is_not_distinct_from(bindparam("of_lease")))
    .with_for_update(skip_locked=True)
)
_TAKE = (
    update(_JOBS)
    .where(JobRow.id == _AS_SEEN.scalar_subquery())
    .values(lease_expires_at=_END_OF_LEASE, event_count=JobRow.event_count + 1)
)


def hold(
    connection: Connection, job_id: str, token: int, *, events: int = 0, **values: Any
) -> AbstractContextManager[None]:
    """Sets columns of a claimed job, extends its lease, counts ``events`` to come, and keeps other
    writers out until the transaction ends.

    What is executed within is sent together with that (:func:`db.statements.together`).
    ``StoreError`` at the end if the claim is no longer this writer's.
    """
    values["lease_s"] = lease_s()
    return _as_owner(connection, _HOLD, job_id, token, events, values)


def requested(session: Session, job_id: str, token: int) -> tuple[JobRequest | None, bool]:
    """The request to the holder of a claim, if any, and whether to extend its lease soon.

    ``StoreError`` if the claim is no longer this writer's. Only reads.
    """
    mine = {"of_job": job_id, "of_token": token, "lease_s": lease_s()}
    found = session.connection().execute(_REQUESTED, mine).one_or_none()
    if found is None:
        raise claim_lost(job_id)
    asked, due = found
    return None if asked is None else JobRequest(asked), bool(due)


_REQUESTED = (
    select(JobRow.requested, JobRow.lease_expires_at < DatabaseClock() + bindparam("lease_s") / 2)
    .where(JobRow.id == bindparam("of_job"), JobRow.fencing_token == bindparam("of_token"))
    .where(JobRow.owner_pid.is_not(None))
)


def ask(session: Session, row: JobRow, request: JobRequest) -> bool:
    """Notes ``request`` for the holder of the job of ``row`` (read for update), if there is one.

    Says whether there is. To cancel outweighs all; to resume takes back to pause.
    """
    if not is_held(session, row):
        return False
    if request is JobRequest.RESUME:
        row.requested = row.requested if row.requested == JobRequest.CANCEL else None
    elif row.requested != JobRequest.CANCEL:
        row.requested = request.value
    return True


def let_go(
    connection: Connection, job_id: str, token: int, *, events: int = 0, **values: Any
) -> AbstractContextManager[None]:
    """Ends a claim, counts ``events`` to come and sets columns of the job; otherwise as
    :func:`hold`."""
    return _as_owner(connection, _AS_OWNER, job_id, token, events, {**NO_OWNER, **values})


@contextmanager
def _as_owner(
    connection: Connection,
    statement: Update,
    job_id: str,
    token: int,
    events: int,
    values: Mapping[str, Any],
) -> Iterator[None]:
    mine = {"of_job": job_id, "of_token": token, "events": events, **values}
    written = None
    try:
        with together(connection):
            written = connection.execute(statement, mine)
            yield
    except DBAPIError:  # what a stale writer writes may break a key
        if written is None or changed(written) != 0:
            raise
    if changed(written) == 0:
        raise claim_lost(job_id)


_AS_OWNER = (
    update(_JOBS)
    .where(JobRow.id == bindparam("of_job"), JobRow.fencing_token == bindparam("of_token"))
    .where(JobRow.owner_pid.is_not(None))
    .values(event_count=JobRow.event_count + bindparam("events"))
)
_HOLD = _AS_OWNER.values(lease_expires_at=_END_OF_LEASE)


Take = Callable[[Session, str], tuple[str, int] | None]
"""Claims a job in a transaction, given the digest of the artifacts' mark: its id and token."""


class Claims(Part):
    """The claims of this process on jobs of a database, whose artifacts have the mark ``mark``."""

    def __init__(self, database: Database, mark: Mark) -> None:
        super().__init__(database)
        self._mark = mark
        self._last_mark: ArtifactMarkRow | None = None
        self._tokens: dict[str, int] = {}

    def claim(self, job_id: str) -> int:
        def take_it(session: Session, mark: str) -> tuple[str, int] | None:
            row = locked_claim(session, find_job(session, job_id).id)
            require_free(session, row)
            token = take(session.connection(), row, mark)
            return None if token is None else (row.id, token)

        while (claimed := self.claim_one(take_it)) is None:
            continue  # the row was locked: the mark is another since, which is read now
        return claimed[1]

    def claim_one(self, take_one: Take) -> tuple[str, int] | None:
        """The job that ``take_one`` claims (:func:`take`), and its token; ``None`` if it claims
        none.

        Otherwise as :meth:`claim`. ``StoreError`` if the artifacts of the database are not where
        this process would put its own: what the job finds would be lost to all others.
        """
        mark = self._last_mark = self._mark.require(make=True, last=self._last_mark)
        assert mark is not None  # noqa: S101 - it was made
        claimed = None
        try:
            with self._database.writing() as session:
                claimed = take_one(session, mark.digest)
                if claimed is not None:
                    _held_here.add(claimed)  # before other threads of this process see the row
        except BaseException:
            if claimed is not None:
                _held_here.discard(claimed)
            raise
        if claimed is None:
            self._last_mark = None  # it may be another since
        else:
            self._tokens.update([claimed])
        return claimed

    def heartbeat(self, job_id: str, token: int) -> JobRequest | None:
        with self._database.reading() as session:
            request, due = requested(session, job_id, token)
        if due:
            with self._database.writing() as session, hold(session.connection(), job_id, token):
                pass
        return request

    def request(self, job_id: str, request: JobRequest) -> Job:
        with self._database.writing() as session:
            found = find_job(session, job_id).id
            row = locked(session, found)
            job = job_record(row)
            require_open(job, request)
            if ask(session, row, request) or job.state is JobState.CANCELLED:
                return job
            asked = as_requested(replace(job, state=JobState.QUEUED), request)
            if asked != job:
                values = {**NO_OWNER, **_state_columns(asked)}
                told = update(JobRow).values(event_count=JobRow.event_count + 1)
                session.execute(told.where(JobRow.id == found).values(**values))
                _tell_state(session, asked)
            return asked

    def release(self, job_id: str, token: int, state: JobState, note: str = "") -> None:
        with self._database.writing() as session:
            row = locked(session, job_id)
            released = replace(job_record(row), state=state, note=note)
            if row.requested is not None and state is JobState.QUEUED:
                released = as_requested(released, JobRequest(row.requested))
            values = _state_columns(released)
            with let_go(session.connection(), job_id, token, events=1, **values):
                pass
            _tell_state(session, released)
        self._tokens.pop(job_id, None)
        _held_here.discard((job_id, token))

    def end(self) -> None:
        """Ends claims that were not released: their jobs can be resumed."""
        for job_id, token in list(self._tokens.items()):
            _held_here.discard((job_id, token))
            try:
                with (
                    self._database.writing() as session,
                    let_go(session.connection(), job_id, token),
                ):
                    pass
            except HvxtuneError:
                continue  # taken over, or the database is unusable: the row tells who held it
        self._tokens.clear()


def _state_columns(job: Job) -> dict[str, Any]:
    return {"state": job.state, "note": job.note, "paused": job.paused}


def _tell_state(session: Session, job: Job) -> None:
    """Stores the state of ``job`` as the event that was just counted."""
    told = job_events.of_state(job.state, paused=job.paused, note=job.note)
    job_events.add(session.connection(), job.id, [told])
