"""The loop, around stand-ins for compiler and measurer: budget, dedupe, faults, stop, resume."""

from __future__ import annotations

import threading

import pytest

from tests.rig.scale_u8 import ScaleU8
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer, text_of
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError, DeviceError, OutOfTimeError, ToolchainError
from tuner.executor.evaluation import DisagreementError
from tuner.keeping.best import Lookup
from tuner.keeping.memory_store import MemoryStore
from tuner.problem.contract import Contract
from tuner.problem.objectives import DEFAULT_OBJECTIVES
from tuner.problem.target import find_target
from tuner.records.outcome import Outcome
from tuner.records.trial import Budget, JobRequest, JobSpec, JobState, PendingTrial
from tuner.search.loop import DEFAULT_CUTOFF, TuningLoop
from tuner.space import Config, Knob, Space

KERNEL = ScaleU8()
PROBLEM = KERNEL.problem({}, Contract.STATIC, find_target("hexagon-v66"))
SPACE = Space(
    "scale_u8",
    (
        Knob("vectors", (1, 2, 4), "vectors a step"),
        Knob("unroll_rows", (1, 2, 4), "rows a step"),
        Knob("behave", ("well",), "always well"),
        Knob("extra", tuple(range(8)), "a knob that some tests let have no effect", "vectors > 2"),
    ),
)

LOOKUP = Lookup(PROBLEM, (PROBLEM.contract,))


def cycles_of(text: str) -> int:
    return 1000 - sum(int(c) for c in text if c.isdigit())


def raising(error):
    def run(text):
        raise error

    return run


class Rig:
    """A job in a store in memory, and loops over it."""

    def __init__(
        self,
        *,
        budget=Budget(trials=12),  # noqa: B008
        workers=1,
        seed=0,
        sampler="random",
        kernel=KERNEL,
        objectives=DEFAULT_OBJECTIVES,
        baseline=None,
        prefer="fastest",
    ):
        self.kernel = kernel
        self.baseline = baseline
        self.store = MemoryStore(fault=lambda _: "")  # its space is not the kernel's
        self.generator = StandInGenerator()
        self.measurer = StandInMeasurer(cycles_of)
        spec = JobSpec(
            problem=PROBLEM,
            generator="halide",
            objectives=objectives,
            sampler=sampler,
            seed=seed,
            workers=workers,
            prefer=prefer,
            **vars(budget),
        )
        self.job_id = self.store.create_job(spec, SPACE, {}).id
        self.stop = threading.Event()
        self.abandon = None
        self.seen = []

    def run(self):
        token = self.store.claim(self.job_id)
        loop = TuningLoop(
            self.store.job(self.job_id),
            token,
            store=self.store,
            kernel=self.kernel,
            space=SPACE,
            generator=self.generator,
            measurer=self.measurer,
            on_progress=self.on_progress,
            stop=self.stop,
            abandon=self.abandon,
            baseline=self.baseline,
        )
        return loop.run()

    def on_progress(self, progress):
        self.seen.append(progress)

    @property
    def trials(self):
        return self.store.trials(self.job_id)


def test_runs_textbook_and_default_first_then_the_budget_and_keeps_the_best():
    rig = Rig()
    assert rig.run() is JobState.DONE
    assert [t.number for t in rig.trials] == list(range(12))
    assert [t.origin for t in rig.trials[:3]] == ["textbook", "default", "random"]
    assert len({t.config for t in rig.trials}) == 12
    best = min(t.measurement.cycles for t in rig.trials)
    schedule = rig.store.best(LOOKUP)
    assert schedule.measurement.cycles == best
    assert schedule.provenance["trial"] == next(
        t.number for t in rig.trials if t.measurement.cycles == best
    )
    assert rig.store.pending(rig.job_id) == []
    assert rig.seen[-1].finished == 12
    assert rig.seen[-1].outcomes == {"ok": 12}


