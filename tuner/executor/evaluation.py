"""One candidate's way through compile, dedupe, measurement and verification; and whether its
algorithm means the same on this machine and on the target."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from tuner.codegen import CodeGenerator, clang
from tuner.errors import CandidateError, DeviceError, UserError
from tuner.executor.baselines import Baseline
from tuner.log_ids import bind, bound
from tuner.measure.measurer import DEVICE_ATTEMPTS, Measurer, Timed
from tuner.records.candidate import (
    PREFERENCES,
    Artifact,
    Candidate,
    Measurement,
    Preference,
    Problem,
)
from tuner.records.outcome import Outcome
from tuner.records.trial import Timings, Trial
from tuner.space import Config

_DOUBTS = 3
"""Wrong outputs in vain tried without the pass that may be wrong, before no more are."""
_log = logging.getLogger("hvxtune.trial")
T = TypeVar("T")

CONTENDER = 1.25
"""What takes at most this many times the least cycles so far, or the least expected ones, may be
a job's best: it is confirmed (:meth:`tuner.measure.Measurer.confirm`)."""


@dataclass(frozen=True)
class _Measured:
    """The outcome of measuring one object, shared by all trials with that object."""

    trial_number: int
    outcome: Outcome
    measurement: Measurement | None = None
    error: str | None = None
    budget_cycles: float = math.inf
    """The budget that it was measured with. That of an earlier session is not known."""


@dataclass(frozen=True)
class Evaluation:
    """A finished trial and the artifact it gave, if it compiled."""

    trial: Trial
    artifact: Artifact | None


class Evaluator:
    """Evaluates candidates of one problem; identical objects are measured once.

    May be called from several threads. A bad candidate gives a trial with its outcome; only
    ``ToolchainError`` and faults of hvxtune itself are raised.
    """

    def __init__(
        self, generator: CodeGenerator, measurer: Measurer, baseline: Baseline | None = None
    ) -> None:
        """``baseline`` makes what its config stands for."""
        self._generator = generator
        self._baseline = baseline
        self._measurer = measurer
        self._lock = threading.Lock()
        self._by_object: dict[str, Future[_Measured]] = {}
        self._least: dict[Preference, float] = dict.fromkeys(PREFERENCES, math.inf)
        self._not_blamed = 0

    def remember(self, trial: Trial) -> None:
        """Takes over a result from an earlier session, so that its object is not run again."""
        if (
            trial.artifact_digest is None
            or trial.duplicate_of is not None
            or trial.outcome is Outcome.DEVICE_ERROR
        ):
            return
        if trial.measurement is not None:
            self._contend(trial.measurement)
        known: Future[_Measured] = Future()
        known.set_result(_Measured(trial.number, trial.outcome, trial.measurement, trial.error))
        self._by_object.setdefault(trial.artifact_digest, known)

    def evaluate(
        self, candidate: Candidate, *, number: int, origin: str, budget_cycles: int | None = None
    ) -> Evaluation:
        """Takes ``candidate`` from config to outcome.

        ``budget_cycles`` is the early-termination budget of the timed run. Without one, or with a
        larger one, the candidate is measured even if an identical object was cut off before.
        """
        with bound(trial=number):
            evaluation = self._evaluate(candidate, number, origin, budget_cycles)
            trial = evaluation.trial
            if trial.measurement is not None:
                bind(device=trial.measurement.device)
            _log.info("%s", ", ".join(f"{k} {v}" for k, v in _told(trial).items()))
            return evaluation

    def _evaluate(
        self, candidate: Candidate, number: int, origin: str, budget_cycles: int | None
    ) -> Evaluation:
        started_at = time.time()
        clock = time.perf_counter()
        artifact = None
        link_s = run_s = 0.0
        owns = False
        try:
            artifact = self._compiled(candidate)
            compile_s = time.perf_counter() - clock
        except CandidateError as error:
            compile_s = time.perf_counter() - clock
            measured = _Measured(number, error.outcome, error=error.message)
        else:
            shared, owns = self._claim(artifact.digest)
            while not owns and _was_cut_off(shared, budget_cycles):
                shared, owns = self._claim(artifact.digest, instead_of=shared)
            if owns:
                measured, link_s, run_s = self._measure(
                    candidate, artifact, number, budget_cycles, shared
                )
            else:
                measured = shared.result()
        total_s = time.perf_counter() - clock
        trial = Trial(
            number=number,
            config=candidate.config,
            origin=origin,
            outcome=measured.outcome,
            measurement=measured.measurement,
            artifact_digest=artifact.digest if artifact else None,
            duplicate_of=measured.trial_number if artifact and not owns else None,
            error=measured.error,
            timings=Timings(compile_s, link_s, run_s, total_s - compile_s - link_s - run_s),
            started_at=started_at,
            finished_at=time.time(),
        )
        return Evaluation(trial, artifact)

    def _compiled(self, candidate: Candidate) -> Artifact:
        if self._baseline is not None and candidate.config == self._baseline.config:
            return self._baseline.artifact(candidate, self._generator)
        return self._generator.compile(candidate)

    def measure(
        self, candidate: Candidate, artifact: Artifact, budget_cycles: int | None = None
    ) -> Timed:
        """Measures an artifact at hand, on another device if one fails.

        Raises ``CandidateError``; its outcome is ``device_error`` once enough devices failed.
        """
        return self._attempted(
            lambda: self._measurer.measure(candidate.problem, artifact, budget_cycles=budget_cycles)
        )

    def _confirm(self, candidate: Candidate, artifact: Artifact, found: Measurement) -> None:
        """Of what may become the best of a job, by either rule, more is asked, once."""
        with self._lock:
            if all(found.ranked_cycles(by) > CONTENDER * self._least[by] for by in PREFERENCES):
                return
        self._attempted(lambda: self._measurer.confirm(candidate.problem, artifact))
        self._contend(found)

    def _contend(self, found: Measurement) -> None:
        with self._lock:
            for by in PREFERENCES:
                self._least[by] = min(self._least[by], found.ranked_cycles(by))

    def _attempted(self, call: Callable[[], T]) -> T:
        attempts = 0
        while True:
            try:
                return call()
            except DeviceError as error:
                attempts += error.attempts
                if attempts >= DEVICE_ATTEMPTS:
                    raise CandidateError(
                        Outcome.DEVICE_ERROR, f"{error.message} (in {attempts} attempts)"
                    ) from None

    def _blamed(self, candidate: Candidate, artifact: Artifact, error: CandidateError) -> str:
        """What is wrong with ``candidate``: the compiler, if its output is right without a pass
        that is known to miscompile; else what its generator says."""
        if error.outcome is not Outcome.WRONG_OUTPUT or self._not_blamed >= _DOUBTS:
            return error.message
        if clang.is_miscompiled(candidate, artifact, self._compiled, self.measure):
            return f"{clang.MISCOMPILED}; {error.message}"
        self._not_blamed += 1
        blame = self._generator.blame(candidate)
        return f"{error.message}; {blame}" if blame else error.message

    def _claim(
        self, digest: str, instead_of: Future[_Measured] | None = None
    ) -> tuple[Future[_Measured], bool]:
        """The shared result of an object, and whether it is the caller's to measure.

        ``instead_of`` is a result that will not do for the caller: the object is measured again.
        """
        with self._lock:
            known = self._by_object.get(digest)
            if known is not None and known is not instead_of:
                return known, False
            self._by_object[digest] = mine = Future[_Measured]()
            return mine, True

    def _measure(
        self,
        candidate: Candidate,
        artifact: Artifact,
        number: int,
        budget_cycles: int | None,
        shared: Future[_Measured],
    ) -> tuple[_Measured, float, float]:
        link_s = run_s = 0.0
        clock = time.perf_counter()
        try:
            timed = self.measure(candidate, artifact, budget_cycles)
            self._confirm(candidate, artifact, timed.measurement)
            measured = _Measured(number, Outcome.OK, timed.measurement)
            link_s, run_s = timed.link_s, timed.run_s
        except CandidateError as error:
            measured = _Measured(
                number,
                error.outcome,
                error=self._blamed(candidate, artifact, error),
                budget_cycles=budget_cycles or math.inf,
            )
            run_s = time.perf_counter() - clock
            if error.outcome is Outcome.DEVICE_ERROR:
                with self._lock:  # says nothing about the object: measure it again if it comes
                    del self._by_object[artifact.digest]
        except BaseException as error:
            shared.set_exception(error)  # others may be waiting for this object
            raise
        shared.set_result(measured)
        return measured, link_s, run_s


