"""Problems, measurements, trials, jobs and batches as JSON: the same over REST and from the command
line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tuner.errors import UserError
from tuner.records.candidate import Cycles
from tuner.records.request import BUDGET, SearchOptions, as_json, of_group
from tuner.records.trial import Job, Promotion, Schedule, Trial

if TYPE_CHECKING:
    from db.jobs.conductors import Conductor
    from db.jobs.events import Told
    from db.jobs.queries import JobOverview, JobSummary
    from db.jobs.trials import KeyTrials, PromotedTrials
    from db.pipelines import StoredPipeline
    from db.sql_store import SqlStore
    from tuner.jobs.batch_progress import (
        BatchProgress,
        BatchTable,
        LayerProgress,
        MemberProgress,
        NextStep,
        Totals,
    )
    from tuner.jobs.distance import Distance
    from tuner.jobs.headline import Headline
    from tuner.kernels import Kernel
    from tuner.packages.files import Package
    from tuner.records.annotation import Annotation
    from tuner.records.candidate import Measurement, Problem
    from tuner.records.failures import Failure
    from tuner.records.roofline import Roofline
    from tuner.search.doubt import Doubt, Unknown


def _named(record: object, names: str) -> dict[str, Any]:
    """Attributes of ``record`` by name; all null without one."""
    return {name: None if record is None else getattr(record, name) for name in names.split()}


_PARAM = "name default minimum maximum multiple doc"


def kernel_json(kernel: Kernel) -> dict[str, Any]:
    """A kernel with its parameters."""
    params = [_named(param, _PARAM) for param in kernel.params]
    return {**_named(kernel, "name version summary"), "params": params}


def space_json(problem: Problem, generator: str | None = None) -> dict[str, Any]:
    """The space a search over ``problem`` would use, with its two configs that are known."""
    from tuner.codegen import space_of, starts_of
    from tuner.kernels import find_kernel

    kernel = find_kernel(problem.workload.kernel)
    space, starts = space_of(generator, kernel, problem), starts_of(generator, kernel, problem)
    return {
        **space.as_dict(),
        "digest": space.digest,
        "default": starts["default"].as_dict(),
        "textbook": starts["textbook"].as_dict(),
    }


def visibility(*, private: bool) -> str:
    """As :data:`service.schemas.common.Visibility`."""
    return "private" if private else "shared"


def pipeline_json(stored: StoredPipeline) -> dict[str, Any]:
    """An upload as lists show it: without the space that is derived of it."""
    return {
        **_named(stored, "digest name owner address user upload_bytes created_at"),
        "visibility": visibility(private=stored.private),
        **stored.description,
        "kernel": stored.kernel,
        **dict.fromkeys(("params", "space", "overflow", "not_tunable")),
    }


def package_json(package: Package) -> dict[str, Any]:
    """A package, without its files."""
    manifest = package.manifest
    return {
        "package": manifest.name,
        **_named(manifest, "version summary"),
        **_named(package, "digest kernel"),
        "build": manifest.build.kind,
        "contracts": list(manifest.contracts),
    }


def problem_json(problem: Problem) -> dict[str, Any]:
    """The fields that name a problem."""
    return {
        "kernel": problem.workload.kernel,
        "params": dict(problem.workload.params),
        "contract": problem.contract.value,
        "target": problem.target.name,
    }


def share_of(measurement: Measurement | None, roofline: Roofline | None) -> float | None:
    """The least cycles over those that were measured, as far as both are known."""
    if measurement is None or roofline is None:
        return None
    return round(roofline.cycles_at(measurement.fidelity) / measurement.cycles, 4)


_MODEL = "qemu"
"""The measurer whose cycles are the timing model's."""
_FIGURES = (
    "cycles packets stalls core_cycles fidelity device cache overhead_cycles temperature_c"
    " vtcm_bytes expected_cycles lowest_cycles highest_cycles"
)


def measurement_json(measurement: Measurement | None, roofline: Roofline | None) -> dict[str, Any]:
    """The figures of a measurement; all null, and not verified, without one."""
    found = measurement
    return {
        **_named(found, _FIGURES),
        "verified": found is not None and found.verified,
        "share_of_roofline": share_of(found, roofline),
        "samples": [] if found is None else list(found.samples),
        "breakdown": {} if found is None else dict(found.breakdown),
    }


