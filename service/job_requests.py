"""Takes requests for jobs: checked as a whole, stored as a whole, once per idempotency key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Session

from db.jobs.new_job import (
    KeptAnswer,
    RequestKey,
    answer_once,
    insert_batch,
    insert_job,
    kept_answer,
)
from db.pipelines import Named, named
from db.sql_store import SqlStore
from service.auth.audit import record
from service.auth.caller import Caller, Scope
from service.auth.quotas import check_submit
from service.http_errors import HttpError, conflicts
from service.json_forms import job_json
from service.request_ids import current_request_id
from service.schemas.jobs import OptionsBody, SubmitBody, WorkloadBody
from service.schemas.new_network import NewNetworkBody
from tuner.errors import UserError
from tuner.identity import digest_of
from tuner.jobs.tuning import Plan, plan, plan_of_several
from tuner.measure.farm.roster import Roster
from tuner.records.batch import Batch, NewJob
from tuner.records.request import DEFAULT_TRIALS_OF_A_WORKLOAD
from tuner.records.trial import Job, JobRequest, Submission

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


@dataclass(frozen=True)
class Taken:
    """The answer to a request for jobs; ``replayed`` if an earlier one like it made the jobs."""

    answer: Mapping[str, Any]
    replayed: bool


def submit(
    store: SqlStore,
    caller: Caller,
    body: SubmitBody | NewNetworkBody,
    request: HTTPConnection | None = None,
    *,
    key: str | None = None,
    default_workers: int | None = None,
    detail: Mapping[str, Any] | None = None,
) -> Taken:
    """Makes the jobs that ``body`` asks for, all or none of them, within the caller's quotas, and
    leaves that, with ``detail``, in the audit. Blocks."""
    request_key = None
    if key is not None:
        request_key = RequestKey(caller.token_id, key, digest_of(body.model_dump(mode="json")))
        with store.reading() as session:
            before = kept_answer(session, request_key)
        if before is not None:
            return _replayed(before, key)
    plans = _plans(store, body, caller, default_workers)
    submission = Submission(
        caller.name, body.priority, None, current_request_id(), owner=caller.owner
    )
    # Of requests at the same time each sees what the ones before it took of the quota.
    with store.transaction() as session:

        def make() -> dict[str, Any]:
            check_submit(store, caller, _trials_asked_for([one.plan for one in plans]))
            new = [_new_job(made, submission) for made in plans]
            if body.workloads is None:
                (only,) = new
                made = [insert_job(session, only.spec, only.space, only.toolchain, only.submission)]
                batch = None
            else:
                whole = insert_batch(session, body.plan([one.workload for one in plans]), new)
                made = [store.job(member.job) for member in whole.members]
                batch = whole.id
            jobs = [job_json(job) for job in made]
            ids = [job["job"] for job in jobs]
            about = {"jobs": ids, **(detail or {})}
            record(store, caller, "job.submit", batch or ids[0], about, request)
            return {"batch": batch, "jobs": jobs}

        return _once(session, request_key, make)


@dataclass(frozen=True)
class _Planned:
    """A job to make, what its kernel is called, whether it is private, and the names of its
    layers."""

    plan: Plan
    named: Named
    private: bool
    layers: tuple[str, ...]

    @property
    def workload(self) -> tuple[str, str]:
        """Its kernel, and the digest of the workload."""
        workload = self.plan.spec.problem.workload
        return workload.kernel, workload.digest


def _new_job(made: _Planned, submission: Submission) -> NewJob:
    own = replace(submission, kernel_label=made.named.label, private=made.private)
    workload = made.plan.spec.problem.workload
    names = made.layers or (
        " ".join([made.named.label or workload.kernel, *workload.label.split()[1:]]),
    )
    return NewJob(made.plan.spec, made.plan.space, made.plan.toolchain, names, own)


def _trials_asked_for(plans: list[Plan]) -> int | None:
    """The sum of their limits; ``None`` if one has no limit of trials."""
    trials = [made.spec.budget.trials for made in plans]
    return None if None in trials else sum(count or 0 for count in trials)


def _plans(
    store: SqlStore, body: SubmitBody | NewNetworkBody, caller: Caller, default_workers: int | None
) -> list[_Planned]:
    roster = store.roster()

    def planned(workload: WorkloadBody, **limits: Any) -> _Planned:
        kernel = named(store, workload.kernel, caller.viewer)
        private = _is_private(body, kernel)
        workload = workload.model_copy(update={"kernel": kernel.kernel})
        made = _plan(body, workload, default_workers, roster, limits)
        return _Planned(made, kernel, private, tuple(workload.layers or ()))

    if body.workloads is None:
        assert isinstance(body, SubmitBody) and body.kernel is not None  # noqa: S101, PT018 - validated
        only = WorkloadBody(kernel=body.kernel, params=body.params or {}, layers=None)
        return [planned(only)]
    plans = []
    shares = _shares(body, len(body.workloads))
    for index, workload in enumerate(body.workloads):
        try:
            plans.append(planned(workload, **shares[index]))
        except UserError as error:
            error.message = f"{body.place(index)}: {error.message}"
            raise
    return plans


def _shares(body: SubmitBody | NewNetworkBody, count: int) -> list[dict[str, Any]]:
    """The share of each of ``count`` workloads in the trials and seconds of the whole."""
    trials, seconds = body.budget.trials, body.budget.seconds
    if not any(body.budget.model_dump().values()):
        trials = DEFAULT_TRIALS_OF_A_WORKLOAD * count
    if trials is not None and trials < count:
        raise UserError(
            f"budget.trials is {trials} for {count} workloads",
            accepted=f"{count} or more: each has one at least",
        )
    each, more = divmod(trials or 0, count)
    return [
        {
            "trials": None if trials is None else each + (place < more),
            "seconds": None if seconds is None else seconds / count,
        }
        for place in range(count)
    ]


def _is_private(body: OptionsBody, kernel: Named) -> bool:
    if kernel.private and body.visibility == "shared":
        raise UserError(
            f"a shared job on '{kernel.label}', an upload that is private",
            accepted="visibility private, or none",
            next_step="upload it again with visibility=shared, or submit a private job",
        )
    return kernel.private or body.visibility == "private"


def _plan(
    body: SubmitBody | NewNetworkBody,
    workload: WorkloadBody,
    default_workers: int | None,
    roster: Roster,
    limits: Mapping[str, Any],
) -> Plan:
    options = {**body.options(), **limits}
    options["workers"] = options["workers"] or default_workers
    way = plan if body.workloads is None else plan_of_several
    return way(workload.kernel, workload.params, roster=roster, **options)


def _once(session: Session, key: RequestKey | None, make: Callable[[], dict[str, Any]]) -> Taken:
    """The result of ``make``, unless the request with ``key`` was answered before."""
    if key is None:
        return Taken(make(), replayed=False)
    made_now: list[dict[str, Any]] = []

    def make_and_keep() -> dict[str, Any]:
        made_now.append(make())
        return made_now[0]

    before = answer_once(session, key, 201, make_and_keep)
    return Taken(made_now[0], replayed=False) if before is None else _replayed(before, key.key)


def _replayed(kept: KeptAnswer, key: str) -> Taken:
    if not kept.same_request:
        raise HttpError(
            409,
            f"Idempotency-Key '{key}' came with another request before",
            accepted="the same body as then, or a new key",
            next_step="use a new key for each request that is not a retry",
        )
    return Taken(kept.answer, replayed=True)


def may_steer(caller: Caller, work: Job | Batch) -> bool:
    """Whether ``caller`` may steer it: their own with ``submit``, anybody's with ``operate``."""
    own = work.submission.owner == caller.owner and caller.may(Scope.SUBMIT)
    return own or caller.may(Scope.OPERATE)


