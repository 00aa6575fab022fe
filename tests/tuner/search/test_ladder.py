"""The ladder of fidelity, around stand-ins for the compiler and for devices of both fidelities."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tests.tuner.search.test_loop import KERNEL, PROBLEM, SPACE, cycles_of
from tuner.errors import CandidateError, ToolchainError, UserError
from tuner.keeping.memory_store import MemoryStore
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome
from tuner.records.request import Preference
from tuner.records.trial import JobSpec, JobState
from tuner.search.ladder import Rung
from tuner.search.loop import Progress, TuningLoop

TOOLCHAIN = {"generator": "stand-in"}
PHONES = {**TOOLCHAIN, "phones": "stand-ins"}


class Climb:
    """A job in a store in memory that promotes to a stand-in for phones."""

    def __init__(
        self,
        *,
        trials: int = 20,
        promote: int = 6,
        width: int = 2,
        workers: int = 1,
        prefer: Preference = "fastest",
    ):
        self.store = MemoryStore(fault=lambda _: "")  # its space is not the kernel's
        self.generator = StandInGenerator()
        self.model = StandInMeasurer(cycles_of)
        self.phones = StandInMeasurer(lambda text: 3 * cycles_of(text), fidelity="hardware")
        self.width = width
        spec = JobSpec(
            problem=PROBLEM,
            generator="halide",
            trials=trials,
            sampler="random",
            workers=workers,
            prefer=prefer,
            promote_to="phones",
            promote=promote,
        )
        self.id = self.store.create_job(spec, SPACE, TOOLCHAIN).id
        self.stop = threading.Event()
        self.seen: list[Progress] = []

    def run(self, toolchain: dict[str, str] = PHONES) -> JobState:
        token = self.store.claim(self.id)
        loop = TuningLoop(
            self.store.job(self.id),
            token,
            store=self.store,
            kernel=KERNEL,
            space=SPACE,
            generator=self.generator,
            measurer=self.model,
            rung=Rung(self.phones, toolchain, self.width),
            on_progress=self.told,
            stop=self.stop,
        )
        return loop.run()

    def told(self, progress: Progress) -> None:
        self.seen.append(progress)

    @property
    def promotions(self) -> list[Any]:
        return self.store.promotions(self.id)

    def require_whole(self, promote: int) -> None:
        """Nothing lost, nothing doubled: as many as asked for, each once, each ended."""
        assert len(self.promotions) == promote
        assert all(p.outcome is not None for p in self.promotions)
        assert set(self.phones.measured.values()) == {1}
        assert len(self.phones.measured) == promote


def test_the_best_of_the_model_are_measured_on_phones_too_and_both_are_kept():
    climb = Climb()
    assert climb.run() is JobState.DONE
    climb.require_whole(6)
    trials = climb.store.trials(climb.id)
    assert {t.measurement.fidelity for t in trials} == {"model"}
    best = min(trials, key=lambda t: (t.measurement.cycles, t.number))
    promoted = {p.trial: p.measurement for p in climb.promotions}
    assert best.number in promoted
    assert {m.fidelity for m in promoted.values()} == {"hardware"}
    assert promoted[best.number].cycles == 3 * best.measurement.cycles
    assert climb.seen[-1].promoted == climb.seen[-1].promotions == 6


def test_a_candidate_that_is_bad_on_the_phone_is_told_so_and_the_job_goes_on():
    climb = Climb()

    def wrong_once(text: str) -> int:
        if len(climb.phones.measured) == 1:
            raise CandidateError(Outcome.WRONG_OUTPUT, "out[0] is 1, reference 2")
        return 3 * cycles_of(text)

    climb.phones.cycles_of = wrong_once
    assert climb.run() is JobState.DONE
    climb.require_whole(6)
    wrong = [p for p in climb.promotions if p.outcome is Outcome.WRONG_OUTPUT]
    assert len(wrong) == 1
    assert wrong[0].measurement is None
    assert wrong[0].error == "out[0] is 1, reference 2"


class Power:
    """Fails the phones' measurer at its n-th call, as a crash of the process would."""

    def __init__(self, climb: Climb, at: int) -> None:
        self.calls = 0
        self.lock = threading.Lock()
        measure = climb.phones.measure

        def failing(problem: Any, artifact: Artifact, **more: Any) -> Any:
            with self.lock:
                self.calls += 1
                if self.calls == at:
                    raise ToolchainError("power cut")
            return measure(problem, artifact, **more)

        climb.phones.measure = failing  # type: ignore[method-assign]


@pytest.mark.parametrize("at", [1, 3, 6])
@pytest.mark.parametrize("width", [3])
def test_after_a_crash_what_was_under_way_is_promoted_once(at: int, width: int):
    climb = Climb(width=width)
    Power(climb, at)
    with pytest.raises(ToolchainError, match="power cut"):
        climb.run()
    assert climb.store.job(climb.id).state is JobState.QUEUED
    assert any(p.outcome is None for p in climb.promotions)
    assert climb.run() is JobState.DONE
    assert len(climb.promotions) == 6
    assert all(p.outcome is Outcome.OK for p in climb.promotions)
    assert len(climb.store.trials(climb.id)) == 20


def test_a_request_to_stop_finishes_what_is_under_way_and_the_rest_comes_later():
    climb = Climb(promote=8)

    def stop_at_three(progress: Progress) -> None:
        if progress.promoted >= 3:
            climb.stop.set()

    climb.told = stop_at_three  # type: ignore[method-assign]
    assert climb.run() is JobState.QUEUED
    assert 3 <= len(climb.promotions) < 8
    assert all(p.outcome is not None for p in climb.promotions)
    climb.stop.clear()
    climb.told = lambda progress: None  # type: ignore[method-assign]
    assert climb.run() is JobState.DONE
    climb.require_whole(8)


def test_other_phones_than_before_are_refused_by_what_differs():
    climb = Climb()
    Power(climb, 3)
    with pytest.raises(ToolchainError):
        climb.run()
    with pytest.raises(UserError, match="differed in phones"):
        climb.run({**TOOLCHAIN, "phones": "others"})
