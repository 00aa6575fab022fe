"""One call of the driver on a DSP, phone's or simulator's: what goes into it and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.measure.dsp.problem_image import ProblemImage
from tuner.measure.dsp.results import Results


@dataclass(frozen=True)
class Turn:
    """One entry of a call. ``verified`` runs all cases and brings back what memory became; else
    only the first case is run and timed."""

    content: bytes = field(repr=False)
    image: ProblemImage
    warm_ups: int
    repeats: int
    budget_cycles: int = 0
    verified: bool = True


@dataclass(frozen=True)
class Called:
    """What came of a call. ``sums`` hold the SHA-256 of what each verified turn left, by its
    number; ``wrong`` what those left whose sum is not the expected one. ``timed_out`` if the turn
    under way was ended because it took too long."""

    results: Results
    sums: Mapping[int, str]
    wrong: Mapping[int, bytes]
    status: int
    said: str
    timed_out: bool
    temperature_c: float | None
    run_s: float
    counters: Mapping[str, int] = field(default_factory=dict, hash=False)
    """What a simulator counted in the whole run, from boot to end, by the names it has for it."""
