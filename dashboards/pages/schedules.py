"""Stored schedules: browse, keep a bad one from builds."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import RedirectResponse, Response

from dashboards.job_view import share_of_row
from dashboards.session import EMPTY_MEANS_ALL, Form, form_of, viewing
from dashboards.templating import digits, render
from db.jobs.trials import find_trial
from db.schedules.quarantine import quarantine, release
from db.schedules.queries import StoredSchedule, find, page, stored_kernels
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.audit import record
from service.auth.caller import Scope
from service.http_errors import not_found
from service.sub_path import published
from tuner.problem.contract import Contract
from tuner.problem.target import TARGETS
from tuner.records.candidate import FIDELITIES, Fidelity

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

PAGE = 50


class SchedulesQuery(BaseModel):
    """Filters in the address; empty means all. ``below`` continues a list."""

    q: str = Field("", max_length=200)
    kernel: str = ""
    target: str = ""
    contract: Annotated[Contract | None, EMPTY_MEANS_ALL] = None
    fidelity: Annotated[Fidelity | None, EMPTY_MEANS_ALL] = None
    quarantined: str = ""
    below: int | None = Field(None, ge=0)


@router.get("/schedules")
def schedules(
    request: Request,
    asked: Annotated[SchedulesQuery, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The list, newest first."""
    found = page(
        store,
        kernel=asked.kernel or None,
        target=asked.target or None,
        contract=asked.contract,
        fidelity=asked.fidelity,
        quarantined={"yes": True, "no": False}.get(asked.quarantined),
        text=asked.q,
        below=asked.below,
        limit=PAGE + 1,
    )
    shown = found[:PAGE]
    query = {k: v for k, v in asked.model_dump().items() if v}
    more = urlencode({**query, "below": shown[-1].row.id}) if len(found) > PAGE else ""
    return render(
        request,
        "schedules.html",
        rows=[(each, share_of_row(each.problem, each.cache, each.row)) for each in shown],
        asked=asked,
        filtered=bool(query),
        more=more,
        **_kernels(store, asked.kernel),
        targets=list(TARGETS),
        contracts=[contract.value for contract in Contract],
        fidelities=FIDELITIES,
    )


def _kernels(store: SqlStore, chosen: str) -> dict[str, Any]:
    """Kernels to choose from: all of which schedules are stored, and the one that is chosen.
    Versions of one name are told apart by their digits."""
    found = stored_kernels(store)
    names = [one.name for one in found]
    labels = {
        one.kernel: f"{one.name} ({digits(one.kernel)})" if names.count(one.name) > 1 else one.name
        for one in found
    }
    return {"kernels": list(dict.fromkeys([*labels, *filter(None, [chosen])])), "labels": labels}


@router.get("/schedules/{public_id}")
def schedule(
    request: Request, public_id: str, store: Annotated[SqlStore, Depends(store_of)]
) -> Response:
    """The trial it was found in, if that is here; else what was imported with it."""
    found = _find(store, public_id)
    job, _, number = public_id.removesuffix("p").rpartition("-")
    if number.isdigit() and find_trial(store, job, int(number)) is not None:
        return RedirectResponse(published(request, f"/jobs/{job}/trials/{number}"), 303)
    return render(
        request,
        "schedule.html",
        found=found,
        share=share_of_row(found.problem, found.cache, found.row),
        config=json.loads(found.row.config),
        provenance=json.loads(found.row.provenance),
        toolchain=json.loads(found.row.toolchain),
    )


@router.post("/schedules/{public_id}/{action}")
def act(
    request: Request,
    public_id: str,
    action: str,
    form: Annotated[Form, Depends(form_of(Scope.OPERATE))],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """Keeps a schedule from builds, or lets it be handed out again."""
    _find(store, public_id)
    with store.transaction():
        if action == "quarantine":
            reason = form.text("reason") or "by hand"
            quarantine(store, public_id, reason[:500])
        elif action == "release":
            release(store, public_id)
        else:
            raise not_found(f"nothing called '{action}' can be asked of a schedule")
        record(store, form.viewer.caller, f"schedule.{action}", public_id, request=request)
    return RedirectResponse(published(request, "/schedules"), 303)


def _find(store: SqlStore, public_id: str) -> StoredSchedule:
    found = find(store, public_id)
    if found is None:
        raise not_found(f"no schedule '{public_id[:60]}'", next_step="choose one from the list")
    return found
