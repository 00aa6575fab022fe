"""How a build gets what a job found: its files, and the lines to copy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from fastapi import Request

from dashboards.job_view import JobView
from db.audience import Viewer
from db.pipelines import named
from db.sql_store import SqlStore
from service.labels import told_params
from service.suggested_files import identifier
from tuner.errors import UserError
from tuner.kernels import PACKAGE_PREFIX, PIPELINE_PREFIX
from tuner.records.trial import Trial

FILES = {"object": "o", "header": "h", "schedule": "schedule.h", "loopnest": "loopnest.txt",
         "assembly": "s"}  # fmt: skip


def files_of(store: SqlStore, trial: Trial) -> dict[str, bytes]:
    """The files of the artifact of ``trial``; none without one."""
    return dict(store.artifact(trial.artifact_digest).files) if trial.artifact_digest else {}


def file_name(view: JobView, kind: str) -> str:
    """What a file of ``kind`` of a trial of the job is called where it is saved."""
    return f"{identifier(view.job.spec.problem, view.job.submission.kernel_label)}.{FILES[kind]}"


def file_names(view: JobView, files: dict[str, bytes]) -> list[tuple[str, str, int]]:
    """Kind, name and size of each file there is to keep."""
    return [(kind, file_name(view, kind), len(files[kind])) for kind in FILES if kind in files]


@dataclass(frozen=True)
class Use:
    """Lines that take the best schedule of a problem: into this folder, or pinned by a build with
    CMake."""

    command: str
    cmake: str


def use_of(request: Request, store: SqlStore, view: JobView) -> Use:
    """The lines for the problem of a job. They name target and contract even where these are the
    defaults, which are those of the machine that they are copied to."""
    problem = view.job.spec.problem
    viewer = request.state.viewer.caller.viewer
    kernel = typed_name(store, view.kernel, view.job.submission.kernel_label, viewer)
    params = told_params(view.kernel, view.params)
    server = str(request.base_url).removesuffix("/").removesuffix("/ui")
    asked = ["hvxtune", "best", kernel, *(part for param in params for part in ("-p", param))]
    places = ["--target", problem.target.name, "--contract", problem.contract.value]
    cache = view.job.spec.cache
    if cache != "warm":
        places += ["--cache", cache]
    rests_on_costs = view.best is not None and view.best.lowest_cycles is not None
    fastest = view.job.spec.prefer == "fastest" and rests_on_costs
    if fastest:
        places += ["--prefer", "fastest"]
    name = identifier(problem, view.job.submission.kernel_label)
    files = ["--object", f"{name}.o", "--header", f"{name}.h"]
    lines = [asked, places, ["--server", server], files]
    of_params = f" PARAMS {' '.join(params)}" if params else ""
    cmake = (
        f"hvxtune_schedule(TARGET {name} KERNEL {kernel}{of_params}\n"
        f"                 TARGET_ARCH {problem.target.name} CONTRACT {problem.contract.value}"
        f"{f' CACHE {cache}' if cache != 'warm' else ''}{' PREFER fastest' if fastest else ''}\n"
        f"                 SERVER {server})"
    )
    return Use(" \\\n  ".join(map(shlex.join, lines)), cmake)


def typed_name(store: SqlStore, kernel: str, label: str, viewer: Viewer) -> str:
    """``pipeline:unsharp`` in place of digits, if ``viewer`` means this kernel by it."""
    for prefix in (PIPELINE_PREFIX, PACKAGE_PREFIX):
        if label and kernel.startswith(prefix):
            try:
                means = named(store, f"{prefix}{label}", viewer).kernel
            except UserError:
                return kernel
            return f"{prefix}{label}" if means == kernel else kernel
    return kernel
