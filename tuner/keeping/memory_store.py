"""The trial store that keeps everything in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

from tuner.errors import InternalError, NotStoredError, UserError
from tuner.identity import digest_of
from tuner.keeping.best import Lookup, Standing, first_valid, in_order
from tuner.keeping.store import (
    TrialStore,
    as_requested,
    claim_lost,
    pick_batch_id,
    pick_job_id,
    problem_distance,
    require_named_by_object,
    require_open,
    toolchain_of,
)
from tuner.measure.farm.roster import MemoryRoster
from tuner.records.batch import Batch, BatchPlan, NewJob, made_batch
from tuner.records.candidate import Artifact, CacheState, Fidelity, Preference, Problem
from tuner.records.outcome import Outcome
from tuner.records.trial import (
    Job,
    JobRequest,
    JobSpec,
    JobState,
    PendingTrial,
    Promotion,
    RemainingGain,
    Schedule,
    Submission,
    Trial,
)
from tuner.space import Space


class _Key(NamedTuple):
    """One schedule is stored for each."""

    problem: Problem
    fidelity: Fidelity
    toolchain: str
    audience: str
    prefer: Preference


class MemoryStore(TrialStore):
    """Keeps everything in this process; for scripts and tests. Obeys the whole contract.

    ``fault`` says why a schedule must not be handed out: by default, that its config is outside
    its space now.
    """

    def __init__(self, fault: Callable[[Schedule], str] | None = None) -> None:
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._batches: dict[str, Batch] = {}
        self._tokens: dict[str, int] = {}
        self._held: set[str] = set()
        self._requested: dict[str, JobRequest] = {}
        self._trials: dict[str, dict[int, Trial]] = {}
        self._pending: dict[str, dict[int, PendingTrial]] = {}
        self._promotions: dict[str, dict[int, Promotion]] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._schedules: dict[_Key, Schedule] = {}
        self._quarantined: list[tuple[_Key, Schedule]] = []
        self._toolchains: dict[str, Mapping[str, str]] = {}
        """Fingerprints by digest, the last used one last."""
        self._fault = fault or _outside_space
        self._roster = MemoryRoster()

    @classmethod
    def open(cls, url: str | None = None) -> Self:
        return cls()

    def create_job(
        self,
        spec: JobSpec,
        space: Space,
        toolchain: Mapping[str, str],
        submission: Submission | None = None,
    ) -> Job:
        with self._lock:
            job = Job(
                id=f"m{len(self._jobs) + 1}",
                spec=spec,
                state=JobState.QUEUED,
                toolchain=dict(toolchain),
                space_digest=space.digest,
                created_at=time.time(),
                submission=submission or Submission(),
            )
            self._jobs[job.id] = job
            self._tokens[job.id] = 0
            self._trials[job.id] = {}
            self._pending[job.id] = {}
            self._promotions[job.id] = {}
            self._use(toolchain)
            return job

    def _use(self, toolchain: Mapping[str, str]) -> None:
        digest = digest_of(dict(toolchain))
        self._toolchains.pop(digest, None)
        self._toolchains[digest] = dict(toolchain)

    def job(self, job_id: str) -> Job:
        with self._lock:
            return self._jobs[pick_job_id(job_id, reversed(self._jobs), self._batches)]

    def create_batch(self, plan: BatchPlan, jobs: Sequence[NewJob]) -> Batch:
        with self._lock:
            batch_id = f"b{len(self._batches) + 1}"
            self._batches[batch_id] = made_batch(
                batch_id,
                plan,
                jobs,
                lambda one: self.create_job(one.spec, one.space, one.toolchain, one.submission),
            )
            return self._batches[batch_id]

    def batch(self, batch_id: str) -> Batch:
        with self._lock:
            return self._batches[pick_batch_id(batch_id, reversed(self._batches), self._jobs)]

    def jobs(self, limit: int = 50) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())[::-1][:limit]

    def claim(self, job_id: str) -> int:
        with self._lock:
            job = self.job(job_id)
            if job.id in self._held:
                raise UserError(
                    f"job {job.id} is already running in this process",
                    next_step="wait until it ends",
                )
            self._held.add(job.id)
            self._tokens[job.id] += 1
            self._jobs[job.id] = replace(job, state=JobState.RUNNING, paused=False, note="")
            return self._tokens[job.id]

    def heartbeat(self, job_id: str, token: int) -> JobRequest | None:
        with self._lock:
            return self._requested.get(self._claimed(job_id, token).id)

    def request(self, job_id: str, request: JobRequest) -> Job:
        with self._lock:
            job = self.job(job_id)
            require_open(job, request)
            if job.id not in self._held:
                self._jobs[job.id] = as_requested(replace(job, state=JobState.QUEUED), request)
            elif request is JobRequest.RESUME:
                if self._requested.get(job.id) is JobRequest.PAUSE:
                    del self._requested[job.id]
            elif self._requested.get(job.id) is not JobRequest.CANCEL:
                self._requested[job.id] = request
            return self._jobs[job.id]

    def _claimed(self, job_id: str, token: int) -> Job:
        job = self.job(job_id)
        if job.id not in self._held or self._tokens[job.id] != token:
            raise claim_lost(job.id)
        return job

    def commit(
        self,
        job_id: str,
        token: int,
        *,
        finished: Sequence[Trial] = (),
        started: Sequence[PendingTrial] = (),
        artifacts: Sequence[Artifact] = (),
        schedule: Schedule | None = None,
        promotions: Sequence[Promotion] = (),
        spent_s: float | None = None,
        remaining: RemainingGain | None = None,
    ) -> None:
        with self._lock:
            job = self._claimed(job_id, token)
            known = self._merged(artifacts)
            done = dict(self._trials[job.id])
            for trial in finished:
                _require_fits(trial, done, known)
                done[trial.number] = trial
            waiting = {n: t for n, t in self._pending[job.id].items() if n not in done}
            for pending in started:
                if pending.number in done:
                    raise InternalError(f"trial {pending.number} of job {job.id} has ended before")
                waiting.setdefault(pending.number, pending)
            for trial in finished:
                if trial.duplicate_of is not None and trial.duplicate_of not in {*done, *waiting}:
                    raise InternalError(f"trial {trial.number} duplicates one that is not stored")
            promoted = dict(self._promotions[job.id])
            for promotion in promotions:
                _require_promotable(promotion, done, promoted)
                if promotion.outcome is not None or promotion.trial not in promoted:
                    promoted[promotion.trial] = promotion
            if schedule is not None:
                self._offer(schedule, known)
            # Nothing below can fail, so a refused commit leaves no trace.
            self._artifacts, self._trials[job.id], self._pending[job.id] = known, done, waiting
            self._promotions[job.id] = promoted
            for promotion in promotions:
                self._use(promotion.toolchain)
            self._jobs[job.id] = replace(
                job,
                spent_s=job.spent_s if spent_s is None else spent_s,
                remaining=remaining or job.remaining,
            )

    def _merged(self, artifacts: Sequence[Artifact]) -> dict[str, Artifact]:
        known = dict(self._artifacts)
        for artifact in artifacts:
            require_named_by_object(artifact)
            first = known.get(artifact.digest, artifact)
            known[artifact.digest] = replace(first, files={**artifact.files, **first.files})
        return known

    def _offer(self, schedule: Schedule, artifacts: Mapping[str, Artifact]) -> None:
        toolchain = digest_of(toolchain_of(schedule))
        if schedule.artifact_digest not in artifacts:
            raise InternalError(f"artifact {schedule.artifact_digest} is not stored")
        job = self._jobs.get(str(schedule.provenance["job"]))
        key = _Key(
            schedule.problem,
            schedule.measurement.fidelity,
            toolchain,
            "" if job is None else job.submission.audience,
            schedule.prefer,
        )
        best = self._schedules.get(key)
        is_better = best is None or schedule.ranked_cycles < best.ranked_cycles
        if is_better and not self._is_quarantined(key, schedule):
            self._schedules[key] = schedule

    def _is_quarantined(self, key: _Key, schedule: Schedule) -> bool:
        """Whether its config or its object is, be it by another's schedule."""
        return any(
            key[:3] == other[:3]
            and (schedule.config == bad.config or schedule.artifact_digest == bad.artifact_digest)
            for other, bad in self._quarantined
        )

    def release(self, job_id: str, token: int, state: JobState, note: str = "") -> None:
        with self._lock:
            job = self._claimed(job_id, token)
            self._held.remove(job.id)
            released = replace(job, state=state, note=note)
            request = self._requested.pop(job.id, None)
            if request is not None and state is JobState.QUEUED:
                released = as_requested(released, request)
            self._jobs[job.id] = released

    def trials(self, job_id: str) -> list[Trial]:
        with self._lock:
            return [t for _, t in sorted(self._trials[self.job(job_id).id].items())]

    def pending(self, job_id: str) -> list[PendingTrial]:
        with self._lock:
            return [t for _, t in sorted(self._pending[self.job(job_id).id].items())]

    def promotions(self, job_id: str) -> list[Promotion]:
        with self._lock:
            return [p for _, p in sorted(self._promotions[self.job(job_id).id].items())]

    def near_jobs(
        self, spec: JobSpec, *, before: float, least: int, most: int, audience: str = ""
    ) -> list[Job]:
        asked = spec.problem
        with self._lock:
            known: dict[Problem, tuple[int, Job]] = {}
            for job in sorted(self._jobs.values(), key=lambda job: job.id):
                other, asks = job.spec.problem, (job.spec.generator, job.spec.cache)
                if other == asked or not _same_kernel(other, asked):
                    continue
                if asks != (spec.generator, spec.cache):
                    continue
                if job.submission.audience not in ("", audience):
                    continue
                trials = self._trials[job.id].values()
                measured = sum(
                    t.finished_at <= before and t.measurement is not None for t in trials
                )
                if measured >= max(least, known[other][0] + 1 if other in known else 1):
                    known[other] = measured, job
        nearest = sorted(known, key=lambda p: (problem_distance(p, asked), p.digest))
        return [known[problem][1] for problem in nearest[:most]]

    def artifact(self, digest: str) -> Artifact:
        try:
            return self._artifacts[digest]
        except KeyError:
            raise NotStoredError(f"no artifact '{digest}'") from None

    def best(self, lookup: Lookup) -> Schedule | None:
        with self._lock:
            found = first_valid(
                lambda: self._fitting(lookup),
                lambda one: self._fault(one[1]),
                lambda one, _: self._withdraw(*one),
            )
            return None if found is None else found[1]

    def _fitting(self, lookup: Lookup) -> list[tuple[_Key, Schedule]]:
        """The schedules that fit, best first."""
        problems = {lookup.stored_under(contract) for contract in lookup.contracts}
        found = [
            (key, schedule)
            for key, schedule in self._schedules.items()
            if key.problem in problems
            and key.fidelity in lookup.fidelities
            and key.audience in ("", lookup.audience)
            and lookup.toolchain in ("", key.toolchain)
            and schedule.measurement.cache == lookup.cache
        ]
        used_at = {digest: at for at, digest in enumerate(self._toolchains)}

        def standing(one: tuple[_Key, Schedule]) -> Standing:
            (problem, fidelity, toolchain, *_), schedule = one
            cycles = schedule.measurement.ranked_cycles(lookup.prefer)
            return fidelity, used_at.get(toolchain, -1), toolchain, cycles, problem.contract

        fingerprints = {key.toolchain: toolchain_of(schedule) for key, schedule in found}
        return in_order(found, standing, fingerprints.__getitem__)

    def quarantine(self, public_id: str, reason: str) -> bool:
        with self._lock:
            found = [one for one in self._schedules.items() if one[1].public_id == public_id]
            for key, schedule in found:
                self._withdraw(key, schedule)
            return bool(found) or public_id in {one.public_id for _, one in self._quarantined}

    def _withdraw(self, key: _Key, schedule: Schedule) -> None:
        """Quarantines it, and offers what was measured in the same way."""
        del self._schedules[key]
        self._quarantined.append((key, schedule))
        for job in self._jobs.values():
            if job.spec.problem == key.problem and job.submission.audience == key.audience:
                for other in self._schedules_of(job, key, schedule.measurement.cache):
                    self._offer(other, self._artifacts)

    def _schedules_of(self, job: Job, key: _Key, cache: CacheState) -> Iterator[Schedule]:
        """One for each trial and promotion of ``job`` of the fidelity and toolchain of ``key``."""
        trials = self._trials[job.id]
        measured = [(t, t.measurement, None) for t in trials.values()]
        promoted = [
            (trials[p.trial], p.measurement, p.toolchain) for p in self._promotions[job.id].values()
        ]
        for trial, measurement, promoted_with in (*measured, *promoted):
            if measurement is None or trial.artifact_digest is None:
                continue
            toolchain = digest_of(dict(promoted_with or job.toolchain))
            if (measurement.fidelity, toolchain, measurement.cache) == (*key[1:3], cache):
                yield Schedule(
                    problem=key.problem,
                    config=trial.config,
                    generator=job.spec.generator,
                    measurement=measurement,
                    artifact_digest=trial.artifact_digest,
                    symbol=self._artifacts[trial.artifact_digest].symbol,
                    provenance=job.provenance(trial.number, trial.finished_at, promoted_with),
                )

    def roster(self) -> MemoryRoster:
        return self._roster

    def close(self) -> None:
        with self._lock:
            self._held.clear()


