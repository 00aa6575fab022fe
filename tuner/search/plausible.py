"""Trials priced all over the box of plausible costs, while a search goes on.

:mod:`tuner.search.doubt` prices a whole job once it has ended.
"""

from __future__ import annotations

from tuner.measure.qemu.cycles import Floats
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.uncertain import priced
from tuner.problem.target import Target
from tuner.records.trial import Trial


class PlausibleCosts:
    """Prices measurements for one target. One of the same object is priced once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[str, Floats] = {}

    def cycles(self, trial: Trial) -> Floats | None:
        """Model cycles at each point of the box; ``None`` if the events of ``trial`` were not
        counted."""
        digest, measured = trial.artifact_digest, trial.measurement
        if digest is None or measured is None or measured.event_counts is None:
            return None
        if digest not in self._known:
            try:
                events = Events.from_dict(measured.event_counts)
            except KeyError:  # an event that this version does not count
                return None
            self._known[digest] = priced(events, self._target.arch, self._target.hvx_contexts)
        return self._known[digest]
