"""Headlines: the one rule for what a job's result is told against, behind every "times faster".

A baseline that the user names comes first, then the textbook config. Where both failed or timed out
there is no headline: whatever else was measured is nobody's idea of good code. Nor is code without
any schedule, which everything beats many times over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tuner.codegen import find_generator
from tuner.errors import HvxtuneError
from tuner.kernels import find_kernel
from tuner.records.trial import JobSpec

ORDER = ("baseline", "textbook")


@dataclass(frozen=True)
class Headline:
    """``name`` (of :data:`ORDER`) took ``cycles``, ``speedup`` times those of the best."""

    name: str
    cycles: int
    speedup: float

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "speedup": round(self.speedup, 4)}


def headline(spec: JobSpec, cycles: Mapping[str, int | None], best: int | None) -> Headline | None:
    """The headline of a job with these ``cycles`` by names of configs, those that were measured;
    ``None`` while there is nothing to tell.

    ``default`` is never told against. It shows a textbook config that is the default, where that is
    code without a schedule.
    """
    for name in ORDER:
        taken = cycles.get(name)
        if taken and best and not (taken == cycles.get("default") and default_is_naive(spec)):
            return Headline(name, taken, taken / best)
    return None


def default_is_naive(spec: JobSpec) -> bool:
    """Whether the job's default config is code without a schedule; so is one of a kernel that
    nobody knows here any more."""
    try:
        kernel = find_kernel(spec.problem.workload.kernel)
        return kernel.default_is_naive or find_generator(spec.generator).default_is_naive
    except HvxtuneError:
        return True
