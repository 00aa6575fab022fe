"""The service in this process: the application over the database of this machine, asked without
sockets and tokens. Commands ask it where no service is named, so that what they can do does not
depend on where. What they only read is read without the application, which takes a second to load.

Jobs run in the foreground: :meth:`Here.run` takes the place of a conductor. Builds ask it for the
best schedule at every start, so that neither the web framework nor an HTTP client is loaded for
that, and any :class:`tuner.keeping.store.TrialStore` answers.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from service.client.answers import Best, Json, Reply, Request, error_of
from service.client.blocking import BestOptions, BlockingClient, FileKind
from service.client.cache import ClientCache
from service.client.persistence import Event
from service.client.transfers import opened, saving
from tuner.errors import HvxtuneError
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.request import DEFAULT_CONTRACT, DEFAULT_TRIALS_OF_A_WORKLOAD

if TYPE_CHECKING:
    from fastapi import FastAPI

    from db import SqlStore
    from service.auth.caller import Caller
    from service.schemas.jobs import SubmitBody
    from service.schemas.new_network import NewNetworkBody
    from tuner.jobs.job_result import TuneResult
    from tuner.jobs.set_tuning import SetProgress
    from tuner.keeping.store import TrialStore
    from tuner.search.loop import Progress


class Here(BlockingClient):
    """The service that this process is, over the database of this machine."""

    patience_s = 0.0

    def __init__(self) -> None:
        self._opened = ExitStack()
        self.cache = ClientCache()

    @cached_property
    def kept(self) -> TrialStore:
        """The store of this machine, opened when it is first asked."""
        from db import open_trials

        return self._opened.enter_context(open_trials())

    @cached_property
    def store(self) -> SqlStore:
        """The same, if it is a database; ``StoreError`` for one that has no listings."""
        from db import open_store
        from db.sql_store import SqlStore

        if isinstance(self.kept, SqlStore):
            return self.kept
        return self._opened.enter_context(open_store())

    @property
    def server(self) -> str:  # type: ignore[override]
        """The name of the database."""
        return self.store.place.name

    def close(self) -> None:
        """Closes the database."""
        self._opened.close()

    def best(
        self,
        kernel: str,
        params: Mapping[str, int] | None = None,
        **options: Unpack[BestOptions],
    ) -> Best:
        """The best schedule for a workload; ``NotStoredError`` says how to get one without one."""
        from service.auth.tokens import local_user, local_viewer
        from service.fetching.sources import stored_best
        from service.json_forms import schedule_json
        from tuner.jobs.tuning import find_problem
        from tuner.keeping.best import lookup_of
        from tuner.kernels import PIPELINE_PREFIX

        if kernel.startswith(PIPELINE_PREFIX):
            from db.pipelines import named

            kernel = named(self.store, kernel, local_viewer()).kernel
        target = options.get("target", DEFAULT_TARGET)
        contract = options.get("contract", DEFAULT_CONTRACT)
        problem = find_problem(kernel, params, target, contract)
        lookup = lookup_of(
            problem,
            cache=options.get("cache", "warm"),
            min_fidelity=options.get("min_fidelity", "model"),
            prefer=options.get("prefer", "robust"),
            audience=local_user(),
        )
        return Best(schedule_json(stored_best(self.kept, lookup)))

    def file(self, schedule: Best | str, kind: FileKind, digest: str | None = None) -> bytes:
        """A file of a schedule that :meth:`best` gave."""
        from service.fetching.sources import LocalSource

        assert isinstance(schedule, Best)  # noqa: S101 - others ask for files by id
        return LocalSource(self.kept).file(schedule.id, schedule.object_digest, kind)

    def doubt(self, schedule: Best | str) -> Json | None:
        """How far the choice of a schedule that :meth:`best` gave rests on assumed costs."""
        from service.json_forms import doubt_json
        from tuner.jobs.job_result import doubt_of_schedule
        from tuner.problem.target import find_target

        assert isinstance(schedule, Best)  # noqa: S101
        form = schedule.document
        target = find_target(form["target"])
        doubt = doubt_of_schedule(self.kept, target, form["fidelity"], form["provenance"])
        return doubt_json(doubt)

    def run(
        self,
        job: str,
        on_progress: Callable[[Progress], None] | None = None,
        stop: threading.Event | None = None,
    ) -> TuneResult:
        """Runs a job to its end in this process; see :func:`tuner.jobs.tuning.run`."""
        from db.pipelines import bring
        from tuner.jobs.tuning import run

        bring(self.store, self.store.job(job).spec.problem.workload.kernel)
        return run(job, self.store, on_progress=on_progress, stop=stop)

    def submit(
        self,
        /,
        kernel: str | None = None,
        params: Mapping[str, int] | None = None,
        *,
        workloads: Sequence[Mapping[str, Any]] = (),
        name: str | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> list[Json]:
        """As of a service. The jobs of several ``workloads`` share one budget, which
        :meth:`run_batch` spends where it pays most."""
        if not workloads:
            from tuner.executor import find_executor

            find_executor().expect()  # beside what has to be loaded to take the job
            return super().submit(kernel, params, idempotency_key=idempotency_key, **options)
        from service.schemas.jobs import SubmitBody

        body = SubmitBody.model_validate({"workloads": list(workloads), "name": name})
        return self._submit_batch(body, options)

    def submit_network(
        self,
        /,
        name: str,
        layers: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> list[Json]:
        """The same for the layers of a network."""
        from service.schemas.new_network import NewNetworkBody

        body = NewNetworkBody.model_validate({"name": name, "layers": list(layers)})
        return self._submit_batch(body, options)

    def _submit_batch(
        self, body: SubmitBody | NewNetworkBody, options: Mapping[str, Any]
    ) -> list[Json]:
        from service.json_forms import job_json
        from tuner.jobs import set_tuning
        from tuner.kernels import find_kernel
        from tuner.workload_sets import Member, WorkloadSet

        found = [find_kernel(one.kernel).workload(one.params) for one in body.workloads or ()]
        members = [
            Member(workload, tuple(one.layers or (workload.label,)))
            for workload, one in zip(found, body.workloads or (), strict=True)
        ]
        plan = body.plan([(workload.kernel, workload.digest) for workload in found])
        limits = {name: options.get(name) for name in ("trials", "seconds", "workers")}
        if limits["trials"] is limits["seconds"] is None:
            limits["trials"] = DEFAULT_TRIALS_OF_A_WORKLOAD * len(members)
        others = {name: value for name, value in options.items() if name not in limits}
        batch = set_tuning.submit(
            WorkloadSet(plan.name, "", tuple(members)),
            self.store,
            layers=plan.layers,
            **limits,
            **others,
        )
        return [job_json(self.store.job(one.job)) for one in self.store.batch(batch).members]

    def run_batch(
        self,
        batch: str,
        on_progress: Callable[[SetProgress], None] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Runs all jobs of a batch: by its budget if it has one, else one after another."""
        from tuner.jobs import set_tuning
        from tuner.keeping.store import require_any_open
        from tuner.records.trial import JobRequest

        found = self.store.batch(batch)
        jobs = [self.store.job(member.job) for member in found.members]
        require_any_open(found, jobs, JobRequest.RESUME)
        if not found.shares_budget:
            for job in jobs:
                if not (job.state.ended or (stop is not None and stop.is_set())):
                    self.run(job.id, stop=stop)
            return
        limits: dict[str, Any] = {
            "trials": found.trials,
            "seconds": found.seconds,
            "workers": found.workers,
        }
        workloads = set_tuning.workloads_of(found, self.store)
        set_tuning.run(
            found.id, workloads, self.store, **limits, on_progress=on_progress, stop=stop
        )

    @cached_property
    def _runner(self) -> asyncio.Runner:
        return self._opened.enter_context(asyncio.Runner())

    @cached_property
    def _app(self) -> FastAPI:
        from service.app import bare_app
        from service.auth.gate import Gate
        from service.settings import Settings

        app = bare_app(self.store, Gate(self.store), Settings())
        self._opened.callback(app.state.lookups.close)
        self._opened.callback(app.state.stopping.set)
        return app

    def _get(self, path: str, **query: Any) -> Json:
        from service import reads
        from service.http_errors import HttpError, body_of

        given = {name: value for name, value in query.items() if value is not None}
        try:
            found = reads.answer(self.store, path, given)
        except HttpError as error:
            raise error_of(error.status, body_of(error, path)) from None
        return super()._get(path, **query) if found is None else found

    def _post(self, path: str, body: Any = None, **headers: str) -> Json:
        found = self._taken(body, headers) if path == _JOBS else None
        return super()._post(path, body, **headers) if found is None else found

    def _taken(self, body: Any, headers: Mapping[str, str]) -> Json | None:
        """The answer to a request for a job; ``None`` to one whose fields are wrong: the
        application says how."""
        from pydantic import ValidationError

        from service.http_errors import body_of, status_of
        from service.job_requests import submit
        from service.schemas.jobs import SubmitBody
        from service.settings import Settings

        try:
            asked = SubmitBody.model_validate_json(json.dumps(body))
        except ValidationError:
            return None
        key, workers = headers.get("Idempotency-Key"), Settings().workers
        try:
            taken = submit(self.store, _user(), asked, key=key, default_workers=workers)
        except HvxtuneError as error:
            raise error_of(status_of(error), body_of(error, _JOBS)) from None
        return dict(taken.answer)

    def devices(self) -> list[Json]:
        """As of a service; those of this machine's farm file are made known first."""
        from tuner.measure.farm.farm_file import NoFarmError, read_farm
        from tuner.measure.farm.health import enrol

        with suppress(NoFarmError):
            enrol(read_farm(), self.store.roster())
        return super().devices()

    def events(self, job: str, after: int = 0) -> Iterator[Event]:
        """As of any client; asks the database for what is new."""
        from db.jobs.events import told_after
        from service.json_forms import job_roofline, told_json

        found = self.store.job(job)
        while True:
            ended = self.store.job(found.id).state.ended  # then these are the last
            news = told_after(self.store, found.id, after, _MOST_EVENTS)
            for told in news:
                after = told.event.sequence
                yield Event(after, told.event.kind, told_json(told, job_roofline(found)))
            if not news:
                if ended:
                    return
                time.sleep(_POLL_S)

    def _send(self, request: Request) -> Reply:
        reply = self._runner.run(self._answered(request))
        if request.save_to is None or reply.status != 200:
            return reply
        with saving(request.save_to) as write:
            write(reply.content)
        return replace(reply, content=b"")

    async def _answered(self, request: Request) -> Reply:
        from httpx import ASGITransport, AsyncClient

        from service.client.connection import arguments, reply_of

        async def app(scope: Any, receive: Any, send: Any) -> None:
            whose = {"caller": _user()}
            await self._app({**scope, "client": None, "state": whose}, receive, send)

        if request.upload is not None:
            with opened(request.upload) as read:
                request = replace(request, body=read(-1))
        async with AsyncClient(transport=ASGITransport(app), base_url=_ADDRESS) as client:
            response = await client.request(**arguments(request))
        return reply_of(response, response.content)


_ADDRESS = "http://here"
_JOBS = "/v1/jobs"
_POLL_S = 0.5
_MOST_EVENTS = 1000


def _user() -> Caller:
    """Who works on this machine: everything here is theirs. A job without a user is run by the
    command that made it."""
    from service.auth.caller import Caller, Scope
    from service.auth.tokens import local_user

    return Caller("", "", frozenset({Scope.ADMIN}), owner=local_user())
