"""One worker and one seed: the same trials and the same cycles, run after run."""

from __future__ import annotations

import pytest

import tuner


@pytest.mark.slow
def test_two_runs_give_the_same_trials_and_cycles():
    from tuner.keeping.memory_store import MemoryStore

    runs = []
    for _ in range(2):
        store = MemoryStore()
        result = tuner.tune("sobel_u8", store=store, trials=5, seed=3, workers=1)
        runs.append(
            [
                (t.number, t.config, t.outcome, t.artifact_digest, t.measurement)
                for t in store.trials(result.job.id)
            ]
        )
    assert runs[0] == runs[1]
    assert len(runs[0]) == 5
