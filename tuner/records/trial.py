"""Plain records of a job: its specification, trials, promotions, and the schedule it ends in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tuner.problem.objectives import figures_of
from tuner.records.candidate import Measurement, Preference, Problem
from tuner.records.outcome import Outcome
from tuner.records.request import DEFAULT_GENERATOR, DEFAULT_SAMPLER, DEFAULT_TRIALS, SearchOptions
from tuner.space import Config


@dataclass(frozen=True)
class Promotion:
    """The object of an ``ok`` trial, measured once more at a costlier and truer fidelity.

    ``trial`` is the trial's number; of each trial there is at most one promotion. Without an
    ``outcome`` it was handed out and has not come back: it is run again, once, after a crash.
    ``measurement`` is set exactly for outcome ``ok``. ``toolchain`` is the whole fingerprint of
    what made the object and measured it here. Times are Unix seconds.
    """

    trial: int
    toolchain: Mapping[str, str] = field(hash=False)
    outcome: Outcome | None = None
    measurement: Measurement | None = None
    error: str | None = None
    started_at: float = 0.0
    finished_at: float | None = None

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) != (self.measurement is not None):
            raise ValueError(f"promotion of trial {self.trial}: {self.outcome}, its measurement")
        if self.measurement is not None and not self.measurement.verified:
            raise ValueError(f"promotion of trial {self.trial}: unverified")
        if (self.outcome is None) != (self.finished_at is None):
            raise ValueError(f"promotion of trial {self.trial}: {self.outcome}, when it finished")


class JobState(StrEnum):
    """The state of a job. ``running`` with a dead owner means interrupted: it can be resumed."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to a job in this state."""
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


class JobRequest(StrEnum):
    """A request to a job that has not ended."""

    CANCEL = "cancel"
    """End it; what it found stays."""
    PAUSE = "pause"
    """Stop it and leave it ``queued``, but let nobody take it up."""
    RESUME = "resume"
    """Let it be taken up again."""


@dataclass(frozen=True)
class Submission:
    """The submitter of a job, its priority, and the batch it belongs to.

    ``user`` is empty for a job of the command line on this machine. Jobs of higher ``priority``
    (-100 to 100) are taken up first. Jobs submitted together share a ``batch``. ``request_id``
    names the request that asked, in logs and in the audit; empty without one. The job is the
    ``owner``'s: by default the user's. Only the owner sees the results of a ``private`` job.
    ``kernel_label`` is what people call the kernel, where that is not its name.
    """

    user: str = ""
    priority: int = 0
    batch: str | None = None
    request_id: str = ""
    owner: str = ""
    private: bool = False
    kernel_label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "owner", self.owner or self.user)

    @property
    def audience(self) -> str:
        """The owner who alone sees the job; empty for everybody."""
        return self.owner if self.private else ""


@dataclass(frozen=True)
class Budget:
    """When a job stops: at the first limit reached. ``None`` means no such limit.

    ``trials`` counts trial rows of every outcome, ``seconds`` wall time summed over all sessions
    of the job, ``patience`` trials since the last improvement. ``until_gain`` ends a job once
    more search is surely worth less than this share of the cycles
    (:class:`RemainingGain`).
    """

    trials: int | None = 100
    seconds: float | None = None
    patience: int | None = None
    until_gain: float | None = None


@dataclass(frozen=True)
class RemainingGain:
    """The estimated worth of the rest of the space: shares of the cycles of the best so far.

    0.02 means 2 % fewer cycles. ``expected`` is the mean, and with 95 % probability the gain is
    at most ``bound``. An estimate (:mod:`tuner.search.remaining`): the model may be wrong about a
    space unlike what it has seen.
    """

    expected: float
    bound: float

    @property
    def reached(self) -> float:
        """The share of the optimum expected in the space that is reached so far: 1 is all of it."""
        return 1.0 - self.expected

    @property
    def percent_reached(self) -> int:
        """That in whole percent, rounded down; never 100 while anything may be left."""
        return min(math.floor(100 * self.reached), 99 if self.bound > 0 else 100)


@dataclass(frozen=True, kw_only=True)
class JobSpec(SearchOptions):
    """A job's specification: its options, resolved. With one worker and the same seed it gives the
    same trials; with ``transfer`` only from a store that holds the same.

    The objectives have the cycles first; ``promote`` is 0 if trials are promoted nowhere.
    """

    problem: Problem
    trials: int | None = DEFAULT_TRIALS
    prefer: Preference = "fastest"
    sampler: str = DEFAULT_SAMPLER
    generator: str = DEFAULT_GENERATOR
    workers: int = 1
    promote: int = 0
    cutoff_factor: float = 4.0
    """A timed run is stopped once it needs this many times the incumbent's cycles. With several
    objectives none is: a slow one may be small."""

    def figures(self, trial: Trial) -> tuple[float, ...] | None:
        """What its search minimizes of ``trial`` (:data:`FiguresOf`): the ranked cycles, or several
        objectives."""
        measured = trial.measurement
        if measured is None or len(self.objectives) > 1:
            return figures_of(measured, self.objectives)
        return (measured.ranked_cycles(self.prefer),)

    def ranked(self, trial: Trial) -> tuple[float, int]:
        """Least for the best of its measured trials."""
        measured = trial.measurement
        cycles = math.inf if measured is None else measured.ranked_cycles(self.prefer)
        return cycles, trial.number

    @property
    def budget(self) -> Budget:
        """Its limits."""
        return Budget(self.trials, self.seconds, self.patience, self.until_gain)


