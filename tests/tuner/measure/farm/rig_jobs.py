"""Tuning jobs over three emulated phones and two simulators, and what became of all five."""

from __future__ import annotations

import time
from collections import defaultdict
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
from tuner.measure.farm.roster import DeviceRecord, DeviceState
from tuner.measure.farm.work import WorkItem, WorkQueue
from tuner.records.candidate import Artifact, Candidate
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState, Promotion, Trial
from tuner.search.loop import Progress

TRIALS = 30
KERNEL = ("add_u8", {"width": 256, "height": 32})
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

Span = tuple[float, float]
"""From when to when, in Unix seconds."""
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
class Busy:
    """What share of a time a device worked: ``with_work`` of that in which there was work for it
    and it was in order, ``raw`` of the whole job."""

    with_work: float
    raw: float


@dataclass(frozen=True)
class Ran:
    """A job and what became of its devices."""

    store: MemoryStore
    state: JobState
    trials: list[Trial]
    promotions: list[Promotion]
    seconds: float
    busy: Mapping[str, Busy]

    @property
    def phone_runs(self) -> list[Trial] | list[Promotion]:
        """What the phones measured of it."""
        return self.promotions or self.trials

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
    waits = Waits()

    def told(progress: Progress) -> None:
        on_progress(progress.finished + progress.promoted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FARM_FILE_VARIABLE, str(farm))
        waits.watch(patch)
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
        began = time.time()
        result = tuning.run(job.id, store, on_progress=told)
    trials, promotions = store.trials(job.id), store.promotions(job.id)
    ended = max(one.finished_at or 0.0 for one in (*trials, *promotions))
    busy = {}
    for record in store.roster().devices():
        not_its_own = [*_out_of_order(store, record, ended), *waits.of(record.name, began)]
        its_own_s = ended - began - covered_s(not_its_own, began, ended)
        busy[record.name] = Busy(
            record.busy_s / its_own_s if its_own_s > 0 else 0.0, record.busy_s / (ended - began)
        )
    return Ran(store, result.job.state, trials, promotions, ended - began, busy)


class Waits:
    """When there was nothing to do for a device: before the first order for devices of its
    fidelity came, and while it waited for one."""

    def __init__(self) -> None:
        self._waited: dict[str, list[Span]] = defaultdict(list)
        self._queue_of: dict[str, WorkQueue] = {}
        self._first: dict[WorkQueue, float] = {}

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Notes orders and waits from here on, until ``patch`` is undone."""
        take, put = WorkQueue.take, WorkQueue.put

        def noting_take(queue: WorkQueue, device: str, most: int, wait_s: float) -> list[WorkItem]:
            asked = time.time()
            self._queue_of[device] = queue
            try:
                return take(queue, device, most, wait_s)
            finally:
                self._waited[device].append((asked, time.time()))

        def noting_put(queue: WorkQueue, order: WorkItem) -> None:
            self._first.setdefault(queue, time.time())
            put(queue, order)

        patch.setattr(WorkQueue, "take", noting_take)
        patch.setattr(WorkQueue, "put", noting_put)

    def of(self, device: str, began: float) -> list[Span]:
        """The times without work for ``device`` in a job that began then."""
        if device not in self._queue_of:
            return []
        return [(began, self._first[self._queue_of[device]]), *self._waited[device]]


def covered_s(spans: list[Span], began: float, ended: float) -> float:
    """How much of the time between two moments lies in any of ``spans``."""
    total, reached = 0.0, began
    for at, to in sorted(spans):
        if to > reached:
            total += max(0.0, min(to, ended) - max(at, reached))
            reached = max(reached, to)
    return total


def _table(number: int, phone: Phone) -> str:
    return f"""
[[phone]]
name = "phone-{number}"
address = "{phone.address}"
arch = "v66"
tool = "{TOOL}"
"""


def _out_of_order(store: MemoryStore, record: DeviceRecord, ended: float) -> list[Span]:
    """When a device was neither ready nor leased."""
    working = (DeviceState.READY, DeviceState.LEASED)
    events = [*reversed(store.roster().events(record.name, 1000))]
    ends = [*(event.at for event in events[1:]), ended]
    return [
        (event.at, end)
        for event, end in zip(events, ends, strict=True)
        if event.after not in working
    ]
