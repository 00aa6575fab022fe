"""The failures of a job, by cause: what failed most, how often, why, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tuner.records.outcome import Outcome

EXPECTED = (Outcome.OK, Outcome.CUTOFF)
"""Outcomes that are no failures: a search cuts off what is slow."""
MOST_CAUSES = 3
_NUMBER = re.compile(r"-?\d[\d,.]*")
_STEPS: Mapping[Outcome, str] = {
    Outcome.INFEASIBLE: "leave out the values that do not fit, or choose a target that has more",
    Outcome.COMPILE_ERROR: "mend what the compiler names, or leave out the values that lead there",
    Outcome.COMPILER_CRASH: "leave out the values of knobs that these trials share",
    Outcome.TIMEOUT: "leave out the values of knobs that these trials share",
    Outcome.WRONG_OUTPUT: "mend the code or its reference, or leave out the values that they share",
    Outcome.RUN_ERROR: "mend the code, which touches what is not its own or gives up",
    Outcome.DEVICE_ERROR: "see what `hvxtune farm list` says of the devices",
}


class FailedTrial(NamedTuple):
    """A trial by its number, with its outcome and error."""

    number: int
    outcome: Outcome
    error: str


@dataclass(frozen=True)
class Failure:
    """``count`` trials that ended with ``outcome`` for one cause. ``reason`` is the error of the
    first of them, ``trial``."""

    outcome: Outcome
    count: int
    reason: str
    trial: int
    next_step: str

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "outcome": self.outcome.value}


def commonest(trials: Iterable[FailedTrial]) -> list[Failure]:
    """The causes of most failures among ``trials``, :data:`MOST_CAUSES` at most. Errors that differ
    in numbers, or in the case that they show in, are of one cause."""
    found: dict[tuple[Outcome, str], list[FailedTrial]] = {}
    for trial in trials:
        if trial.outcome not in EXPECTED:
            cause = _NUMBER.sub("#", trial.error.partition(" (")[0])
            found.setdefault((trial.outcome, cause), []).append(trial)
    ranked = sorted(found.values(), key=len, reverse=True)[:MOST_CAUSES]
    return [_failure(*alike) for alike in ranked]


def _failure(first: FailedTrial, *alike: FailedTrial) -> Failure:
    step = _STEPS[first.outcome]
    return Failure(first.outcome, 1 + len(alike), first.error, first.number, step)
