"""One candidate's way through compile, dedupe, measurement and verification."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass

from tuner.codegen import CodeGenerator
from tuner.errors import CandidateError, DeviceError
from tuner.measure.measurer import DEVICE_ATTEMPTS, Measurer, Timed
from tuner.records.candidate import Artifact, Candidate, Measurement
from tuner.records.outcome import Outcome
from tuner.records.trial import Timings, Trial


@dataclass(frozen=True)
class Verdict:
    """What measuring one object came to; shared by all trials with that object."""

    trial_number: int
    outcome: Outcome
    measurement: Measurement | None = None
    error: str | None = None


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

    def __init__(self, generator: CodeGenerator, measurer: Measurer) -> None:
        self._generator = generator
        self._measurer = measurer
        self._lock = threading.Lock()
        self._verdicts: dict[str, Future[Verdict]] = {}

    def remember(self, trial: Trial) -> None:
        """Takes over a result from an earlier session, so that its object is not run again."""
        if (
            trial.artifact_digest is None
            or trial.duplicate_of is not None
            or trial.outcome is Outcome.DEVICE_ERROR
        ):
            return
        verdict: Future[Verdict] = Future()
        verdict.set_result(Verdict(trial.number, trial.outcome, trial.measurement, trial.error))
        self._verdicts.setdefault(trial.artifact_digest, verdict)

    def evaluate(
        self, candidate: Candidate, *, number: int, origin: str, budget_cycles: int | None = None
    ) -> Evaluation:
        """Takes ``candidate`` from config to outcome.

        ``budget_cycles`` is the early-termination budget of the timed run. Without one the
        candidate is measured to its end, even if an identical object was cut off before.
        """
        started_at = time.time()
        clock = time.perf_counter()
        artifact = None
        link_s = run_s = 0.0
        owns = False
        try:
            artifact = self._generator.compile(candidate)
            compile_s = time.perf_counter() - clock
        except CandidateError as error:
            compile_s = time.perf_counter() - clock
            verdict = Verdict(number, error.outcome, error=error.message)
        else:
            shared, owns = self._claim(artifact.digest)
            while not owns and budget_cycles is None and _was_cut_off(shared):
                shared, owns = self._claim(artifact.digest, instead_of=shared)
            if owns:
                verdict, link_s, run_s = self._measure(
                    candidate, artifact, number, budget_cycles, shared
                )
            else:
                verdict = shared.result()
        total_s = time.perf_counter() - clock
        trial = Trial(
            number=number,
            config=candidate.config,
            origin=origin,
            outcome=verdict.outcome,
            measurement=verdict.measurement,
            artifact_digest=artifact.digest if artifact else None,
            duplicate_of=verdict.trial_number if artifact and not owns else None,
            error=verdict.error,
            timings=Timings(compile_s, link_s, run_s, total_s - compile_s - link_s - run_s),
            started_at=started_at,
            finished_at=time.time(),
        )
        return Evaluation(trial, artifact)

    def measure(
        self, candidate: Candidate, artifact: Artifact, budget_cycles: int | None = None
    ) -> Timed:
        """Measures an artifact that is there, on another device if one fails.

        Raises ``CandidateError``; its outcome is ``device_error`` once enough devices failed.
        """
        return self._on_some_device(candidate, artifact, budget_cycles)

    def _claim(
        self, digest: str, instead_of: Future[Verdict] | None = None
    ) -> tuple[Future[Verdict], bool]:
        """The shared verdict on an object, and whether the caller is the one to reach it.

        One that is ``instead_of`` another will not do for the caller: it is reached anew.
        """
        with self._lock:
            known = self._verdicts.get(digest)
            if known is not None and known is not instead_of:
                return known, False
            self._verdicts[digest] = mine = Future[Verdict]()
            return mine, True

    def _measure(
        self,
        candidate: Candidate,
        artifact: Artifact,
        number: int,
        budget_cycles: int | None,
        shared: Future[Verdict],
    ) -> tuple[Verdict, float, float]:
        link_s = run_s = 0.0
        clock = time.perf_counter()
        try:
            timed = self._on_some_device(candidate, artifact, budget_cycles)
            verdict = Verdict(number, Outcome.OK, timed.measurement)
            link_s, run_s = timed.link_s, timed.run_s
        except CandidateError as error:
            verdict = Verdict(number, error.outcome, error=error.message)
            run_s = time.perf_counter() - clock
            if error.outcome is Outcome.DEVICE_ERROR:
                with self._lock:  # says nothing about the object: measure it again if it comes
                    del self._verdicts[artifact.digest]
        except BaseException as error:
            shared.set_exception(error)  # whoever waits for this object must not wait for ever
            raise
        shared.set_result(verdict)
        return verdict, link_s, run_s

    def _on_some_device(
        self, candidate: Candidate, artifact: Artifact, budget_cycles: int | None
    ) -> Timed:
        attempts = 0
        while True:
            try:
                return self._measurer.measure(
                    candidate.problem, artifact, budget_cycles=budget_cycles
                )
            except DeviceError as error:
                attempts += error.attempts
                if attempts >= DEVICE_ATTEMPTS:
                    raise CandidateError(
                        Outcome.DEVICE_ERROR, f"{error.message} (in {attempts} attempts)"
                    ) from None


def _was_cut_off(verdict: Future[Verdict]) -> bool:
    """Waits for the verdict."""
    return verdict.result().outcome is Outcome.CUTOFF
