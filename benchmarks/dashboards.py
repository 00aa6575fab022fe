"""How long the pages of a job of 20,000 trials take, and how much they transfer.

``python -m benchmarks.dashboards`` (``make bench-dashboards``); about a minute. Times are those of
the service in this process, without a network: ``first`` with nothing kept, then the median, and
the processor time of that, which other work on the machine does not lengthen. Transfers are counted
without compression; a first visit loads every script and style, too.
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

TRIALS = 20_000
RUNS = 5
PAGES = ("", "/analysis", "/analysis/figures", "/live", "/trials?order=number")
LIMITED = PAGES[:2]
"""Those that somebody waits for; the figures of an analysis come after its page."""
LIMIT_S, LIMIT_BYTES = 0.3, 500_000


def fill(store) -> str:
    """A job of gemm_u8 with :data:`TRIALS` trials of made-up cycles; its id."""
    from tuner.identity import digest_of_bytes
    from tuner.records.candidate import Artifact, Measurement
    from tuner.records.outcome import Outcome
    from tuner.records.trial import JobSpec, JobState, PendingTrial, Trial
    from tuner.tuning import find_kernel, find_problem

    rng = random.Random(1)
    problem = find_problem("gemm_u8", None, "hexagon-v66", "static")
    space = find_kernel("gemm_u8").space(problem)
    job = store.create_job(
        JobSpec(problem=problem, generator="halide", trials=TRIALS), space, {"generator": "none"}
    )
    token = store.claim(job.id)
    artifacts = [
        Artifact(digest_of_bytes(bytes([n])), "f", {"object": bytes([n])}) for n in range(8)
    ]
    for start in range(0, TRIALS, 1000):
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
                    artifacts[n % 8].digest if ok else None,
                    error=None if ok else "more than 10 s",
                    started_at=float(n),
                    finished_at=n + 0.9,
                )
            )
        store.commit(job.id, token, finished=finished, artifacts=artifacts, spent_s=float(start))
    store.release(job.id, token, JobState.DONE)
    return job.id


def main() -> int:
    """Prints a table; 1 if a page is over a limit."""
    from starlette.testclient import TestClient

    from db import open_store
    from service.app import create_app
    from service.settings import Settings
    from service.settled_memory import settle_memory
    from tests.service.gates import OpenGate

    with tempfile.TemporaryDirectory() as folder:
        os.environ["HVXTUNE_STATE_DIR"] = folder
        store = open_store()
        job = fill(store)
        browser = TestClient(create_app(store, OpenGate(), Settings()))
        form = browser.get("/ui/login").text
        csrf = re.search(r'name="csrf_token" value="([^"]+)"', form)
        browser.post("/ui/login", data={"csrf_token": csrf.group(1), "token": "x"})
        settle_memory()  # as `hvxtune serve` does
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
        store.close()
    verdict = "over" if over else "kept"
    print(f"limits of the first two: {LIMIT_S:g} s, {LIMIT_BYTES / 1e3:g} kB of page: {verdict}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