def trial_json(trial: Trial, roofline: Roofline | None) -> dict[str, Any]:
    """A trial with its config and figures."""
    return {
        "trial": trial.number,
        "origin": trial.origin,
        "outcome": trial.outcome.value,
        "config": trial.config.as_dict(),
        **measurement_json(trial.measurement, roofline),
        **_named(trial.measurement, "code_bytes ddr_bytes"),
        "object_digest": trial.artifact_digest,
        **_named(trial, "duplicate_of error"),
    }


def job_json(job: Job) -> dict[str, Any]:
    """A job as ``jobs`` lists it."""
    spec, options = job.spec, as_json(job.spec)
    budget = {one.name: options.pop(one.name) for one in of_group(SearchOptions, BUDGET)}
    return {
        "job": job.id,
        "state": job.state.value,
        **problem_json(spec.problem),
        "display_name": job.submission.kernel_label or spec.problem.workload.kernel,
        **options,
        "budget": budget,
        **_named(job, "created_at note paused"),
        "spent_s": round(job.spent_s, 3),
        "remaining_gain": None if job.remaining is None else asdict(job.remaining),
        **_named(job.submission, "user owner priority batch request_id"),
        "visibility": visibility(private=job.submission.private),
    }


def job_roofline(job: Job) -> Roofline | None:
    """The roofline of a job; ``None`` if its kernel is not known here (any more)."""
    from tuner.measure.roofline import roofline_of

    try:
        return roofline_of(job.spec.problem, job.spec.cache)
    except UserError:
        return None


def best_share(summary: JobSummary) -> float | None:
    """Least cycles over those of the best of a job, of whose fidelity a summary says nothing: but
    on the simulator HVX alone bounds them."""
    best, roofline = summary.best_cycles, job_roofline(summary.job)
    if best is None or roofline is None:
        return None
    is_model = summary.job.spec.measurer == _MODEL
    return round((roofline.cycles if is_model else roofline.compute_cycles) / best, 4)


@lru_cache(maxsize=256)
def left_out(problem: Problem, generator: str) -> dict[str, str]:
    """The generators that a search of ``problem`` by ``generator`` leaves out, and why; none for a
    kernel that is not known here."""
    from tuner.codegen import find_generator
    from tuner.kernels import find_kernel

    try:
        kernel = find_kernel(problem.workload.kernel)
        return find_generator(generator).left_out(kernel, problem)
    except UserError:
        return {}


def summary_json(summary: JobSummary) -> dict[str, Any]:
    """A job with its trials counted."""
    return {
        **job_json(summary.job),
        **_named(summary, "interrupted finished pending waits"),
        **_cycles("best", summary.best and summary.best.taken),
        "outcomes": {outcome.value: count for outcome, count in summary.outcomes.items()},
        **annotation_json(summary.annotation),
    }


def annotation_json(annotation: Annotation) -> dict[str, Any]:
    """The comment and tags of a job."""
    return {"comment": annotation.comment, "tags": list(annotation.tags)}


def overview_json(overview: JobOverview) -> dict[str, Any]:
    """A job as lists show it: with its trials counted and its best so far."""
    summary = overview.summary
    return {
        **summary_json(summary),
        **_cycles("default", overview.default),
        **_cycles("textbook", overview.textbook),
        "textbook_is_unscheduled": overview.textbook_is_unscheduled,
        **_cycles("baseline", overview.baseline),
        "told_against": headline_json(overview.headline),
        "share_of_roofline": best_share(summary),
        "rate_trials_per_s": _rounded(overview.rate_per_s, 3),
        "eta_s": _rounded(overview.eta_s, 1),
    }


def totals_json(totals: Totals) -> dict[str, Any]:
    """The cycles of a whole network or set."""
    speedup = totals.speedup
    return {
        "textbook_cycles": totals.textbook_cycles,
        **_cycles("best", totals.best),
        "best_cycles": totals.best_cycles,
        "speedup": None if speedup is None else round(speedup, 4),
        "layers": totals.layers,
        "layers_of_set": totals.of_layers,
    }


