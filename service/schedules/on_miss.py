"""The job that would fill a miss."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from db.jobs.queries import open_job
from db.sql_store import SqlStore
from service.auth import Caller
from service.job_requests import submit
from service.json_forms import job_json
from service.schedules.asked import Asked
from service.schemas.jobs import SubmitBody
from tuner.jobs.tuning import reaching
from tuner.records.request import DEFAULT_TRIALS

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

_one_at_a_time = threading.Lock()


def body_for(asked: Asked) -> SubmitBody:
    """The body for ``POST /v1/jobs`` that tunes what was asked for, up to its fidelity."""
    problem = asked.problem
    kinds = reaching(asked.lookup.min_fidelity)
    options = {
        "target": problem.target.name,
        "contract": problem.contract.value,
        "cache": asked.lookup.cache,
        "trials": DEFAULT_TRIALS,
        **({"promote_to": kinds[0]} if kinds else {}),
    }
    workload = problem.workload
    return SubmitBody.of(options, kernel=workload.kernel, params=dict(workload.params))


def job_for(
    asked: Asked,
    store: SqlStore,
    caller: Caller,
    request: HTTPConnection,
    *,
    default_workers: int | None,
) -> tuple[dict[str, Any], bool]:
    """A job for what was asked: an open one if there is one, else a new one of ``caller``. Says
    whether it was there. Blocks."""
    # A build asks for the same workload from many processes at once: one job is enough.
    with _one_at_a_time:
        found = open_job(
            store,
            asked.problem,
            asked.lookup.cache,
            reaching(asked.lookup.min_fidelity),
            asked.lookup.audience,
        )
        if found is not None:
            return job_json(found), True
        taken = submit(
            store,
            caller,
            body_for(asked),
            request,
            default_workers=default_workers,
            detail={"kernel": asked.problem.workload.kernel, "on_miss": "enqueue"},
        )
        job: dict[str, Any] = taken.answer["jobs"][0]
        return job, False
