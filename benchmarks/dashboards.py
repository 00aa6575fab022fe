"""How long the pages of a job of 10,000 trials take, and how much they transfer.

``python -m benchmarks.dashboards`` (``make bench-dashboards``); about half a minute. Times are
those of the service in this process, without a network; transfers are counted without
compression, with every script and style a first visit loads.
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

TRIALS = 10_000
RUNS = 5
PAGES = ("", "/live", "/trials?order=number", "/analysis")
LIMIT_S, LIMIT_BYTES = 1.0, 2_000_000


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
    """Prints a table; 1 if the job's page is over a limit."""
    from starlette.testclient import TestClient

    from db import open_store
    from service.app import create_app
    from service.settings import Settings
    from tests.service.gates import OpenGate

    with tempfile.TemporaryDirectory() as folder:
        os.environ["HVXTUNE_STATE_DIR"] = folder
        store = open_store()
        job = fill(store)
        browser = TestClient(create_app(store, OpenGate(), Settings()))
        form = browser.get("/ui/login").text
        csrf = re.search(r'name="csrf_token" value="([^"]+)"', form)
        browser.post("/ui/login", data={"csrf_token": csrf.group(1), "token": "x"})
        print(f"a job of {TRIALS:,} trials{'':16} median    page   first visit")
        over = False
        for page in PAGES:
            place = f"/ui/jobs/{job}{page}"
            browser.get(place)
            times = []
            for _ in range(RUNS):
                began = time.perf_counter()
                answer = browser.get(place)
                times.append(time.perf_counter() - began)
            assets = set(re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', answer.text))
            size = len(answer.content)
            total = size + sum(len(browser.get(asset).content) for asset in assets)
            median = statistics.median(times)
            name = "/ui/jobs/JOB" + page
            print(f"{name:36} {median:8.3f} s {size / 1e3:6.0f} kB {total / 1e6:8.2f} MB")
            over |= page == "" and (median > LIMIT_S or total > LIMIT_BYTES)
        store.close()
    verdict = "over" if over else "kept"
    print(f"limits of the first: {LIMIT_S:g} s, {LIMIT_BYTES / 1e6:g} MB: {verdict}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
