"""The course of a job as few points: as many as a chart of a few hundred pixels can show.

A job of ten thousand trials would send ten thousand points every two seconds. Every improvement is
kept, and of the others a share that is spread like all of them: which trials are left out depends
on their numbers alone, so that a cloud keeps its shape and no dot comes and goes while a job runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from db.jobs.trials import TrialPoint

MOST_DOTS = 900
MOST_FAILED = 300
LONG_BREAK_S = 120.0
_GOLDEN = 2654435769
"""2**32 over the golden ratio: consecutive multiples of it modulo 2**32 are spread evenly (Knuth,
The Art of Computer Programming 3, 6.4)."""

Integers = NDArray[np.int64]


def course(
    points: Sequence[TrialPoint], most: int = MOST_DOTS, most_failed: int = MOST_FAILED
) -> dict[str, Any]:
    """The course of ``points``, which are in the order of finishing.

    Columns ``trial`` (its number, ascending), ``seconds`` (worked until it finished), ``cycles``,
    ``ranked`` (least for the best) and ``best`` (cycles of the best up to that number); ``failed``
    has ``trial``, ``seconds`` and ``outcome`` of those without a measurement. ``total`` and
    ``total_failed`` are how many there are of both, shown or not.
    """
    seconds = worked_seconds(points)
    measured = [i for i, point in enumerate(points) if point.cycles is not None]
    failed = [i for i, point in enumerate(points) if point.cycles is None]
    numbers = np.array([points[i].number for i in measured], np.int64)
    cycles = np.array([points[i].cycles for i in measured], np.int64)
    order = np.argsort(numbers, kind="stable")
    ranked = np.array([points[i].ranked for i in measured], np.int64)
    improves = _improves(ranked[order])
    best = cycles[order][np.maximum.accumulate(np.where(improves, np.arange(len(order)), 0))]
    keep = _share_of(numbers, most)
    keep[order] |= improves
    keep |= _improves(ranked)  # over time: trials in flight together do not finish by number
    if measured:
        keep[[order[0], order[-1], int(cycles.argmax())]] = True
    shown = keep[order]
    lost = [
        failed[i]
        for i in np.flatnonzero(_share_of([points[i].number for i in failed], most_failed))
    ]
    lost.sort(key=lambda i: points[i].number)
    return {
        "total": len(measured),
        "total_failed": len(failed),
        "trial": numbers[order][shown].tolist(),
        "seconds": [round(seconds[measured[i]], 2) for i in order[shown]],
        "cycles": cycles[order][shown].tolist(),
        "ranked": ranked[order][shown].tolist(),
        "best": best[shown].tolist(),
        "failed": {
            "trial": [points[i].number for i in lost],
            "seconds": [round(seconds[i], 2) for i in lost],
            "outcome": [points[i].outcome for i in lost],
        },
    }


def _improves(figures: Integers) -> NDArray[np.bool_]:
    """Which of them are lower than all before."""
    if not len(figures):
        return np.zeros(0, np.bool_)
    before = np.minimum.accumulate(figures)[:-1]
    return np.concatenate([[True], figures[1:] < before])


def _share_of(numbers: Integers | Sequence[int], most: int) -> NDArray[np.bool_]:
    """About ``most`` of them at the most: all, or a half, a quarter, an eighth ..., the smaller
    share always part of the larger."""
    given = np.asarray(numbers, np.uint64)
    share = 1.0
    while len(given) * share > most:
        share /= 2
    kept: NDArray[np.bool_] = (given * np.uint64(_GOLDEN)) % np.uint64(2**32) < share * 2**32
    return kept


def worked_seconds(points: Sequence[TrialPoint]) -> list[float]:
    """For each trial the wall seconds worked when it finished, without breaks: times in which
    no trial ran, such as between two sessions of a job, take no room on the axis."""
    if not points:
        return []
    started = np.array([point.started_at for point in points])
    finished = np.array([point.finished_at for point in points])
    before = np.maximum.accumulate(np.concatenate([[started.min()], finished]))[:-1]
    step = finished - before
    after_break = (step > LONG_BREAK_S) & (started > before)
    step[after_break] = (finished - started)[after_break]
    passed: list[float] = np.cumsum(np.maximum(step, 0.0)).tolist()
    return passed
