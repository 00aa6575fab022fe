"""Jobs with several objectives: the front, what is cut off, patience, resuming."""

from __future__ import annotations

import pytest

from tests.tuner.search.test_loop import LOOKUP, SPACE, Rig
from tuner.records.outcome import Outcome
from tuner.records.trial import Budget, JobState
from tuner.search.loop import DEFAULT_CUTOFF


def bigger_is_faster(text):
    """Code bytes of the stand-in's objects: what is wide and unrolled is fast and large."""
    return sum(int(c) for c in text if c.isdigit()) ** 2


class TwoGoals(Rig):
    """Cycles against code size: every sum of digits has its own place on the front."""

    def __init__(self, **changes):
        super().__init__(objectives=("cycles", "code_bytes"), **{"sampler": "tpe", **changes})
        self.measurer.code_bytes_of = bigger_is_faster


def test_with_several_objectives_nothing_is_cut_off_and_the_best_is_still_the_fastest():
    rig = TwoGoals(budget=Budget(trials=1000))
    rig.measurer.cycles_of = lambda text: 10_000 // (1 + bigger_is_faster(text))
    assert rig.run() is JobState.DONE
    assert {t.config for t in rig.trials} == set(SPACE)
    default = next(t for t in rig.trials if t.origin == "default")
    cut_off_at = DEFAULT_CUTOFF * rig.trials[0].measurement.cycles  # the default, by time alone
    assert [b for b in rig.measurer.budgets if b is not None] == [cut_off_at]
    assert default.outcome is Outcome.OK
    cycles = [t.measurement.cycles for t in rig.trials]
    assert max(cycles) > 4 * min(cycles), "with one goal some would have been"
    sizes = {t.measurement.code_bytes for t in rig.trials}
    assert rig.seen[-1].on_front == len(sizes)
    assert rig.store.best(LOOKUP).measurement.cycles == min(cycles)
    assert rig.store.job(rig.job_id).remaining is None


def test_patience_with_several_objectives_waits_for_the_front_to_change():
    rig = TwoGoals(budget=Budget(trials=1000, patience=6))
    rig.run()
    seen, since = set(), 0
    for trial in rig.trials:
        size = trial.measurement.code_bytes
        since = since + 1 if size in seen else 0
        seen.add(size)
    assert since == 6 or {t.config for t in rig.trials} == set(SPACE)


@pytest.mark.parametrize("sampler", ["tpe"])
def test_a_search_with_several_objectives_goes_on_after_a_stop(sampler):
    rig = TwoGoals(sampler=sampler, budget=Budget(trials=16))
    rig.on_progress = lambda p: rig.stop.set() if p.finished >= 7 else None
    assert rig.run() is JobState.QUEUED
    before = rig.trials
    rig.stop.clear()
    rig.on_progress = rig.seen.append
    assert rig.run() is JobState.DONE
    assert rig.trials[: len(before)] == before
    assert len({t.config for t in rig.trials}) == 16
    assert rig.seen[-1].on_front == len({t.measurement.code_bytes for t in rig.trials})
