"""Networks and sets as one job: a row of the list, the table by layer, and what is asked of all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.cli.output import print_command, print_line, print_sentence, print_table
from service.cli.summary import told_cycles
from tuner.errors import UserError
from tuner.records.trial import JobRequest

if TYPE_CHECKING:
    from service.client.blocking import BlockingClient


def is_batch(form: Mapping[str, Any]) -> bool:
    """Whether a form is that of a batch, not of a job."""
    return "job" not in form


def find(client: BlockingClient, given: str) -> dict[str, Any]:
    """The job or the batch that has this id, or the only one whose id begins so; else the newest
    network or set of this name, or of the name of this model's file."""
    from service.client import RefusedError

    if given.endswith((".onnx", ".tflite")):
        given = Path(given).stem
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


def label_of(form: Mapping[str, Any]) -> str:
    """The network or set and its number of jobs, for people."""
    name = f"{form['kind']} {form['name']}, " if form["name"] else ""
    return f"{name}{form['job_count']} jobs"


def print_batch(form: Mapping[str, Any], where: str) -> None:
    """The progress of a batch layer by layer, and what can be run next, commands ending in
    ``where``."""
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
    _print_next(form, where)


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
        f"{told_cycles(total, 'best_')} cycles, textbook {total['textbook_cycles']:,}: "
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
