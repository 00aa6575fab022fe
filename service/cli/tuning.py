"""Running jobs: ``tune`` and ``job resume``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.batches import find, is_batch
from service.cli.connecting import connected, place_option
from service.cli.following import finish_batch, finish_job
from service.cli.options import (
    AsJson,
    JobOrBatchName,
    OptionalKernelName,
    ParamTexts,
    ServerAddress,
    is_path,
    read_params,
    takes_job_options,
)
from service.cli.pipelines import PipelineFile, read_file, require_one
from service.here import Here
from tuner.errors import UserError
from tuner.records.request import JobOptions, Visibility, by_name

if TYPE_CHECKING:
    from service.client.blocking import BlockingClient

SetName = Annotated[
    str | None,
    typer.Option(
        "--set",
        metavar="SET",
        help="Tune all layers of a network or another set: its name, or a file NAME.toml.",
        show_default=False,
    ),
]


@takes_job_options
def tune(
    kernel: OptionalKernelName = None,
    pipeline: PipelineFile = None,
    workloads: SetName = None,
    param: ParamTexts = None,
    *,
    options: Mapping[str, Any],
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Search for the fastest schedule of KERNEL, the pipeline in FILE, or every layer of SET."""
    if workloads is not None:
        apart = {"KERNEL": kernel, "--pipeline": pipeline, "--param": param}
        for option, value in apart.items():
            if value is not None:
                raise UserError(
                    f"--set {workloads} with {option} {value}", next_step=f"leave {option} out"
                )
        _tune_set(workloads, options, server, as_json=as_json)
        return
    require_one(kernel, pipeline)
    params = read_params(param)
    with connected(server) as client:
        if "baseline" in options:
            from service.cli.baselines import read_baseline

            there = not isinstance(client, Here)
            baseline = read_baseline(options["baseline"], params, at_service=there)
            options = {**options, "baseline": baseline}
        wanted = _kernel(client, kernel, pipeline, params, options)
        (job,) = client.submit(wanted, params, **options)
        tell_submitted(client, [job])
        finish_job(client, job["job"], as_json=as_json)


def _kernel(
    client: BlockingClient,
    kernel: str | None,
    pipeline: Path | None,
    params: Mapping[str, int],
    options: Mapping[str, Any],
) -> str:
    """The kernel to tune, once the service has the pipeline or package that it is in."""
    if pipeline is not None:
        wanted: Visibility = options.get("visibility") or "shared"
        found = client.upload_pipeline(*read_file(pipeline), visibility=wanted)
        overflow = found["overflow"] or ""
        if overflow and not any(f" {name}=" in overflow for name in params):
            sys.stderr.write(f"{pipeline}: {overflow}\n")
        return str(found["kernel"])
    assert kernel is not None  # noqa: S101 - one of them was required
    if not is_path(kernel):
        return kernel
    from tuner.packages.files import read_folder

    return str(client.register_package(read_folder(Path(kernel)).data)["kernel"])


def tell_submitted(client: BlockingClient, jobs: list[dict[str, Any]]) -> None:
    """Says on standard error what a service has taken on; here it begins at once."""
    if isinstance(client, Here):
        return
    target, batch = jobs[0]["target"], jobs[0]["batch"]
    what = f"job {jobs[0]['job']}" if batch is None else f"{len(jobs)} jobs, batch {batch},"
    sys.stderr.write(f"{what} for {target} submitted to {client.server}\n")


def refuse_options(asked: str, options: Mapping[str, Any]) -> None:
    """Raises ``UserError`` for options that the jobs of a network or set cannot have."""
    from tuner.jobs import set_tuning

    for option in set_tuning.NOT_IN_SETS:
        if option in options:
            flag = by_name(JobOptions)[option].flags[0]
            raise UserError(f"{asked} with {flag}", next_step=f"leave {flag} out")


def _tune_set(name: str, options: Mapping[str, Any], server: str | None, *, as_json: bool) -> None:
    from tuner.workload_sets import find_set

    refuse_options(f"--set {name}", options)
    found = find_set(name)
    workloads = [
        {
            "kernel": member.workload.kernel,
            "params": dict(member.workload.params),
            "layers": list(member.layers),
        }
        for member in found.members
    ]
    with connected(server) as client:
        jobs = client.submit(workloads=workloads, name=found.name, **options)
        tell_submitted(client, jobs)
        finish_batch(client, jobs[0]["batch"], as_json=as_json)


def resume(job: JobOrBatchName, server: ServerAddress = None, as_json: AsJson = False) -> None:
    """Resume JOB, or all jobs of a network or set, where it was stopped, paused or killed."""
    with connected(server) as client:
        form = find(client, job)
        if is_batch(form):
            _require_at_rest(client, form)
            if not isinstance(client, Here):
                client.resume_network(form["batch"])
            finish_batch(client, form["batch"], as_json=as_json)
            return
        client.resume(form["job"])
        finish_job(client, form["job"], as_json=as_json)


def _require_at_rest(client: BlockingClient, form: Mapping[str, Any]) -> None:
    at_work = ("running",) if isinstance(client, Here) else ("running", "queued")
    if "paused" not in form["jobs_by_state"] and form["state"] in at_work:
        raise UserError(
            f"batch {form['batch']} is {form['state']}: nothing of it waits to be resumed",
            accepted="a batch that is paused or interrupted",
            next_step=f"see `hvxtune show {form['batch']}{place_option(client)}`",
        )
