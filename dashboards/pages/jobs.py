"""The list of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import RedirectResponse, Response

from dashboards.job_view import JobView
from dashboards.network_view import NetworkView
from dashboards.pages.network import find_table
from dashboards.session import EMPTY_MEANS_ALL, Form, Viewer, form_of, viewing
from dashboards.templating import render
from db.jobs.annotations import tags_in_use
from db.jobs.batches import Listed, Place, listed_page
from db.jobs.queries import JobFilters, JobOverview, job_overviews, jobs_page
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.audit import record
from service.auth.caller import Scope
from service.http_errors import HttpError
from service.job_requests import request_of_all, require_may_steer
from service.sub_path import published
from tuner.kernels import kernel_names
from tuner.problem.contract import Contract
from tuner.problem.target import TARGETS
from tuner.records.batch import Batch
from tuner.records.trial import Job, JobRequest, JobState

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

PAGE = 50
NETWORK = "network:"
"""Before the id of a network or set, where a job's could be ticked."""
STATES = (*(state.value for state in JobState), "paused")


class JobsQuery(BaseModel):
    """The filters in the address. Empty means all."""

    state: str = ""
    kernel: str = ""
    target: str = ""
    contract: Annotated[Contract | None, EMPTY_MEANS_ALL] = None
    user: str = ""
    batch: str = ""
    tag: str = ""
    q: str = Field("", max_length=200)
    after: str = ""

    def filters(self) -> JobFilters:
        """As the database takes it; 422 names a state that does not exist."""
        if self.state and self.state not in STATES:
            raise HttpError(422, f"state '{self.state}'", accepted=", ".join(STATES))
        waits = self.state in ("queued", "paused")
        ended_or_runs = JobState(self.state) if self.state and not waits else None
        return JobFilters(
            state=JobState.QUEUED if waits else ended_or_runs,
            paused=self.state == "paused" if waits else None,
            kernel=self.kernel or None,
            target=self.target or None,
            contract=self.contract,
            user=self.user or None,
            batch=self.batch or None,
            text=self.q.strip() or None,
            tag=self.tag or None,
        )


@router.get("/jobs")
def jobs(
    request: Request,
    asked: Annotated[JobsQuery, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The newest jobs, filtered, those of a network or set as one row unless they are asked for;
    the table alone where only that is asked for."""
    wanted = asked.filters()
    after = _place(store, asked.after)
    found: list[tuple[Place, Listed]]
    if asked.batch:
        page = jobs_page(store, wanted, after, PAGE + 1)
        found = [((one.job.created_at, one.job.id), one) for one in page]
    else:
        found = listed_page(store, wanted, after, PAGE + 1)
    query = {k: v for k, v in asked.model_dump().items() if v}
    filters = urlencode({k: v for k, v in query.items() if k != "after"})
    rows = [
        JobView(one) if isinstance(one, JobOverview) else NetworkView(one)
        for _, one in found[:PAGE]
    ]
    older = urlencode({**query, "after": found[PAGE - 1][0][1]}) if len(found) > PAGE else ""
    viewer: Viewer = request.state.viewer
    part = request.headers.get("HX-Target") == "jobs"
    return render(
        request,
        "jobs_table.html" if part else "jobs.html",
        **({} if part else _choices(store, rows, asked)),
        jobs=rows,
        asked=asked,
        filtered=wanted.any,
        live=any(row.open for row in rows),
        may_cancel=any(viewer.may(scope) for scope in (Scope.SUBMIT, Scope.OPERATE)),
        network=NETWORK,
        query=urlencode(query),
        filters=filters,
        older=older,
    )


def _choices(
    store: SqlStore, rows: Sequence[JobView | NetworkView], asked: JobsQuery
) -> dict[str, Any]:
    """The choices above the table: filters, the names of uploads in ``rows`` among them."""
    named = sorted({row.name for row in rows if isinstance(row, JobView)})
    return {
        "states": STATES,
        "kernels": list(dict.fromkeys([*kernel_names(), *named, *filter(None, [asked.kernel])])),
        "targets": list(TARGETS),
        "contracts": [contract.value for contract in Contract],
        "tags": sorted({*tags_in_use(store), *filter(None, [asked.tag])}),
    }


def list_query(text: str) -> str:
    """The filters in the query string ``text``, and nothing else."""
    return urlencode([(k, v) for k, v in parse_qsl(text) if k in JobsQuery.model_fields])


@router.post("/jobs/cancel")
def cancel(
    request: Request,
    form: Annotated[Form, Depends(form_of(Scope.READ))],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """Cancels the jobs, networks and sets that are ticked and have not ended: your own with
    ``submit``, anybody's with ``operate``; all of them or none."""
    ticked = [str(one) for one in form.fields.getlist("ticked")][:PAGE]
    wanted = form.text("query")
    jobs = [one.job for one in job_overviews(store, ticked) if not one.job.state.ended]
    networks = [
        table.progress.batch
        for one in ticked
        if one.startswith(NETWORK)
        and (table := find_table(store, one.removeprefix(NETWORK))).progress.open
    ]
    works: list[Job | Batch] = [*jobs, *networks]
    for work in works:
        require_may_steer(form.viewer.caller, work, JobRequest.CANCEL)
    for batch in networks:
        request_of_all(store, form.viewer.caller, batch, JobRequest.CANCEL, request)
    with store.transaction():
        for job in jobs:
            store.request(job.id, JobRequest.CANCEL)
            record(store, form.viewer.caller, "job.cancel", job.id, request=request)
    query = list_query(wanted)
    return RedirectResponse(published(request, f"/jobs?{query}" if query else "/jobs"), 303)


def _place(store: SqlStore, job_id: str) -> tuple[float, str] | None:
    """Where a job stands in the list; ``None`` for one that is not there."""
    found = job_overviews(store, [job_id]) if job_id else []
    return (found[0].job.created_at, found[0].job.id) if found else None
