"""The costs that nobody has published, the box of values that they may have, and cycles over it.

A cost is uncertain if the model's file calls it ``assumed``, or ``calibrated`` with an interval.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tuner.measure.qemu.cycles import Floats
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.model import (
    Parameters,
    ParameterSpec,
    ParameterSpecs,
    find_model,
    model_path,
    parameters_of,
)
from tuner.measure.qemu.predictor import Observation, Predictor

POINTS = 256
"""Points of the box that are looked at."""
_SEED = 18
_INTERVAL = re.compile(r"\+- ([0-9.]+(?:e[+-]?\d+)?) at 95 % confidence")
"""As calibration writes it into the source of a cost."""


def fittable(specs: ParameterSpecs) -> list[str]:
    """The parameters whose values nobody has published: assumed, or calibrated before."""
    return [
        name
        for name, spec in specs.items()
        if spec.source.startswith(("assumed", "calibrated")) and spec.low < spec.high
    ]


def plausible(spec: ParameterSpec) -> tuple[float, float]:
    """From where to where a cost may be: its confidence interval if it was calibrated, else its
    bounds."""
    found = _INTERVAL.search(spec.source)
    if found is None:
        return spec.low, spec.high
    half = float(found[1])
    return max(spec.low, spec.value - half), min(spec.high, spec.value + half)


def box(specs: ParameterSpecs, names: Sequence[str], points: int) -> list[Parameters]:
    """Costs at ``points`` points of the box that ``names`` span, always the same ones.

    A Latin hypercube (McKay, Beckman and Conover 1979): each cost takes every part of its range
    equally often. Costs without a name there are those of ``specs``.
    """
    # Unlike a Generator's, the stream of a RandomState is the same in all versions of NumPy.
    random = np.random.RandomState(_SEED)
    columns = []
    for name in names:
        low, high = plausible(specs[name])
        columns.append(low + (high - low) * (random.permutation(points) + 0.5) / points)
    given = parameters_of(specs)
    rows = np.array(columns).T.tolist()
    return [replace(given, **dict(zip(names, row, strict=True))) for row in rows]


def along(specs: ParameterSpecs, name: str, steps: int) -> list[Parameters]:
    """Costs at ``steps`` values of ``name`` from end to end of its range; the others are those of
    ``specs``."""
    given = parameters_of(specs)
    values = np.linspace(*plausible(specs[name]), steps).tolist()
    return [replace(given, **{name: value}) for value in values]


@dataclass(frozen=True)
class Plausible:
    """Model cycles over the box: their mean, least and most; ``None`` if nothing is assumed."""

    expected: int | None = None
    lowest: int | None = None
    highest: int | None = None


def is_assumed(arch: str) -> bool:
    """Whether the timing model of ``arch`` has costs that nobody has published."""
    return bool(fittable(find_model(arch).specs))


def plausible_costs(arch: str) -> tuple[Parameters, ...]:
    """The costs at :data:`POINTS` points of the box of ``arch``, if anything is assumed."""
    return _costs(str(model_path(arch)), arch)


@lru_cache(maxsize=16)
def _costs(path: str, arch: str) -> tuple[Parameters, ...]:
    """The points of the box of the model at ``path``."""
    specs = find_model(arch).specs
    return tuple(box(specs, fittable(specs), POINTS))


def priced(events: Events, arch: str, contexts: int) -> Floats:
    """Model cycles of one call at each of :data:`POINTS` points of the box: shape (points,)."""
    costs = plausible_costs(arch)
    found: Floats = Predictor([Observation(0, "", 1.0, events, contexts)]).cycles(costs)[0]
    return found


def plausible_cycles(events: Events, arch: str, contexts: int) -> Plausible:
    """What ``events`` may cost."""
    if not is_assumed(arch):
        return Plausible()
    cycles = priced(events, arch, contexts)
    return Plausible(round(cycles.mean()), round(cycles.min()), round(cycles.max()))
