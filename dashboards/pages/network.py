"""One network or set: its totals, its layers, what to do next, and what can be asked of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from dashboards.network_view import Drawings, NetworkView
from dashboards.session import Form, form_of, viewing
from dashboards.templating import render
from db.jobs.batches import batch_table, plan_of
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.caller import Scope
from service.http_errors import not_found
from service.job_requests import may_steer, request_of_all
from service.sub_path import published
from tuner.errors import UserError
from tuner.jobs.batch_progress import BatchTable
from tuner.jobs.plan_totals import plan_totals
from tuner.records.network_plan import NetworkPlan
from tuner.records.trial import JobRequest

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

ACTIONS = {request.value: request for request in JobRequest}


def find_table(store: SqlStore, network: str) -> BatchTable:
    """The network or set with this id; 404 without one."""
    try:
        return batch_table(store, network if network.isascii() and network.isalnum() else "")
    except UserError:
        raise not_found(
            f"no network or set '{network[:40]}'", next_step="choose one from the list of jobs"
        ) from None


def _shown(
    request: Request, template: str, table: BatchTable, plan: NetworkPlan | None, **more: Any
) -> Response:
    view = NetworkView(table.progress)
    may_act = may_steer(request.state.viewer.caller, view.batch)
    totals = plan_totals(table, plan) if plan is not None else []
    more |= {"view": view, "table": table, "may_act": may_act, "plan": plan}
    return render(request, template, plan_totals=totals, **more)


@router.get("/networks/{network}")
def network(
    request: Request, network: str, store: Annotated[SqlStore, Depends(store_of)]
) -> Response:
    """The whole page."""
    table = find_table(store, network)
    plan = plan_of(store, table.progress.batch.id)
    drawings = Drawings(table.progress.batch.layers, plan)
    return _shown(request, "network.html", table, plan, drawings=drawings)


@router.get("/networks/{network}/live")
def live(
    request: Request, network: str, store: Annotated[SqlStore, Depends(store_of)], seen: str = ""
) -> Response:
    """The part that changes while jobs run; 204 if nothing has since ``seen``."""
    table = find_table(store, network)
    if seen == table.progress.version:
        return Response(status_code=204)
    return _shown(request, "network_live.html", table, plan_of(store, table.progress.batch.id))


@router.post("/networks/{network}/{action}")
def act(
    request: Request,
    network: str,
    action: str,
    form: Annotated[Form, Depends(form_of(Scope.READ))],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """Cancel, pause or resume all jobs: your own with ``submit``, anybody's with ``operate``."""
    if action not in ACTIONS:
        raise not_found(f"nothing called '{action}' can be asked of a network")
    batch = find_table(store, network).progress.batch
    request_of_all(store, form.viewer.caller, batch, ACTIONS[action], request)
    return RedirectResponse(published(request, f"/networks/{batch.id}"), 303)
