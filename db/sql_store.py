"""The trial store over SQL: implements :class:`tuner.keeping.store.TrialStore` with a database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

from sqlalchemy import Engine, bindparam, select, update
from sqlalchemy.orm import Session

from db.access.audience import session_info
from db.artifact_rows import add_artifact, complete_artifact
from db.devices.roster import SqlRoster
from db.engine import WRITING, find_url, make_engine, place_of, reading_options
from db.failure import store_errors
from db.files.artifacts import ArtifactFiles, StoredArtifact
from db.files.mark import require_mark
from db.files.models import ArtifactMarkRow
from db.files.private import create_database_file, tightened
from db.files.storages import open_storage
from db.jobs import claims, results
from db.jobs import events as job_events
from db.jobs import trials as past_trials
from db.jobs.events import JobEvent
from db.jobs.finding import find_batch, find_job, find_job_or_batch
from db.jobs.new_job import insert_batch, insert_job
from db.jobs.queries import JobSummary, summaries_of
from db.jobs.results import keep_promotion, promotions_of
from db.models import (
    ArtifactRow,
    JobRow,
    ScheduleRow,
    SpaceRow,
    TrialRow,
)
from db.place import Place
from db.records import (
    job_record,
    pending_record,
    reading,
    schedule_record,
    space_record,
    trial_record,
)
from db.schedules.offering import offer_schedule
from db.schedules.quarantine import quarantine, quarantine_row
from db.schedules.serving import ServingRow, fitting_rows
from db.schedules.validation import Validator
from db.schema import SCHEMA_VERSION, ensure_schema, require_schema
from db.statements import changed
from tuner.errors import HvxtuneError, NotStoredError, StoreError
from tuner.keeping.best import Lookup, first_valid
from tuner.keeping.store import (
    TrialStore,
    as_requested,
    require_named_by_object,
    require_open,
)
from tuner.kernels import Kernel
from tuner.measure.farm.roster import Roster
from tuner.records.batch import Batch, BatchPlan, NewJob
from tuner.records.candidate import Artifact, CacheState, Problem
from tuner.records.trial import (
    CountedTrial,
    Job,
    JobRequest,
    JobSpec,
    JobState,
    PastTrial,
    PendingTrial,
    Promotion,
    RemainingGain,
    Schedule,
    Submission,
    Trial,
)
from tuner.space import Space

_log = logging.getLogger("hvxtune.store")


class SqlStore(TrialStore):
    """Jobs, trials and schedules in a database, artifacts in their storage. :func:`db.open_store`
    makes one.

    Safe from several threads and with other processes on the same database, but not across a
    ``fork``: a child opens its own. Reads see the last commit and never wait for a writer.
    """

    schema_before: str | None = None
    """The schema that the database had when it was opened; ``None`` if it was empty."""

    def __init__(self, engine: Engine, place: Place, artifacts: str | None = None) -> None:
        self.place = place
        self._engine = engine
        self._reading_engine = engine.execution_options(**reading_options(engine))
        self._writing_engine = engine.execution_options(**WRITING)
        self._one_writer = threading.Lock()
        self._of_thread = _OfThread()
        self._claims: dict[str, int] = {}
        self._mark: ArtifactMarkRow | None = None
        self._viewer: str | None = None
        self._user = ""
        self.files = ArtifactFiles(open_storage(artifacts, self))
        self.validator = Validator(self.files, self.require_artifacts)

    @classmethod
    def open(
        cls,
        url: str | None,
        *,
        busy_timeout_s: float = 10.0,
        artifacts: str | None = None,
        as_it_is: bool = False,
    ) -> Self:
        """As :func:`db.open_store`. One that is opened ``as_it_is`` has to exist, at the schema of
        this code: it is neither made nor upgraded."""
        found = find_url(url)
        place = place_of(found)
        for note in tightened(place.path):
            _log.warning("%s", note)
        if place.path is not None:
            if as_it_is and not place.path.exists():
                raise StoreError(
                    f"{place.path}: no such file", accepted="the URL of a database of hvxtune"
                )
            create_database_file(place.path)
        with store_errors(place):
            engine = make_engine(found, busy_timeout_s)
            try:
                if as_it_is:
                    require_schema(engine, place)
                else:
                    before = ensure_schema(engine, place)
            except BaseException:
                engine.dispose()
                raise
        try:
            store = cls(engine, place, artifacts)
        except BaseException:
            engine.dispose()
            raise
        store.schema_before = SCHEMA_VERSION if as_it_is else before
        return store

    def seen_by(self, tenant: str | None, user: str = "") -> SqlStore:
        """The same store as ``tenant`` sees it, without the private rows of others (``None`` sees
        all), and with the pins and saved views of ``user``. It shares this store's connections;
        close this one."""
        view = copy(self)
        view._viewer, view._user = tenant, user
        return view

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction for queries that have a file of their own; errors are ``StoreError``."""
        joined = self._of_thread.session
        if joined is not None:
            with store_errors(self.place), reading("a row"):
                yield joined
            return
        with (
            store_errors(self.place),
            reading("a row"),
            Session(self._reading_engine, expire_on_commit=False, info=self._info()) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction that writes: committed as a whole at its end, or not at all."""
        joined = self._of_thread.session
        if joined is not None:
            with store_errors(self.place), joined.begin_nested():
                yield joined
            return
        # Threads queue here; processes queue at the database, which polls.
        with (
            self._one_writer,
            store_errors(self.place),
            Session(self._writing_engine, info=self._info()) as session,
            session.begin(),
        ):
            yield session

    def _info(self) -> dict[str, Any]:
        return session_info(self._viewer, self._user)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Makes one transaction of all that this thread reads and writes within: all of it is
        committed at the end, or nothing.

        It keeps other writers waiting, so nothing slow belongs inside. May be nested.
        """
        if self._of_thread.session is not None:
            with self.writing() as session:
                yield session
            return
        with self.writing() as session:
            self._of_thread.session = session
            try:
                yield session
            finally:
                self._of_thread.session = None

    def create_job(
        self,
        spec: JobSpec,
        space: Space,
        toolchain: Mapping[str, str],
        submission: Submission | None = None,
    ) -> Job:
        with self.writing() as session:
            return insert_job(session, spec, space, toolchain, submission or Submission())

    def create_batch(self, plan: BatchPlan, jobs: Sequence[NewJob]) -> Batch:
        with self.writing() as session:
            return insert_batch(session, plan, jobs)

    def batch(self, batch_id: str) -> Batch:
        with self.reading() as session:
            return find_batch(session, batch_id)

    def job_or_batch(self, given: str) -> Job | Batch:
        """The one job or batch with the id, or the start of one, that a person typed. A start
        that a batch shares with jobs of its own means the batch."""
        with self.reading() as session:
            found = find_job_or_batch(session, given)
            return job_record(found) if isinstance(found, JobRow) else found

    def request_of_all(self, batch_id: str, request: JobRequest) -> Batch:
        with self.transaction():
            return super().request_of_all(batch_id, request)

    def job(self, job_id: str) -> Job:
        with self.reading() as session:
            return job_record(find_job(session, job_id))

    def jobs(self, limit: int = 50) -> list[Job]:
        with self.reading() as session:
            return [job_record(row) for row in _newest_jobs(session, limit)]

    def summary(self, job_id: str) -> JobSummary:
        """The job and its trials counted; ``UserError`` if there is no such job."""
        with self.reading() as session:
            return summaries_of(session, [find_job(session, job_id)])[0]

    def summaries(self, limit: int = 50) -> list[JobSummary]:
        """The newest jobs and their trials counted, newest first."""
        with self.reading() as session:
            return summaries_of(session, _newest_jobs(session, limit))

    def space(self, job_id: str) -> Space:
        """The space a job was created with; ``UserError`` if there is no such job."""
        with self.reading() as session:
            return space_record(session.get_one(SpaceRow, find_job(session, job_id).space_digest))

    def claim(self, job_id: str) -> int:
        def take(session: Session, mark: str) -> tuple[str, int] | None:
            row = claims.locked_claim(session, find_job(session, job_id).id)
            claims.require_free(session, row)
            token = claims.take(session.connection(), row, mark)
            return None if token is None else (row.id, token)

        while (claimed := self.claim_one(take)) is None:
            continue  # the row was locked: the mark is another since, which is read now
        return claimed[1]

    def claim_one(
        self, take: Callable[[Session, str], tuple[str, int] | None]
    ) -> tuple[str, int] | None:
        """The job that ``take`` claims (:func:`db.jobs.claims.take`) in a transaction, and its
        token; ``None`` if it claims none. It gets the digest of the mark of the artifacts.

        Otherwise as :meth:`claim`. ``StoreError`` if the artifacts of the database are not where
        this process would put its own: what the job finds would be lost to all others.
        """
        mark = self._mark = require_mark(self, make=True, last=self._mark)
        assert mark is not None  # noqa: S101 - it was made
        with self.writing() as session:
            claimed = take(session, mark.digest)
        if claimed is None:
            self._mark = None  # it may be another since
        else:
            self._claims.update([claimed])
            claims.remember(*claimed)
        return claimed

    def heartbeat(self, job_id: str, token: int) -> JobRequest | None:
        with self.reading() as session:
            request, due = claims.requested(session, job_id, token)
        if due:
            with self.writing() as session, claims.hold(session.connection(), job_id, token):
                pass
        return request

    def request(self, job_id: str, request: JobRequest) -> Job:
        with self.writing() as session:
            found = find_job(session, job_id).id
            row = claims.locked(session, found)
            job = job_record(row)
            require_open(job, request)
            if claims.ask(session, row, request) or job.state is JobState.CANCELLED:
                return job
            asked = as_requested(replace(job, state=JobState.QUEUED), request)
            if asked != job:
                values = {**claims.NO_OWNER, **_state_columns(asked)}
                told = update(JobRow).values(event_count=JobRow.event_count + 1)
                session.execute(told.where(JobRow.id == found).values(**values))
                _tell_state(session, asked)
            return asked

    def events(self, job_id: str, after: int = 0, limit: int = 500) -> list[JobEvent]:
        """Events of a job after number ``after``; ``UserError`` if it is unknown."""
        with self.reading() as session:
            return job_events.read_after(session, find_job(session, job_id).id, after, limit)

    def commit(
        self,
        job_id: str,
        token: int,
        *,
        finished: Sequence[Trial] = (),
        started: Sequence[PendingTrial] = (),
        artifacts: Sequence[Artifact] = (),
        schedule: Schedule | None = None,
        promotions: Sequence[Promotion] = (),
        spent_s: float | None = None,
        remaining: RemainingGain | None = None,
    ) -> None:
        # In one order for all, or transactions with several in common could lock one another out.
        artifacts = sorted(artifacts, key=lambda artifact: artifact.digest)
        on_disk = self._write_new(artifacts)
        # One transaction with the files, if they are rows.
        with self.transaction() as session:
            events = job_events.of_commit(finished, promotions, remaining)
            values = _progress_columns(spent_s, remaining)
            connection = session.connection()
            with claims.hold(connection, job_id, token, events=len(events), **values):
                added = {
                    digest: add_artifact(connection, stored, job_id)
                    for digest, stored in on_disk.items()
                }
                ended = [results.finish_trial(connection, job_id, trial) for trial in finished]
                begun = results.start_trials(connection, job_id, started) if started else None
                job_events.add(connection, job_id, events)
            for artifact in artifacts:
                new = added.pop(artifact.digest, None)
                if new is None or changed(new) == 0:
                    complete_artifact(session, self.files, artifact)
            for trial, result in zip(finished, ended, strict=True):
                if changed(result) == 0:
                    raise results.ended_before(job_id, trial.number)
            if begun is not None and changed(begun) < len(started):
                results.require_pending(session, job_id, started)
            for promotion in promotions:
                keep_promotion(session, job_id, promotion)
            if schedule is not None:
                offer_schedule(session, schedule)

    def _write_new(self, artifacts: Sequence[Artifact]) -> dict[str, StoredArtifact]:
        """Writes the files of artifacts that have no row yet, before the transaction begins."""
        if not artifacts:
            return {}
        digests = [artifact.digest for artifact in artifacts]
        with self.reading() as session:
            known = set(session.connection().scalars(_KNOWN, {"digests": digests}))
        written = {}
        for artifact in artifacts:
            require_named_by_object(artifact)
            if artifact.digest not in known:
                written[artifact.digest] = self.files.write(artifact)
        return written

    def release(self, job_id: str, token: int, state: JobState, note: str = "") -> None:
        with self.writing() as session:
            row = claims.locked(session, job_id)
            released = replace(job_record(row), state=state, note=note)
            if row.requested is not None and state is JobState.QUEUED:
                released = as_requested(released, JobRequest(row.requested))
            values = _state_columns(released)
            with claims.let_go(session.connection(), job_id, token, events=1, **values):
                pass
            _tell_state(session, released)
        self._claims.pop(job_id, None)
        claims.forget(job_id, token)

    def trials(self, job_id: str) -> list[Trial]:
        with self.reading() as session:
            wanted = (
                select(TrialRow)
                .where(TrialRow.job_id == find_job(session, job_id).id)
                .where(TrialRow.outcome.is_not(None))
                .order_by(TrialRow.number)
            )
            return [trial_record(row) for row in session.scalars(wanted)]

    def counted_trials(self, job_id: str) -> list[CountedTrial]:
        with self.reading() as session:
            return past_trials.counted_trials(session, find_job(session, job_id).id)

    def pending(self, job_id: str) -> list[PendingTrial]:
        with self.reading() as session:
            wanted = (
                select(TrialRow)
                .where(TrialRow.job_id == find_job(session, job_id).id)
                .where(TrialRow.outcome.is_(None))
                .order_by(TrialRow.number)
            )
            return [pending_record(row) for row in session.scalars(wanted)]

    def promotions(self, job_id: str) -> list[Promotion]:
        with self.reading() as session:
            return promotions_of(session, find_job(session, job_id).id)

    def near_trials(
        self,
        problem: Problem,
        *,
        before: float,
        problems: int,
        each: int,
        cache: CacheState = "warm",
        audience: str = "",
    ) -> list[PastTrial]:
        with self.reading() as session:
            return past_trials.near(session, problem, before, problems, each, cache, audience)

    def artifact(self, digest: str) -> Artifact:
        with self.reading() as session:
            row = session.get(ArtifactRow, digest)
        if row is None:
            raise NotStoredError(
                f"no artifact '{digest}'", accepted="the digest of a stored object"
            )
        return self.files.read(row.digest, row.symbol, row.file_digest)

    def best(self, lookup: Lookup) -> Schedule | None:
        while (first := self.best_row(lookup)) is not None:
            with self.reading() as session:
                row = session.get(ScheduleRow, first.id)
                if row is not None and (row.public_id, row.seal) == (
                    first.public_id,
                    first.seal,
                ):
                    return schedule_record(row, lookup.stored_under(first.contract))
        return None

    def best_row(self, lookup: Lookup, kernel: Kernel | None = None) -> ServingRow | None:
        """The row of :meth:`best`; ``kernel`` is the problem's, for callers that have it."""

        def fault(row: ServingRow) -> str:
            return self.validator.fault(row, lookup.stored_under(row.contract), kernel=kernel)

        return first_valid(partial(self.fitting, lookup), fault, self.set_aside)

    def fitting(self, lookup: Lookup) -> list[ServingRow]:
        """Every schedule that fits and is not quarantined, best first, valid or not."""
        with self.reading() as session:
            return fitting_rows(session, self._as_seen(lookup))

    def _as_seen(self, lookup: Lookup) -> Lookup:
        """``lookup`` with the viewer's private schedules and no others."""
        if self._viewer is None or lookup.audience == self._viewer:
            return lookup
        return lookup._replace(audience="" if lookup.audience else self._viewer)

    def quarantine(self, public_id: str, reason: str) -> bool:
        return quarantine(self, public_id, reason)

    def set_aside(self, row: ServingRow, reason: str) -> None:
        """Quarantines a schedule that was found faulty, unless it was replaced since. A database
        that cannot be written to does not stop answers."""
        _log.warning("schedule %s is quarantined: %s", row.public_id, reason)
        try:
            quarantine_row(self, row, reason)
        except StoreError as error:
            _log.error("schedule %s could not be quarantined: %s", row.public_id, error)

    def roster(self) -> Roster:
        return SqlRoster(self)

    def require_artifacts(self) -> None:
        """``StoreError`` unless the artifacts of this database, if there are any, are where this
        process looks for them (:mod:`db.files.mark`)."""
        require_mark(self)

    def mark_artifacts(self) -> None:
        """The same; marks the place if nothing does yet."""
        require_mark(self, make=True)

    def prove_artifacts(self) -> None:
        """Writes and reads a file among the artifacts; otherwise as :meth:`require_artifacts`."""
        self.files.storage.prove_writable()
        self.require_artifacts()

    def close(self) -> None:
        """Ends claims that were not released (their jobs can be resumed) and all connections."""
        for job_id, token in list(self._claims.items()):
            claims.forget(job_id, token)
            try:
                with self.writing() as session, claims.let_go(session.connection(), job_id, token):
                    pass
            except HvxtuneError:
                continue  # taken over, or the database is unusable: the row tells who held it
        self._claims.clear()
        self.files.storage.close()
        self._engine.dispose()


class _OfThread(threading.local):
    """The transaction that a thread has made one of several, if it has."""

    session: Session | None = None


def _newest_jobs(session: Session, limit: int) -> Sequence[JobRow]:
    newest = select(JobRow).order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit)
    return session.scalars(newest).all()


def _state_columns(job: Job) -> dict[str, Any]:
    return {"state": job.state, "note": job.note, "paused": job.paused}


def _progress_columns(spent_s: float | None, remaining: RemainingGain | None) -> dict[str, float]:
    columns = {} if spent_s is None else {"spent_s": spent_s}
    if remaining is not None:
        columns |= {"remaining_expected": remaining.expected, "remaining_bound": remaining.bound}
    return columns


_KNOWN = select(ArtifactRow.digest).where(
    ArtifactRow.digest.in_(bindparam("digests", expanding=True))
)


def _tell_state(session: Session, job: Job) -> None:
    """Stores the state of ``job`` as the event that was just counted."""
    told = job_events.of_state(job.state, paused=job.paused, note=job.note)
    job_events.add(session.connection(), job.id, [told])
