"""The form that submits a job, made from the kernel's parameters; it shows the space as it goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from pydantic import ValidationError
from starlette.responses import RedirectResponse, Response

from dashboards.job_view import roofline_for
from dashboards.offered import offered_devices
from dashboards.session import Form, form_of, viewing
from dashboards.templating import render
from db import pipelines
from db.audience import Viewer
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.caller import Caller, Scope
from service.http_errors import HttpError, status_of
from service.job_requests import submit
from service.schemas.jobs import SubmitBody
from tuner.codegen import space_of
from tuner.errors import HvxtuneError, UserError
from tuner.jobs.choices import choices_of, help_of
from tuner.jobs.tuning import find_problem
from tuner.kernels import PACKAGE_PREFIX, PIPELINE_PREFIX, Kernel, kernel_names
from tuner.kernels.kernel import Param
from tuner.measure import FARM
from tuner.packages.files import kept
from tuner.problem.objectives import OBJECTIVES
from tuner.records.request import (
    DEFAULT_TRIALS,
    GROUPS,
    JobOptions,
    Option,
    by_name,
    options_of,
    search_options,
)
from tuner.records.trial import Job
from tuner.workload_sets import WorkloadSet, find_set, set_names

router = APIRouter(dependencies=[Depends(viewing(Scope.SUBMIT))])

OPTIONS = options_of(JobOptions)
MEASURER = by_name(JobOptions)["measurer"]
PARAM = "param_"
SET = "set:"
"""Before the name of a set of workloads, where a kernel's could be chosen."""
MOST_UPLOADS = 50
YES, NO = "yes", "no"
BASELINE_FILE = "baseline_file"
BASELINES = ("default", "textbook")
"""Those that have a name; others come as a file."""


def _text_of(option: Option) -> str:
    """The default of ``option``, as its field shows it."""
    if option.kind == "bool":
        return YES if option.default else NO
    return "" if option.default is None or option.kind == "names" else str(option.default)


DEFAULTS: Mapping[str, str] = {
    **{option.name: _text_of(option) for option in OPTIONS},
    "trials": str(DEFAULT_TRIALS),
}


def ticks(option: Option) -> list[str]:
    """The choices besides the default of ``option``, which takes several names."""
    return [name for name in choices_of(option) if name not in option.default]


class FieldError(UserError):
    """An error of one field of the form."""

    def __init__(self, name: str, message: str, *, accepted: str = "") -> None:
        super().__init__(message, accepted=accepted)
        self.field = name


@dataclass(frozen=True)
class Entered:
    """The values of the form, as text, right or wrong: for a kernel, or for a set of workloads."""

    values: Mapping[str, str] = field(hash=False)
    what: Kernel | WorkloadSet

    @property
    def chosen(self) -> str:
        """The name of the kernel or the set in the list."""
        return f"{SET}{self.what.name}" if isinstance(self.what, WorkloadSet) else self.what.name

    @property
    def parameters(self) -> Sequence[Param]:
        """Of the kernel; a set has none."""
        return () if isinstance(self.what, WorkloadSet) else self.what.params

    def ticked(self, option: Option) -> list[str]:
        """The default of ``option``, and the choices ticked in addition."""
        more = [n for n in ticks(option) if self.values.get(f"{option.name}_{n}")]
        return [*option.default, *more]

    def options(self) -> dict[str, Any]:
        """The options of the job; ``UserError`` names the field that is wrong."""
        given: dict[str, Any] = {}
        for option in OPTIONS:
            text = self.values.get(option.name, "")
            if option.kind == "names":
                given[option.name] = self.ticked(option)
            elif option.kind == "bool":
                given[option.name] = text == YES
            elif text:
                given[option.name] = option.checked(option.read(text))
        if given.get("on"):  # only the farm has tags: choosing one selects the farm
            given["measurer"] = FARM
        return given

    @property
    def more(self) -> bool:
        """Whether an option is set that most jobs leave alone."""
        return any(
            len(self.ticked(one)) > len(one.default)
            if one.kind == "names"
            else self.values.get(one.name, "") != DEFAULTS[one.name]
            for one in OPTIONS
            if not one.first
        )

    def params(self) -> dict[str, int]:
        """The kernel's parameters; empty fields mean its defaults."""
        given = {}
        for param in self.parameters:
            text = self.values.get(PARAM + param.name, "")
            if not text:
                continue
            if not re.fullmatch(r"-?\d{1,10}", text):
                name = PARAM + param.name
                raise FieldError(name, f"{param.name} '{text[:20]}'", accepted="a whole number")
            given[param.name] = int(text)
            if not param.minimum <= given[param.name] <= param.maximum:
                accepted = f"{param.minimum} to {param.maximum}"
                raise FieldError(PARAM + param.name, f"{param.name} {text}", accepted=accepted)
        return given


def _entered(values: Mapping[str, Any], store: SqlStore, caller: Caller) -> Entered:
    texts = {k: v.strip() for k, v in values.items() if isinstance(v, str)}
    asked = texts.get("kernel") or kernel_names()[0]
    if asked.startswith(SET) and (name := asked.removeprefix(SET)) in set_names():
        return Entered({**DEFAULTS, **texts}, find_set(name))
    kernel = pipelines.kernel_for(store, asked, caller.viewer)
    params = {PARAM + param.name: str(param.default) for param in kernel.params}
    return Entered({**DEFAULTS, **params, **texts}, kernel)