def batch_json(progress: BatchProgress) -> dict[str, Any]:
    """A batch as lists show it."""
    batch = progress.batch
    return {
        "batch": batch.id,
        **_named(batch, "kind name created_at"),
        "state": progress.state,
        "job_count": len(progress.members),
        "jobs_by_state": dict(Counter(one.word for one in progress.members)),
        **_named(progress, "finished ok pending"),
        "total": totals_json(progress.totals),
        "budget": {"trials": batch.trials, "seconds": batch.seconds},
        **_named(batch.submission, "user owner priority"),
        "visibility": visibility(private=batch.submission.private),
    }


def listed_json(one: JobOverview | BatchProgress) -> dict[str, Any]:
    """A row of a list in which a batch is one."""
    from db.jobs.queries import JobOverview

    return overview_json(one) if isinstance(one, JobOverview) else batch_json(one)


def batch_table_json(table: BatchTable) -> dict[str, Any]:
    """A batch by itself: its jobs, its layers, and what to do next."""
    return {
        **batch_json(table.progress),
        "jobs": [
            _member_json(one, table.problems[one.member.job]) for one in table.progress.members
        ],
        "layers": [_layer_json(row) for row in table.layers],
        "next": None if table.next is None else _next_json(table.next),
    }


def _member_json(one: MemberProgress, problem: Problem) -> dict[str, Any]:
    return {
        "job": one.member.job,
        "state": one.word,
        **problem_json(problem),
        "layers": list(one.member.layers),
        "occurrences": one.member.occurrences,
        **_named(one, "finished textbook_cycles best_cycles"),
    }


def _layer_json(row: LayerProgress) -> dict[str, Any]:
    layer = row.layer
    return {
        **_named(row, "name kernel calls textbook_cycles best_cycles left_cycles"),
        **_named(layer, "operator macs share_of_macs output_bytes"),
        "steps_apart": None if layer is None else layer.steps,
        "on_host": layer is not None and layer.on_host,
        "note": "" if layer is None else layer.note,
        "reads": [] if layer is None else list(layer.reads),
        "within": "" if layer is None else layer.within,
        "job": None if row.progress is None else row.progress.member.job,
        "share": _rounded(row.share, 4),
        "speedup": _rounded(row.speedup, 4),
    }


def _next_json(step: NextStep) -> dict[str, Any]:
    return {
        "job": step.progress.member.job,
        **problem_json(step.problem),
        "layers": list(step.progress.member.layers),
        "left_cycles": step.left_cycles,
    }


def _cycles(name: str, found: Cycles | None) -> dict[str, int | None]:
    return {f"{name}_{figure}": getattr(found, figure, None) for figure in Cycles._fields}


def headline_json(headline: Headline | None) -> dict[str, Any] | None:
    """The opponent of a job's best."""
    return None if headline is None else headline.as_dict()


def conductors_json(store: SqlStore) -> list[dict[str, Any]]:
    """The conductors that are alive, and other processes at work, such as ``hvxtune tune``."""
    from db.jobs.conductors import conductors
    from db.jobs.queries import conductors_at_work

    at_work = {one.owner.key: one for one in conductors_at_work(store)}
    listed = {one.owner.key: one for one in conductors(store)}
    found = []
    for key in [*listed, *(key for key in at_work if key not in listed)]:
        one, work = listed.get(key), at_work.get(key)
        owner = one.owner if one is not None else at_work[key].owner
        found.append(
            {
                "host": owner.host.partition("/")[0],
                **_named(owner, "pid started_at"),
                "jobs": [] if work is None else list(work.jobs),
                **_report_json(one),
            }
        )
    return found


