"""Tuning jobs over three emulated phones and two simulators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from tests.rig.phones import TOOL, Phone
from tuner.codegen import CodeGenerator, find_generator
from tuner.conformance.candidates import scale_artifact
from tuner.jobs import tuning
from tuner.keeping.memory_store import MemoryStore
from tuner.measure.farm.farm_file import FARM_FILE_VARIABLE
from tuner.records.candidate import Artifact, Candidate
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState, Promotion, Trial
from tuner.search.loop import Progress

TRIALS = 30
KERNEL = ("add_u8", {"width": 512, "height": 64})
LIMITS = """
[limits]
cool_down_s = 0.3
recheck_s = 0.1
task_s = 4
turn_s = 2
wait_s = 60
bundle = 4
repeats = 6
gold_interval_s = 60
checks_to_quarantine = 2

[[simulator]]
name = "sim"
slots = 2
"""
_DOES_WRONG = {0: "NOTHING_AT_ALL", 1: "RETURNS_AN_ERROR", 2: "NULL_STORE"}

Truth = Mapping[str, tuple[Outcome, int | None]]
"""Outcome and cycles of a config on devices without a fault."""


class KeptObjects(CodeGenerator):
    """Compiles each config once for all jobs of this process; some become bad candidates."""

    name = "halide"
    _kept: ClassVar[dict[str, Artifact]] = {}

    def __init__(self, workers: int = 1) -> None:
        self._generator = find_generator("halide")(workers)

    def fingerprint(self) -> Mapping[str, str]:
        return self._generator.fingerprint()

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        digest = candidate.config.digest
        if digest not in self._kept:
            wrong = _DOES_WRONG.get(int(digest[:4], 16) % 16)
            self._kept[digest] = (
                self._generator.compile(candidate)
                if wrong is None
                else scale_artifact(candidate.problem, wrong, ("-fPIC",))
            )
        return self._kept[digest]

    def close(self) -> None:
        self._generator.close()


@dataclass(frozen=True)
class Ran:
    """A job, as its store has it."""

    store: MemoryStore
    state: JobState
    trials: list[Trial]
    promotions: list[Promotion]

    @property
    def distinct_good(self) -> int:
        """Candidates that may be promoted."""
        return sum(t.measurement is not None and t.duplicate_of is None for t in self.trials)

    def truth(self) -> Truth:
        """What each config came to in the search."""
        return {
            t.config.digest: (t.outcome, t.measurement.cycles if t.measurement else None)
            for t in self.trials
        }

    def worst_error(self, on_simulators: Truth | None, on_phones: Truth) -> float:
        """By which share the worst accepted measurement is off; simulators are never off."""
        worst = 0.0
        digests = {trial.number: trial.config.digest for trial in self.trials}
        for trial in self.trials:
            if trial.measurement is None:
                continue
            cycles = (on_simulators or on_phones)[trial.config.digest][1]
            error = abs(trial.measurement.cycles / (cycles or 1) - 1)
            assert not (on_simulators and error)
            worst = max(worst, error)
        for promotion in self.promotions:
            if promotion.measurement is not None:
                cycles = on_phones[digests[promotion.trial]][1]
                worst = max(worst, abs(promotion.measurement.cycles / (cycles or 1) - 1))
        return worst


def run_job(
    phones: list[Phone],
    farm: Path,
    *,
    ladder: bool,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Ran:
    """One job, as ``hvxtune tune --measurer farm`` runs it.

    With ``ladder`` it searches on the simulators and every good candidate goes on to the phones
    (``--on simulator --promote-to phone``), else it searches on the phones. ``on_progress`` is
    told how many measurements have come back.
    """
    farm.write_text(LIMITS + "".join(_table(n, phone) for n, phone in enumerate(phones)))
    store = MemoryStore()

    def told(progress: Progress) -> None:
        on_progress(progress.finished + progress.promoted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FARM_FILE_VARIABLE, str(farm))
        kernel, params = KERNEL
        job = tuning.submit(
            kernel,
            params,
            store=store,
            trials=TRIALS,
            generator="halide",
            sampler="random",
            seed=1,
            measurer="farm",
            on="simulator" if ladder else "phone",
            promote_to="phone" if ladder else "",
            promote=TRIALS,
            workers=24,
        )
        result = tuning.run(job.id, store, on_progress=told)
    trials, promotions = store.trials(job.id), store.promotions(job.id)
    return Ran(store, result.job.state, trials, promotions)


def _table(number: int, phone: Phone) -> str:
    return f"""
[[phone]]
name = "phone-{number}"
address = "{phone.address}"
arch = "v66"
tool = "{TOOL}"
"""