def _told(trial: Trial) -> dict[str, str | int | float]:
    """The figures of ``trial``."""
    found: dict[str, str | int | float] = {
        "outcome": trial.outcome.value if trial.outcome else "",
        "compile_s": round(trial.timings.compile_s, 4),
        "run_s": round(trial.timings.link_s + trial.timings.run_s, 4),
    }
    if trial.measurement is not None:
        found |= {"cycles": trial.measurement.cycles, "device": trial.measurement.device}
    if trial.duplicate_of is not None:
        found["duplicate_of"] = trial.duplicate_of
    return found


def _was_cut_off(shared: Future[_Measured], budget_cycles: int | None) -> bool:
    """Whether the result, which it waits for, is a cutoff that ``budget_cycles`` may not be."""
    measured = shared.result()
    if measured.outcome is not Outcome.CUTOFF:
        return False
    return budget_cycles is None or budget_cycles > measured.budget_cycles


class DisagreementError(UserError):
    """Code without any schedule gives other values than the reference: nothing can be tuned."""


def require_agreement(problem: Problem, naive: Config | None, trial: Trial) -> None:
    """``DisagreementError`` if ``trial`` shows that compiled code and reference differ.

    ``naive`` is the config without any schedule, ``None`` for a kernel that lacks one.
    """
    if naive is None or trial.config != naive or trial.outcome is not Outcome.WRONG_OUTPUT:
        return
    raise DisagreementError(
        f"{problem.workload.kernel} cannot be tuned: without any schedule its code "
        f"for {problem.target.name} gives other values than on this machine: {trial.error}",
        accepted="pipelines that Halide compiles alike for both",
        next_step="change the stage that differs, such as one that reads beyond its bounds",
    )