@dataclass(frozen=True)
class PendingTrial:
    """A trial that was handed out and has no outcome yet. Run again, once, after a crash."""

    number: int
    config: Config
    origin: str
    """The proposer: ``default``, ``textbook``, in a set ``transfer:JOB-TRIAL`` or ``neighbour``, or
    the sampler's name."""


@dataclass(frozen=True)
class Timings:
    """Wall seconds of one trial's stages. ``overhead_s`` is everything that is not one of them."""

    compile_s: float = 0.0
    link_s: float = 0.0
    run_s: float = 0.0
    overhead_s: float = 0.0


@dataclass(frozen=True)
class Trial:
    """A finished trial: exactly one outcome.

    ``measurement`` is there exactly for outcome ``ok``, and then it is verified.
    ``artifact_digest`` is there once the candidate compiled. ``duplicate_of`` is the number of
    the earlier trial of the same job whose object was identical and whose result was taken over.
    ``started_at`` and ``finished_at`` are Unix times in seconds.
    """

    number: int
    config: Config
    origin: str
    outcome: Outcome
    measurement: Measurement | None = None
    artifact_digest: str | None = None
    duplicate_of: int | None = None
    error: str | None = None
    timings: Timings = field(default_factory=Timings)
    started_at: float = 0.0
    finished_at: float = 0.0

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) != (self.measurement is not None):
            raise ValueError(f"trial {self.number}: outcome {self.outcome} and its measurement")
        if self.measurement is not None and not self.measurement.verified:
            raise ValueError(f"trial {self.number}: an unverified measurement is not a result")


FiguresOf = Callable[[Trial], tuple[float, ...] | None]
"""Gives what a search minimizes of a trial, a figure for each objective; ``None`` if it lacks one.
"""


@dataclass(frozen=True)
class CountedTrial:
    """A trial of the search that a timing model measured, with what it made ``cycles`` of.

    ``event_counts`` are :attr:`tuner.records.candidate.Measurement.event_counts`: ``None`` for a
    trial that an older version stored.
    """

    number: int
    artifact_digest: str
    cycles: int
    event_counts: Mapping[str, Any] | None = field(hash=False)


@dataclass(frozen=True)
class Schedule:
    """A stored best: everything needed to use it and to know where it came from.

    ``provenance`` holds at least ``job``, ``trial``, ``space_digest``, ``toolchain`` (the whole
    fingerprint) and ``created_at``, and of a job's own ``prefer``. ``promoted`` is there and true
    if the measurement is that of the trial's promotion, ``kernel_label`` if people call the kernel
    by another name.
    """

    problem: Problem
    config: Config
    generator: str
    measurement: Measurement
    artifact_digest: str
    symbol: str
    provenance: Mapping[str, Any] = field(hash=False)

    @property
    def prefer(self) -> Preference:
        """The rule by which it won: that of its job, where anything is assumed."""
        assumed = self.measurement.expected_cycles is not None
        return "robust" if assumed and self.provenance.get("prefer") == "robust" else "fastest"

    @property
    def ranked_cycles(self) -> int:
        """What another one of the same rule must undercut."""
        return self.measurement.ranked_cycles(self.prefer)

    @property
    def kernel_label(self) -> str:
        """The display name of the kernel; empty if that is its name."""
        return str(self.provenance.get("kernel_label", ""))

    @property
    def public_id(self) -> str:
        """The name of the schedule that a trial gave, the same on every machine it is sent to.

        One that was chosen by its trial's promotion has a name of its own.
        """
        promoted = "p" if self.provenance.get("promoted") else ""
        return f"{self.provenance['job']}-{self.provenance['trial']}{promoted}"


UNREACHED = "not reached"
"""The word for a job of a batch whose budget was spent before its turn; its state is ``cancelled``,
its note :data:`NOT_REACHED`."""
NOT_REACHED = f"{UNREACHED}: the budget of the batch was spent before its first trial"


@dataclass(frozen=True)
class Job:
    """A job as stored."""

    id: str
    spec: JobSpec
    state: JobState
    toolchain: Mapping[str, str] = field(hash=False)
    space_digest: str
    created_at: float
    spent_s: float = 0.0
    """Wall seconds of all sessions so far."""
    note: str = ""
    """Why it failed or stopped."""
    submission: Submission = Submission()
    paused: bool = False
    """A queued job that waits until somebody resumes it."""
    remaining: RemainingGain | None = None
    """The estimated gain of more search; ``None`` while too little is known."""

    def provenance(
        self,
        trial: int,
        created_at: float | None,
        promoted_with: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """That of a schedule which the job's trial of this number gave; ``promoted_with`` is the
        toolchain of the trial's promotion, if that was what was measured."""
        return {
            "job": self.id,
            "trial": trial,
            **({} if promoted_with is None else {"promoted": True}),
            "space_digest": self.space_digest,
            "sampler": self.spec.sampler,
            "seed": self.spec.seed,
            "prefer": self.spec.prefer,
            "toolchain": dict(self.toolchain if promoted_with is None else promoted_with),
            "created_at": created_at,
            **({"kernel_label": label} if (label := self.submission.kernel_label) else {}),
        }
