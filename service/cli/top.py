"""``job top``: the jobs, devices and conductors at work, live."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from service.cli.connecting import connected
from service.cli.options import AsJson, ServerAddress
from service.cli.output import print_json, sentence, table
from service.cli.summary import form_label, worded
from service.cli.watching import shown_until_stopped

if TYPE_CHECKING:
    from rich.console import RenderableType

    from service.client.blocking import BlockingClient

_STATES = ("running", "queued")
_MOST_JOBS = 50
"""Of each state: a screen has room for fewer."""
_WINDOW_S = 60.0
"""The rate is that of the last minute, once the screen has been up for a sixth of it."""


def top(server: ServerAddress = None, as_json: AsJson = False) -> None:
    """Show the jobs, devices and conductors at work, live, until Ctrl-C (status 0).

    With --json it prints what they are now, once.
    """
    with connected(server) as client:
        if as_json:
            print_json(snapshot(client))
            return
        rates = _Rates()

        def draw() -> RenderableType:
            now = snapshot(client)
            rates.see(now)
            return _screen(now)

        shown_until_stopped(draw)


def snapshot(client: BlockingClient) -> dict[str, Any]:
    """The open jobs, the devices and the conductors. Rates are those of each job over the time it
    has run."""
    listed = [one for state in _STATES for one in islice(client.jobs(state=state), _MOST_JOBS)]
    jobs = [worded(job) for job in listed]
    for job in jobs:
        job["trials_per_minute"] = round(60 * (job["rate_trials_per_s"] or 0.0), 1)
    now = {
        "at": time.time(),
        "place": client.server,
        "jobs": jobs,
        "devices": client.devices(),
        "conductors": client.conductors(),
    }
    return {**now, "trials_per_minute": _total(now)}


def _total(now: Mapping[str, Any]) -> float:
    at_work = (job for job in now["jobs"] if job["state"] == "running")
    return round(sum(float(job["trials_per_minute"]) for job in at_work), 1)


class _Rates:
    """Puts the rate of the last minute in place of the average of jobs that are watched."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def see(self, now: dict[str, Any]) -> None:
        at = now["at"]
        for job in now["jobs"]:
            seen = self._seen.setdefault(job["job"], deque())
            seen.append((at, job["finished"]))
            while seen[0][0] < at - _WINDOW_S:
                seen.popleft()
            since_s = at - seen[0][0]
            if since_s >= _WINDOW_S / 6:
                job["trials_per_minute"] = round(60 * (seen[-1][1] - seen[0][1]) / since_s, 1)
        now["trials_per_minute"] = _total(now)


def _screen(now: Mapping[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    jobs, devices = now["jobs"], now["devices"]
    running = sum(job["state"] == "running" for job in jobs)
    fit = sum(bool(one["fit"]) for one in now["conductors"])
    clock = time.strftime("%H:%M:%S", time.localtime(now["at"]))
    parts: list[RenderableType] = [
        sentence(f"{now['place']} at {clock}"),
        sentence(
            f"{running} running, {len(jobs) - running} queued; "
            f"{now['trials_per_minute']:,.1f} trials a minute; "
            f"{fit} of {len(now['conductors'])} conductors fit"
        ),
    ]
    if jobs:
        parts += [Text(), _jobs(jobs)]
    if devices:
        parts += [Text(), _devices(devices)]
    return Group(*parts)


def _jobs(jobs: list[dict[str, Any]]) -> RenderableType:
    figures = ["trials", "of", "a minute", "best cycles", "to go"]
    return table(
        ["job", "state", *figures, "what", "waits"],
        [
            [
                job["job"],
                job["state"],
                job["finished"],
                job["budget"]["trials"],
                f"{job['trials_per_minute']:,.1f}" if job["state"] == "running" else "",
                "" if job["best_cycles"] is None else f"{job['best_cycles']:,}",
                _time_text(job["eta_s"]),
                form_label(job),
                job["waits"],
            ]
            for job in jobs
        ],
        numeric=figures,
    )


def _time_text(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


_OF_DEVICE = ("name", "kind", "state", "trials_per_minute", "trials", "faults", "reason")


def _devices(devices: list[dict[str, Any]]) -> RenderableType:
    return table(
        ["device", "kind", "state", "a minute", "runs", "faults", "why"],
        [[one[name] for name in _OF_DEVICE] for one in devices],
        numeric=["a minute", "runs", "faults"],
    )
