"""Trials priced all over the box of plausible costs, while a search goes on.

:mod:`tuner.search.doubt` says what the box is, and prices a whole job once it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tuner.measure.qemu.cycles import Floats
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.model import Parameters, find_model, parameters_of
from tuner.measure.qemu.predictor import Observation, Predictor
from tuner.measure.qemu.uncertain import box, fittable
from tuner.problem.objectives import figures_of
from tuner.problem.target import Target
from tuner.records.candidate import Measurement
from tuner.records.trial import JobSpec, Trial
from tuner.search.doubt import POINTS, ROUNDED


class PlausibleCosts:
    """Prices measurements for one target. One of the same object is priced once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[str, Floats] = {}

    @cached_property
    def _costs(self) -> Sequence[Parameters]:
        """The model's own costs, then the points of the box."""
        specs = find_model(self._target.arch).specs
        return [parameters_of(specs), *box(specs, fittable(specs), POINTS)]

    def cycles(self, trial: Trial) -> Floats | None:
        """Model cycles at each point of the box; ``None`` if the events of ``trial`` were not
        counted, or its cycles are not those of the timing model in use here."""
        digest, measured = trial.artifact_digest, trial.measurement
        if digest is None or measured is None or measured.event_counts is None:
            return None
        if digest not in self._known:
            found = self._priced(measured)
            if found is None:
                return None
            self._known[digest] = found
        return self._known[digest]

    def _priced(self, measured: Measurement) -> Floats | None:
        try:
            events = Events.from_dict(measured.event_counts or {})
        except KeyError:  # an event that this version does not count
            return None
        seen = Observation(0, "", float(measured.cycles), events, self._target.hvx_contexts)
        priced = Predictor([seen]).cycles(self._costs)[0]
        return priced[1:] if abs(priced[0] - measured.cycles) <= ROUNDED else None


def robust_figure(priced: Floats) -> float:
    """The geometric mean of cycles over the box: what is least for a robust schedule.

    The robust schedule has the least mean loss against the fastest at each point
    (:class:`tuner.search.doubt.Robust`), which changes with every trial that is the fastest
    somewhere; a sampler needs a figure that stays. ``mean(log(cycles / fastest))`` is the
    logarithm of this one, less what is the same for all trials, and for small losses ``log(cycles
    / fastest)`` is the loss.
    """
    return float(np.exp(np.log(priced).mean()))


class Told:
    """The figures of a trial that a job's search is told to minimize (:data:`FiguresOf`)."""

    def __init__(self, spec: JobSpec, costs: PlausibleCosts) -> None:
        self._objectives = spec.objectives
        self._costs = costs if spec.prefer == "robust" else None

    def __call__(self, trial: Trial) -> tuple[float, ...] | None:
        """The objectives' figures of its measurement, but the :func:`robust_figure` of a job that
        prefers a robust schedule; cycles where no events were counted."""
        if self._costs is not None:
            priced = self._costs.cycles(trial)
            if priced is not None:
                return (robust_figure(priced),)
        return figures_of(trial.measurement, self._objectives)
