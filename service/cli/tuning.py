"""Running jobs: ``tune`` and ``resume``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.options import (
    DEFAULT_CONTRACT,
    AsJson,
    CacheName,
    ContractName,
    DeviceTags,
    GeneratorName,
    JobName,
    MeasurerName,
    OptionalKernelName,
    ParamTexts,
    ServerAddress,
    TargetName,
    read_params,
    read_percent,
    read_server,
)
from service.cli.output import print_json
from service.cli.pipelines import PipelineFile, kept_here, require_one
from service.cli.progress import shown, standing_of
from service.cli.sets import BatchName, SetName, tune_set
from service.cli.signals import stop_on_signal
from service.cli.summary import print_result, result_json
from tuner.errors import HvxtuneError, UserError
from tuner.goals import DEFAULT_GOALS, GOALS
from tuner.problem.target import DEFAULT_TARGET
from tuner.records.promotion import DEFAULT_PROMOTIONS, MOST_PROMOTIONS
from tuner.records.trial import JobState
from tuner.search.samplers import DEFAULT_FOR_SEVERAL, DEFAULT_SAMPLER

if TYPE_CHECKING:
    from db import SqlStore
    from service.client.operations import SubmitOptions
    from tuner.job_result import TuneResult

DEFAULT_TRIALS = 100
INTERRUPTED = 130
LARGEST_SEED = 2**32 - 1
"""NumPy's generators, and so Optuna's samplers, take 32 bits."""


def tune(
    kernel: OptionalKernelName = None,
    pipeline: PipelineFile = None,
    workloads: SetName = None,
    batch: BatchName = None,
    param: ParamTexts = None,
    target: TargetName = DEFAULT_TARGET,
    contract: ContractName = DEFAULT_CONTRACT,
    cache: CacheName = "warm",
    trials: Annotated[
        int | None,
        typer.Option(
            help=f"Stop after so many trials ({DEFAULT_TRIALS} if no limit is given).",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after so much time.", show_default=False)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(help="Stop after so many trials without a better one.", show_default=False),
    ] = None,
    until_gain: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help="Stop once more search is likely worth less than so much, as 1%.",
            show_default=False,
        ),
    ] = None,
    transfer: Annotated[
        bool,
        typer.Option(
            "--transfer/--no-transfer", help="Begin with what near problems' jobs found best."
        ),
    ] = True,
    goals: Annotated[
        str,
        typer.Option(
            metavar="GOAL[,GOAL]",
            help=f"What is to be small, of {', '.join(GOALS)}: with several, the Pareto front is "
            "searched for.",
        ),
    ] = ",".join(DEFAULT_GOALS),
    sampler: Annotated[
        str | None,
        typer.Option(
            help="How to search; docs/search.md lists the samplers.",
            show_default=f"{DEFAULT_SAMPLER}, or {DEFAULT_FOR_SEVERAL} for several goals",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="Repeats a search, given one worker.")
    ] = 0,
    workers: Annotated[
        int | None,
        typer.Option(help="Candidates in flight (one per processor).", show_default=False),
    ] = None,
    generator: GeneratorName = "halide",
    measurer: MeasurerName = "qemu",
    on: DeviceTags = "",
    promote_to: Annotated[
        str,
        typer.Option(
            "--promote-to",
            metavar="TAG[,TAG]",
            help="Measure the most promising trials again there, while the search goes on: devices "
            "of a higher fidelity, or a measurer.",
            show_default=False,
        ),
    ] = "",
    promote: Annotated[
        int, typer.Option(min=1, max=MOST_PROMOTIONS, help="How many of them, at most.")
    ] = DEFAULT_PROMOTIONS,
    private: Annotated[
        bool,
        typer.Option("--private", help="At a service: for the owner of the token alone to see."),
    ] = False,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Search for the fastest schedule of KERNEL, the pipeline in FILE, or every layer of SET."""
    from tuner.tuning import submit

    wanted = tuple(goals.replace(" ", "").split(","))
    if workloads is not None:
        _refuse_with_set(
            workloads,
            KERNEL=kernel,
            **{
                "--pipeline": pipeline,
                "--param": param,
                "--patience": patience,
                "--goals": goals if wanted != DEFAULT_GOALS else None,
                "--server": server,
                "--private": private or None,
            },
        )
        tune_set(
            workloads,
            batch,
            {
                "target": target,
                "contract": contract,
                "cache": cache,
                "sampler": sampler or DEFAULT_SAMPLER,
                "seed": seed,
                "generator": generator,
                "measurer": measurer,
                "on": on,
            },
            trials=trials,
            seconds=seconds,
            workers=workers,
            as_json=as_json,
        )
        return
    if batch is not None:
        raise UserError(f"--batch {batch} without --set", next_step="name the set, too")
    require_one(kernel, pipeline)
    gain = read_percent("--until-gain", until_gain)
    if trials is None and seconds is None and patience is None and gain is None:
        trials = DEFAULT_TRIALS
    address = read_server(server)
    if address is not None:
        from service.cli.remote import tune_there

        options: SubmitOptions = {
            "target": target,
            "contract": contract,
            "cache": cache,
            "trials": trials,
            "seconds": seconds,
            "patience": patience,
            "until_gain": gain,
            "transfer": transfer,
            "goals": wanted,
            "sampler": sampler,
            "seed": seed,
            "workers": workers,
            "generator": generator,
            "measurer": measurer,
            "on": on,
            "promote_to": promote_to,
            "promote": promote,
            "visibility": "private" if private else None,
        }
        tune_there(address, kernel, pipeline, read_params(param), options, as_json=as_json)
        return
    from db import open_store
    from db.pipelines import named
    from service.auth.tokens import local_user
    from tuner.records.trial import Submission

    if private:
        raise UserError(
            "--private without a service",
            next_step="give --server: whoever opens this machine's database sees all of it",
        )
    with open_store() as store:
        if kernel is None:
            assert pipeline is not None  # noqa: S101 - one of them was required
            kernel = kept_here(pipeline, store)
        found = named(store, kernel, local_user())
        job = submit(
            found.kernel,
            read_params(param),
            store=store,
            submission=Submission(kernel_label=found.label),
            target=target,
            contract=contract,
            cache=cache,
            trials=trials,
            seconds=seconds,
            patience=patience,
            until_gain=gain,
            transfer=transfer,
            goals=wanted,
            sampler=sampler,
            seed=seed,
            workers=workers,
            generator=generator,
            measurer=measurer,
            on=on,
            promote_to=promote_to,
            promote=promote,
        )
        _run_and_print(job.id, store, as_json=as_json)


