"""One job: how it goes, what it found, what failed; and what can be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import RedirectResponse, Response

from dashboards.charts.outcomes import outcome_strip
from dashboards.job_view import JobView
from dashboards.promoted import promoted_view
from dashboards.session import Form, form_of, viewing
from dashboards.templating import render
from db.jobs.queries import job_overviews
from db.jobs.trials import (
    TrialPoint,
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
from service.doubts import doubt_of_ended
from service.job_requests import may_steer, require_may_steer
from service.problem_details import HttpError, not_found
from service.sub_path import published
from tuner.records.outcome import Outcome
from tuner.records.trial import JobRequest
from tuner.space import Config
from tuner.space.config import KnobValue

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

PAGE = 25
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
    view = find_view(store, job_id)
    return render(
        request,
        "job.html",
        view=view,
        may_act=may_steer(request.state.viewer.caller, view.job),
        actions=actions_for(view),
        **_live(store, view),
        **_trials(store, view, asked),
    )


@router.get("/jobs/{job_id}/live")
def live(
    request: Request, job_id: str, store: Annotated[SqlStore, Depends(store_of)], seen: str = ""
) -> Response:
    """The part that changes while the job runs; 204 if nothing has since ``seen``."""
    view = find_view(store, job_id)
    if seen == view.version:
        return Response(status_code=204)
    return render(
        request,
        "job_live.html",
        view=view,
        may_act=may_steer(request.state.viewer.caller, view.job),
        actions=actions_for(view),
        **_live(store, view),
    )


@router.get("/jobs/{job_id}/trials")
def trials(
    request: Request,
    job_id: str,
    asked: Annotated[TrialsAsked, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The table of trials by itself."""
    view = find_view(store, job_id)
    return render(request, "job_trials.html", view=view, **_trials(store, view, asked))


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


def _live(store: SqlStore, view: JobView) -> dict[str, Any]:
    points = trial_points(store, view.id)
    spec = view.job.spec
    return {
        "promoted": promoted_view(promoted_trials(store, view.id)) if spec.promote_to else None,
        "front": front_trials(store, view.job) if len(spec.objectives) > 1 else None,
        "chart": chart_data(view, points),
        "strip": outcome_strip(view.overview.summary.outcomes),
        "doubt": None if view.open else doubt_of_ended(store, view.overview.summary),
    }


def chart_data(view: JobView, points: list[TrialPoint]) -> dict[str, Any]:
    """The chart of the course: points and the lines to compare with."""
    lines = {
        "default": view.overview.default_cycles,
        "textbook": view.overview.textbook_cycles,
        "peak": round(view.peak) if view.peak else None,
    }
    return {**course(points), "lines": lines}


def _trials(store: SqlStore, view: JobView, asked: TrialsAsked) -> dict[str, Any]:
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
    fastest = key_trials(store, view.id).best
    best = None if fastest is None else fastest.config
    return {
        "trials": [(trial, differences(trial.config, best)) for trial in found],
        "asked": asked,
        "trials_total": total,
        "page": PAGE,
    }


def differences(config: Config, best: Config | None) -> dict[str, KnobValue | None]:
    """The knobs of ``config`` that differ from ``best``; all of them without a best.
    ``None`` for a knob that only ``best`` has."""
    if best is None:
        return dict(config)
    knobs = dict.fromkeys((*config, *best))
    return {knob: config.get(knob) for knob in knobs if config.get(knob) != best.get(knob)}


STRETCHES = 240


def course(points: Sequence[TrialPoint], stretches: int = STRETCHES) -> dict[str, Any]:
    """The course of a job as few points: what a chart of a few hundred pixels can show.

    A job of ten thousand trials would send ten thousand points every two seconds; the eye sees the
    envelope. Every improvement is kept exactly, and of each stretch of trials its fastest and
    slowest.

    Columns ``order`` (trials finished so far), ``trial`` (its number), ``seconds`` (worked so
    far), ``cycles`` and ``best`` (so far), and ``total``, how many measured trials they stand for.
    In the order of finishing."""
    seconds = worked_seconds(points)
    measured = [
        (order, p.number, s, p.cycles)
        for order, (p, s) in enumerate(zip(points, seconds, strict=True), 1)
        if p.cycles is not None
    ]
    best: list[int] = []
    for *_, cycles in measured:
        best.append(min(cycles, best[-1]) if best else cycles)
    kept = _kept([cycles for *_, cycles in measured], best, stretches)
    return {
        "total": len(measured),
        "finished": len(points),
        "order": [measured[i][0] for i in kept],
        "trial": [measured[i][1] for i in kept],
        "seconds": [round(measured[i][2], 2) for i in kept],
        "cycles": [measured[i][3] for i in kept],
        "best": [best[i] for i in kept],
    }


def _kept(cycles: Sequence[int], best: Sequence[int], stretches: int) -> list[int]:
    count = len(cycles)
    if count <= 2 * stretches:
        return list(range(count))
    kept = {0, count - 1}
    kept.update(i for i in range(1, count) if best[i] < best[i - 1])
    for stretch in range(stretches):
        inside = range(stretch * count // stretches, (stretch + 1) * count // stretches)
        kept.add(min(inside, key=lambda i: cycles[i]))
        kept.add(max(inside, key=lambda i: cycles[i]))
    return sorted(kept)


LONG_BREAK_S = 120.0


def worked_seconds(points: Sequence[TrialPoint]) -> list[float]:
    """For each trial the wall seconds worked when it finished, without breaks: times in which
    no trial ran, such as between two sessions of a job, take no room on the axis."""
    if not points:
        return []
    passed = 0.0
    last = min(point.started_at for point in points)
    seconds = []
    for point in points:
        step = point.finished_at - last
        if step > LONG_BREAK_S and point.started_at > last:
            step = point.finished_at - point.started_at
        passed += max(0.0, step)
        last = max(last, point.finished_at)
        seconds.append(passed)
    return seconds
