"""``tune --set``: all workloads of a set in one budget, and the results, layer by layer."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.options import require_no_service
from service.cli.output import print_json, print_line, print_sentence, print_table
from service.cli.signals import stop_on_signal
from service.cli.statuses import Exit
from service.json_forms import peak_cycles, totals_json, trial_json
from tuner.errors import UserError
from tuner.records.request import JobOptions, by_name
from tuner.records.trial import JobState

if TYPE_CHECKING:
    from db import SqlStore
    from tuner.jobs.set_tuning import SetProgress, SetResult
    from tuner.records.batch import Batch, NetworkLayer
    from tuner.records.trial import Trial
    from tuner.workload_sets import Member, WorkloadSet

LINE_INTERVAL_S = 5.0
_DEFAULT_TRIALS_OF_A_WORKLOAD = 10

SetName = Annotated[
    str | None,
    typer.Option(
        "--set",
        metavar="SET",
        help="Tune all layers of a network or another set: its name, or a file NAME.toml.",
        show_default=False,
    ),
]
BatchName = Annotated[
    str | None,
    typer.Option(
        "--batch",
        metavar="BATCH",
        help="With --set: resume a batch that was stopped or killed.",
        show_default=False,
        rich_help_panel="Job",
    ),
]


def tune_set(
    name: str,
    batch: str | None,
    options: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    """Tunes the set called ``name``, or resumes its ``batch``, and prints the result."""
    from tuner.workload_sets import find_set

    refuse_options(f"--set {name}", options)
    begun = time.monotonic()
    tune_workloads(find_set(name), batch, options, begun=begun, as_json=as_json)


def refuse_options(asked: str, options: Mapping[str, Any]) -> None:
    """Raises ``UserError`` for options of a job that the command ``asked`` cannot have."""
    from tuner.jobs import set_tuning

    require_no_service(options)
    for option in set_tuning.NOT_IN_SETS:
        if option in options:
            flag = by_name(JobOptions)[option].flags[0]
            raise UserError(f"{asked} with {flag}", next_step=f"leave {flag} out")


def tune_workloads(
    workloads: WorkloadSet,
    batch: str | None,
    options: Mapping[str, Any],
    *,
    layers: Sequence[NetworkLayer] = (),
    begun: float,
    as_json: bool,
) -> str:
    """Tunes ``workloads``, or resumes their ``batch``, and prints the result; the batch's id.

    ``layers`` are all layers of the network, if they are of one. The time since ``begun``
    (monotonic) is part of the seconds that ``options`` allow.
    """
    from db import open_store
    from tuner.jobs import set_tuning

    of_jobs = dict(options)
    trials, seconds, workers = (of_jobs.pop(o, None) for o in ("trials", "seconds", "workers"))
    if trials is None and seconds is None:
        trials = _DEFAULT_TRIALS_OF_A_WORKLOAD * len(workloads.members)
    limits = {"trials": trials, "seconds": seconds, "workers": workers}
    with open_store() as store:
        if batch is None:
            batch = set_tuning.submit(workloads, store, layers=layers, **limits, **of_jobs)
        else:
            batch = store.batch(batch).id
        if seconds is not None:  # planning is part of them
            limits["seconds"] = max(0.0, seconds - (time.monotonic() - begun))
        _run_and_print(batch, workloads, store, limits, as_json=as_json)
    return batch


def resume_batch(batch: Batch, store: SqlStore, *, as_json: bool) -> None:
    """Continues a batch whose jobs share a budget: trials of the whole, seconds again."""
    from tuner.jobs import set_tuning

    limits = {"trials": batch.trials, "seconds": batch.seconds, "workers": batch.workers}
    workloads = set_tuning.workloads_of(batch, store)
    _run_and_print(batch.id, workloads, store, limits, as_json=as_json)


def _run_and_print(
    batch: str,
    workloads: WorkloadSet,
    store: SqlStore,
    limits: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    from tuner.jobs import set_tuning

    go_on = f"hvxtune job resume {batch}"
    try:
        with stop_on_signal() as stop:
            result = set_tuning.run(
                batch,
                workloads,
                store,
                **limits,
                on_progress=_Lines(workloads.name),
                stop=stop,
            )
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped; continue with: {go_on}\n")
        raise
    form = result_json(workloads.name, result)
    if as_json:
        print_json(form)
    else:
        _print(form)
    if result.interrupted:
        sys.stderr.write(f"stopped; continue with: {go_on}\n")
        raise typer.Exit(Exit.INTERRUPTED)
    if any(one["state"] == JobState.CANCELLED and one["trials"] for one in form["workloads"]):
        sys.stderr.write(f"error: batch {batch} cancelled on request\n")
        raise typer.Exit(Exit.FAILED)
    if not form["total"]["layers"]:
        sys.stderr.write("error: no layer has a valid schedule\n")
        raise typer.Exit(Exit.FAILED)


class _Lines:
    """Progress as lines on standard error, one every few seconds and the first at once."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._next = time.monotonic()

    def __call__(self, progress: SetProgress) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LINE_INTERVAL_S
        sys.stderr.write(
            f"{self._label}: {progress.elapsed_s:.0f} s, {progress.trials} trials, "
            f"{progress.started} of {progress.workloads} workloads have a schedule, "
            f"{progress.best_cycles:,} cycles; now {progress.latest}\n"
        )
        sys.stderr.flush()


