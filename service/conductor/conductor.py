"""One conductor: a few slots, each of which runs a job in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from db.files.disk import Reserve
from db.jobs import claims
from db.jobs.queue import ClaimedJob
from db.pipelines import bring
from db.sql_store import SqlStore
from service.conductor.fitness import Fitness
from service.conductor.troubles import Troubles, in_words
from service.request_ids import work_for
from tuner.errors import HvxtuneError, StoreError, UserError
from tuner.jobs import tuning
from tuner.log_ids import bind
from tuner.records.trial import JobState
from tuner.search.stopping import StopRequest

QUANTUM_S = 60.0
"""How long a job runs before it gives way to one whose turn it is. To resume it costs about half a
second (compile servers start; a thousand trials are replayed in 0.15 s): a hundredth of this."""
_TICK_S = 0.25
"""How often it looks for ended and new jobs."""
_GIVE_WAY_CHECK_S = 2.0
_LONGEST_STORE_WAIT_S = 30.0
_log = logging.getLogger("hvxtune.conductor")

Run = Callable[[ClaimedJob, SqlStore, StopRequest], JobState]
"""Runs a claimed job until it ends or is told to stop; returns the state it is in then."""


class JobStop(StopRequest):
    """Tells a job to stop, with a reason for its owner."""

    def because(self, reason: str) -> None:
        """Stops the job for ``reason``."""
        self.reason = reason
        self.set()


@dataclass
class _Slot:
    job: ClaimedJob
    thread: threading.Thread
    stop: JobStop
    since: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class _Owed:
    """A job to be given back, as soon as that can be written down."""

    job: ClaimedJob
    state: JobState
    note: str


class Conductor:
    """Takes up jobs of ``store`` whose turn it is and runs ``slots`` of them at once.

    ``most_workers`` bounds the candidates in flight of each. ``fitness`` says whether it may take
    up jobs, and which; without it, all. ``run`` is replaced in tests.
    """

    def __init__(
        self,
        store: SqlStore,
        *,
        slots: int = 1,
        most_workers: int | None = None,
        quantum_s: float = QUANTUM_S,
        troubles: Troubles | None = None,
        run: Run | None = None,
        fitness: Fitness | None = None,
    ) -> None:
        self._store = store
        self._queue = store.queue()
        self._slot_count = slots
        self._most_workers = most_workers
        self._quantum_s = quantum_s
        self._troubles = troubles or Troubles()
        self._run = run or self._tune
        self._fitness = fitness
        self._slots: list[_Slot] = []
        self._next_check = 0.0
        self._reserve = Reserve(store.place)
        self._owed: dict[str, _Owed] = {}
        self._owed_lock = threading.Lock()

    def run(self, leave: threading.Event) -> None:
        """Works until ``leave`` is set; then finishes the candidates in flight and returns.

        The jobs go back to the queue. Errors of the store are waited out.
        """
        wait_s = _TICK_S
        self._reserve.fill()
        while not leave.wait(wait_s):
            try:
                self._tick()
            except StoreError as error:
                wait_s = min(max(1.0, wait_s * 2), _LONGEST_STORE_WAIT_S)
                _log.error("%s Waiting %.0f s.", error, wait_s)
            else:
                wait_s = _TICK_S
        self._drain()

    def _drain(self) -> None:
        for slot in self._slots:
            _log.info("job %s: finishing the candidates in flight", slot.job.id)
            slot.stop.because("waits: its conductor was shut down")
        for slot in self._slots:
            slot.thread.join()
        self._slots.clear()
        self._pay()

    def _tick(self) -> None:
        self._pay()
        self._slots = [slot for slot in self._slots if slot.thread.is_alive()]
        if self._fitness is not None and not self._fitness.fit:
            return
        while len(self._slots) < self._slot_count:
            job = self._queue.take_next(self._not_now(), self._can_run)
            if job is None:
                return
            self._start(job)
        if time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + _GIVE_WAY_CHECK_S
            self._give_way()

    def _can_run(self, measurer: str, on: str, promote_to: str) -> bool:
        return self._fitness is None or self._fitness.can_run(measurer, on, promote_to)

    def _not_now(self) -> set[str]:
        return self._troubles.left_alone() | {slot.job.id for slot in self._slots}

    def _start(self, job: ClaimedJob) -> None:
        stop = JobStop()
        thread = threading.Thread(target=self._work, args=(job, stop), name=f"job-{job.id}")
        self._slots.append(_Slot(job, thread, stop))
        thread.start()

    def _give_way(self) -> None:
        """Stops the longest-running job that must give way; one at a time."""
        if any(slot.stop.is_set() for slot in self._slots):
            return
        due = time.monotonic() - self._quantum_s
        for slot in sorted(self._slots, key=lambda slot: slot.since):
            if slot.since <= due and self._queue.must_give_way(
                slot.job, self._not_now(), self._can_run
            ):
                _log.info("job %s: gives way to another", slot.job.id)
                slot.stop.because("waits: gave way to another job")
                return

    def _work(self, job: ClaimedJob, stop: JobStop) -> None:
        """A slot's thread. Whatever goes wrong with the job ends here."""
        work_for(job.request_id)  # the job's lines in the log can be found by it
        bind(job=job.id)
        _log.info("job %s of %s: taken up", job.id, job.user)
        try:
            state = self._run(job, self._store, stop)
        except Exception as error:  # noqa: BLE001 - kernels and samplers are code of others too
            self._hand_back(job, error)
        else:
            self._troubles.forget(job.id)
            _log.info("job %s: %s", job.id, state)

    def _tune(self, job: ClaimedJob, store: SqlStore, stop: StopRequest) -> JobState:
        bring(store, store.job(job.id).spec.problem.workload.kernel)
        done = tuning.run(
            job.id, store, stop=stop, token=job.token, most_workers=self._most_workers
        )
        return done.job.state

    def _hand_back(self, job: ClaimedJob, error: Exception) -> None:
        """Gives back a job that could not run, or ends it."""
        ours = isinstance(error, HvxtuneError)
        _log.error("job %s: %s", job.id, in_words(error), exc_info=None if ours else error)
        try:
            finished = self._store.summary(job.id).finished
            final = self._troubles.is_final(job.id, error, finished)
            if final and isinstance(error, UserError):
                final = not self._queue.runs_elsewhere_with_same_toolchain(job.id)
            state = JobState.FAILED if final else JobState.QUEUED
            if not self._give_back(job, state, in_words(error)):
                if self._is_held(job):
                    self._owe(_Owed(job, state, in_words(error)))
                elif final:
                    self._fail(job.id, in_words(error))
        except (HvxtuneError, OSError) as second:
            _log.error("job %s: %s", job.id, second)

    def _owe(self, owed: _Owed) -> None:
        """The job cannot be given back now, for instance because the disk is full. So that it does
        not stay ``running`` forever, the reserve is spent, and what still fails is tried later."""
        self._reserve.spend()
        if not self._give_back(owed.job, owed.state, owed.note):
            with self._owed_lock:
                self._owed[owed.job.id] = owed

    def _pay(self) -> None:
        """Gives back what could not be given back before."""
        with self._owed_lock:
            owed = list(self._owed.values())
        for one in owed:
            if self._give_back(one.job, one.state, one.note) or not self._is_held(one.job):
                with self._owed_lock:
                    del self._owed[one.job.id]
        if not self._owed:
            self._reserve.fill()

    def _is_held(self, job: ClaimedJob) -> bool:
        """Whether the claim is still ours: the job may have been released while an error
        unwound."""
        try:
            with self._store.reading() as session:
                claims.requested(session, job.id, job.token)
        except StoreError:
            return False
        return True

    def _give_back(self, job: ClaimedJob, state: JobState, note: str) -> bool:
        """Releases the claim; false if it is no longer ours, or the database cannot be written."""
        try:
            self._store.release(job.id, job.token, state, note)
        except StoreError:
            return False
        return True

    def _fail(self, job_id: str, note: str) -> None:
        token = self._store.claim(job_id)
        self._store.release(job_id, token, JobState.FAILED, note)
