"""What every trial store must answer about near problems' trials; inherited like the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tuner.conformance.records import (
    SPACE,
    TOOLCHAIN,
    artifact,
    config,
    measurement,
    ok,
    pending,
    problem,
    spec,
)
from tuner.problem.contract import Contract
from tuner.records.candidate import CacheState, Fidelity, Problem
from tuner.records.trial import JobState, Submission
from tuner.store import TrialStore

NOW = 1_800_000_000.0


def tried(
    store: TrialStore,
    of: Problem,
    results: Sequence[tuple[int, int]],
    *,
    finished_at: float = NOW,
    cache: CacheState = "warm",
    fidelity: Fidelity = "model",
    submission: Submission | None = None,
) -> str:
    """A job on ``of`` with a trial for each pair of ``tile_m`` and cycles."""
    job = store.create_job(spec(problem=of, cache=cache), SPACE, TOOLCHAIN, submission)
    token = store.claim(job.id)
    made = artifact(3)
    trials = [
        replace(
            ok(number, made),
            config=config(tile_m),
            measurement=replace(measurement(cycles, fidelity), cache=cache),
            finished_at=finished_at,
        )
        for number, (tile_m, cycles) in enumerate(results)
    ]
    waiting = [replace(pending(t.number), config=t.config) for t in trials]
    store.commit(job.id, token, started=waiting)
    store.commit(job.id, token, finished=trials, artifacts=[made])
    store.release(job.id, token, JobState.DONE)
    return job.id


class NearTrialsConformance:
    """Inherit it and override :meth:`store`."""

    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        raise NotImplementedError

    def test_near_trials_are_the_fastest_of_the_nearest_problems(self, store: TrialStore) -> None:
        near = tried(store, problem(m=250), [(1, 300), (2, 100), (4, 200)])
        far = tried(store, problem(m=16), [(8, 50)])
        tried(store, problem(m=1024), [(1, 70)])
        tried(store, problem(), [(1, 10)])
        found = store.near_trials(problem(), before=NOW, problems=2, each=2)
        assert [(p.job, p.trial.number, p.trial.measurement.cycles) for p in found[:2]] == [
            (near, 1, 100), (near, 2, 200),
        ]  # fmt: skip
        assert found[0].problem == problem(m=250)
        assert {p.problem for p in found[2:]} == {problem(m=1024)}
        assert far not in {p.job for p in found}

    def test_near_trials_are_of_jobs_that_had_any_and_of_one_kernel(
        self, store: TrialStore
    ) -> None:
        store.create_job(spec(problem=problem(m=250)), SPACE, TOOLCHAIN)
        other = replace(problem().workload, kernel="add_u8")
        tried(store, replace(problem(), workload=other), [(1, 5)])
        newer = replace(problem().workload, version=2)
        tried(store, replace(problem(), workload=newer), [(1, 5)])
        assert store.near_trials(problem(), before=NOW, problems=9, each=9) == []
        elsewhere = tried(store, problem(contract=Contract.STRIDE), [(1, 5)])
        found = store.near_trials(problem(), before=NOW, problems=9, each=9)
        assert [p.job for p in found] == [elsewhere]

    def test_near_trials_stay_what_they_were_at_a_time(self, store: TrialStore) -> None:
        tried(store, problem(m=250), [(1, 300)])
        tried(store, problem(m=250), [(2, 100)], finished_at=NOW + 5)
        found = store.near_trials(problem(), before=NOW, problems=1, each=5)
        assert [p.trial.measurement.cycles for p in found] == [300]
        assert len(store.near_trials(problem(), before=NOW + 9, problems=1, each=5)) == 2

    def test_near_trials_of_private_jobs_are_for_their_owner(self, store: TrialStore) -> None:
        private = Submission("ann", owner="vision", private=True)
        hidden = tried(store, problem(m=250), [(1, 300)], submission=private)

        def jobs(audience: str) -> list[str]:
            found = store.near_trials(problem(), before=NOW, problems=1, each=5, audience=audience)
            return [past.job for past in found]

        assert (jobs("vision"), jobs("ann"), jobs("")) == ([hidden], [], [])

    def test_near_trials_repeat_no_config_and_keep_caches_and_fidelities_apart(
        self, store: TrialStore
    ) -> None:
        first = tried(store, problem(m=250), [(1, 300), (2, 400)])
        tried(store, problem(m=250), [(1, 300)])
        tried(store, problem(m=250), [(4, 5)], cache="cold")
        found = store.near_trials(problem(), before=NOW, problems=1, each=5)
        assert [(p.job, p.trial.number) for p in found] == [(first, 0), (first, 1)]
        hardware = tried(store, problem(m=250), [(2, 900)], fidelity="hardware")
        found = store.near_trials(problem(), before=NOW, problems=1, each=5)
        assert [p.job for p in found] == [hardware]
        [cold] = store.near_trials(problem(), before=NOW, problems=1, each=5, cache="cold")
        assert cold.trial.measurement is not None
        assert cold.trial.measurement.cycles == 5
