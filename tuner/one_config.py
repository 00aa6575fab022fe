"""One config outside of any job: its code, its cycles, and where they go. Nothing is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.codegen import find_generator, starts_of
from tuner.errors import CandidateError
from tuner.kernels import find_kernel
from tuner.measure import DeviceAccess, open_measurer
from tuner.measure.farm.roster import Roster
from tuner.records.candidate import Artifact, CacheState, Candidate, Problem
from tuner.records.trial import Trial
from tuner.space import Config

if TYPE_CHECKING:
    from tuner.measure.explanation import Explanation


def named_config(problem: Problem, name: str, generator: str = "halide") -> Config | None:
    """The ``default`` or ``textbook`` config of a problem, or ``None`` for another name."""
    if name not in ("default", "textbook"):
        return None
    kernel = find_kernel(problem.workload.kernel)
    return starts_of(generator, kernel, problem)[name]


def measure(
    problem: Problem,
    config: Config,
    *,
    generator: str = "halide",
    measurer: str = "qemu",
    on: str = "",
    cache: CacheState = "warm",
    roster: Roster | None = None,
) -> tuple[Trial, Artifact | None]:
    """Compiles, verifies and times one config, without a job and without storing anything.

    ``on`` and ``roster`` as in :func:`tuner.tuning.plan`.

    ``config`` must be a point of the problem's space (``Space.config`` makes sure). Returns a
    trial numbered 0 with its outcome, and if it compiled the artifact that was measured, with
    assembly as near to it as the compiler gives it (none if that takes too long).
    """
    from tuner.executor.evaluation import Evaluator

    with (
        find_generator(generator)(1) as codegen,
        open_measurer(measurer, cache, DeviceAccess(on, roster)) as device,
    ):
        device.require(problem.target)
        candidate = Candidate(problem, config, generator)
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
    problem: Problem, config: Config, *, generator: str = "halide", with_assembly: bool = False
) -> Artifact:
    """The code of one config for any target, whether or not it could be run here.

    Raises ``CandidateError`` if the compiler refuses it, fails or takes too long.
    """
    with find_generator(generator)(1) as codegen:
        return codegen.compile(Candidate(problem, config, generator), with_assembly=with_assembly)


def explain(
    problem: Problem, artifact: Artifact, *, measurer: str = "qemu", cache: CacheState = "warm"
) -> Explanation:
    """Runs a compiled config once more and says where its cycles go.

    Raises ``UserError`` if the measurer cannot tell, ``CandidateError`` if the candidate is bad.
    """
    with open_measurer(measurer, cache=cache) as device:
        return device.explain(problem, artifact)
