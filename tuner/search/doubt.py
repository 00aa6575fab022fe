"""How far the choice of a job's best rests on what the timing model assumes.

Cycles follow from counted events and from costs, some of which nobody has published: the model's
file gives bounds for them, or a confidence interval. The events do not depend on the costs, so all
schedules of a job can be priced again, without another run, at points all over that box of
plausible costs. That tells how often the best would still be the best, which schedules are as good,
and which one cost decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.measure.qemu.cycles import Floats
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.model import ParameterSpecs, find_model, parameters_of
from tuner.measure.qemu.predictor import Observation, Predictor
from tuner.measure.qemu.uncertain import POINTS, along, box, fittable

if TYPE_CHECKING:
    from tuner.problem.target import Target
    from tuner.records.trial import CountedTrial

_STEPS = 65
"""Values of a cost that is varied alone."""
TIE = 0.02
"""Cycles that differ by less, as a share, are told as equal."""
_MOSTLY = 0.95
"""Share of the points at which two schedules are equal, for them to be called tied."""
_LIKELY = 0.5
"""Share of the points at which the best is within ``TIE``, for it to be called likely."""
_SELDOM = 0.05
"""Share of the points at which a schedule is the fastest, for it to be a rival."""
ROUNDED = 64
"""Cycles by which stored and recomputed ones may differ: each cause is rounded up."""

UNITS: Mapping[str, str] = {
    "ddr_bandwidth": "bytes a model cycle",
    "l2_bandwidth": "lines a model cycle",
}
"""Of costs that are not in model cycles."""


@dataclass(frozen=True)
class Rival:
    """The trial ``trial`` is the fastest at ``share`` of the points."""

    trial: int
    share: float


@dataclass(frozen=True)
class Hinge:
    """The cost that decides more than any other, if it is varied alone.

    ``assumed`` is its value in the model, in ``unit``. On the ``side`` (``above`` or ``below``) of
    ``threshold`` ``trial`` is faster than the best all the way to the bound, at which it saves the
    share ``gain`` of the cycles.
    """

    cost: str
    unit: str
    assumed: float
    side: str
    threshold: float
    trial: int
    gain: float


@dataclass(frozen=True)
class Robust:
    """The schedule that loses least over the box: ``mean_loss`` is the mean share of cycles by
    which it is slower than the fastest at a point, ``near_share`` the share of points at which that
    is at most ``TIE``. ``more_cycles`` is by what share it is slower than the fastest at the
    model's own costs."""

    trial: int
    mean_loss: float
    near_share: float
    more_cycles: float


@dataclass(frozen=True)
class Doubt:
    """How the ``trial`` that is the best of a job fares at ``points`` of the box.

    ``schedules`` are the different objects it is compared with, itself included; ``costs`` the
    names of those that are varied. At ``best_share`` of the points none is faster, at
    ``near_share`` it takes at most ``TIE`` more cycles than the fastest. ``mean_loss`` and
    ``worst_loss`` are the shares of cycles by which it is slower. ``tied`` trials take the same
    cycles to within ``TIE`` nearly everywhere; ``rivals`` are the fastest somewhere, the most
    frequent first. Without a ``hinge`` no cost alone makes it lose more than ``TIE``.
    """

    trial: int
    schedules: int
    points: int
    costs: tuple[str, ...]
    best_share: float
    near_share: float
    mean_loss: float
    worst_loss: float
    tied: tuple[int, ...]
    rivals: tuple[Rival, ...]
    hinge: Hinge | None
    robust: Robust

    @property
    def verdict(self) -> str:
        """How sure the choice is, in a few words for people: told first, before any figure."""
        word = "not sure"
        if self.near_share >= _LIKELY:
            word = "sure" if self.near_share >= _MOSTLY else "likely"
        others = len(self.tied)
        return f"{word}, close to {others} other{'s'[: others > 1]}" if others else word

    @property
    def sentence(self) -> str:
        """All that matters, for people: the only place that words it."""
        best, near = _percent(self.best_share), _percent(self.near_share)
        where = f"at {best} of the plausible costs, within {_percent(TIE)} of the fastest at {near}"
        told = [f"{self.verdict}: the fastest {where}"]
        if self.trial == self.robust.trial and self.robust.more_cycles > 0:
            more = f"{100 * self.robust.more_cycles:.1f} %"
            told.append(f"at the assumed costs it takes {more} more cycles than the fastest")
        at = self.hinge
        if at is None:
            told.append(f"no single cost makes it lose more than {_percent(TIE)}")
        else:
            told.append(
                f"trial {at.trial} is up to {_percent(at.gain)} faster if {at.cost} is {at.side} "
                f"{at.threshold:.3g} {at.unit} ({at.assumed:.3g} assumed)"
            )
        if self.tied:
            takes = "take" if len(self.tied) > 1 else "takes"
            told.append(f"{_listed(self.tied)} {takes} as long")
        return "; ".join(told)

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"known": True, "reason": "", "sentence": self.sentence, **_rounded(asdict(self))}


@dataclass(frozen=True)
class Unknown:
    """Nothing can be told, and ``reason`` says why."""

    reason: str
    sentence: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON form: that of a :class:`Doubt`, with null for all that is not known."""
        return {"known": False, **asdict(self), **dict.fromkeys(one.name for one in fields(Doubt))}


NO_COUNTS = "the events of some trials are not stored"
OTHER_COSTS = "measured with another timing model than the one in use here"
OTHER_TRIAL = "the schedule is not among the trials of its job that the timing model measured"
NO_JOB = "the job of the schedule is not stored here"


def doubt_of(
    trials: Sequence[CountedTrial],
    target: Target,
    trial: int | None = None,
) -> Doubt | Unknown | None:
    """The doubt about the best of ``trials``, or about the one with the number ``trial``.

    Without ``trial`` the best is the one that takes the fewest cycles. ``trials`` are those of one
    job for ``target`` (:meth:`tuner.keeping.store.TrialStore.counted_trials`).
    ``None`` if the timing model assumes nothing, or measured nothing and no ``trial`` is named.
    """
    specs = find_model(target.arch).specs
    names = fittable(specs)
    if not names or not (trials or trial is not None):
        return None
    if not trials:
        return Unknown(OTHER_TRIAL)
    if any(one.event_counts is None for one in trials):
        return Unknown(NO_COUNTS)
    by_object: dict[str, CountedTrial] = {}
    for one in sorted(trials, key=lambda one: one.number):
        by_object.setdefault(one.artifact_digest, one)
    known = list(by_object.values())
    try:
        predictor = Predictor([_observed(one, target.hvx_contexts) for one in known])
    except KeyError:  # an event that this version does not count
        return Unknown(OTHER_COSTS)
    stored = np.array([one.cycles for one in known])
    nominal = predictor.cycles([parameters_of(specs)])[:, 0]
    if np.any(np.abs(nominal - stored) > ROUNDED):
        return Unknown(OTHER_COSTS)
    if trial is None:
        best = int(np.argmin(stored))
    else:
        digest = next((one.artifact_digest for one in trials if one.number == trial), "")
        if digest not in by_object:
            return Unknown(OTHER_TRIAL)
        best = list(by_object).index(digest)
    numbers = [one.number for one in known]
    return judged(predictor, specs, names, numbers, best)


def _observed(one: CountedTrial, contexts: int) -> Observation:
    events = Events.from_dict(one.event_counts or {})
    return Observation(one.number, one.artifact_digest, float(one.cycles), events, contexts)


def judged(
    predictor: Predictor,
    specs: ParameterSpecs,
    names: Sequence[str],
    numbers: Sequence[int],
    best: int,
) -> Doubt:
    """The doubt about the schedule at position ``best`` of those in ``predictor``, whose trials
    have ``numbers``, if the costs ``names`` are anywhere in the box of ``specs``."""
    cycles = predictor.cycles(box(specs, names, POINTS))
    loss = cycles / cycles.min(axis=0) - 1
    fastest = cycles <= cycles.min(axis=0) * (1 + 1e-9)
    near = (loss <= TIE).mean(axis=1)
    mean_loss = loss.mean(axis=1)
    nominal = predictor.cycles([parameters_of(specs)])[:, 0]
    robust = int(np.lexsort((nominal, mean_loss))[0])
    alike = (np.abs(cycles / cycles[best] - 1) <= TIE).mean(axis=1) >= _MOSTLY
    shares = fastest.mean(axis=1)
    others = [i for i in np.argsort(-shares, kind="stable").tolist() if i != best]
    return Doubt(
        trial=numbers[best],
        schedules=len(numbers),
        points=cycles.shape[1],
        costs=tuple(names),
        best_share=float(shares[best]),
        near_share=float(near[best]),
        mean_loss=float(mean_loss[best]),
        worst_loss=float(loss[best].max()),
        tied=tuple(numbers[i] for i in np.flatnonzero(alike).tolist() if i != best),
        rivals=tuple(Rival(numbers[i], float(shares[i])) for i in others if shares[i] >= _SELDOM),
        hinge=_hinge(predictor, specs, names, numbers, best),
        robust=Robust(
            numbers[robust],
            float(mean_loss[robust]),
            float(near[robust]),
            float(nominal[robust] / nominal.min() - 1),
        ),
    )


def _hinge(
    predictor: Predictor,
    specs: ParameterSpecs,
    names: Sequence[str],
    numbers: Sequence[int],
    best: int,
) -> Hinge | None:
    """The cost with the largest mean loss of the best over its range, of those by which it loses
    more than ``TIE`` at a bound. Costs that make no difference do not count: a robust best may be
    slower than the fastest whatever their value."""
    nominal = predictor.cycles([parameters_of(specs)])[:, 0]
    own = nominal[best] / nominal.min() - 1
    found, most = None, 0.0
    for name in names:
        costs = along(specs, name, _STEPS)
        cycles = predictor.cycles(costs)
        loss = cycles[best] / cycles.min(axis=0) - 1
        end = -1 if loss[-1] >= loss[0] else 0
        if loss[end] - min(own, loss.min()) <= TIE or loss.mean() <= most:
            continue
        most = float(loss.mean())
        winner = int(np.argmin(cycles[:, end]))
        found = Hinge(
            cost=name,
            unit=UNITS.get(name, "model cycles"),
            assumed=specs[name].value,
            side="above" if end else "below",
            threshold=_crossing(
                np.array([getattr(one, name) for one in costs]), cycles[winner] - cycles[best], end
            ),
            trial=numbers[winner],
            gain=float(1 - cycles[winner, end] / cycles[best, end]),
        )
    return found


def _crossing(values: Floats, lead: Floats, end: int) -> float:
    """The value from which on to the ``end`` (0 or -1) ``lead`` is negative; linear between the
    steps."""
    if end == 0:
        values, lead = values[::-1], lead[::-1]
    behind = np.flatnonzero(lead >= 0)
    if not len(behind):
        return float(values[0])
    last = int(behind[-1])
    share = lead[last] / (lead[last] - lead[last + 1])
    return float(values[last] + share * (values[last + 1] - values[last]))


def _listed(trials: Sequence[int]) -> str:
    """At most three numbers of trials, and how many more there are."""
    more = len(trials) - 3
    numbers = ", ".join(map(str, trials[:3])) + (f" and {more} more" if more > 0 else "")
    return f"{'trial' if len(trials) == 1 else 'trials'} {numbers}"


def _percent(share: float) -> str:
    """Whole percent; 100 only for all."""
    return f"{min(round(100 * share), 99 if share < 1 else 100)} %"


def _rounded(value: Any) -> Any:
    """``value`` with shares and costs to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, tuple | list) else value
