"""Networks and sets as one job: a row of the list, the table by layer, and what is asked of all."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from service.cli.output import print_command, print_json, print_line, print_sentence, print_table
from service.cli.sets import resume_batch
from service.cli.statuses import Exit
from service.json_forms import batch_json, batch_table_json
from tuner.errors import UserError
from tuner.records.trial import JobRequest, JobState

if TYPE_CHECKING:
    from db import SqlStore
    from service.client import Client
    from tuner.records.batch import Batch


def is_batch(form: Mapping[str, Any]) -> bool:
    """Whether a form is that of a batch, not of a job."""
    return "job" not in form


def found_there(client: Client, given: str) -> dict[str, Any]:
    """The job or the batch of a service that has this id, or the only one whose id begins so."""
    from service.client import RefusedError

    missing: RefusedError | None = None
    try:
        form = client.job(given)
        if form["job"] == given:
            return form
    except RefusedError as error:
        if error.status != 404:
            raise
        missing = error
    try:
        batch = client.network(given)
    except RefusedError as error:
        if missing is not None:
            raise missing from None
        if error.status != 404:
            raise
        return form
    if missing is None and form["batch"] != batch["batch"]:
        raise UserError(
            f"'{given}' is the start of several jobs or batches",
            accepted=f"{batch['batch']}, {form['job']}",
            next_step="`hvxtune jobs` lists them",
        )
    return batch


def network_named(name: str, address: str | None) -> dict[str, Any]:
    """The batch with this id, start of one, or name, layer by layer."""
    if address is not None:
        from service.cli.connecting import connected

        with connected(address) as client:
            return client.network(name)
    from db import open_store
    from db.jobs.batches import batch_table, id_of_batch

    with open_store() as store:
        return batch_table_json(batch_table(store, id_of_batch(store, name)))


def label_of(form: Mapping[str, Any]) -> str:
    """The network or set and its number of jobs, for people."""
    name = f"{form['kind']} {form['name']}, " if form["name"] else ""
    return f"{name}{form['job_count']} jobs"


def print_batch(form: Mapping[str, Any], server: str | None = None) -> None:
    """The progress of a batch layer by layer, and what can be run next."""
    print_sentence(f"{label_of(form)}, {', '.join(_targets(form))}")
    print_sentence(
        f"batch {form['batch']} {form['state']}: {form['finished']} trials ({form['ok']} ok); "
        f"jobs: {_states_text(form)}"
    )
    print_line()
    is_network = form["kind"] == "network"
    operator = ["operator"] if is_network else []
    apart = ["apart"] if is_network else []
    figures = ["calls", "textbook", "best", "share", "gain", "left"]
    print_table(
        ["layer", *operator, "kernel", *apart, *figures, "job"],
        [_row(layer, is_network=is_network) for layer in form["layers"]],
        numeric=figures,
    )
    print_line()
    print_sentence(_total_text(form["total"]))
    print_sentence("cycles of all calls; left: what more search could save at most, by estimate")
    _print_next(form, "" if server is None else f" --server {server}")


def _targets(form: Mapping[str, Any]) -> list[str]:
    """The different contracts and targets of its jobs: as a rule one."""
    return list(
        dict.fromkeys(f"contract {job['contract']}, {job['target']}" for job in form["jobs"])
    )


def _row(layer: Mapping[str, Any], *, is_network: bool) -> list[object]:
    kernel = layer["kernel"] or ("host" if layer["on_host"] else "-")
    if layer["within"]:
        kernel = f"in {layer['within']}"
    ran = layer["kernel"] is not None
    return [
        layer["name"],
        *([layer["operator"]] if is_network else []),
        kernel,
        *([apart_text(ran or layer["within"], layer["steps_apart"])] if is_network else []),
        layer["calls"] if ran else "",
        _count(layer["textbook_cycles"], ran),
        _count(layer["best_cycles"], ran),
        "" if layer["share"] is None else f"{layer['share']:.1%}",
        "" if layer["speedup"] is None else f"{layer['speedup']:.2f}x",
        "" if layer["left_cycles"] is None else f"{layer['left_cycles']:,}",
        layer["job"] or "",
    ]


def _count(cycles: int | None, ran: bool) -> str:
    """Cycles, or that no trial has reached the kernel yet."""
    if cycles is None:
        return "not reached" if ran else ""
    return f"{cycles:,}"


def apart_text(fits: bool, steps: int | None) -> str:
    """How far the kernel of a layer is from the network's definition, if one fits its shape."""
    if not fits:
        return ""
    return "other" if steps is None else "same" if not steps else f"{steps} step{'s' * (steps > 1)}"


def _total_text(total: Mapping[str, Any]) -> str:
    """All layers against textbook."""
    if not total["layers"]:
        return f"no layer of {total['layers_of_set']} has both a textbook schedule and a best"
    return (
        f"{total['layers']} of {total['layers_of_set']} calls of kernels: "
        f"{total['best_cycles']:,} cycles, textbook {total['textbook_cycles']:,}: "
        f"{total['speedup']:.2f}x"
    )


