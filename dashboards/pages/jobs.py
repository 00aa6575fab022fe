"""The list of jobs."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from dashboards.job_view import JobView
from dashboards.network_view import NetworkView
from dashboards.session import viewing
from dashboards.templating import render
from db.jobs.batches import Listed, Place, listed_page
from db.jobs.queries import JobFilters, JobOverview, job_overviews, jobs_page
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.caller import Scope
from service.problem_details import HttpError
from tuner.kernels import kernel_names
from tuner.problem.contract import Contract
from tuner.problem.target import TARGETS
from tuner.records.trial import JobState

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

PAGE = 50
STATES = (*(state.value for state in JobState), "paused")


class JobsQuery(BaseModel):
    """The filters in the address. Empty means all."""

    state: str = ""
    kernel: str = ""
    target: str = ""
    contract: str = ""
    user: str = ""
    batch: str = ""
    after: str = ""

    def filters(self) -> JobFilters:
        """As the database takes it; 422 names a value that does not exist."""
        for name, value, accepted in (
            ("state", self.state, STATES),
            ("contract", self.contract, tuple(Contract)),
        ):
            if value and value not in accepted:
                raise HttpError(422, f"{name} '{value}'", accepted=", ".join(accepted))
        waits = self.state in ("queued", "paused")
        ended_or_runs = JobState(self.state) if self.state and not waits else None
        return JobFilters(
            state=JobState.QUEUED if waits else ended_or_runs,
            paused=self.state == "paused" if waits else None,
            kernel=self.kernel or None,
            target=self.target or None,
            contract=Contract(self.contract) if self.contract else None,
            user=self.user or None,
            batch=self.batch or None,
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
    rows = [
        JobView(one) if isinstance(one, JobOverview) else NetworkView(one)
        for _, one in found[:PAGE]
    ]
    older = urlencode({**query, "after": found[PAGE - 1][0][1]}) if len(found) > PAGE else ""
    part = request.headers.get("HX-Target") == "jobs"
    return render(
        request,
        "jobs_table.html" if part else "jobs.html",
        jobs=rows,
        asked=asked,
        filtered=wanted.any,
        live=any(row.open for row in rows),
        query=urlencode(query),
        older=older,
        states=STATES,
        kernels=kernel_names(),
        targets=list(TARGETS),
        contracts=[contract.value for contract in Contract],
    )


def _place(store: SqlStore, job_id: str) -> tuple[float, str] | None:
    """Where a job stands in the list; ``None`` for one that is not there."""
    found = job_overviews(store, [job_id]) if job_id else []
    return (found[0].job.created_at, found[0].job.id) if found else None
