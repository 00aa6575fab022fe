"""One config outside of any job: its code, its cycles, and where they go. Nothing is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.codegen import find_generator, generator_of, starts_of
from tuner.errors import CandidateError, UserError
from tuner.executor import find_executor
from tuner.kernels import find_kernel
from tuner.measure import DeviceAccess
from tuner.measure.farm.roster import Roster
from tuner.records.candidate import Artifact, CacheState, Candidate, Problem
from tuner.records.trial import Trial
from tuner.space import Config

if TYPE_CHECKING:
    from tuner.measure.explanation import Explanation


def named_config(problem: Problem, name: str) -> Config | None:
    """The ``default``, ``textbook`` or ``baseline`` config of a problem, a schedule of its kernel;
    ``None`` for another name. ``UserError`` if it has no baseline."""
    if name not in ("default", "textbook", "baseline"):
        return None
    kernel = find_kernel(problem.workload.kernel)
    starts = starts_of(generator_of(kernel, {}), kernel, problem)
    if name not in starts:
        raise UserError(
            f"{kernel.name} has no {name}",
            accepted="default, textbook",
            next_step="packages state one: [configs.baseline] in kernel.toml",
        )
    return starts[name]


def measure(
    problem: Problem,
    config: Config,
    *,
    generator: str = "",
    measurer: str = "qemu",
    on: str = "",
    cache: CacheState = "warm",
    roster: Roster | None = None,
    executor: str | None = None,
) -> tuple[Trial, Artifact | None]:
    """Compiles, verifies and times one config, without a job and without storing anything.

    ``on`` and ``roster`` as in :func:`tuner.jobs.tuning.plan`, ``executor`` as in
    :func:`tuner.executor.find_executor`.

    ``config`` must be a point of the space of ``generator`` (``Space.config`` makes sure), by
    default that of :func:`tuner.codegen.generator_of`. Returns a
    trial numbered 0 with its outcome, and if it compiled the artifact that was measured, with
    assembly as near to it as the compiler gives it (none if that takes too long).
    """
    from tuner.executor.evaluation import Evaluator

    candidate = _candidate(problem, config, generator)
    made_by = find_executor(executor)
    with (
        made_by.generator(candidate.generator, 1) as codegen,
        made_by.measurer(measurer, cache, DeviceAccess(on, roster)) as device,
    ):
        device.require(problem.target)
        evaluation = Evaluator(codegen, device).evaluate(candidate, number=0, origin="measure")
        measured = evaluation.artifact
        if measured is None:
            return evaluation.trial, None
        # Asked for assembly too, LLVM may order instructions otherwise: keep the object measured.
        try:
            files = {**codegen.compile(candidate, with_assembly=True).files, **measured.files}
        except CandidateError:
            return evaluation.trial, measured  # a busy machine made it miss its limit now
        return evaluation.trial, replace(measured, files=files)


def compiled(
    problem: Problem, config: Config, *, generator: str = "", with_assembly: bool = False
) -> Artifact:
    """The code of one config for any target, whether or not it could be run here. ``generator`` as
    in :func:`measure`.

    Raises ``CandidateError`` if the compiler refuses it, fails or takes too long.
    """
    candidate = _candidate(problem, config, generator)
    with find_generator(candidate.generator)(1) as codegen:
        return codegen.compile(candidate, with_assembly=with_assembly)


def _candidate(problem: Problem, config: Config, generator: str) -> Candidate:
    kernel = find_kernel(problem.workload.kernel)
    return Candidate(problem, config, generator or generator_of(kernel, config))


def explain(
    problem: Problem, artifact: Artifact, *, measurer: str = "qemu", cache: CacheState = "warm"
) -> Explanation:
    """Runs a compiled config once more, by the executor of this process, and says where its cycles
    go.

    Raises ``UserError`` if the measurer cannot tell, ``CandidateError`` if the candidate is bad.
    """
    with find_executor().measurer(measurer, cache, DeviceAccess()) as device:
        return device.explain(problem, artifact)
