"""The result of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuner.codegen import starts_of
from tuner.errors import UserError
from tuner.executor.baselines import ORIGIN, is_foreign
from tuner.jobs.headline import Headline, headline, textbook_is_unscheduled
from tuner.keeping.best import lookup_of
from tuner.keeping.store import TrialStore
from tuner.kernels import find_kernel
from tuner.problem.objectives import front_of
from tuner.problem.target import Target
from tuner.records.candidate import Cycles, cycles_text
from tuner.records.trial import Job, Promotion, Schedule, Trial
from tuner.space import Config

if TYPE_CHECKING:
    from tuner.search.doubt import Doubt, Unknown


@dataclass(frozen=True)
class TuneResult:
    """The result of a job. ``default``, ``textbook``, ``baseline`` and ``best`` are ``None`` where
    not reached; there is no ``textbook`` where ``textbook_is_unscheduled``, the default then.
    ``headline`` says what the best is told against.

    ``interrupted`` is true if the job was told to stop and can be resumed.
    """

    job: Job
    outcomes: Mapping[str, int]
    default: Trial | None
    textbook: Trial | None
    best: Trial | None
    schedule: Schedule | None
    interrupted: bool
    promoted: Sequence[Trial] = ()
    promotions: Sequence[Promotion] = ()
    """The promotions of the trials in ``promoted``."""
    pareto: Sequence[Trial] = ()
    """The trials that no other trial beats in every objective, the fastest first: ``best`` alone
    for a job with one objective."""
    baseline: Trial | None = None
    textbook_is_unscheduled: bool = False
    headline: Headline | None = None
    trials: Sequence[Trial] = field(default=(), repr=False)
    """All of them, by number."""
    doubt: Doubt | Unknown | None = None
    """How far the choice of ``best`` rests on assumed costs (:mod:`tuner.search.doubt`)."""

    def __repr__(self) -> str:
        """What a person at a prompt wants to know; the attributes have the rest."""
        problem, trials = self.job.spec.problem, sum(self.outcomes.values())
        told = f"{self.job.state.value}, {trials} trials ({self.outcomes.get('ok', 0)} ok)"
        cycles = _cycles(self.best)
        best = "nothing valid" if cycles is None else f"best {cycles_text(*cycles)} cycles"
        if self.headline is not None:
            best += f", {self.headline.speedup:.2f}x against {self.headline.name}"
        what = f"{problem.workload.label}, contract {problem.contract.value}, {problem.target.name}"
        return f"<TuneResult of job {self.job.id}: {what}: {told}; {best}>"

    def to_frame(self) -> Any:
        """The trials as a ``pandas.DataFrame``, a row each. Cycles are those of the fidelity beside
        them; knobs are ``config_NAME``. ``ToolchainError`` without pandas."""
        from tuner.jobs.frames import frame_of

        return frame_of(self.trials)


def result(job_id: str, store: TrialStore) -> TuneResult:
    """The result of a stored job so far."""
    job = store.job(job_id)
    trials = store.trials(job.id)
    promotions = store.promotions(job.id)
    problem = job.spec.problem
    kernel = find_kernel(problem.workload.kernel)
    starts = starts_of(job.spec.generator, kernel, problem)
    searched = [trial for trial in trials if not is_foreign(trial.origin)]
    measured = [trial for trial in searched if trial.measurement is not None]
    best = min(measured, key=job.spec.ranked, default=None)
    baseline = next((t for t in trials if t.origin.partition(":")[0] == ORIGIN), None)

    def trial_of(config: Config) -> Trial | None:
        return next((t for t in trials if t.config == config), None)

    unscheduled = textbook_is_unscheduled(job.spec, {t.origin: t.artifact_digest for t in trials})
    textbook = None if unscheduled else trial_of(starts["textbook"])
    told = {"baseline": baseline, "textbook": textbook}
    return TuneResult(
        job=job,
        trials=trials,
        outcomes=Counter(t.outcome.value for t in trials),
        default=trial_of(starts["default"]),
        textbook=textbook,
        textbook_is_unscheduled=unscheduled,
        baseline=baseline,
        headline=headline({name: _cycles(one) for name, one in told.items()}, _cycles(best)),
        best=best,
        schedule=store.best(
            lookup_of(
                problem,
                cache=job.spec.cache,
                audience=job.submission.audience,
                prefer=job.spec.prefer,
            )
        ),
        interrupted=not job.state.ended,
        promoted=[trial for trial in trials if trial.number in {p.trial for p in promotions}],
        promotions=promotions,
        pareto=front_of(searched, job.spec.figures),
        doubt=doubt_of_job(job, store, best),
    )


def doubt_of_job(job: Job, store: TrialStore, best: Trial | None) -> Doubt | Unknown | None:
    """The doubt about the ``best`` trial of a stored job: ``None`` where nothing is assumed, or
    nothing was measured by a timing model."""
    from tuner.search.doubt import doubt_of

    if best is None or best.measurement is None or best.measurement.fidelity != "model":
        return None
    return doubt_of(store.counted_trials(job.id), job.spec.problem.target, best.number)


def doubt_of_schedule(
    store: TrialStore, target: Target, fidelity: str, provenance: Mapping[str, Any]
) -> Doubt | Unknown | None:
    """The doubt about a stored schedule for ``target``, among the trials of its job."""
    from tuner.search.doubt import NO_JOB, Unknown, doubt_of

    if fidelity != "model":
        return None
    try:
        trials = store.counted_trials(str(provenance["job"]))
    except UserError:
        return Unknown(NO_JOB)
    return doubt_of(trials, target, int(provenance["trial"]))


def _cycles(trial: Trial | None) -> Cycles | None:
    if trial is None or trial.measurement is None:
        return None
    found = trial.measurement
    return Cycles(found.cycles, found.lowest_cycles, found.highest_cycles)
