"""Two jobs, contracts, targets or toolchains side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from dashboards.comparing import JOBS_MAY_DIFFER, LEAST_SAMPLES, compared, overall
from dashboards.job_view import JobView
from dashboards.session import viewing
from dashboards.templating import ago, render
from db.jobs.queries import JobFilters, job_overviews, jobs_page
from db.schedules.queries import StoredBest, bests, toolchains
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.caller import Scope
from service.doubts import key_trials_of
from service.problem_details import HttpError, not_found
from tuner.problem.contract import Contract
from tuner.problem.target import TARGETS

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

Kind = Literal["jobs", "contracts", "targets", "toolchains"]
MAY_DIFFER: Mapping[Kind, tuple[str, ...]] = {
    "jobs": JOBS_MAY_DIFFER,
    "contracts": ("contract",),
    "targets": ("target",),
    "toolchains": (),
}
"""The parts in which the two sides of each kind may differ."""
CHOICES = 100


class CompareQuery(BaseModel):
    """Two sides to compare: ids of two jobs, names of two contracts or targets, or digests of two
    toolchains."""

    kind: Kind = "jobs"
    own: str = ""
    other: str = ""


@router.get("/compare")
def compare(
    request: Request,
    asked: Annotated[CompareQuery, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The choice, and below it the comparison once both sides are chosen."""
    rows = []
    if asked.own and asked.other:
        own, other = (_side(store, asked.kind, name) for name in (asked.own, asked.other))
        rows = compared(own, other, may_differ=MAY_DIFFER[asked.kind])
    return render(
        request,
        "compare.html",
        asked=asked,
        kinds=list(MAY_DIFFER),
        choices=_choices(store, asked.kind),
        rows=rows,
        least=LEAST_SAMPLES,
        overall=overall([row.ratio for row in rows if row.ratio]),
        both=sum(1 for row in rows if row.ratio),
    )


def _choices(store: SqlStore, kind: Kind) -> list[tuple[str, str]]:
    """Value and label of what can be chosen."""
    if kind == "targets":
        return [(name, name) for name in TARGETS]
    if kind == "contracts":
        return [(name.value, name.value) for name in Contract]
    if kind == "toolchains":
        return [
            (each.digest, f"{each.digest[:10]}, used {ago(each.last_used_at)}")
            for each in toolchains(store)
        ]
    views = [JobView(one) for one in jobs_page(store, JobFilters(), None, CHOICES)]
    return [(view.id, _label(view)) for view in views if view.best]


def _label(view: JobView) -> str:
    """Enough of a job to choose it by."""
    problem = view.job.spec.problem
    sizes = "\N{MULTIPLICATION SIGN}".join(str(value) for value in view.params.values())
    parts = (problem.contract.value, problem.target.name, f"{view.best:,} cycles", view.id)
    return " \N{MIDDLE DOT} ".join((f"{view.name} {sizes}", *parts))


def _side(store: SqlStore, kind: Kind, name: str) -> list[StoredBest]:
    if kind == "targets":
        return bests(store, target=name)
    if kind == "contracts":
        if name not in tuple(Contract):
            raise HttpError(422, f"contract '{name[:40]}'", accepted=", ".join(Contract))
        return bests(store, contract=Contract(name))
    if kind == "toolchains":
        return bests(store, toolchain=name)
    found = job_overviews(store, [name])
    if not found:
        raise not_found(f"no job '{name[:40]}'", next_step="choose one from the list")
    best = key_trials_of(store, found[0].summary).best
    if best is None or best.measurement is None:
        return []
    problem = found[0].summary.job.spec.problem
    return [
        StoredBest(
            problem.workload.kernel,
            problem.workload.params,
            problem.contract.value,
            problem.target.name,
            best.measurement.fidelity,
            best.measurement.cache,
            best.measurement.cycles,
            best.measurement.net_samples,
            f"{name}-{best.number}",
            found[0].summary.job.submission.kernel_label,
        )
    ]
