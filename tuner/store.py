"""Where trials go: the contract that `db` implements, and the store that keeps them in memory."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from tuner.candidate import FIDELITIES, Artifact, CacheState, Fidelity, Problem
from tuner.errors import InternalError, StoreError, UserError
from tuner.identity import digest_of, digest_of_bytes
from tuner.outcome import Outcome
from tuner.space import Space
from tuner.trial import Job, JobSpec, JobState, PendingTrial, Schedule, Trial


class TrialStore(ABC):
    """Keeps jobs, trials, artifacts and schedules. The trial table is the only truth.

    Methods may be called from several threads. Each is one transaction: it happens wholly or not
    at all. All raise ``StoreError`` if the store cannot be used; nothing committed is lost then.
    ``token`` is the fencing token of :meth:`claim`: a writer whose claim was taken over or has
    ended gets ``StoreError`` and must stop. A record that breaks the rules below (a trial that
    ends twice, an artifact nobody stored) is a fault of the caller: ``InternalError``.
    """

    @abstractmethod
    def create_job(self, spec: JobSpec, space: Space, toolchain: Mapping[str, str]) -> Job:
        """A new job in state ``queued``."""

    @abstractmethod
    def job(self, job_id: str) -> Job:
        """The job; ``UserError`` if there is none (a unique prefix of its id is accepted)."""

    @abstractmethod
    def jobs(self, limit: int = 50) -> list[Job]:
        """The newest jobs, newest first."""

    @abstractmethod
    def claim(self, job_id: str) -> int:
        """Takes the job for this process, sets it ``running`` and returns a new fencing token.

        A claim lasts until :meth:`release`, :meth:`close`, or the end of the process. Raises
        ``UserError`` if a process that is still alive holds it, this one included.
        """

    @abstractmethod
    def commit(
        self,
        job_id: str,
        token: int,
        *,
        finished: Sequence[Trial] = (),
        started: Sequence[PendingTrial] = (),
        artifacts: Sequence[Artifact] = (),
        schedule: Schedule | None = None,
        spent_s: float | None = None,
    ) -> None:
        """Stores what finished and what was handed out next, in one transaction.

        A finished trial replaces its pending row; a trial ends once. Starting a pending trial
        again changes nothing. Artifacts are those of the finished trials: what a trial names must
        be stored by now. Of two artifacts with one object the first stays, and kinds of files it
        lacks are added. ``schedule`` becomes the best of its problem and fidelity if none stored
        with the same toolchain (``provenance``) is as fast.
        """

    @abstractmethod
    def release(self, job_id: str, token: int, state: JobState, note: str = "") -> None:
        """Ends this process's claim and sets the job's state."""

    @abstractmethod
    def trials(self, job_id: str) -> list[Trial]:
        """All finished trials, by number."""

    @abstractmethod
    def pending(self, job_id: str) -> list[PendingTrial]:
        """Trials handed out and not finished, by number."""

    @abstractmethod
    def artifact(self, digest: str) -> Artifact:
        """The artifact with that object digest; ``UserError`` if there is none."""

    @abstractmethod
    def best(
        self,
        problem: Problem,
        min_fidelity: Fidelity = "model",
        toolchain: Mapping[str, str] | None = None,
        cache: CacheState = "warm",
    ) -> Schedule | None:
        """The best stored schedule of exactly this problem, of the highest fidelity there is.

        Cycles of different toolchains are not compared: within that fidelity it is the best of
        ``toolchain``, or, without one, of the toolchain that a job was last created with. Nor
        are cycles of warm and of cold caches: only those measured under ``cache`` count.
        """

    @abstractmethod
    def close(self) -> None:
        """Frees connections. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def pick_job_id(given: str, ids: Iterable[str]) -> str:
    """The one of ``ids`` (newest first) that is ``given`` or starts with it; else ``UserError``."""
    known = list(ids)
    if given in known:
        return given
    matches = [job_id for job_id in known if given and job_id.startswith(given)]
    if len(matches) == 1:
        return matches[0]
    raise UserError(
        f"'{given}' is the start of several jobs" if matches else f"no job '{given}'",
        accepted=", ".join((matches or known)[:5]),
        next_step="`hvxtune jobs` lists them" if known else "`hvxtune tune KERNEL` makes the first",
    )


