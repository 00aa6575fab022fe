"""What stores keep of a job's goals and of what is left to find; part of ``StoreConformance``."""

from __future__ import annotations

from tests.tuner.sample_records import SPACE, TOOLCHAIN, spec
from tuner.records.trial import Job, RemainingGain
from tuner.store import TrialStore


class GoalsConformance:
    """Its fixtures are those of ``StoreConformance``."""

    def test_goals_are_kept_in_their_order(self, store: TrialStore) -> None:
        goals = ("cycles", "vtcm_bytes", "code_bytes")
        job = store.create_job(spec(goals=goals), SPACE, TOOLCHAIN)
        assert store.job(job.id).spec.goals == goals

    def test_what_is_left_to_find_stays_until_it_is_estimated_anew(
        self, store: TrialStore, job: Job
    ) -> None:
        assert job.remaining is None
        token = store.claim(job.id)
        for estimate in (RemainingGain(0.25, 0.5), RemainingGain(0.0, 0.125)):
            store.commit(job.id, token, remaining=estimate)
            store.commit(job.id, token, spent_s=1.0)
            assert store.job(job.id).remaining == estimate
