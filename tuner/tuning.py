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
from typing import TYPE_CHECKING, TypedDict, Unpack

from tuner.codegen import CodeGenerator, find_generator, generator_names, space_of
from tuner.errors import ToolchainError, UserError
from tuner.goals import DEFAULT_GOALS, GOALS, checked_goals
from tuner.job_result import TuneResult, result
from tuner.kernels import find_kernel
from tuner.measure import FARM, DeviceAccess, open_measurer
from tuner.measure.farm.roster import Roster
from tuner.measure.measurer import Measurer
from tuner.problem.contract import find_contract
from tuner.problem.target import DEFAULT_TARGET, find_target
from tuner.records.candidate import CACHE_STATES, CacheState, Problem
from tuner.records.promotion import DEFAULT_PROMOTIONS
from tuner.records.trial import Job, JobSpec, Submission
from tuner.rungs import require_above, upper_of
from tuner.search.samplers import require_fits, sampler_for
from tuner.search.stopping import checked_budget
from tuner.space import Space
from tuner.store import TrialStore

if TYPE_CHECKING:
    from tuner.search.ladder import Rung
    from tuner.search.loop import Progress


def default_workers() -> int:
    """As many workers as this process may use processors."""
    return len(os.sched_getaffinity(0))


def find_problem(
    kernel: str, params: Mapping[str, int] | None, target: str, contract: str
) -> Problem:
    """The problem these names mean; ``UserError`` tells which of them is wrong."""
    return find_kernel(kernel).problem(params, find_contract(contract), find_target(target))


class JobOptions(TypedDict, total=False):
    """What :func:`plan` takes beside kernel and parameters, with its defaults."""

    target: str
    contract: str
    trials: int | None
    seconds: float | None
    patience: int | None
    until_gain: float | None
    transfer: bool
    goals: Sequence[str]
    sampler: str | None
    seed: int
    workers: int | None
    generator: str
    measurer: str
    on: str
    promote_to: str
    promote: int
    cache: CacheState


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
    target: str = DEFAULT_TARGET,
    contract: str = "static",
    trials: int | None = 100,
    seconds: float | None = None,
    patience: int | None = None,
    until_gain: float | None = None,
    transfer: bool = True,
    goals: Sequence[str] = DEFAULT_GOALS,
    sampler: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    generator: str = "halide",
    measurer: str = "qemu",
    on: str = "",
    promote_to: str = "",
    promote: int = DEFAULT_PROMOTIONS,
    cache: CacheState = "warm",
    roster: Roster | None = None,
) -> Plan:
    """What :func:`submit` would store. Compiles and runs nothing; takes milliseconds.

    ``on`` chooses devices of a farm, which ``roster`` knows; only one that nobody knows yet is
    asked what it is, which takes seconds. ``goals`` are what is to be small
    (:mod:`tuner.goals`); without a ``sampler`` it is the usual one for them. ``promote_to`` names
    where the ``promote`` most promising trials are measured again (:mod:`tuner.search.ladder`): a
    measurer, or tags of devices.

    Raises ``UserError`` for anything that cannot work: unknown names, bad shapes, no budget at
    all, a target the measurer cannot run.
    """
    problem = find_problem(kernel, params, target, contract)
    space = space_of(generator, find_kernel(kernel), problem)
    wanted = checked_goals(goals)
    chosen = sampler_for(sampler, wanted)
    require_fits(chosen, space)
    budget = checked_budget(trials, seconds, patience, until_gain, wanted)
    with (
        find_generator(generator)() as codegen,
        open_measurer(measurer, cache, DeviceAccess(on, roster)) as device,
    ):
        device.require(problem.target)
        _require_counted(device, wanted)
        if promote_to:
            name, tags = upper_of(promote_to)
            with open_measurer(name, cache, DeviceAccess(tags, roster)) as upper:
                upper.require(problem.target)
                require_above(upper, device, promote_to, promote)
        spec = JobSpec(
            problem=problem,
            budget=budget,
            transfer=transfer,
            goals=wanted,
            sampler=chosen,
            seed=seed,
            generator=generator,
            measurer=measurer,
            on=on,
            promote_to=promote_to,
            promote=promote if promote_to else 0,
            cache=cache,
            workers=_checked_workers(workers, device.useful_workers()),
        )
        return Plan(spec, space, _toolchain(codegen, device))


