"""Plain records of promotions: trials whose objects were measured again at a higher fidelity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.records.candidate import Measurement
from tuner.records.outcome import Outcome

DEFAULT_PROMOTIONS = 10
MOST_PROMOTIONS = 1000
"""Of one job."""


@dataclass(frozen=True)
class Promotion:
    """The object of an ``ok`` trial, measured once more where numbers are dearer and truer.

    ``trial`` is the trial's number; of each trial there is at most one promotion. Without an
    ``outcome`` it was handed out and has not come back: it is run again, once, after a crash.
    ``measurement`` is there exactly for outcome ``ok``. ``toolchain`` is the whole fingerprint of
    what made the object and measured it here. Times are Unix seconds.
    """

    trial: int
    toolchain: Mapping[str, str] = field(hash=False)
    outcome: Outcome | None = None
    measurement: Measurement | None = None
    error: str | None = None
    started_at: float = 0.0
    finished_at: float | None = None

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) != (self.measurement is not None):
            raise ValueError(f"promotion of trial {self.trial}: {self.outcome}, its measurement")
        if self.measurement is not None and not self.measurement.verified:
            raise ValueError(f"promotion of trial {self.trial}: unverified")
        if (self.outcome is None) != (self.finished_at is None):
            raise ValueError(f"promotion of trial {self.trial}: {self.outcome}, when it finished")
