"""The form that submits a job, made from the kernel's parameters; it shows the space as it goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import ValidationError
from starlette.responses import RedirectResponse, Response

from dashboards.job_view import peak_of
from dashboards.offered import offered_devices
from dashboards.session import Form, form_of, viewing
from dashboards.templating import render
from db import pipelines
from db.sql_store import SqlStore
from service.app import store_of
from service.auth.caller import Caller, Scope
from service.job_requests import submit
from service.problem_details import HttpError, status_of
from service.schemas.jobs import LARGEST_SEED, BudgetBody, SubmitBody
from tuner.errors import HvxtuneError, UserError
from tuner.kernels import PIPELINE_PREFIX, Kernel, find_kernel, kernel_names
from tuner.measure import FARM, QEMU
from tuner.objectives import DEFAULT_OBJECTIVES, OBJECTIVES
from tuner.problem.contract import Contract
from tuner.problem.target import DEFAULT_TARGET, TARGETS
from tuner.records.candidate import CACHE_STATES, CacheState
from tuner.records.trial import DEFAULT_PROMOTIONS, MOST_PROMOTIONS
from tuner.search.samplers import sampler_names
from tuner.tuning import find_problem

router = APIRouter(dependencies=[Depends(viewing(Scope.SUBMIT))])

DEFAULTS: Mapping[str, str] = {
    "target": DEFAULT_TARGET,
    "contract": "static",
    "cache": "warm",
    "trials": "100",
    "seconds": "",
    "patience": "",
    "until_gain": "",
    "measurer": QEMU,
    "on": "",
    "promote_to": "",
    "promote": str(DEFAULT_PROMOTIONS),
    "sampler": "",
    "seed": "0",
    "workers": "",
    "priority": "0",
    "private": "",
}
PARAM = "param_"
GOAL = "goal_"
"""Before the name of a goal that is ticked; cycles need not be."""
MORE_OBJECTIVES = tuple(goal for goal in OBJECTIVES if goal not in DEFAULT_OBJECTIVES)
MOST_TRIALS = 10_000_000
MOST_UPLOADS = 50


class FieldError(UserError):
    """An error of one field of the form."""

    def __init__(self, name: str, message: str, *, accepted: str = "") -> None:
        super().__init__(message, accepted=accepted)
        self.field = name


@dataclass(frozen=True)
class Entered:
    """What stands in the form, as text, whatever it is."""

    kernel: Kernel
    values: Mapping[str, str] = field(hash=False)

    def number(self, name: str, least: int, most: int) -> int | None:
        """The whole number in a field, or ``None`` if it is empty."""
        text = self.values.get(name, "")
        if not text:
            return None
        label = name.removeprefix(PARAM)
        if not re.fullmatch(r"-?\d{1,10}", text):
            raise FieldError(name, f"{label} '{text[:20]}'", accepted="a whole number")
        if not least <= int(text) <= most:
            raise FieldError(name, f"{label} {text}", accepted=f"{least} to {most}")
        return int(text)

    def real(self, name: str) -> float | None:
        """The number in a field, or ``None`` if it is empty."""
        text = self.values.get(name, "")
        try:
            return float(text) if text else None
        except ValueError:
            raise FieldError(name, f"{name} '{text[:20]}'", accepted="a number") from None

    def share(self, name: str) -> float | None:
        """The share that a field gives in percent, or ``None`` if it is empty."""
        percent = self.real(name)
        if percent is not None and not 0 < percent < 100:
            raise FieldError(name, f"{name} {percent:g} %", accepted="above 0 and below 100")
        return None if percent is None else percent / 100

    @property
    def goals(self) -> list[str]:
        """Cycles, and what is ticked beside."""
        return [
            *DEFAULT_OBJECTIVES,
            *(goal for goal in MORE_OBJECTIVES if self.values.get(GOAL + goal)),
        ]

    def params(self) -> dict[str, int]:
        """The kernel's parameters; empty fields mean its defaults."""
        given = {
            param.name: self.number(PARAM + param.name, param.minimum, param.maximum)
            for param in self.kernel.params
        }
        return {name: value for name, value in given.items() if value is not None}


def _entered(values: Mapping[str, Any], store: SqlStore, caller: Caller) -> Entered:
    texts = {k: v.strip() for k, v in values.items() if isinstance(v, str)}
    asked = texts.get("kernel") or kernel_names()[0]
    kernel = find_kernel(pipelines.kernel_of(store, asked, caller.owner))
    params = {PARAM + param.name: str(param.default) for param in kernel.params}
    return Entered(kernel, {**DEFAULTS, **params, **texts})


def field_of(error: HvxtuneError, entered: Entered) -> str:
    """The field an error is about, as far as it can be told; empty if it is not."""
    if isinstance(error, FieldError):
        return error.field
    named = re.match(r"(\w+)=", error.message)
    if named is None:
        return ""
    name = named.group(1)
    return next((n for n in (PARAM + name, name) if n in entered.values), "")


