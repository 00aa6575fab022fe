"""Takes requests for jobs: checked as a whole, stored as a whole, once per idempotency key."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from db.job_id import new_job_id
from db.new_job import KeptAnswer, RequestKey, answer_once, insert_job, kept_answer
from db.pipelines import kernel_of
from db.sql_store import SqlStore
from service.auth import Caller
from service.auth.quotas import check_submit
from service.json_forms import job_json
from service.problem_details import HttpError
from service.schemas.jobs import DEFAULT_TRIALS, BudgetBody, SubmitBody, WorkloadBody
from tuner.errors import UserError
from tuner.identity import digest_of
from tuner.measure.farm.roster import Roster
from tuner.trial import Submission
from tuner.tuning import Plan, plan


@dataclass(frozen=True)
class Taken:
    """The answer to a request for jobs; ``replayed`` if an earlier one like it made the jobs."""

    answer: Mapping[str, Any]
    replayed: bool


def submit(
    store: SqlStore,
    caller: Caller,
    body: SubmitBody,
    *,
    key: str | None = None,
    default_workers: int | None = None,
) -> Taken:
    """Makes the jobs that ``body`` asks for, all or none of them. Blocks."""
    named = None
    if key is not None:
        named = RequestKey(caller.token_id, key, digest_of(body.model_dump(mode="json")))
        with store.reading() as session:
            before = kept_answer(session, named)
        if before is not None:
            return _replayed(before, key)
    plans = _plans(store, body, default_workers, store.roster())
    trials = [made.spec.budget.trials for made in plans]
    asked = None if None in trials else sum(count or 0 for count in trials)
    check_submit(store, caller, asked)
    return _store(store, caller, body, plans, named)


def _plans(
    store: SqlStore, body: SubmitBody, default_workers: int | None, roster: Roster
) -> list[Plan]:
    if body.workloads is None:
        assert body.kernel is not None  # noqa: S101 - the body was validated
        only = WorkloadBody(kernel=body.kernel, params=body.params or {})
        return [_plan(store, body, only, default_workers, roster)]
    plans = []
    for index, workload in enumerate(body.workloads):
        try:
            plans.append(_plan(store, body, workload, default_workers, roster))
        except UserError as error:
            error.message = f"workloads.{index}: {error.message}"
            raise
    return plans


def _plan(
    store: SqlStore,
    body: SubmitBody,
    workload: WorkloadBody,
    default_workers: int | None,
    roster: Roster,
) -> Plan:
    budget = body.budget
    if budget == BudgetBody():
        budget = BudgetBody(trials=DEFAULT_TRIALS)
    return plan(
        kernel_of(store, workload.kernel),
        workload.params,
        target=body.target,
        contract=body.contract,
        trials=budget.trials,
        seconds=budget.seconds,
        patience=budget.patience,
        sampler=body.sampler,
        seed=body.seed,
        workers=body.workers or default_workers,
        generator=body.generator,
        measurer=body.measurer,
        on=body.on,
        cache=body.cache,
        roster=roster,
    )


def _store(
    store: SqlStore, caller: Caller, body: SubmitBody, plans: list[Plan], key: RequestKey | None
) -> Taken:
    batch = None if body.workloads is None else new_job_id(time.time())
    submission = Submission(caller.name, body.priority, batch)
    with store.writing() as session:

        def make() -> dict[str, Any]:
            jobs = [
                insert_job(session, made.spec, made.space, made.toolchain, submission)
                for made in plans
            ]
            return {"batch": batch, "jobs": [job_json(job) for job in jobs]}

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
