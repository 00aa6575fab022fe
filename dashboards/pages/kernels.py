"""What can be tuned: built-in kernels, uploads, packages and networks, and how more is brought."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from dashboards.job_view import roofline_for
from dashboards.kept import kept_of
from dashboards.network_view import NetworkView
from dashboards.session import Form, form_of, viewing
from dashboards.templating import digits, moment, render
from db import pipelines
from db.jobs.batches import newest_networks
from db.pipelines import StoredPipeline
from db.schedules.queries import page, stored_kernels
from db.sql_store import SqlStore
from service.app_state import settings_of, store_of
from service.auth.caller import Caller, Scope
from service.auth.gate import Gate
from service.http_errors import HttpError, not_found, status_of
from service.job_requests import submit
from service.schemas.network_layers import layers_sent
from service.schemas.new_network import NewNetworkBody
from service.schemas.pipelines import UploadQuery
from service.sub_path import published
from service.uploads import keep_pipeline, read_model, register_package
from tuner.codegen import space_of
from tuner.errors import HvxtuneError, UserError
from tuner.kernels import PACKAGE_PREFIX, PIPELINE_PREFIX, Kernel, find_kernel, kernel_names
from tuner.packages.files import Package, find, from_archive, kept, read
from tuner.problem.contract import Contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import TARGETS, find_target
from tuner.records.request import DEFAULT_TRIALS_OF_A_WORKLOAD
from tuner.records.roofline import Roofline
from tuner.space import Space
from tuner.uploaded import files as uploaded_files

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

MOST = 100
"""Uploads, packages and networks that are listed."""
LATEST = 20
"""Schedules that the page of one kernel lists."""
_SEPARATOR = " \N{MIDDLE DOT} "

Store = Annotated[SqlStore, Depends(store_of)]


@dataclass(frozen=True)
class Listed:
    """A kernel in a list: its name for people, what it computes, and its version."""

    kernel: str
    name: str
    about: str
    version: str = ""


@router.get("/kernels")
def kernels(request: Request, store: Store) -> Response:
    """All of them, with what is tuned of each."""
    return _list(request, store)


@router.get("/kernels/{name}")
def kernel(request: Request, name: str, store: Store) -> Response:
    """One: its parameters, what was read in it or why it cannot be tuned, and what is stored."""
    caller: Caller = request.state.caller
    named = pipelines.named(store, name, caller.viewer)
    upload, package = None, None
    prefix, colon, number = named.kernel.partition(":")
    if prefix + colon == PIPELINE_PREFIX and (digest := uploaded_files.find(number)):
        upload = pipelines.find(store, digest, caller.owner)
    elif prefix + colon == PACKAGE_PREFIX and (digest := find(number)):
        package = read(digest)
    made, space, roofline, refused = kept_of(request).get(
        ("kernel", named.kernel), lambda: _read(named.kernel)
    )
    if made is None and upload is None and package is None:
        raise not_found(str(refused), next_step="choose one from the list")
    return render(
        request,
        "kernel.html",
        name=named.label or named.kernel,
        kernel=named.kernel,
        made=made,
        space=space,
        refused=refused,
        roofline=roofline,
        upload=upload,
        package=package,
        schedules=page(store, kernel=named.kernel, quarantined=False, limit=LATEST),
        latest=LATEST,
    )


def _read(name: str) -> tuple[Kernel | None, Space | None, Roofline | None, UserError | None]:
    """A kernel with its space and roofline for the default sizes, derived in a contained process;
    or why it cannot be tuned."""
    try:
        made = find_kernel(name)
        problem = made.problem(None, Contract.STATIC, find_target(DEFAULT_TARGET))
        return made, space_of(None, made, problem), roofline_for(problem), None
    except UserError as error:
        return None, None, None, error


@router.post("/kernels/pipeline")
def upload_pipeline(
    request: Request,
    form: Annotated[Form, Depends(form_of(Scope.SUBMIT, files=1))],
    store: Store,
) -> Response:
    """Takes a serialized pipeline, and shows what was read in it."""
    try:
        file, data = form.file("file")
        given = form.text("name") or _plain(file)
        name = UploadQuery(name=given, visibility="shared").name
        private = bool(form.text("private"))
        stored, _ = keep_pipeline(request, store, form.viewer.caller, data, name, private=private)
    except ValidationError:
        accepted = "lower-case letters, digits and _, a letter first"
        return _list(request, store, UserError(f"the name '{given[:80]}'", accepted=accepted))
    except (UserError, HttpError) as error:
        return _list(request, store, error)
    return RedirectResponse(published(request, f"/kernels/{stored.kernel}"), 303)


@router.post("/kernels/package")
async def upload_package(
    request: Request,
    form: Annotated[Form, Depends(form_of(Scope.ADMIN, files=1))],
    store: Store,
) -> Response:
    """Takes the archive of a package's folder, and shows it."""
    try:
        _, data = await run_in_threadpool(form.file, "file")
        found = await register_package(request, store, form.viewer.caller, data, from_archive)
    except (UserError, HttpError) as error:
        return await run_in_threadpool(_list, request, store, error)
    return RedirectResponse(published(request, f"/kernels/{found.kernel}"), 303)


