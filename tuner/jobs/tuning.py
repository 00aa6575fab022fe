"""Tuning from Python: submit a job, run or resume it.

The command line and the service are thin layers over these functions.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack

from tuner.codegen import (
    CodeGenerator,
    find_generator,
    generator_for,
    generator_names,
    space_of,
)
from tuner.errors import ToolchainError, UserError
from tuner.executor import find_executor
from tuner.executor.baselines import baseline_of
from tuner.jobs.job_result import TuneResult, result
from tuner.jobs.keywords import JobKeywords, explained
from tuner.keeping.store import TrialStore
from tuner.kernels import Kernel, find_kernel
from tuner.log_ids import bound
from tuner.measure import FARM, DeviceAccess, measurer_names, open_measurer
from tuner.measure.farm.roster import Roster
from tuner.measure.measurer import AbandonableMeasurer, Measurer
from tuner.problem.contract import find_contract
from tuner.problem.objectives import DEFAULT_OBJECTIVES, OBJECTIVES, checked_objectives
from tuner.problem.target import find_target
from tuner.records.candidate import CACHE_STATES, FIDELITIES, Fidelity, Preference, Problem
from tuner.records.request import JobOptions, search_options
from tuner.records.trial import Job, JobSpec, Submission
from tuner.search.samplers import require_fits, sampler_for
from tuner.search.stopping import require_estimable
from tuner.space import Space
from tuner.uploaded import files, find_pipeline
from tuner.uploaded import kernel_name as name_of

if TYPE_CHECKING:
    import halide as hl

    from tuner.search.ladder import Rung
    from tuner.search.loop import Progress


_REACHED_BY: dict[str, Fidelity] = {"hexagon-sim": "cycle_accurate", "phone": "hardware"}
"""Kinds of devices above the model, lowest first, and what they reach: usual ``promote_to``."""


def reaching(fidelity: Fidelity) -> list[str]:
    """The kinds to promote to for ``fidelity`` or more, lowest first; none for the model, which
    every job reaches."""
    least = FIDELITIES.index(fidelity)
    return [kind for kind, one in _REACHED_BY.items() if 0 < least <= FIDELITIES.index(one)]


def upper_of(promote_to: str) -> tuple[str, str]:
    """The measurer that ``promote_to`` means, and the tags of devices if that is a farm."""
    return (promote_to, "") if promote_to in measurer_names() else (FARM, promote_to)


def require_above(upper: Measurer, lower: Measurer, promote_to: str) -> None:
    """``UserError`` unless trials measured with ``lower`` can be promoted to ``upper``."""
    higher = FIDELITIES[FIDELITIES.index(lower.fidelity) + 1 :]
    if upper.fidelity not in higher:
        raise UserError(
            f"promote_to '{promote_to}' is of fidelity {upper.fidelity}, the search of "
            f"{lower.fidelity}: nothing is gained",
            accepted=f"devices of fidelity {' or '.join(higher)}" if higher else "nothing",
        )


def default_workers() -> int:
    """As many workers as this process may use processors."""
    return len(os.sched_getaffinity(0))


def find_problem(
    kernel: str, params: Mapping[str, int] | None, target: str, contract: str
) -> Problem:
    """The problem these names mean; ``UserError`` tells which of them is wrong."""
    return find_kernel(kernel).problem(params, find_contract(contract), find_target(target))


@dataclass(frozen=True)
class Plan:
    """A job that is sound and could be stored: :meth:`TrialStore.create_job` takes its parts."""

    spec: JobSpec
    space: Space
    toolchain: Mapping[str, str] = field(hash=False)


def plan(
    kernel: str,
    params: Mapping[str, int] | None = None,
    *,
    roster: Roster | None = None,
    **options: Any,
) -> Plan:
    """The job that :func:`submit` would store. Compiles and runs nothing; takes milliseconds.

    ``options`` are the fields of :class:`tuner.records.request.JobOptions`. ``roster`` knows the
    devices of a farm; only an unknown one is asked what it is, which takes seconds.

    Raises ``UserError`` for anything that cannot work: unknown names, bad shapes, a target the
    measurer cannot run.
    """
    wanted = JobOptions.of(options).with_default_limit()
    problem = find_problem(kernel, params, wanted.target, wanted.contract)
    generator = generator_for(find_kernel(kernel), wanted.generator)
    space = space_of(generator, find_kernel(kernel), problem)
    baseline_of(wanted.baseline, generator, find_kernel(kernel), problem, space)
    # What is misspelt is known before anything is opened.
    require_fits(sampler_for(wanted.sampler, checked_objectives(wanted.objectives)), space)
    made_by = find_executor()  # known here, not when the job is run
    with (
        made_by.generator(generator, 1) as codegen,
        made_by.measurer(wanted.measurer, wanted.cache, DeviceAccess(wanted.on, roster)) as device,
    ):
        device.require(problem.target)
        objectives = _objectives(wanted, find_kernel(kernel), device)
        sampler = sampler_for(wanted.sampler, objectives)
        require_fits(sampler, space)
        _require_promotable(wanted, problem, device, roster)
        settled = {
            "objectives": objectives,
            "prefer": _preferred(wanted, objectives, device, problem),
            "sampler": sampler,
            "generator": generator,
            "promote": wanted.promote if wanted.promote_to else 0,
            "workers": wanted.workers or device.useful_workers() or default_workers(),
        }
        spec = JobSpec(problem=problem, **{**search_options(wanted), **settled})
        return Plan(spec, space, _toolchain(codegen, device))


def plan_of_several(kernel: str, params: Mapping[str, int] | None = None, **options: Any) -> Plan:
    """:func:`plan` for one of several workloads with the same options: a generator is asked for on
    behalf of the kernels that leave the choice."""
    if find_kernel(kernel).generator:
        options = {**options, "generator": None}
    return plan(kernel, params, **options)


def _require_promotable(
    wanted: JobOptions, problem: Problem, device: Measurer, roster: Roster | None
) -> None:
    if not wanted.promote_to:
        return
    name, tags = upper_of(wanted.promote_to)
    with find_executor().measurer(name, wanted.cache, DeviceAccess(tags, roster)) as upper:
        upper.require(problem.target)
        require_above(upper, device, wanted.promote_to)


def _objectives(wanted: JobOptions, kernel: Kernel, device: Measurer) -> tuple[str, ...]:
    """Those of the job, or if it says nothing those of its kernel that it can have."""
    objectives = checked_objectives(wanted.objectives)
    if wanted.prefer == "robust":
        return objectives
    if objectives == DEFAULT_OBJECTIVES and wanted.until_gain is None:
        return tuple(name for name in kernel.objectives if name in device.counted)
    require_estimable(wanted.until_gain, objectives)
    _require_counted(device, objectives)
    return objectives


def _preferred(
    wanted: JobOptions, objectives: Sequence[str], device: Measurer, problem: Problem
) -> Preference:
    """The rule for the job's best; ``UserError`` where a robust schedule means nothing."""
    from tuner.measure.qemu.uncertain import is_assumed

    assumed = device.fidelity == "model" and is_assumed(problem.target.arch)
    if wanted.prefer != "robust":
        single = objectives == DEFAULT_OBJECTIVES
        return wanted.prefer or ("robust" if assumed and single else "fastest")
    if not assumed:
        raise UserError(
            f"prefer=robust: cycles of '{device.name}' on {problem.target.name} rest on no "
            "assumed cost",
            accepted="a measurer of fidelity model, whose costs are partly assumed",
            next_step="leave it out: the fastest is the robust one there",
        )
    if objectives != DEFAULT_OBJECTIVES:
        raise UserError(
            "prefer=robust with several objectives",
            accepted="cycles as the only objective",
            next_step="leave the others out, or prefer the fastest",
        )
    return "robust"


