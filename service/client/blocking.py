"""A service, for code that waits for its answers: over HTTP (:class:`service.client.Client`), or in
this process (:class:`service.here.Here`)."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, Unpack
from urllib.parse import quote

from service.client.answers import (
    Best,
    EnqueuedError,
    Failure,
    Json,
    Reply,
    Request,
    best_of,
    is_digest,
    items_of,
    not_ours,
    object_of,
    require_good,
    stated_digest,
    verified,
)
from service.client.cache import ClientCache, KeptAnswer
from service.client.persistence import Attempts, Event, Pause, may_change, unreachable
from tuner.errors import HvxtuneError, UserError
from tuner.problem.default_target import named_target
from tuner.records.candidate import CacheState, Fidelity, Preference
from tuner.records.request import BUDGET, JobOptions, of_group, require_known

FileKind = Literal["object", "header", "schedule", "loopnest", "assembly", "provenance"]
_FILE_PATHS = {"schedule": "schedule.h"}
PATIENCE_S = 30.0
PATIENCE_WITH_CACHE_S = 5.0
"""A build that has cached answers to fall back on does not wait long."""
PAGE_ITEMS = 200


class BestOptions(TypedDict, total=False):
    """Options of a best query; the service's defaults replace omitted ones, save for a target that
    ``HVXTUNE_TARGET`` names."""

    target: str
    contract: str
    cache: CacheState
    min_fidelity: Fidelity
    prefer: Preference
    allow_nearest: bool
    on_miss: Literal["enqueue"] | None


class BlockingClient(ABC):
    """All that a service can be asked. Every request made here may be sent twice without harm. Use
    from one thread at a time.

    ``server`` is its address, or the name of the database that is asked in its place. A request is
    sent again for ``patience_s`` seconds while the service is down or busy.
    """

    server: str
    cache: ClientCache
    patience_s = PATIENCE_S
    _has_answered = False

    @abstractmethod
    def close(self) -> None:
        """Frees what it holds."""

    @abstractmethod
    def events(self, job: str, after: int = 0) -> Iterator[Event]:
        """The events of a job after event ``after`` to its end, each of them once."""

    @abstractmethod
    def _send(self, request: Request) -> Reply | Failure:
        """The reply to ``request``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ask(self, request: Request, patience_s: float | None = None) -> Reply:
        """Sends ``request`` until the answer is other than "not now". ``UnreachableError`` without
        any, at once where nothing listens and nothing ever answered: then it is no service that
        starts again."""
        attempts = Attempts(self.patience_s if patience_s is None else patience_s)
        while True:
            reply = self._send(request)
            if isinstance(reply, Failure) and reply.refused and not self._has_answered:
                raise unreachable(self.server, reply)
            pause = attempts.pause(reply) if may_change(reply) else None
            if pause is not None:
                self._sleep(pause)
            elif isinstance(reply, Failure):
                raise unreachable(self.server, reply)
            else:
                self._has_answered = True
                return require_good(reply, self.server)

    def _sleep(self, pause: Pause) -> None:
        time.sleep(pause.seconds)

    def _get(self, path: str, **query: Any) -> Json:
        reply = self._ask(Request("GET", path, _texts(query)))
        return object_of(reply, self.server)

    def _post(self, path: str, body: Any = None, **headers: str) -> Json:
        reply = self._ask(Request("POST", path, body=body, headers=headers))
        return object_of(reply, self.server)

    def ready(self) -> Json:
        """Whether the service can work now; ``UnreachableError`` says why not."""
        return self._get("/readyz")

    def kernels(self) -> list[Json]:
        """The kernels that can be tuned, like ``hvxtune kernel list --json``."""
        return items_of(self._get("/v1/kernels"), self.server)

    def targets(self) -> list[Json]:
        """The targets, with their figures."""
        return items_of(self._get("/v1/targets"), self.server)

    def conductors(self) -> list[Json]:
        """The conductors, and whether they are fit, like ``hvxtune cluster list --json``."""
        return items_of(self._get("/v1/conductors"), self.server)

    def devices(self) -> list[Json]:
        """The devices of the farm and their states, like ``hvxtune farm list --json``."""
        return items_of(self._get("/v1/devices"), self.server)

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
        """Submits a job for a kernel, or one for each of ``workloads`` (``kernel``, ``params``,
        and optionally ``layers``, the names of the layers that are it), a set called ``name``.

        ``options`` are the fields of :class:`tuner.records.request.JobOptions`; what is left out
        is the service's default, save for a target that ``HVXTUNE_TARGET`` names.
        Sent with an idempotency key, made up unless given: however often the request has to be
        repeated, the jobs are made once. Returns them.
        """
        what: Json = {"workloads": [dict(one) for one in workloads]}
        if kernel is not None:
            what = {"kernel": kernel, "params": dict(params or {})}
        if name is not None:
            what["name"] = name
        return self._submit("/v1/jobs", what, idempotency_key, options)

    def submit_network(
        self,
        /,
        name: str,
        layers: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> list[Json]:
        """Submits a job for each different workload of the ``layers`` of a network called ``name``,
        which are as ``POST /v1/networks`` takes them, and returns the jobs.

        ``options``, of each job, and the key are as for :meth:`submit`.
        """
        what = {"name": name, "layers": [dict(one) for one in layers]}
        return self._submit("/v1/networks", what, idempotency_key, options)

    def _submit(
        self, path: str, what: Json, idempotency_key: str | None, options: Mapping[str, Any]
    ) -> list[Json]:
        limits = [one.name for one in of_group(JobOptions, BUDGET)]
        require_known(options)
        given = _with_target(options)
        budget = {name: given.pop(name) for name in limits if name in given}
        if budget:
            given["budget"] = dict.fromkeys(limits) | budget
        key = idempotency_key or str(uuid.uuid4())
        answer = self._post(path, {**what, **given}, **{"Idempotency-Key": key})
        jobs = answer.get("jobs")
        if not isinstance(jobs, list) or not jobs:
            raise not_ours(self.server, "its answer names no job")
        return jobs

    def job(self, job: str) -> Json:
        """A job with its counts and its default, textbook and best trials."""
        return self._get(f"/v1/jobs/{_part(job)}")

    def jobs(self, **filters: Any) -> Iterator[Json]:
        """All jobs that ``filters`` (``state``, ``kernel``, ``user``, ...) let through, newest
        first; pages are asked for as they are needed."""
        return self._items("/v1/jobs", **filters)

    def trials(self, job: str, outcome: str | None = None) -> Iterator[Json]:
        """The trials of a job, by number."""
        return self._items(f"/v1/jobs/{_part(job)}/trials", outcome=outcome)

    def schedules(self, **filters: Any) -> Iterator[Json]:
        """All stored schedules that ``filters`` (``kernel``, ``target``, ...) let through."""
        return self._items("/v1/schedules", **filters)

    def pipelines(self) -> Iterator[Json]:
        """All uploaded pipelines that the token lets see, newest first."""
        return self._items("/v1/pipelines")

    def packages(self) -> Iterator[Json]:
        """All packages, the one registered last first."""
        return self._items("/v1/packages")

    def tokens(self) -> list[Json]:
        """All tokens, without secrets."""
        return items_of(self._get("/v1/tokens"), self.server)

    def create_token(self, **options: Any) -> Json:
        """Makes a token and returns it, with its text this once. Sent only once."""
        return object_of(self._ask(Request("POST", "/v1/tokens", body=options), 0.0), self.server)

    def revoke_token(self, token: str) -> Json:
        """Ends the token with that id for good."""
        return object_of(self._ask(Request("DELETE", f"/v1/tokens/{_part(token)}")), self.server)

    def audit(self) -> Iterator[Json]:
        """The record of changes, newest first."""
        return self._items("/v1/audit")

    def steer_device(self, device: str, verb: str, reason: str = "") -> Json:
        """Drains, quarantines or releases (``verb``) a device of the farm."""
        return self._post(f"/v1/devices/{_part(device)}/{verb}", {"reason": reason})

    def _items(self, path: str, **filters: Any) -> Iterator[Json]:
        cursor: str | None = None
        while True:
            page = self._get(path, **{"limit": PAGE_ITEMS, **filters, "cursor": cursor})
            yield from items_of(page, self.server)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def wait(self, job: str, on_event: Callable[[Event], None] | None = None) -> Json:
        """Waits until a job has ended and returns it; ``on_event`` sees what happens to it."""
        for event in self.events(job):
            if on_event is not None:
                on_event(event)
        return self.job(job)

    def cancel(self, job: str) -> Json:
        """Ends a job; what it found stays."""
        return self._post(f"/v1/jobs/{_part(job)}/cancel")

    def pause(self, job: str) -> Json:
        """Stops a job until it is resumed."""
        return self._post(f"/v1/jobs/{_part(job)}/pause")

    def resume(self, job: str) -> Json:
        """Lets a paused job go on."""
        return self._post(f"/v1/jobs/{_part(job)}/resume")

    def annotate(
        self,
        job: str,
        *,
        comment: str | None = None,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
    ) -> Json:
        """Changes the comment and tags of a job, at any time; what is left out stays."""
        body: Json = {"add_tags": list(add_tags), "remove_tags": list(remove_tags)}
        if comment is not None:
            body["comment"] = comment
        reply = self._ask(Request("PATCH", f"/v1/jobs/{_part(job)}", body=body))
        return object_of(reply, self.server)

    def network(self, network: str) -> Json:
        """A network or set by its id, or the newest of that name: layer by layer, its jobs, and
        what to do next."""
        return self._get(f"/v1/networks/{_part(network)}")

    def network_plan(self, network: str) -> Json:
        """The plan of a network; ``RefusedError`` with status 404 without one."""
        return self._get(f"/v1/networks/{_part(network)}/plan")

    def give_network_plan(self, network: str, plan: Mapping[str, Any]) -> None:
        """Keeps ``plan``, as :meth:`tuner.records.network_plan.NetworkPlan.document` has it, with a
        network."""
        path = f"/v1/networks/{_part(network)}/plan"
        self._ask(Request("PUT", path, body=dict(plan)))

    def network_bundle(self, network: str, file: Path) -> None:
        """Writes the best schedules of a network or set with their objects to ``file``, whole or
        not at all: what ``hvxtune fetch --network MODEL --from FILE`` takes."""
        path = f"/v1/networks/{_part(network)}/bundle"
        self._ask(Request("GET", path, save_to=file))

    def cancel_network(self, network: str) -> Json:
        """Ends all jobs of a network or set; what they found stays."""
        return self._post(f"/v1/networks/{_part(network)}/cancel")

    def pause_network(self, network: str) -> Json:
        """Stops all jobs of a network or set until they are resumed."""
        return self._post(f"/v1/networks/{_part(network)}/pause")

    def resume_network(self, network: str) -> Json:
        """Lets all paused jobs of a network or set go on."""
        return self._post(f"/v1/networks/{_part(network)}/resume")

    def best(
        self,
        kernel: str,
        params: Mapping[str, int] | None = None,
        **options: Unpack[BestOptions],
    ) -> Best:
        """The best schedule whose contract ``contract``, what the caller promises, implies.

        If the service does not answer, its last answer to the same question, marked as such.
        ``RefusedError`` without one (status 404, ``problem`` names near ones);
        ``EnqueuedError`` if ``on_miss="enqueue"`` submitted a job.
        """
        query = _texts(
            {"kernel": kernel, "param": _params_text(params or {}), **_with_target(options)}
        )
        question = {"best": query}
        kept = self.cache.answer(self.server, question)
        headers = {"If-None-Match": kept.etag} if kept and kept.etag else {}
        request = Request("GET", "/v1/schedules/best", query, headers=headers)
        try:
            reply = self._ask(request, self._patience(kept))
        except UserError:
            raise
        except HvxtuneError as error:
            if kept is None:
                raise
            kept_best = best_of(kept.body, self.server)
            return replace(kept_best, from_cache=True, age_s=kept.age_s, reason=error.message)
        if reply.status == 304 and kept is not None:
            self.cache.keep_answer(self.server, question, kept.body, kept.etag)
            return best_of(kept.body, self.server)
        document = object_of(reply, self.server)
        if reply.status == 202:
            raise EnqueuedError(document.get("job") or {})
        best = best_of(document, self.server)
        etag = reply.headers.get("etag", "")
        self.cache.keep_answer(self.server, question, document, etag)
        return best

    def _patience(self, kept: KeptAnswer | None) -> float:
        return self.patience_s if kept is None else min(self.patience_s, PATIENCE_WITH_CACHE_S)

    def best_batch(
        self, workloads: Sequence[Mapping[str, Any]], **options: Unpack[BestOptions]
    ) -> list[Json]:
        """The best schedules for a whole model, in order: each a schedule with ``status`` 200, or
        a problem with another."""
        body = {"workloads": [dict(one) for one in workloads], **_with_target(options)}
        answer = self._post("/v1/schedules/best:batch", body)
        return items_of(answer, self.server)

    def schedule(self, schedule: str) -> Best:
        """The schedule with that id."""
        return best_of(self._get(f"/v1/schedules/{_part(schedule)}"), self.server)

    def doubt(self, schedule: Best | str) -> Json | None:
        """How far the choice of a schedule rests on assumed costs; ``None`` where nothing is
        assumed."""
        name = schedule if isinstance(schedule, str) else schedule.id
        answer = self._get(f"/v1/schedules/{_part(name)}/doubt")
        found: Json | None = answer.get("doubt")
        return found

    def file(self, schedule: Best | str, kind: FileKind, digest: str | None = None) -> bytes:
        """A file of a schedule, from the cache if it was fetched before.

        Its SHA-256 must be ``digest``, the one the schedule names for its object, and the one the
        service states; ``StoreError`` otherwise. Without any of them it is taken as it comes.
        """
        name = schedule if isinstance(schedule, str) else schedule.id
        if digest is None and kind == "object" and isinstance(schedule, Best):
            digest = schedule.object_digest
        question = {"file": [name, kind]}
        known = digest
        if known is None:
            kept = self.cache.answer(self.server, question)
            known = kept.body if kept and isinstance(kept.body, str) else None
        content = self.cache.object(known) if known and is_digest(known) else None
        if content is not None:
            return content
        path = f"/v1/schedules/{_part(name)}/{_FILE_PATHS.get(kind, kind)}"
        reply = self._ask(Request("GET", path))
        for expected in (stated_digest(reply), digest):
            if expected is not None:
                verified(reply.content, expected, f"the {kind} of schedule {name}")
        kept_as = self.cache.keep_object(reply.content)
        self.cache.keep_answer(self.server, question, kept_as, reply.headers.get("etag", ""))
        return reply.content

    def export(self, file: Path, kernel: str | None = None, target: str | None = None) -> None:
        """Writes the stored schedules with their objects to ``file``, whole or not at all."""
        query = _texts({"kernel": kernel, "target": target})
        self._ask(Request("GET", "/v1/export", query, save_to=file))

    def import_(self, file: Path, query: Mapping[str, Any] | None = None) -> Json:
        """Sends what :meth:`export` wrote; says what was taken."""
        headers = {"Content-Type": "application/x-ndjson"}
        request = Request("POST", "/v1/import", _texts(query or {}), headers=headers, upload=file)
        reply = self._ask(request)
        return object_of(reply, self.server)

    def upload_pipeline(
        self, name: str, content: bytes, visibility: Literal["shared", "private"] = "shared"
    ) -> Json:
        """Uploads a serialized Halide pipeline; says what is in it."""
        headers = {"Content-Type": "application/octet-stream"}
        query = {"name": name, "visibility": visibility}
        request = Request("POST", "/v1/pipelines", query, content, headers)
        reply = self._ask(request)
        return object_of(reply, self.server)

    def register_package(self, content: bytes) -> Json:
        """Registers a package, its files as :attr:`tuner.packages.files.Package.data` has them."""
        headers = {"Content-Type": "application/json"}
        reply = self._ask(Request("POST", "/v1/packages", {}, content, headers))
        return object_of(reply, self.server)

    def remove_package(self, digest: str) -> Json:
        """Removes a package, by its digest or the first 12 digits of it; says which it was."""
        reply = self._ask(Request("DELETE", f"/v1/packages/{_part(digest)}"))
        return object_of(reply, self.server)


def _part(name: str) -> str:
    """``name`` as one part of a path."""
    if not name or name in (".", ".."):
        raise UserError(f"'{name}' names nothing", accepted="the id of a job or a schedule")
    return quote(name, safe="")


def _params_text(params: Mapping[str, int]) -> str | None:
    return ",".join(f"{name}={value}" for name, value in params.items()) or None


def _with_target(options: Mapping[str, Any]) -> Json:
    """``options``, with the target that ``HVXTUNE_TARGET`` names unless they name one. What this
    machine was set up for says nothing about the service's."""
    named = named_target()
    return {**({} if named is None else {"target": named}), **options}


def _texts(query: Mapping[str, Any]) -> dict[str, str]:
    """A query as text, without the fields that are not given."""
    texts = {}
    for name, value in query.items():
        if value is not None:
            texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts
