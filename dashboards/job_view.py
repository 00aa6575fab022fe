"""A job as pages show it: its state, figures and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from db.jobs.queries import JobOverview
from db.leaders import Leader
from db.schedules.serving import ServingRow
from service.json_forms import best_share, job_roofline, share_of
from tuner.errors import UserError
from tuner.identity import digest_of
from tuner.jobs.headline import NO_TEXTBOOK, Headline
from tuner.measure.roofline import roofline_of
from tuner.records.annotation import Annotation
from tuner.records.candidate import CacheState, Measurement, Problem
from tuner.records.request import search_options, told
from tuner.records.roofline import Roofline
from tuner.records.trial import NOT_REACHED, UNREACHED, Job, JobState


def roofline_for(problem: Problem, cache: CacheState = "warm") -> Roofline | None:
    """The roofline; ``None`` for a kernel that is not installed here any more."""
    try:
        return roofline_of(problem, cache)
    except UserError:
        return None


def share_of_row(problem: Problem, cache: CacheState, row: ServingRow) -> float | None:
    """Least cycles over those of a stored schedule."""
    roofline = roofline_for(problem, cache)
    return None if roofline is None else roofline.cycles_at(row.fidelity) / row.cycles


def state_word(job: Job, *, interrupted: bool = False) -> str:
    """The state in a person's words."""
    if interrupted:
        return "interrupted"
    if job.state is JobState.CANCELLED and job.note == NOT_REACHED:
        return UNREACHED
    return "paused" if job.paused and job.state is JobState.QUEUED else job.state.value


@dataclass(frozen=True)
class JobView:
    """The state of a job, and the comparisons a reader would make."""

    overview: JobOverview

    @property
    def job(self) -> Job:
        """The job itself."""
        return self.overview.summary.job

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def kernel(self) -> str:
        """The kernel's name, for commands and queries."""
        return self.job.spec.problem.workload.kernel

    @property
    def name(self) -> str:
        """The display name of the kernel."""
        return self.job.submission.kernel_label or self.kernel

    @property
    def annotation(self) -> Annotation:
        """Its comment and tags."""
        return self.overview.summary.annotation

    @property
    def params(self) -> Mapping[str, int]:
        """The kernel's parameters."""
        return self.job.spec.problem.workload.params

    @property
    def settings(self) -> list[tuple[str, str]]:
        """How it searches, where that is not the default: labels and values."""
        return told(search_options(self.job.spec))

    @property
    def listed(self) -> list[str]:
        """Of that, what lists show."""
        return [text for _, text in told(search_options(self.job.spec), listed=True)]

    @property
    def state(self) -> str:
        """The state in a word."""
        return state_word(self.job, interrupted=self.overview.summary.interrupted)

    @property
    def open(self) -> bool:
        """Whether the job can still make progress."""
        return not self.job.state.ended

    @property
    def best(self) -> Leader | None:
        """The best verified trial, by what the job prefers."""
        return self.overview.summary.best

    @property
    def finished(self) -> int:
        """Trials with an outcome."""
        return self.overview.summary.finished

    @cached_property
    def roofline(self) -> Roofline | None:
        """The least cycles of its algorithm."""
        return job_roofline(self.job)

    @property
    def share_of_roofline(self) -> float | None:
        """Least cycles over best ones, as lists have it."""
        return best_share(self.overview.summary)

    def share(self, measurement: Measurement | None) -> float | None:
        """Least cycles over measured ones."""
        return share_of(measurement, self.roofline)

    @cached_property
    def headline(self) -> Headline | None:
        """The opponent of the best."""
        return self.overview.headline

    @property
    def no_textbook(self) -> str:
        """That there is no textbook, if there is none."""
        return NO_TEXTBOOK if self.overview.textbook_is_unscheduled else ""

    @property
    def version(self) -> str:
        """Changes whenever something on the job's page does."""
        pending = self.overview.summary.pending
        begun, back = self.overview.promotions
        latest = f"{self.overview.last_finished_at or 0:.3f}"
        waits = digest_of(self.overview.summary.waits)[:8]
        return f"{self.state}-{self.finished}-{pending}-{begun}-{back}-{latest}-{waits}"