def _require_counted(device: Measurer, objectives: Sequence[str]) -> None:
    missing = [name for name in objectives if name not in device.counted]
    if missing:
        raise UserError(
            f"objectives={','.join(objectives)}: the measurer '{device.name}' does not count "
            f"{', '.join(missing)}",
            accepted=", ".join(name for name in OBJECTIVES if name in device.counted),
            next_step="leave them out, or measure with qemu",
        )


@explained
def submit(
    kernel: str,
    params: Mapping[str, int] | None = None,
    *,
    store: TrialStore,
    submission: Submission | None = None,
    **options: Any,
) -> Job:
    """Stores a new job, without running it. ``submission`` says who asks for it.

    ``options`` are those of :func:`plan`, which refuses what cannot work before anything is stored.
    """
    made = plan(kernel, params, roster=store.roster(), **options)
    return store.create_job(made.spec, made.space, made.toolchain, submission)


@contextmanager
def _opened_rung(
    spec: JobSpec, generator: CodeGenerator, roster: Roster, holder: str
) -> Iterator[Rung | None]:
    """Where a job promotes to, ``None`` if nowhere."""
    from tuner.search.ladder import Rung

    if not spec.promote_to:
        yield None
        return
    name, on = upper_of(spec.promote_to)
    with find_executor().measurer(name, spec.cache, DeviceAccess(on, roster, holder)) as upper:
        upper.require(spec.problem.target)
        yield Rung(upper, _toolchain(generator, upper), upper.useful_workers() or 1)