@pytest.mark.parametrize("asked", [JobRequest.PAUSE, JobRequest.CANCEL])
def test_obeys_what_others_ask_by_the_store(asked, monkeypatch):
    monkeypatch.setattr("tuner.search.loop._HEARTBEAT_S", 0.0)
    rig = Rig()

    def ask_once(progress):
        if progress.finished == 3:
            rig.store.request(rig.job_id, asked)

    rig.on_progress = ask_once
    rig.run()
    job = rig.store.job(rig.job_id)
    assert len(rig.trials) < 12
    assert rig.store.pending(rig.job_id) == []
    if asked is JobRequest.CANCEL:
        assert job.state is JobState.CANCELLED
    else:
        assert (job.state, job.paused) == (JobState.QUEUED, True)
        rig.run()
        assert len(rig.trials) == 12


class Clock:
    """Time of the loop, which passes when told to."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("tuner.search.loop.time", made)
    return made


def test_stops_on_seconds(clock):
    rig = Rig(budget=Budget(trials=None, seconds=20.0))

    def run(text):
        clock.now += 5.0
        return cycles_of(text)

    rig.measurer.cycles_of = run
    assert rig.run() is JobState.DONE
    assert len(rig.trials) == 4 < len(list(SPACE))
    assert rig.store.job(rig.job_id).spent_s == 20.0


class Abandonable(Rig):
    """Its textbook config is measured at once, all others until they are abandoned; its seconds are
    over with the first."""

    def __init__(self, clock, first=len):
        super().__init__(budget=Budget(trials=None, seconds=20.0), workers=2)
        self.clock = clock
        self.begun = threading.Event()
        self.over = threading.Event()
        self.abandon = self.over.set

        def run(text):
            if not self.begun.is_set():
                self.begun.set()
                return first(text)
            assert self.over.wait(PATIENCE_S)
            raise OutOfTimeError("abandoned while it ran")

        self.measurer = StandInMeasurer(run)

    def on_progress(self, progress):
        if progress.finished:
            self.clock.now += 3600.0


def test_what_outlasts_the_seconds_is_abandoned_and_the_rest_kept(clock):
    rig = Abandonable(clock)
    assert rig.run() is JobState.DONE
    assert [t.outcome for t in rig.trials] == [Outcome.OK]
    assert rig.store.best(LOOKUP).measurement.cycles == rig.trials[0].measurement.cycles
    assert rig.over.is_set()


def test_identical_objects_are_measured_once():
    rig = Rig(budget=Budget(trials=1000), workers=4)
    rig.generator.object_of = lambda c: str(c["vectors"])
    rig.run()
    assert set(rig.measurer.measured.values()) == {1}
    assert len(rig.measurer.measured) == 3
    owners = {t.artifact_digest: t for t in rig.trials if t.duplicate_of is None}
    assert len(owners) == 3
    for trial in rig.trials:
        owner = owners[trial.artifact_digest]
        assert trial.measurement == owner.measurement
        assert trial.duplicate_of in (None, owner.number)


def test_what_may_become_the_best_is_confirmed_and_nothing_else():
    rig = Rig(budget=Budget(trials=1000))
    rig.measurer.cycles_of = lambda text: 1000 if '"vectors":1' in text else 2000
    confirmed = []

    def confirm(problem, artifact):
        confirmed.append(text_of(artifact))
        if '"unroll_rows":4' in text_of(artifact):
            raise CandidateError(Outcome.WRONG_OUTPUT, "wrong far away")

    rig.measurer.confirm = confirm
    rig.run()
    assert rig.store.best(LOOKUP).config["unroll_rows"] != 4
    first = min(t.number for t in rig.trials if t.config["vectors"] == 1)
    for trial in rig.trials:
        fast, far_wrong = trial.config["vectors"] == 1, trial.config["unroll_rows"] == 4
        assert trial.outcome is Outcome.WRONG_OUTPUT if fast and far_wrong else True
        assert (trial.config.json in confirmed) == fast or trial.number <= first


def test_every_kind_of_bad_candidate_is_recorded_and_the_job_goes_on():
    outcomes = [Outcome.COMPILE_ERROR, Outcome.COMPILER_CRASH, Outcome.TIMEOUT]
    rig = Rig(budget=Budget(trials=1000))

    def fault(config: Config):
        if config["vectors"] == 4 and config["extra"] < 3:
            return CandidateError(outcomes[config["extra"]], f"made on purpose: {config['extra']}")
        return None

    rig.generator.fault = fault
    assert rig.run() is JobState.DONE
    for trial in rig.trials:
        extra = trial.config.get("extra", 9)
        if trial.config["vectors"] == 4 and extra < 3:
            assert trial.outcome is outcomes[extra]
            assert trial.error == f"made on purpose: {extra}"
            assert trial.measurement is None
        else:
            assert trial.outcome is Outcome.OK


@pytest.mark.parametrize(
    ("budget", "trials", "note"),
    [
        (Budget(trials=12), 12, ""),
        (Budget(trials=30), 30, ""),
        (
            Budget(trials=100),
            30,
            "the space is used up: all 30 configurations that differ were tried",
        ),
        (Budget(trials=100, patience=4), None, "no improvement in 4 trials"),
    ],
)
def test_a_job_that_ends_before_its_trials_are_used_says_why(budget, trials, note):
    rig = Rig(budget=budget)
    assert rig.run() is JobState.DONE
    assert trials is None or len(rig.trials) == trials
    assert rig.store.job(rig.job_id).note == note


def test_a_job_without_a_valid_trial_is_failed_and_says_why():
    rig = Rig()
    rig.generator.fault = lambda c: CandidateError(Outcome.COMPILER_CRASH, "it died of SIGABRT")
    assert rig.run() is JobState.FAILED
    note = rig.store.job(rig.job_id).note
    assert "12 compiler_crash" in note
    assert "it died of SIGABRT" in note
    assert rig.store.best(LOOKUP) is None


def test_slow_runs_get_a_budget_from_the_incumbent():
    rig = Rig()
    rig.run()
    best = None
    for trial, budget in zip(rig.trials, rig.measurer.budgets, strict=True):
        factor = DEFAULT_CUTOFF if trial.origin == "default" else 4
        assert budget == (None if best is None else factor * best)
        cycles = trial.measurement.cycles
        best = cycles if best is None else min(best, cycles)


@pytest.mark.parametrize("same_object", [False, True])
def test_the_textbook_is_never_cut_off_and_the_default_late(same_object):
    """Not after a crash, when a fast one is there before; nor when an object like theirs was."""
    default, textbook = KERNEL.default_config(PROBLEM), KERNEL.textbook_config(PROBLEM)
    fast, slow = [
        Config({"vectors": 4, "unroll_rows": 1, "behave": "well", "extra": e}) for e in (0, 1)
    ]
    rig = Rig(budget=Budget(trials=4))
    rig.generator.object_of = lambda config: "9" if config == fast else "0"
    if not same_object:
        rig.generator.object_of = lambda config: "9" if config == fast else f"0{config.json}"
    rig.measurer.cycles_of = lambda text: 100 if text == "9" else 1000
    token = rig.store.claim(rig.job_id)
    lost = [(fast, "random"), (slow, "random"), (default, "default"), (textbook, "textbook")]
    pending = [PendingTrial(number, *one) for number, one in enumerate(lost)]
    rig.store.commit(rig.job_id, token, started=pending)
    rig.store.release(rig.job_id, token, JobState.QUEUED)
    assert rig.run() is JobState.DONE
    outcomes = {t.origin: t.outcome for t in rig.trials[1:]}
    assert outcomes == {
        "random": Outcome.CUTOFF,
        "default": Outcome.OK,
        "textbook": Outcome.OK,
    }
    assert [t.duplicate_of for t in rig.trials] == [None, None, None, 2 if same_object else None]


def test_a_device_error_is_retried_and_then_recorded_as_such():
    rig = Rig(budget=Budget(trials=2))
    failures = iter([DeviceError("gone")] * 4)
    whole = rig.measurer.measure

    def flaky(problem, artifact, *, budget_cycles=None):
        error = next(failures, None)
        if error:
            raise error
        return whole(problem, artifact, budget_cycles=budget_cycles)

    rig.measurer.measure = flaky
    rig.run()
    assert [t.outcome for t in rig.trials] == [Outcome.DEVICE_ERROR, Outcome.OK]


@pytest.mark.parametrize("workers", [3])
def test_a_broken_installation_ends_the_session_not_the_job(workers):
    rig = Rig(workers=workers)
    rig.generator.fault = lambda c: ToolchainError("lld is gone") if c["vectors"] == 4 else None
    with pytest.raises(ToolchainError):
        rig.run()
    job = rig.store.job(rig.job_id)
    assert job.state is JobState.QUEUED
    assert "lld is gone" in job.note
    rig.generator.fault = lambda c: None
    assert rig.run() is JobState.DONE
    assert [t.number for t in rig.trials] == list(range(12))


def test_stopping_finishes_what_is_in_flight_and_resuming_goes_on():
    rig = Rig(workers=2)
    rig.on_progress = lambda p: rig.stop.set() if p.finished >= 5 else None
    assert rig.run() is JobState.QUEUED
    before = rig.trials
    assert 5 <= len(before) < 12
    assert rig.store.pending(rig.job_id) == []
    rig.stop.clear()
    rig.on_progress = rig.seen.append
    assert rig.run() is JobState.DONE
    assert rig.trials[: len(before)] == before
    assert [t.number for t in rig.trials] == list(range(12))
    assert len({t.config for t in rig.trials}) == 12
    assert max(rig.generator.compiled.values()) <= 2  # the best: once more, for its assembly


def test_what_was_in_flight_at_a_crash_is_run_again_once():
    rig = Rig()
    token = rig.store.claim(rig.job_id)
    lost = [
        PendingTrial(0, KERNEL.default_config(PROBLEM), "default"),
        PendingTrial(
            1, Config({"vectors": 4, "unroll_rows": 1, "behave": "well", "extra": 5}), "random"
        ),
    ]
    rig.store.commit(rig.job_id, token, started=lost)
    rig.store.release(rig.job_id, token, JobState.QUEUED)
    assert rig.run() is JobState.DONE
    assert [(t.number, t.config, t.origin) for t in rig.trials[:2]] == [
        (p.number, p.config, p.origin) for p in lost
    ]
    assert len(rig.trials) == len({t.config for t in rig.trials}) == 12


def test_one_worker_and_one_seed_repeat():
    def trace(seed):
        rig = Rig(sampler="tpe", seed=seed, budget=Budget(trials=12))
        rig.run()
        return [(t.config, t.outcome, t.measurement.cycles) for t in rig.trials]

    assert trace(4) == trace(4)
    assert trace(4) != trace(5)


def test_a_textbook_config_that_is_the_unscheduled_default_is_tried_as_the_default():
    class Bare(ScaleU8):
        default_is_naive = True

        def textbook_config(self, problem):
            return self.default_config(problem)

    rig = Rig(kernel=Bare())
    assert rig.run() is JobState.DONE
    assert [t.origin for t in rig.trials[:2]] == ["default", "random"]
    assert [t.config for t in rig.trials].count(rig.trials[0].config) == 1


def test_nothing_is_tuned_if_even_naive_code_differs_from_the_reference():
    class Naive(ScaleU8):
        default_is_naive = True

    rig = Rig(kernel=Naive())
    rig.generator.fault = lambda config: CandidateError(
        Outcome.WRONG_OUTPUT, "out[3] is 7, reference 8"
    )
    with pytest.raises(DisagreementError, match=r"cannot be tuned: .* out\[3\] is 7, reference 8"):
        rig.run()
    job = rig.store.job(rig.job_id)
    assert job.state is JobState.FAILED
    assert "out[3] is 7" in job.note
    assert all(trial.measurement is None for trial in rig.trials)
    assert len(rig.trials) < 12
