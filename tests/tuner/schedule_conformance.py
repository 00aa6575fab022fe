"""What every trial store must do with artifacts and schedules; part of the stores' conformance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tuner.conformance.records import (
    NEWER_TOOLCHAIN,
    SPACE,
    TOOLCHAIN,
    artifact,
    measurement,
    ok,
    problem,
    schedule,
    spec,
)
from tuner.errors import InternalError, UserError
from tuner.problem.contract import Contract
from tuner.records.trial import Job, JobState
from tuner.store import TrialStore


class ScheduleConformance:
    """Part of ``StoreConformance``."""

    # Artifacts

    def test_an_artifact_is_read_back_byte_for_byte(self, store: TrialStore, job: Job) -> None:
        made = artifact(3, loopnest=bytes(range(256)), schedule=b"")
        store.commit(job.id, store.claim(job.id), artifacts=[made])
        found = store.artifact(made.digest)
        assert found == made
        assert found.files == made.files

    def test_an_unknown_artifact_is_refused(self, store: TrialStore) -> None:
        with pytest.raises(UserError, match="no artifact"):
            store.artifact("0" * 64)

    def test_files_are_added_to_a_known_artifact_and_none_is_replaced(
        self, store: TrialStore, job: Job
    ) -> None:
        token = store.claim(job.id)
        store.commit(job.id, token, artifacts=[artifact(3, loopnest=b"first")])
        again = artifact(3, loopnest=b"second", assembly=b"{ nop }")
        store.commit(job.id, token, artifacts=[again])
        found = store.artifact(again.digest)
        assert found.files == {**again.files, "loopnest": b"first"}

    # Schedules

    def offer(
        self, store: TrialStore, cycles: int, toolchain: dict[str, str], **changes: Any
    ) -> None:
        """A job of its own whose only trial needs ``cycles``."""
        job = store.create_job(spec(), SPACE, toolchain)
        token = store.claim(job.id)
        made = artifact(cycles)
        trial = ok(0, made, cycles)
        offered = schedule(job.id, trial, toolchain=toolchain, **changes)
        store.commit(job.id, token, finished=[trial], artifacts=[made], schedule=offered)
        store.release(job.id, token, JobState.DONE)

    def cycles(self, store: TrialStore, *args: Any, **kwargs: Any) -> int | None:
        found = store.best(*args, **kwargs)
        return None if found is None else found.measurement.cycles

    def test_a_schedule_is_read_back_with_its_provenance(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)
        made = artifact(1)
        trial = ok(4, made)
        offered = schedule(job.id, trial)
        store.commit(job.id, token, finished=[trial], artifacts=[made], schedule=offered)
        assert store.best(problem()) == offered
        assert offered.provenance["toolchain"] == TOOLCHAIN

    def test_only_a_faster_schedule_replaces_the_best(self, store: TrialStore) -> None:
        for offered, expected in ((900, 900), (950, 900), (800, 800), (800, 800)):
            self.offer(store, offered, TOOLCHAIN)
            assert self.cycles(store, problem()) == expected

    def test_best_is_of_exactly_this_problem(self, store: TrialStore) -> None:
        self.offer(store, 900, TOOLCHAIN)
        assert store.best(problem(m=128)) is None
        assert store.best(problem(contract=Contract.NONE)) is None

    def test_the_highest_fidelity_wins_and_a_lower_one_can_be_refused(
        self, store: TrialStore
    ) -> None:
        self.offer(store, 500, TOOLCHAIN)
        assert store.best(problem(), "cycle_accurate") is None
        self.offer(store, 700, TOOLCHAIN, measurement=measurement(700, "hardware"))
        self.offer(store, 600, TOOLCHAIN, measurement=measurement(600, "cycle_accurate"))
        for least in ("model", "cycle_accurate", "hardware"):
            found = store.best(problem(), least)
            assert found is not None
            assert found.measurement == measurement(700, "hardware")

    def test_toolchains_are_kept_apart_and_the_last_used_one_answers(
        self, store: TrialStore
    ) -> None:
        self.offer(store, 500, TOOLCHAIN)
        self.offer(store, 800, NEWER_TOOLCHAIN)
        assert self.cycles(store, problem()) == 800
        assert self.cycles(store, problem(), toolchain=TOOLCHAIN) == 500
        assert self.cycles(store, problem(), toolchain={"llvm": "1"}) is None
        self.offer(store, 600, TOOLCHAIN)  # slower than what is stored, but in use again
        assert self.cycles(store, problem()) == 500

    def test_warm_and_cold_caches_are_kept_apart(self, store: TrialStore) -> None:
        cold = replace(measurement(900), cache="cold")
        self.offer(store, 900, {**TOOLCHAIN, "cache": "cold"}, measurement=cold)
        assert self.cycles(store, problem()) is None
        self.offer(store, 500, {**TOOLCHAIN, "cache": "warm"})
        assert self.cycles(store, problem(), cache="warm") == 500
        assert self.cycles(store, problem(), cache="cold") == 900

    def test_a_toolchain_without_a_schedule_hides_no_older_one(self, store: TrialStore) -> None:
        self.offer(store, 500, TOOLCHAIN)
        store.create_job(spec(), SPACE, NEWER_TOOLCHAIN)
        assert self.cycles(store, problem()) == 500

    @pytest.mark.parametrize(
        "changes", [{"provenance": {"job": "x"}}, {"artifact_digest": "0" * 64}]
    )
    def test_a_schedule_nobody_could_trace_is_refused(
        self, store: TrialStore, changes: dict[str, Any]
    ) -> None:
        with pytest.raises(InternalError):
            self.offer(store, 500, TOOLCHAIN, **changes)
        assert store.best(problem()) is None

    # The end
