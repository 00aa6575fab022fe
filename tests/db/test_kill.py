"""kill -9 at any moment loses nothing that was committed and stores nothing twice."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from db import open_store
from db.sql_store import SqlStore
from tests.db.writer import cycles_of, start_writer
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, problem, spec
from tuner.keeping.best import lookup_of
from tuner.records.trial import JobState

TRIALS = 120
MOST_BEFORE_A_KILL = 10
"""Trials of a process that is killed from outside: however late that comes, some are left."""


def run_until_killed(job_id: str, die_after: int, delay_s: float | None) -> tuple[set[int], bool]:
    """The trials whose commit the process saw return, and whether it was killed (or ended)."""
    most = TRIALS if delay_s is None else MOST_BEFORE_A_KILL
    with start_writer(job_id, TRIALS, die_after, most) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it holds the claim, or died first
        if delay_s is not None:
            time.sleep(delay_s)
            os.kill(process.pid, signal.SIGKILL)
        acknowledged = {int(line) for line in process.stdout if line.strip().isdigit()}
    return acknowledged, process.returncode == -signal.SIGKILL


def check_whole(store: SqlStore, job_id: str, acknowledged: set[int]) -> int:
    """Checks everything stored for the job against what the writer must have written."""
    trials = store.trials(job_id)
    count = len(trials)
    seed = 1000 * ord(job_id[-1])
    expected = [ok(n, artifact(n + seed), cycles_of(job_id, n)) for n in range(count)]
    assert trials == expected
    assert acknowledged <= set(range(count)), "a committed trial was lost"
    waiting = store.pending(job_id)
    assert waiting in ([], [pending(count)])
    assert waiting or count in (0, TRIALS), "a trial in flight was lost"
    for trial in trials:
        assert store.artifact(trial.artifact_digest or "") == artifact(trial.number + seed)
    best = store.best(lookup_of(problem()))
    fastest = min((cycles_of(job_id, n) for n in range(count)), default=None)
    assert (best and best.measurement.cycles) == fastest
    assert store.job(job_id).spent_s == float(count)
    return count


def kill_rounds(rounds: int, seed: int) -> None:
    """Kills the job's process ``rounds`` times at random points, then lets it end."""
    store = open_store()
    job_id = store.create_job(spec(), SPACE, TOOLCHAIN).id
    choose = random.Random(seed)
    acknowledged: set[int] = set()
    for round_number in range(rounds):
        by_step = round_number % 4 != 3
        seen, was_killed = run_until_killed(
            job_id,
            choose.randrange(5, 200) if by_step else 0,
            None if by_step else choose.uniform(0.0, 0.02),
        )
        assert was_killed
        acknowledged |= seen
        check_whole(store, job_id, acknowledged)
    seen, was_killed = run_until_killed(job_id, 0, None)
    assert not was_killed
    assert check_whole(store, job_id, acknowledged | seen) == TRIALS
    assert store.job(job_id).state is JobState.DONE
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_job_killed_at_random_points_ends_with_every_trial_once(seed: int, state: Path) -> None:
    kill_rounds(15 if seed > 1 else 8, seed)
    with sqlite3.connect(state / "hvxtune.sqlite") as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.slow
def test_a_killed_writer_leaves_whole_rows_and_its_job_can_be_taken_over_at_once() -> None:
    kill_rounds(2, seed=3)
