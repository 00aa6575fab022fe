"""Forms of the jobs' pages: comments, tags and pins, and saved views of the list."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from dashboards.pages.job import find_view
from dashboards.pages.jobs import list_query
from dashboards.session import Form, form_of, viewing
from db.access import views
from db.sql_store import SqlStore
from service.annotating import annotate, pin
from service.app_state import store_of
from service.auth.audit import record
from service.auth.caller import Scope
from service.sub_path import published

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

Sent = Annotated[Form, Depends(form_of(Scope.READ))]
Store = Annotated[SqlStore, Depends(store_of)]


@router.post("/jobs/{job_id}/annotation")
def annotation(request: Request, job_id: str, form: Sent, store: Store) -> Response:
    """Changes what was changed in the form: meanwhile others may have written, too."""
    view = find_view(store, job_id)
    comment, before = (form.text(name) for name in ("comment", "comment_before"))
    tags, tags_before = (_words(form.text(name)) for name in ("tags", "tags_before"))
    annotate(
        store,
        form.viewer.caller,
        view.job,
        request,
        comment=None if comment == before else comment,
        add_tags=[tag for tag in tags if tag not in tags_before],
        remove_tags=[tag for tag in tags_before if tag not in tags],
    )
    return RedirectResponse(published(request, f"/jobs/{view.id}"), 303)


@router.post("/jobs/{job_id}/pin")
def pinned(request: Request, job_id: str, form: Sent, store: Store) -> Response:
    """Pins the job, or no longer; leads back to the list if that was shown."""
    view = find_view(store, job_id)
    pin(store, form.viewer.caller, view.job, request, pinned=bool(form.text("pinned")))
    if "query" in form.fields:
        return _list(request, form)
    return RedirectResponse(published(request, f"/jobs/{view.id}"), 303)


@router.post("/jobs/views")
def save(request: Request, form: Sent, store: Store) -> Response:
    """Saves the filters of the list under a name, for the viewer alone."""
    with store.transaction():
        views.save_view(store, form.text("name"), list_query(form.text("query")))
        record(store, form.viewer.caller, "view.save", form.text("name"), request=request)
    return _list(request, form)


@router.post("/jobs/views/delete")
def delete(request: Request, form: Sent, store: Store) -> Response:
    """Deletes one of the viewer's views."""
    with store.transaction():
        views.delete_view(store, form.text("name"))
        record(store, form.viewer.caller, "view.delete", form.text("name"), request=request)
    return _list(request, form)


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(text.lower().replace(",", " ").split()))


def _list(request: Request, form: Form) -> Response:
    query = list_query(form.text("query"))
    return RedirectResponse(published(request, f"/jobs?{query}" if query else "/jobs"), 303)