def _report_json(one: Conductor | None) -> dict[str, Any]:
    return {
        "fit": one is None or one.fit,
        "lacks": [] if one is None else [asdict(lack) for lack in one.lacks],
        "without": [] if one is None else [asdict(lack) for lack in one.without],
        "measurers": [] if one is None else list(one.abilities.measurers),
        "executor": "threads" if one is None else one.executor,
        "workers": [] if one is None else [asdict(worker) for worker in one.workers],
        **_named(one, "slots version artifacts clock_offset_s seen_at"),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """A stored schedule, as the best query gives it."""
    from tuner.measure.roofline import roofline_of

    problem = schedule.problem
    return {
        "id": schedule.public_id,
        **problem_json(problem),
        "display_name": schedule.kernel_label or problem.workload.kernel,
        "config": schedule.config.as_dict(),
        **measurement_json(schedule.measurement, roofline_of(problem, schedule.measurement.cache)),
        "generator": schedule.generator,
        "prefer": schedule.prefer,
        "symbol": schedule.symbol,
        "object_digest": schedule.artifact_digest,
        "provenance": dict(schedule.provenance),
    }


def doubt_json(doubt: Doubt | Unknown | None) -> dict[str, Any] | None:
    """How far a best rests on assumed costs; null where nothing is assumed."""
    return None if doubt is None else doubt.as_dict()


def detail_json(
    overview: JobOverview,
    trials: KeyTrials,
    front: Sequence[Trial],
    promoted: PromotedTrials,
    doubt: Doubt | Unknown | None,
    distance: Distance | None,
    failures: Sequence[Failure],
) -> dict[str, Any]:
    """A job by itself: with the trials to look at first, those on its Pareto ``front``, the
    promotions, the doubt about its best, its distance to the roofline, what failed most, and the
    toolchain."""
    job = overview.summary.job
    roofline = job_roofline(job)

    def form(trial: Trial | None) -> dict[str, Any] | None:
        return None if trial is None else full_trial_json(trial, roofline)

    return {
        **overview_json(overview),
        "default": form(trials.default),
        "textbook": form(trials.textbook),
        "best": form(trials.best),
        "baseline_trial": form(trials.baseline),
        "pareto": [full_trial_json(trial, roofline) for trial in front],
        "roofline": None if roofline is None else roofline.as_dict(),
        "toolchain": dict(job.toolchain),
        "space_digest": job.space_digest,
        "ladder": ladder_json(job, promoted.trials, promoted.promotions, roofline),
        "doubt": doubt_json(doubt),
        "distance": None if distance is None else distance.as_dict(),
        "failures": [one.as_dict() for one in failures],
        "left_out": left_out(job.spec.problem, job.spec.generator),
    }


def full_trial_json(trial: Trial, roofline: Roofline | None) -> dict[str, Any]:
    """A trial with when it ran and where its time went."""
    return {
        **trial_json(trial, roofline),
        "started_at": trial.started_at,
        "finished_at": trial.finished_at,
        "timings": asdict(trial.timings),
    }


def told_json(told: Told, roofline: Roofline | None) -> dict[str, Any]:
    """The data of an event."""
    at = told.event.at
    if told.trial is None:
        return {**told.event.data, "at": at}
    return {
        **full_trial_json(told.trial, roofline),
        "finished": told.finished,
        "best_cycles": told.best_cycles,
        "at": at,
    }


def ladder_json(
    job: Job,
    trials: Sequence[Trial],
    promotions: Sequence[Promotion],
    roofline: Roofline | None,
) -> dict[str, Any] | None:
    """Where the job promotes to, each promotion with its trial's own cycles, and how far both
    agree; ``None`` if it promotes nothing. ``trials`` holds at least those promoted."""
    from tuner.search.ladder import pairs_of
    from tuner.search.ranking import agreement

    spec = job.spec
    if not spec.promote_to:
        return None
    by_number = {trial.number: trial for trial in trials}
    return {
        "promote_to": spec.promote_to,
        "promote": spec.promote,
        "promotions": [_promotion(p, by_number[p.trial], roofline) for p in promotions],
        "agreement": agreement(pairs_of(trials, promotions)).as_dict(),
    }


def _promotion(promotion: Promotion, trial: Trial, roofline: Roofline | None) -> dict[str, Any]:
    low = trial.measurement
    return {
        "trial": promotion.trial,
        "outcome": None if promotion.outcome is None else promotion.outcome.value,
        **measurement_json(promotion.measurement, roofline),
        "trial_cycles": None if low is None else low.cycles,
        "trial_fidelity": None if low is None else low.fidelity,
        **_named(promotion, "error started_at finished_at"),
    }
