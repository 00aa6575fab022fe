"""What every trial store must do with promotions; a part of the conformance of stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tuner.sample_records import (
    SPACE,
    TOOLCHAIN,
    artifact,
    failed,
    measurement,
    ok,
    problem,
    schedule,
    spec,
)
from tuner.errors import InternalError, StoreError
from tuner.records.outcome import Outcome
from tuner.records.trial import Job, Promotion
from tuner.store import TrialStore

PHONES = {**TOOLCHAIN, "phone": "soc 1"}
HANDED_OUT = Promotion(0, PHONES, started_at=5.0)
DONE = Promotion(
    0,
    PHONES,
    outcome=Outcome.OK,
    measurement=measurement(1500, "hardware"),
    started_at=5.0,
    finished_at=6.5,
)
CUT_OFF = Promotion(1, PHONES, Outcome.CUTOFF, error="slow", started_at=5.0, finished_at=6.0)


class PromotionConformance:
    """Inherit it and override :meth:`store`."""

    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        raise NotImplementedError

    @pytest.fixture
    def promoting(self, store: TrialStore) -> tuple[Job, int]:
        """A job with two ok trials and a failed one, and its token."""
        job = store.create_job(spec(promote_to="phones", promote=3), SPACE, TOOLCHAIN)
        token = store.claim(job.id)
        made = [artifact(0), artifact(1)]
        trials = [ok(0, made[0]), ok(1, made[1], 900), failed(2)]
        store.commit(job.id, token, finished=trials, artifacts=made)
        return job, token

    def test_promotions_are_kept_pending_and_done(
        self, store: TrialStore, promoting: tuple[Job, int]
    ) -> None:
        job, token = promoting
        assert store.promotions(job.id) == []
        store.commit(job.id, token, promotions=[HANDED_OUT])
        assert store.promotions(job.id) == [HANDED_OUT]
        store.commit(job.id, token, promotions=[CUT_OFF, DONE])
        assert store.promotions(job.id) == [DONE, CUT_OFF]
        trials = store.trials(job.id)
        assert [t.measurement and t.measurement.fidelity for t in trials] == [
            "model",
            "model",
            None,
        ]

    def test_handing_out_again_changes_nothing(
        self, store: TrialStore, promoting: tuple[Job, int]
    ) -> None:
        job, token = promoting
        later = Promotion(0, PHONES, started_at=50.0)
        store.commit(job.id, token, promotions=[HANDED_OUT])
        store.commit(job.id, token, promotions=[later])
        assert store.promotions(job.id) == [HANDED_OUT]

    @pytest.mark.parametrize("again", [DONE, HANDED_OUT])
    def test_a_promotion_ends_once(
        self, store: TrialStore, promoting: tuple[Job, int], again: Promotion
    ) -> None:
        job, token = promoting
        store.commit(job.id, token, promotions=[DONE])
        with pytest.raises(InternalError):
            store.commit(job.id, token, promotions=[again])
        assert store.promotions(job.id) == [DONE]

    @pytest.mark.parametrize("trial", [2, 7])
    def test_only_good_trials_are_promoted(
        self, store: TrialStore, promoting: tuple[Job, int], trial: int
    ) -> None:
        job, token = promoting
        with pytest.raises(InternalError):
            store.commit(job.id, token, promotions=[Promotion(trial, PHONES, started_at=1.0)])
        assert store.promotions(job.id) == []

    def test_nobody_promotes_without_the_claim(
        self, store: TrialStore, promoting: tuple[Job, int]
    ) -> None:
        job, token = promoting
        with pytest.raises(StoreError):
            store.commit(job.id, token + 1, promotions=[DONE])
        assert store.promotions(job.id) == []

    def test_the_best_of_the_highest_fidelity_is_answered_and_named_apart(
        self, store: TrialStore, promoting: tuple[Job, int]
    ) -> None:
        job, token = promoting
        trial = store.trials(job.id)[0]
        low = schedule(job.id, trial)
        assert DONE.measurement is not None
        high = schedule(
            job.id,
            trial,
            measurement=DONE.measurement,
            provenance={**low.provenance, "toolchain": PHONES, "promoted": True},
        )
        store.commit(job.id, token, schedule=low)
        store.commit(job.id, token, promotions=[DONE], schedule=high)
        assert store.best(problem()) == high
        assert store.best(problem(), "hardware") == high
        assert store.best(problem(), toolchain=TOOLCHAIN) == low
        assert (low.public_id, high.public_id) == (f"{job.id}-0", f"{job.id}-0p")
