"""Whether an algorithm means the same on this machine and on the target."""

from __future__ import annotations

from tuner.errors import UserError
from tuner.records.candidate import Problem
from tuner.records.outcome import Outcome
from tuner.records.trial import Trial
from tuner.space import Config


class DisagreementError(UserError):
    """Code without any schedule gives other values than the reference: nothing can be tuned."""


def require_agreement(problem: Problem, naive: Config | None, trial: Trial) -> None:
    """``DisagreementError`` if ``trial`` shows that compiled code and reference differ.

    ``naive`` is the config without any schedule, ``None`` where there is none.
    """
    if naive is None or trial.config != naive or trial.outcome is not Outcome.WRONG_OUTPUT:
        return
    raise DisagreementError(
        f"{problem.workload.kernel} cannot be tuned: without any schedule its code "
        f"for {problem.target.name} gives other values than on this machine: {trial.error}",
        accepted="pipelines that Halide compiles alike for both",
        next_step="change the stage that differs, such as one that reads beyond its bounds",
    )
