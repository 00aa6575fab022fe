"""How far the best of a job lies from the roofline. What its cycles go into follows from the events
that were counted of it, which do not change: they are read once in a process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from db.sql_store import SqlStore
from service.json_forms import job_roofline
from tuner.jobs.distance import distance_of

if TYPE_CHECKING:
    from tuner.jobs.distance import Distance
    from tuner.records.trial import Job, Trial

_KEPT = 256
"""Jobs whose events are kept."""


def distance_of_best(store: SqlStore, job: Job, best: Trial | None) -> Distance | None:
    """That of the trial ``best``; ``None`` without one, or if its kernel is not known here."""
    roofline = job_roofline(job)
    if best is None or best.measurement is None or roofline is None:
        return None
    counts = _counts(_Asked(job.id, best.artifact_digest or "", store))
    is_package = job.spec.generator == "package"
    return distance_of(roofline, best.measurement, counts, is_package=is_package)


@dataclass(frozen=True)
class _Asked:
    job: str
    artifact_digest: str
    store: SqlStore = field(compare=False)


@lru_cache(maxsize=_KEPT)
def _counts(asked: _Asked) -> Mapping[str, int]:
    """The events of all stretches of a run, by name; none if nobody kept them."""
    for trial in asked.store.counted_trials(asked.job):
        if trial.artifact_digest == asked.artifact_digest and trial.event_counts is not None:
            total = Counter[str]()
            for stretch in trial.event_counts["counts"]:
                total.update(stretch)
            return total
    return {}
