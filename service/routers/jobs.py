"""Jobs: submitting, listing, steering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.responses import JSONResponse

from db.jobs import queries as job_queries
from service import reads
from service.annotating import annotate
from service.app_state import READS, ServiceSettings, Steerer, Store, Submitter
from service.auth.audit import record
from service.http_errors import conflicts
from service.job_requests import Taken, require_may_steer
from service.job_requests import submit as take
from service.json_forms import overview_json
from service.openapi import problems
from service.schemas.jobs import (
    AnnotationBody,
    ConductorList,
    JobDetail,
    JobPage,
    JobsQuery,
    JobStandingForm,
    SubmitBody,
    Submitted,
)
from service.sub_path import published
from tuner.records.trial import JobRequest

router = APIRouter(prefix="/v1", tags=["jobs"])

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="Names this request: sent again within a day, it is answered alike and "
        "makes no more jobs.",
    ),
]


@router.post(
    "/jobs",
    summary="Submit jobs",
    status_code=201,
    response_model=Submitted,
    responses=problems(409),
)
def submit_job(
    body: SubmitBody,
    request: Request,
    caller: Submitter,
    store: Store,
    settings: ServiceSettings,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Queues a job for `kernel`, or one for each of `workloads`: all of them or, if one cannot
    work, none. With an `Idempotency-Key` a retry is safe, also while the first is under way;
    its answer then says `Idempotency-Replayed: true`. The same key with another body gives 409.
    """
    taken = take(
        store, caller, body, request, key=idempotency_key, default_workers=settings.workers
    )
    return submitted(taken, request)


def submitted(taken: Taken, request: Request) -> Response:
    """The answer to a request that made jobs, with the place of what it made."""
    headers = {"Idempotency-Replayed": "true"} if taken.replayed else {}
    if taken.answer["batch"] is None:
        made = f"/v1/jobs/{taken.answer['jobs'][0]['job']}"
    else:
        made = f"/v1/networks/{taken.answer['batch']}"
    headers["Location"] = published(request, made)
    return JSONResponse(dict(taken.answer), 201, headers)


@router.get("/jobs", summary="Jobs, newest first", response_model=JobPage, dependencies=READS)
def list_jobs(query: Annotated[JobsQuery, Query()], store: Store) -> dict[str, Any]:
    """A page of them, with their trials counted. Pages stay whole while jobs are submitted."""
    return reads.jobs_page(store, **query.model_dump())


@router.get(
    "/jobs/{job}",
    summary="One job",
    response_model=JobDetail,
    responses=problems(404),
    dependencies=READS,
)
def get_job(job: str, store: Store) -> dict[str, Any]:
    """The job as lists show it, its default, textbook, baseline and best trial, and what it was
    made with."""
    return reads.job(store, job)


def _steer(request: JobRequest) -> Callable[..., dict[str, Any]]:
    def route(job: str, http_request: Request, caller: Steerer, store: Store) -> dict[str, Any]:
        found = reads.find_job(store, job)
        require_may_steer(caller, found, request)
        with conflicts(), store.transaction():
            store.request(found.id, request)
            record(store, caller, f"job.{request}", found.id, None, http_request)
        return overview_json(job_queries.job_overview(store, found.id))

    return route


for _request, _summary, _text in (
    (
        JobRequest.CANCEL,
        "Cancel a job",
        "Ends the job; what it found stays. One that runs finishes its candidates in flight first.",
    ),
    (
        JobRequest.PAUSE,
        "Pause a job",
        "The job stops and waits in state `queued`, with `paused` set, until it is resumed.",
    ),
    (JobRequest.RESUME, "Resume a paused job", "The job is in the queue again."),
):
    router.post(
        f"/jobs/{{job}}/{_request}",
        name=f"{_request}_job",
        summary=_summary,
        description=f"{_text} Others' jobs need the scope `operate`. Asking "
        "twice changes nothing; 409 if the job has ended.",
        response_model=JobStandingForm,
        responses=problems(404, 409),
    )(_steer(_request))


@router.patch(
    "/jobs/{job}",
    summary="Change the comment and tags of a job",
    response_model=JobStandingForm,
    responses=problems(404),
)
def annotate_job(
    job: str, body: AnnotationBody, request: Request, caller: Steerer, store: Store
) -> dict[str, Any]:
    """At any time, also after the job has ended. Others' jobs need the scope `operate`."""
    found = reads.find_job(store, job)
    annotate(store, caller, found, request, **body.model_dump())
    return overview_json(job_queries.job_overview(store, found.id))


@router.get(
    "/conductors",
    summary="The conductors, and whether they are fit",
    response_model=ConductorList,
    dependencies=READS,
)
def list_conductors(store: Store) -> dict[str, Any]:
    """Processes that run jobs, on whatever machine. An unfit one says what it does not reach, and
    takes up no job until it does."""
    return reads.conductors(store)
