"""``kill -9`` of the tuning process at random points, then ``hvxtune job resume``: nothing lost,
nothing twice, nothing left behind."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import db
import tuner
from tests.rig.scale_u8 import KERNELS
from tests.rig.stopping import stop_between_writes
from tuner.conformance.patience import PATIENCE_S, until
from tuner.kernels import EXTRA_KERNELS_VARIABLE

ROOT = Path(__file__).parents[2]
HVXTUNE = Path(sys.executable).with_name("hvxtune")
KILLS = 6


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("HVXTUNE_DATABASE_URL", f"sqlite:///{tmp_path}/hvxtune.sqlite")
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return dict(os.environ)


def kill_at(
    command: list[str],
    environment: dict[str, str],
    reached: Callable[[], bool],
    then_s: float,
) -> None:
    """Runs ``command`` and kills it ``then_s`` after ``reached``; it must not end before."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        while process.poll() is None and not reached():
            time.sleep(0.02)
        try:
            status = process.wait(timeout=then_s)
        except subprocess.TimeoutExpired:
            children = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
        else:
            said.seek(0)
            pytest.fail(f"ended with {status} before the kill: {said.read()}")
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert not alive, f"left behind: {[p.cmdline() for p in alive]}"


@pytest.mark.parametrize(
    ("kills", "workers", "seed"),
    [
        pytest.param(1, 1, 5, marks=[pytest.mark.slow, pytest.mark.path("a killed job")]),
        pytest.param(3, 2, 2, marks=pytest.mark.slow),
        *(
            pytest.param(KILLS, 1 + seed % 2, seed, marks=pytest.mark.nightly)
            for seed in range(3, 23)
        ),
    ],
)
def test_kills_lose_and_repeat_nothing(environment, kills, workers, seed):
    # More than a fast machine gets done between them, and fewer than the space has that differ.
    trials_in_all = min(5 * (kills + 1) * workers, 48)
    with db.open_store() as store:
        job = tuner.submit(
            "scale_u8", store=store, trials=trials_in_all, workers=workers, seed=seed
        )
    resume = [str(HVXTUNE), "job", "resume", job.id, "--json"]
    points = random.Random(seed)
    rows: dict[int, object] = {}
    for _ in range(kills):
        # Some kills hit the start, before any trial; the others come while trials go on.
        wanted = len(rows) + points.choice([0, 1, 3])

        def reached(wanted: int = wanted) -> bool:
            with db.open_store() as store:
                return len(store.trials(job.id)) >= wanted

        kill_at(resume, environment, reached, points.uniform(0.05, 0.2))
        with db.open_store() as store:
            now = {t.number: t for t in store.trials(job.id)}
        assert now.items() >= rows.items(), "a committed trial was lost or changed"
        rows = now
    done = subprocess.run(resume, env=environment, capture_output=True, text=True, check=True)
    with db.open_store() as store:
        trials, pending = store.trials(job.id), store.pending(job.id)
    assert [t.number for t in trials] == list(range(trials_in_all))
    assert len({t.config for t in trials}) == trials_in_all
    assert pending == []
    answer = json.loads(done.stdout)
    assert sum(answer["outcomes"].values()) == trials_in_all
    assert answer["best"]["verified"] is True


@pytest.mark.slow
def test_resuming_a_job_that_a_live_process_runs_is_refused(environment):
    with db.open_store() as store:
        job = tuner.submit("scale_u8", store=store, trials=60, workers=1)
        resume = [str(HVXTUNE), "job", "resume", job.id]
        first = subprocess.Popen(resume, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: store.trials(job.id))
            assert store.place.path is not None
            stop_between_writes(first, store.place.path)  # it lives, and cannot end meanwhile
            second = subprocess.run(resume, capture_output=True, text=True, check=False)
        finally:
            first.kill()
            first.wait()
    assert second.returncode == 2
    assert str(first.pid) in second.stderr
    assert "Traceback" not in second.stderr
