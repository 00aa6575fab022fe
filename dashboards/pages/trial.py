"""One trial, or the schedule it became: what it does, why it is as fast as it is, how to use it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from dashboards.charts.log_plots import HEIGHT, WIDTH, roofline_plot
from dashboards.charts.outcomes import pieces_of
from dashboards.explaining import Explanations
from dashboards.job_view import JobView
from dashboards.pages.job import find_view
from dashboards.session import viewing
from dashboards.templating import render
from dashboards.using import FILES, file_name, file_names, files_of
from db.jobs.trials import find_trial, key_trials
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.caller import Scope
from service.http_errors import not_found
from service.suggested_files import attachment
from tuner.errors import HvxtuneError, UserError
from tuner.jobs.one_config import explain
from tuner.measure.explanation import GROUP_TITLES, GROUPS, ExplainedPacket, Explanation, Region
from tuner.measure.statistics import Summary, summarize
from tuner.records.candidate import Artifact, cycles_unit
from tuner.records.roofline import TITLES
from tuner.records.trial import Trial

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

LISTED_REGIONS = 8
LEAST_SHARE = 0.01
HEAT_STEPS = 6


def _find(store: SqlStore, job_id: str, number: int) -> tuple[JobView, Trial]:
    view = find_view(store, job_id)
    trial = find_trial(store, view.id, number)
    if trial is None:
        raise not_found(
            f"job {view.id} has no finished trial {number}",
            accepted=f"{view.finished} trials have finished",
            next_step="choose one from the job's page",
        )
    return view, trial


@router.get("/jobs/{job_id}/trials/{number}")
def trial(
    request: Request,
    job_id: str,
    number: int,
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The page; slow parts are loaded later."""
    view, found = _find(store, job_id, number)
    marked = key_trials(store, view.id).by_name
    problem = view.job.spec.problem
    cycles = {
        name: each.measurement.cycles
        for name, each in {**marked, "this": found}.items()
        if each.measurement is not None and (name == "this" or each.number != found.number)
    }
    try:
        plot = roofline_plot(problem, cycles, view.job.spec.cache) if cycles else None
    except UserError:
        plot = None
    breakdown = found.measurement.breakdown if found.measurement else {}
    files = files_of(store, found)
    return render(
        request,
        "trial.html",
        view=view,
        trial=found,
        marked=marked,
        knobs=knob_rows(found, marked),
        plot=plot,
        unit=cycles_unit(found.measurement.fidelity) if found.measurement else "",
        plot_size=(WIDTH, HEIGHT),
        breakdown=pieces_of(breakdown, least=0.0),
        noise=noise_of(found),
        names=file_names(view, files),
        loopnest=files.get("loopnest", b"").decode(errors="replace"),
        scheduled="schedule" in files,
        command=reproduce_command(view, found),
        config_json=found.config.json,
    )


def noise_of(trial: Trial) -> Summary | None:
    """The summary of the samples of ``trial``, if it has several."""
    samples = trial.measurement.samples if trial.measurement else ()
    return summarize(samples) if len(samples) > 1 else None


