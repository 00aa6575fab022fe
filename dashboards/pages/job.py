"""One job: how it goes, what it found, what failed; and what can be asked of it."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import RedirectResponse, Response

from dashboards.charts.course import course
from dashboards.charts.outcomes import outcome_strip
from dashboards.job_view import JobView
from dashboards.kept import Kept, kept_of
from dashboards.pages.submit import form_like
from dashboards.promoted import promoted_view
from dashboards.session import Form, form_of, viewing
from dashboards.templating import render
from dashboards.using import file_names, files_of, use_of
from db.jobs.queries import job_overviews
from db.jobs.trials import (
    front_trials,
    key_trials,
    promoted_trials,
    ranked_trials,
    trial_points,
)
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.audit import record
from service.auth.caller import Scope
from service.distances import distance_of_best
from service.doubts import doubt_of_ended
from service.http_errors import HttpError, not_found
from service.job_requests import may_steer, require_may_steer
from service.routers.job_trials import all_trials
from service.sub_path import published
from tuner.records.candidate import cycles_unit
from tuner.records.outcome import Outcome
from tuner.records.trial import JobRequest, Trial
from tuner.space import Config
from tuner.space.config import KnobValue

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

PAGE = 25
NOTHING_MEASURED = "No trial of this job was measured."
ACTIONS = {request.value: request for request in JobRequest}


class TrialsAsked(BaseModel):
    """Which trials, in which order, from where."""

    outcome: str = ""
    order: str = "cycles"
    offset: int = Field(0, ge=0, le=10_000_000)

    def outcome_or_all(self) -> Outcome | None:
        """The outcome; 422 for one that does not exist."""
        try:
            return Outcome(self.outcome) if self.outcome else None
        except ValueError:
            raise HttpError(422, f"outcome '{self.outcome}'", accepted=", ".join(Outcome)) from None


class LiveAsked(TrialsAsked):
    """The trials that the page shows, and the version of the job it has ``seen``."""

    seen: str = ""


def find_view(store: SqlStore, job_id: str) -> JobView:
    """The job as pages show it; 404 if there is no such job."""
    found = job_overviews(store, [job_id])
    if not found:
        raise not_found(f"no job '{job_id}'", next_step="choose one from the list of jobs")
    return JobView(found[0])


@router.get("/jobs/{job_id}")
def job(
    request: Request,
    job_id: str,
    asked: Annotated[TrialsAsked, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The whole page."""
    return _page(request, "job.html", store, find_view(store, job_id), asked)


