"""Stores keep a job's objectives and its remaining gain; part of ``StoreConformance``."""

from __future__ import annotations

from tests.tuner.sample_records import SPACE, TOOLCHAIN, spec
from tuner.records.trial import Job, RemainingGain
from tuner.store import TrialStore


class ObjectivesConformance:
    """Its fixtures are those of ``StoreConformance``."""

    def test_objectives_are_kept_in_their_order(self, store: TrialStore) -> None:
        objectives = ("cycles", "vtcm_bytes", "code_bytes")
        job = store.create_job(spec(objectives=objectives), SPACE, TOOLCHAIN)
        assert store.job(job.id).spec.objectives == objectives

    def test_what_is_left_to_find_stays_until_it_is_estimated_anew(
        self, store: TrialStore, job: Job
    ) -> None:
        assert job.remaining is None
        token = store.claim(job.id)
        for estimate in (RemainingGain(0.25, 0.5), RemainingGain(0.0, 0.125)):
            store.commit(job.id, token, remaining=estimate)
            store.commit(job.id, token, spent_s=1.0)
            assert store.job(job.id).remaining == estimate
