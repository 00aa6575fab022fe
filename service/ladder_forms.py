"""What a job's promotions came to, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from service.json_forms import measurement_json
from tuner.records.promotion import Promotion
from tuner.records.trial import Job, Trial
from tuner.search.ladder import pairs_of
from tuner.search.ranking import agreement


def ladder_json(
    job: Job, trials: Sequence[Trial], promotions: Sequence[Promotion], peak: float
) -> dict[str, Any] | None:
    """Where the job promotes to, each promotion beside its trial's own cycles, and how far both
    agree; ``None`` if it promotes nothing. ``trials`` holds at least those promoted, ``peak`` is
    the cycles at the HVX peak."""
    spec = job.spec
    if not spec.promote_to:
        return None
    by_number = {trial.number: trial for trial in trials}
    return {
        "promote_to": spec.promote_to,
        "promote": spec.promote,
        "promotions": [_promotion(p, by_number[p.trial], peak) for p in promotions],
        "agreement": agreement(pairs_of(trials, promotions)).as_dict(),
    }


def _promotion(promotion: Promotion, trial: Trial, peak: float) -> dict[str, Any]:
    low = trial.measurement
    return {
        "trial": promotion.trial,
        "outcome": None if promotion.outcome is None else promotion.outcome.value,
        **measurement_json(promotion.measurement, peak),
        "trial_cycles": None if low is None else low.cycles,
        "trial_fidelity": None if low is None else low.fidelity,
        "error": promotion.error,
        "started_at": promotion.started_at,
        "finished_at": promotion.finished_at,
    }
