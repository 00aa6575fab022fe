"""Headlines: the one rule for what a job's result is told against, behind every "times faster".

A baseline that the user names comes first, then the textbook config. Where both failed or timed out
there is no headline: whatever else was measured is nobody's idea of good code. Nor is code without
any schedule, which everything beats many times over; a textbook that comes to that is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tuner.codegen import find_generator
from tuner.errors import HvxtuneError
from tuner.kernels import find_kernel
from tuner.records.candidate import Cycles
from tuner.records.trial import JobSpec

ORDER = ("baseline", "textbook")
NO_TEXTBOOK = "no textbook: its schedule is the default, unscheduled"
"""Said where :func:`textbook_is_unscheduled`."""


@dataclass(frozen=True)
class Headline:
    """``name`` (of :data:`ORDER`) took ``cycles``, ``speedup`` times those of the best, and over
    the plausible costs ``lowest_cycles`` to ``highest_cycles``, where anything is assumed."""

    name: str
    cycles: int
    speedup: float
    lowest_cycles: int | None = None
    highest_cycles: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "speedup": round(self.speedup, 4)}


def headline(opponents: Mapping[str, Cycles | None], best: Cycles | None) -> Headline | None:
    """The headline of a best with the cycles of ``opponents`` by the names in :data:`ORDER`, of
    those that were measured; ``None`` while there is nothing to tell."""
    for name in ORDER:
        taken = opponents.get(name)
        if taken and best:
            return Headline(
                name,
                taken.cycles,
                taken.cycles / best.cycles,
                taken.lowest_cycles,
                taken.highest_cycles,
            )
    return None


def textbook_is_unscheduled(spec: JobSpec, objects: Mapping[str, str | None]) -> bool:
    """Whether the textbook schedule of a job is its default, which has none: one trial, of origin
    ``default``, was handed out for both, or both are one object.

    ``objects`` are the digests of objects by the origins of trials; ``None`` where none was made.
    """
    if "default" not in objects:
        return False
    same = objects["default"] is not None and objects["default"] == objects.get("textbook")
    one = not {"textbook", "baseline"} & objects.keys()  # either would have come first
    return (same or one) and default_is_naive(spec)


def default_is_naive(spec: JobSpec) -> bool:
    """Whether the job's default config is code without a schedule; so is one of a kernel that
    nobody knows here any more."""
    try:
        kernel = find_kernel(spec.problem.workload.kernel)
        return kernel.default_is_naive or find_generator(spec.generator).default_is_naive
    except HvxtuneError:
        return True