def _require_counted(device: Measurer, goals: Sequence[str]) -> None:
    missing = [goal for goal in goals if goal not in device.counted]
    if missing:
        raise UserError(
            f"goals={','.join(goals)}: the measurer '{device.name}' does not count "
            f"{', '.join(missing)}",
            accepted=", ".join(goal for goal in GOALS if goal in device.counted),
            next_step="leave them out, or measure with qemu",
        )


def submit(
    kernel: str,
    params: Mapping[str, int] | None = None,
    *,
    store: TrialStore,
    submission: Submission | None = None,
    **options: Unpack[JobOptions],
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
    with open_measurer(name, spec.cache, DeviceAccess(on, roster, holder)) as upper:
        upper.require(spec.problem.target)
        yield Rung(upper, _toolchain(generator, upper), upper.useful_workers() or 1)


def _checked_workers(given: int | None, useful: int | None) -> int:
    workers = (useful or default_workers()) if given is None else given
    if not 1 <= workers <= 256:
        raise UserError(f"workers={workers}", accepted="1 to 256")
    return workers


def installed_toolchains() -> list[dict[str, str]]:
    """The fingerprints that usual jobs would have here; none if a part is not installed."""
    found = []
    for name, cache in product(generator_names(), CACHE_STATES):
        try:
            with (
                find_generator(name)() as codegen,
                open_measurer("qemu", cache=cache) as device,
            ):
                found.append(_toolchain(codegen, device))
        except ToolchainError:
            return []
    return found


def _toolchain(generator: CodeGenerator, measurer: Measurer) -> dict[str, str]:
    """The fingerprint that is part of every cache key and schedule."""
    return {
        "hvxtune": version("hvxtune"),
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
    from tuner.search.transfer import transferred

    job = store.job(job_id)
    spec = job.spec
    kernel = find_kernel(spec.problem.workload.kernel)
    space = space_of(spec.generator, kernel, spec.problem)
    if job.state.ended:
        return result(job.id, store)
    workers = min(spec.workers, most_workers or spec.workers)
    roster, holder = store.roster(), f"job {job.id} on {socket.gethostname()}"
    # Devices take bundles of candidates that wait; more compilers than processors help nobody.
    compilers = min(workers, default_workers()) if spec.measurer == FARM else workers
    with (
        find_generator(spec.generator)(compilers) as generator,
        open_measurer(spec.measurer, spec.cache, DeviceAccess(spec.on, roster, holder)) as measurer,
        _opened_rung(spec, generator, roster, holder) as rung,
    ):
        measurer.require(spec.problem.target)
        require_same_tools(job, space, generator, measurer)
        held = store.claim(job.id) if token is None else token
        if FARM in (spec.measurer, upper_of(spec.promote_to)[0] if spec.promote_to else ""):
            roster.free_left_behind(holder)  # by a session that was killed: the claim is ours
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
            transfers=transferred(store, job, kernel, space),
        )
        loop.run()
    return result(job.id, store)


def require_same_tools(
    job: Job, space: Space, generator: CodeGenerator, measurer: Measurer
) -> None:
    """``UserError`` if the job began with another space or toolchain than there is here now."""
    then = {**job.toolchain, "space": job.space_digest}
    now = {**_toolchain(generator, measurer), "space": space.digest}
    for part in sorted({*then, *now}, key=lambda part: (part != "space", part)):
        if then.get(part) != now.get(part):
            raise UserError(
                f"job {job.id} began with {part} {then.get(part, 'none')[:16]}, here it is "
                f"{now.get(part, 'none')[:16]}: its cycles could not be compared",
                next_step="start a new job with `hvxtune tune`, or install the versions it began "
                "with",
            )


def tune(
    kernel: str,
    params: Mapping[str, int] | None = None,
    *,
    store: TrialStore | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
    **options: Unpack[JobOptions],
) -> TuneResult:
    """Submits a job and runs it; ``options`` are those of :func:`submit`.

    Without a ``store`` nothing outlives the process; ``db.open_store()`` gives the store that the
    command line uses.
    """
    from tuner.memory_store import MemoryStore

    store = store or MemoryStore()
    job = submit(kernel, params, store=store, **options)
    return run(job.id, store, on_progress=on_progress, stop=stop)