@router.get("/submit")
def show(request: Request, store: Annotated[SqlStore, Depends(store_of)]) -> Response:
    """The form; values in the address are filled in, so that a form can be linked to."""
    caller: Caller = request.state.caller
    return _form(request, store, _entered(request.query_params, store, caller))


@router.get("/submit/space")
def space(request: Request, store: Annotated[SqlStore, Depends(store_of)]) -> Response:
    """What the problem that is entered would be searched over, or what is wrong with it."""
    caller: Caller = request.state.caller
    entered = _entered(request.query_params, store, caller)
    return render(request, "submit_space.html", **_space(entered))


@router.post("/submit")
def send(
    request: Request,
    form: Annotated[Form, Depends(form_of(Scope.SUBMIT))],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """Submits the job, or shows the form with what is wrong."""
    entered = _entered(form.fields, store, form.viewer.caller)
    try:
        taken = submit(
            store,
            form.viewer.caller,
            body_of(entered),
            request,
            default_workers=request.app.state.settings.workers,
        )
    except (UserError, HttpError) as error:
        return _form(request, store, entered, error, status=status_of(error))
    job_id: str = taken.answer["jobs"][0]["job"]
    return RedirectResponse(f"{request.scope['root_path']}/jobs/{job_id}", 303)


def body_of(entered: Entered) -> SubmitBody:
    """What a REST client would send for it; ``UserError`` says which field is wrong."""
    values = entered.values
    try:
        return SubmitBody(
            kernel=entered.kernel.name,
            params=entered.params(),
            workloads=None,
            target=values["target"],
            contract=values["contract"],
            cache=_cache(values["cache"]),
            budget=BudgetBody(
                trials=entered.number("trials", 1, MOST_TRIALS),
                seconds=entered.real("seconds"),
                patience=entered.number("patience", 1, MOST_TRIALS),
                until_gain=entered.share("until_gain"),
            ),
            transfer=True,
            goals=entered.goals,
            sampler=values["sampler"] or None,
            # A tag is one of the farm's: who chooses it means that.
            measurer=FARM if values["on"] else values["measurer"],
            on=values["on"],
            promote_to=values["promote_to"],
            promote=entered.number("promote", 1, MOST_PROMOTIONS) or DEFAULT_PROMOTIONS,
            generator="halide",
            seed=entered.number("seed", 0, LARGEST_SEED) or 0,
            workers=entered.number("workers", 1, 256),
            priority=entered.number("priority", -100, 100) or 0,
            visibility="private" if values["private"] else None,
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][-1]) if first["loc"] else ""
        raise FieldError(name, f"{name}: {first['msg']}") from None


def _cache(name: str) -> CacheState:
    if name not in CACHE_STATES:
        raise FieldError("cache", f"caches '{name[:20]}'", accepted=", ".join(CACHE_STATES))
    return name


def _space(entered: Entered) -> dict[str, Any]:
    values = entered.values
    try:
        problem = find_problem(
            entered.kernel.name, entered.params(), values["target"], values["contract"]
        )
        found = entered.kernel.space(problem)
    except UserError as error:
        return {"error": error, "space": None, "peak": None}
    return {"error": None, "space": found, "peak": peak_of(problem)}


def _uploaded(store: SqlStore, chosen: str, owner: str) -> dict[str, str]:
    """Uploaded pipelines by their names as kernels, with what to call them: the newest, and the one
    that is chosen."""
    found: dict[str, str] = {}
    if chosen.startswith(PIPELINE_PREFIX):
        found[chosen] = pipelines.named(store, chosen, owner).label or chosen
    for upload in pipelines.newest(store, MOST_UPLOADS):
        if upload.kernel not in found or upload.owner == owner:
            found[upload.kernel] = upload.label(owner)
    # Versions of one name are told apart by their digits.
    repeated = [label for label, count in Counter(found.values()).items() if count > 1]
    return {
        kernel: f"{label} ({kernel.removeprefix(PIPELINE_PREFIX)})" if label in repeated else label
        for kernel, label in found.items()
    }


def _form(
    request: Request,
    store: SqlStore,
    entered: Entered,
    error: HvxtuneError | None = None,
    status: int = 200,
) -> Response:
    preview = _space(entered)
    caller: Caller = request.state.caller
    uploaded = _uploaded(store, entered.kernel.name, caller.owner)
    return render(
        request,
        "submit.html",
        status=status,
        entered=entered,
        values=entered.values,
        kernels=[*kernel_names(), *uploaded],
        uploaded=uploaded,
        targets=list(TARGETS),
        contracts=[contract.value for contract in Contract],
        samplers=sampler_names(),
        devices=offered_devices(),
        goals=[(goal, OBJECTIVES[goal]) for goal in MORE_OBJECTIVES],
        chosen_goals=entered.goals,
        caches=CACHE_STATES,
        refused=error,
        wrong=field_of(error, entered) if error else "",
        **preview,
    )
