"""The course of a job as few points: what a chart of a few hundred pixels can show.

A job of ten thousand trials would send ten thousand points every two seconds; the eye sees the
envelope. Every improvement is kept exactly, and of each stretch of trials its fastest and slowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from db.jobs.trial_queries import TrialPoint

STRETCHES = 240


def course(points: Sequence[TrialPoint], stretches: int = STRETCHES) -> dict[str, Any]:
    """Columns ``order`` (trials finished so far), ``trial`` (its number), ``seconds`` (worked so
    far), ``cycles`` and ``best`` (so far), and ``total``, how many measured trials they stand for.
    In the order of finishing."""
    seconds = worked_seconds(points)
    measured = [
        (order, p.number, s, p.cycles)
        for order, (p, s) in enumerate(zip(points, seconds, strict=True), 1)
        if p.cycles is not None
    ]
    best: list[int] = []
    for *_, cycles in measured:
        best.append(min(cycles, best[-1]) if best else cycles)
    kept = _kept([cycles for *_, cycles in measured], best, stretches)
    return {
        "total": len(measured),
        "finished": len(points),
        "order": [measured[i][0] for i in kept],
        "trial": [measured[i][1] for i in kept],
        "seconds": [round(measured[i][2], 2) for i in kept],
        "cycles": [measured[i][3] for i in kept],
        "best": [best[i] for i in kept],
    }


def _kept(cycles: Sequence[int], best: Sequence[int], stretches: int) -> list[int]:
    count = len(cycles)
    if count <= 2 * stretches:
        return list(range(count))
    kept = {0, count - 1}
    kept.update(i for i in range(1, count) if best[i] < best[i - 1])
    for stretch in range(stretches):
        inside = range(stretch * count // stretches, (stretch + 1) * count // stretches)
        kept.add(min(inside, key=lambda i: cycles[i]))
        kept.add(max(inside, key=lambda i: cycles[i]))
    return sorted(kept)


LONG_BREAK_S = 120.0


def worked_seconds(points: Sequence[TrialPoint]) -> list[float]:
    """For each trial the wall seconds worked when it finished, without breaks: times in which
    no trial ran, such as between two sessions of a job, take no room on the axis."""
    if not points:
        return []
    passed = 0.0
    last = min(point.started_at for point in points)
    seconds = []
    for point in points:
        step = point.finished_at - last
        if step > LONG_BREAK_S and point.started_at > last:
            step = point.finished_at - point.started_at
        passed += max(0.0, step)
        last = max(last, point.finished_at)
        seconds.append(passed)
    return seconds
