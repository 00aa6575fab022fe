"""The costs that nobody has published, and the box of values that they may have.

A cost is uncertain if the model's file calls it ``assumed``, or ``calibrated`` with an interval.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuner.measure.qemu.model import Parameters, ParameterSpec, ParameterSpecs, parameters_of

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
