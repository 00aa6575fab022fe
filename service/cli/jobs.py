"""What was tuned before: ``jobs`` and ``show``."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_line, print_table
from service.cli.summary import job_json, peak_cycles, print_result, result_json, trial_json

if TYPE_CHECKING:
    from tuner.trial import Trial


def jobs(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the newest jobs."""
    from db import open_store

    with closing(open_store()) as store:
        found = store.jobs(limit)
    if as_json:
        print_json({"jobs": [job_json(job) for job in found]})
    elif not found:
        print_line("no job yet; start one with `hvxtune tune KERNEL`")
    else:
        print_table(
            ["job", "state", "made", "spent", "workload", "contract", "target", "note"],
            [
                [
                    job.id,
                    job.state,
                    datetime.fromtimestamp(job.created_at).strftime("%Y-%m-%d %H:%M"),
                    f"{job.spent_s:.0f} s",
                    job.spec.problem.workload.label,
                    job.spec.problem.contract,
                    job.spec.problem.target.name,
                    job.note,
                ]
                for job in found
            ],
            numeric=["spent"],
        )


def show(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id or how it begins.")],
    as_json: AsJson = False,
) -> None:
    """Show JOB: its result and every trial."""
    from db import describe_location, open_store
    from tuner.tuning import result

    with closing(open_store()) as store:
        found = result(job, store)
        trials = store.trials(found.job.id)
    if as_json:
        peak = peak_cycles(found.job.spec.problem)
        rows = [trial_json(trial, peak) for trial in trials]
        print_json({**result_json(found, describe_location()), "trials": rows})
        return
    print_result(found, describe_location())
    print_line()
    _print_trials(trials)


def _print_trials(trials: list[Trial]) -> None:
    print_table(
        ["trial", "outcome", "cycles", "packets", "from", "what"],
        [
            [
                trial.number,
                trial.outcome,
                f"{trial.measurement.cycles:,}" if trial.measurement else "",
                f"{trial.measurement.packets:,}" if trial.measurement else "",
                trial.origin,
                trial.error or " ".join(f"{k}={v}" for k, v in trial.config.items()),
            ]
            for trial in trials
        ],
        numeric=["trial", "cycles", "packets"],
    )