def result_json(name: str, result: SetResult) -> dict[str, Any]:
    """The object that ``tune --set --json`` prints."""
    from tuner.jobs.batch_progress import totals_of

    rows = [_row(member, result) for member, result in result.members]
    totals = totals_of(
        (row["occurrences"], _cycles(row["textbook"]), _cycles(row["best"])) for row in rows
    )
    return {
        "set": name,
        "batch": result.batch,
        "interrupted": result.interrupted,
        "workloads": rows,
        "total": totals_json(totals),
    }


def _row(member: Member, result: Any) -> dict[str, Any]:
    peak = peak_cycles(result.job.spec.problem)

    def form(trial: Trial | None) -> dict[str, Any] | None:
        return None if trial is None else trial_json(trial, peak)

    return {
        "layers": list(member.layers),
        "occurrences": member.occurrences,
        "kernel": member.workload.kernel,
        "params": dict(member.workload.params),
        "job": result.job.id,
        "state": result.job.state.value,
        "trials": sum(result.outcomes.values()),
        "textbook": form(result.textbook),
        "best": form(result.best),
    }


def _cycles(trial: Mapping[str, Any] | None) -> int | None:
    return None if trial is None else trial["cycles"]


def _shown(trial: Mapping[str, Any] | None) -> str:
    """Cycles, or why they are missing."""
    if trial is None:
        return "not reached"
    if trial["cycles"] is None:
        return str(trial["outcome"])
    return f"{trial['cycles']:,}"


def _print(form: Mapping[str, Any]) -> None:
    figures = ["times", "trials", "textbook", "best", "speed-up", "HVX peak"]
    print_table(["layer", "kernel", *figures], map(_line, form["workloads"]), numeric=figures)
    total = form["total"]
    print_line()
    if total["layers"]:
        print_sentence(
            f"{form['set']}, {total['layers']} of {total['layers_of_set']} layers: "
            f"{total['best_cycles']:,} cycles, textbook {total['textbook_cycles']:,}: "
            f"{total['speedup']:.2f}x"
        )
    print_sentence(
        "speed-up against textbook; schedules without tuning (default) are not run in a set"
    )
    print_sentence(f"layer by layer, and what to do next: hvxtune show {form['batch']}")


def _line(row: Mapping[str, Any]) -> list[object]:
    best, textbook = _cycles(row["best"]), _cycles(row["textbook"])
    return [
        row["layers"][0],
        row["kernel"],
        row["occurrences"],
        row["trials"],
        _shown(row["textbook"]),
        _shown(row["best"]),
        f"{textbook / best:.2f}x" if best and textbook else "",
        f"{row['best']['share_of_peak']:.1%}" if best else "",
    ]
