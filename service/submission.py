"""Jobs that the service makes for its callers."""

from __future__ import annotations

import threading

from db.open_jobs import open_job
from db.sql_store import SqlStore
from service.auth import Caller
from tuner.candidate import CacheState, Problem
from tuner.trial import Job, Submission
from tuner.tuning import submit

_one_at_a_time = threading.Lock()
DEFAULT_TRIALS = 100


def job_for_problem(
    store: SqlStore, caller: Caller, problem: Problem, cache: CacheState
) -> tuple[Job, bool]:
    """A job for ``problem``: an open one if there is one, else a new one with the defaults of
    ``POST /v1/jobs``. Says whether it was there. Blocks."""
    # A build asks for the same workload from many processes at once: one job is enough.
    with _one_at_a_time:
        found = open_job(store, problem, cache)
        if found is not None:
            return found, True
        workload = problem.workload
        made = submit(
            workload.kernel,
            workload.params,
            store=store,
            target=problem.target.name,
            contract=problem.contract.value,
            trials=DEFAULT_TRIALS,
            cache=cache,
            submission=Submission(user=caller.name),
        )
    return made, False
