"""Tuning a set of workloads: one job for each, one budget for all, spent where it pays most.

The jobs share a batch. Every workload gets its textbook schedule first, which is what it is
compared with, then the first config of the code generator that promises most beside Halide, if the
jobs have several. Then :mod:`tuner.search.allocation` says which job gets the next few trials. They
begin with what gained most for the other workloads of the kernel. The default schedule is not run:
without vectors, a large layer takes the simulator minutes and tells nothing that helps.

Between its slices a job is stored as paused, so that nobody else takes it up, and a batch that was
stopped or killed resumes where it was. At the end of the time, candidates under way are abandoned:
they are then trials without an outcome, like those of a process that was killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from tuner.codegen import CodeGenerator, starts_of
from tuner.errors import UserError
from tuner.executor import find_executor
from tuner.jobs import tuning
from tuner.jobs.job_result import TuneResult, result
from tuner.keeping.store import TrialStore
from tuner.kernels import Kernel, find_kernel
from tuner.measure import DeviceAccess
from tuner.measure.measurer import AbandonableMeasurer
from tuner.measure.roofline import roofline_of
from tuner.records.batch import Batch, BatchKind, BatchPlan, NetworkLayer, NewJob
from tuner.records.candidate import Problem
from tuner.records.trial import (
    NOT_REACHED,
    Job,
    JobRequest,
    JobState,
    Submission,
    Trial,
)
from tuner.search.allocation import SearchState, next_search
from tuner.search.loop import Progress, TuningLoop
from tuner.search.samplers import Source
from tuner.search.stopping import StopRequest
from tuner.search.transfer import TEXTBOOK, Relative, moves, proposals, source_of
from tuner.space import Config, Space
from tuner.workload_sets import Member, WorkloadSet

_SLICE_TRIALS = 2
_OF_HALIDE = ("default", TEXTBOOK)
"""Origins of the starts that every generator has."""
_CUTOFF_FACTOR = 2.0
"""Less than in a job of its own: trials are few, and what runs twice as long as the best so far
says no more by its cycles than by being cut off."""
_NEAR_TRIALS = 6
"""Trials of a job before its sampler is asked, which would spread as many over the space if it
has no source."""
_MOST_TRIALS_OF_A_JOB = 10_000
_POLL_S = 0.2


@dataclass(frozen=True)
class SetProgress:
    """The progress of a batch; handed to the caller after every trial."""

    trials: int
    started: int
    """Workloads that have a verified schedule."""
    workloads: int
    best_cycles: int
    """Of all workloads started, each times its occurrences."""
    latest: str
    """The workload the last trial was of."""
    elapsed_s: float


@dataclass(frozen=True)
class SetResult:
    """The result of a batch: for each member of the set, in its order, that of its job."""

    batch: str
    members: tuple[tuple[Member, TuneResult], ...]
    interrupted: bool


NOT_IN_SETS = ("patience", "until_gain", "objectives", "promote_to", "promote", "transfer")
"""Options that a job of a batch does not have: its share of the budget ends it, and it always
begins with what others found."""


def submit(
    workloads: WorkloadSet,
    store: TrialStore,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    workers: int | None = None,
    layers: Sequence[NetworkLayer] = (),
    **options: Any,
) -> str:
    """Stores a job for every member of ``workloads`` and returns the batch they share.

    ``trials``, ``seconds`` and ``workers`` are those of :func:`run`, for who resumes the batch;
    ``layers`` are all layers of the network, if it is one. ``options`` are those of
    :func:`tuner.jobs.tuning.plan` but :data:`NOT_IN_SETS` and the limits. All jobs are planned
    before the first is stored.
    """
    kind: BatchKind = "network" if layers else "set"
    whole = BatchPlan(
        name=workloads.name,
        kind=kind,
        trials=trials,
        seconds=seconds,
        workers=workers,
        layers=tuple(layers),
    )
    settled = {**options, "trials": _MOST_TRIALS_OF_A_JOB, "workers": 1}
    plans = [
        tuning.plan_of_several(
            member.workload.kernel, member.workload.params, roster=store.roster(), **settled
        )
        for member in workloads.members
    ]
    jobs = [
        NewJob(
            replace(made.spec, cutoff_factor=_CUTOFF_FACTOR),
            made.space,
            made.toolchain,
            member.layers,
            Submission(),
        )
        for member, made in zip(workloads.members, plans, strict=True)
    ]
    return store.request_of_all(store.create_batch(whole, jobs).id, JobRequest.PAUSE).id


def workloads_of(batch: Batch, store: TrialStore) -> WorkloadSet:
    """The set that a batch was made from."""
    return WorkloadSet(
        batch.name,
        "",
        tuple(
            Member(store.job(member.job).spec.problem.workload, member.layers)
            for member in batch.members
        ),
    )


def run(
    batch: str,
    workloads: WorkloadSet,
    store: TrialStore,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    workers: int | None = None,
    on_progress: Callable[[SetProgress], None] | None = None,
    stop: threading.Event | None = None,
) -> SetResult:
    """Spends ``trials`` (of the whole batch) or ``seconds`` (of this call) on a batch's jobs.

    What is being compiled or run when ``seconds`` are over is abandoned.
    Stopped by ``stop``, it leaves the jobs to a later call; else they have ended afterwards. Raises
    ``UserError`` if the jobs are not those of ``workloads``, or toolchain or spaces have changed.
    """
    return _BatchRun(batch, workloads, store, trials, seconds, on_progress, stop).run(
        workers or tuning.default_workers()
    )


@dataclass(frozen=True)
class _Tools:
    """The tools that all jobs share: generators by name, as kernels may have their own, and the
    measurer."""

    generators: Mapping[str, CodeGenerator]
    measurer: AbandonableMeasurer

    def abandon(self) -> None:
        """Ends what is under way."""
        for generator in self.generators.values():
            generator.abandon()
        self.measurer.abandon()


class _SliceStop(StopRequest):
    """Ends one slice: after its trials, with the batch's time, or on request."""

    reason = "waits for its next slice of the batch"

    def __init__(self, over: Callable[[], bool]) -> None:
        super().__init__()
        self._over = over

    def is_set(self) -> bool:
        return super().is_set() or self._over()


