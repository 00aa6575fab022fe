"""What the trials of a job say together. The only page that loads Plotly."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from dashboards.analysing import LEAST_TRIALS, knob_facts, lanes, plots
from dashboards.pages.job import find_view
from dashboards.session import viewing
from dashboards.templating import render
from db.jobs.trial_rows import AnalysedTrial, analysed_trials
from db.sql_store import SqlStore
from service.app import store_of
from service.auth.caller import Scope

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

MOST_TRIALS = 20_000
NOISE_ROWS = 20


@router.get("/jobs/{job_id}/analysis")
def analysis(
    request: Request, job_id: str, store: Annotated[SqlStore, Depends(store_of)]
) -> Response:
    """The page."""
    view = find_view(store, job_id)
    trials = analysed_trials(store, view.id, MOST_TRIALS)
    finished = [trial for trial in trials if trial.outcome is not None]
    space = store.space(view.id)
    facts = knob_facts(space, finished)
    return render(
        request,
        "analysis.html",
        view=view,
        facts=facts,
        measured=sum(1 for trial in finished if trial.cycles is not None),
        least=LEAST_TRIALS,
        failures=any(value.failed for each in facts for value in each.values),
        distinct=len({tuple(sorted(trial.config.items())) for trial in finished}),
        finished=len(finished),
        noise=noise(finished),
        plots={
            **plots(space, finished, facts, view.job.spec.goals),
            "lanes": lanes(trials, time.time()),
        },
    )


def noise(trials: list[AnalysedTrial]) -> list[dict[str, object]]:
    """The fastest trials that were measured more than once: each sample relative to their
    median, from -1 to 1 for the widest of them."""
    repeated = sorted(
        (trial for trial in trials if len(trial.samples) > 1), key=lambda trial: trial.cycles or 0
    )[:NOISE_ROWS]
    rows = []
    for trial in repeated:
        middle = sorted(trial.samples)[len(trial.samples) // 2]
        offsets = [sample / middle - 1 for sample in trial.samples]
        rows.append({"trial": trial.number, "offsets": offsets, "middle": middle})
    widest = max((abs(o) for row in rows for o in row["offsets"]), default=0.0) or 1.0  # type: ignore[attr-defined]
    return [
        {**row, "places": [100 + 95 * o / widest for o in row["offsets"]], "widest": widest}  # type: ignore[attr-defined]
        for row in rows
    ]