@router.get("/jobs/{job_id}/trials/{number}/explanation")
def explanation(
    request: Request,
    job_id: str,
    number: int,
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """Where the cycles go, packet by packet; the page asks again until it is made."""
    view, found = find_measured(store, job_id, number)
    measured = found.measurement
    key, make = explanation_maker(view, found, lambda: store.artifact(found.artifact_digest or ""))
    kept: Explanations = request.app.state.explanations
    try:
        made = kept.ask(key, make)
    except HvxtuneError as error:
        return render(request, "error_part.html", error=error)
    if made is None:
        return render(request, "explanation_wait.html", view=view, trial=found)
    return render(
        request,
        "explanation.html",
        view=view,
        trial=found,
        made=made,
        same=measured is not None and made.cycles == measured.cycles,
        split=pieces_of({group: made.group(group) for group in GROUPS}, least=0.0),
        titles=GROUP_TITLES,
        resources=TITLES,
        regions=[listing(region, made) for region in _worth_listing(made)],
        symbol=view.job.spec.problem.symbol,
    )


def find_measured(store: SqlStore, job_id: str, number: int) -> tuple[JobView, Trial]:
    """The trial and its job; 404 unless it was measured."""
    view, found = _find(store, job_id, number)
    if found.measurement is None or found.artifact_digest is None:
        raise not_found(
            f"trial {number} of job {view.id} was not measured ({found.outcome.value}), so it has"
            " no cycles to explain",
            next_step="choose a measured trial",
        )
    return view, found


def explanation_maker(
    view: JobView, trial: Trial, artifact: Callable[[], Artifact]
) -> tuple[str, Callable[[], Explanation]]:
    """The key under which the explanation of a measured ``trial`` is kept, and what makes it."""
    spec = view.job.spec
    cache = trial.measurement.cache if trial.measurement else spec.cache

    def make() -> Explanation:
        return explain(spec.problem, artifact(), measurer=spec.measurer, cache=cache)

    return f"{spec.problem.digest} {trial.artifact_digest} {spec.measurer} {cache}", make


@router.get("/jobs/{job_id}/trials/{number}/files/{kind}")
def file(
    job_id: str, number: int, kind: str, store: Annotated[SqlStore, Depends(store_of)]
) -> Response:
    """A file of the artifact, to keep."""
    view, found = _find(store, job_id, number)
    data = files_of(store, found).get(kind) if kind in FILES else None
    if data is None:
        raise not_found(f"trial {number} has no file '{kind}'", accepted=", ".join(FILES))
    name = file_name(view, kind)
    return Response(
        data,
        media_type="application/octet-stream" if kind == "object" else "text/plain",
        headers=attachment(name),
    )


def knob_rows(found: Trial, marked: dict[str, Trial]) -> list[dict[str, Any]]:
    """Every knob with its value here and in the marked trials, and whether it differs there."""
    configs = {name: each.config for name, each in marked.items()}
    knobs = dict.fromkeys([*found.config, *(knob for each in configs.values() for knob in each)])
    return [
        {
            "name": knob,
            "value": found.config.get(knob),
            "others": {
                name: (each.get(knob), each.get(knob) != found.config.get(knob))
                for name, each in configs.items()
            },
        }
        for knob in knobs
    ]


def reproduce_command(view: JobView, found: Trial) -> str:
    """The shell command that measures this config again."""
    spec = view.job.spec
    params = [part for k, v in view.params.items() for part in ("-p", f"{k}={v}")]
    return (
        f"echo {shlex.quote(found.config.json)} > config.json && "
        + shlex.join(["hvxtune", "kernel", "measure", view.kernel, *params])
        + f" \\\n  --target {spec.problem.target.name} --contract {spec.problem.contract.value}"
        + f" --cache {spec.cache} --config config.json --explain"
    )


def _worth_listing(made: Explanation) -> list[Region]:
    return [
        region
        for region in made.regions[:LISTED_REGIONS]
        if region.totals.cycles >= LEAST_SHARE * made.cycles
    ]


def listing(region: Region, made: Explanation) -> dict[str, Any]:
    """A region for the template: its packets with their heat, of 0 to :data:`HEAT_STEPS`."""
    hottest = max(p.cycles for each in made.regions for p in each.packets) or 1
    totals = region.totals
    unit, busy = region.busiest_unit
    return {
        "region": region,
        "cycles": totals.cycles,
        "share": totals.cycles / made.cycles,
        "packets_a_time": totals.packets / region.times if region.times else 0,
        "stalls_a_time": (totals.cycles - totals.issue) / region.times if region.times else 0,
        "unit": unit.removeprefix("vector "),
        "busy": busy,
        "rows": [
            {
                "packet": packet,
                "text": packet.text.removeprefix("{ ").removesuffix(" }"),
                "heat": round(HEAT_STEPS * packet.cycles / hottest),
                "share": packet.cycles / made.cycles,
                "causes": causes(packet),
            }
            for packet in region.packets
        ],
    }


def causes(packet: ExplainedPacket) -> str:
    """``L1 miss 3,570, vector permute 320``, the most expensive first."""
    ranked = sorted(packet.stalls.items(), key=lambda item: -item[1])
    return ", ".join(f"{cause} {cycles:,}" for cause, cycles in ranked if cycles)