def form_like(job: Job) -> str:
    """The query of the form that asks for a job like ``job``."""
    problem = job.spec.problem
    texts = {
        "kernel": problem.workload.kernel,
        **{PARAM + name: str(value) for name, value in problem.workload.params.items()},
        "target": problem.target.name,
        "contract": problem.contract.value,
        "priority": str(job.submission.priority),
    }
    options = by_name(JobOptions)
    for name, value in search_options(job.spec).items():
        option = options[name]
        if option.kind == "names":
            texts |= {f"{name}_{one}": "on" for one in value if one not in option.default}
        elif option.kind == "bool":
            texts[name] = YES if value else NO
        elif value is None or (value == 0 and (option.least or 0) > 0):  # not asked for
            texts[name] = ""
        else:
            texts[name] = f"{100 * value:g}" if option.kind == "share" else str(value)
    return urlencode(texts)


def field_of(error: HvxtuneError, entered: Entered) -> str:
    """The field an error is about; empty if the error names none."""
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
    """The space of the problem that is entered, or what is wrong with it."""
    caller: Caller = request.state.caller
    entered = _entered(request.query_params, store, caller)
    return render(request, "submit_space.html", **_space(entered))


@router.post("/submit")
def send(
    request: Request,
    form: Annotated[Form, Depends(form_of(Scope.SUBMIT, files=1))],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """Submits the job, or shows the form with what is wrong. A file in place of a baseline is its
    content: nothing that is sent here is run as Python, and objects are measured where they are."""
    values = dict(form.fields)
    if form.has_file(BASELINE_FILE):
        values["baseline"] = form.file(BASELINE_FILE)[1].decode(errors="replace")
    entered = _entered(values, store, form.viewer.caller)
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
    root = request.scope["root_path"]
    batch, jobs = taken.answer["batch"], taken.answer["jobs"]
    where = f"{root}/jobs/{jobs[0]['job']}" if batch is None else f"{root}/networks/{batch}"
    return RedirectResponse(where, 303)


def body_of(entered: Entered) -> SubmitBody:
    """The body that a REST client would send; ``UserError`` says which field is wrong."""
    if isinstance(entered.what, WorkloadSet):
        workloads = [
            {
                "kernel": member.workload.kernel,
                "params": dict(member.workload.params),
                "layers": list(member.layers),
            }
            for member in entered.what.members
        ]
        what: dict[str, Any] = {"workloads": workloads, "name": entered.what.name}
    else:
        what = {"kernel": entered.what.name, "params": entered.params()}
    try:
        return SubmitBody.of(entered.options(), **what)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][-1]) if first["loc"] else ""
        raise FieldError(name, f"{name}: {first['msg']}") from None


def _space(entered: Entered) -> dict[str, Any]:
    values = entered.values
    nothing: dict[str, Any] = {"error": None, "space": None, "roofline": None}
    if isinstance(entered.what, WorkloadSet):
        return {**nothing, "workloads": entered.what.members}
    try:
        problem = find_problem(
            entered.what.name, entered.params(), values["target"], values["contract"]
        )
        found = space_of(values["generator"], entered.what, problem)
    except UserError as error:
        return {**nothing, "error": error}
    return {"error": None, "space": found, "roofline": roofline_for(problem)}


def _choices() -> dict[str, list[str]]:
    """The choices of each option that has some."""
    devices = offered_devices()
    return {
        **{option.name: choices_of(option) for option in OPTIONS if option.choices},
        "measurer": [n for n in choices_of(MEASURER) if n != FARM or devices.tags],
        "on": list(devices.tags),
        "promote_to": list(devices.higher),
    }


def _uploaded(store: SqlStore, chosen: str, viewer: Viewer) -> dict[str, str]:
    """Packages and uploaded pipelines by their names as kernels, with what to call them: the
    newest, and the one that is chosen."""
    found: dict[str, str] = {}
    if chosen.startswith((PIPELINE_PREFIX, PACKAGE_PREFIX)):
        found[chosen] = pipelines.named(store, chosen, viewer).label or chosen
    for package in kept():
        found.setdefault(package.kernel, package.manifest.name)
    for upload in pipelines.newest(store, MOST_UPLOADS):
        if upload.kernel not in found or upload.owner == viewer.tenant:
            found[upload.kernel] = upload.label(viewer.tenant)
    # Versions of one name are told apart by their digits.
    repeated = [label for label, count in Counter(found.values()).items() if count > 1]
    return {
        kernel: f"{label} ({kernel.partition(':')[2]})" if label in repeated else label
        for kernel, label in found.items()
    }


def _form(
    request: Request,
    store: SqlStore,
    entered: Entered,
    error: HvxtuneError | None = None,
    status: int = 200,
) -> Response:
    caller: Caller = request.state.caller
    uploaded = _uploaded(store, entered.chosen, caller.viewer)
    sets = {f"{SET}{name}": f"all layers of {name}" for name in set_names()}
    wrong = field_of(error, entered) if error else ""
    return render(
        request,
        "submit.html",
        status=status,
        entered=entered,
        values=entered.values,
        kernels=list(dict.fromkeys([*kernel_names(), *uploaded, *sets, entered.chosen])),
        labels={**uploaded, **sets},
        first=[one for one in OPTIONS if one.first],
        groups={g: [one for one in OPTIONS if one.group == g and not one.first] for g in GROUPS},
        more=entered.more or wrong in {one.name for one in OPTIONS if not one.first},
        choices=_choices(),
        baselines=list(dict.fromkeys(["", *BASELINES, entered.values["baseline"]])),
        ticks=ticks,
        objectives=OBJECTIVES,
        help_of=help_of,
        refused=error,
        wrong=wrong,
        **_space(entered),
    )
