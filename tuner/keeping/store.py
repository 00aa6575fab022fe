"""The contract of stores: ``db`` implements it over SQL, ``memory_store`` in memory."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from tuner.errors import InternalError, NotStoredError, StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.best import Lookup
from tuner.measure.farm.roster import Roster
from tuner.records.batch import Batch, BatchPlan, NewJob
from tuner.records.candidate import Artifact, Problem
from tuner.records.trial import (
    CountedTrial,
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


class TrialStore(ABC):
    """Keeps jobs, trials, artifacts and schedules. The trial table is the only truth.

    Methods may be called from several threads. Each is one transaction: it happens wholly or not
    at all. All raise ``StoreError`` if the store cannot be used; nothing committed is lost then.
    ``token`` is the fencing token of :meth:`claim`: a writer whose claim was taken over or has
    ended gets ``StoreError`` and must stop. A record that breaks the rules below (a trial that
    ends twice, an artifact that was not stored) is a fault of the caller: ``InternalError``.
    """

    @classmethod
    @abstractmethod
    def open(cls, url: str | None) -> Self:
        """The store at ``url``, ready to be used; ``StoreError`` if it cannot be.

        ``url`` is of the scheme that the class is registered for: see :mod:`db`.
        """

    @abstractmethod
    def create_job(
        self,
        spec: JobSpec,
        space: Space,
        toolchain: Mapping[str, str],
        submission: Submission | None = None,
    ) -> Job:
        """A new job in state ``queued``."""

    @abstractmethod
    def job(self, job_id: str) -> Job:
        """The job; ``UserError`` if it is unknown. A unique prefix of its id will do."""

    @abstractmethod
    def jobs(self, limit: int = 50) -> list[Job]:
        """The newest jobs, newest first."""

    @abstractmethod
    def create_batch(self, plan: BatchPlan, jobs: Sequence[NewJob]) -> Batch:
        """New jobs in state ``queued``, and the batch they are."""

    @abstractmethod
    def batch(self, batch_id: str) -> Batch:
        """The batch; ``UserError`` if it is unknown. A unique prefix of its id will do."""

    def request_of_all(self, batch_id: str, request: JobRequest) -> Batch:
        """Asks all jobs of a batch that have not ended, as :meth:`request` does, and returns the
        batch. ``UserError`` if all have ended."""
        batch = self.batch(batch_id)
        jobs = [self.job(member.job) for member in batch.members]
        require_any_open(batch, jobs, request)
        for job in jobs:
            if job.state.ended:
                continue
            try:
                self.request(job.id, request)
            except UserError:
                if not self.job(job.id).state.ended:  # since it was looked at
                    raise
        return batch

    @abstractmethod
    def claim(self, job_id: str) -> int:
        """Takes the job for this process, sets it ``running`` and returns a new fencing token.

        A claim lasts until :meth:`release`, :meth:`close`, or the end of the process. Raises
        ``UserError`` if a process that is still alive holds it, this one included.
        """

    @abstractmethod
    def heartbeat(self, job_id: str, token: int) -> JobRequest | None:
        """Keeps the claim alive, and tells whether its holder has been asked to cancel or pause.

        To be called every few seconds while a job runs; costs next to nothing. ``StoreError``
        if the claim is lost.
        """

    @abstractmethod
    def request(self, job_id: str, request: JobRequest) -> Job:
        """Cancels, pauses or resumes a job, and returns it as it is then.

        An unclaimed job changes at once. The holder of a running one learns of the request by
        :meth:`heartbeat` and acts on it when it releases the job, unless the job has ended by
        then. Asking twice changes nothing. ``UserError`` if the job has ended.
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
        promotions: Sequence[Promotion] = (),
        spent_s: float | None = None,
        remaining: RemainingGain | None = None,
    ) -> None:
        """Stores what finished and what was handed out next, in one transaction.

        A finished trial replaces its pending row; a trial ends once. Starting a pending trial
        again changes nothing. Artifacts are those of the finished trials: what a trial names must
        be stored by now. Of two artifacts with one object the first stays, and kinds of files it
        lacks are added. ``schedule`` becomes the best of its problem and fidelity if none stored
        with the same toolchain (``provenance``) is as fast. ``promotions`` are of trials that are
        stored by now; as trials they are handed out, and end once. ``spent_s`` and ``remaining``
        become the job's.
        """

    @abstractmethod
    def release(self, job_id: str, token: int, state: JobState, note: str = "") -> None:
        """Ends this process's claim and sets the job's state.

        A job released ``queued`` after a request to cancel or pause becomes ``cancelled`` or
        paused.
        """

    @abstractmethod
    def trials(self, job_id: str) -> list[Trial]:
        """All finished trials, by number."""

    def counted_trials(self, job_id: str) -> list[CountedTrial]:
        """The ``ok`` trials of fidelity ``model``, by number, with the events that were counted;
        baselines outside of the space are not among them."""
        from tuner.executor.baselines import is_foreign

        return [
            CountedTrial(t.number, t.artifact_digest, found.cycles, found.event_counts)
            for t in self.trials(job_id)
            if (found := t.measurement) is not None
            and found.fidelity == "model"
            and t.artifact_digest is not None
            and not is_foreign(t.origin)
        ]

    @abstractmethod
    def pending(self, job_id: str) -> list[PendingTrial]:
        """Trials handed out and not finished, by number."""

    @abstractmethod
    def promotions(self, job_id: str) -> list[Promotion]:
        """All promotions, pending ones too, by the number of their trial."""

    @abstractmethod
    def near_jobs(
        self, spec: JobSpec, *, before: float, least: int, most: int, audience: str = ""
    ) -> list[Job]:
        """The jobs most like one by ``spec``, nearest first (:func:`problem_distance`).

        They are on ``most`` other problems of the same version of its kernel, with its generator
        and state of the cache. Of each problem it is the job with the most measured trials, at
        least ``least``, that finished by ``before`` (Unix seconds): asking again later gives the
        same. Private jobs are found by their ``audience`` alone. They are hints for a search, not
        answers: the toolchain may be another.
        """

    @abstractmethod
    def artifact(self, digest: str) -> Artifact:
        """The artifact with that object digest; ``UserError`` if it is unknown."""

    @abstractmethod
    def best(self, lookup: Lookup) -> Schedule | None:
        """The best valid schedule that fits; ``None`` if none does.

        Everybody who wants the best asks this. Of what fits and is not quarantined it is the first
        by :func:`tuner.keeping.best.rank` whose config is a point of its space now
        (:func:`tuner.codegen.judged.outside_space`) and whose files are what was stored; those
        before it are quarantined (:func:`tuner.keeping.best.first_valid`). A toolchain counts as
        used when a job is created with it, or a trial promoted to it. Private schedules are found
        by their audience alone.
        """

    @abstractmethod
    def quarantine(self, public_id: str, reason: str) -> bool:
        """Never hands out the schedule called ``public_id`` again, nor its config or object for
        the same problem, fidelity and toolchain; whether there is such a schedule.

        The fastest other trial of that problem, fidelity, toolchain, cache state and audience
        takes its place.
        """

    @abstractmethod
    def roster(self) -> Roster:
        """The devices of the farm that measures for these jobs. Valid until :meth:`close`."""

    @abstractmethod
    def close(self) -> None:
        """Frees connections. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def problem_distance(one: Problem, other: Problem) -> float:
    """The distance of two problems of a kernel: parameters by the base-2 logarithms of their
    ratios, with another contract or architecture as far as another power of two."""
    params = set(one.workload.params) | set(other.workload.params)
    ratios = [
        math.log2(1 + abs(one.workload.params.get(name, 0)))
        - math.log2(1 + abs(other.workload.params.get(name, 0)))
        for name in sorted(params)
    ]
    elsewhere = [one.contract != other.contract, one.target.arch != other.target.arch]
    return math.hypot(*ratios, *elsewhere, 0.1 * (one.target != other.target))


def pick_job_id(given: str, ids: Iterable[str], batches: Iterable[str] = ()) -> str:
    """The one of ``ids`` (newest first) that is ``given`` or starts with it; else ``UserError``,
    which says so if it is the id of one of ``batches``."""
    if given in batches:
        raise UserError(
            f"'{given}' is a batch of jobs, not a job",
            accepted="one of its jobs",
            next_step=f"`hvxtune show {given}` lists them",
        )
    return _picked(given, list(ids), ("job", "jobs"), "KERNEL")


def pick_batch_id(given: str, ids: Iterable[str], jobs: Iterable[str] = ()) -> str:
    """:func:`pick_job_id` of batches: it says so if ``given`` is the id of one of ``jobs``."""
    known = list(ids)
    if given in jobs:
        raise UserError(
            f"'{given}' is a job, not a network or set",
            accepted=", ".join(known[:5]),
            next_step=f"`hvxtune show {given}` shows it",
        )
    return _picked(given, known, ("batch", "batches"), "--set SET")


def _picked(given: str, known: list[str], named: tuple[str, str], what: str) -> str:
    if given in known:
        return given
    matches = [one for one in known if given and one.startswith(given)]
    if len(matches) == 1:
        return matches[0]
    error = UserError if matches else NotStoredError
    raise error(
        f"'{given}' is the start of several {named[1]}" if matches else f"no {named[0]} '{given}'",
        accepted=", ".join((matches or known)[:5]),
        next_step="`hvxtune jobs` lists them"
        if known
        else f"`hvxtune tune {what}` makes the first",
    )


def claim_lost(job_id: str) -> StoreError:
    """The error for a writer that does not, or no longer, hold the claim on a job."""
    return StoreError(
        f"the claim on job {job_id} has ended or another process took it over",
        next_step=f"nothing was written; see who runs it with `hvxtune show {job_id}`",
    )


def require_open(job: Job, request: JobRequest) -> None:
    """``UserError`` if ``job`` has ended: there is nothing left to cancel, pause or resume."""
    if job.state.ended and (job.state, request) != (JobState.CANCELLED, JobRequest.CANCEL):
        raise UserError(
            f"job {job.id} is {job.state}: it can no longer {request}",
            accepted="a job that is queued or running",
            next_step="submit a new job to search on",
        )


def require_any_open(batch: Batch, jobs: Sequence[Job], request: JobRequest) -> None:
    """``UserError`` if all ``jobs`` of ``batch`` have ended, as for one (:func:`require_open`)."""
    if any(not job.state.ended for job in jobs):
        return
    if request is JobRequest.CANCEL and any(job.state is JobState.CANCELLED for job in jobs):
        return
    raise UserError(
        f"all {len(jobs)} jobs of batch {batch.id} have ended: it can no longer {request}",
        accepted="a batch with a job that is queued or running",
        next_step=f"see `hvxtune show {batch.id}`; submit a new one to search on",
    )


def as_requested(job: Job, request: JobRequest) -> Job:
    """An unclaimed job after ``request``."""
    if request is JobRequest.CANCEL:
        return replace(job, state=JobState.CANCELLED, paused=False, note="cancelled on request")
    paused = request is JobRequest.PAUSE
    return replace(job, paused=paused, note="paused on request" if paused else "")


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
"""The least that the provenance of a stored schedule holds."""
