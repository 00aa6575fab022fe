"""Forms of the jobs' pages: comments and tags."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from dashboards.pages.job import find_view
from dashboards.session import Form, form_of, viewing
from db.sql_store import SqlStore
from service.annotating import annotate
from service.app_state import store_of
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


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(text.lower().replace(",", " ").split()))