def claim_lost(job_id: str) -> StoreError:
    """What a writer gets that does not, or no longer, hold the claim on a job."""
    return StoreError(
        f"the claim on job {job_id} has ended or another process took it over",
        next_step=f"nothing was written; see who runs it with `hvxtune show {job_id}`",
    )


def require_named_by_object(artifact: Artifact) -> None:
    """``InternalError`` unless the digest of ``artifact`` is that of its object's bytes."""
    if artifact.files.keys() < {"object"} or (
        digest_of_bytes(artifact.object_bytes) != artifact.digest
    ):
        raise InternalError(f"artifact {artifact.digest} is not named by its object's digest")


def toolchain_of(schedule: Schedule) -> dict[str, str]:
    """The fingerprint in the provenance; ``InternalError`` if the provenance is not whole."""
    missing = PROVENANCE_KEYS - schedule.provenance.keys()
    if missing:
        raise InternalError(f"the provenance of a schedule lacks {', '.join(sorted(missing))}")
    return dict(schedule.provenance["toolchain"])


PROVENANCE_KEYS = frozenset({"job", "trial", "space_digest", "toolchain", "created_at"})
"""What the provenance of every stored schedule holds at least."""


class MemoryStore(TrialStore):
    """Keeps everything in this process; for scripts and tests. Obeys the whole contract."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._tokens: dict[str, int] = {}
        self._held: set[str] = set()
        self._trials: dict[str, dict[int, Trial]] = {}
        self._pending: dict[str, dict[int, PendingTrial]] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._schedules: dict[tuple[str, Fidelity, str], Schedule] = {}
        self._toolchains: list[str] = []
        """Digests, the last used one last."""

    def create_job(self, spec: JobSpec, space: Space, toolchain: Mapping[str, str]) -> Job:
        with self._lock:
            job = Job(
                id=f"m{len(self._jobs) + 1}",
                spec=spec,
                state=JobState.QUEUED,
                toolchain=dict(toolchain),
                space_digest=space.digest,
                created_at=time.time(),
            )
            self._jobs[job.id] = job
            self._tokens[job.id] = 0
            self._trials[job.id] = {}
            self._pending[job.id] = {}
            digest = digest_of(dict(toolchain))
            self._toolchains = [t for t in self._toolchains if t != digest] + [digest]
            return job

    def job(self, job_id: str) -> Job:
        with self._lock:
            return self._jobs[pick_job_id(job_id, reversed(self._jobs))]

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
            self._jobs[job.id] = replace(job, state=JobState.RUNNING)
            return self._tokens[job.id]

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
        spent_s: float | None = None,
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
            if schedule is not None:
                self._offer(schedule, known)
            # Nothing below can fail, so a refused commit leaves no trace.
            self._artifacts, self._trials[job.id], self._pending[job.id] = known, done, waiting
            if spent_s is not None:
                self._jobs[job.id] = replace(job, spent_s=spent_s)

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
        key = (schedule.problem.digest, schedule.measurement.fidelity, toolchain)
        best = self._schedules.get(key)
        if best is None or schedule.measurement.cycles < best.measurement.cycles:
            self._schedules[key] = schedule

    def release(self, job_id: str, token: int, state: JobState, note: str = "") -> None:
        with self._lock:
            job = self._claimed(job_id, token)
            self._held.remove(job.id)
            self._jobs[job.id] = replace(job, state=state, note=note)

    def trials(self, job_id: str) -> list[Trial]:
        with self._lock:
            return [t for _, t in sorted(self._trials[self.job(job_id).id].items())]

    def pending(self, job_id: str) -> list[PendingTrial]:
        with self._lock:
            return [t for _, t in sorted(self._pending[self.job(job_id).id].items())]

    def artifact(self, digest: str) -> Artifact:
        try:
            return self._artifacts[digest]
        except KeyError:
            raise UserError(f"no artifact '{digest}'") from None

    def best(
        self,
        problem: Problem,
        min_fidelity: Fidelity = "model",
        toolchain: Mapping[str, str] | None = None,
        cache: CacheState = "warm",
    ) -> Schedule | None:
        with self._lock:
            wanted = self._toolchains[::-1] if toolchain is None else [digest_of(dict(toolchain))]
            for fidelity in reversed(FIDELITIES[FIDELITIES.index(min_fidelity) :]):
                for digest in wanted:
                    found = self._schedules.get((problem.digest, fidelity, digest))
                    if found is not None and found.measurement.cache == cache:
                        return found
            return None

    def close(self) -> None:
        with self._lock:
            self._held.clear()


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
