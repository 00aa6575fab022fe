"""The trial store over SQL: implements :class:`tuner.keeping.store.TrialStore` with a database."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Engine, true

from db.database import Database, Part, connected
from db.devices.roster import SqlRoster
from db.files.artifacts import ArtifactFiles
from db.files.folder import prove_folder_writable
from db.files.kept import Artifacts
from db.files.storages import open_storage
from db.jobs.claims import Claims
from db.jobs.jobs import Jobs
from db.jobs.queue import JobQueue
from db.jobs.results import Results
from db.jobs.trials import Trials
from db.place import Place
from db.schedules.schedules import Schedules
from db.schedules.validation import Validator
from db.schema import require_still_ours
from db.service_models import HeartbeatRow
from db.statements import upsert
from tuner.keeping.store import TrialStore
from tuner.measure.farm.roster import Roster
from tuner.records.batch import Batch
from tuner.records.trial import JobRequest

_Kind = TypeVar("_Kind", bound=Part)
_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def _of(
    kind: type[_Kind], method: Callable[Concatenate[_Kind, _Given], _Answer]
) -> Callable[Concatenate[Any, _Given], _Answer]:
    """The method of the store that is ``method`` of its part of this kind."""

    def call(store: SqlStore, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        return method(store._part(kind), *args, **kwargs)

    update_wrapper(call, method)
    return call


class SqlStore(Database, TrialStore):
    """A database with all that it keeps: the sum of its parts. :func:`db.open_store` makes one."""

    schema_before: str | None = None
    """The schema that the database had when it was opened; ``None`` if it was empty."""

    def __init__(self, engine: Engine, place: Place, artifacts: str | None = None) -> None:
        super().__init__(engine, place)
        kept = Artifacts(self, open_storage(artifacts, self))
        parts = (
            *(kept, Jobs(self), Claims(self, kept.mark), Trials(self)),
            *(Results(self, kept), Schedules(self, kept)),
        )
        self._parts: dict[type[Part], Part] = {type(part): part for part in parts}
        self._whole = self

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
        engine, place, before = connected(url, busy_timeout_s=busy_timeout_s, as_it_is=as_it_is)
        try:
            store = cls(engine, place, artifacts)
        except BaseException:
            engine.dispose()
            raise
        store.schema_before = before
        return store

    def seen_by(self, tenant: str | None) -> Self:
        view = super().seen_by(tenant)
        view._parts = {}
        return view

    def _part(self, kind: type[_Kind]) -> _Kind:
        """The part of this kind; a view makes its own from that of the whole."""
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = self._whole._parts[kind].on(self)
        return found  # type: ignore[return-value]  # it is filed under its type

    create_job = _of(Jobs, Jobs.create)
    create_batch = _of(Jobs, Jobs.create_batch)
    job = _of(Jobs, Jobs.find)
    jobs = _of(Jobs, Jobs.newest)
    batch = _of(Jobs, Jobs.batch)
    summary = _of(Jobs, Jobs.summary)
    summaries = _of(Jobs, Jobs.summaries)
    space = _of(Jobs, Jobs.space)
    events = _of(Jobs, Jobs.events)

    claim = _of(Claims, Claims.claim)
    claim_one = _of(Claims, Claims.claim_one)
    heartbeat = _of(Claims, Claims.heartbeat)
    request = _of(Claims, Claims.request)
    release = _of(Claims, Claims.release)

    commit = _of(Results, Results.commit)
    trials = _of(Trials, Trials.finished)
    counted_trials = _of(Trials, Trials.counted)
    pending = _of(Trials, Trials.pending)
    promotions = _of(Trials, Trials.promotions)
    near_jobs = _of(Trials, Trials.near)

    best = _of(Schedules, Schedules.best)
    best_row = _of(Schedules, Schedules.best_row)
    fitting = _of(Schedules, Schedules.fitting)
    quarantine = _of(Schedules, Schedules.quarantine)
    set_aside = _of(Schedules, Schedules.set_aside)

    artifact = _of(Artifacts, Artifacts.find)
    require_artifacts = _of(Artifacts, Artifacts.require_here)
    mark_artifacts = _of(Artifacts, Artifacts.mark_here)
    prove_artifacts = _of(Artifacts, Artifacts.prove_writable)

    @property
    def artifacts(self) -> Artifacts:
        """The objects that jobs made, with the files beside them."""
        return self._part(Artifacts)

    @property
    def files(self) -> ArtifactFiles:
        """The bytes of :attr:`artifacts`."""
        return self.artifacts.files

    @property
    def validator(self) -> Validator:
        """Judges schedules before they are handed out."""
        return self._part(Schedules).validator

    def queue(self) -> JobQueue:
        """The jobs that wait for a conductor."""
        return JobQueue(self, self._part(Claims))

    def prove_writable(self) -> None:
        """Writes a row, a file beside the database and one among the artifacts, and reads the mark
        of these; ``StoreError`` says what fails, and why: that a newer hvxtune has upgraded the
        database, too. Blocks while another writer holds the database."""
        if self.place.path is not None:
            prove_folder_writable(self.place.path.parent)
        self.prove_artifacts()
        with self.writing() as session:
            connection = session.connection()
            require_still_ours(connection)
            beat = upsert(connection.dialect.name, HeartbeatRow, ["machine"], where=true())
            connection.execute(beat, {"machine": socket.gethostname()[:100], "at": time.time()})

    def request_of_all(self, batch_id: str, request: JobRequest) -> Batch:
        with self.transaction():
            return super().request_of_all(batch_id, request)

    def roster(self) -> Roster:
        return SqlRoster(self)

    def close(self) -> None:
        """Ends claims that were not released (their jobs can be resumed) and all connections."""
        self._part(Claims).end()
        self.files.storage.close()
        self.dispose()