@router.post("/kernels/model")
async def upload_model(
    request: Request,
    form: Annotated[Form, Depends(form_of(Scope.SUBMIT, files=1))],
    store: Store,
) -> Response:
    """Reads a model and shows its layers, from which its network can be tuned. It is not kept."""
    try:
        file, data = await run_in_threadpool(form.file, "file")
        axes = _axes(form.text("axes"))
        found = await read_model(request, store, form.viewer.caller, data, file, axes)
    except (UserError, HttpError) as error:
        return await run_in_threadpool(_list, request, store, error)
    return _model_page(request, found.name, layers_sent(found.layers))


@router.post("/kernels/network")
def tune_network(
    request: Request,
    form: Annotated[Form, Depends(form_of(Scope.SUBMIT))],
    store: Store,
) -> Response:
    """Submits a job for each different workload of the layers that a model's page shows."""
    name, given = form.text("name"), form.text("trials")
    trials = int(given) if re.fullmatch(r"\d{1,6}", given) else None
    try:
        asked = {"name": name, "layers": json.loads(form.text("layers"))}
        budget = {"trials": 1 if trials is None else trials}
        body = NewNetworkBody.model_validate(
            {**asked, "target": form.text("target"), "budget": budget}
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise HttpError(422, f"{place}: {first['msg']}") from None
    except ValueError:
        raise HttpError(422, "the layers are not JSON", next_step="read the model again") from None
    layers = [one.model_dump() for one in body.layers]
    if trials is None:
        wrong = UserError(f"trials '{given[:20]}'", accepted="a whole number")
        return _model_page(request, name, layers, wrong)
    caller = form.viewer.caller
    gate: Gate = request.app.state.gate
    gate.charge(caller, len(body.workloads) - 1)  # the request itself counted as one
    try:
        workers = settings_of(request).workers
        taken = submit(store, caller, body, request, default_workers=workers)
    except (UserError, HttpError) as error:
        return _model_page(request, name, layers, error)
    return RedirectResponse(published(request, f"/networks/{taken.answer['batch']}"), 303)


def _model_page(
    request: Request,
    name: str,
    layers: list[dict[str, Any]],
    error: HvxtuneError | None = None,
) -> Response:
    return render(
        request,
        "model.html",
        status=status_of(error) if error else 200,
        error=error,
        name=name,
        layers=layers,
        fitting=sum(1 for one in layers if one["kernel"] or one["within"]),
        calls=sum(one["calls"] for one in layers if one["kernel"]),
        different=len({(one["kernel"], *one["params"].items()) for one in layers if one["kernel"]}),
        sent=json.dumps(layers, separators=(",", ":")),
        targets=list(TARGETS),
        target=request.query_params.get("target") or DEFAULT_TARGET,
        trials=DEFAULT_TRIALS_OF_A_WORKLOAD,
    )


def _list(request: Request, store: SqlStore, error: HvxtuneError | None = None) -> Response:
    caller: Caller = request.state.caller
    tuned = {one.kernel: one for one in stored_kernels(store)}
    built_in = [find_kernel(name) for name in kernel_names()]
    return render(
        request,
        "kernels.html",
        status=status_of(error) if error else 200,
        error=error,
        tuned=tuned,
        built_in=[Listed(one.name, one.name, one.summary) for one in built_in],
        uploads=[_of_upload(one, caller.owner) for one in pipelines.newest(store, MOST)],
        packages=[_of_package(one) for one in kept()[:MOST]],
        networks=[NetworkView(one) for one in newest_networks(store, MOST)],
        most_bytes=settings_of(request).upload_limit_bytes,
    )


def _of_upload(one: StoredPipeline, owner: str) -> Listed:
    about = one.description
    inputs = ", ".join(each["name"] for each in about["inputs"])
    stages = f"{len(about['stages'])} stage{'' if len(about['stages']) == 1 else 's'}"
    version = (digits(one.kernel), moment(one.created_at)[:16], "private" if one.private else "")
    return Listed(
        one.kernel,
        one.label(owner),
        f"{stages}: {inputs} \N{RIGHTWARDS ARROW} {', '.join(about['outputs'])}",
        _SEPARATOR.join(filter(None, version)),
    )


def _of_package(one: Package) -> Listed:
    about = one.manifest
    version = (digits(one.kernel), f"version {about.version}", about.build.kind)
    return Listed(one.kernel, about.name, about.summary, _SEPARATOR.join(version))


def _plain(file: str) -> str:
    """A name for an upload, of that of its file."""
    return re.sub(r"[^a-z0-9]+", "_", file.partition(".")[0].lower()).strip("_")


def _axes(text: str) -> dict[str, int]:
    """``batch=1 height=224`` as axes; ``UserError`` for anything else."""
    found = {}
    for one in text.split():
        name, _, value = one.rpartition("=")
        if not name or not re.fullmatch(r"\d{1,9}", value):
            raise UserError(f"axis '{one[:80]}'", accepted="NAME=VALUE, such as batch=1")
        found[name] = int(value)
    return found
