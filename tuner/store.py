"""Where trials go: the contract that `db` implements, and the store that keeps them in memory."""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tuner.candidate import Artifact, Fidelity, Problem
from tuner.errors import UserError
from tuner.space import Space
from tuner.trial import Job, JobSpec, JobState, PendingTrial, Schedule, Trial


class TrialStore(ABC):
    """Keeps jobs, trials, artifacts and schedules. The trial table is the only truth.

    Methods may be called from several threads. Each is one transaction: it happens wholly or not
    at all. All raise ``StoreError`` if the store cannot be used; nothing committed is lost then.
    ``token`` is the fencing token of :meth:`claim`: a writer whose claim was taken over gets
    ``StoreError`` and must stop.
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

        Raises ``UserError`` if a process that is still alive holds it.
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

        A finished trial replaces its pending row. Artifacts are those of the finished trials;
        ``schedule`` becomes the best of its problem and fidelity if none stored is faster with
        the same toolchain.
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
    def best(self, problem: Problem, min_fidelity: Fidelity = "model") -> Schedule | None:
        """The best stored schedule of exactly this problem, of the highest fidelity there is."""

    @abstractmethod
    def close(self) -> None:
        """Frees connections. Safe to call twice."""


class MemoryStore(TrialStore):
    """Keeps everything in this process; for scripts and tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._tokens: dict[str, int] = {}
        self._trials: dict[str, dict[int, Trial]] = {}
        self._pending: dict[str, dict[int, PendingTrial]] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._schedules: dict[str, Schedule] = {}
        self._ids = itertools.count(1)

    def create_job(self, spec: JobSpec, space: Space, toolchain: Mapping[str, str]) -> Job:
        with self._lock:
            job = Job(
                id=f"m{next(self._ids)}",
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
            return job

    def job(self, job_id: str) -> Job:
        try:
            return self._jobs[job_id]
        except KeyError:
            raise UserError(f"no job '{job_id}'", accepted=", ".join(self._jobs)) from None

    def jobs(self, limit: int = 50) -> list[Job]:
        return list(self._jobs.values())[::-1][:limit]

    def claim(self, job_id: str) -> int:
        job = self.job(job_id)
        with self._lock:
            self._tokens[job.id] += 1
            self._jobs[job.id] = replace(job, state=JobState.RUNNING)
            return self._tokens[job.id]

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
            for trial in finished:
                self._trials[job_id][trial.number] = trial
                self._pending[job_id].pop(trial.number, None)
            for pending in started:
                self._pending[job_id][pending.number] = pending
            for artifact in artifacts:
                self._artifacts[artifact.digest] = artifact
            if schedule is not None:
                key = schedule.problem.digest
                known = self._schedules.get(key)
                if known is None or schedule.measurement.cycles < known.measurement.cycles:
                    self._schedules[key] = schedule
            if spent_s is not None:
                self._jobs[job_id] = replace(self._jobs[job_id], spent_s=spent_s)

    def release(self, job_id: str, token: int, state: JobState, note: str = "") -> None:
        with self._lock:
            self._jobs[job_id] = replace(self._jobs[job_id], state=state, note=note)

    def trials(self, job_id: str) -> list[Trial]:
        return [t for _, t in sorted(self._trials[job_id].items())]

    def pending(self, job_id: str) -> list[PendingTrial]:
        return [t for _, t in sorted(self._pending[job_id].items())]

    def artifact(self, digest: str) -> Artifact:
        try:
            return self._artifacts[digest]
        except KeyError:
            raise UserError(f"no artifact '{digest}'") from None

    def best(self, problem: Problem, min_fidelity: Fidelity = "model") -> Schedule | None:
        return self._schedules.get(problem.digest)

    def close(self) -> None:
        pass
