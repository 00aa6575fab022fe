"""The tuning loop: runs one job with several candidates in flight."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from threadpoolctl import threadpool_limits

from tuner.codegen import CodeGenerator, clang
from tuner.errors import CandidateError, HvxtuneError, OutOfTimeError
from tuner.executor import Executor, open_executor
from tuner.executor.baselines import Baseline, is_foreign
from tuner.executor.evaluation import (
    DisagreementError,
    Evaluation,
    Evaluator,
    require_agreement,
)
from tuner.keeping.store import TrialStore
from tuner.kernels import Kernel
from tuner.measure.measurer import Measurer
from tuner.measure.roofline import least_ranked_cycles
from tuner.problem.objectives import Front
from tuner.records.candidate import Candidate
from tuner.records.trial import (
    Budget,
    Job,
    JobRequest,
    JobState,
    PendingTrial,
    RemainingGain,
    Schedule,
    Trial,
)
from tuner.search.known import KnownObjects
from tuner.search.ladder import Ladder, Rung, SearchProgress, progress_of
from tuner.search.proposer import Proposal, Proposer
from tuner.search.remaining import GainWatch
from tuner.search.samplers import Source
from tuner.search.stopping import (
    Improvements,
    reason_of,
    reason_of_failure,
    reason_to_stop,
    used_up,
)
from tuner.space import Config, Space

_POLL_S = 0.2
"""How often a request to stop is looked at while candidates are in flight."""
_HEARTBEAT_S = 1.0
"""How often the store is told that the job is alive, and asked for requests from outside."""
DEFAULT_CUTOFF = 20.0
"""The default config may take this many times the cycles of the best so far. Of an upload it has no
schedule at all, and may need minutes where the textbook config needs a tenth of a second."""
GRACE_S = 3.0
"""Candidates under way when the seconds of a job are over may take this much longer."""
ASSEMBLY_GRACE_S = 8.0
"""The assembly of the best may take until this long after the seconds of a job."""
COMPILE_LIMIT, LEAST_COMPILE_LIMIT_S = 4.0, 4.0
"""Once ``_VALID_BEFORE_LIMIT`` trials are valid, a compilation is limited: to the factor times the
longest of theirs, but never to less than the seconds of processor time."""
_VALID_BEFORE_LIMIT = 8
_MOST_KNOWN = 500
"""Proposals of a sampler that would make known objects, before one of them gets a trial: a space
of a few hundred configs is used up before, and says so."""
_SUSPICIOUS = 8
"""After this many trials without a valid one the default is tried: it tells whether the algorithm
means the same on the target."""


@dataclass(frozen=True)
class Progress:
    """Where a running job stands; handed to the caller after every commit."""

    finished: int
    total: int | None
    outcomes: Mapping[str, int]
    incumbent: Trial | None
    default: Trial | None
    elapsed_s: float
    """Wall seconds of all sessions of the job."""
    eta_s: float | None
    """Estimated seconds to go, from the rate of this session; ``None`` before the first trial."""
    promoted: int = 0
    """Promotions that have come back."""
    promotions: int = 0
    """The limit of promotions."""
    remaining: RemainingGain | None = None
    """The estimated gain of more search; ``None`` while too little is known."""
    baseline: Trial | None = None
    """The trial that results are told against, where the job names one."""
    on_front: int | None = None
    """Trials on the Pareto front; ``None`` for a job with one objective."""


@dataclass(frozen=True)
class _InFlight:
    pending: PendingTrial
    proposal: Proposal | None
    """``None`` for a baseline outside of the space: no sampler learns of it."""


class TuningLoop:
    """Runs one claimed job to its end, or until it is told to stop.

    The loop owns no process: generator and measurer are the caller's. All store writes come from
    the thread that calls :meth:`run`; an :class:`~tuner.executor.Executor` runs the
    candidates, ``spec.workers`` at a time.
    """

    def __init__(
        self,
        job: Job,
        token: int,
        *,
        store: TrialStore,
        kernel: Kernel,
        space: Space,
        generator: CodeGenerator,
        measurer: Measurer,
        rung: Rung | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        stop: threading.Event | None = None,
        source: Source | None = None,
        transfers: Sequence[tuple[Config, str]] = (),
        with_default: bool = True,
        baseline: Baseline | None = None,
        abandon: Callable[[], None] | None = None,
    ) -> None:
        """The ``baseline`` comes first, if there is one, then the textbook config, ``transfers``
        with their origins, and what else the generator begins with. The default, if it is wanted,
        follows the first valid trial. The sampler may learn from ``source``, too.

        ``abandon`` ends what generator and measurer are doing; it is called, from any thread, when
        that outlasts the seconds of the job. Without it everything is waited for.
        """
        self._job = job
        self._token = token
        self._store = store
        self._generator = generator
        self._problem = job.spec.problem
        self._on_progress = on_progress
        self._stop = stop or threading.Event()
        self._abandon = abandon
        self._abandoned = 0
        self._objectives = job.spec.objectives
        self._told = job.spec.figures
        self._proposer = Proposer(
            space,
            job.spec.sampler,
            job.spec.seed,
            self._objectives,
            generator.alternatives and generator.alternatives.within(space),
            self._told,
            source,
        )
        self._known = KnownObjects(
            generator, Candidate(self._problem, Config({}), job.spec.generator)
        )
        self._twins: dict[int, list[Proposal]] = {}
        """Proposals that make the object of a trial under way, by its number."""
        self._baseline = baseline
        self._evaluator = Evaluator(generator, measurer, baseline)
        promoting = Evaluator(generator, rung.measurer) if rung else self._evaluator
        self._ladder = Ladder(job, token, store=store, evaluator=promoting, rung=rung)
        self._starts = generator.starts(kernel, self._problem)
        self._default = self._starts["default"]
        self._naive = self._default if kernel.default_is_naive else None
        self._textbook = self._starts["textbook"]
        self._transfers = tuple(transfers)
        work = kernel.work(self._problem.workload.params)
        asked = job.spec.cache, measurer.fidelity, job.spec.prefer
        least = least_ranked_cycles(work, self._problem.target, *asked)
        estimable = len(self._objectives) == 1
        self._gain = GainWatch(space, job.spec, least) if estimable else None
        self._stored_gain = job.remaining
        self._front = Front()
        self._improvements = Improvements(self._told)
        self._trials: dict[int, Trial] = {}
        self._incumbent: Trial | None = None
        self._valid, self._longest_compile_s = 0, 0.0
        self._with_default = with_default
        self._held_back: Proposal | None = None
        self._has_own_code = bool(kernel.generator)
        self._spared: deque[tuple[Config, str]] = deque()
        """Configs of what a compiler's pass miscompiled, without that pass."""
        self._begun = time.monotonic()
        self._next_heartbeat = self._begun
        self._request: JobRequest | None = None
        self._limit: str | None = None
        """The limit of the budget that ended the search, in words."""
        self._replay()

    def _replay(self) -> None:
        """Rebuilds study, duplicates and incumbent from the rows of earlier sessions."""
        trials = self._stored()
        self._proposer.replay(trial for trial in trials if not is_foreign(trial.origin))
        for trial in trials:
            self._trials[trial.number] = trial
            self._avoid_pipeliner(trial)
            self._evaluator.remember(trial)
            self._remember(trial.number, trial.config, trial.origin)
            self._known.learn(trial, None)
            self._offer(trial)
            self._improve(trial)
        self._replayed = len(trials)
        pending = self._store.pending(self._job.id)
        self._interrupted = deque(pending)
        taken = {p.config for p in pending} | {trial.config for trial in trials}
        beginnings = self._beginnings()
        self._seeds = deque(
            (config, origin)
            for config, origin in beginnings.items()
            if not self._proposer.has_seen(config) and config not in taken
        )
        known = self._default in beginnings.keys() | taken or self._proposer.has_seen(self._default)
        if self._with_default and not known:
            self._held_back = self._proposer.propose(self._default)
        numbers = [*self._trials, *(p.number for p in pending)]
        self._next_number = max(numbers, default=-1) + 1

    def _stored(self) -> list[Trial]:
        """The trials of earlier sessions, with their counted events where promotions need them."""
        trials = self._store.trials(self._job.id)
        if not trials or not self._ladder.limit:
            return trials
        counts = {t.number: t.event_counts for t in self._store.counted_trials(self._job.id)}
        return [
            replace(t, measurement=replace(t.measurement, event_counts=counts.get(t.number)))
            if t.measurement is not None
            else t
            for t in trials
        ]

    def _beginnings(self) -> dict[Config, str]:
        """The configs tried before the sampler is asked, and their origins."""
        others = [(config, origin) for origin, config in self._starts.items()]
        textbook = "default" if self._textbook == self._naive else "textbook"
        found: dict[Config, str] = {}
        if self._baseline is not None:
            found[self._baseline.config] = self._baseline.origin
        for config, origin in [(self._textbook, textbook), *self._transfers, *others]:
            if config != self._default or self._default == self._textbook:
                found.setdefault(config, origin)
        return found

    def run(self) -> JobState:
        """Hands out trials until a limit of the budget, exhaustion or a request to stop.

        Returns the state the job was released in; ``queued`` means it was told to stop and can
        be resumed. An error that is not a candidate's leaves the job ``queued`` too (``failed``
        after a ``DisagreementError``) and is raised again.
        """
        try:
            for trial in self._trials.values():
                self._require_agreement(trial)
            with (
                # More threads of ours would take the cores from the compilers.
                threadpool_limits(1, user_api="blas"),
                open_executor(self._evaluator, self._job.spec.workers) as executor,
                self._ladder,
            ):
                through = self._hand_out(executor)
                through = self._ladder.climb(self._must_stop, self._tell) and through
                if self._gain is not None:
                    self._gain.conclude(self._searched)
            if not through:
                return self._release(JobState.QUEUED, reason_of(self._stop))
            if self._incumbent is None:
                return self._release(
                    JobState.FAILED,
                    reason_of_failure(self._in_order(), self._abandoned),
                )
            for best in {t.number: t for t in (self._incumbent, self._ladder.best) if t}.values():
                self._keep_assembly(best)
            return self._release(JobState.DONE, self._reason_of_end())
        except DisagreementError as error:
            self._release(JobState.FAILED, str(error))
            raise
        except BaseException as error:
            note = error.message if isinstance(error, HvxtuneError) else type(error).__name__
            self._release_quietly(f"interrupted: {note}")
            raise

    def _hand_out(self, executor: Executor) -> bool:
        """The loop itself. False if it ended because of a request to stop."""
        flying: dict[Future[Evaluation], _InFlight] = {}
        finished: list[tuple[Evaluation, _InFlight]] = []
        exhausted = False
        while True:
            started: list[_InFlight] = []
            while (
                not exhausted
                and not self._must_stop()
                and len(flying) + len(started) < self._job.spec.workers
            ):
                flight = self._next()
                if flight is None:
                    exhausted = True
                else:
                    started.append(flight)
                    one = flight.pending  # what is asked for next must not make its object
                    self._remember(one.number, one.config, one.origin)
            # Started first, stored second: a crash in between runs them again, no more.
            for flight in started:
                flying[self._submit(executor, flight.pending)] = flight
            self._commit([e for e, _ in finished], started)
            if self._gain is not None:
                self._gain.look(self._searched)  # while candidates run: nothing waits for it
            if not flying:
                # What a caller abandoned is to be run again; the loop itself ends a job by that.
                return exhausted and not (self._abandoned and self._abandon is None)
            finished = []
            for future in self._landed(flying):
                flight = flying.pop(future)
                try:
                    finished.append((future.result(), flight))
                except OutOfTimeError:
                    self._abandoned += 1  # the trial stays without an outcome
            finished.sort(key=lambda pair: pair[0].trial.number)
            for evaluation, flight in finished:
                self._known.learn(evaluation.trial, evaluation.artifact)
                self._take(evaluation.trial, flight.proposal)

    def _landed(self, flying: Mapping[Future[Evaluation], _InFlight]) -> set[Future[Evaluation]]:
        """Waits until some of ``flying`` are done; meanwhile promotions go on."""
        while True:
            if self._abandon is not None and self._seconds_left(GRACE_S) <= 0:
                self._abandon()
            progress = None if self._must_stop() else self._progress_of_search()
            if self._ladder.limit and self._ladder.step(progress):
                self._tell()
            waited_for: set[Future[Any]] = {*flying, *self._ladder.flying}
            done, _ = wait(waited_for, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            if landed := done & flying.keys():
                return landed

    def _seconds_left(self, grace_s: float) -> float:
        """Until ``grace_s`` after the end of the job's seconds; infinite if they have none."""
        seconds = self._job.spec.budget.seconds
        return math.inf if seconds is None else seconds + grace_s - self._spent_s()

    def _progress_of_search(self) -> SearchProgress:
        return progress_of(self._job.spec.budget, len(self._trials), self._spent_s(), self._since())

    def _since(self) -> int:
        """Trials since the last improvement; not counted, and 0, for a job without patience."""
        if self._job.spec.budget.patience is None:
            return 0
        return self._improvements.since(self._searched)

    @property
    def _searched(self) -> dict[int, Trial]:
        """The trials of the space."""
        return {n: trial for n, trial in self._trials.items() if not is_foreign(trial.origin)}

    def _in_order(self) -> list[Trial]:
        return [self._trials[n] for n in sorted(self._trials)]

    @property
    def _remaining(self) -> RemainingGain | None:
        return self._gain.remaining if self._gain else None

    def _must_stop(self) -> bool:
        """Whether to hand out nothing more, as the caller or, through the store, a user asks."""
        if time.monotonic() >= self._next_heartbeat:
            self._request = self._store.heartbeat(self._job.id, self._token)
            self._next_heartbeat = time.monotonic() + _HEARTBEAT_S
        asked = self._request in (JobRequest.CANCEL, JobRequest.PAUSE)
        return asked or self._stop.is_set()

    def _next(self) -> _InFlight | None:
        """The next trial to hand out: interrupted ones, then seeds, then the sampler's."""
        if self._interrupted:
            pending = self._interrupted.popleft()
            return _InFlight(pending, self._proposal_of(pending.config, pending.origin))
        reason = reason_to_stop(
            self._job.spec.budget,
            self._next_number,
            self._spent_s(),
            self._since(),
            self._remaining,
        )
        if reason is not None:
            self._limit = reason
            return None
        proposal: Proposal | None = None
        if self._is_default_due():
            proposal, origin = self._default_proposal()
        elif self._spared or self._seeds:
            config, origin = (self._spared or self._seeds).popleft()
            pending = PendingTrial(self._next_number, config, origin)
            self._next_number += 1
            return _InFlight(pending, self._proposal_of(config, origin))
        else:
            proposal, origin = self._ask(), self._job.spec.sampler
            if proposal is None:
                proposal, origin = self._default_proposal()
        if proposal is None:
            return None
        pending = PendingTrial(self._next_number, proposal.config, origin)
        self._next_number += 1
        return _InFlight(pending, proposal)

    def _reason_of_end(self) -> str:
        """Why nothing more is handed out, in words: the space is used up, unless a limit was
        reached."""
        return used_up(len(self._searched)) if self._limit is None else self._limit

    def _ask(self) -> Proposal | None:
        """The sampler's next config that is not known to make the object of another trial. Those
        that are have that trial's result."""
        for _ in range(_MOST_KNOWN):
            proposal = self._proposer.ask()
            if proposal is None or self._proposer.walks_all or self._must_stop():
                return proposal
            if self._seconds_left(0) <= 0:
                return proposal
            number = self._known.twin(proposal.config)
            if number is None:
                return proposal
            if number in self._trials:
                self._teach(proposal, self._trials[number])
            else:
                self._twins.setdefault(number, []).append(proposal)
        return self._proposer.ask()

    def _teach(self, proposal: Proposal, trial: Trial) -> None:
        self._proposer.tell(proposal, trial.outcome, *(self._told(trial) or ()))

    def _remember(self, number: int, config: Config, origin: str) -> None:
        if not is_foreign(origin):
            self._known.begin(number, config)

    def _proposal_of(self, config: Config, origin: str) -> Proposal | None:
        return None if is_foreign(origin) else self._proposer.propose(config)

    def _is_default_due(self) -> bool:
        """Whether the default comes next: a baseline, it must not be all that a short job does."""
        if self._held_back is None:
            return False
        suspicious = not self._seeds and len(self._trials) >= _SUSPICIOUS
        last = self._job.spec.budget.trials == self._next_number + 1 > 1
        return self._incumbent is not None or suspicious or last

    def _default_proposal(self) -> tuple[Proposal | None, str]:
        """The default, if it was held back until now."""
        proposal, self._held_back = self._held_back, None
        return proposal, "default"

    def _submit(self, executor: Executor, pending: PendingTrial) -> Future[Evaluation]:
        self._generator.limit(self._compile_limit_s())
        return executor.submit(
            Candidate(self._problem, pending.config, self._job.spec.generator),
            number=pending.number,
            origin=pending.origin,
            budget_cycles=self._budget_cycles(pending.config),
        )

    def _compile_limit_s(self) -> float:
        """Code that takes much longer to compile than all that is right does not win."""
        if self._valid < _VALID_BEFORE_LIMIT:
            return math.inf
        return max(LEAST_COMPILE_LIMIT_S, COMPILE_LIMIT * self._longest_compile_s)

    def _budget_cycles(self, config: Config) -> int | None:
        """The early-termination budget of ``config``: none for textbook and baseline, and none with
        several objectives, where a slow trial may be on the front; a wide one for the default."""
        best = self._incumbent.measurement if self._incumbent else None
        if best is None or config == self._textbook:
            return None
        if self._baseline is not None and config == self._baseline.config:
            return None
        if config == self._default and self._with_default:
            return math.ceil(best.cycles * DEFAULT_CUTOFF)
        if len(self._objectives) > 1:
            return None
        return math.ceil(best.cycles * self._job.spec.cutoff_factor)

    def _take(self, trial: Trial, proposal: Proposal | None) -> None:
        self._require_agreement(trial)
        self._trials[trial.number] = trial
        self._avoid_pipeliner(trial)
        twins = self._twins.pop(trial.number, [])
        for one in twins if proposal is None else [proposal, *twins]:
            self._teach(one, trial)
        self._improve(trial)

    def _avoid_pipeliner(self, trial: Trial) -> None:
        """Where the user's own code was miscompiled, the search goes on without the pass that did
        it, and with the config of ``trial``."""
        told = trial.error or ""
        if self._has_own_code and told.startswith(clang.MISCOMPILED):
            self._proposer.settle(clang.PIPELINER.name, clang.PIPELINER.choices[-1])
            other = clang.without_pipeliner(trial.config)
            if other is not None and not self._proposer.has_seen(other):
                self._spared.append((other, self._job.spec.sampler))

    def _require_agreement(self, trial: Trial) -> None:
        """Where some code gave what the reference gives, the naive code alone is wrong."""
        if self._incumbent is None:
            require_agreement(self._problem, self._naive, trial)

    def _offer(self, trial: Trial) -> None:
        if not is_foreign(trial.origin):
            self._ladder.offer(trial)

    def _improve(self, trial: Trial) -> None:
        if is_foreign(trial.origin):
            return
        ranked = self._job.spec.ranked
        if trial.measurement and (
            self._incumbent is None or ranked(trial)[0] < ranked(self._incumbent)[0]
        ):
            self._incumbent = trial
        if trial.measurement:
            self._valid += 1
            self._longest_compile_s = max(self._longest_compile_s, trial.timings.compile_s)
        figures = self._told(trial)
        if figures is not None:
            self._front.offer(figures)

    def _commit(self, finished: Sequence[Evaluation], started: Sequence[_InFlight]) -> None:
        """One transaction: results of ``finished``, rows for ``started``, the best so far."""
        if not finished and not started:
            return
        new_best = next((e for e in finished if e.trial is self._incumbent), None)
        self._store.commit(
            self._job.id,
            self._token,
            finished=[e.trial for e in finished],
            started=[f.pending for f in started],
            artifacts=[e.artifact for e in finished if e.artifact],
            schedule=self._schedule(new_best) if new_best else None,
            spent_s=self._spent_s(),
            remaining=self._new_gain(),
        )
        for evaluation in finished:
            self._offer(evaluation.trial)
        self._tell()

    def _new_gain(self) -> RemainingGain | None:
        """The estimate, if it differs from the stored one."""
        if self._remaining == self._stored_gain:
            return None
        self._stored_gain = self._remaining
        return self._remaining

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self.progress())

    def _schedule(self, evaluation: Evaluation) -> Schedule:
        trial, artifact = evaluation.trial, evaluation.artifact
        assert trial.measurement is not None  # noqa: S101
        assert artifact is not None  # noqa: S101
        return Schedule(
            problem=self._problem,
            config=trial.config,
            generator=self._job.spec.generator,
            measurement=trial.measurement,
            artifact_digest=artifact.digest,
            symbol=artifact.symbol,
            provenance=self._job.provenance(trial.number, trial.finished_at),
        )

    def _keep_assembly(self, best: Trial) -> None:
        """Compiles the best once more with its assembly, which the search does not need."""
        candidate = Candidate(self._problem, best.config, self._job.spec.generator)
        try:
            with self._abandoning_in(self._seconds_left(ASSEMBLY_GRACE_S)):
                artifact = self._generator.compile(candidate, with_assembly=True)
        except (CandidateError, OutOfTimeError):
            return  # it compiled before: now a busy machine made it miss its limit
        if artifact.digest == best.artifact_digest:
            self._store.commit(self._job.id, self._token, artifacts=[artifact])

    @contextmanager
    def _abandoning_in(self, seconds: float) -> Iterator[None]:
        """Abandons what goes on in the context for longer than ``seconds``."""
        if self._abandon is None or seconds == math.inf:
            yield
            return
        timer = threading.Timer(max(0.0, seconds), self._abandon)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _outcomes(self) -> Counter[str]:
        return Counter(t.outcome.value for t in self._trials.values())

    def _spent_s(self) -> float:
        return self._job.spent_s + time.monotonic() - self._begun

    def progress(self) -> Progress:
        """Where the job stands now."""
        finished, elapsed_s = len(self._trials), self._spent_s()
        fresh, session_s = finished - self._replayed, time.monotonic() - self._begun
        budget = self._job.spec.budget
        return Progress(
            finished=finished,
            total=budget.trials,
            outcomes=self._outcomes(),
            incumbent=self._incumbent,
            default=self._trial_of(self._default),
            baseline=self._trial_of(self._baseline.config) if self._baseline else None,
            elapsed_s=elapsed_s,
            eta_s=_seconds_to_go(budget, finished, fresh, session_s, elapsed_s),
            promoted=self._ladder.finished,
            promotions=self._ladder.limit,
            remaining=self._remaining,
            on_front=len(self._front) if len(self._objectives) > 1 else None,
        )

    def _trial_of(self, config: Config) -> Trial | None:
        return next((t for t in self._trials.values() if t.config == config), None)

    def _release(self, state: JobState, note: str) -> JobState:
        spent_s = self._spent_s()
        self._store.commit(self._job.id, self._token, spent_s=spent_s, remaining=self._new_gain())
        self._store.release(self._job.id, self._token, state, note)
        return state

    def _release_quietly(self, note: str) -> None:
        """Gives the job back on the way out of an error, which must not be hidden by another."""
        try:
            self._release(JobState.QUEUED, note)
        except HvxtuneError:
            return  # the claim lapses by itself when this process ends


def _seconds_to_go(
    budget: Budget, finished: int, fresh: int, session_s: float, elapsed_s: float
) -> float | None:
    """Estimated wall seconds until ``budget`` is used up, ``None`` while unknown.

    ``fresh`` of the ``finished`` trials came back in the ``session_s`` of this session;
    ``elapsed_s`` are those of all sessions.
    """
    eta_s = None
    if fresh and budget.trials is not None:
        eta_s = session_s / fresh * max(0, budget.trials - finished)
    if budget.seconds is not None:
        left_s = max(0.0, budget.seconds - elapsed_s)
        eta_s = left_s if eta_s is None else min(eta_s, left_s)
    return eta_s
