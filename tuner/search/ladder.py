"""The ladder of fidelity: the most promising trials of a job are measured again at a higher one.

While a job searches on the model, each free device of the higher fidelity gets the trial that the
pairs so far (trials measured at both) predict to be the fastest: simulators and phones are busy at
once. Every second one goes to what resolves the doubt: of the points of the box of plausible costs
at which no promoted trial is nearly the fastest, the trial that is so at the most. Half of the
promotions are spent in step with the search; the other half is kept for its end, when all
candidates and most pairs are known. No more are kept than trials are still to come: with as many
promotions as trials, every good candidate is promoted as soon as it is known.

The number of trials promoted does not depend on how fast devices are; which ones do does.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np

from tuner.errors import CandidateError, UserError
from tuner.executor.evaluation import Evaluator
from tuner.keeping.store import TrialStore
from tuner.measure.measurer import Measurer
from tuner.records.candidate import Artifact, Candidate
from tuner.records.outcome import Outcome
from tuner.records.trial import Budget, Job, Promotion, Schedule, Trial
from tuner.search.doubt import TIE
from tuner.search.plausible import PlausibleCosts
from tuner.search.ranking import FidelityPair, fit

_POLL_S = 0.2
_NOTHING_NEW = -1


@dataclass(frozen=True)
class Rung:
    """Where promoted trials are measured. ``toolchain`` is the whole fingerprint of generator and
    measurer there; up to ``width`` trials are under way at once."""

    measurer: Measurer
    toolchain: Mapping[str, str] = field(hash=False)
    width: int = 1


@dataclass(frozen=True)
class SearchProgress:
    """How far a search has come: the ``share`` of its budget that is used up, 0 to 1, and how many
    trials may still be ``to_come``; ``None`` where its budget does not say."""

    share: float
    to_come: int | None

    def allowed_of(self, limit: int) -> int:
        """How many of ``limit`` promotions may have been handed out by now."""
        in_step = math.floor(limit // 2 * self.share)
        # Each trial to come may need one; promotions beyond those need not be kept.
        return in_step if self.to_come is None else max(in_step, limit - self.to_come)


@dataclass(frozen=True)
class _Done:
    promotion: Promotion
    artifact: Artifact


class Ladder:
    """Promotes trials of one job. Without a ``rung`` it does nothing.

    All but the measuring happens in the calling thread, which holds the claim. A context manager:
    its threads end with it. Promotions under way when an error ends the job stay pending in the
    store, and are run again, once.
    """

    def __init__(
        self,
        job: Job,
        token: int,
        *,
        store: TrialStore,
        evaluator: Evaluator,
        rung: Rung | None,
    ) -> None:
        """``evaluator`` is that of the rung's measurer. ``UserError`` if promotions of an earlier
        session were measured by something else."""
        self._job = job
        self._token = token
        self._store = store
        self._evaluator = evaluator
        self._rung = rung
        self._costs = PlausibleCosts(job.spec.problem.target)
        self._limit = job.spec.promote if rung else 0
        self._trials: dict[int, Trial] = {}
        self._ended: dict[int, Promotion] = {}
        self._flying: dict[Future[_Done], Promotion] = {}
        self._interrupted: deque[int] = deque()
        self._pool: ThreadPoolExecutor | None = None
        for promotion in store.promotions(job.id) if rung else ():
            self._take_over(promotion)

    def _take_over(self, promotion: Promotion) -> None:
        assert self._rung is not None  # noqa: S101
        if dict(promotion.toolchain) != dict(self._rung.toolchain):
            differing = sorted(
                part
                for part in {*promotion.toolchain, *self._rung.toolchain}
                if promotion.toolchain.get(part) != self._rung.toolchain.get(part)
            )
            raise UserError(
                f"job {self._job.id} was promoted to devices that differed in "
                f"{', '.join(differing)}: their cycles could not be compared",
                next_step="start a new job with `hvxtune tune`, or promote to what it began with",
            )
        if promotion.outcome is None:
            self._interrupted.append(promotion.trial)
        else:
            self._ended[promotion.trial] = promotion

    @property
    def flying(self) -> Sequence[Future[_Done]]:
        """Promotions under way, to be waited for together with other work."""
        return list(self._flying)

    @property
    def finished(self) -> int:
        """Promotions that have come back, whatever their outcome."""
        return len(self._ended)

    @property
    def limit(self) -> int:
        """The number of promotions allowed."""
        return self._limit

    @property
    def best(self) -> Trial | None:
        """The trial whose promotion took the fewest cycles."""
        pairs = self._pairs()
        best = min(pairs, key=lambda pair: (pair.high.cycles, pair.trial), default=None)
        return self._trials[best.trial] if best else None

    def offer(self, trial: Trial) -> None:
        """``trial`` is stored: it may be promoted if it is ``ok`` and not a duplicate."""
        if trial.outcome is Outcome.OK and trial.duplicate_of is None:
            self._trials[trial.number] = trial

    def step(self, progress: SearchProgress | None) -> bool:
        """Stores finished promotions and hands out as many more as ``progress`` allows; ``None``
        allows none. True if any came back."""
        return self._step(_NOTHING_NEW if progress is None else progress.allowed_of(self._limit))

    def climb(self, must_stop: Callable[[], bool], told: Callable[[], None]) -> bool:
        """Spends the remaining promotions after the search; calls ``told`` when some come back.

        False if a request to stop ended it; those under way are finished in any case.
        """
        while True:
            stopping = must_stop()
            if self._step(_NOTHING_NEW if stopping else self._limit):
                told()
            if not self._flying:
                return not stopping
            wait(self._flying, timeout=_POLL_S, return_when=FIRST_COMPLETED)

    def _step(self, allowed: int) -> bool:
        done = [future for future in self._flying if future.done()]
        finished = [future.result() for future in done]
        for future in done:
            del self._flying[future]
        before = self.best
        for one in finished:
            self._ended[one.promotion.trial] = one.promotion
        started: list[Promotion] = []
        while (promotion := self._next(allowed)) is not None:
            started.append(promotion)
            self._flying[self._hand_out(promotion)] = promotion
        if not finished and not started:
            return False
        best = self.best
        new = [one for one in finished if best and one.promotion.trial == best.number]
        self._store.commit(
            self._job.id,
            self._token,
            promotions=[*(one.promotion for one in finished), *started],
            schedule=self._schedule(best, new[0]) if best and new and best is not before else None,
        )
        return bool(finished)

    def _next(self, allowed: int) -> Promotion | None:
        room = self._rung and len(self._flying) < self._rung.width
        if self._rung is None or not room or allowed == _NOTHING_NEW:
            return None
        under_way = {promotion.trial for promotion in self._flying.values()}
        if self._interrupted:
            number = self._interrupted.popleft()
        else:
            promoted = {*self._ended, *under_way}
            if len(promoted) >= allowed:
                return None
            left = [number for number in self._trials if number not in promoted]
            if not left:
                return None
            chosen = self._resolving(under_way) if self._is_for_doubt(len(promoted)) else None
            number = self._most_promising(left) if chosen is None else chosen
        return Promotion(number, self._rung.toolchain, started_at=time.time())

    def _is_for_doubt(self, before: int) -> bool:
        """Whether the promotion after ``before`` others is to resolve the doubt: every second one,
        from the first on where a robust schedule is preferred."""
        return before % 2 == (0 if self._job.spec.prefer == "robust" else 1)

    def _resolving(self, under_way: Set[int]) -> int | None:
        """The trial that is within ``TIE`` of the fastest at the most points of the box at which
        none is that was measured, or is ``under_way``. ``None`` if each point has one: whatever the
        costs are, the best is nearly among those promoted. What failed there is no schedule.
        """
        failed = {n for n, one in self._ended.items() if one.measurement is None}
        priced = {n: self._costs.cycles(self._trials[n]) for n in sorted({*self._trials} - failed)}
        known = {number: row for number, row in priced.items() if row is not None}
        if not known:
            return None
        cycles = np.array(list(known.values()))
        near = cycles <= (1 + TIE) * cycles.min(axis=0)
        taken = np.array([number in self._ended or number in under_way for number in known])
        # Those taken gain nothing: they are near the fastest at none of the points left.
        gains = near[:, ~near[taken].any(axis=0)].sum(axis=1)
        most = int(gains.argmax())
        return list(known)[most] if gains[most] else None

    def _most_promising(self, left: Sequence[int]) -> int:
        """Of trials with these numbers the one that the pairs so far predict to be the fastest."""
        ranking = fit(self._pairs())
        measured = ((self._trials[number].measurement, number) for number in left)
        return min((ranking.predict(low), number) for low, number in measured if low)[1]

    def _pairs(self) -> list[FidelityPair]:
        return pairs_of(self._trials.values(), self._ended.values())

    def _hand_out(self, promotion: Promotion) -> Future[_Done]:
        if self._pool is None:
            assert self._rung is not None  # noqa: S101
            self._pool = ThreadPoolExecutor(self._rung.width, "hvxtune-promotion")
        best = min((pair.high.cycles for pair in self._pairs()), default=None)
        budget = None if best is None else math.ceil(best * self._job.spec.cutoff_factor)
        return self._pool.submit(self._measure, promotion, budget)

    def _measure(self, promotion: Promotion, budget_cycles: int | None) -> _Done:
        trial, spec = self._trials[promotion.trial], self._job.spec
        artifact = self._store.artifact(str(trial.artifact_digest))
        candidate = Candidate(spec.problem, trial.config, spec.generator)
        outcome, measurement, error = Outcome.OK, None, None
        try:
            measurement = self._evaluator.measure(candidate, artifact, budget_cycles).measurement
        except CandidateError as caught:
            outcome, error = caught.outcome, caught.message
        ended = Promotion(
            promotion.trial,
            promotion.toolchain,
            outcome=outcome,
            measurement=measurement,
            error=error,
            started_at=promotion.started_at,
            finished_at=time.time(),
        )
        return _Done(ended, artifact)

    def _schedule(self, trial: Trial, done: _Done) -> Schedule:
        assert done.promotion.measurement is not None  # noqa: S101
        return Schedule(
            problem=self._job.spec.problem,
            config=trial.config,
            generator=self._job.spec.generator,
            measurement=done.promotion.measurement,
            artifact_digest=done.artifact.digest,
            symbol=done.artifact.symbol,
            provenance=self._job.provenance(
                trial.number, done.promotion.finished_at, done.promotion.toolchain
            ),
        )

    def __enter__(self) -> Ladder:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def pairs_of(trials: Iterable[Trial], promotions: Iterable[Promotion]) -> list[FidelityPair]:
    """The trials measured at both fidelities, by number."""
    low = {trial.number: trial.measurement for trial in trials}
    pairs = []
    for promotion in promotions:
        measured = low.get(promotion.trial)
        if measured is not None and promotion.measurement is not None:
            pairs.append(FidelityPair(promotion.trial, measured, promotion.measurement))
    return sorted(pairs, key=lambda pair: pair.trial)


def progress_of(budget: Budget, finished: int, spent_s: float, since: int) -> SearchProgress:
    """How much of ``budget`` is used up: the share of the nearest limit.

    ``finished`` counts trials, ``since`` those since the last improvement.
    """
    shares = (
        (finished, budget.trials),
        (spent_s, budget.seconds),
        (since, budget.patience),
    )
    share = min(1.0, max((used / limit for used, limit in shares if limit), default=0.0))
    return SearchProgress(
        share, None if budget.trials is None else max(0, budget.trials - finished)
    )