@router.get("/jobs/{job_id}/live")
def live(
    request: Request,
    job_id: str,
    asked: Annotated[LiveAsked, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The parts that change while the job runs, its trials among them; 204 if nothing has since
    ``seen``."""
    view = find_view(store, job_id)
    if asked.seen == view.version:
        return Response(status_code=204)
    return _page(request, "job_live_and_trials.html", store, view, asked)


@router.get("/jobs/{job_id}/trials")
def trials(
    request: Request,
    job_id: str,
    asked: Annotated[TrialsAsked, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The table of trials by itself."""
    view = find_view(store, job_id)
    best = _best(store, view, kept_of(request))
    shown = _trials(store, view, asked, best)
    return render(request, "job_trials.html", view=view, replaces=False, **shown)


@router.get("/jobs/{job_id}/trials.csv")
def download(
    job_id: str,
    asked: Annotated[TrialsAsked, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """All trials with the outcome that the table shows, as REST gives them."""
    return all_trials(store, find_view(store, job_id).job, asked.outcome_or_all())


@router.post("/jobs/{job_id}/{action}")
def act(
    request: Request,
    job_id: str,
    action: str,
    form: Annotated[Form, Depends(form_of(Scope.READ))],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """Cancel, pause or resume: your own jobs with ``submit``, anybody's with ``operate``."""
    if action not in ACTIONS:
        raise not_found(f"nothing called '{action}' can be asked of a job")
    view = find_view(store, job_id)
    require_may_steer(form.viewer.caller, view.job, ACTIONS[action])
    with store.transaction():
        store.request(view.id, ACTIONS[action])
        record(store, form.viewer.caller, f"job.{action}", view.id, request=request)
    return RedirectResponse(published(request, f"/jobs/{view.id}"), 303)


def actions_for(view: JobView) -> list[str]:
    """The actions that make sense for a job in its state."""
    if not view.open:
        return []
    return ["resume", "cancel"] if view.state == "paused" else ["pause", "cancel"]


def _page(
    request: Request, template: str, store: SqlStore, view: JobView, asked: TrialsAsked
) -> Response:
    """``template`` with everything that a job's page shows."""
    kept = kept_of(request)
    spec = view.job.spec
    best = _best(store, view, kept)

    def drawn() -> dict[str, Any]:
        return course(trial_points(store, view.id))

    def files() -> list[tuple[str, str, int]]:
        return file_names(view, files_of(store, best)) if best else []

    return render(
        request,
        template,
        replaces=isinstance(asked, LiveAsked),
        view=view,
        may_act=may_steer(request.state.viewer.caller, view.job),
        actions=actions_for(view),
        again=form_like(view.job),
        promoted=promoted_view(promoted_trials(store, view.id)) if spec.promote_to else None,
        front=front_trials(store, view.job) if len(spec.objectives) > 1 else None,
        chart={**kept.get(("course", view.id, view.version), drawn), **_lines(view)},
        strip=outcome_strip(view.overview.summary.outcomes),
        doubt=None if view.open else doubt_of_ended(store, view.overview.summary),
        distance=None if view.open else distance_of_best(store, view.job, best),
        best=best,
        files=kept.get(("files", view.id, view.version), files),
        use=use_of(request, store, view) if best else None,
        **_trials(store, view, asked, best),
    )


def _best(store: SqlStore, view: JobView, kept: Kept) -> Trial | None:
    """The trial that the job prefers."""
    key = ("best", view.id, view.version)
    return kept.get(key, lambda: key_trials(store, view.id).best)


def _lines(view: JobView) -> dict[str, Any]:
    """Beside the course: the lines to compare with, where trials are, and what is said without
    any."""
    lines = {
        "default": view.overview.default and view.overview.default.cycles,
        "textbook": view.overview.textbook and view.overview.textbook.cycles,
        "roofline": round(view.roofline.cycles) if view.roofline else None,
    }
    empty = "The first measured trial will appear here." if view.open else NOTHING_MEASURED
    return {"lines": lines, "empty": empty}


def _trials(
    store: SqlStore, view: JobView, asked: TrialsAsked, best: Trial | None
) -> dict[str, Any]:
    if asked.order not in ("cycles", "number"):
        raise HttpError(422, f"order '{asked.order}'", accepted="cycles, number")
    outcome = asked.outcome_or_all()
    found = ranked_trials(
        store,
        view.id,
        outcome=outcome,
        by_cycles=asked.order == "cycles",
        offset=asked.offset,
        limit=PAGE,
    )
    outcomes = view.overview.summary.outcomes
    total = view.finished if outcome is None else outcomes.get(outcome, 0)
    config = best.config if best else None
    return {
        "trials": [(trial, differences(trial.config, config)) for trial in found],
        "unit": _unit(best),
        "asked": asked,
        "trials_query": urlencode(asked.model_dump(include=set(TrialsAsked.model_fields))),
        "trials_total": total,
        "page": PAGE,
    }


def _unit(best: Trial | None) -> str:
    return cycles_unit(best.measurement.fidelity) if best and best.measurement else "cycles"


def differences(config: Config, best: Config | None) -> dict[str, KnobValue | None]:
    """The knobs of ``config`` that differ from ``best``; all of them without a best.
    ``None`` for a knob that only ``best`` has."""
    if best is None:
        return dict(config)
    knobs = dict.fromkeys((*config, *best))
    return {knob: config.get(knob) for knob in knobs if config.get(knob) != best.get(knob)}
