"""Stored jobs and batches, listed, shown, watched, cancelled and paused; and the conductors."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.annotating import print_annotation
from service.cli.batches import find, is_batch, label_of, print_batch, print_state
from service.cli.connecting import connected, place_option
from service.cli.following import finish_batch, finish_job, result_of
from service.cli.options import AsJson, JobOrBatchName, ServerAddress
from service.cli.output import (
    console,
    print_json,
    print_line,
    print_sentence,
    print_table,
    sentence,
    table,
    time_text,
)
from service.cli.summary import count_text, form_label, print_result, told_cycles, worded
from service.cli.watching import Watch, refuse_json, shown_until_stopped
from tuner.records.outcome import Outcome
from tuner.records.request import SearchOptions, options_of, told
from tuner.records.trial import JobRequest

if TYPE_CHECKING:
    from rich.console import RenderableType


def jobs(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 50,
    members: Annotated[
        bool, typer.Option("--members", help="Each job of a network or set in a row of its own.")
    ] = False,
    kernel: Annotated[
        str | None, typer.Option(metavar="KERNEL", help="On this kernel, or upload of this name.")
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="With this tag.")] = None,
    watch: Watch = False,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """List the newest jobs; those of a network or set are one row."""
    asked = {"kernel": kernel, "tag": tag, "grouped": not members or None}
    filters = {name: value for name, value in asked.items() if value is not None}

    with connected(server) as client:

        def newest() -> list[dict[str, Any]]:
            found = islice(client.jobs(**filters), limit)
            return [form if is_batch(form) else worded(form) for form in found]

        def draw() -> RenderableType:
            found = newest()
            none = "no job yet; start one with `hvxtune tune KERNEL`"
            chosen = filters.keys() - {"grouped"}
            return _jobs_table(found) if found else sentence("no such job" if chosen else none)

        if watch:
            refuse_json(as_json)
            shown_until_stopped(draw)
        elif as_json:
            found = newest()
            batches = [form for form in found if is_batch(form)]
            print_json({"jobs": [f for f in found if not is_batch(f)], "batches": batches})
        else:
            console().print(draw())


def _jobs_table(found: list[dict[str, Any]]) -> RenderableType:
    rows = [_as_row(form) if is_batch(form) else form for form in found]
    # User and priority matter where several people submit jobs.
    with_user = any(row["user"] or row["priority"] for row in rows)
    asked = ["user", "priority"] if with_user else []
    of_search = {one.name: one for one in options_of(SearchOptions) if one.listed}
    listed = [name for name in of_search if any(row.get(name) for row in rows)]
    tags = ["tags"] if any(row.get("tags") for row in rows) else []
    return table(
        [
            "job",
            "state",
            *asked,
            "made",
            "trials",
            "ok",
            "best cycles",
            "what",
            *listed,
            *tags,
            "note",
        ],
        [
            [
                row["job"],
                row["state"],
                *(row[name] for name in asked),
                time_text(row["created_at"]),
                sum(row["outcomes"].values()),
                row["outcomes"].get(Outcome.OK.value, 0),
                told_cycles(row, "best_"),
                row.get("what") or form_label(row),
                *(of_search[name].shown(row.get(name)) for name in listed),
                *(" ".join(row.get(name) or ()) for name in tags),
                row.get("waits") or row["note"],
            ]
            for row in rows
        ],
        numeric=["priority", "trials", "ok", "best cycles"],
    )


def _as_row(form: Mapping[str, Any]) -> dict[str, Any]:
    """A batch in the columns of jobs: its best cycles are those of all layers."""
    total = form["total"]
    missing = total["layers_of_set"] - total["layers"]
    return {
        "job": form["batch"],
        "state": form["state"],
        "interrupted": False,
        "paused": False,
        "user": form["user"],
        "priority": form["priority"],
        "created_at": form["created_at"],
        "outcomes": {Outcome.OK.value: form["ok"], "other": form["finished"] - form["ok"]},
        "best_cycles": total["best_cycles"] or None,
        "best_lowest_cycles": total["best_lowest_cycles"],
        "best_highest_cycles": total["best_highest_cycles"],
        "what": label_of(form)
        + (f", {total['speedup']:.2f}x against textbook" if total["speedup"] else ""),
        "note": f"{missing} of {total['layers_of_set']} calls not reached" if missing else "",
    }


def show(job: JobOrBatchName, server: ServerAddress = None, as_json: AsJson = False) -> None:
    """Show JOB: its result and every trial; of a network or set, its layers."""
    with connected(server) as client:
        form = find(client, job)
        if is_batch(form):
            if as_json:
                print_json(form)
            else:
                print_batch(form, place_option(client))
            return
        form = {**result_of(client, form["job"]), "trials": list(client.trials(form["job"]))}
        if as_json:
            print_json(form)
            return
        print_result(form, client)
    settings = [f"{label} {text}" for label, text in told({**form, **form["budget"]})]
    print_sentence(f"searched with: {'; '.join(settings)}")
    print_annotation(form)
    print_line()
    if form["ladder"] is not None:
        print_ladder(form["ladder"])
        print_line()
    _print_trials(form["trials"])


def watch(job: JobOrBatchName, server: ServerAddress = None, as_json: AsJson = False) -> None:
    """Watch JOB, or all jobs of a network or set, until it ends, whoever runs it."""
    with connected(server) as client:
        form = find(client, job)
        if is_batch(form):
            finish_batch(client, form["batch"], as_json=as_json, watch=True)
        else:
            finish_job(client, form["job"], as_json=as_json, watch=True)


def cancel(job: JobOrBatchName, server: ServerAddress = None, as_json: AsJson = False) -> None:
    """End JOB, or all jobs of a network or set; what they found stays."""
    _request(JobRequest.CANCEL, job, server, as_json=as_json)


def pause(job: JobOrBatchName, server: ServerAddress = None, as_json: AsJson = False) -> None:
    """Stop JOB, or all jobs of a batch, until `hvxtune job resume` lets them go on."""
    _request(JobRequest.PAUSE, job, server, as_json=as_json)


_DONE = {JobRequest.CANCEL: "cancelled", JobRequest.PAUSE: "paused"}


def _request(request: JobRequest, job: str, server: str | None, *, as_json: bool) -> None:
    with connected(server) as client:
        form = find(client, job)
        if is_batch(form):
            of_all = {"cancel": client.cancel_network, "pause": client.pause_network}
            form = of_all[request](form["batch"])
        else:
            form = worded({"cancel": client.cancel, "pause": client.pause}[request](form["job"]))
    if as_json:
        print_json(form)
    elif is_batch(form):
        print_state(form, request)
    else:
        asked = "" if form["state"] == _DONE[request] else f", asked to {request}"
        print_line(f"job {form['job']} {form['state']}{asked}")


def _print_trials(trials: list[dict[str, Any]]) -> None:
    print_table(
        ["trial", "outcome", "cycles", "packets", "from", "what"],
        [
            [
                trial["trial"],
                trial["outcome"],
                told_cycles(trial),
                "" if trial["cycles"] is None else count_text(trial["packets"]),
                trial["origin"],
                trial["error"] or " ".join(f"{k}={v}" for k, v in trial["config"].items()),
            ]
            for trial in trials
        ],
        numeric=["trial", "cycles", "packets"],
    )


def print_ladder(ladder: Mapping[str, Any]) -> None:
    """The promotions of a job, in the form of :func:`service.json_forms.ladder_json`."""
    promotions = ladder["promotions"]
    ended = [one for one in promotions if one["outcome"] is not None]
    print_line(f"promoted to {ladder['promote_to']}: {len(ended)} of {ladder['promote']}")
    if not promotions:
        return
    print_sentence(_agreement_text(ladder["agreement"]))
    print_table(
        ["trial", "outcome", "cycles", "searched with", "device", "what"],
        [
            [
                one["trial"],
                one["outcome"] or "under way",
                "" if one["cycles"] is None else f"{one['cycles']:,}",
                f"{one['trial_cycles']:,}",
                one["device"] or "",
                one["error"] or "",
            ]
            for one in sorted(promotions, key=_by_cycles)
        ],
        numeric=["trial", "cycles", "searched with"],
    )


def _by_cycles(one: Mapping[str, Any]) -> tuple[bool, int, int]:
    return one["cycles"] is None, one["cycles"] or 0, one["trial"]


def _agreement_text(found: Mapping[str, Any]) -> str:
    if found["factor"] is None:
        return "no pair of cycles yet"
    parts = [f"{found['factor']:.3g} times the cycles (median of {found['pairs']})"]
    if found["tau"] is not None:
        parts.append(f"Kendall's tau of both orders {found['tau']:.2f}")
    if found["fitted_tau"] is not None:
        parts.append(
            f"of the refit ranking {found['fitted_tau']:.2f}, off by {found['error']:.1%} "
            "(each pair predicted from the others)"
        )
    return ", ".join(parts)


def conductors(watch: Watch = False, server: ServerAddress = None, as_json: AsJson = False) -> None:
    """List conductors and the workers of their clusters, and why some take up nothing."""
    with connected(server) as client:

        def draw() -> RenderableType:
            found = client.conductors()
            start = "start one with `hvxtune serve` or `hvxtune cluster conductor`"
            return _conductors_table(found) if found else sentence(f"no conductor runs; {start}")

        if watch:
            refuse_json(as_json)
            shown_until_stopped(draw)
        elif as_json:
            print_json({"conductors": client.conductors()})
        else:
            console().print(draw())


def _conductors_table(found: list[dict[str, Any]]) -> RenderableType:
    """The conductors, and each cluster's workers below them."""
    clusters = {one["executor"]: one["workers"] for one in found if one["workers"]}
    rows = [
        [
            "conductor",
            f"{one['host']}, process {one['pid']}",
            "fit" if one["fit"] else "unfit",
            " ".join(one["jobs"]),
            "" if one["slots"] is None else one["slots"],
            ", ".join(one["measurers"]),
            one["artifacts"] or "",
            _reasons(one),
        ]
        for one in found
    ]
    rows += [
        [
            f"worker of {executor}",
            one["name"],
            "unfit" if one["lacks"] else "fit",
            "",
            one["slots"],
            ", ".join(one["measurers"]),
            "",
            _reasons(one),
        ]
        for executor, workers in clusters.items()
        for one in workers
    ]
    columns = ["what", "where", "state", "jobs", "slots", "measures with", "artifacts", "why"]
    return table(columns, rows, numeric=["slots"])


def _reasons(one: dict[str, Any]) -> str:
    return "; ".join(f"{lack['part']}: {lack['reason']}" for lack in one["lacks"])