def installed_toolchains() -> list[dict[str, str]]:
    """The fingerprints that usual jobs would have here, without those that need a part that is not
    installed or a package that is broken."""
    found = []
    for name, cache in product(generator_names(), CACHE_STATES):
        try:
            with (
                find_generator(name)() as codegen,
                open_measurer("qemu", cache=cache) as device,
            ):
                found.append(_toolchain(codegen, device))
        except ToolchainError:
            continue
    return found


_OURS = "hvxtune"
"""The part of a toolchain that tells which release it was."""


def _toolchain(generator: CodeGenerator, measurer: Measurer) -> dict[str, str]:
    """The fingerprint that is part of every cache key and schedule."""
    return {
        _OURS: version("hvxtune"),
        **generator.fingerprint(),
        **measurer.fingerprint(),
    }


def run(
    job_id: str,
    store: TrialStore,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
    token: int | None = None,
    most_workers: int | None = None,
) -> TuneResult:
    """Runs a stored job to its end, or resumes one that was stopped or killed.

    A job that has ended is left alone and its result returned. ``stop`` asks for an orderly stop,
    as does a request to cancel or pause the job: candidates in flight are finished and stored
    first. ``token`` is that of a claim the caller holds; without one the job is claimed here. No
    more than ``most_workers`` candidates are in flight, whatever the job asks for. Raises
    ``UserError`` if a live process holds the job, or if space or toolchain are no longer those it
    began with.
    """
    from tuner.search.loop import TuningLoop
    from tuner.search.transfer import source_of

    job = store.job(job_id)
    spec = job.spec
    kernel = find_kernel(spec.problem.workload.kernel)
    space = space_of(spec.generator, kernel, spec.problem)
    if job.state.ended:
        return result(job.id, store)
    _require_same_code(job, kernel)
    workers = min(spec.workers, most_workers or spec.workers)
    roster, holder = store.roster(), f"job {job.id} on {socket.gethostname()}"
    # Devices take bundles of candidates that wait; more compilers than processors help nobody.
    compilers = min(workers, default_workers()) if spec.measurer == FARM else workers
    made_by = find_executor()
    with (
        made_by.generator(spec.generator, compilers) as generator,
        made_by.measurer(
            spec.measurer, spec.cache, DeviceAccess(spec.on, roster, holder)
        ) as device,
        AbandonableMeasurer(device) as measurer,
        _opened_rung(spec, generator, roster, holder) as rung,
    ):
        measurer.require(spec.problem.target)
        require_same_tools(job, space, generator, measurer)
        held = store.claim(job.id) if token is None else token
        if FARM in (spec.measurer, upper_of(spec.promote_to)[0] if spec.promote_to else ""):
            roster.free_left_behind(holder)  # by a session that was killed: the claim is ours

        def abandon() -> None:
            generator.abandon()
            measurer.abandon()

        loop = TuningLoop(
            replace(store.job(job.id), spec=replace(spec, workers=workers)),
            held,
            store=store,
            kernel=kernel,
            space=space,
            generator=generator,
            measurer=measurer,
            rung=rung,
            on_progress=on_progress,
            stop=stop,
            source=source_of(store, job, kernel, space),
            baseline=baseline_of(spec.baseline, spec.generator, kernel, spec.problem, space),
            abandon=abandon,
        )
        with bound(job=job.id):
            loop.run()
    return result(job.id, store)