def _print_next(form: Mapping[str, Any], where: str) -> None:
    step = form["next"]
    is_open = form["jobs_by_state"].keys() - {"done", "failed", "cancelled", "not reached"}
    if is_open and form["state"] != "running":
        print_command("resume:      ", f"hvxtune job resume {form['batch']}{where}")
    if step is None:
        print_line("next:        the estimate leaves nothing to gain")
        return
    names = step["layers"]
    layers = names[0] + (f" ({len(names)} calls)" if len(names) > 1 else "")
    left = step["left_cycles"]
    could = "has no valid schedule yet"
    if left is not None:
        whole = form["total"]["best_cycles"]
        share = f", {left / whole:.1%} of the total" if whole else ""
        could = f"could save up to {left:,} cycles{share}"
    print_sentence(f"{layers} {could}", "next:        ")
    if is_open:
        print_command("             its trials so far: ", f"hvxtune show {step['job']}{where}")
        return
    params = " ".join(f"-p {name}={value}" for name, value in step["params"].items())
    places = f"--target {step['target']} --contract {step['contract']}"
    print_command("             ", f"hvxtune tune {step['kernel']} {params} {places}{where}")


def print_state(form: Mapping[str, Any], request: JobRequest | None = None) -> None:
    """One line after a request."""
    wanted = {JobRequest.CANCEL: "cancelled", JobRequest.PAUSE: "paused"}
    waits = request in wanted and form["state"] == "running"
    asked = f", asked to {request}" if waits else ""
    print_line(f"batch {form['batch']} {form['state']}{asked}; jobs: {_states_text(form)}")


def _states_text(form: Mapping[str, Any]) -> str:
    """``36 done, 1 running``."""
    return ", ".join(f"{count} {state}" for state, count in form["jobs_by_state"].items())


def request_here(store: SqlStore, batch: Batch, request: JobRequest) -> dict[str, Any]:
    """Cancels or pauses all jobs of a batch."""
    from db.jobs.batches import batch_progress

    if request is JobRequest.PAUSE and batch.shares_budget:
        raise UserError(
            f"batch {batch.id} runs in the command that began it: it cannot be paused from here",
            next_step="stop that command with Ctrl-C; `hvxtune job resume` continues it",
        )
    store.request_of_all(batch.id, request)
    return batch_json(batch_progress(store, batch.id))


def request_there(client: Client, batch: str, request: JobRequest) -> dict[str, Any]:
    """The same at a service, which can resume them, too."""
    ask = {
        JobRequest.CANCEL: client.cancel_network,
        JobRequest.PAUSE: client.pause_network,
        JobRequest.RESUME: client.resume_network,
    }
    return ask[request](batch)


def resume_all_there(client: Client, form: Mapping[str, Any], *, as_json: bool) -> None:
    """Lets all paused jobs of the batch go on, and does not wait for them."""
    states = form["jobs_by_state"]
    if "paused" not in states and states.keys() & {"running", "queued"}:
        raise _runs(form["batch"], form["state"])
    answer = request_there(client, form["batch"], JobRequest.RESUME)
    if as_json:
        print_json(answer)
    else:
        print_state(answer)


def resume_all_here(store: SqlStore, batch: Batch, *, as_json: bool) -> None:
    """Continues all jobs of the batch in this process: by its budget if it has one, else one after
    another."""
    from db.jobs.batches import batch_progress, batch_table
    from tuner.jobs.tuning import run
    from tuner.keeping.store import require_any_open

    jobs = [store.job(member.job) for member in batch.members]
    require_any_open(batch, jobs, JobRequest.RESUME)
    if batch_progress(store, batch.id).state == "running":
        raise _runs(batch.id, "running")
    if batch.shares_budget:
        resume_batch(batch, store, as_json=as_json)
        return
    from service.cli.signals import stop_on_signal

    with stop_on_signal() as stop:
        for job in jobs:
            if not job.state.ended and not stop.is_set():
                run(job.id, store, stop=stop)
    form = batch_table_json(batch_table(store, batch.id))
    if as_json:
        print_json(form)
    else:
        print_batch(form)
    if stop.is_set():
        sys.stderr.write(f"stopped; continue with: hvxtune job resume {batch.id}\n")
        raise typer.Exit(Exit.INTERRUPTED)
    if form["state"] != JobState.DONE:
        sys.stderr.write(f"error: batch {batch.id} {form['state']}\n")
        raise typer.Exit(Exit.FAILED)


def _runs(batch: str, state: str) -> UserError:
    return UserError(
        f"batch {batch} is {state}: nothing of it waits to be resumed",
        accepted="a batch that is paused or interrupted",
        next_step=f"see `hvxtune show {batch}`",
    )
