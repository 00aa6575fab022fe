"""Two jobs, contracts, targets or toolchains side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from dashboards.charts.course import course
from dashboards.charts.curves import HEIGHT, WIDTH, Curves, curves
from dashboards.comparing import JOBS_MAY_DIFFER, LEAST_SAMPLES, LEAST_WORKLOADS, compared, overall
from dashboards.job_view import JobView
from dashboards.pages.job import find_view
from dashboards.session import viewing
from dashboards.templating import ago, cycles, moment, render, shape
from db.jobs.queries import JobFilters, jobs_page
from db.jobs.trials import key_trials, trial_points
from db.schedules.queries import StoredBest, bests, toolchains
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.caller import Scope
from service.http_errors import HttpError
from tuner.problem.contract import Contract
from tuner.problem.target import TARGETS
from tuner.records.trial import Trial
from tuner.space.config import KnobValue

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
V = TypeVar("V")


class CompareQuery(BaseModel):
    """Two sides to compare: ids of two jobs, names of two contracts or targets, or digests of two
    toolchains."""

    kind: Kind = "jobs"
    own: str = ""
    other: str = ""


@dataclass(frozen=True)
class JobSide:
    """A job that is compared, and its best trial."""

    view: JobView
    best: Trial | None

    @property
    def facts(self) -> dict[str, str]:
        """What tells it apart, and what it was asked for."""
        spec = self.view.job.spec
        return {
            "submitted": moment(self.view.job.created_at),
            "contract": spec.problem.contract.value,
            "target": spec.problem.target.name,
            **{label.lower(): text for label, text in self.view.settings},
        }


@dataclass(frozen=True)
class JobPair:
    """Two jobs side by side: their facts and knobs, as rows of a name and both values."""

    own: JobSide
    other: JobSide
    curves: Curves | None

    @property
    def facts(self) -> list[tuple[str, str | None, str | None]]:
        """Rows of all that either says of itself."""
        return _rows(self.own.facts, self.other.facts)

    @property
    def knobs(self) -> list[tuple[str, KnobValue | None, KnobValue | None]]:
        """Rows of the configs of both bests, those that differ first."""
        sides = [one.best.config if one.best else {} for one in (self.own, self.other)]
        return sorted(_rows(*sides), key=lambda row: row[1] == row[2])


def _rows(own: Mapping[str, V], other: Mapping[str, V]) -> list[tuple[str, V | None, V | None]]:
    names = dict.fromkeys([*own, *other])
    return [(name, own.get(name), other.get(name)) for name in names]


@router.get("/compare")
def compare(
    request: Request,
    asked: Annotated[CompareQuery, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The choice, and below it the comparison once both sides are chosen. For one job alone the
    newest other of its workload is chosen."""
    mine = find_view(store, asked.own) if asked.kind == "jobs" and asked.own else None
    choices = _choices(store, asked.kind, mine)
    if mine and not asked.other:
        alike = next(iter(choices.get(ALIKE, ())), None)
        asked = asked.model_copy(update={"other": alike[0] if alike else ""})
    rows, pair = [], None
    if asked.own and asked.other:
        if mine:
            pair = _pair(store, mine, find_view(store, asked.other))
            own, other = (_best_of(one) for one in (pair.own, pair.other))
        else:
            own, other = (_side(store, asked.kind, name) for name in (asked.own, asked.other))
        rows = compared(own, other, may_differ=MAY_DIFFER[asked.kind])
    return render(
        request,
        "compare.html",
        asked=asked,
        kinds=list(MAY_DIFFER),
        choices=choices,
        rows=rows,
        pair=pair,
        curve_size=(WIDTH, HEIGHT),
        least=LEAST_SAMPLES,
        least_workloads=LEAST_WORKLOADS,
        overall=overall([row.ratio for row in rows if row.ratio]),
        both=sum(1 for row in rows if row.ratio),
    )


ALIKE = "the same workload"
Choices = Mapping[str, Sequence[tuple[str, str]]]


def _choices(store: SqlStore, kind: Kind, mine: JobView | None) -> Choices:
    """Groups of what can be chosen, as value and label; ``mine`` is the job on the first side."""
    if kind == "targets":
        return {"": [(name, name) for name in TARGETS]}
    if kind == "contracts":
        return {"": [(name.value, name.value) for name in Contract]}
    if kind == "toolchains":
        used = [
            (each.digest, f"{each.digest[:10]}, used {ago(each.last_used_at)}")
            for each in toolchains(store)
        ]
        return {"": used}
    newest = _measured(store)
    if mine is None:
        return {"": [(view.id, _label(view)) for view in newest]}
    problem = mine.job.spec.problem
    of_kernel = _measured(store, mine.kernel)
    alike = [view for view in of_kernel if view.params == mine.params and view.id != mine.id]
    # Those of one target and contract first: they differ in their search alone.
    alike.sort(key=lambda view: view.job.spec.problem != problem)
    shown = {view.id for view in (mine, *alike)}
    others = [view for view in newest if view.id not in shown]
    groups = {"this": [mine], ALIKE: alike, "other workloads": others}
    return {name: [(view.id, _label(view)) for view in views] for name, views in groups.items()}


def _measured(store: SqlStore, kernel: str | None = None) -> list[JobView]:
    """The newest jobs that have a best."""
    filters = JobFilters(kernel=kernel, measured=True)
    return list(map(JobView, jobs_page(store, filters, None, CHOICES)))


def _label(view: JobView) -> str:
    """Enough of a job to choose it by; what tells two of a workload apart first."""
    problem = view.job.spec.problem
    best = f"{cycles(view.best)} cycles" if view.best else "nothing measured"
    made = moment(view.job.created_at)[:16]
    what = f"{view.name} {shape(dict(view.params))}"
    parts = (view.id, best, what, problem.contract.value, problem.target.name, made)
    return " \N{MIDDLE DOT} ".join(parts)


def _pair(store: SqlStore, own: JobView, other: JobView) -> JobPair:
    views = {"own": own, "other": other}
    sides = {name: JobSide(view, key_trials(store, view.id).best) for name, view in views.items()}
    drawn = curves({name: course(trial_points(store, view.id)) for name, view in views.items()})
    return JobPair(**sides, curves=drawn)


def _side(store: SqlStore, kind: Kind, name: str) -> list[StoredBest]:
    if kind == "targets":
        return bests(store, target=name)
    if kind == "contracts":
        if name not in tuple(Contract):
            raise HttpError(422, f"contract '{name[:40]}'", accepted=", ".join(Contract))
        return bests(store, contract=Contract(name))
    return bests(store, toolchain=name)


def _best_of(side: JobSide) -> list[StoredBest]:
    best, job = side.best, side.view.job
    if best is None or best.measurement is None:
        return []
    problem = job.spec.problem
    return [
        StoredBest(
            kernel=problem.workload.kernel,
            params=problem.workload.params,
            contract=problem.contract.value,
            target=problem.target.name,
            fidelity=best.measurement.fidelity,
            cache=best.measurement.cache,
            cycles=best.measurement.cycles,
            expected_cycles=best.measurement.ranked_cycles("robust"),
            prefer=job.spec.prefer,
            lowest_cycles=best.measurement.lowest_cycles,
            highest_cycles=best.measurement.highest_cycles,
            samples=best.measurement.net_samples,
            public_id=f"{job.id}-{best.number}",
            label=job.submission.kernel_label,
        )
    ]