def _outside_space(schedule: Schedule) -> str:
    # Late: spaces and generators are needed by those alone who ask for the best.
    from tuner.codegen.judged import outside_space

    return outside_space(schedule.problem, schedule.config.as_dict(), schedule.generator)


def _same_kernel(one: Problem, other: Problem) -> bool:
    a, b = one.workload, other.workload
    return (a.kernel, a.version) == (b.kernel, b.version)


def _require_fits(
    trial: Trial, done: Mapping[int, Trial], artifacts: Mapping[str, Artifact]
) -> None:
    """``InternalError`` if ``trial`` has ended before or names an artifact that is not stored."""
    if trial.number in done:
        raise InternalError(f"trial {trial.number} has ended before")
    if trial.outcome is Outcome.OK and trial.artifact_digest is None:
        raise InternalError(f"trial {trial.number} is ok but names no artifact")
    if trial.artifact_digest is not None and trial.artifact_digest not in artifacts:
        raise InternalError(f"trial {trial.number}: artifact {trial.artifact_digest} is not stored")


def _require_promotable(
    promotion: Promotion, done: Mapping[int, Trial], promoted: Mapping[int, Promotion]
) -> None:
    """``InternalError`` if it has ended before, or its trial is not a stored one that is ok."""
    trial = done.get(promotion.trial)
    if trial is None or trial.outcome is not Outcome.OK:
        raise InternalError(f"trial {promotion.trial} is not stored as ok: it cannot be promoted")
    before = promoted.get(promotion.trial)
    if before is not None and before.outcome is not None:
        raise InternalError(f"the promotion of trial {promotion.trial} has ended before")
