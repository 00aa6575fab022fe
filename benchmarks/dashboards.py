"""How long the pages of a job of 20,000 trials take, how much they transfer, and how fast they
answer the hand.

``python -m benchmarks.dashboards`` (``make bench-dashboards``); about two minutes. Times are those
of the service in this process, without a network: ``first`` with nothing kept, then the median, and
the processor time of that, which other work on the machine does not lengthen. Transfers are counted
without compression; a first visit loads every script and style, too. What follows an input is timed
in Chromium, if there is one (:mod:`benchmarks.interactions`).
"""

from __future__ import annotations

import math
import os
import random
import re
import statistics
import sys
import tempfile
import time
from dataclasses import replace

TRIALS = 20_000
RUNS = 5
PAGES = ("", "/analysis", "/analysis/figures", "/live", "/trials?order=number")
LIMITED = PAGES[:2]
"""Those that somebody waits for; the figures of an analysis come after its page."""
LIMIT_S, LIMIT_BYTES = 0.3, 500_000


def fill(store) -> str:
    """A job of gemm_u8 with :data:`TRIALS` trials; its id. The first two are the default and the
    textbook schedule; the others have their objects, so that there is code to show, and made-up
    cycles."""
    from tuner.jobs.one_config import measure
    from tuner.jobs.tuning import find_kernel, find_problem
    from tuner.records.candidate import Measurement
    from tuner.records.outcome import Outcome
    from tuner.records.trial import JobSpec, JobState, PendingTrial, Trial

    rng = random.Random(1)
    problem = find_problem("gemm_u8", None, "hexagon-v66", "static")
    kernel = find_kernel("gemm_u8")
    space = kernel.space(problem)
    job = store.create_job(
        JobSpec(problem=problem, generator="halide", trials=TRIALS), space, {"generator": "none"}
    )
    token = store.claim(job.id)
    artifacts = []
    starts = {
        "default": kernel.default_config(problem),
        "textbook": kernel.textbook_config(problem),
    }
    for n, (name, config) in enumerate(starts.items()):
        trial, made = measure(problem, config, generator="halide")
        artifacts.append(made)
        took = replace(trial, number=n, origin=name, started_at=float(n), finished_at=n + 0.9)
        store.commit(job.id, token, started=[PendingTrial(n, trial.config, name)])
        store.commit(job.id, token, finished=[took], artifacts=[made], spent_s=0.0)
    for start in range(2, TRIALS, 1000):
        numbers = range(start, min(start + 1000, TRIALS))
        configs = {n: space.sample(rng) for n in numbers}
        store.commit(job.id, token, started=[PendingTrial(n, configs[n], "tpe") for n in numbers])
        finished = []
        for n in numbers:
            cycles = int(
                80_000 + 400_000 * math.exp(-n / 900) * rng.random() + 9_000 * rng.random()
            )
            measured = Measurement(cycles, cycles, 0, True, "model", "made up", (cycles,), {}, 4000)
            ok = rng.random() > 0.05
            finished.append(
                Trial(
                    n,
                    configs[n],
                    "tpe",
                    Outcome.OK if ok else Outcome.TIMEOUT,
                    measured if ok else None,
                    artifacts[n % 2].digest if ok else None,
                    error=None if ok else "more than 10 s",
                    started_at=float(n),
                    finished_at=n + 0.9,
                )
            )
        store.commit(job.id, token, finished=finished, spent_s=float(start))
    store.release(job.id, token, JobState.DONE)
    return job.id


def main() -> int:
    """Prints two tables; 1 if something is over a limit."""
    from starlette.testclient import TestClient

    from benchmarks.interactions import bench
    from dashboards.templating import compile_templates
    from db import open_store
    from service.app import create_app
    from service.settings import Settings
    from service.settled_memory import settle_memory
    from tests.dashboards.chromium import lacking
    from tests.service.gates import OpenGate

    with tempfile.TemporaryDirectory() as folder:
        os.environ["HVXTUNE_STATE_DIR"] = folder
        store = open_store()
        job = fill(store)
        browser = TestClient(create_app(store, OpenGate(), Settings()))
        form = browser.get("/ui/login").text
        csrf = re.search(r'name="csrf_token" value="([^"]+)"', form)
        browser.post("/ui/login", data={"csrf_token": csrf.group(1), "token": "x"})
        settle_memory()  # as `hvxtune serve` does, and the next when it listens
        compile_templates()
        print(f"a job of {TRIALS:,} trials{'':16}  first    median  processor    page  first visit")
        over = False
        for page in PAGES:
            place = f"/ui/jobs/{job}{page}"
            times, busy = [], []
            for _ in range(1 + RUNS):
                began, worked = time.perf_counter(), time.process_time()
                answer = browser.get(place)
                times.append(time.perf_counter() - began)
                busy.append(time.process_time() - worked)
            assets = set(re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', answer.text))
            size = len(answer.content)
            total = size + sum(len(browser.get(asset).content) for asset in assets)
            median, processor = statistics.median(times[1:]), statistics.median(busy[1:])
            name = "/ui/jobs/JOB" + page
            print(
                f"{name:32} {times[0]:7.3f} s {median:7.3f} s {processor:8.3f} s"
                f" {size / 1e3:5.0f} kB {total / 1e6:9.2f} MB"
            )
            over |= page in LIMITED and (max(times[0], median) > LIMIT_S or size > LIMIT_BYTES)
        verdict = "over" if over else "kept"
        print(
            f"limits of the first two: {LIMIT_S:g} s, {LIMIT_BYTES / 1e3:g} kB of page: {verdict}"
        )
        if lacking():
            print(f"nothing is timed in a browser: {lacking()}")
        else:
            over |= not bench(store, job)
        store.close()
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
