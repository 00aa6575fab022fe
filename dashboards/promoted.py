"""The outcomes of the trials that a job promoted, as its page shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dashboards.charts.log_plots import Scatter, scatter
from db.jobs.trials import PromotedTrials
from tuner.measure.statistics import Interval, median_interval
from tuner.records.candidate import Measurement
from tuner.search.ladder import pairs_of
from tuner.search.ranking import Agreement, agreement


@dataclass(frozen=True)
class PromotedTrial:
    """A trial at both fidelities. Ranks, from 1, are among those that have cycles at both.

    ``interval`` holds the median of the promotion's samples, where there are several.
    """

    number: int
    state: str
    searched: Measurement | None
    searched_rank: int | None
    promoted: Measurement | None
    promoted_rank: int | None
    interval: Interval | None
    error: str | None


@dataclass(frozen=True)
class Promoted:
    """All of them, the fastest there first, and how far both fidelities agree."""

    trials: tuple[PromotedTrial, ...]
    ended: int
    agreement: Agreement
    scatter: Scatter | None


def promoted_view(found: PromotedTrials) -> Promoted:
    """The view of ``found``."""
    pairs = pairs_of(found.trials, found.promotions)
    searched = _ranks((pair.low.cycles, pair.trial) for pair in pairs)
    promoted = _ranks((pair.high.cycles, pair.trial) for pair in pairs)
    low = {trial.number: trial.measurement for trial in found.trials}
    trials = [
        PromotedTrial(
            number=one.trial,
            state="under way" if one.outcome is None else one.outcome.value,
            searched=low.get(one.trial),
            searched_rank=searched.get(one.trial),
            promoted=one.measurement,
            promoted_rank=promoted.get(one.trial),
            interval=_interval(one.measurement),
            error=one.error,
        )
        for one in found.promotions
    ]
    points = []
    for pair in pairs:
        bounds = _interval(pair.high)
        top = pair.high.cycles
        ends = (bounds.low, bounds.high) if bounds else (top, top)
        points.append((pair.trial, pair.low.cycles, top, *ends))
    return Promoted(
        trials=tuple(sorted(trials, key=lambda one: one.promoted_rank or len(trials) + 1)),
        ended=sum(one.outcome is not None for one in found.promotions),
        agreement=agreement(pairs),
        scatter=scatter(points),
    )


def _ranks(cycles: Iterable[tuple[int, int]]) -> dict[int, int]:
    return {trial: rank for rank, (_, trial) in enumerate(sorted(cycles), 1)}


def _interval(measured: Measurement | None) -> Interval | None:
    if measured is None or len(measured.samples) < 2:
        return None
    return median_interval(measured.net_samples)