def _refuse_with_set(name: str, **others: object) -> None:
    for option, value in others.items():
        if value is not None:
            raise UserError(f"--set {name} with {option} {value}", next_step=f"leave {option} out")


def resume(
    job: JobName,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Go on with JOB where it was stopped, paused or killed."""
    address = read_server(server)
    if address is not None:
        from service.cli.remote import resume_there

        resume_there(address, job, as_json=as_json)
        return
    from db import open_store

    with open_store() as store:
        _run_and_print(store.job(job).id, store, as_json=as_json)


def _run_and_print(job_id: str, store: SqlStore, *, as_json: bool) -> None:
    result = _run(job_id, store)
    form = result_json(result, store.place.name)
    if as_json:
        print_json(form)
    else:
        print_result(form)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
    if result.job.state is not JobState.DONE:
        note = " ".join(result.job.note.split())
        sys.stderr.write(f"error: job {job_id} {result.job.state}: {note}\n")
        raise typer.Exit(1)


def _run(job_id: str, store: SqlStore) -> TuneResult:
    from tuner.tuning import run

    job = store.job(job_id)
    kernel = job.submission.kernel_label or job.spec.problem.workload.kernel
    try:
        with stop_on_signal() as stop, shown(kernel) as show:
            return run(job_id, store, on_progress=lambda p: show(standing_of(p)), stop=stop)
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped; go on with: hvxtune resume {job_id}\n")
        raise
    except UserError:
        raise
    except HvxtuneError as error:  # this machine's fault: the job itself can go on
        error.next_step = f"{error.next_step}; then: hvxtune resume {job_id}".removeprefix("; ")
        raise
