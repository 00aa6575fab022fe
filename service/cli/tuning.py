"""Running jobs: ``tune`` and ``job resume``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from service.cli.batches import resume_all_here
from service.cli.options import (
    AsJson,
    JobOrBatchName,
    OptionalKernelName,
    ParamTexts,
    ServerAddress,
    kernel_in,
    read_params,
    read_server,
    require_no_service,
    takes_job_options,
)
from service.cli.output import print_json
from service.cli.pipelines import PipelineFile, kept_here, require_one
from service.cli.progress import job_progress, shown
from service.cli.sets import BatchName, SetName, tune_set
from service.cli.signals import stop_on_signal
from service.cli.statuses import Exit
from service.cli.summary import print_result, result_json
from tuner.errors import HvxtuneError, UserError
from tuner.records.batch import Batch
from tuner.records.trial import JobState

if TYPE_CHECKING:
    from db import SqlStore
    from tuner.jobs.job_result import TuneResult


@takes_job_options
def tune(
    kernel: OptionalKernelName = None,
    pipeline: PipelineFile = None,
    workloads: SetName = None,
    batch: BatchName = None,
    param: ParamTexts = None,
    *,
    options: Mapping[str, Any],
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Search for the fastest schedule of KERNEL, the pipeline in FILE, or every layer of SET."""
    if workloads is not None:
        address = read_server(server)
        apart = {"KERNEL": kernel, "--pipeline": pipeline, "--param": param}
        if address is not None:
            apart["--batch"] = batch
        for option, value in apart.items():
            if value is not None:
                raise UserError(
                    f"--set {workloads} with {option} {value}", next_step=f"leave {option} out"
                )
        if address is None:
            tune_set(workloads, batch, options, as_json=as_json)
        else:
            from service.cli.remote import tune_set_there

            tune_set_there(address, workloads, options, as_json=as_json)
        return
    if batch is not None:
        raise UserError(f"--batch {batch} without --set", next_step="name the set, too")
    require_one(kernel, pipeline)
    if "baseline" in options:
        from service.cli.baselines import read_baseline

        at_service = read_server(server) is not None
        baseline = read_baseline(options["baseline"], read_params(param), at_service=at_service)
        options = {**options, "baseline": baseline}
    params = read_params(param)
    address = read_server(server)
    if address is not None:
        from service.cli.remote import tune_there

        tune_there(address, kernel, pipeline, params, options, as_json=as_json)
        return
    require_no_service(options)
    _tune_here(kernel, pipeline, params, options, as_json=as_json)


def _tune_here(
    kernel: str | None,
    pipeline: Path | None,
    params: Mapping[str, int],
    options: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    from db import open_store
    from db.pipelines import named
    from service.auth.tokens import local_viewer
    from tuner.jobs.tuning import submit
    from tuner.records.trial import Submission

    with open_store() as store:
        if kernel is None:
            assert pipeline is not None  # noqa: S101 - one of them was required
            kernel = kept_here(pipeline, store)
        found = named(store, kernel_in(kernel), local_viewer())
        submission = Submission(kernel_label=found.label)
        job = submit(found.kernel, params, store=store, submission=submission, **options)
        _run_and_print(job.id, store, as_json=as_json)


def resume(
    job: JobOrBatchName,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Resume JOB, or all jobs of a network or set, where it was stopped, paused or killed."""
    address = read_server(server)
    if address is not None:
        from service.cli.remote import resume_there

        resume_there(address, job, as_json=as_json)
        return
    from db import open_store

    with open_store() as store:
        found = store.job_or_batch(job)
        if isinstance(found, Batch):
            resume_all_here(store, found, as_json=as_json)
        else:
            _run_and_print(found.id, store, as_json=as_json)


def _run_and_print(job_id: str, store: SqlStore, *, as_json: bool) -> None:
    result = _run(job_id, store)
    form = result_json(result, store.place.name)
    if as_json:
        print_json(form)
    else:
        print_result(form)
    if result.interrupted:
        raise typer.Exit(Exit.INTERRUPTED)
    if result.job.state is not JobState.DONE:
        note = " ".join(result.job.note.split())
        sys.stderr.write(f"error: job {job_id} {result.job.state}: {note}\n")
        raise typer.Exit(Exit.FAILED)


def _run(job_id: str, store: SqlStore) -> TuneResult:
    from tuner.jobs.tuning import run

    job = store.job(job_id)
    kernel = job.submission.kernel_label or job.spec.problem.workload.kernel
    try:
        with stop_on_signal() as stop, shown(kernel) as show:
            return run(job_id, store, on_progress=lambda p: show(job_progress(p)), stop=stop)
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped; continue with: hvxtune job resume {job_id}\n")
        raise
    except UserError:
        raise
    except HvxtuneError as error:  # this machine's fault: the job itself can go on
        error.next_step = f"{error.next_step}; then: hvxtune job resume {job_id}".removeprefix("; ")
        raise
