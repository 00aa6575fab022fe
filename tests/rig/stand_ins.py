"""Stand-ins for the code generator and the measurer, for tests of the loop around them.

They compile and run nothing: the "object" is a text made from the config, its "cycles" a formula.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from tuner.codegen import find_generator
from tuner.codegen.generator import CodeGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.conformance.records import as_counted
from tuner.errors import CandidateError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel
from tuner.measure.measurer import Measurer, Timed
from tuner.problem.target import Target
from tuner.records.candidate import Artifact, CacheState, Candidate, Fidelity, Measurement, Problem
from tuner.records.outcome import Outcome
from tuner.space import Config, KnobValue, Space

Fault = Callable[[Config], Exception | None]


def no_fault(config: Config) -> Exception | None:
    """For configs that all behave."""
    return None


_SYMBOL = b"\0stand_in\0"


class StandInGenerator(CodeGenerator):
    """``object_of`` gives the object's text; ``fault`` an error to raise for a config;
    ``identity_of`` what is known of the object before, and ``alike`` what is said of it after."""

    name = "stand-in"

    def __init__(
        self,
        workers: int = 1,
        *,
        object_of: Callable[[Config], str] = lambda config: config.json,
        fault: Fault = no_fault,
        identity_of: Callable[[Config], str | None] = lambda config: None,
        alike: Mapping[str, frozenset[KnobValue]] | None = None,
    ) -> None:
        self.object_of = object_of
        self.identity_of = identity_of
        self.alike = alike or {}
        self.fault = fault
        self.compiled: Counter[str] = Counter()
        self._lock = threading.Lock()

    def fingerprint(self) -> Mapping[str, str]:
        return {"generator": "stand-in"}

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        with self._lock:
            self.compiled[candidate.config.digest] += 1
        error = self.fault(candidate.config)
        if error is not None:
            raise error
        return replace(stand_in_artifact(self.object_of(candidate.config)), alike=self.alike)

    def identity(self, candidate: Candidate, *, at_once: bool = False) -> str | None:
        return None if at_once else self.identity_of(candidate.config)

    def close(self) -> None:
        pass


def standing_in_for(
    name: str, stand_in: type[StandInGenerator] = StandInGenerator
) -> type[StandInGenerator]:
    """``stand_in`` with the spaces and starts of the generator called ``name``."""
    real = find_generator(name)

    class StandingIn(stand_in):
        alternatives = real.alternatives

        @classmethod
        def space(cls, kernel: Kernel, problem: Problem) -> Space:
            return real.space(kernel, problem)

        @classmethod
        def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
            return real.starts(kernel, problem)

    return StandingIn


def stand_in_artifact(text: str) -> Artifact:
    """An "object" that is ``text``, and as all objects names what it defines."""
    data = text.encode() + _SYMBOL
    return Artifact(digest_of_bytes(data), "stand_in", {"object": data})


def text_of(artifact: Artifact) -> str:
    """The text that it was made of."""
    return artifact.object_bytes.removesuffix(_SYMBOL).decode()


class StandInMeasurer(Measurer):
    """``cycles_of`` turns the object's text into cycles; a ``CandidateError`` may be raised.
    ``events_of`` gives the events that a timing model would have counted.

    What takes more cycles than its budget is cut off. The first ``gather`` runs wait for each
    other, so that they are under way at once.
    """

    name = "stand-in"

    def __init__(
        self,
        cycles_of: Callable[[str], int] = len,
        *,
        gather: int = 0,
        cache: CacheState = "warm",
        fidelity: Fidelity = "model",
    ) -> None:
        self.fidelity = fidelity
        self.cache = cache
        self.cycles_of = cycles_of
        self.code_bytes_of: Callable[[str], int] = lambda text: 0
        self.events_of: Callable[[str], Mapping[str, int]] | None = None
        self.gather = gather
        self._gathered = threading.Event()
        self.measured: Counter[str] = Counter()
        self.budgets: list[int | None] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def fingerprint(self) -> Mapping[str, str]:
        return {"measurer": "stand-in", "cache": self.cache}

    def require(self, target: Target) -> None:
        pass

    def measure(
        self, problem: Problem, artifact: Artifact, *, budget_cycles: int | None = None
    ) -> Timed:
        with self._lock:
            self.measured[artifact.digest] += 1
            self.budgets.append(budget_cycles)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            if self._at_once >= self.gather:
                self._gathered.set()
        assert self._gathered.wait(PATIENCE_S)
        with self._lock:
            self._at_once -= 1
        cycles = self.cycles_of(text_of(artifact))
        if budget_cycles is not None and cycles > budget_cycles:
            raise CandidateError(Outcome.CUTOFF, f"over {budget_cycles} cycles")
        measurement = Measurement(
            cycles=cycles,
            packets=cycles,
            stalls=0,
            verified=True,
            fidelity=self.fidelity,
            device="stand-in",
            samples=(cycles,),
            code_bytes=self.code_bytes_of(text_of(artifact)),
            cache=self.cache,
            event_counts=None
            if self.events_of is None
            else {"loops": [0], "counts": [dict(self.events_of(text_of(artifact)))]},
        )
        counted = as_counted(measurement, problem.target)
        return Timed(counted, link_s=0.0, run_s=0.0)

    def close(self) -> None:
        pass
