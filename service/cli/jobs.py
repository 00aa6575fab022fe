"""What was tuned before: ``jobs`` and ``show``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_line, print_table
from service.cli.summary import print_result, problem_label, result_json
from service.json_forms import job_json, peak_cycles, trial_json
from tuner.outcome import Outcome

if TYPE_CHECKING:
    from db import JobSummary
    from tuner.trial import Trial


def jobs(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the newest jobs."""
    from db import open_store

    with open_store() as store:
        found = store.summaries(limit)
    if as_json:
        print_json({"jobs": [_summary_json(summary) for summary in found]})
    elif not found:
        print_line("no job yet; start one with `hvxtune tune KERNEL`")
    else:
        _print_jobs(found)


def _summary_json(summary: JobSummary) -> dict[str, Any]:
    return {
        **job_json(summary.job),
        "interrupted": summary.interrupted,
        "outcomes": {outcome.value: count for outcome, count in summary.outcomes.items()},
        "pending": summary.pending,
        "best_cycles": summary.best_cycles,
    }


def _print_jobs(found: list[JobSummary]) -> None:
    print_table(
        ["job", "state", "made", "trials", "ok", "best cycles", "what", "note"],
        [
            [
                summary.job.id,
                "interrupted" if summary.interrupted else summary.job.state,
                datetime.fromtimestamp(summary.job.created_at).strftime("%Y-%m-%d %H:%M"),
                summary.finished,
                summary.outcomes.get(Outcome.OK, 0),
                "" if summary.best_cycles is None else f"{summary.best_cycles:,}",
                problem_label(summary.job.spec.problem),
                summary.job.note,
            ]
            for summary in found
        ],
        numeric=["trials", "ok", "best cycles"],
    )


def show(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id or how it begins.")],
    as_json: AsJson = False,
) -> None:
    """Show JOB: its result and every trial."""
    from db import open_store
    from tuner.tuning import result

    with open_store() as store:
        found = result(job, store)
        trials = store.trials(found.job.id)
        stored_in = store.place.name
    if as_json:
        peak = peak_cycles(found.job.spec.problem)
        rows = [trial_json(trial, peak) for trial in trials]
        print_json({**result_json(found, stored_in), "trials": rows})
        return
    print_result(found, stored_in)
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
