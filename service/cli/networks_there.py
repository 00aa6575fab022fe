"""``network tune`` and ``network plan`` at a service, which gets shapes, never weights."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from service.cli.batches import print_batch
from service.cli.output import print_json
from service.cli.sets import LINE_INTERVAL_S
from service.cli.statuses import Exit
from service.client import Client, RefusedError
from service.fetching.sources import ServerSource
from service.schemas.network_layers import layers_sent
from tuner.errors import HvxtuneError, UserError
from tuner.keeping.best import lookup_of
from tuner.records.trial import JobState

if TYPE_CHECKING:
    from tuner.network.layers import Layer
    from tuner.network.planning.costs import BestCycles
    from tuner.records.candidate import Problem
    from tuner.records.network_plan import NetworkPlan

_POLL_S = 2.0
_OPEN = {"running", "interrupted", "queued"}


def tune_network_there(
    client: Client,
    name: str,
    found: Sequence[Layer],
    options: Mapping[str, Any],
    *,
    as_json: bool,
) -> str:
    """Submits the network of these layers, follows its jobs to their ends, and prints the result;
    the id of the batch."""
    jobs = client.submit_network(name, layers_sent(found), **options)
    batch = str(jobs[0]["batch"])
    sys.stderr.write(
        f"{len(jobs)} jobs for {jobs[0]['target']} submitted to {client.server}, batch {batch}; "
        "each has its own budget\n"
    )
    watch_network(client, batch, as_json=as_json)
    return batch


def watch_network(client: Client, batch: str, *, as_json: bool) -> None:
    """Follows the jobs of a network or set to their ends, and prints the result."""
    form = _followed(client, batch)
    if as_json:
        print_json(form)
    else:
        print_batch(form, client.server)
    if form["state"] != JobState.DONE:
        sys.stderr.write(f"error: batch {batch} {form['state']}\n")
        raise typer.Exit(Exit.FAILED)


def _followed(client: Client, batch: str) -> dict[str, Any]:
    """The network or set once none of its jobs runs or waits for a conductor. Ctrl-C leaves it to
    the service."""
    where = f"--server {client.server}"
    tell = _Lines()
    try:
        while True:
            form = client.network(batch)
            if not _OPEN & form["jobs_by_state"].keys():
                return form
            tell(form, _waits(client, form))
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\nbatch {batch} goes on at {client.server}; watch it with: "
            f"hvxtune job watch {batch} {where}; end it with: hvxtune job cancel {batch} {where}\n"
        )
        raise typer.Exit(Exit.INTERRUPTED) from None
    except UserError:
        raise
    except HvxtuneError as error:
        error.next_step = f"it may go on there; look again with: hvxtune job watch {batch} {where}"
        raise


def _waits(client: Client, form: Mapping[str, Any]) -> str:
    """Why nobody works on any of its jobs, if that is so."""
    if "running" in form["jobs_by_state"]:
        return ""
    waiting = (one["job"] for one in form["jobs"] if one["state"] in _OPEN)
    first = next(waiting, None)
    return "" if first is None else str(client.job(first).get("waits") or "")


class _Lines:
    """Progress as lines on standard error, at most one every few seconds."""

    def __init__(self) -> None:
        self._begun = self._next = time.monotonic()
        self._waits = ""

    def __call__(self, form: Mapping[str, Any], waits: str) -> None:
        now = time.monotonic()
        if now < self._next and waits == self._waits:
            return
        self._waits = waits
        self._next = now + LINE_INTERVAL_S
        states = ", ".join(f"{count} {state}" for state, count in form["jobs_by_state"].items())
        sys.stderr.write(
            f"{form['name']}: {now - self._begun:.0f} s, {form['finished']} trials, "
            f"jobs: {states}; {form['total']['best_cycles']:,} cycles"
            + (f"; waits: {waits}\n" if waits else "\n")
        )
        sys.stderr.flush()


def cycles_there(client: Client) -> BestCycles:
    """The cycles of the best schedules that a service has."""
    source = ServerSource(client)

    def cycles_of(problem: Problem) -> float | None:
        try:
            return source.best(lookup_of(problem)).cycles
        except RefusedError as error:
            if error.status != 404:
                raise
            return None

    return cycles_of


def keep_plan_there(
    client: Client, name: str, found: Sequence[Layer], plan: NetworkPlan
) -> str | None:
    """Keeps ``plan`` with the newest network of that name if it has the layers ``found``; its id,
    or ``None`` if there is no such network, or it is another's."""
    kernels = [layer.fit.workload.kernel if layer.fit.workload else None for layer in found]
    try:
        form = client.network(name)
        if form["kind"] != "network" or [one["kernel"] for one in form["layers"]] != kernels:
            return None
        client.give_network_plan(form["batch"], plan.document())
    except RefusedError as error:
        if error.status not in (403, 404):
            raise
        return None
    return str(form["batch"])
