"""Every page at three widths, light and dark, to be looked at one by one:
``make screenshots EVERY=1`` writes them to ``build/screenshots``.

Beside jobs that the service's state directory holds, it stores what takes long to happen: a running
job, a failed one, one whose best hangs on one assumed cost, networks with a plan.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

from playwright.sync_api import Browser

from db import open_store
from db.sql_store import SqlStore
from tests.dashboards.chromium import Visit
from tests.rig.planned_networks import stored_network, stored_plan
from tests.service.served import Served, environment
from tests.service.stored import store_doubted
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, pending, spec
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState, Submission

WIDTHS = (1400, 1000, 400)
SCHEMES = ("light", "dark")
TALLEST = 7000
REFUSED = "/ui/submit?kernel=gemm_u8&param_m=64&param_n=1&param_k=3&contract=extent"


@dataclass(frozen=True)
class Stored:
    """Addresses of pages about what :func:`stored` put into a service's database."""

    running: str
    failed: str
    doubted: str
    planned: str
    streamed: str
    unplanned: str


def running_job(store: SqlStore) -> str:
    """A job of this process, with trials of every outcome and two in flight."""
    job = store.create_job(spec(trials=200, seconds=None), SPACE, TOOLCHAIN, Submission("ada")).id
    token = store.claim(job)
    chance = Random(7)
    outcomes = [one for one in Outcome if one is not Outcome.OK]
    store.commit(job, token, started=[pending(n) for n in range(42)])
    for n in range(40):
        origin = {0: "default", 1: "textbook"}.get(n, "tpe")
        if n >= 2 and n % 9 == 5:
            bad = failed(n, outcomes[n // 9 % len(outcomes)])
            store.commit(job, token, finished=[bad], spent_s=1.5 * n)
            continue
        made = artifact(n)
        cycles = int(90_000 / (1 + n / 12) * chance.uniform(1, 1.6))
        trial = ok(n, made, cycles, origin=origin)
        store.commit(job, token, finished=[trial], artifacts=[made], spent_s=1.5 * n)
    return job


def failed_job(store: SqlStore) -> str:
    """One without a valid trial."""
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ada")).id
    token = store.claim(job)
    store.commit(job, token, started=[pending(n) for n in range(4)])
    store.commit(job, token, finished=[failed(n) for n in range(4)])
    store.release(job, token, JobState.FAILED, "no trial gave a valid result")
    return job


@contextmanager
def stored(state: Path) -> Iterator[Stored]:
    """Fills the database of ``state``; the running job is this process's as long as this lasts."""
    folder = state / "plans"
    folder.mkdir(exist_ok=True)
    with patch.dict(os.environ, environment(state)), open_store() as store:
        jobs = (running_job(store), failed_job(store), store_doubted(store))
        networks = (
            stored_plan(store, "mobilenet_v2", folder).id,
            stored_plan(store, "transformer_block", folder, "throughput").id,
            stored_network(store, "transformer_block").id,
        )
        yield Stored(
            *(f"/ui/jobs/{job}" for job in jobs), *(f"/ui/networks/{one}" for one in networks)
        )


def pages(own: Stored, shown: dict[str, str]) -> dict[str, str]:
    """Name of a picture to the address of its page; ``shown`` are those of docs/dashboards.md."""
    job, trial = shown["job"], shown["trial"]
    best = trial.replace("/ui/jobs/", "").replace("/trials/", "-")
    return {
        **shown,
        "jobs-none": "/ui/jobs?q=nothing+like+it",
        "job-running": own.running,
        "job-failed": own.failed,
        "job-doubted": own.doubted,
        "trial-failed": f"{own.failed}/trials/0",
        "schedule": f"/ui/schedules/{best}",
        "code": f"/ui/code?own={best}",
        "code-beside": f"/ui/code?own={best}&other={job.rpartition('/')[2]}-0",
        "kernel": "/ui/kernels/gemm_u8",
        "compare-none": "/ui/compare",
        "compare-contracts": "/ui/compare?kind=contracts",
        "network": own.planned,
        "network-stream": own.streamed,
        "network-unplanned": own.unplanned,
        "submit-refused": REFUSED,
        "missing": "/ui/nothing/here",
        "routes": "/docs",
    }


def arrive(visit: Visit, place: str) -> None:
    """Opens a page and waits for the parts that come a moment after it."""
    visit.go(place)
    page = visit.page
    if "/trials/" in place or re.match("/ui/schedules/[^/?]+-", place):
        page.locator("table.listing, #error-title").first.wait_for()
    if "/ui/code" in place:
        page.locator("table.slots, .empty").first.wait_for(state="attached")
    if place.endswith("/analysis"):
        page.locator("#figures section, .empty").first.wait_for()
    if place == "/docs":
        page.locator(".opblock").first.wait_for()


def settle(visit: Visit, place: str) -> None:
    """As :func:`arrive`, and waits until it is drawn."""
    arrive(visit, place)
    visit.page.wait_for_load_state("networkidle")
    visit.page.wait_for_timeout(500)  # charts draw after the load


def take(browser: Browser, service: Served, places: dict[str, str], folder: Path) -> None:
    """A picture of each page for each width and colour scheme."""
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in SCHEMES:
        context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
        visit = Visit.begin(context.new_page(), service.url)
        for width in WIDTHS:
            visit.page.set_viewport_size({"width": width, "height": 900})
            visit.go("/ui/login")
            visit.page.screenshot(path=folder / f"login-{width}-{scheme}.png")
        visit.log_in(service.token)
        for name, place in places.items():
            for width in WIDTHS:
                visit.page.set_viewport_size({"width": width, "height": 900})
                settle(visit, place)
                tall = min(TALLEST, int(visit.page.evaluate("document.body.scrollHeight")))
                visit.page.screenshot(
                    path=folder / f"{name}-{width}-{scheme}.png",
                    clip={"x": 0, "y": 0, "width": width, "height": max(tall, 400)},
                    full_page=True,
                )
        context.close()