class _BatchRun:
    """A running batch. ``_searches``, ``_jobs`` and the set's members go by the same positions."""

    def __init__(
        self,
        batch: str,
        workloads: WorkloadSet,
        store: TrialStore,
        trials: int | None,
        seconds: float | None,
        on_progress: Callable[[SetProgress], None] | None,
        stop: threading.Event | None,
    ) -> None:
        self._batch = batch
        self._members = workloads.members
        self._store = store
        self._jobs = _jobs_of(batch, workloads, store)
        self._most_trials = trials
        self._begun = time.monotonic()
        self._deadline = None if seconds is None else self._begun + seconds
        self._on_progress = on_progress
        self._stop = stop or threading.Event()
        self._lock = threading.Lock()
        self._relatives: dict[int, Relative] = {}
        """By position: what the search has found, for others of its kernel."""
        self._sources: dict[int, Source | None] = {}
        """By position: what an earlier job has measured."""
        self._alternatives = [self._alternative(job) for job in self._jobs]
        self._searches = [self._search(position) for position in range(len(self._members))]
        self._promised = 0
        """Trials that slices under way may still add."""

    def _search(self, position: int) -> SearchState:
        member, problem = self._members[position], self._problem(position)
        least = roofline_of(problem, self._store.job(self._jobs[position]).spec.cache).cycles
        seeds = 1 + len(self._alternatives[position])
        search = SearchState(member.occurrences, least, problem.workload.kernel, seeds)
        earlier = result(self._jobs[position], self._store)
        search.resume(
            sum(earlier.outcomes.values()),
            _cycles(earlier.textbook),
            _cycles(earlier.best),
            earlier.job.spent_s,
        )
        search.exhausted = earlier.job.state.ended
        return search

    def _alternative(self, job: str) -> list[tuple[Config, str]]:
        """The start that a portfolio has first besides Halide's, with its origin."""
        spec = self._store.job(job).spec
        starts = starts_of(spec.generator, find_kernel(spec.problem.workload.kernel), spec.problem)
        others = [(c, origin) for origin, c in starts.items() if origin not in _OF_HALIDE]
        return others[:1]

    def _problem(self, position: int) -> Problem:
        return self._store.job(self._jobs[position]).spec.problem

    def run(self, workers: int) -> SetResult:
        specs = [self._store.job(job).spec for job in self._jobs]
        spec = specs[0]
        made_by = find_executor()
        access = DeviceAccess(spec.on, self._store.roster(), f"batch {self._batch}")
        with (
            ExitStack() as opened,
            made_by.measurer(spec.measurer, spec.cache, access) as device,
            AbandonableMeasurer(device) as measurer,
            ThreadPoolExecutor(workers, "hvxtune-slice") as pool,
        ):
            names = dict.fromkeys(spec.generator for spec in specs)
            generators = {
                name: opened.enter_context(made_by.generator(name, workers)) for name in names
            }
            for position, job in enumerate(map(self._store.job, self._jobs)):
                kernel, generator = _kernel_of(job), generators[job.spec.generator]
                space = generator.space(kernel, job.spec.problem)
                tuning.require_same_tools(job, space, generator, measurer)
                self._introduce(position, job, kernel, space)
            self._share_out(pool, workers, _Tools(generators, measurer))
        interrupted = self._stop.is_set()
        if not interrupted:
            self._end()
        results = [result(job_id, self._store) for job_id in self._jobs]
        return SetResult(self._batch, tuple(zip(self._members, results, strict=True)), interrupted)

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    def _over(self, needed_s: float = 0.0) -> bool:
        """Whether nothing more may begin, or nothing that needs ``needed_s``."""
        left_s = self._seconds_left()
        return (left_s is not None and left_s <= needed_s) or self._stop.is_set()

    def _share_out(self, pool: ThreadPoolExecutor, workers: int, tools: _Tools) -> None:
        """Hands out slices until the budget is spent or nothing is left to search."""
        busy: dict[Future[None], int] = {}
        try:
            while True:
                while len(busy) < workers and not self._over():
                    left_s = self._seconds_left()
                    position = next_search(self._searches, list(busy.values()), left_s)
                    size = None if position is None else self._slice_of(position)
                    if position is None or not size:
                        break
                    busy[pool.submit(self._run_slice, position, size, tools)] = position
                if not busy:
                    return
                left_s = self._seconds_left()
                if left_s is not None and left_s <= 0:
                    tools.abandon()
                done, _ = wait(busy, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    del busy[future]
                    future.result()
        except BaseException:
            self._stop.set()  # what is under way ends with its candidate
            raise

    def _slice_of(self, position: int) -> int:
        """How many trials the search may have now; 0 if the budget is spent."""
        search = self._searches[position]
        wanted = 1 if search.trials < search.seeds else _SLICE_TRIALS
        with self._lock:
            if self._most_trials is not None:
                spent = sum(search.trials for search in self._searches) + self._promised
                wanted = max(0, min(wanted, self._most_trials - spent))
            self._promised += wanted
        return wanted

    def _run_slice(self, position: int, size: int, tools: _Tools) -> None:
        search, job_id = self._searches[position], self._jobs[position]
        if self._store.job(job_id).state.ended:  # somebody cancelled it
            self._end_of_slice(search, size, ended=True)
            return
        stop = _SliceStop(lambda: self._over(search.seconds_of_trial))
        end = search.trials + size

        def seen(progress: Progress) -> None:
            if progress.finished + 1 >= end:  # the next one is on its way already
                stop.set()
            self._tell(position, progress)

        token = self._store.claim(job_id)
        job = self._store.job(job_id)
        kernel, generator = _kernel_of(job), tools.generators[job.spec.generator]
        space = generator.space(kernel, job.spec.problem)
        if position not in self._sources:
            self._sources[position] = source_of(self._store, job, kernel, space)
        loop = TuningLoop(
            job,
            token,
            store=self._store,
            kernel=kernel,
            space=space,
            generator=generator,
            measurer=tools.measurer,
            on_progress=seen,
            stop=stop,
            source=self._sources[position],
            transfers=self._transfers(position),
            with_default=False,
        )
        loop.run()
        self._learn(position)
        ended = self._store.job(job_id).state.ended  # or was cancelled meanwhile
        self._end_of_slice(search, size, ended=ended)
        if not ended:
            self._store.request(job_id, JobRequest.PAUSE)

    def _end_of_slice(self, search: SearchState, size: int, *, ended: bool) -> None:
        with self._lock:
            self._promised -= size
            search.exhausted = ended

    def _introduce(self, position: int, job: Job, kernel: Kernel, space: Space) -> None:
        """Begins to hand on what the search finds, with what it has found in earlier sessions."""
        problem = job.spec.problem
        default = starts_of(job.spec.generator, kernel, problem)["default"]
        self._relatives[position] = Relative(job.id, problem, space, default)
        self._learn(position)

    def _learn(self, position: int) -> None:
        """Takes over what the search has found by now."""
        trials = self._store.trials(self._jobs[position])
        with self._lock:
            self._relatives[position].learn(trials)

    def _transfers(self, position: int) -> list[tuple[Config, str]]:
        """The first configs but the textbook one: its alternative, the most promising ones found
        for others of the batch, and without a source those near the best."""
        family = self._searches[position].family
        others = (n for n, search in enumerate(self._searches) if search.family == family)
        with self._lock:
            own = self._relatives[position]
            relatives = [self._relatives[other] for other in others if other != position]
            is_lost = self._sources[position] is None and own.trials < _NEAR_TRIALS
            found = [*proposals(own, relatives), *(moves(own) if is_lost else [])]
        return [*self._alternatives[position], *found]

    def _tell(self, position: int, progress: Progress) -> None:
        with self._lock:
            search = self._searches[position]
            if progress.finished > search.trials:
                search.record(progress.finished, _cycles(progress.incumbent), progress.elapsed_s)
            found = [(t.weight, t.best_cycles) for t in self._searches if t.best_cycles]
            whole = SetProgress(
                trials=sum(t.trials for t in self._searches),
                started=len(found),
                workloads=len(self._searches),
                best_cycles=sum(weight * cycles for weight, cycles in found),
                latest=self._members[position].layers[0],
                elapsed_s=time.monotonic() - self._begun,
            )
            if self._on_progress is not None:
                self._on_progress(whole)

    def _end(self) -> None:
        """Ends the jobs that slices left open."""
        for job_id, search in zip(self._jobs, self._searches, strict=True):
            if self._store.job(job_id).state.ended:
                continue
            token = self._store.claim(job_id)
            if search.trials == 0:
                self._store.release(job_id, token, JobState.CANCELLED, NOT_REACHED)
            elif search.best_cycles is None:
                note = "no valid trial before the budget of the batch was spent"
                self._store.release(job_id, token, JobState.FAILED, note)
            else:
                self._store.release(job_id, token, JobState.DONE)


def _kernel_of(job: Job) -> Kernel:
    return find_kernel(job.spec.problem.workload.kernel)


def _cycles(trial: Trial | None) -> int | None:
    return trial.measurement.cycles if trial and trial.measurement else None


def _jobs_of(batch: str, workloads: WorkloadSet, store: TrialStore) -> list[str]:
    """The ids of the batch's jobs, one for each member of the set."""
    found = store.batch(batch)
    jobs = {
        store.job(member.job).spec.problem.workload.digest: member.job for member in found.members
    }
    wanted = [member.workload.digest for member in workloads.members]
    if set(wanted) != set(jobs):
        raise UserError(
            f"batch {batch} was not made from the set {workloads.name} as it is now",
            next_step="name the set it was made from, or leave --batch out to begin a new one",
        )
    return [jobs[digest] for digest in wanted]