def require_may_steer(caller: Caller, work: Job | Batch, request: JobRequest | str) -> None:
    """403 for anybody who may not."""
    if may_steer(caller, work):
        return
    owner = work.submission.owner or "the command line"
    what = "job" if isinstance(work, Job) else "batch"
    raise HttpError(
        403,
        f"{what} {work.id} belongs to {owner}: '{caller.name}' may not {request} it",
        accepted=f"a token of {owner}, or one with the scope {Scope.OPERATE}",
        next_step=f"ask {owner}, or the operator of the service",
    )


def request_of_all(
    store: SqlStore,
    caller: Caller,
    batch: Batch,
    request: JobRequest,
    http_request: HTTPConnection,
) -> None:
    """Asks all jobs of ``batch``, and leaves that in the audit. 403 for anybody who may not, 409 if
    all have ended, or if only the command that runs them can do it."""
    require_may_steer(caller, batch, request)
    if batch.shares_budget and request is not JobRequest.CANCEL:
        raise HttpError(
            409,
            f"batch {batch.id} runs in the command that began it: a service cannot {request} it",
            accepted="a batch that was submitted to the service",
            next_step="stop that command with Ctrl-C, or continue with "
            f"`hvxtune job resume {batch.id}` on its machine",
        )
    with conflicts(), store.transaction():
        store.request_of_all(batch.id, request)
        record(store, caller, f"network.{request}", batch.id, None, http_request)