def require_same_tools(
    job: Job, space: Space, generator: CodeGenerator, measurer: Measurer
) -> None:
    """``UserError`` if the job began with another space or toolchain than there is here now.

    The version of hvxtune does not count: what decides objects and cycles has digests of its own,
    and an upgrade that changes none of it continues the jobs that run.
    """
    then = {**job.toolchain, "space": job.space_digest}
    now = {**_toolchain(generator, measurer), "space": space.digest}
    for part in sorted({*then, *now} - {_OURS}, key=lambda part: (part != "space", part)):
        if then.get(part) != now.get(part):
            raise _began_with_another(job, part, then.get(part, "none"), now.get(part, "none"))


def _require_same_code(job: Job, kernel: Kernel) -> None:
    """``UserError`` if the job began with other code of its kernel: its trials would be stored for
    code that they were not made of."""
    source = job.spec.problem.workload.source
    if source != kernel.source:
        raise _began_with_another(job, f"code of {kernel.name}", source, kernel.source)


def _began_with_another(job: Job, part: str, then: str, now: str) -> UserError:
    return UserError(
        f"job {job.id} began with {part} {then[:16]}, here it is {now[:16]}: its cycles could not "
        "be compared",
        next_step="start a new job with `hvxtune tune`, or install the versions it began with",
    )


@explained
def tune(
    kernel: str,
    params: Mapping[str, int] | None = None,
    *,
    store: TrialStore | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[JobKeywords],
) -> TuneResult:
    """Searches for the fastest schedule of ``kernel`` with ``params``; the rest by default.

    Without a ``store`` nothing outlives the process; ``db.open_store()`` gives the store that the
    command line uses. ``on_progress`` is called after every trial. ``stop`` asks for an
    orderly end. Raises ``UserError`` for what cannot work, before anything is run.

    The result has the trials: ``best``, ``textbook``, ``trials``, ``to_frame()``.
    """
    from tuner.keeping.memory_store import MemoryStore

    store = store or MemoryStore()
    job = submit(kernel, params, store=store, **options)
    return run(job.id, store, on_progress=on_progress, stop=stop)


def keep_pipeline(pipeline: hl.Func | hl.Pipeline | bytes) -> str:
    """Keeps an unscheduled pipeline in the state directory; returns its name as a kernel.

    ``pipeline`` is the output Func, the Pipeline, or what ``halide.serialize_pipeline`` gave. A
    Func or Pipeline is serialized here; whatever is opened again is opened in a contained process.
    Raises ``UserError`` for anything but a pipeline, or for one that cannot be tuned, saying why.
    """
    if isinstance(pipeline, bytes):
        data = pipeline
    else:
        import halide as hl

        if isinstance(pipeline, hl.Func):
            pipeline = hl.Pipeline(pipeline)
        if not isinstance(pipeline, hl.Pipeline):
            raise UserError(
                f"a pipeline of type {type(pipeline).__name__}",
                accepted="a halide.Func, a halide.Pipeline, or serialized bytes",
            )
        data = hl.serialize_pipeline(pipeline)
    name = name_of(files.keep(data))
    find_pipeline(name)
    return name


@explained
def tune_pipeline(
    pipeline: hl.Func | hl.Pipeline | bytes,
    params: Mapping[str, int] | None = None,
    *,
    store: TrialStore | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[JobKeywords],
) -> TuneResult:
    """Tunes an unscheduled pipeline: :func:`keep_pipeline`, then :func:`tuner.jobs.tuning.tune`.

    ``params`` are the extents of the output by the names of its dimensions, and those of inputs
    that no output decides.
    """
    name = keep_pipeline(pipeline)
    return tune(name, params, store=store, on_progress=on_progress, stop=stop, **options)
